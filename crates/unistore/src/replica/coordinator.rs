//! Interactive transactions: START_TX, DO_OP, COMMIT_CAUSAL (Alg. 1 l. 1–35).
//!
//! The coordinator is the worker that a client is connected to, never the client itself, so a
//! client that disconnects leaves nothing prepared.

mod guarded;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_certification::{Claim, Kind, Outcome as Certified, TransactionId};
use solera_data::{Effect, Key, Op, OpError};
use solera_levels::Level;
use solera_machine::{Address, Guarded, Now, PartitionId, RequestId};
use solera_time::{Monotonic, SiteId, Timestamp, Vector};

use crate::accesses::Accesses;
use crate::command::{CommandError, Response, StrongLimit, TxId};
use crate::config::MAX_UPDATE;
use crate::config::{Rule, StrongLimits, Timing};
use crate::message::{Cause, Event, Executed, Message, PrepareGuarded, Write};
use crate::pasts::Pasts;
use crate::record::{Decision, Record};
use crate::replica::Replica;
use guarded::Singles;

/// Largest age of an open transaction that has an identifier for certification. While such a
/// transaction is open, the groups remember all transactions that this worker has submitted since.
const NAMED: Duration = Duration::from_secs(60);

/// Least number of bytes per second that a participant is assumed to receive and record.
const SLOWEST_TRANSFER: usize = 16 << 20;

/// Transactions that this worker coordinates.
#[derive(Debug)]
pub(crate) struct Coordinator {
    worker: u8,
    started: u64,
    open: BTreeMap<TxId, Transaction>,
    /// Commits that some participant has not confirmed yet. Aborted transactions are not kept,
    /// because the coordinator answers a question about an unknown transaction with ABORT.
    decided: BTreeMap<TxId, SentDecision>,
    singles: Singles,
}

#[derive(Debug)]
pub(crate) struct Transaction {
    /// `snapVec[tid]`.
    pub(crate) snap_vec: Vector,
    /// Greatest local timestamp that was read.
    local_dependency: Timestamp,
    /// `wbuff[tid]`: one canonical effect per key.
    writes: BTreeMap<Key, Effect>,
    /// Operations on eventual spaces. At commit, each is executed again on the latest state, as a
    /// transaction of its own.
    eventual: Vec<(Key, Op)>,
    /// Effects of these operations so far, for the transaction's own reads.
    eventual_writes: BTreeMap<Key, Effect>,
    /// Guards that must promise before the transaction commits.
    guards: Guarded,
    /// Number of bytes that the transaction will write. If it is strong, the keys of all its
    /// accesses count, too.
    held: usize,
    /// Number of its operations so far.
    operations: usize,
    outstanding: usize,
    began: Monotonic,
    last_active: Monotonic,
    preparing: Option<Preparing>,
    /// Accesses so far; `None` if the transaction is not strong.
    accesses: Option<Accesses>,
    /// Identifier by which the transaction will be certified, and the time when its client
    /// requested the identifier; `None` if the client has not requested it.
    name: Option<(TransactionId, Monotonic)>,
}

/// First phase of a commit that involves several workers.
#[derive(Debug)]
struct Preparing {
    request: RequestId,
    since: Monotonic,
    /// Time in which the participants have to prepare.
    patience: Duration,
    participants: Vec<Address>,
    unprepared: Vec<Address>,
    /// Whether it has writes other than those to eventual spaces.
    writes: bool,
    /// Whether it writes to eventual spaces.
    eventual: bool,
    /// Partitions to which it writes, for the trace.
    partitions: Vec<PartitionId>,
    /// Greatest prepare time so far (Alg. 1 l. 33).
    ts: Timestamp,
}

/// Part of a transaction at one worker.
#[derive(Debug, Default)]
struct WorkerPart {
    writes: Vec<Write>,
    eventual: Vec<(Key, Op)>,
    guards: Guarded,
}

impl WorkerPart {
    /// Returns the approximate size in bytes.
    fn size(&self) -> usize {
        let eventual = self.eventual.iter().map(|(key, op)| key.len() + op.size());
        let writes = self.writes.iter().map(Write::size).sum::<usize>();
        writes + eventual.sum::<usize>() + self.guards.bytes()
    }
}

/// A commit, with the time when it was last sent to the participants (`None` after a restart).
#[derive(Debug)]
struct SentDecision {
    decision: Decision,
    at: Option<Monotonic>,
    /// The client that waits until all participants have confirmed.
    answer: Option<Answer>,
}

/// Pending response to the commit of a transaction that writes to eventual spaces. The participants
/// execute these operations after the decision, each with a time of its own, and the client's
/// durability past must contain these times.
#[derive(Debug)]
struct Answer {
    request: RequestId,
    since: Monotonic,
    pasts: Pasts,
}

impl Coordinator {
    pub(crate) fn new(worker: u8, started: u64) -> Self {
        let (open, decided, singles) = Default::default();
        Coordinator { worker, started, open, decided, singles }
    }

    /// Returns the number of decisions that some participant has not confirmed.
    pub(crate) fn unconfirmed(&self) -> usize {
        self.decided.len()
    }

    /// Returns the decisions for a checkpoint.
    pub(crate) fn to_save(&self) -> Vec<(TxId, Decision)> {
        self.decided.iter().map(|(tx, sent)| (*tx, sent.decision.clone())).collect()
    }

    /// Restores a decision from before a restart.
    pub(crate) fn restore(&mut self, tx: TxId, decision: Decision) {
        self.decided.insert(tx, SentDecision { decision, at: None, answer: None });
    }

    /// Forgets a decision that all participants have confirmed.
    pub(crate) fn forget(&mut self, tx: TxId) {
        self.decided.remove(&tx);
    }

    /// Makes the identifiers of this run's transactions distinct from those of earlier runs. With a
    /// journal, this replaces [`Config::first_transaction`](crate::Config::first_transaction).
    pub(crate) fn number_run(&mut self, starts: u64) {
        self.started = starts << 40;
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Returns the meet of the snapshots of all open transactions with `future`, which every later
    /// snapshot covers.
    pub(crate) fn floor(&self, future: Vector) -> Vector {
        self.open.values().fold(future, |mut floor, transaction| {
            floor.meet(&transaction.snap_vec);
            floor
        })
    }
}

impl Transaction {
    /// Returns the identifier by which the transaction will be certified, if its client has
    /// requested one.
    pub(crate) fn name(&self) -> Option<TransactionId> {
        self.name.map(|(tid, _)| tid)
    }

    /// Returns whether the client has been idle for too long, or the transaction has been open for
    /// too long.
    fn is_overdue(&self, now: Monotonic, timing: &Timing) -> bool {
        now.since(self.last_active) >= timing.idle_transaction_timeout
            || now.since(self.began) >= timing.max_transaction_age
            || self.name.is_some_and(|(_, named)| now.since(named) >= NAMED)
    }

    /// Returns the data for certification: the snapshot, the writes and the accesses.
    pub(crate) fn into_certified(self) -> (Vector, BTreeMap<Key, Effect>, Accesses) {
        (self.snap_vec, self.writes, self.accesses.unwrap_or_default())
    }

    /// Drops the transaction's writes and its identifier, and keeps its reads. Returns the
    /// identifier.
    fn drop_writes(&mut self) -> Option<TransactionId> {
        self.writes.clear();
        self.eventual.clear();
        self.eventual_writes.clear();
        self.guards = Guarded::default();
        if let Some(accesses) = &mut self.accesses {
            accesses.drop_updates();
        }
        self.name.take().map(|(tid, _)| tid)
    }

    /// Notes that the client reads everything in the snapshot, which thus becomes a dependency.
    pub(crate) fn observe_all(&mut self, now: Monotonic, local: SiteId) {
        self.last_active = now;
        self.local_dependency = self.snap_vec[local];
    }

    /// Returns the limit of strong transactions that this transaction exceeds, or that an operation
    /// of `operation` bytes exceeds by itself.
    fn exceeds(&self, limits: &StrongLimits, operation: usize) -> Option<StrongLimit> {
        self.accesses.as_ref()?;
        if self.operations > limits.operations {
            return Some(StrongLimit::Operations(limits.operations));
        }
        (self.held.max(operation) > limits.bytes).then_some(StrongLimit::Bytes(limits.bytes))
    }

    fn effects(&mut self, level: Level) -> &mut BTreeMap<Key, Effect> {
        if level == Level::Eventual { &mut self.eventual_writes } else { &mut self.writes }
    }

    /// Appends to the write buffer (Alg. 1 l. 16).
    fn buffer(&mut self, level: Level, key: &Key, effect: Effect) {
        let (before, after) = match self.effects(level).entry(key.clone()) {
            Entry::Occupied(mut own) => {
                let before = own.get().size();
                *own.get_mut() = std::mem::take(own.get_mut()).then(effect);
                (before, own.get().size())
            }
            Entry::Vacant(own) => (0, key.len() + own.insert(effect).size()),
        };
        // `operate` has counted operations on eventual spaces. Their effects share the operations'
        // values.
        if level != Level::Eventual {
            self.held = (self.held + after).saturating_sub(before);
        }
    }
}

impl Replica {
    /// START_TX (UniStore Alg. 1 l. 1–8).
    pub(crate) fn begin(&mut self, now: Now, past: &Vector, strong: bool) -> TxId {
        let snap_vec = self.worker.start_snapshot(now, past);
        self.coordinator.started += 1;
        let tx = TxId { coordinator: self.coordinator.worker, sequence: self.coordinator.started };
        self.coordinator.open.insert(
            tx,
            Transaction {
                snap_vec,
                local_dependency: Timestamp::ZERO,
                writes: BTreeMap::new(),
                eventual: Vec::new(),
                eventual_writes: BTreeMap::new(),
                guards: Guarded::default(),
                held: 0,
                operations: 0,
                outstanding: 0,
                began: now.monotonic,
                last_active: now.monotonic,
                preparing: None,
                accesses: strong.then(Accesses::default),
                name: None,
            },
        );
        let cause = Cause::Transaction(self.worker.me, tx);
        self.worker.trace(|| Event::Snapshot { cause, snap_vec, eventual: false });
        tx
    }

    /// DO_OP (UniStore Alg. 1 l. 9–17). Answers at once for a key of this worker, unless a prepared
    /// transaction blocks the read. The read set (l. 14) is kept for certification.
    #[expect(clippy::too_many_arguments, reason = "one per field of the command")]
    pub(crate) fn operate(
        &mut self,
        now: Now,
        request: RequestId,
        tx: TxId,
        level: Level,
        key: &[u8],
        op: &Op,
        kind: Kind,
    ) -> Option<Response> {
        let owner = self.owner_of(key);
        let here = owner == self.worker.config.address;
        let limits = self.worker.config.strong_limits;
        let Some(transaction) = self.open_transaction(tx) else {
            return Some(Response::Failed(CommandError::NoSuchTransaction));
        };
        transaction.last_active = now.monotonic;
        transaction.operations += 1;
        if let Some(limit) = transaction.exceeds(&limits, key.len() + op.size()) {
            return Some(self.give_up_large(tx, CommandError::StrongTooLarge(limit)));
        }
        // The message also contains the transaction's earlier effect on the key.
        let own = transaction.effects(level).get(key).map_or(0, Effect::size);
        if key.len() + op.size() + own > MAX_UPDATE {
            return Some(Response::Operated(Err(OpError::TooLarge)));
        }
        transaction.outstanding += 1;
        if let Some(accesses) = &mut transaction.accesses {
            accesses.begin(request, kind);
            transaction.held += key.len();
        }
        let snap_vec = transaction.snap_vec;
        let key = Key::from(key);
        if level == Level::Eventual && op.is_update() {
            transaction.held += key.len() + op.size();
            transaction.eventual.push((key.clone(), op.clone()));
        }
        let own = if here {
            // The effect is moved out and back, because a copy may be large.
            let own = transaction.effects(level).remove(&key);
            let executed = self.version(now, &snap_vec, level, &key, op, own.as_ref());
            let (back, own) = if executed.is_some() { (own, None) } else { (own.clone(), own) };
            if let (Some(transaction), Some(back)) = (self.open_transaction(tx), back) {
                transaction.effects(level).insert(key.clone(), back);
            }
            if let Some(executed) = executed {
                return Some(self.record_version(now, request, tx, level, &key, executed));
            }
            own
        } else {
            transaction.effects(level).get(&key).cloned()
        };
        let op = op.clone();
        self.worker.send(owner, Message::GetVersion { tx, request, snap_vec, level, key, op, own });
        None
    }

    /// VERSION (UniStore Alg. 1 l. 12–17).
    #[expect(clippy::too_many_arguments, reason = "one per field of the message")]
    pub(crate) fn on_version(
        &mut self,
        now: Now,
        tx: TxId,
        request: RequestId,
        level: Level,
        key: &Key,
        executed: Executed,
    ) {
        let response = self.record_version(now, request, tx, level, key, executed);
        if self.coordinator.singles.has(tx) {
            return self.operated_guarded(now, tx, response);
        }
        self.operated_strong(now, request, tx, response);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of VERSION")]
    fn record_version(
        &mut self,
        now: Now,
        request: RequestId,
        tx: TxId,
        level: Level,
        key: &Key,
        executed: Executed,
    ) -> Response {
        let limits = self.worker.config.strong_limits;
        let Some(transaction) = self.open_transaction(tx) else {
            return Response::Failed(CommandError::NoSuchTransaction);
        };
        transaction.outstanding = transaction.outstanding.saturating_sub(1);
        transaction.last_active = now.monotonic;
        transaction.local_dependency = transaction.local_dependency.max(executed.local_dependency);
        if let Some(accesses) = &mut transaction.accesses {
            accesses.end(request, key, matches!(executed.result, Ok((_, Some(_)))));
        }
        let result = executed.result.map(|(outcome, effect)| {
            if let Some(effect) = effect {
                transaction.buffer(level, key, effect);
            }
            outcome
        });
        if let Some(limit) = transaction.exceeds(&limits, 0) {
            return self.give_up_large(tx, CommandError::StrongTooLarge(limit));
        }
        if transaction.held > MAX_UPDATE {
            return self.give_up_large(tx, CommandError::TooLarge);
        }
        Response::Operated(result)
    }

    /// Aborts the transaction, because without the operation it would not do what its client has
    /// requested.
    fn give_up_large(&mut self, tx: TxId, error: CommandError) -> Response {
        self.abort(tx);
        Response::Failed(error)
    }

    /// COMMIT_STRONG (UniStore Alg. 3 l. 1–3) with an empty write buffer. The transaction's former
    /// identifier then stands for an aborted transaction, for clients that ask for its outcome.
    pub(crate) fn certify(&mut self, now: Now, request: RequestId, tx: TxId, claim: Option<Claim>) {
        let transaction = self.open_transaction(tx).filter(|open| open.outstanding == 0);
        if let Some(tid) = transaction.and_then(Transaction::drop_writes) {
            self.strong.service.release(tid, Certified::Aborted(None));
        }
        self.commit(now, request, tx, claim);
    }

    /// COMMIT_CAUSAL (UniStore Alg. 1 l. 26–35).
    pub(crate) fn commit(&mut self, now: Now, request: RequestId, tx: TxId, claim: Option<Claim>) {
        let Some(transaction) = self.open_transaction(tx) else {
            let error = CommandError::NoSuchTransaction;
            return self.answer_commit(request, tx, Response::Failed(error));
        };
        if transaction.outstanding > 0 {
            self.worker.reply(request, Response::Failed(CommandError::OperationsOutstanding));
            return;
        }
        if transaction.accesses.is_some() {
            let snap_vec = transaction.snap_vec;
            if self.changes_guarded(tx) {
                self.abort(tx);
                return self.answer_commit(
                    request,
                    tx,
                    Response::Failed(CommandError::StrongGuarded),
                );
            }
            // `latest_vote` records a promise that must cover this transaction's snapshot, so it is
            // called while the transaction is open.
            let until = self.latest_vote(now, &snap_vec);
            let Some(transaction) = self.coordinator.open.remove(&tx) else { return };
            return self.commit_strong(now, request, tx, transaction, until, claim);
        }
        self.worker.note_activity(now);
        let Some(transaction) = self.coordinator.open.get_mut(&tx) else { return };
        let mut guards = std::mem::take(&mut transaction.guards);
        let writes = std::mem::take(&mut transaction.writes);
        let eventual = std::mem::take(&mut transaction.eventual);
        match self.guards_of(&writes, &eventual) {
            Ok(own) => guards = guards.and(own),
            Err(error) => {
                self.drop_transaction(tx);
                return self.answer_commit(request, tx, Response::Failed(error));
            }
        }
        let is_guarded = !guards.is_empty();
        let mut parts: BTreeMap<Address, WorkerPart> = BTreeMap::new();
        for (key, effect) in writes {
            let part = parts.entry(self.owner_of(&key)).or_default();
            part.writes.push(Write { key, effect });
        }
        for (key, op) in eventual {
            parts.entry(self.owner_of(&key)).or_default().eventual.push((key, op));
        }
        for guard in guards {
            let part = parts.entry(self.owner_of(&guard.key)).or_default();
            part.guards = std::mem::take(&mut part.guards).and(guard.into());
        }
        let elsewhere = parts.keys().any(|owner| *owner != self.worker.config.address);
        if elsewhere || is_guarded {
            self.prepare(now, request, tx, parts);
        } else {
            let part = parts.into_values().next().unwrap_or_default();
            self.commit_here(now, request, tx, part);
        }
    }

    /// Prepares and commits in one step a transaction that wrote only to this worker, or nothing at
    /// all (UniStore Alg. 1 l. 28).
    fn commit_here(&mut self, now: Now, request: RequestId, tx: TxId, part: WorkerPart) {
        let Some(snap_vec) = self.coordinator.open.get(&tx).map(|tx| tx.snap_vec) else { return };
        let WorkerPart { writes, eventual, .. } = part;
        let (mut committed, mut latest) = (None, Vector::zero(snap_vec.entries().len()));
        let transaction = if writes.is_empty() {
            self.coordinator.open.remove(&tx)
        } else {
            let dot = self.worker.new_dot(now, &snap_vec);
            let partitions = self.partitions_of(&writes);
            let transaction = self.coordinator.open.remove(&tx);
            let updates = self.by_partition(dot, snap_vec, writes);
            self.store_local(&updates);
            self.worker.record(|| Record::Stored(updates));
            self.trace_transaction(tx, dot.ts, &snap_vec, partitions);
            committed = Some(dot.ts);
            transaction
        };
        for (key, op) in eventual {
            if let Some((partition, update)) = self.execute_eventual(now, &key, &op) {
                latest.join(&update.commit_vec());
                self.worker.record(|| Record::StoredEventual(partition, update.clone()));
                self.trace_eventual(partition, &update);
            }
        }
        if let Some(transaction) = transaction {
            let mut pasts = self.pasts_after(&transaction, committed);
            pasts.add_eventual(self.worker.me, &latest);
            self.answer_commit(request, tx, Response::Committed { pasts });
        }
    }

    /// Sends PREPARE to every involved worker (UniStore Alg. 1 l. 29). PREPARE contains the
    /// operations on eventual spaces: if the coordinator sent them later, a crash could lose them
    /// after the client has received its response.
    fn prepare(
        &mut self,
        now: Now,
        request: RequestId,
        tx: TxId,
        parts: BTreeMap<Address, WorkerPart>,
    ) {
        let partitions = self.partitions_of(parts.values().flat_map(|part| &part.writes));
        let Some(transaction) = self.coordinator.open.get_mut(&tx) else { return };
        let participants: Vec<_> = parts.keys().copied().collect();
        let snap_vec = transaction.snap_vec;
        let size: usize = parts.values().map(WorkerPart::size).sum();
        let transfer = Duration::from_secs((size / SLOWEST_TRANSFER) as u64);
        let is_guarded = parts.values().any(|part| !part.guards.is_empty());
        let guards = self.worker.config.guarded_keys.as_ref().filter(|_| is_guarded);
        let patience = self.worker.config.timing.prepare_timeout
            + transfer
            + guards.map_or(Duration::ZERO, |guards| guards.patience);
        transaction.preparing = Some(Preparing {
            request,
            since: now.monotonic,
            patience,
            unprepared: participants.clone(),
            participants,
            writes: parts.values().any(|part| !part.writes.is_empty()),
            eventual: parts.values().any(|part| !part.eventual.is_empty()),
            partitions,
            ts: snap_vec[self.worker.me],
        });
        for (owner, WorkerPart { writes, eventual, guards }) in parts {
            let message = match guards.is_empty() {
                true => Message::Prepare { tx, snap_vec, writes, eventual },
                false => Message::PrepareGuarded(Box::new(PrepareGuarded {
                    tx,
                    snap_vec,
                    writes,
                    eventual,
                    guards,
                })),
            };
            self.worker.send(owner, message);
        }
    }

    /// PREPARE_ACK (UniStore Alg. 1 l. 31–35).
    pub(crate) fn on_prepare_ack(&mut self, now: Now, from: Address, tx: TxId, ts: Timestamp) {
        // The floor that this worker reports later must not overtake the transaction.
        self.worker.clock.observe(ts);
        let Some(transaction) = self.coordinator.open.get_mut(&tx) else { return };
        let Some(preparing) = &mut transaction.preparing else { return };
        preparing.unprepared.retain(|participant| *participant != from);
        preparing.ts = preparing.ts.max(ts);
        if !preparing.unprepared.is_empty() {
            return;
        }
        let (request, ts) = (preparing.request, preparing.ts);
        let (writes, eventual) = (preparing.writes, preparing.eventual);
        let participants = std::mem::take(&mut preparing.participants);
        let partitions = std::mem::take(&mut preparing.partitions);
        let snap_vec = transaction.snap_vec;
        self.decide(now, tx, Some(ts), participants);
        if writes {
            self.trace_transaction(tx, ts, &snap_vec, partitions);
        }
        let Some(transaction) = self.coordinator.open.remove(&tx) else { return };
        let pasts = self.pasts_after(&transaction, writes.then_some(ts));
        match self.coordinator.decided.get_mut(&tx) {
            Some(sent) if eventual && self.worker.config.keeps(Rule::EventualConfirmed) => {
                sent.answer = Some(Answer { request, since: now.monotonic, pasts });
            }
            _ => self.answer_commit(request, tx, Response::Committed { pasts }),
        }
    }

    /// Sends the decision to the participants; remembers a commit until each has confirmed it.
    fn decide(&mut self, now: Now, tx: TxId, ts: Option<Timestamp>, participants: Vec<Address>) {
        let decision = ts.map(|ts| Decision { ts, unconfirmed: participants.clone() });
        if let Some(decision) = &decision {
            self.worker.record(|| Record::Decided(tx, decision.clone()));
        }
        for participant in &participants {
            let message = match ts {
                Some(ts) => Message::Commit { tx, ts },
                None => Message::Abort { tx },
            };
            self.worker.send(*participant, message);
        }
        if let Some(decision) = decision {
            let at = Some(now.monotonic);
            self.coordinator.decided.insert(tx, SentDecision { decision, at, answer: None });
        }
    }

    /// Returns the causal past of the client after a committed transaction, without eventual
    /// writes.
    fn pasts_after(&self, transaction: &Transaction, committed: Option<Timestamp>) -> Pasts {
        let mut past = transaction.snap_vec;
        past[self.worker.me] =
            transaction.local_dependency.max(committed.unwrap_or(Timestamp::ZERO));
        Pasts::causal(past)
    }

    /// Drops an open transaction. A transaction that is being committed is not affected.
    pub(crate) fn abort(&mut self, tx: TxId) {
        if self.open_transaction(tx).is_some() {
            self.drop_transaction(tx);
        }
    }

    /// Removes a transaction that will not commit. Requests for the outcome by its identifier get
    /// the answer that it aborted.
    fn drop_transaction(&mut self, tx: TxId) -> Option<Transaction> {
        let transaction = self.coordinator.open.remove(&tx)?;
        if let Some(tid) = transaction.name() {
            self.strong.service.release(tid, Certified::Aborted(None));
        }
        Some(transaction)
    }

    /// Returns the identifier of an open strong transaction, which is the same each time.
    pub(crate) fn name(&mut self, now: Now, request: RequestId, tx: TxId) {
        if !self.worker.config.protocol.has_strong() {
            return self.worker.reply(request, Response::Failed(CommandError::NoStrong));
        }
        let open = self.coordinator.open.get_mut(&tx).filter(|open| open.accesses.is_some());
        let Some(transaction) = open else {
            return self.worker.reply(request, Response::Failed(CommandError::NoSuchTransaction));
        };
        transaction.last_active = now.monotonic;
        let reserve = || (self.strong.service.reserve(), now.monotonic);
        let (tid, _) = *transaction.name.get_or_insert_with(reserve);
        self.worker.reply(request, Response::Named(tid));
    }

    /// Handles the confirmation of a participant that has applied or dropped its part. `until`
    /// covers the commit vectors of its eventual writes.
    pub(crate) fn on_resolved(&mut self, from: Address, tx: TxId, until: &Vector) {
        let Some(SentDecision { decision, answer, .. }) = self.coordinator.decided.get_mut(&tx)
        else {
            return;
        };
        decision.unconfirmed.retain(|participant| *participant != from);
        if let Some(answer) = answer {
            answer.pasts.add_eventual(self.worker.me, until);
        }
        if !decision.unconfirmed.is_empty() {
            return;
        }
        let answer = answer.take();
        self.coordinator.forget(tx);
        self.worker.record(|| Record::Forgotten(tx));
        if let Some(Answer { request, pasts, .. }) = answer {
            self.answer_commit(request, tx, Response::Committed { pasts });
        }
    }

    /// Fails the requests of clients whose participants have not confirmed a decision although it
    /// was repeated.
    pub(crate) fn give_up_confirmations(&mut self, now: Now) {
        let patience = self.worker.config.timing.prepare_timeout * 4;
        let mut overdue = Vec::new();
        for (tx, SentDecision { decision, answer, .. }) in &mut self.coordinator.decided {
            let late = |answer: &mut Answer| now.monotonic.since(answer.since) >= patience;
            if let Some(Answer { request, .. }) = answer.take_if(late) {
                let worker = decision.unconfirmed[0];
                overdue.push((request, *tx, CommandError::Unconfirmed { worker }));
            }
        }
        for (request, tx, error) in overdue {
            self.answer_commit(request, tx, Response::Failed(error));
        }
    }

    /// Sends unconfirmed decisions again, because a participant may have crashed before it
    /// confirmed.
    pub(crate) fn repeat_decisions(&mut self, now: Now) {
        let patience = self.worker.config.timing.prepare_timeout * 2;
        let mut overdue = Vec::new();
        for (tx, SentDecision { decision, at, .. }) in &mut self.coordinator.decided {
            if at.is_none_or(|at| now.monotonic.since(at) >= patience) {
                *at = Some(now.monotonic);
                let message = Message::Commit { tx: *tx, ts: decision.ts };
                overdue.extend(decision.unconfirmed.iter().map(|to| (*to, message.clone())));
            }
        }
        for (to, message) in overdue {
            self.worker.send(to, message);
        }
    }

    /// Handles a participant's request for a decision. A transaction that is neither open nor
    /// decided here never committed, because decisions are kept until every participant has
    /// confirmed them.
    pub(crate) fn on_undecided(&mut self, from: Address, tx: TxId) {
        if self.coordinator.open.contains_key(&tx) {
            return;
        }
        let message = match self.coordinator.decided.get(&tx) {
            Some(sent) => Message::Commit { tx, ts: sent.decision.ts },
            None => Message::Abort { tx },
        };
        self.worker.send(from, message);
    }

    /// Aborts commits whose participants do not prepare in time, and transactions that are idle or
    /// open for too long, because an open snapshot keeps versions at every site.
    pub(crate) fn expire_transactions(&mut self, now: Now) {
        let timing = &self.worker.config.timing;
        let overdue: Vec<TxId> = self
            .coordinator
            .open
            .iter()
            .filter(|(_, transaction)| match &transaction.preparing {
                Some(preparing) => now.monotonic.since(preparing.since) >= preparing.patience,
                None => transaction.is_overdue(now.monotonic, timing),
            })
            .map(|(tx, _)| *tx)
            .collect();
        for tx in overdue {
            let transaction = self.drop_transaction(tx);
            if let Some(preparing) = transaction.and_then(|transaction| transaction.preparing) {
                self.decide(now, tx, None, preparing.participants);
                let response = Response::Failed(CommandError::PartitionSlow);
                self.answer_commit(preparing.request, tx, response);
            } else {
                self.expire_single(now, tx);
            }
        }
        if !self.coordinator.singles.is_empty() {
            self.forget_singles(now);
        }
    }

    /// Returns a transaction that still accepts operations.
    pub(crate) fn open_transaction(&mut self, tx: TxId) -> Option<&mut Transaction> {
        self.coordinator.open.get_mut(&tx).filter(|transaction| transaction.preparing.is_none())
    }

    /// Returns the partitions of the writes for the trace; empty if there is no trace.
    fn partitions_of<'a>(&self, writes: impl IntoIterator<Item = &'a Write>) -> Vec<PartitionId> {
        if !self.worker.config.trace {
            return Vec::new();
        }
        let partitions = writes.into_iter().map(|write| self.worker.partition_of(&write.key));
        partitions.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn trace_transaction(
        &mut self,
        tx: TxId,
        ts: Timestamp,
        snap_vec: &Vector,
        partitions: Vec<PartitionId>,
    ) {
        let cause = Some(Cause::Transaction(self.worker.me, tx));
        let dot = solera_data::Dot::of(self.worker.me, ts);
        let snap_vec = *snap_vec;
        self.worker.trace(|| Event::Committed {
            cause,
            dot,
            snap_vec,
            partitions,
            eventual: false,
        });
    }
}
