//! Commits: prepares a transaction at all participants, validates it, and commits it at its
//! decision home.

use std::collections::BTreeMap;

use solera_data::{Effect, Key, Op};
use solera_machine::{Address, RequestId};
use solera_time::{Monotonic, SiteId};

use super::{Context, Gateway, Stage};
use crate::client::PreparedAt;
use crate::command::{AbortCause, ReadCounts, Response, Unknown};
use crate::config::Rule;
use crate::message::{Body, Commit, Decision, Execute, Executed, Prepare, TransactionId};
use crate::shard::{ShardId, Stamp};
use crate::timestamp::CausalTimestamp;

/// A participant of a transaction that is being prepared.
#[derive(Debug)]
struct Participant {
    above: Stamp,
    writes: Vec<(Key, Effect)>,
    answer: Option<PreparedAt>,
    /// Time when PREPARE is sent next.
    next: Monotonic,
    /// Number of times that another transaction held a lock.
    locked: u32,
}

/// A transaction whose participants have not all prepared.
#[derive(Debug)]
pub(super) struct Preparing {
    request: RequestId,
    participants: BTreeMap<Address, Participant>,
    decision_home: Address,
    decision_shard: ShardId,
    /// Number of moves that this worker had carried out when the attempt began.
    epoch: u64,
    since: Monotonic,
}

/// A transaction whose COMMIT has not been answered.
#[derive(Debug)]
pub(super) struct Committing {
    /// The client's request; `None` once the client does not wait any more.
    request: Option<RequestId>,
    commit: Box<Commit>,
    participants: Vec<Address>,
    decision_home: Address,
    decision_shard: ShardId,
    /// Number of moves that this worker had carried out when the attempt began.
    epoch: u64,
    since: Monotonic,
    /// Time when COMMIT is sent next.
    next: Monotonic,
}

/// A transaction of one home that has not been answered.
#[derive(Debug)]
pub(super) struct Executing {
    /// The client's request; `None` while the client does not wait for the outcome.
    pub(super) request: Option<RequestId>,
    /// Whether the client will not ask for the outcome.
    pub(super) abandoned: bool,
    home: Address,
    execute: Execute,
    pub(super) since: Monotonic,
    /// Time when EXECUTE is sent next.
    next: Monotonic,
    /// Number of attempts since the last answer that counted.
    unanswered: u32,
    locked: u32,
}

/// Greatest number of times that the wait for the answer to an attempt doubles.
const MOST_DOUBLINGS: u32 = 3;

impl Gateway {
    /// Checks that the versions that a transaction has read are pairwise consistent.
    ///
    /// # Errors
    /// The reason why the transaction must abort.
    fn validate_reads(&self, context: &Context<'_>, number: u64) -> Result<(), AbortCause> {
        let transaction = &self.open[&number].transaction;
        if transaction.moved(context.homes).is_some() {
            return Err(AbortCause::Moved);
        }
        match context.config.has(Rule::ValidateReadSet) {
            true => transaction.validate_reads(context.homes),
            false => Ok(()),
        }
        .map_err(AbortCause::ReadSet)
    }

    /// Ends a transaction without effect, after validation of its reads.
    pub(super) fn certify(&mut self, context: &mut Context<'_>, request: RequestId, number: u64) {
        let validated = self.validate_reads(context, number);
        let cause = validated.err().unwrap_or(AbortCause::Given);
        self.end(context, number, request, Response::Aborted(cause));
    }

    /// Commits a transaction (§6.2; List. 3 l. 40–45). A transaction that only reads commits
    /// without a message.
    pub(super) fn commit(&mut self, context: &mut Context<'_>, request: RequestId, number: u64) {
        if let Err(cause) = self.validate_reads(context, number) {
            return self.end(context, number, request, Response::Aborted(cause));
        }
        let transaction = &self.open[&number].transaction;
        let mut participants: BTreeMap<Address, Participant> = BTreeMap::new();
        for (key, effect) in transaction.writes() {
            let (_, site, home) = context.home_of(key);
            let participant = participants.entry(home).or_insert_with(|| Participant {
                above: transaction.timestamp().greatest(site),
                writes: Vec::new(),
                answer: None,
                next: context.now.monotonic,
                locked: 0,
            });
            participant.writes.push((key.clone(), effect.clone()));
        }
        // A participant of this site decides first, because COMMIT and the outcome then take no
        // round trip to another site.
        let me = context.config.address.site;
        let near = participants.iter().find(|(home, _)| home.site == me);
        let decides = near.or(participants.iter().next()).map(|(home, participant)| {
            let shard = participant.writes.first().map(|(key, _)| context.config.shard_of(key));
            (*home, shard.unwrap_or(ShardId(0)))
        });
        let Some((decision_home, decision_shard)) = decides else {
            let past = Gateway::next_past(context, transaction.timestamp().clone());
            let counts = ReadCounts::default();
            let reply = Response::Committed { outcomes: Vec::new(), past, counts };
            return self.end(context, number, request, reply);
        };
        if participants.len() == 1 {
            return self.execute(context, request, number, Vec::new());
        }
        self.begin_attempt(number);
        let to: Vec<Address> = participants.keys().copied().collect();
        let since = context.now.monotonic;
        let epoch = context.homes.epoch();
        let preparing =
            Preparing { request, participants, decision_home, decision_shard, epoch, since };
        let stage = Stage::Preparing(preparing);
        self.wait(number, stage);
        for to in to {
            self.send_prepare(context, number, to);
        }
    }

    /// Sends PREPARE to one participant (List. 3 l. 47–50).
    fn send_prepare(&mut self, context: &mut Context<'_>, number: u64, to: Address) {
        let (tid, oldest) = (self.tid(number), self.oldest());
        let Some(open) = self.open.get_mut(&number) else { return };
        let Stage::Preparing(preparing) = &mut open.stage else { return };
        let Some(participant) = preparing.participants.get_mut(&to) else { return };
        participant.next = context.retry_at();
        let prepare = Prepare {
            tid,
            above: participant.above,
            writes: participant.writes.clone(),
            decision_home: preparing.decision_home,
            decision_shard: preparing.decision_shard,
            epoch: preparing.epoch,
            oldest,
        };
        self.send_to_home(context, to, Body::Prepare(prepare));
    }

    /// PREPARED: once all participants have answered, validates the transaction and sends COMMIT
    /// (List. 3 l. 52–53, 57–58).
    pub(crate) fn on_prepared(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        tid: TransactionId,
        (assigned, overwritten): (Stamp, CausalTimestamp),
    ) {
        let Some((number, open)) = self.current(tid) else { return };
        let Stage::Preparing(preparing) = &mut open.stage else { return };
        let Some(participant) = preparing.participants.get_mut(&from) else { return };
        participant.answer = Some(PreparedAt { site: from.site, assigned, overwritten });
        let answers = preparing.participants.values().map(|participant| participant.answer.clone());
        let Some(answers) = answers.collect::<Option<Vec<PreparedAt>>>() else { return };
        let validated = match context.config.has(Rule::ValidateOverwriteSet) {
            true => open.transaction.validate_overwrites(&answers, context.homes),
            false => Ok(()),
        };
        if let Err(shard) = validated {
            return self.abort(context, number, AbortCause::OverwriteSet(shard));
        }
        // The commit timestamp attributes the stamp of a written shard to the shard's present home.
        // This is right only if the shard has not moved since PREPARED. Also, the new home of the
        // decision shard may have answered a participant that the transaction has aborted.
        let epoch = preparing.epoch;
        let has_moved = |participant: &Participant| {
            let mut keys = participant.writes.iter().map(|(key, _)| context.config.shard_of(key));
            keys.any(|shard| context.homes.moved_by(shard) > epoch)
                && context.config.has(Rule::ParticipantsAreHomes)
        };
        if open.transaction.moved(context.homes).is_some()
            || preparing.participants.values().any(has_moved)
        {
            return self.abort(context, number, AbortCause::Moved);
        }
        let written: Vec<_> = open
            .transaction
            .writes()
            .iter()
            .map(|(key, _)| {
                let (shard, site, _) = context.home_of(key);
                (shard, site)
            })
            .collect();
        let with_overwritten = context.config.has(Rule::OverwrittenTimestamps);
        let commit = open.transaction.commit(&answers, &written, context.homes, with_overwritten);
        let (request, decision_home) = (preparing.request, preparing.decision_home);
        let decision_shard = preparing.decision_shard;
        let participants = preparing.participants.keys().copied().collect();
        let since = context.now.monotonic;
        let commit = Box::new(commit);
        let request = Some(request);
        open.stage = Stage::Committing(Committing {
            request,
            commit,
            participants,
            decision_home,
            decision_shard,
            epoch,
            since,
            next: since,
        });
        self.send_commit(context, number);
    }

    /// Returns the transaction of an attempt that has not ended, and its number.
    fn current(&mut self, tid: TransactionId) -> Option<(u64, &mut super::Open)> {
        if tid.client != self.id {
            return None;
        }
        let number = *self.attempts.get(&tid.number)?;
        Some((number, self.open.get_mut(&number)?))
    }

    /// LOCKED: sends PREPARE again after a delay, at most a bounded number of times (§6.2; List. 3
    /// l. 54–55).
    pub(crate) fn on_locked(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        tid: TransactionId,
        key: Key,
    ) {
        let timing = context.config.timing;
        let Some((number, open)) = self.current(tid) else { return };
        let Stage::Preparing(preparing) = &mut open.stage else { return };
        let Some(participant) = preparing.participants.get_mut(&from) else { return };
        participant.locked += 1;
        if participant.locked >= timing.lock_tries {
            return self.abort(context, number, AbortCause::Locked(key));
        }
        participant.next = context.now.monotonic.after(timing.lock_retry);
    }

    /// Aborts a transaction at all participants (List. 3 l. 34–38).
    fn abort(&mut self, context: &mut Context<'_>, number: u64, cause: AbortCause) {
        let tid = self.tid(number);
        let Some(open) = self.open.get(&number) else { return };
        let Stage::Preparing(preparing) = &open.stage else { return };
        let request = preparing.request;
        let participants: Vec<Address> = preparing.participants.keys().copied().collect();
        for to in participants {
            context.out.send(to, Body::Abort(tid));
        }
        self.end(context, number, request, Response::Aborted(cause));
    }

    fn send_commit(&mut self, context: &mut Context<'_>, number: u64) {
        let tid = self.tid(number);
        let Some(open) = self.open.get_mut(&number) else { return };
        let Stage::Committing(committing) = &mut open.stage else { return };
        committing.next = context.retry_at();
        let (to, participants) = (committing.decision_home, committing.participants.clone());
        let body = Body::Commit(tid, committing.commit.clone(), participants);
        let shard = committing.decision_shard;
        if context.homes.moved_by(shard) > committing.epoch
            && context.config.has(Rule::NewHomeDecides)
        {
            // The decision home may have failed since. Then only the new home can answer.
            let home = context.config.owner(context.homes.home(shard), shard);
            context.out.send(home, Body::ResolveMoved(tid, shard));
        }
        self.send_to_home(context, to, body);
    }

    /// OUTCOME: the decision home reports the outcome (List. 3 l. 62), or a participant reports
    /// that the transaction has ended.
    pub(crate) fn on_outcome(
        &mut self,
        context: &mut Context<'_>,
        tid: TransactionId,
        committed: bool,
    ) {
        let Some((number, open)) = self.current(tid) else { return };
        match &open.stage {
            Stage::Committing(committing) => {
                let request = committing.request;
                let past = committing.commit.timestamp.clone();
                let reply = match committed {
                    true => {
                        self.note_written(&past);
                        let past = Gateway::next_past(context, past);
                        let counts = ReadCounts::default();
                        Response::Committed { outcomes: Vec::new(), past, counts }
                    }
                    false => Response::Aborted(AbortCause::Expired),
                };
                self.conclude(context, number, (request, true), reply);
            }
            Stage::Preparing(_) if !committed => {
                self.abort(context, number, AbortCause::Expired);
            }
            _ => {}
        }
    }

    /// DECIDED: a home that knows the decision reports it.
    pub(crate) fn on_decided(
        &mut self,
        context: &mut Context<'_>,
        tid: TransactionId,
        decision: &Decision,
    ) {
        let Some((number, open)) = self.current(tid) else { return };
        let Stage::Committing(committing) = &open.stage else { return };
        let mut forced = context.homes.forced(committing.decision_shard, committing.epoch);
        if matches!(decision, Decision::Abort) && forced.next().is_some() {
            // The decision home may have committed, and a participant may have learned it before
            // the shard was taken by force.
            let past = Unknown::Past(committing.commit.timestamp.clone());
            let request = committing.request;
            return self.conclude(context, number, (request, true), Response::Unknown(past));
        }
        self.on_outcome(context, tid, matches!(decision, Decision::Commit(_)));
    }

    pub(super) fn repeat_prepares(&mut self, context: &mut Context<'_>, number: u64) {
        let Some(open) = self.open.get(&number) else { return };
        let Stage::Preparing(preparing) = &open.stage else { return };
        if context.has_timed_out(preparing.since) {
            return self.abort(context, number, AbortCause::TimedOut);
        }
        let due = preparing.participants.iter().filter(|(_, participant)| {
            participant.answer.is_none() && context.is_due(participant.next)
        });
        let due: Vec<Address> = due.map(|(to, _)| *to).collect();
        for to in due {
            self.send_prepare(context, number, to);
        }
    }

    pub(super) fn repeat_commit(&mut self, context: &mut Context<'_>, number: u64) {
        let idle = context.config.timing.idle;
        let Some(open) = self.open.get_mut(&number) else { return };
        let Stage::Committing(committing) = &mut open.stage else { return };
        if context.has_timed_out(committing.since)
            && let Some(request) = committing.request.take()
        {
            // The past is valid for both outcomes. If the writes are committed, the session depends
            // on them. If they are not, a read of the session still succeeds, because homes advance
            // to its timestamp.
            let past = Unknown::Past(committing.commit.timestamp.clone());
            context.out.reply(request, Response::Unknown(past));
        }
        let has_replied = committing.request.is_none();
        if has_replied && context.now.monotonic.since(committing.since) >= idle {
            return self.remove(number);
        }
        if context.is_due(committing.next) {
            self.send_commit(context, number);
        }
    }

    /// Sends a single operation (Fig. 3 l. 3–6), or a transaction whose writes are all at one home.
    pub(super) fn execute(
        &mut self,
        context: &mut Context<'_>,
        request: RequestId,
        number: u64,
        operations: Vec<(Key, Op)>,
    ) {
        self.begin_attempt(number);
        let tid = self.tid(number);
        let Some(open) = self.open.get(&number) else { return };
        let transaction = &open.transaction;
        let keys = operations.iter().map(|(key, _)| key);
        let first = keys.chain(transaction.writes().iter().map(|(key, _)| key)).next();
        let Some(key) = first else { return };
        let (_, _, home) = context.home_of(key);
        let execute = Execute {
            tid,
            attempt: 0,
            timestamp: transaction.timestamp().clone(),
            reads: transaction.reads_with_epochs(),
            operations,
            writes: transaction.writes().to_vec(),
            oldest: 0,
        };
        let since = context.now.monotonic;
        let request = Some(request);
        let executing = Executing {
            request,
            abandoned: false,
            home,
            execute,
            since,
            next: since,
            unanswered: 0,
            locked: 0,
        };
        self.wait(number, Stage::Executing(executing));
        self.send_execute(context, number);
    }

    fn send_execute(&mut self, context: &mut Context<'_>, number: u64) {
        let oldest = self.oldest();
        let Some(open) = self.open.get_mut(&number) else { return };
        let Stage::Executing(executing) = &mut open.stage else { return };
        // Only the answer to the last attempt counts. Each wait is longer than the one before, so
        // that some wait exceeds the round trip to the home.
        let wait = context.config.timing.retry * (1 << executing.unanswered.min(MOST_DOUBLINGS));
        executing.next = context.now.monotonic.after(wait);
        executing.unanswered += 1;
        executing.execute.attempt += 1;
        executing.execute.oldest = oldest;
        let (to, execute) = (executing.home, executing.execute.clone());
        self.send_to_home(context, to, Body::Execute(execute));
    }

    /// EXECUTED: handles the result of a transaction of one home.
    pub(crate) fn on_executed(
        &mut self,
        context: &mut Context<'_>,
        tid: TransactionId,
        (attempt, executed): (u32, Executed),
    ) {
        let timing = context.config.timing;
        let retry_at = context.now.monotonic.after(timing.lock_retry);
        let Some((number, open)) = self.current(tid) else { return };
        let Stage::Executing(executing) = &mut open.stage else { return };
        let is_last = attempt == executing.execute.attempt;
        if !executed.is_final() && !is_last && context.config.has(Rule::LastAttempt) {
            return;
        }
        executing.unanswered = 0;
        let (request, abandoned) = (executing.request, executing.abandoned);
        let reply = match executed {
            Executed::Committed(outcomes, past) => {
                self.note_written(&past);
                let past = Gateway::next_past(context, past);
                Response::Committed { outcomes, past, counts: ReadCounts::default() }
            }
            Executed::Failed(_, error) => Response::Failed(error),
            Executed::Ahead => Response::Ahead(executing.home.site),
            Executed::Moved => {
                // No attempt has changed anything, and the next one goes to the present home.
                executing.next = retry_at;
                return self.execute_elsewhere(context, number);
            }
            Executed::Conflict(shard) => Response::Aborted(AbortCause::OverwriteSet(shard)),
            Executed::Locked(key) => {
                executing.locked += 1;
                if executing.locked < timing.lock_tries {
                    executing.next = context.now.monotonic.after(timing.lock_retry);
                    return;
                }
                Response::Aborted(AbortCause::Locked(key))
            }
        };
        self.conclude(context, number, (request, abandoned), reply);
    }

    /// Begins another attempt of a transaction, because another site is its home now. The former
    /// home will not execute it.
    fn execute_elsewhere(&mut self, context: &mut Context<'_>, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        self.attempts.remove(&open.attempt);
        self.begin_attempt(number);
        let tid = self.tid(number);
        let Some(open) = self.open.get_mut(&number) else { return };
        let Stage::Executing(executing) = &mut open.stage else { return };
        executing.execute.tid = tid;
        let execute = &executing.execute;
        let keys = execute.operations.iter().map(|(key, _)| key);
        let mut homes = keys.chain(execute.writes.iter().map(|(key, _)| key));
        let Some(home) = homes.next().map(|key| context.home_of(key).2) else { return };
        if homes.any(|key| context.home_of(key).2 != home) {
            // Its keys have different homes now; no attempt is in progress.
            let reply = Response::Aborted(AbortCause::Moved);
            let (request, abandoned) = (executing.request, executing.abandoned);
            return self.conclude(context, number, (request, abandoned), reply);
        }
        executing.home = home;
    }

    /// MOVED: a participant is not the home of a written shard.
    pub(crate) fn on_moved(&mut self, context: &mut Context<'_>, tid: TransactionId) {
        let Some((number, open)) = self.current(tid) else { return };
        if matches!(open.stage, Stage::Preparing(_)) {
            self.abort(context, number, AbortCause::Moved);
        }
    }

    /// Ends transactions that wait for homes that were taken by force and do not answer any more.
    pub(crate) fn on_forced(&mut self, context: &mut Context<'_>, changed: &[(ShardId, SiteId)]) {
        self.end_lost(context, |context, shard, site| {
            let is_taken = changed.contains(&(shard, site));
            // A home that has handed the shard over still has the answer, but its site is lost now.
            let is_lost = changed.iter().any(|(_, from)| *from == site);
            is_taken || (is_lost && context.homes.home(shard) != site)
        });
    }

    /// Ends transactions that wait for a site that has been removed.
    pub(crate) fn on_gone(&mut self, context: &mut Context<'_>, gone: SiteId) {
        self.end_lost(context, |_, _, site| site == gone);
    }

    /// Ends transactions of one home that get no answer. `is_lost` returns whether a site does not
    /// answer any more about a shard of which it was the home.
    fn end_lost(
        &mut self,
        context: &mut Context<'_>,
        is_lost: impl Fn(&Context<'_>, ShardId, SiteId) -> bool,
    ) {
        let numbers: Vec<u64> = self.active.iter().copied().collect();
        for number in numbers {
            let Some(open) = self.open.get_mut(&number) else { continue };
            let Stage::Executing(executing) = &open.stage else { continue };
            let execute = &executing.execute;
            let keys = execute.operations.iter().map(|(key, _)| key);
            let mut keys = keys.chain(execute.writes.iter().map(|(key, _)| key));
            let site = executing.home.site;
            if keys.any(|key| is_lost(context, context.config.shard_of(key), site)) {
                // If the write has survived, the session depends on everything on which the
                // overwritten version depends. Only the answer contained these dependencies.
                let (request, abandoned) = (executing.request, executing.abandoned);
                let reply = Response::Unknown(Unknown::Lost);
                self.conclude(context, number, (request, abandoned), reply);
            }
        }
    }

    /// Ends a transaction whose client may have stopped waiting.
    fn conclude(
        &mut self,
        context: &mut Context<'_>,
        number: u64,
        (request, abandoned): (Option<RequestId>, bool),
        reply: Response,
    ) {
        match request {
            Some(request) => self.end(context, number, request, reply),
            None if abandoned => {
                self.note_end(number, &reply);
                self.remove(number);
            }
            // The client asks for the outcome later.
            None => {
                let Some(open) = self.open.get_mut(&number) else { return };
                (open.stage, open.used) = (Stage::Ended(reply), context.now.monotonic);
                let attempt = open.attempt;
                self.attempts.remove(&attempt);
                self.active.remove(&number);
            }
        }
    }

    pub(super) fn repeat_execute(&mut self, context: &mut Context<'_>, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        let Stage::Executing(executing) = &mut open.stage else { return };
        if context.has_timed_out(executing.since)
            && let Some(request) = executing.request.take()
        {
            // The attempt continues, because the session needs its outcome.
            context.out.reply(request, Response::Unknown(Unknown::Pending(number)));
        }
        if context.is_due(executing.next) {
            self.send_execute(context, number);
        }
    }
}
