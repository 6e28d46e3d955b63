//! Transactions with guards, at their coordinator.
//!
//! A guarded transaction always runs two-phase commit, even if it writes only to this worker,
//! because the participant asks the guards.

use std::collections::BTreeMap;

use solera_certification::Kind;
use solera_data::{Effect, Key, Op, Outcome};
use solera_machine::{Address, Guard, Guarded, Now, Refusal, RequestId};
use solera_time::{Monotonic, Vector};

use crate::command::{CommandError, ExecuteGuarded, Response, TxId};
use crate::message::GuardLater;
use crate::pasts::Pasts;
use crate::replica::Replica;

/// Open guarded transactions of one operation, by the identifier of the transaction that executes
/// each.
#[derive(Debug, Default)]
pub(crate) struct Singles(BTreeMap<TxId, Single>);

#[derive(Debug)]
struct Single {
    request: RequestId,
    /// Request of the client, for another attempt.
    wanted: ExecuteGuarded,
    /// Number of attempts before this one.
    retries: u8,
    stage: Stage,
    /// Time since when no client waits, because the client has received a response or has
    /// cancelled. A response of the worker that owns the key may still arrive.
    over: Option<Monotonic>,
}

/// Most attempts after the first one, if a guard needs later snapshots.
const MOST_RETRIES: u8 = 4;

#[derive(Debug)]
enum Stage {
    /// The operation is being executed.
    Operating,
    /// The operation had this outcome, and the transaction commits.
    Committing(Outcome),
}

impl Singles {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a transaction executes a single operation.
    pub(super) fn has(&self, tx: TxId) -> bool {
        self.0.contains_key(&tx)
    }

    /// Returns the transaction whose operation another worker answers under this request.
    fn operating(&self, request: RequestId) -> Option<TxId> {
        let is_it =
            |single: &Single| single.request == request && matches!(single.stage, Stage::Operating);
        self.0.iter().find(|(_, single)| is_it(single)).map(|(tx, _)| *tx)
    }
}

impl Replica {
    /// Adds guards to an open transaction.
    pub(crate) fn guard(&mut self, now: Now, request: RequestId, tx: TxId, guards: Guarded) {
        let response = match self.name_guards(now, tx, guards) {
            Ok(()) => Response::Guarded,
            Err(error) => {
                // The client relies on the guards, so the transaction must not commit without them.
                self.abort(tx);
                Response::Failed(error)
            }
        };
        self.worker.reply(request, response);
    }

    fn name_guards(&mut self, now: Now, tx: TxId, guards: Guarded) -> Result<(), CommandError> {
        if let Some(guard) = guards.iter().find(|guard| !self.guards_keys(guard.protocol)) {
            self.participant.guarding.unknown += 1;
            return Err(CommandError::NoGuard { protocol: guard.protocol });
        }
        let transaction = self.open_transaction(tx).ok_or(CommandError::NoSuchTransaction)?;
        if transaction.accesses.is_some() {
            return Err(CommandError::StrongGuarded);
        }
        transaction.last_active = now.monotonic;
        transaction.guards = std::mem::take(&mut transaction.guards).and(guards);
        if transaction.guards.is_bounded() { Ok(()) } else { Err(CommandError::TooManyGuards) }
    }

    /// Returns the guards of a transaction's changes of [`GuardedKeys`](crate::GuardedKeys).
    ///
    /// # Errors
    /// The transaction changes such a key otherwise, or too many of them.
    pub(super) fn guards_of(
        &self,
        writes: &BTreeMap<Key, Effect>,
        eventual: &[(Key, Op)],
    ) -> Result<Guarded, CommandError> {
        let Some(guarded) = &self.worker.config.guarded_keys else { return Ok(Guarded::default()) };
        let mut guards = Vec::new();
        for (key, effect) in writes {
            let Some(measure) = guarded.measure(key) else { continue };
            match measure.of_effect(effect) {
                Some(span) if span.is_none() => {}
                Some(span) => guards.push(Guard {
                    key: key.as_bytes().to_vec(),
                    protocol: guarded.protocol,
                    claim: (guarded.claim)(span),
                }),
                None => return Err(CommandError::OnlyCounted { key: key.clone() }),
            }
        }
        if let Some((key, _)) = eventual.iter().find(|(key, _)| guarded.contains(key)) {
            return Err(CommandError::OnlyCounted { key: key.clone() });
        }
        let guards: Guarded = guards.into_iter().collect();
        if guards.is_bounded() { Ok(guards) } else { Err(CommandError::TooManyGuards) }
    }

    /// Returns whether an open transaction changes a key of [`GuardedKeys`](crate::GuardedKeys).
    pub(super) fn changes_guarded(&self, tx: TxId) -> bool {
        let Some(guarded) = &self.worker.config.guarded_keys else { return false };
        let open = self.coordinator.open.get(&tx);
        open.is_some_and(|open| open.writes.keys().any(|key| guarded.contains(key)))
    }

    /// Executes a transaction of one operation with guards, for a client of this worker.
    pub(crate) fn execute_guarded(&mut self, now: Now, request: RequestId, it: ExecuteGuarded) {
        self.attempt_guarded(now, request, it, 0);
    }

    fn attempt_guarded(
        &mut self,
        now: Now,
        request: RequestId,
        wanted: ExecuteGuarded,
        retries: u8,
    ) {
        let tx = self.begin(now, &wanted.past, false);
        if let Err(error) = self.name_guards(now, tx, wanted.guards.clone()) {
            self.abort(tx);
            return self.worker.reply(request, Response::Failed(error));
        }
        let (stage, over) = (Stage::Operating, None);
        let ExecuteGuarded { level, key, op, .. } = wanted.clone();
        let single = Single { request, wanted, retries, stage, over };
        self.coordinator.singles.0.insert(tx, single);
        if let Some(response) = self.operate(now, request, tx, level, &key, &op, Kind::UPDATE) {
            self.operated_guarded(now, tx, response);
        }
    }

    /// Handles the response to the operation of a guarded single.
    pub(super) fn operated_guarded(&mut self, now: Now, tx: TxId, response: Response) {
        let Some(single) = self.coordinator.singles.0.get_mut(&tx) else { return };
        let request = single.request;
        match response {
            Response::Operated(Ok(outcome)) if single.over.is_none() => {
                single.stage = Stage::Committing(outcome);
                self.commit(now, request, tx, None);
            }
            other => {
                let (past, waits) = (single.wanted.past, single.over.is_none());
                self.coordinator.singles.0.remove(&tx);
                self.abort(tx);
                if waits {
                    let response = match other {
                        Response::Operated(outcome) => {
                            Response::Executed { outcome, pasts: Pasts::causal(past) }
                        }
                        other => other,
                    };
                    self.worker.reply(request, response);
                }
            }
        }
    }

    /// Handles the response of a key's owner that has rejected an operation. Returns the response
    /// if the operation does not belong to a guarded single.
    pub(crate) fn refused_guarded(
        &mut self,
        now: Now,
        request: RequestId,
        response: Response,
    ) -> Option<Response> {
        let Some(tx) = self.coordinator.singles.operating(request) else { return Some(response) };
        self.operated_guarded(now, tx, response);
        None
    }

    /// Answers the commit of a transaction: to its client, or to the client of the single that it
    /// executes. Each gets one response.
    pub(super) fn answer_commit(&mut self, request: RequestId, tx: TxId, response: Response) {
        if self.coordinator.singles.is_empty() {
            return self.worker.reply(request, response);
        }
        match self.coordinator.singles.0.remove(&tx) {
            None => self.worker.reply(request, response),
            Some(Single { over: Some(_), .. }) => {}
            Some(Single { stage, .. }) => {
                let response = match (response, stage) {
                    (Response::Committed { pasts }, Stage::Committing(outcome)) => {
                        Response::Executed { outcome: Ok(outcome), pasts }
                    }
                    (other, _) => other,
                };
                self.worker.reply(request, response);
            }
        }
    }

    /// Answers the client of a single whose transaction was aborted before its commit began. Drops
    /// a later response to the operation.
    pub(super) fn expire_single(&mut self, now: Now, tx: TxId) {
        let Some(single) = self.coordinator.singles.0.get_mut(&tx) else { return };
        let request = single.request;
        if single.over.replace(now.monotonic).is_none() {
            self.worker.reply(request, Response::Failed(CommandError::PartitionSlow));
        }
    }

    /// Handles the cancellation of a request: aborts a single whose commit has not begun.
    pub(crate) fn cancel_guarded(&mut self, now: Now, request: RequestId) {
        let singles = self.coordinator.singles.0.iter_mut();
        let mut of_request = singles.filter(|(_, single)| single.request == request);
        let Some((tx, single)) = of_request.next() else { return };
        single.over = Some(now.monotonic);
        if let (tx, Stage::Operating) = (*tx, &single.stage) {
            self.abort(tx);
        }
    }

    /// Forgets singles without a waiting client whose operation cannot be answered any more,
    /// because the worker that was asked has died.
    pub(super) fn forget_singles(&mut self, now: Now) {
        // Reads time out sooner.
        let patience = self.worker.config.timing.strong_timeout * 4;
        self.coordinator.singles.0.retain(|_, single| {
            let over = single.over.filter(|_| matches!(single.stage, Stage::Operating));
            over.is_none_or(|over| now.monotonic.since(over) < patience)
        });
    }

    /// Removes and returns a single that may be attempted again.
    fn retried(&mut self, tx: TxId) -> Option<Single> {
        let singles = &mut self.coordinator.singles.0;
        let may = |single: &Single| single.over.is_none() && single.retries < MOST_RETRIES;
        singles.get(&tx).is_some_and(may).then(|| singles.remove(&tx)).flatten()
    }

    /// Handles the refusal of a guard at a participant.
    pub(crate) fn on_guard_refused(&mut self, now: Now, from: Address, tx: TxId, refusal: Refusal) {
        self.end_refused(now, from, tx, (refusal, None));
    }

    /// Handles the refusal of a guard that needs a later snapshot. A single begins again.
    pub(crate) fn on_guard_later(&mut self, now: Now, from: Address, later: GuardLater) {
        let GuardLater { tx, refusal, past } = later;
        self.end_refused(now, from, tx, (refusal, Some(past)));
    }

    fn end_refused(
        &mut self,
        now: Now,
        from: Address,
        tx: TxId,
        (refusal, later): (Refusal, Option<Vector>),
    ) {
        // Several guards of one transaction may refuse, one after another.
        let Some(transaction) = self.coordinator.open.get(&tx) else { return };
        let preparing = transaction.preparing.as_ref();
        if !preparing.is_some_and(|preparing| preparing.unprepared.contains(&from)) {
            self.worker.ignored += 1;
            return;
        }
        let transaction = self.drop_transaction(tx);
        if let Some(preparing) = transaction.and_then(|transaction| transaction.preparing) {
            self.decide(now, tx, None, preparing.participants);
            if let Some(later) = &later
                && let Some(single) = self.retried(tx)
            {
                let Single { request, mut wanted, retries, .. } = single;
                wanted.past.join(later);
                return self.attempt_guarded(now, request, wanted, retries + 1);
            }
            let (refusal, later) = (Box::new(refusal), later.map(Box::new));
            let error = CommandError::Guarded { refusal, later };
            self.answer_commit(preparing.request, tx, Response::Failed(error));
        }
    }
}
