//! Prepared transactions and the reads that wait for them (Alg. 1 l. 18–25 and 36–48).

mod guarding;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smallvec::SmallVec;
use solera_data::{Dot, Effect, Key, Op, execute};
use solera_levels::Level;
use solera_machine::{Address, Guarded, Now, PartitionId, RequestId};
use solera_time::{Monotonic, Timestamp, Vector};

use crate::command::{CommandError, Response, TxId};
use crate::config::Rule;
use crate::message::{Event, Executed, Message, Update, Write};
use crate::partition::{Storing, group_by};
use crate::passing::PassingUpdate;
use crate::pasts::Pasts;
use crate::rare;
use crate::record::{Prepared, Record};
use crate::replica::Replica;
use crate::worker::ReplyTo;
use guarding::Guarding;

/// Transactions prepared at this worker (`preparedCausal`), and the reads that wait for them.
#[derive(Debug)]
pub(crate) struct Participant {
    prepared: BTreeMap<TxId, Waiting>,
    parked: Vec<Parked>,
    pub(crate) guarding: Guarding,
    /// Covers the commit vectors of all operations on eventual spaces that transactions have
    /// executed here.
    pub(crate) executed: Vector,
}

#[derive(Debug)]
struct Waiting {
    prepared: Prepared,
    /// Time of the last request for the decision, or of the prepare if there was no request; `None`
    /// after a restart.
    asked: Option<Monotonic>,
}

/// A read whose snapshot may contain a prepared transaction on its key.
#[derive(Debug)]
struct Parked {
    since: Monotonic,
    read: Read,
}

#[derive(Debug)]
enum Read {
    Execute(Execute),
    GetVersion(Box<GetVersion>),
}

/// A transaction of one operation, and the destination of its response.
#[derive(Debug)]
pub(crate) struct Execute {
    pub(crate) to: ReplyTo,
    pub(crate) past: Vector,
    pub(crate) level: Level,
    pub(crate) key: Key,
    pub(crate) op: Op,
}

#[derive(Debug)]
struct GetVersion {
    from: Address,
    tx: TxId,
    request: RequestId,
    snap_vec: Vector,
    level: Level,
    key: Key,
    op: Op,
    own: Option<Effect>,
}

impl Participant {
    pub(crate) fn new(sites: usize) -> Self {
        let executed = Vector::zero(sites);
        let (prepared, parked, guarding) = Default::default();
        Participant { prepared, parked, guarding, executed }
    }

    pub(crate) fn park_execute(&mut self, since: Monotonic, execute: Execute) {
        self.parked.push(Parked { since, read: Read::Execute(execute) });
    }

    /// Forgets a read of a client of this worker, which the client has cancelled.
    pub(crate) fn cancel(&mut self, request: RequestId) {
        let is_it = |read: &Read| match read {
            Read::Execute(Execute { to: ReplyTo::Client(of), op, .. }) => {
                *of == request && !op.is_update()
            }
            _ => false,
        };
        self.parked.retain(|parked| !is_it(&parked.read));
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.prepared.is_empty()
    }

    pub(crate) fn prepared(&self) -> usize {
        self.prepared.len()
    }

    pub(crate) fn each_prepared(&self) -> impl Iterator<Item = &Prepared> {
        self.prepared.values().map(|waiting| &waiting.prepared)
    }

    /// Removes and returns a transaction that was decided or aborted.
    pub(crate) fn take(&mut self, tx: TxId) -> Option<Prepared> {
        self.prepared.remove(&tx).map(|waiting| waiting.prepared)
    }

    /// Returns the prepared transactions for a checkpoint.
    pub(crate) fn to_save(&self) -> Vec<(TxId, Prepared)> {
        self.prepared.iter().map(|(tx, waiting)| (*tx, waiting.prepared.clone())).collect()
    }

    /// Restores a transaction that was prepared before a restart. The worker soon asks the
    /// coordinator for the decision.
    pub(crate) fn restore(&mut self, tx: TxId, prepared: Prepared) {
        self.prepared.insert(tx, Waiting { prepared, asked: None });
    }

    /// Returns the prepared transactions that change a key.
    pub(crate) fn preparing(&self, key: &Key) -> BTreeSet<TxId> {
        let all = self.prepared.iter();
        let found =
            all.filter(|(_, waiting)| Write::any_of(&waiting.prepared.writes, key.as_bytes()));
        found.map(|(tx, _)| *tx).collect()
    }

    pub(crate) fn is_prepared(&self, tx: TxId) -> bool {
        self.prepared.contains_key(&tx)
    }

    /// Returns the smallest prepare time.
    pub(crate) fn smallest_prepare(&self) -> Option<Timestamp> {
        self.prepared.values().map(|waiting| waiting.prepared.ts).min()
    }
}

impl Replica {
    /// Returns whether a prepared transaction on `key` may commit within a snapshot with this local
    /// entry.
    ///
    /// UniStore Alg. 1 l. 21 waits until `knownVec[d]` covers the snapshot: until no prepared
    /// transaction of the partition can commit within it. The clock has already passed the
    /// snapshot, so only prepared transactions on the key itself can still add updates that the
    /// read must see.
    ///
    /// The wait for the strong entry is as in the paper.
    pub(crate) fn is_blocked(&self, partition: usize, key: &[u8], snap_vec: &Vector) -> bool {
        let local_entry = snap_vec[self.worker.me];
        let lacks_strong = self.worker.partitions[partition].known_vec.strong < snap_vec.strong;
        if lacks_strong && self.worker.config.keeps(Rule::WaitOnStrong) {
            return true;
        }
        !self.participant.prepared.is_empty()
            && self.worker.config.keeps(Rule::WaitOnKnownVec)
            && self.participant.prepared.values().any(|Waiting { prepared, .. }| {
                prepared.ts <= local_entry && Write::any_of(&prepared.writes, key)
            })
    }

    /// Executes a single-operation transaction for a client of another worker.
    #[expect(clippy::too_many_arguments, reason = "one per field of the message")]
    pub(crate) fn execute_for_peer(
        &mut self,
        now: Now,
        to: ReplyTo,
        past: Vector,
        level: Level,
        key: Key,
        op: Op,
    ) {
        if op.is_update() && self.worker.config.is_guarded(&key) {
            // A sender with the same configuration would have sent a guarded transaction.
            let error = CommandError::OnlyCounted { key };
            return self.worker.answer(to, Response::Failed(error));
        }
        let partition = self.worker.partition_of(&key);
        let mut pasts = Pasts::causal(past);
        match self.try_execute(now, to, &mut pasts, level, partition, &key, &op) {
            Some(outcome) => self.worker.answer(to, Response::Executed { outcome, pasts }),
            None => {
                self.wait_for_strong(past.strong);
                let execute = Execute { to, past, level, key, op };
                self.participant.park_execute(now.monotonic, execute);
            }
        }
    }

    /// GET_VERSION (UniStore Alg. 1 l. 18–25). The operation executes here rather than at the
    /// coordinator, so that a small answer does not require sending a large value.
    #[expect(clippy::too_many_arguments, reason = "one per field of the message")]
    pub(crate) fn on_get_version(
        &mut self,
        now: Now,
        from: Address,
        tx: TxId,
        request: RequestId,
        snap_vec: Vector,
        level: Level,
        key: Key,
        op: Op,
        own: Option<Effect>,
    ) {
        // UniStore Alg. 1 l. 19–20
        self.worker.learn_uniform(&snap_vec);
        self.answer_version(
            now,
            Box::new(GetVersion { from, tx, request, snap_vec, level, key, op, own }),
        );
    }

    fn answer_version(&mut self, now: Now, read: Box<GetVersion>) {
        let own = read.own.as_ref();
        match self.version(now, &read.snap_vec, read.level, &read.key, &read.op, own) {
            Some(executed) => {
                let GetVersion { from, tx, request, level, key, .. } = *read;
                self.worker.send(from, Message::Version { tx, request, level, key, executed });
            }
            None => {
                self.wait_for_strong(read.snap_vec.strong);
                let read = Read::GetVersion(read);
                self.participant.parked.push(Parked { since: now.monotonic, read });
            }
        }
    }

    /// Executes an operation of a transaction on an owned key; returns `None` while a prepared
    /// transaction blocks the read.
    #[expect(clippy::too_many_arguments, reason = "one per field of the message that asks for it")]
    pub(crate) fn version(
        &mut self,
        now: Now,
        snap_vec: &Vector,
        level: Level,
        key: &[u8],
        op: &Op,
        own: Option<&Effect>,
    ) -> Option<Executed> {
        self.move_past(now, snap_vec);
        let eventual = level == Level::Eventual;
        let index = self.worker.index_of(self.worker.partition_of(key))?;
        if !eventual && self.is_blocked(index, key, snap_vec) {
            return None;
        }
        let arrived = self.worker.partitions[index].arrived;
        // Only the outcome is used, because the operation is executed again at commit.
        let snap_vec = if eventual { &arrived } else { snap_vec };
        let partition = &mut self.worker.partitions[index];
        let (result, dependency) =
            partition.read(key, snap_vec, eventual, own, |view| execute(op, view));
        let local_dependency = if eventual { Timestamp::ZERO } else { dependency };
        Some(Executed { result, local_dependency })
    }

    /// Advances the clock past the snapshot, so that no later transaction gets a time within it.
    /// The paper's read waits for the clock instead (l. 21).
    pub(crate) fn move_past(&mut self, now: Now, snap_vec: &Vector) {
        self.worker.clock.observe(snap_vec[self.worker.me]);
        let _ = self.worker.clock.read(now.physical);
        // The same must hold after a restart.
        self.promise_past(now, snap_vec[self.worker.me]);
    }

    /// PREPARE (UniStore Alg. 1 l. 36–41).
    #[expect(clippy::too_many_arguments, reason = "one per field of the message")]
    pub(crate) fn on_prepare(
        &mut self,
        now: Now,
        coordinator: Address,
        tx: TxId,
        snap_vec: Vector,
        writes: Vec<Write>,
        eventual: Vec<(Key, Op)>,
    ) {
        // UniStore Alg. 1 l. 37–38
        self.worker.learn_uniform(&snap_vec);
        if let Err(refusal) = self.check_guards(&writes, &eventual, &Guarded::default()) {
            return self.worker.send(coordinator, Message::GuardRefused { tx, refusal });
        }
        let ts = self.worker.new_dot(now, &snap_vec).ts;
        let prepared = Prepared { coordinator, ts, snap_vec, writes, eventual };
        self.keep_prepared(now, tx, prepared, |prepared| Record::Prepared(tx, prepared));
        self.worker.send(coordinator, Message::PrepareAck { tx, ts });
    }

    /// Keeps a prepared transaction, which `record` converts to a record.
    fn keep_prepared(
        &mut self,
        now: Now,
        tx: TxId,
        prepared: Prepared,
        record: impl FnOnce(Prepared) -> Record,
    ) {
        self.worker.record(|| record(prepared.clone()));
        let asked = Some(now.monotonic);
        self.participant.prepared.insert(tx, Waiting { prepared, asked });
        self.worker.note_activity(now);
    }

    /// COMMIT (UniStore Alg. 1 l. 42–48). The clock advances past the commit time; the paper waits
    /// for that (l. 43).
    pub(crate) fn on_commit(&mut self, now: Now, coordinator: Address, tx: TxId, ts: Timestamp) {
        if !self.can_commit(tx, ts) {
            self.worker.ignored += 1;
            return;
        }
        self.worker.clock.observe(ts);
        if let Some(prepared) = self.participant.take(tx) {
            let dot = Dot::of(self.worker.me, ts);
            let updates = self.by_partition(dot, prepared.snap_vec, prepared.writes);
            self.store_local(&updates);
            let eventual = prepared.eventual.into_iter();
            let eventual: Vec<_> =
                eventual.filter_map(|(key, op)| self.execute_eventual(now, &key, &op)).collect();
            // One record contains all of them, so that a restart cannot execute any of them twice.
            self.worker.record(|| Record::Committed(tx, ts, eventual.clone()));
            self.end_guards(tx, true);
            for (partition, update) in &eventual {
                self.participant.executed.join(&update.commit_vec());
                self.trace_eventual(*partition, update);
            }
            self.worker.note_activity(now);
            self.release_known_vec();
            self.retry_parked(now);
        }
        self.resolve(coordinator, tx);
    }

    /// Returns whether a transaction may commit at this time. The time must not be below the
    /// prepare time or be the time of another transaction, and the guards must have promised. Also
    /// returns true for a transaction that is not prepared any more, because it has committed
    /// before.
    fn can_commit(&self, tx: TxId, ts: Timestamp) -> bool {
        let Some(Waiting { prepared, .. }) = self.participant.prepared.get(&tx) else {
            return true;
        };
        let is_new = |write: &Write| {
            let index = self.worker.index_of(self.worker.partition_of(&write.key));
            let index = index.expect("a transaction is prepared where its keys are");
            self.worker.partitions[index].committed[self.worker.me].lacks(ts)
        };
        ts >= prepared.ts
            && prepared.writes.iter().all(is_new)
            && self.participant.guarding.may_commit(tx)
    }

    /// Confirms that the transaction is applied or dropped here, with the times of its operations
    /// on eventual spaces.
    fn resolve(&mut self, coordinator: Address, tx: TxId) {
        let until = self.participant.executed;
        self.worker.send(coordinator, Message::Resolved { tx, until });
    }

    /// Executes an operation of a committing transaction on the latest state of an eventual space,
    /// as a transaction of its own. Returns its update, if there is one, which the caller records
    /// and then traces. Failures are not reported, because the client has already received the
    /// outcomes on the transaction's snapshot.
    pub(crate) fn execute_eventual(
        &mut self,
        now: Now,
        key: &Key,
        op: &Op,
    ) -> Option<(PartitionId, Arc<Update>)> {
        let id = self.worker.partition_of(key);
        let index = self.worker.index_of(id)?;
        let snap_vec = self.worker.partitions[index].arrived;
        let (clock, site) = (&mut self.worker.clock, self.worker.me);
        // The replica keeps every update of an eventual space in memory, because other sites need
        // it.
        let passing = None::<fn(PassingUpdate<'_>)>;
        let done = self.worker.partitions[index].execute(
            key,
            op,
            &snap_vec,
            Storing::Eventual,
            passing,
            || {
                clock.observe(snap_vec.max_entry());
                Dot::of(site, clock.tick(now.physical))
            },
        );
        let (_, update) = done.stored?;
        let update = update.expect("nothing of this kind passes");
        self.demand.want_stored(self.worker.me, update.dot.ts);
        self.worker.note_activity(now);
        Some((id, update))
    }

    /// Traces an eventual write. Must be called after the write is recorded: if a crash loses the
    /// record, it also undoes the events that are traced after the record.
    pub(crate) fn trace_eventual(&mut self, partition: PartitionId, update: &Update) {
        let (dot, snap_vec) = (update.dot, update.snap_vec);
        self.worker.trace(|| Event::Stored { partition, dot });
        let (cause, partitions) = (None, vec![partition]);
        self.worker.trace(|| Event::Committed { cause, dot, snap_vec, partitions, eventual: true });
    }

    /// Handles the message of a coordinator that has aborted a transaction or does not know it.
    pub(crate) fn on_abort(&mut self, now: Now, coordinator: Address, tx: TxId) {
        if self.participant.take(tx).is_some() {
            self.worker.record(|| Record::Aborted(tx));
            self.end_guards(tx, false);
            self.release_known_vec();
            self.retry_parked(now);
        }
        self.give_up_reserving(tx);
        self.resolve(coordinator, tx);
    }

    /// Stores the writes of a local transaction that commits, partition by partition.
    pub(crate) fn store_local(&mut self, updates: &[(PartitionId, Arc<Update>)]) {
        let visible =
            updates.first().is_some_and(|(_, update)| self.snapshots_are_fresh(&update.snap_vec));
        for (id, update) in updates {
            self.demand.want_stored(update.dot.origin, update.dot.ts);
            let partition = self.worker.owned(*id);
            if visible {
                partition.store_visible(update.clone())
            } else {
                partition.store(update.clone())
            }
            self.worker.trace(|| Event::Stored { partition: *id, dot: update.dot });
        }
    }

    /// Groups a transaction's writes into one update per partition.
    pub(crate) fn by_partition(
        &self,
        dot: Dot,
        snap_vec: Vector,
        writes: Vec<Write>,
    ) -> SmallVec<[(PartitionId, Arc<Update>); 1]> {
        let groups = group_by(writes, |key| self.worker.partition_of(key));
        let update = |writes| Arc::new(Update { dot, snap_vec, writes, eventual: false });
        groups.into_iter().map(|(id, writes)| (id, update(writes))).collect()
    }

    /// Requests overdue decisions, so that no transaction stays prepared for ever: a decision that
    /// the coordinator sent may have been lost when its process failed.
    pub(crate) fn ask_for_decisions(&mut self, now: Now) {
        let patience = self.worker.config.timing.prepare_timeout * 2;
        let mut overdue = Vec::new();
        for (tx, waiting) in &mut self.participant.prepared {
            if waiting.asked.is_none_or(|asked| now.monotonic.since(asked) >= patience) {
                waiting.asked = Some(now.monotonic);
                overdue.push((waiting.prepared.coordinator, *tx));
            }
        }
        for (coordinator, tx) in overdue {
            self.worker.reach(rare::ASKS_FOR_DECISION);
            self.worker.send(coordinator, Message::Undecided { tx });
        }
    }

    pub(crate) fn retry_parked(&mut self, now: Now) {
        for Parked { since, read } in std::mem::take(&mut self.participant.parked) {
            let parked = self.participant.parked.len();
            match read {
                Read::Execute(Execute { to, past, level, key, op }) => {
                    self.execute_for_peer(now, to, past, level, key, op);
                }
                Read::GetVersion(read) => self.answer_version(now, read),
            }
            for again in &mut self.participant.parked[parked..] {
                again.since = since;
            }
        }
    }

    /// Fails reads that have waited too long. While this site is disconnected, the transactions
    /// that a client has seen at another site may not arrive, and neither may strong ones.
    pub(crate) fn give_up_parked(&mut self, now: Now) {
        // Other workers wait for this one, so it must fail the reads before their timeouts.
        let patience = self.worker.config.timing.strong_timeout * 4 / 5;
        for Parked { since, read } in std::mem::take(&mut self.participant.parked) {
            if now.monotonic.since(since) < patience {
                self.participant.parked.push(Parked { since, read });
                continue;
            }
            self.worker.reach(rare::GIVES_UP_READ);
            let response = Response::Failed(CommandError::NotHereYet);
            match read {
                Read::Execute(Execute { to, .. }) => self.worker.answer(to, response),
                Read::GetVersion(read) => {
                    let request = read.request;
                    self.worker.send(read.from, Message::ExecuteReply { request, response });
                }
            }
        }
    }
}
