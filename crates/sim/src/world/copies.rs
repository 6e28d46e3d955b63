//! Older copies of disks: checks that a worker that has just started rejects every copy that lacks
//! data that its original had sent.
//!
//! A copy of a disk from the start of a process has everything that the process had recovered then.
//! Each start of a worker therefore adds such a copy. Each later start of another worker checks all
//! copies: this worker then knows only the data on its own disk.

use std::collections::{BTreeMap, VecDeque};

use solera_links::Run;
use solera_machine::Address;
use solera_site::Message;
use solera_time::{Origin, Timestamp};

use super::{World, WorldEvent};
use crate::queue::MS;

/// Time after which a worker's journal holds a time that it has received, in nanoseconds.
const RECORDED_AFTER: u64 = 2_000 * MS;

/// A worker, and another that sends it times.
type Pair = (Address, Address);

/// Times that workers have received, and the copies of disks.
#[derive(Default)]
pub(super) struct Copies {
    /// Extent of each copy: the clock of each process of a worker when it began, by the generation
    /// of the worker's site.
    remembered: BTreeMap<(Address, u32), Vec<Timestamp>>,
    sent: BTreeMap<Pair, SentTimes>,
    /// Time at which the sync of each worker's journal began.
    submitted: BTreeMap<Address, u64>,
}

/// The times of its own that one worker has sent to another in the present generation of its site.
#[derive(Default)]
struct SentTimes {
    generation: u32,
    /// The latest time.
    latest: Timestamp,
    /// The latest time on the receiver's disk.
    durable: Timestamp,
    /// Later times, each with the time of its arrival.
    recent: VecDeque<(u64, Timestamp)>,
}

impl SentTimes {
    fn in_generation(&mut self, generation: u32) -> &mut SentTimes {
        if self.generation != generation {
            *self = SentTimes { generation, ..SentTimes::default() };
        }
        self
    }
}

impl Copies {
    /// Records that a process of a worker begins.
    pub(super) fn begin(&mut self, worker: Address, generation: u32, run: Run) {
        self.remembered.entry((worker, generation)).or_default().push(run.0);
        // Times that it had received and not made durable are lost.
        for (_, sent) in self.sent.iter_mut().filter(|((one, _), _)| *one == worker) {
            sent.recent.clear();
        }
    }

    /// Forgets a worker that begins without data.
    pub(super) fn forget(&mut self, worker: Address) {
        self.sent.retain(|(one, _), _| *one != worker);
    }

    /// Records that a worker begins to sync its journal.
    pub(super) fn submit(&mut self, worker: Address, now: u64) {
        self.submitted.insert(worker, now);
    }

    /// Records that a worker has synced its journal.
    pub(super) fn synced(&mut self, worker: Address) {
        let Some(submitted) = self.submitted.get(&worker) else { return };
        for (_, sent) in self.sent.iter_mut().filter(|((one, _), _)| *one == worker) {
            while let Some((at, ts)) = sent.recent.front()
                && at + RECORDED_AFTER <= *submitted
            {
                sent.durable = sent.durable.max(*ts);
                sent.recent.pop_front();
            }
        }
    }
}

impl World {
    /// Records the times in a message of another site that a worker is about to handle.
    pub(super) fn note_sent_times(
        &mut self,
        from: Address,
        to: Address,
        message: &Message,
        generation: u32,
    ) {
        let Message::UniStore(solera_unistore::Message::Replicate(ranges)) = message else {
            return;
        };
        let own = ranges.iter().filter(|range| range.origin == Origin::Site(from.site));
        let Some(ts) = own.map(|range| range.known).max() else { return };
        let takes = self.replica(&to).is_some_and(|replica| {
            let status = replica.status();
            let members = status.members();
            members.is_member(from.site) && members.generation(from.site) == generation
        });
        let now = self.now;
        if let Some(links) = self.links.as_mut().filter(|_| takes) {
            let sent = links.copies.sent.entry((to, from)).or_default().in_generation(generation);
            if sent.latest < ts {
                sent.latest = ts;
                sent.recent.push_back((now, ts));
            }
        }
    }

    /// Checks that a worker that has just started rejects all copies that lack something.
    pub(super) fn show_copies(&mut self, worker: Address) {
        let mut asked = 0;
        let Some(links) = &self.links else { return };
        let Some(members) = self.replica(&worker).map(|replica| replica.status().members().clone())
        else {
            return;
        };
        let mut let_in = Vec::new();
        for ((one, other), sent) in &links.copies.sent {
            if *one != worker {
                continue;
            }
            let other = *other;
            let former = members.gaps(other.site).last().map_or(Timestamp::ZERO, |gap| gap.end);
            let is_asked =
                members.is_member(other.site) && members.generation(other.site) == sent.generation;
            let copies =
                links.copies.remembered.get(&(other, sent.generation)).into_iter().flatten();
            let began = Timestamp::from_physical(self.now_at(other).physical);
            // A copy whose clock is behind the latest time sent may still send that time itself, so
            // it need not be rejected.
            let is_asked = is_asked && sent.latest < began;
            let lacks =
                |remembered: &&Timestamp| is_asked && (**remembered).max(former) < sent.durable;
            for remembered in copies.filter(lacks) {
                asked += 1;
                let card = self.card_of_copy(other, sent.generation, (*remembered, began));
                if card.is_some_and(|card| self.is_welcome(worker, &card).is_ok()) {
                    let_in.push(format!(
                        "{worker:?} was sent {:?} by {other:?}, and admits a copy that remembers \
                         {remembered:?}",
                        sent.durable
                    ));
                }
            }
        }
        self.events.extend(let_in.into_iter().map(WorldEvent::Lost));
        (0..asked).for_each(|_| self.tally.count("copies that lacked something"));
    }
}
