//! A network whose links are FIFO, and lose messages.

use std::collections::BTreeMap;

use solera_machine::Address;
use solera_occult::Message;
use solera_random::Random;
use solera_time::SiteId;

use super::MS;

type Link = (Address, Address);

pub(crate) struct Network {
    random: Random,
    /// Messages by time of delivery and number.
    queue: BTreeMap<(u64, u64), (Link, Message)>,
    numbers: u64,
    /// The last delivery on each link.
    last: BTreeMap<Link, u64>,
    cuts: BTreeMap<(SiteId, SiteId), u64>,
    pub(crate) loses: bool,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Network {
        Network {
            random: Random::new(seed),
            queue: BTreeMap::new(),
            numbers: 0,
            last: BTreeMap::new(),
            cuts: BTreeMap::new(),
            loses: true,
        }
    }

    pub(crate) fn send(&mut self, now: u64, link: Link, body: Message) {
        let (from, to) = link;
        let far = from.site != to.site;
        let is_cut = self.cuts.get(&(from.site, to.site)).is_some_and(|until| now < *until);
        if is_cut || (self.loses && self.random.one_in(200)) {
            return;
        }
        let delay = match far {
            true => 5 * MS + self.random.below(30 * MS),
            false => self.random.below(MS),
        };
        let at = (now + delay).max(self.last.get(&link).copied().unwrap_or(0));
        self.last.insert(link, at);
        self.numbers += 1;
        self.queue.insert((at, self.numbers), (link, body));
    }

    /// Returns the next message that is due.
    pub(crate) fn next(&mut self, now: u64) -> Option<(Address, Address, Message)> {
        let (key, _) = self.queue.first_key_value()?;
        if key.0 > now {
            return None;
        }
        let ((from, to), body) = self.queue.pop_first()?.1;
        Some((from, to, body))
    }

    /// Cuts the links between two sites, in both directions.
    pub(crate) fn cut(&mut self, (a, b): (SiteId, SiteId), until: u64) {
        for pair in [(a, b), (b, a)] {
            self.cuts.insert(pair, until);
        }
        self.queue.retain(|_, ((from, to), _)| {
            (from.site, to.site) != (a, b) && (from.site, to.site) != (b, a)
        });
    }

    /// Drops all messages from and to a process that has ended.
    pub(crate) fn drop_all(&mut self, of: Address) {
        self.queue.retain(|_, ((from, to), _)| *from != of && *to != of);
    }
}
