//! Older copies of disks: whether a worker that has just started lets nobody in who lacks what it
//! was told.
//!
//! A copy that was made when a process began lacks nothing that the process remembered then. So
//! each start of a worker leaves such a copy, and each later start of another worker, which knows
//! no more than its own disk holds, is shown all of them.

use std::collections::{BTreeMap, VecDeque};

use solera_links::Run;
use solera_machine::Address;
use solera_site::Message;
use solera_time::{Origin, Timestamp};

use super::{Happening, World};
use crate::queue::MS;

/// So long after a worker was told a time, in nanoseconds, that is in its journal.
const RECORDED_AFTER: u64 = 2_000 * MS;

/// A worker, and another that tells it times.
type Pair = (Address, Address);

/// What workers were told, and what copies there are.
#[derive(Default)]
pub(super) struct Copies {
    /// Up to when the disk of each worker's copies goes: how far the clock of each of its processes
    /// was when it began, by the life of its site.
    remembered: BTreeMap<(Address, u32), Vec<Timestamp>>,
    told: BTreeMap<Pair, Told>,
    /// When the sync of each worker's journal began.
    submitted: BTreeMap<Address, u64>,
}

/// The times of its own that one worker has told another in the present life of its site.
#[derive(Default)]
struct Told {
    life: u32,
    /// The latest.
    latest: Timestamp,
    /// The latest that is on the disk of who was told.
    durable: Timestamp,
    /// Later ones, each with when it was told.
    recent: VecDeque<(u64, Timestamp)>,
}

impl Told {
    fn in_life(&mut self, life: u32) -> &mut Told {
        if self.life != life {
            *self = Told { life, ..Told::default() };
        }
        self
    }
}

impl Copies {
    /// A process of a worker begins.
    pub(super) fn begin(&mut self, worker: Address, life: u32, run: Run) {
        self.remembered.entry((worker, life)).or_default().push(run.0);
        // What was told and not made durable is lost.
        for (_, told) in self.told.iter_mut().filter(|((one, _), _)| *one == worker) {
            told.recent.clear();
        }
    }

    /// A worker begins without data.
    pub(super) fn forget(&mut self, worker: Address) {
        self.told.retain(|(one, _), _| *one != worker);
    }

    /// A worker begins to sync its journal.
    pub(super) fn submit(&mut self, worker: Address, now: u64) {
        self.submitted.insert(worker, now);
    }

    /// A worker has synced its journal.
    pub(super) fn synced(&mut self, worker: Address) {
        let Some(submitted) = self.submitted.get(&worker) else { return };
        for (_, told) in self.told.iter_mut().filter(|((one, _), _)| *one == worker) {
            while let Some((at, ts)) = told.recent.front()
                && at + RECORDED_AFTER <= *submitted
            {
                told.durable = told.durable.max(*ts);
                told.recent.pop_front();
            }
        }
    }
}

impl World {
    /// A worker is about to take a message of another site.
    pub(super) fn note_told(&mut self, from: Address, to: Address, message: &Message, life: u32) {
        let Message::UniStore(solera_unistore::Message::Replicate(stretches)) = message else {
            return;
        };
        let own = stretches.iter().filter(|stretch| stretch.origin == Origin::Site(from.site));
        let Some(ts) = own.map(|stretch| stretch.known).max() else { return };
        let takes = self.replica(&to).is_some_and(|replica| {
            let status = replica.status();
            let members = status.members();
            members.is_member(from.site) && members.life(from.site) == life
        });
        let now = self.now;
        if let Some(links) = self.links.as_mut().filter(|_| takes) {
            let told = links.copies.told.entry((to, from)).or_default().in_life(life);
            if told.latest < ts {
                told.latest = ts;
                told.recent.push_back((now, ts));
            }
        }
    }

    /// Shows all copies to a worker that has just started.
    pub(super) fn show_copies(&mut self, worker: Address) {
        let mut asked = 0;
        let Some(links) = &self.links else { return };
        let Some(members) = self.replica(&worker).map(|replica| replica.status().members().clone())
        else {
            return;
        };
        let mut let_in = Vec::new();
        for ((one, other), told) in &links.copies.told {
            if *one != worker {
                continue;
            }
            let other = *other;
            let former = members.gaps(other.site).last().map_or(Timestamp::ZERO, |gap| gap.end);
            let is_asked = members.is_member(other.site) && members.life(other.site) == told.life;
            let copies = links.copies.remembered.get(&(other, told.life)).into_iter().flatten();
            let began = Timestamp::from_physical(self.now_at(other).physical);
            // A copy whose clock is behind what was told might be telling that itself.
            let is_asked = is_asked && told.latest < began;
            let lacks =
                |remembered: &&Timestamp| is_asked && (**remembered).max(former) < told.durable;
            for remembered in copies.filter(lacks) {
                asked += 1;
                let card = self.card_of_copy(other, told.life, (*remembered, began));
                if card.is_some_and(|card| self.is_welcome(worker, &card).is_ok()) {
                    let_in.push(format!(
                        "{worker:?} was told {:?} by {other:?}, and lets a copy in that remembers \
                         {remembered:?}",
                        told.durable
                    ));
                }
            }
        }
        self.happenings.extend(let_in.into_iter().map(Happening::Lost));
        (0..asked).for_each(|_| self.tally.count("copies that lacked something"));
    }
}
