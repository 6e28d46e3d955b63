//! The strong history: it orders the changes of the record.

use std::collections::BTreeMap;

use solera_machine::{AskId, PartitionId};
use solera_random::Random;
use solera_reservations::{Answer, Change, Version};

use super::MS;

/// A version: its partition, the version before it, its number, the version from which its change
/// was derived, the change.
pub(crate) type Logged = (PartitionId, Version, Version, Version, Change);

struct Pending {
    partition: PartitionId,
    site: usize,
    process: u64,
    ask: AskId,
    read: Version,
    change: Change,
    /// Whether the site was answered that the outcome is unknown.
    given_up: bool,
}

pub(crate) struct Strong {
    random: Random,
    /// All versions of all partitions.
    pub(crate) log: Vec<Logged>,
    last: BTreeMap<PartitionId, Version>,
    /// Transactions and answers by time and number.
    pending: BTreeMap<(u64, u64), Pending>,
    answers: BTreeMap<(u64, u64), (usize, u64, AskId, Answer)>,
    numbers: u64,
}

impl Strong {
    pub(crate) fn new(seed: u64) -> Strong {
        Strong {
            random: Random::new(seed),
            log: Vec::new(),
            last: BTreeMap::new(),
            pending: BTreeMap::new(),
            answers: BTreeMap::new(),
            numbers: 0,
        }
    }

    pub(crate) fn ask(
        &mut self,
        now: u64,
        (site, process, ask): (usize, u64, AskId),
        (partition, read, change): (PartitionId, Version, Change),
        faults: bool,
    ) {
        self.numbers += 1;
        let mut due = now + 3 * MS + self.random.below(12 * MS);
        let given_up = faults && self.random.one_in(40);
        if given_up {
            due += self.random.below(200 * MS);
            self.answers
                .insert((now + 10 * MS, self.numbers), (site, process, ask, Answer::Unknown));
        }
        let pending = Pending { partition, site, process, ask, read, change, given_up };
        self.pending.insert((due, self.numbers), pending);
    }

    /// Orders what is due. A transaction of a site that is cut off waits.
    pub(crate) fn order(&mut self, now: u64, is_cut_off: impl Fn(usize) -> bool) {
        let due: Vec<(u64, u64)> =
            self.pending.range(..=(now, u64::MAX)).map(|(at, _)| *at).collect();
        for at in due {
            let Some(pending) = self.pending.remove(&at) else { continue };
            if is_cut_off(pending.site) {
                self.pending.insert((now + MS, at.1), pending);
                continue;
            }
            let partition = pending.partition;
            let last = self.last.get(&partition).copied().unwrap_or_default();
            let version = Version(last.0 + 1 + self.random.below(3));
            self.last.insert(partition, version);
            let (read, change) = (pending.read, pending.change);
            if std::env::var("LOG").is_ok() {
                println!("{} ms: site {}: {version:?} {change:?}", now / MS, pending.site);
            }
            self.log.push((partition, last, version, read, change));
            let answer = Answer::Decided(version);
            if !pending.given_up {
                let arrives = now + MS + self.random.below(5 * MS);
                self.answers
                    .insert((arrives, at.1), (pending.site, pending.process, pending.ask, answer));
            }
        }
    }

    /// Returns the next answer that is due: site, process, question.
    pub(crate) fn next_answer(&mut self, now: u64) -> Option<(usize, u64, AskId, Answer)> {
        let (due, _) = *self.answers.first_key_value()?.0;
        if due > now {
            return None;
        }
        self.answers.pop_first().map(|(_, answer)| answer)
    }
}
