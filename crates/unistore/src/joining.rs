//! A site that joins: how its workers get their partitions from the members.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use solera_machine::Now;
use solera_time::{Monotonic, SiteId, Vector};

use crate::config::Address;
use crate::membership::Standing;
use crate::message::{Begin, Chunk, Event, Fetch, Filling, Message};
use crate::record::Record;
use crate::replica::Replica;
use crate::transfer::weight;

/// A piece that does not come is asked for again after this long.
const ASK_AGAIN: Duration = Duration::from_millis(400);
/// The first piece waits for the donor's snapshot to be uniform, and is asked for after this long.
const ASK_FIRST_AGAIN: Duration = Duration::from_millis(10);
/// A donor that does not answer for this long is given up, and the partition is begun anew.
const GIVE_UP: Duration = Duration::from_secs(5);

/// How far a joining worker has come.
#[derive(Debug)]
pub(crate) struct Joining {
    /// The join of the snapshots that partitions were filled with: keys cannot be read as they were
    /// before.
    pub(crate) base_vec: Vector,
    attempt: Option<Attempt>,
    /// How many donors were given up.
    failed: usize,
    /// The next piece is not asked for before, so that the rate is kept.
    not_before: Monotonic,
    /// The summary of the partition that is being filled, from the first piece of its donor.
    begun: Option<Begin>,
}

/// A partition that is being got from a donor.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    donor: Address,
    fetch: Fetch,
    /// When it was last asked; `None` if it is still to be asked.
    asked: Option<Monotonic>,
    heard: Monotonic,
    items: u64,
}

/// How far a joining worker has come, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Partitions that are there.
    pub filled: usize,
    /// Partitions of this worker.
    pub partitions: usize,
    /// Which part of the one that is being filled is there, from 0 to 1.
    pub current: f64,
}

impl Joining {
    pub(crate) fn new(base_vec: Vector) -> Self {
        let not_before = Monotonic(0);
        Joining { base_vec, attempt: None, failed: 0, not_before, begun: None }
    }

    /// Which part of the current partition is there.
    pub(crate) fn current(&self) -> f64 {
        match &self.attempt {
            Some(attempt) if attempt.items > 0 => {
                attempt.fetch.position as f64 / attempt.items as f64
            }
            _ => 0.0,
        }
    }
}

impl Replica {
    /// Whether all partitions of this worker are there.
    pub(crate) fn is_filled(&self) -> bool {
        self.partitions.iter().all(|partition| partition.filled)
    }

    /// Asks for what is missing, once every member has confirmed that this site joins: from then on
    /// nobody forgets what it may lack.
    pub(crate) fn fill(&mut self, now: Now) {
        let members = &self.dissemination.members;
        let let_in = members.standing(self.me) == Standing::Joining
            && members.life(self.me) == self.config.life
            && members.which(Standing::Leaving).next().is_none();
        if self.is_filled() || !let_in || !self.dissemination.view.agreed {
            return;
        }
        let silent = |attempt: &Attempt| now.monotonic.since(attempt.heard) >= GIVE_UP;
        if self.joining.attempt.as_ref().is_some_and(silent) {
            self.joining.attempt = None;
            self.joining.failed += 1;
        }
        if self.joining.attempt.is_none() {
            self.joining.attempt = self.next_attempt(now);
        }
        self.ask(now);
    }

    fn next_attempt(&self, now: Now) -> Option<Attempt> {
        let partition = self.partitions.iter().find(|partition| !partition.filled)?.id;
        let members: Vec<SiteId> = self.dissemination.members.members().collect();
        let site = members[self.joining.failed % members.len().max(1)];
        Some(Attempt {
            donor: self.config.topology.owner(site, partition),
            fetch: Fetch { partition, attempt: now.physical.0, position: 0 },
            asked: None,
            heard: now.monotonic,
            items: 0,
        })
    }

    fn ask(&mut self, now: Now) {
        let Some(attempt) = &mut self.joining.attempt else { return };
        let due = match attempt.asked {
            None => now.monotonic >= self.joining.not_before,
            Some(asked) if attempt.fetch.position == 0 => {
                now.monotonic.since(asked) >= ASK_FIRST_AGAIN
            }
            Some(asked) => now.monotonic.since(asked) >= ASK_AGAIN,
        };
        if due {
            attempt.asked = Some(now.monotonic);
            let (donor, fetch) = (attempt.donor, attempt.fetch);
            self.send(donor, Message::Fetch(fetch));
        }
    }

    /// A piece has come.
    pub(crate) fn on_filling(&mut self, now: Now, from: Address, filling: Filling) {
        let Filling { fetch, next, chunk } = filling;
        let Some(attempt) = &mut self.joining.attempt else { return };
        if attempt.donor != from || attempt.fetch != fetch || next <= fetch.position {
            return;
        }
        if let Chunk::Begin(begin) = &chunk {
            attempt.items = begin.items;
        }
        let complete = next == attempt.items;
        attempt.fetch.position = next;
        (attempt.asked, attempt.heard) = (None, now.monotonic);
        let nanos = weight(&chunk) as u64 * 1_000_000_000 / self.config.fill_rate.max(1);
        let from = self.joining.not_before.max(now.monotonic);
        self.joining.not_before = from.after(Duration::from_nanos(nanos));
        self.record(|| Record::Filled(fetch.partition, chunk.clone(), complete));
        let index = self.index_of(fetch.partition).expect("it asked for its own partitions");
        self.take_chunk(index, chunk, complete);
        if complete {
            self.joining.attempt = None;
            self.fill(now);
        } else {
            self.ask(now);
        }
    }

    /// Takes a piece of a partition, from a donor or from the journal.
    pub(crate) fn take_chunk(&mut self, index: usize, chunk: Chunk, complete: bool) {
        if let Chunk::Begin(begin) = &chunk {
            self.partitions[index].empty();
            self.joining.begun = Some(**begin);
        }
        let Some(begin) = self.joining.begun else { return };
        let partition = &mut self.partitions[index];
        match chunk {
            Chunk::Begin(_) => {}
            Chunk::Updates(updates) => {
                for update in updates {
                    if update.dot.site == self.me {
                        self.former_ceiling.join(&update.commit_vec());
                    }
                    partition.take_update(update, &begin.snapshot);
                }
            }
            Chunk::Keys(keys) => {
                for (key, state) in keys {
                    partition.take_key(&key, state);
                }
            }
        }
        if complete {
            partition.is_filled(&begin);
            let (partition, known_vec) = (partition.id, begin.known_vec);
            self.joining.base_vec.join(&begin.snapshot);
            self.clock.observe(known_vec.max_entry().max(begin.snapshot.max_entry()));
            self.joining.begun = None;
            self.trace(|| Event::Filled { partition, known_vec });
        }
    }

    /// What was filled in part before a restart is begun anew.
    pub(crate) fn drop_unfinished(&mut self) {
        self.joining = Joining::new(self.joining.base_vec);
        for partition in self.partitions.iter_mut().filter(|partition| !partition.filled) {
            partition.empty();
        }
    }

    /// Nothing of what was filled is of use.
    pub(crate) fn begin_filling_anew(&mut self) {
        let nothing = Vector::zero(self.config.topology.sites());
        self.joining = Joining::new(nothing);
        self.promised.known_vec = nothing;
        for partition in &mut self.partitions {
            partition.empty();
        }
    }
}
