//! A network that loses, repeats and reorders messages.

use std::collections::BTreeMap;

use solera_machine::{Address, Topology, Wire};
use solera_random::Random;
use solera_time::SiteId;

use super::procedures::Operation;

type Message = solera_creek::Message<Operation>;

/// A site with its generation.
type Party = (usize, u32);

/// Sender, receiver and content.
pub(crate) type Sent = (Party, Party, Message);

pub(crate) struct Network {
    random: Random,
    topology: Topology,
    /// Messages by time of delivery and number.
    queue: BTreeMap<(u64, u64), Sent>,
    numbers: u64,
    /// Time until which the link between two sites is cut.
    cuts: BTreeMap<(usize, usize), u64>,
    pub(crate) is_faulty: bool,
}

impl Network {
    pub(crate) fn new(seed: u64, topology: Topology) -> Network {
        Network {
            random: Random::new(seed),
            topology,
            queue: BTreeMap::new(),
            numbers: 0,
            cuts: BTreeMap::new(),
            is_faulty: true,
        }
    }

    /// Sends a message at a time in milliseconds. Returns whether it is valid.
    pub(crate) fn send(&mut self, now: u64, from: Party, to: Party, message: &Message) -> bool {
        let address = |(site, _): Party| Address { site: SiteId(site as u8), worker: 0 };
        if !message.validate(address(from), address(to), &self.topology) {
            return false;
        }
        if self.is_cut(now, from.0, to.0) || self.is_faulty && self.random.one_in(25) {
            return true;
        }
        let copies = if self.is_faulty && self.random.one_in(25) { 2 } else { 1 };
        for _ in 0..copies {
            let mut delay = 1 + self.random.below(8);
            if self.is_faulty && self.random.one_in(40) {
                delay += self.random.below(150);
            }
            self.numbers += 1;
            self.queue.insert((now + delay, self.numbers), (from, to, decoded(message)));
        }
        true
    }

    /// Returns the next message that is due.
    pub(crate) fn next(&mut self, now: u64) -> Option<Sent> {
        let (due, _) = *self.queue.first_key_value()?.0;
        if due > now {
            return None;
        }
        self.queue.pop_first().map(|(_, message)| message)
    }

    pub(crate) fn cut(&mut self, a: usize, b: usize, until: u64) {
        for pair in [(a, b), (b, a)] {
            let end = self.cuts.entry(pair).or_default();
            *end = until.max(*end);
        }
    }

    fn is_cut(&self, now: u64, a: usize, b: usize) -> bool {
        self.cuts.get(&(a, b)).is_some_and(|until| now < *until)
    }

    pub(crate) fn heal_all(&mut self) {
        self.cuts.clear();
    }

    pub(crate) fn heal(&mut self) {
        self.heal_all();
        self.is_faulty = false;
    }
}

/// Returns the message as the receiver decodes it.
fn decoded(message: &Message) -> Message {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let (decoded, rest) = Message::decode(message.protocol(), &bytes).unwrap();
    assert_eq!((&decoded, rest), (message, &[][..]));
    decoded
}
