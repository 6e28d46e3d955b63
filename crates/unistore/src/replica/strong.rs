//! Strong transactions: COMMIT_STRONG and DELIVER_UPDATES (Alg. 3), by the certification service.
//!
//! The service decides. This module submits the accesses and writes of clients' transactions,
//! stores the transactions that the service delivers, and replicates them to the siblings as the
//! history of one more origin, [`Origin::Strong`]. The leader of a partition's group sends it to
//! the others, and any replica sends it on request.
//!
//! UNIFORM_BARRIER (Alg. 3 l. 2) is no separate step: members acknowledge a vote when their site
//! stores the transaction's snapshot, so a quorum of acknowledgements makes it uniform.

mod delivery;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use solera_certification::{
    AbortCause, Access, Claim, Counts, GroupId, GroupPayload, Kind, Outcome, Output as Certified,
    Service, TransactionId,
};
use solera_data::{Key, Op, OpError, Outcome as Answer};
use solera_levels::Level;
use solera_machine::{Address, Now, PartitionId, RequestId};
use solera_time::{Monotonic, Origin, SiteId, Timestamp, Vector};

use crate::command::{CommandError, Response, TxId};
use crate::config::{Config, Rule};
use crate::groups::{configuration, first_run, group_of};
use crate::message::{Cause, Event, Message, Write};
use crate::pasts::Pasts;
use crate::record::Record;
use crate::replica::Replica;
use crate::replica::coordinator::Transaction;

/// Pause before an aborted operation is retried, if the conflict is not known: 10 ms.
pub const RETRY_PAUSE: Duration = Duration::from_millis(10);
/// Longest time that a retry waits until the site has the conflicting transaction: 500 ms.
pub const LONGEST_RETRY_WAIT: Duration = Duration::from_millis(500);

/// Time after which a coordinator stops waiting for the outcome of an undecided transaction. After
/// that, only its participants learn it.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// Least time between two prunings of the conflicts that certification holds.
const PRUNING: Duration = Duration::from_millis(100);

/// Time that a worker has to answer a request for the outcome of a transaction.
const ASKING: Duration = Duration::from_secs(1);

/// State of a worker for strong transactions.
#[derive(Debug)]
pub(crate) struct Strong {
    pub(crate) service: Service<Write>,
    /// Whether this worker has never kept any state, in any generation of its site.
    pub(crate) first: bool,
    /// Transactions that wait for their decision.
    submitted: BTreeMap<TransactionId, Submitted>,
    /// Open transactions of one operation, by request, each with the identifier of its last
    /// attempt.
    singles: BTreeMap<RequestId, (TxId, Single)>,
    /// Reads that wait for their decision and that their clients may cancel.
    certifying: BTreeMap<RequestId, TransactionId>,
    retries: Vec<Retry>,
    /// Upper bound of the strong timestamps of transactions that this worker has submitted and for
    /// whose outcome no client waits any more.
    ceiling: Timestamp,
    /// Sites that have asked this replica for the strong history of a partition.
    asked: BTreeSet<(usize, SiteId)>,
    /// Time when conflicts were last pruned, and the vector up to which they were pruned.
    pruned: (Monotonic, Vector),
    counts: StrongCounts,
    /// Number of ranges that were dropped because their times are too far in the future.
    pub(crate) from_the_future: u64,
    /// Clients that wait for the outcome of a transaction.
    asking: Vec<Asking>,
}

/// Counts of the outcomes of strong transactions of a worker's clients since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrongCounts {
    /// Committed transactions.
    pub committed: u64,
    /// Aborted transactions; each retry counts.
    pub aborted: u64,
    /// Transactions that were not decided in time.
    pub unavailable: u64,
    /// Messages of the certification service that were duplicates, too late, or from the future.
    pub ignored: u64,
    /// Votes with which this worker, as a leader, has reserved keys. It reserves them for a
    /// transaction that had been aborted before.
    pub reserved: u64,
    /// Transactions that waited, at this worker as a leader, for the retry of an aborted
    /// transaction.
    pub waited: u64,
}

impl StrongCounts {
    /// Adds the counts of another worker.
    pub fn add(&mut self, other: &StrongCounts) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.unavailable += other.unavailable;
        self.ignored += other.ignored;
        self.reserved += other.reserved;
        self.waited += other.waited;
    }
}

#[derive(Debug)]
struct Asking {
    request: RequestId,
    until: Monotonic,
    /// Workers whose answers are missing.
    silent: BTreeSet<Address>,
    /// Outcome according to the answers so far.
    committed: Option<bool>,
}

/// A transaction that is being certified.
#[derive(Debug)]
struct Submitted {
    since: Monotonic,
    /// Request of the client; `None` once the client has received an error because of the timeout.
    request: Option<RequestId>,
    snap_vec: Vector,
    /// Greatest strong timestamp with which it can commit.
    until: Timestamp,
    /// Whether it has writes.
    writes: bool,
    single: Option<Single>,
}

/// A strong transaction of one operation.
#[derive(Debug)]
struct Single {
    request: RequestId,
    past: Vector,
    key: Key,
    op: Op,
    kind: Kind,
    /// Outcome of the operation if the transaction commits.
    result: Result<Answer, OpError>,
    since: Monotonic,
    /// Claim of the previous attempt, if that was aborted.
    claim: Option<Claim>,
    /// Whether the client may cancel it.
    cancellable: bool,
    /// Whether the client has cancelled it. It then only waits for the answer to its operation,
    /// which is dropped.
    cancelled: bool,
}

/// A transaction of one operation that was aborted and waits for its next attempt.
#[derive(Debug)]
struct Retry {
    single: Single,
    /// Snapshot that this site must hold before another attempt can succeed.
    lacks: Option<Vector>,
    /// Time of the next attempt if the site does not hold the snapshot before.
    at: Monotonic,
}

impl Strong {
    pub(crate) fn new(config: &Config) -> Self {
        let certification = solera_certification::Config {
            me: config.address,
            workers: config.topology.workers.clone(),
            groups: config.topology.owned_by(config.address).map(group_of).collect(),
            leader: config.leader,
            f: config.f,
            run: config.first_transaction,
            timing: config.certification.clone(),
            without: config.without.part(|rule| match rule {
                Rule::Certification(rule) => Some(rule),
                _ => None,
            }),
        };
        let epoch = Now { monotonic: Monotonic(0), physical: solera_time::Physical(0) };
        Strong {
            service: Service::new(epoch, certification),
            first: config.generation == 0,
            submitted: BTreeMap::new(),
            singles: BTreeMap::new(),
            certifying: BTreeMap::new(),
            retries: Vec::new(),
            ceiling: Timestamp::ZERO,
            asked: BTreeSet::new(),
            pruned: (Monotonic(0), Vector::zero(config.topology.sites())),
            counts: StrongCounts::default(),
            from_the_future: 0,
            asking: Vec::new(),
        }
    }

    /// Returns whether every transaction that was submitted here is within this vector.
    pub(crate) fn is_within(&self, uniform_vec: &Vector) -> bool {
        self.submitted.is_empty() && self.ceiling <= uniform_vec.strong
    }

    /// Returns the meet of `floor` with the snapshots of submitted transactions whose clients still
    /// wait. The ceiling covers the other submitted transactions.
    pub(crate) fn floor(&self, mut floor: Vector) -> Vector {
        for submitted in self.submitted.values().filter(|submitted| submitted.request.is_some()) {
            floor.meet(&submitted.snap_vec);
        }
        floor
    }

    /// Returns an upper bound of the strong timestamps of transactions that were submitted here and
    /// whose clients do not wait any more.
    pub(crate) fn ceiling(&self) -> Timestamp {
        self.ceiling
    }

    /// Returns the number of transactions that wait for their decision or for a retry.
    pub(crate) fn undecided(&self) -> usize {
        // Transactions that were submitted here are also pending at the service.
        self.retries.len() + self.service.pending()
    }

    /// Returns the counts of outcomes.
    pub(crate) fn counts(&self) -> StrongCounts {
        let Counts { ignored, reserved, waited } = self.service.counts();
        let ignored = ignored + self.from_the_future;
        StrongCounts { ignored, reserved, waited, ..self.counts }
    }

    /// Returns whether no transaction waits for a decision.
    pub(crate) fn is_idle(&self) -> bool {
        self.submitted.is_empty() && self.undecided() == 0
    }
}

impl Replica {
    /// Starts certification with the first input.
    pub(crate) fn begin_certification(&mut self, now: Now) {
        if self.strong.service.has_begun() || !self.worker.config.protocol.has_strong() {
            return;
        }
        let first = self.strong.first;
        for index in 0..self.worker.partitions.len() {
            self.report_stored(now, index);
        }
        self.set_groups();
        self.strong.service.begin(now, first);
    }

    /// Executes a call that may cause outputs of the certification service, and then handles these
    /// outputs, so that none is left when this returns. Outputs that the service emits when it
    /// begins, or when a partition has been filled, are handled by the next call.
    pub(crate) fn certifying(&mut self, now: Now, act: impl FnOnce(&mut Self)) {
        act(self);
        while let Some(output) = self.strong.service.poll_output() {
            self.on_certified(now, output);
        }
    }

    /// Reports to the service the strong transactions of a partition that are stored here after a
    /// restart, or came from a donor.
    pub(crate) fn report_stored(&mut self, now: Now, index: usize) {
        let partition = &self.worker.partitions[index];
        let group = group_of(partition.id);
        for update in partition.committed[Origin::Strong].iter() {
            self.strong.service.stored(group, &update.commit_vec());
        }
        self.strong.service.known(now, group, partition.known_vec.strong);
    }

    /// Sets the current members as the members of the groups.
    pub(crate) fn set_groups(&mut self) {
        let members = &self.worker.dissemination.members;
        let number = configuration(members);
        let members = members.members().map(|site| (site, first_run(members.generation(site))));
        self.strong.service.set_members(number, members);
    }

    /// Executes a strong transaction of one operation, for a client of this worker.
    #[expect(clippy::too_many_arguments, reason = "one per field of the command")]
    pub(crate) fn execute_strong(
        &mut self,
        now: Now,
        request: RequestId,
        past: Vector,
        key: Key,
        op: Op,
        kind: Kind,
        cancellable: bool,
    ) {
        let (result, since) = (Err(OpError::TooLarge), now.monotonic);
        let (claim, cancelled) = (None, false);
        let single =
            Single { request, past, key, op, kind, result, since, claim, cancellable, cancelled };
        self.attempt(now, single);
    }

    fn attempt(&mut self, now: Now, single: Single) {
        let tx = self.begin(now, &single.past, true);
        let (request, key, op, kind) =
            (single.request, single.key.clone(), single.op.clone(), single.kind);
        self.strong.singles.insert(request, (tx, single));
        if let Some(snap_vec) = self.open_transaction(tx).map(|transaction| transaction.snap_vec) {
            let cause = Cause::Request(self.worker.config.address, request);
            self.worker.trace(|| Event::Snapshot { cause, snap_vec, eventual: false });
        }
        let done = self.operate(now, request, tx, Level::Linearizable, &key, &op, kind);
        if let Some(response) = done {
            self.operated_strong(now, request, tx, response);
        }
    }

    /// Handles the response to an operation of a strong transaction. Sends it to its client, or
    /// commits the transaction if it has only this operation.
    pub(crate) fn operated_strong(
        &mut self,
        now: Now,
        request: RequestId,
        tx: TxId,
        response: Response,
    ) {
        let Some((_, single)) = self.strong.singles.get_mut(&request) else {
            return self.worker.reply(request, response);
        };
        let cancelled = single.cancelled;
        match response {
            Response::Operated(result) if !cancelled => {
                single.result = result;
                let claim = single.claim;
                self.commit(now, request, tx, claim);
            }
            other => {
                self.strong.singles.remove(&request);
                self.abort(tx);
                if !cancelled {
                    self.worker.reply(request, other);
                }
            }
        }
    }

    /// Handles a response of a key's owner: completes the single operation that waits for it, or
    /// passes the response to the client.
    pub(crate) fn on_execute_reply(&mut self, now: Now, request: RequestId, response: Response) {
        if self.complete.is_reading(request) {
            return self.complete_read_executed(now, request, response);
        }
        match self.strong.singles.get(&request).map(|(tx, _)| *tx) {
            Some(tx) => self.operated_strong(now, request, tx, response),
            None => {
                if let Some(response) = self.refused_guarded(now, request, response) {
                    self.worker.reply(request, response);
                }
            }
        }
    }

    /// Asks for the outcome of a strong transaction, and answers as soon as its coordinator or a
    /// member of its groups at this site has answered.
    pub(crate) fn find_outcome(&mut self, now: Now, request: RequestId, tid: TransactionId) {
        let until = now.monotonic.after(ASKING);
        let site = self.worker.me;
        let workers = self.worker.config.topology.workers[site.index()];
        let mut asked: BTreeSet<_> = (0..workers).map(|worker| Address { site, worker }).collect();
        asked.insert(tid.coordinator);
        // Asks workers of suspected or removed sites, too, but does not wait for their answers.
        let gone = |worker: &&Address| {
            self.worker.detector.suspects(worker.site)
                || !self.worker.dissemination.members.is_member(worker.site)
        };
        let silent = asked.iter().filter(|worker| !gone(worker)).copied().collect();
        self.strong.asking.push(Asking { request, until, silent, committed: None });
        for worker in asked {
            self.worker.send(worker, Message::AskOutcome { request, tid });
        }
    }

    /// Returns whether a transaction committed; `None` if this worker does not know.
    pub(crate) fn outcome(&self, tid: TransactionId) -> Option<bool> {
        let outcome = self.strong.service.outcome(tid)?;
        Some(matches!(outcome, Outcome::Committed(_)))
    }

    pub(crate) fn on_outcome(
        &mut self,
        from: Address,
        request: RequestId,
        committed: Option<bool>,
    ) {
        let asking = &mut self.strong.asking;
        let Some(at) = asking.iter().position(|asking| asking.request == request) else {
            self.worker.ignored += 1;
            return;
        };
        asking[at].silent.remove(&from);
        asking[at].committed = asking[at].committed.max(committed);
        if committed == Some(true) || asking[at].silent.is_empty() {
            let Asking { committed, .. } = asking.swap_remove(at);
            self.worker.reply(request, Response::Outcome(committed));
        }
    }

    /// Answers clients that have waited too long for an outcome, on the basis of the answers so
    /// far. A worker that has not answered may have failed.
    fn give_up_asking(&mut self, now: Now) {
        let (late, asking) = std::mem::take(&mut self.strong.asking)
            .into_iter()
            .partition(|asking| now.monotonic >= asking.until);
        self.strong.asking = asking;
        let late: Vec<Asking> = late;
        for Asking { request, committed, .. } in late {
            self.worker.reply(request, Response::Outcome(committed));
        }
    }

    /// COMMIT_STRONG (UniStore Alg. 3 l. 1–3).
    #[expect(clippy::too_many_arguments, reason = "a transaction, and parameters of its client")]
    pub(crate) fn commit_strong(
        &mut self,
        now: Now,
        request: RequestId,
        tx: TxId,
        transaction: Transaction,
        until: Timestamp,
        claim: Option<Claim>,
    ) {
        self.worker.note_activity(now);
        let single = self.strong.singles.remove(&request).map(|(_, single)| single);
        let name = transaction.name();
        let (snap_vec, writes, accesses) = transaction.into_certified();
        let mut payloads: BTreeMap<GroupId, GroupPayload<Write>> = BTreeMap::new();
        let empty = || GroupPayload { snap_vec, accesses: Vec::new(), writes: Vec::new() };
        for ((key, _, update), kind) in accesses.into_done() {
            let access = Access { key, update, kind };
            let group = self.certifier_of(self.worker.partition_of(&access.key));
            payloads.entry(group).or_insert_with(empty).accesses.push(access);
        }
        for (key, effect) in writes {
            let group = self.certifier_of(self.worker.partition_of(&key));
            let payload = payloads.entry(group).or_insert_with(empty);
            payload.writes.push(Write { key, effect });
        }
        if payloads.is_empty() {
            if let Some(tid) = name {
                self.strong.service.release(tid, Outcome::Committed(snap_vec.strong));
            }
            return self
                .worker
                .reply(request, Response::Committed { pasts: Pasts::causal(snap_vec) });
        }
        if !self.worker.config.protocol.has_strong() {
            return self.worker.reply(request, Response::Failed(CommandError::NoStrong));
        }
        if !self.reaches_enough(now) {
            if let Some(tid) = name {
                self.strong.service.release(tid, Outcome::Aborted(None));
            }
            self.strong.counts.unavailable += 1;
            let error = self.unavailable(now, None);
            return self.worker.reply(request, Response::Failed(error));
        }
        let payloads: BTreeMap<_, _> =
            payloads.into_iter().map(|(group, payload)| (group, Arc::new(payload))).collect();
        let writes = payloads.values().any(|payload| !payload.writes.is_empty());
        let cause = match &single {
            Some(single) => Cause::Request(self.worker.config.address, single.request),
            None => Cause::Transaction(self.worker.me, tx),
        };
        let submitted = Submitted {
            // The timeout restarts with each attempt: a late attempt does not show that sites are
            // unreachable.
            since: now.monotonic,
            request: Some(request),
            snap_vec,
            until,
            writes,
            single,
        };
        self.certifying(now, |replica| {
            let traced = replica.worker.config.trace.then(|| payloads.clone());
            let tid = replica.strong.service.certify(now, name, payloads, until, claim);
            replica.worker.trace(|| submission(cause, tid, snap_vec, &traced.unwrap_or_default()));
            if let Some(single) = submitted.single.as_ref().filter(|single| single.cancellable) {
                replica.strong.certifying.insert(single.request, tid);
            }
            replica.strong.submitted.insert(tid, submitted);
            // Members acknowledge votes only when their sites store the whole snapshot.
            replica.wait_for(&snap_vec);
        });
    }

    /// Returns whether this worker has recently received messages from enough sites to decide.
    /// Otherwise the transaction fails at once, without an unknown outcome.
    fn reaches_enough(&self, now: Now) -> bool {
        let patience = self.worker.config.timing.strong_timeout;
        let is_gone = |site: &SiteId| {
            let suspected = self.worker.detector.suspected_for(*site, now.monotonic);
            suspected.is_some_and(|suspected| suspected >= patience)
        };
        let members = self.worker.dissemination.members.members();
        self.strong.service.is_enough(members.filter(|site| !is_gone(site)).count())
    }

    /// Returns the latest time for which groups may vote on a transaction that is about to be
    /// submitted: the time at which its client stops waiting. First records a promise that covers
    /// the current time. A restarted worker adds the same timeout to the promised clock, and so has
    /// an upper bound of the transactions of this run that other sites can still commit.
    pub(crate) fn latest_vote(&mut self, now: Now, snap_vec: &Vector) -> Timestamp {
        let clock =
            self.worker.clock.read(now.physical).max(self.worker.dissemination.view.strong_clock);
        // A vote is above every entry of the snapshot.
        let from = clock.max(snap_vec.max_entry());
        self.promise_past(now, from);
        from.later(self.worker.config.timing.strong_timeout)
    }

    /// Handles the outcome of a strong transaction of this worker.
    fn on_decided(&mut self, now: Now, tid: TransactionId, outcome: Outcome, claim: Option<Claim>) {
        let Some(submitted) = self.strong.submitted.remove(&tid) else { return };
        self.worker.note_activity(now);
        let Submitted { request, snap_vec, single, .. } = submitted;
        if let Some(request) = request {
            self.strong.certifying.remove(&request);
        }
        match outcome {
            Outcome::Committed(ts) => {
                self.strong.counts.committed += 1;
                self.strong.ceiling = self.strong.ceiling.max(ts);
                self.strong.service.follow(ts);
                self.wait_for(&snap_vec.with(Origin::Strong, ts));
                self.worker.trace(|| Event::Certified { tid, ts: Some(ts) });
                let pasts = Pasts::causal(snap_vec.with(Origin::Strong, ts));
                if let Some(request) = request {
                    self.worker.reply(
                        request,
                        match single {
                            Some(single) => Response::Executed { outcome: single.result, pasts },
                            None => Response::Committed { pasts },
                        },
                    );
                }
            }
            Outcome::Aborted(cause) => {
                self.strong.counts.aborted += 1;
                self.worker.trace(|| Event::Certified { tid, ts: None });
                let claim = claim.expect("an aborted transaction has a claim");
                self.on_aborted(now, cause, claim, single, request);
            }
        }
    }

    fn on_aborted(
        &mut self,
        now: Now,
        cause: Option<AbortCause>,
        claim: Claim,
        single: Option<Single>,
        request: Option<RequestId>,
    ) {
        let Some(request) = request else { return };
        let (key, lacks) = cause.map_or((None, None), |AbortCause { key, past }| (key, Some(past)));
        let patience = self.worker.config.timing.strong_timeout;
        match single {
            Some(single) if now.monotonic.since(single.since) < patience => {
                let pause = if lacks.is_some() { LONGEST_RETRY_WAIT } else { RETRY_PAUSE };
                let at = now.monotonic.after(pause);
                if let Some(lacks) = &lacks {
                    self.wait_for(lacks);
                }
                let claim = Some(claim).filter(|_| !single.cancellable);
                let single = Single { claim, ..single };
                self.strong.retries.push(Retry { single, lacks, at });
            }
            _ => {
                let lacks = lacks.map(Box::new);
                let error = CommandError::Aborted { key, claim, lacks };
                self.worker.reply(request, Response::Failed(error));
            }
        }
    }

    /// Executes the periodic work for strong transactions.
    pub(crate) fn tick_strong(&mut self, now: Now) {
        let view = &self.worker.dissemination.view;
        let (stable_vec, settled_vec) = (view.stable_vec, view.settled_vec);
        self.strong.service.follow(view.strong_clock);
        self.certifying(now, |replica| {
            replica.strong.service.site_stores(now, &stable_vec);
            replica.prune(now, settled_vec);
            replica.strong.service.on_deadline(now);
        });
        self.give_up_late(now);
        self.give_up_asking(now);
        self.retry_aborted(now);
        if !self.strong.is_idle() {
            self.worker.note_activity(now);
        }
    }

    /// Retries aborted transactions, once this site has the transactions that they conflicted with.
    fn retry_aborted(&mut self, now: Now) {
        let retries = std::mem::take(&mut self.strong.retries);
        let is_due = |retry: &Retry| {
            retry.at <= now.monotonic || retry.lacks.is_some_and(|lacks| self.holds(&lacks))
        };
        let (due, later): (Vec<Retry>, _) = retries.into_iter().partition(is_due);
        self.strong.retries = later;
        for Retry { single, .. } in due {
            self.attempt(now, single);
        }
    }

    /// Prunes conflicts, but not with every tick, because pruning visits all of them.
    fn prune(&mut self, now: Now, settled_vec: Vector) {
        let (at, before) = self.strong.pruned;
        if now.monotonic.since(at) >= PRUNING && settled_vec != before {
            self.strong.pruned = (now.monotonic, settled_vec);
            self.strong.service.prune(&settled_vec);
        }
    }

    /// Handles the cancellation of a read: it is not attempted again. If its groups may have it
    /// already, its outcome is determined as if its coordinator had failed.
    pub(crate) fn cancel_strong(&mut self, request: RequestId) {
        if let Some((tx, single)) = self.strong.singles.get_mut(&request) {
            if !single.cancellable {
                return;
            }
            single.cancelled = true;
            let tx = *tx;
            return self.abort(tx);
        }
        let Some(tid) = self.strong.certifying.remove(&request) else {
            let is_it = |retry: &Retry| retry.single.request == request && retry.single.cancellable;
            return self.strong.retries.retain(|retry| !is_it(retry));
        };
        // A transaction that only reads has no effect, whatever its outcome, so that the ceiling
        // need not cover it.
        if let Some(submitted) = self.strong.submitted.get_mut(&tid) {
            submitted.request = None;
        }
        self.strong.service.cancel(tid);
    }

    /// Returns the error of a transaction on which the sites have not agreed in time.
    fn unavailable(&self, now: Now, tid: Option<TransactionId>) -> CommandError {
        let period = 2 * self.worker.config.timing.strong_timeout;
        CommandError::Unavailable { tid, clocks: self.strong.service.clocks_differ(now, period) }
    }

    /// Fails the requests of clients whose transactions take too long.
    fn give_up_late(&mut self, now: Now) {
        let patience = self.worker.config.timing.strong_timeout;
        let mut late = Vec::new();
        for (tid, submitted) in &mut self.strong.submitted {
            if now.monotonic.since(submitted.since) >= patience
                && let Some(request) = submitted.request.take()
            {
                self.strong.ceiling = self.strong.ceiling.max(submitted.until);
                // A transaction that only reads has no effect, whatever its outcome, so its client
                // need not ask for the outcome.
                late.push((*tid, request, submitted.writes));
            }
        }
        self.strong.submitted.retain(|_, submitted| {
            submitted.request.is_some() || now.monotonic.since(submitted.since) < FORGOTTEN
        });
        for (tid, request, writes) in late {
            self.strong.certifying.remove(&request);
            self.strong.counts.unavailable += 1;
            self.strong.service.give_up(tid);
            let error = self.unavailable(now, writes.then_some(tid));
            self.worker.reply(request, Response::Failed(error));
        }
        // The operation of such a transaction may wait for transactions that cannot reach this
        // site.
        let open = self.strong.singles.iter();
        let late: Vec<(RequestId, TxId)> = open
            .filter(|(_, (_, single))| now.monotonic.since(single.since) >= patience)
            .map(|(request, (tx, _))| (*request, *tx))
            .collect();
        for (request, tx) in late {
            self.abort(tx);
            if self.strong.singles.remove(&request).is_some_and(|(_, single)| single.cancelled) {
                continue;
            }
            self.strong.counts.unavailable += 1;
            let error = self.unavailable(now, None);
            self.worker.reply(request, Response::Failed(error));
        }
    }

    /// Handles an output of the service.
    fn on_certified(&mut self, now: Now, output: Certified<Write>) {
        match output {
            Certified::Send { to, message } => {
                if let solera_certification::Body::Accept { entry, .. } = &message.body {
                    // A leader here has voted. By the time when the transaction is decided, the
                    // other groups should have reported that none of their transactions precedes
                    // it.
                    self.wait_for_strong(entry.ts);
                }
                self.worker.send(to, Message::Certification(message));
            }
            Certified::Record(record) => {
                self.worker.record(|| Record::Certification(record));
            }
            Certified::Decided { tid, outcome, claim } => {
                self.on_decided(now, tid, outcome, claim);
            }
            Certified::Deliver { group, tid, ts, payload } => {
                self.worker.trace(|| Event::Certified { tid, ts: Some(ts) });
                if !self.strong.service.leads(group) {
                    self.worker.trace(|| Event::Ahead { tid });
                }
                self.deliver(now, group, ts, &payload);
            }
            Certified::Complete { group, upto } => self.complete(now, group, upto),
            Certified::CatchUp { group, .. } => self.catch_up(group),
            Certified::Reached(path) => self.worker.reach(path),
            Certified::Leader { .. } => self.worker.note_activity(now),
        }
    }

    pub(crate) fn on_certification(
        &mut self,
        now: Now,
        from: Address,
        message: solera_certification::Message<Write>,
    ) {
        use solera_certification::Body;
        // These messages advance a transaction. Members send most other messages even when there
        // are no transactions.
        let hurries = matches!(
            message.body,
            Body::Prepare { .. } | Body::Accept { .. } | Body::Decision { .. }
        );
        let payload = match &message.body {
            Body::Prepare { payload, .. } => payload.as_ref(),
            Body::Accept { entry, .. } => entry.payload.as_ref(),
            _ => None,
        };
        let seen = payload.map(|payload| payload.snap_vec);
        self.certifying(now, |replica| {
            replica.strong.service.handle(now, from, message);
            if hurries {
                replica.worker.note_activity(now);
            }
            if let Some(snap_vec) = seen {
                // The vote, or its acknowledgement, waits until this site stores the transaction's
                // snapshot.
                replica.wait_for(&snap_vec);
            }
        });
    }
}

/// Returns the trace event of a transaction that is submitted.
fn submission(
    cause: Cause,
    tid: TransactionId,
    snap_vec: Vector,
    payloads: &BTreeMap<GroupId, Arc<GroupPayload<Write>>>,
) -> Event {
    let accesses = payloads.values().flat_map(|payload| payload.accesses.clone()).collect();
    let writing = payloads.iter().filter(|(_, payload)| !payload.writes.is_empty());
    let partitions = writing.map(|(group, _)| PartitionId(group.0)).collect();
    Event::Submitted { cause, tid, snap_vec, partitions, accesses }
}
