//! A network that loses, repeats and reorders messages.

use std::collections::BTreeMap;

use solera_random::Random;
use solera_reservations::Message;

use super::MS;

/// A message on its way: its sender with the generation, its receiver, and the content.
type Sent = ((usize, u32), usize, Message);

pub(crate) struct Network {
    random: Random,
    /// Messages by time of delivery and number.
    queue: BTreeMap<(u64, u64), Sent>,
    numbers: u64,
    /// Time until which the link between two sites is cut.
    cuts: BTreeMap<(usize, usize), u64>,
    pub(crate) loses: bool,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Network {
        Network {
            random: Random::new(seed),
            queue: BTreeMap::new(),
            numbers: 0,
            cuts: BTreeMap::new(),
            loses: true,
        }
    }

    pub(crate) fn send(
        &mut self,
        now: u64,
        (from, generation): (usize, u32),
        to: usize,
        message: &Message,
    ) {
        if self.is_cut(now, from, to) || self.loses && self.random.one_in(20) {
            return;
        }
        let copies = if self.loses && self.random.one_in(20) { 2 } else { 1 };
        for _ in 0..copies {
            let mut delay = MS + self.random.below(8 * MS);
            if self.loses && self.random.one_in(30) {
                delay += self.random.below(200 * MS);
            }
            self.numbers += 1;
            self.queue
                .insert((now + delay, self.numbers), ((from, generation), to, message.clone()));
        }
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

    pub(crate) fn is_cut(&self, now: u64, a: usize, b: usize) -> bool {
        self.cuts.get(&(a, b)).is_some_and(|until| now < *until)
    }

    /// Ends all cuts of a site.
    pub(crate) fn connect(&mut self, site: usize) {
        self.cuts.retain(|(a, b), _| *a != site && *b != site);
    }

    pub(crate) fn heal(&mut self) {
        self.cuts.clear();
        self.loses = false;
    }
}
