//! Complete reads: reads of causal keys that contain every update that any site has acknowledged
//! before the read began, and everything that an earlier complete read has shown.
//!
//! UniStore has no such reads. They are the counterpart of reads at level ALL after writes at level
//! ONE (IPA §4.1). The reader executes a causal read at its own site, and asks every site whether
//! the key has changed since the snapshot of the read. If it has not, the result contains exactly
//! the updates that were committed at the moment of the execution. If it has, the reader waits for
//! the changes and begins again. `docs/decisions/0047-complete-reads.md` explains why that
//! suffices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use solera_certification::{GroupPayload, TransactionId};
use solera_data::{Key, Op};
use solera_levels::Level;
use solera_machine::{Address, Now, RequestId};
use solera_membership::Members;
use solera_time::{Monotonic, Origin, SiteId, Timestamp, Vector};

use super::Replica;
use super::barriers::Waiting;
use crate::command::{CommandError, Response, TxId};
use crate::config::Rule;
use crate::groups::group_of;
use crate::message::{Message, Update, Write};
use crate::partition::Partition;
use crate::rare;

/// Time after which sites that have not answered are asked again, because a link may have lost the
/// message.
const RETRY: Duration = Duration::from_secs(1);
/// Pause before a read begins again because sites have different lists of sites.
const PAUSE: Duration = Duration::from_millis(20);
/// Largest number of questions that wait at a worker. Readers send further ones again.
const MOST_QUESTIONS: usize = 4096;

/// Complete reads of this worker's clients, and questions of readers.
#[derive(Debug)]
pub(crate) struct CompleteReads {
    reading: BTreeMap<RequestId, Reading>,
    questions: BTreeMap<QuestionId, Question>,
    /// Number of the last round of questions, also of earlier runs of this worker.
    round: u64,
}

/// The reader, its request, and the number of the round.
type QuestionId = (Address, RequestId, u64);

/// A complete read without a response.
#[derive(Debug)]
struct Reading {
    /// The client's past.
    past: Vector,
    key: Key,
    op: Op,
    since: Monotonic,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// It begins at this time, or begins again because the sites have different lists of sites.
    Pausing(Monotonic),
    /// The snapshots of this site do not contain the past yet, or the changes that a site has
    /// reported.
    Waiting(Waiting),
    /// The owner of the key executes the operation, on this snapshot or a later one.
    Executing(Vector),
    /// The sites are asked for changes.
    Asking(Round),
}

/// One question to every site.
#[derive(Debug)]
struct Round {
    number: u64,
    sent: Monotonic,
    /// Snapshot of the read, with the greatest time of this site, which has executed everything
    /// until then.
    since: Vector,
    /// A snapshot that `since` covers. While it is live, no site forgets an update that is not
    /// within it.
    snapshot: Vector,
    /// The list of sites that all answers must have.
    members: Members,
    /// Sites that have not answered.
    silent: BTreeSet<SiteId>,
    /// Response to the client if no site reports a change.
    response: Response,
}

/// A question that this worker has not answered yet, because transactions that change the key are
/// not decided here. Their clients may have the answer already.
#[derive(Debug)]
struct Question {
    key: Key,
    /// Index of the key's partition.
    partition: usize,
    since: Vector,
    prepared: BTreeSet<TxId>,
    strong: BTreeSet<TransactionId>,
    asked: Monotonic,
}

impl CompleteReads {
    /// `first`: a number above all rounds of earlier runs.
    pub(crate) fn new(first: u64) -> CompleteReads {
        CompleteReads { reading: BTreeMap::new(), questions: BTreeMap::new(), round: first }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.reading.is_empty() && self.questions.is_empty()
    }

    /// Returns the meet of `floor` with the snapshots of reads that sites are asked about.
    pub(crate) fn floor(&self, mut floor: Vector) -> Vector {
        for reading in self.reading.values() {
            if let Stage::Executing(snapshot) | Stage::Asking(Round { snapshot, .. }) =
                &reading.stage
            {
                floor.meet(snapshot);
            }
        }
        floor
    }

    /// Returns whether a request is a complete read without a response.
    pub(crate) fn is_reading(&self, request: RequestId) -> bool {
        self.reading.contains_key(&request)
    }

    /// Forgets a read whose client has cancelled it.
    pub(crate) fn cancel(&mut self, request: RequestId) {
        self.reading.remove(&request);
    }
}

impl Replica {
    /// Begins a complete read of a client of this worker.
    pub(crate) fn read_complete(
        &mut self,
        now: Now,
        request: RequestId,
        past: Vector,
        key: Key,
        op: Op,
    ) {
        let (since, stage) = (now.monotonic, Stage::Pausing(now.monotonic));
        self.complete.reading.insert(request, Reading { past, key, op, since, stage });
        self.advance_complete_read(now, request);
    }

    /// Continues complete reads, and answers questions.
    pub(crate) fn check_complete_reads(&mut self, now: Now) {
        for request in self.complete.reading.keys().copied().collect::<Vec<_>>() {
            self.advance_complete_read(now, request);
        }
        self.answer_questions(now);
    }

    fn advance_complete_read(&mut self, now: Now, request: RequestId) {
        let Some(reading) = self.complete.reading.get(&request) else { return };
        let over = now.monotonic.since(reading.since) >= self.worker.config.timing.strong_timeout;
        match &reading.stage {
            Stage::Asking(round) => {
                let suspected = |site: &&SiteId| self.worker.detector.suspects(**site);
                if let Some(site) = round.silent.iter().find(suspected).copied() {
                    self.fail_complete_read(request, CommandError::SiteTimedOut { site });
                } else if over {
                    self.fail_changing(request);
                } else if now.monotonic.since(round.sent) >= RETRY {
                    self.ask_silent(now, request);
                }
            }
            Stage::Executing(_) if over => {
                self.fail_complete_read(request, CommandError::PartitionSlow);
            }
            Stage::Executing(_) => {}
            Stage::Pausing(_) if over => {
                self.fail_complete_read(request, CommandError::ListsDiffer);
            }
            Stage::Pausing(until) if now.monotonic >= *until => {
                let past = reading.past;
                self.wait_complete(now, request, past);
            }
            Stage::Pausing(_) => {}
            Stage::Waiting(_) if over => self.fail_changing(request),
            Stage::Waiting(waiting) => match self.outcome_of(now, waiting) {
                Some(Response::Attached) => {
                    let past = waiting.past();
                    self.execute_complete_read(now, request, past);
                }
                // A change of a site that has been removed since may be lost. The client has not
                // seen it.
                Some(Response::Failed(CommandError::Lost { .. }))
                    if waiting.past() != reading.past =>
                {
                    self.pause_complete_read(now, request);
                }
                Some(Response::Failed(error)) => self.fail_complete_read(request, error),
                _ => {}
            },
        }
    }

    fn pause_complete_read(&mut self, now: Now, request: RequestId) {
        if let Some(reading) = self.complete.reading.get_mut(&request) {
            reading.stage = Stage::Pausing(now.monotonic.after(PAUSE));
        }
    }

    /// Waits until the snapshots of this site contain a past.
    fn wait_complete(&mut self, now: Now, request: RequestId, past: Vector) {
        let Some(reading) = self.complete.reading.get_mut(&request) else { return };
        reading.stage = Stage::Waiting(Waiting::attach(request, past, now.monotonic));
        self.advance_complete_read(now, request);
        let reading = self.complete.reading.get(&request);
        if reading.is_some_and(|it| matches!(it.stage, Stage::Waiting(_))) {
            // This site's own entry needs no request, as for ATTACH.
            self.wait_for_past(&past.with(self.worker.me, Timestamp::ZERO));
            self.worker.note_activity(now);
        }
    }

    fn execute_complete_read(&mut self, now: Now, request: RequestId, mut past: Vector) {
        let snapshot = self.worker.start_snapshot(now, &past);
        self.worker.add_remote_entries(&mut past, &snapshot);
        let Some(reading) = self.complete.reading.get_mut(&request) else { return };
        reading.stage = Stage::Executing(snapshot);
        let (level, key, op) = (Level::Causal, reading.key.clone(), reading.op.clone());
        let owner = self.owner_of(&key);
        self.worker.send(owner, Message::Execute { request, past, level, key, op });
    }

    /// Handles the response of the key's owner: asks all sites for changes of the key since the
    /// snapshot.
    pub(crate) fn complete_read_executed(
        &mut self,
        now: Now,
        request: RequestId,
        response: Response,
    ) {
        let Some(reading) = self.complete.reading.get_mut(&request) else { return };
        // A response to an earlier attempt changes nothing.
        let Stage::Executing(snapshot) = reading.stage else { return };
        let Response::Executed { pasts, .. } = &response else {
            return self.end_complete_read(request, response);
        };
        let me = self.worker.me;
        let since = pasts.causal.with(me, Timestamp::MAX);
        let members = self.worker.dissemination.members.clone();
        let silent = match self.worker.config.keeps(Rule::AskEverySite) {
            true => members.members_and_joining().collect(),
            false => BTreeSet::from([me]),
        };
        self.complete.round += 1;
        let (number, sent) = (self.complete.round, now.monotonic);
        reading.stage =
            Stage::Asking(Round { number, sent, since, snapshot, members, silent, response });
        self.ask_silent(now, request);
    }

    fn ask_silent(&mut self, now: Now, request: RequestId) {
        let Some(reading) = self.complete.reading.get_mut(&request) else { return };
        let Stage::Asking(round) = &mut reading.stage else { return };
        round.sent = now.monotonic;
        let partition = self.worker.partition_of(&reading.key);
        let sites: Vec<SiteId> = round.silent.iter().copied().collect();
        for site in sites {
            let to = self.worker.config.topology.owner(site, partition);
            let (key, since, round) = (reading.key.clone(), round.since, round.number);
            self.worker.send(to, Message::AskChanges { request, round, key, since });
        }
        self.worker.note_activity(now);
    }

    /// Handles a question for changes of a key.
    pub(crate) fn on_ask_changes(
        &mut self,
        now: Now,
        from: Address,
        (request, round): (RequestId, u64),
        key: Key,
        since: Vector,
    ) {
        let (id, asked) = ((from, request, round), now.monotonic);
        let questions = &self.complete.questions;
        if questions.contains_key(&id) || questions.len() >= MOST_QUESTIONS {
            return;
        }
        let partition = self.worker.index_of(self.worker.partition_of(&key));
        let partition = partition.expect("questions are routed by owner");
        let (mut prepared, mut strong) = (BTreeSet::new(), BTreeSet::new());
        if self.worker.config.keeps(Rule::DecideBeforeAnswer) {
            prepared = self.participant.preparing(&key);
            strong = self.undecided_strong(partition, &key);
        }
        let mut question = Question { key, partition, since, prepared, strong, asked };
        if !self.answer_question(id, &mut question) {
            self.worker.reach(rare::ANSWER_WAITS);
            self.worker.note_activity(now);
            self.complete.questions.insert(id, question);
        }
    }

    /// Returns the strong transactions that may change a key and are not stored here, although
    /// their clients may know that they have committed.
    fn undecided_strong(&self, partition: usize, key: &Key) -> BTreeSet<TransactionId> {
        let partition = &self.worker.partitions[partition];
        let changes =
            |payload: &GroupPayload<Write>| Write::any_of(&payload.writes, key.as_bytes());
        let stored = partition.known_vec.strong;
        self.strong.service.unsettled(group_of(partition.id), stored, changes)
    }

    /// Answers the questions that need not wait any more.
    fn answer_questions(&mut self, now: Now) {
        let patience = self.worker.config.timing.strong_timeout;
        for (id, mut question) in std::mem::take(&mut self.complete.questions) {
            let waits = now.monotonic.since(question.asked) < patience;
            if !self.answer_question(id, &mut question) && waits {
                self.complete.questions.insert(id, question);
            }
        }
    }

    /// Answers a question if it need not wait for transactions. Returns whether it did.
    fn answer_question(&mut self, id: QuestionId, question: &mut Question) -> bool {
        question.prepared.retain(|tx| self.participant.is_prepared(*tx));
        let partition = &self.worker.partitions[question.partition];
        let (stored, group) = (partition.known_vec.strong, group_of(partition.id));
        let service = &self.strong.service;
        let mut forgotten = false;
        question.strong.retain(|tid| {
            let settled = service.is_settled(group, *tid, stored);
            forgotten |= settled.is_none();
            settled == Some(false)
        });
        let waits = !question.prepared.is_empty() || !question.strong.is_empty();
        if waits && !forgotten {
            return false;
        }
        // It is not known here whether a forgotten transaction has changed the key. The next
        // question finds it stored at a site that is asked.
        let later = match forgotten {
            true => Some(Vector::zero(self.worker.config.topology.sites())),
            false => self.changes(partition, &question.key, &question.since),
        };
        let (from, request, round) = id;
        let members = self.worker.dissemination.members.clone();
        self.worker.send(from, Message::Changes { request, round, later, members });
        true
    }

    /// Returns a past that contains the changes of a key since a snapshot, as far as this worker
    /// answers for them: those of its own site, strong ones, and those of sites that are no members
    /// any more, which other sites may have shown. Returns `None` if there are none.
    fn changes(&self, partition: &Partition, key: &Key, since: &Vector) -> Option<Vector> {
        let members = &self.worker.dissemination.members;
        let answers = |site: &SiteId| *site == self.worker.me || !members.is_member(*site);
        let origins = SiteId::all(members.sites()).filter(answers).map(Origin::Site);
        let mut later = None;
        for origin in origins.chain([Origin::Strong]) {
            let committed = &partition.committed[origin];
            let changes = |update: &&Arc<Update>| {
                // An update is visible with everything on which it depends.
                Write::any_of(&update.writes, key.as_bytes()) && !update.within(since)
            };
            for update in committed.iter().filter(changes) {
                later.get_or_insert(Vector::zero(members.sites())).join(&update.commit_vec());
            }
            // Forgotten updates are within all live snapshots, also within that of the read.
            if committed.forgotten() > since[origin] {
                let later = later.get_or_insert(Vector::zero(members.sites()));
                later.raise(origin, committed.forgotten());
            }
        }
        later
    }

    /// Handles a site's answer.
    pub(crate) fn on_changes(
        &mut self,
        now: Now,
        from: SiteId,
        (request, number): (RequestId, u64),
        later: Option<&Vector>,
        members: &Members,
    ) {
        let Some(reading) = self.complete.reading.get_mut(&request) else { return };
        let Stage::Asking(round) = &mut reading.stage else { return };
        if round.number != number {
            return;
        }
        if !round.members.agrees_with(members) {
            self.pause_complete_read(now, request);
            return self.worker.reach(rare::LISTS_DIFFER);
        }
        if let Some(later) = later {
            let mut past = reading.past;
            past.join(later);
            return self.wait_complete(now, request, past);
        }
        round.silent.remove(&from);
        if round.silent.is_empty() {
            let response = round.response.clone();
            self.end_complete_read(request, response);
        }
    }

    fn fail_changing(&mut self, request: RequestId) {
        if let Some(reading) = self.complete.reading.get(&request) {
            let key = reading.key.clone();
            self.fail_complete_read(request, CommandError::Changing { key });
        }
    }

    fn fail_complete_read(&mut self, request: RequestId, error: CommandError) {
        self.end_complete_read(request, Response::Failed(error));
    }

    fn end_complete_read(&mut self, request: RequestId, response: Response) {
        if self.complete.reading.remove(&request).is_some() {
            self.worker.reply(request, response);
        }
    }
}
