//! Filling the partitions of a joining site's worker with the data of the members.
//!
//! A worker gets several partitions at a time, because each has to wait for a snapshot of its
//! donor, and several pieces of each are in transit. Their amount adapts to the speed at which they
//! arrive, so that a fast link is used fully and a slow one is not blocked. Pieces that have
//! arrived are never requested again while their donor lives.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use solera_machine::{Address, Now, PartitionId};
use solera_membership::SiteStatus;
use solera_time::{Monotonic, Origin, SiteId, Vector};

use crate::message::{Chunk, Event, Fetch, Filling, Message, TransferPosition};
use crate::partition::Partition;
use crate::rare;
use crate::record::Record;
use crate::replica::Replica;
use crate::transfer::weight;
use crate::worker::Worker;

/// Number of partitions that a worker gets at a time.
const AT_ONCE: usize = 4;
/// Number of bytes that may be in transit to a worker: initial, least and largest value.
const FIRST_WINDOW: usize = 256 << 10;
const LEAST_WINDOW: usize = 64 << 10;
const MOST_WINDOW: usize = 8 << 20;
/// Target range of the time in which a window arrives. Below it the window grows; above it the
/// window shrinks.
const SHORT_ROUND: Duration = Duration::from_millis(500);
const LONG_ROUND: Duration = Duration::from_secs(2);
/// Least and largest time after which a piece that has not arrived is requested again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
const ASK_AGAIN_AT_LAST: Duration = Duration::from_secs(20);
/// Least and largest time without a message after which a donor is replaced, if there is another.
const GIVE_UP: Duration = Duration::from_secs(5);
const GIVE_UP_AT_LAST: Duration = Duration::from_secs(320);
/// Time by which requests may be earlier than the rate allows, so that they need not wait for a
/// tick.
const BURST: Duration = Duration::from_millis(20);

/// Progress of a joining worker.
#[derive(Debug)]
pub(crate) struct Joining {
    /// Join of the snapshots with which partitions were filled. Older versions of keys cannot be
    /// read.
    pub(crate) base_vec: Vector,
    attempts: Vec<Attempt>,
    /// Number of donors that were given up, which selects the next donor.
    failed: usize,
    /// Time without a message after which a donor is replaced, even if the pace suggests a shorter
    /// one.
    patience: Duration,
    /// Time before which no pieces are requested, so that the rate is kept.
    not_before: Monotonic,
    pace: Pace,
    /// Total number of bytes that have arrived.
    bytes: u64,
}

/// A partition that is being received from a donor.
#[derive(Clone, Copy, Debug)]
struct Attempt {
    donor: Address,
    partition: PartitionId,
    number: u64,
    /// Everything before this has arrived.
    at: TransferPosition,
    /// Number of items of the partition, once the donor has sent it.
    items: Option<u64>,
    /// Whether pieces have arrived that are not acknowledged to the donor yet.
    news: bool,
    /// Times of the last message to and from the donor.
    sent: Monotonic,
    heard: Monotonic,
    /// Number of times that the same pieces were requested.
    repeated: u32,
}

/// Speed of the transfer.
#[derive(Debug)]
struct Pace {
    /// Number of bytes that may be in transit.
    window: usize,
    /// Start of the current round, and the bytes that have arrived in it. A round ends when as many
    /// bytes as the window have arrived.
    began: Option<Monotonic>,
    bytes: usize,
    /// Duration of the last round.
    round: Duration,
}

/// Progress of a joining worker for status reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Number of partitions that are complete.
    pub filled: usize,
    /// Number of partitions of this worker.
    pub partitions: usize,
    /// Sum of the complete fractions, each from 0 to 1, of the partitions that are being filled.
    pub current: f64,
    /// Approximate number of bytes that have arrived since the worker started.
    pub bytes: u64,
    /// A site that sends data to this worker.
    pub donor: Option<SiteId>,
}

impl Joining {
    pub(crate) fn new(base_vec: Vector) -> Self {
        Joining {
            base_vec,
            attempts: Vec::new(),
            failed: 0,
            patience: GIVE_UP,
            not_before: Monotonic(0),
            pace: Pace { window: FIRST_WINDOW, began: None, bytes: 0, round: Duration::ZERO },
            bytes: 0,
        }
    }

    /// Returns the sum of the complete fractions of the partitions that are being filled.
    pub(crate) fn current(&self) -> f64 {
        let part = |attempt: &Attempt| Some(attempt.at.items as f64 / attempt.items? as f64);
        self.attempts.iter().filter_map(part).sum()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn donor(&self) -> Option<SiteId> {
        self.attempts.first().map(|attempt| attempt.donor.site)
    }

    fn attempt(&self, from: Address, partition: PartitionId, number: u64) -> Option<usize> {
        self.attempts.iter().position(|attempt| {
            (attempt.donor, attempt.partition, attempt.number) == (from, partition, number)
        })
    }
}

impl Attempt {
    /// Returns the time after which the same pieces are requested again. Before that, the requested
    /// pieces may still be in transit on a slow link.
    fn patience(&self, pace: &Pace) -> Duration {
        let patience = ASK_AGAIN.max(pace.round * 4) * (1 << self.repeated.min(4));
        patience.min(ASK_AGAIN_AT_LAST)
    }
}

impl Pace {
    fn note(&mut self, now: Monotonic, bytes: usize) {
        self.bytes += bytes;
        let began = *self.began.get_or_insert(now);
        if self.bytes < self.window {
            return;
        }
        self.round = now.since(began);
        (self.began, self.bytes) = (Some(now), 0);
        if self.round < SHORT_ROUND {
            self.window = (self.window * 2).min(MOST_WINDOW);
        } else if self.round > LONG_ROUND {
            self.slow_down();
        }
    }

    /// Ends the round when nothing is in transit, because the time until the next request does not
    /// depend on the link.
    fn pause(&mut self) {
        (self.began, self.bytes) = (None, 0);
    }

    fn slow_down(&mut self) {
        self.window = (self.window / 2).max(LEAST_WINDOW);
    }
}

/// A piece that was accepted.
#[derive(Clone, Copy, Debug)]
struct Accepted {
    /// Index of its attempt among the current ones.
    place: usize,
    /// Index of its partition among the owned ones.
    index: usize,
    /// Whether it is the last one of the partition.
    complete: bool,
}

impl Joining {
    /// Requests missing pieces, once every member has confirmed that this site joins: from then on
    /// no member forgets updates that this site may lack.
    pub(crate) fn fill(&mut self, worker: &mut Worker, now: Now) {
        let members = &worker.dissemination.members;
        let let_in = members.status(worker.me) == SiteStatus::Joining
            && members.generation(worker.me) == worker.config.generation
            && members.which(SiteStatus::Leaving).next().is_none();
        if worker.is_filled() || !let_in || !worker.dissemination.view.agreed {
            return;
        }
        self.replace_silent_donors(worker, now);
        if self.attempts.is_empty() {
            self.pace.pause();
        }
        while self.attempts.len() < AT_ONCE
            && let Some(attempt) = self.next_attempt(worker, now)
        {
            self.attempts.push(attempt);
        }
        for index in 0..self.attempts.len() {
            self.ask(worker, now, index);
        }
    }

    /// Replaces donors that have sent nothing for long. The timeout doubles with each replacement,
    /// so that a slow link succeeds in the end. A donor without an alternative is kept.
    fn replace_silent_donors(&mut self, worker: &mut Worker, now: Now) {
        let members = &worker.dissemination.members;
        let Joining { attempts, failed, patience, pace, .. } = self;
        let most = (*patience).max(pace.round * 8).min(GIVE_UP_AT_LAST);
        let alone = members.members().count() == 1;
        let before = attempts.len();
        attempts.retain(|attempt| {
            let silent = now.monotonic.since(attempt.heard) >= most;
            members.is_member(attempt.donor.site) && (alone || !silent)
        });
        if attempts.len() < before {
            *failed += 1;
            *patience = most * 2;
            worker.reach(rare::CHANGES_DONOR);
        }
    }

    fn next_attempt(&self, worker: &Worker, now: Now) -> Option<Attempt> {
        let begun = |id| self.attempts.iter().any(|attempt| attempt.partition == id);
        let missing = |partition: &&Partition| !partition.filled && !begun(partition.id);
        let partition = worker.partitions.iter().find(missing)?.id;
        let members: Vec<SiteId> = worker.dissemination.members.members().collect();
        let site = *members.get(self.failed % members.len().max(1))?;
        Some(Attempt {
            donor: worker.config.topology.owner(site, partition),
            partition,
            number: now.physical.0,
            at: TransferPosition::START,
            items: None,
            news: true,
            sent: now.monotonic,
            heard: now.monotonic,
            repeated: 0,
        })
    }

    /// Acknowledges pieces to a donor and requests more, if that is due.
    fn ask(&mut self, worker: &mut Worker, now: Now, index: usize) {
        let Joining { attempts, pace, not_before, .. } = self;
        let share = pace.window / attempts.len();
        let attempt = &mut attempts[index];
        let repeats = !attempt.news;
        let last = attempt.sent.max(attempt.heard);
        if repeats && now.monotonic.since(last) < attempt.patience(pace) {
            return;
        }
        if now.monotonic.after(BURST) < *not_before {
            return;
        }
        if repeats {
            attempt.repeated += 1;
            pace.slow_down();
        }
        (attempt.sent, attempt.news) = (now.monotonic, false);
        let Attempt { donor, partition, number, at, .. } = *attempt;
        let (attempt, window) = (number, share as u64);
        let fetch = Fetch { partition, attempt, at, window, again: repeats };
        worker.send(donor, Message::Fetch(fetch));
    }

    /// Notes the arrival of a piece. Returns its attempt and partition if it is the next one that
    /// was requested.
    fn accept(
        &mut self,
        worker: &Worker,
        now: Now,
        from: Address,
        filling: &Filling,
    ) -> Option<Accepted> {
        let Filling { partition, attempt: number, at, next, chunk } = filling;
        let place = self.attempt(from, *partition, *number)?;
        let index = worker.index_of(*partition).expect("it asked for its own partitions");
        let news = worker.partitions[index].lacks_all(chunk);
        let attempt = &mut self.attempts[place];
        if let Chunk::Begin(begin) = chunk {
            attempt.items = Some(begin.items);
        }
        // A piece after a gap is dropped: the missing pieces and this one will be sent again.
        let items = attempt.items.filter(|items| next.items <= *items)?;
        if attempt.at != *at || next <= at || !news {
            return None;
        }
        (attempt.at, attempt.news, attempt.repeated) = (*next, true, 0);
        // The next piece may take as long as this one. A longer timeout, for example from the time
        // of a cut link, is shortened.
        self.patience = GIVE_UP.max(now.monotonic.since(attempt.heard) * 2);
        attempt.heard = now.monotonic;
        let bytes = weight(chunk);
        self.bytes += bytes as u64;
        self.pace.note(now.monotonic, bytes);
        let nanos = bytes as u64 * 1_000_000_000 / worker.config.fill_rate.max(1);
        let from = self.not_before.max(now.monotonic);
        self.not_before = from.after(Duration::from_nanos(nanos));
        Some(Accepted { place, index, complete: items == next.items })
    }

    /// Acknowledges a piece to its donor, which then sends the next ones. After the last piece of a
    /// partition, begins another partition.
    fn go_on(&mut self, worker: &mut Worker, now: Now, accepted: Accepted) {
        if !accepted.complete {
            return self.ask(worker, now, accepted.place);
        }
        let Attempt { donor, partition, number, at, .. } = self.attempts.remove(accepted.place);
        let fetch = Fetch { partition, attempt: number, at, window: 0, again: false };
        worker.send(donor, Message::Fetch(fetch));
        self.fill(worker, now);
    }

    /// Handles a message of a donor that has restarted, or has released its snapshot after the idle
    /// timeout.
    pub(crate) fn on_not_kept(
        &mut self,
        worker: &mut Worker,
        now: Now,
        from: Address,
        partition: PartitionId,
        number: u64,
    ) {
        let Some(place) = self.attempt(from, partition, number) else {
            worker.ignored += 1;
            return;
        };
        self.attempts.remove(place);
        worker.reach(rare::DONOR_LOST_SNAPSHOT);
        self.fill(worker, now);
    }
}

impl Replica {
    /// Handles a piece of a partition.
    pub(crate) fn on_filling(&mut self, now: Now, from: Address, filling: Filling) {
        let Some(accepted) = self.joining.accept(&self.worker, now, from, &filling) else {
            self.worker.ignored += 1;
            return;
        };
        let Filling { partition, chunk, .. } = filling;
        let Accepted { index, complete, .. } = accepted;
        self.worker.record(|| Record::Filled(partition, chunk.clone(), complete));
        self.take_chunk(index, chunk, complete);
        if complete {
            self.report_stored(now, index);
        }
        self.joining.go_on(&mut self.worker, now, accepted);
    }

    /// Stores a piece of a partition, from a donor or from the journal.
    pub(crate) fn take_chunk(&mut self, index: usize, chunk: Chunk, complete: bool) {
        if let Chunk::Begin(begin) = &chunk {
            self.worker.partitions[index].empty();
            self.worker.partitions[index].begun = Some(**begin);
        }
        let partition = &mut self.worker.partitions[index];
        let Some(begin) = partition.begun else { return };
        match chunk {
            Chunk::Begin(_) => {}
            Chunk::Updates(updates) => {
                for update in updates {
                    if update.dot.origin == Origin::Site(self.worker.me) {
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
            partition.finish_filling(&begin);
            let (partition, known_vec) = (partition.id, begin.known_vec);
            self.joining.base_vec.join(&begin.snapshot);
            self.worker.clock.observe(known_vec.max_entry().max(begin.snapshot.max_entry()));
            self.worker.trace(|| Event::Filled { partition, known_vec });
        }
    }

    /// Empties partitions that were partly filled before a restart, to fill them from the
    /// beginning.
    pub(crate) fn drop_unfinished(&mut self) {
        self.joining = Joining::new(self.joining.base_vec);
        for partition in self.worker.partitions.iter_mut().filter(|partition| !partition.filled) {
            partition.empty();
        }
    }

    /// Empties all partitions, because the data with which they were filled cannot be used.
    pub(crate) fn begin_filling_anew(&mut self) {
        let nothing = Vector::zero(self.worker.config.topology.sites());
        self.joining = Joining::new(nothing);
        self.promised.known_vec = nothing;
        self.strong.service.stores_nothing();
        for partition in &mut self.worker.partitions {
            partition.empty();
        }
    }
}
