//! Guards of prepared transactions: questions before PREPARE_ACK, and reports of transactions'
//! outcomes.
//!
//! The guards first acquire what they need for the transaction ([`GuardQuestion::Reserve`]). This
//! may take round trips to other sites, so the transaction has no prepare time meanwhile, and
//! nothing waits for it.
//!
//! The record that a transaction is prepared precedes the questions, and the guards' own records
//! follow it. So wherever a crash cuts the journal, the participant knows which guards may hold a
//! promise, and reports the outcome to them.

use std::collections::{BTreeMap, BTreeSet};

use solera_data::{Key, Op};
use solera_machine::{Address, AskId, GuardAnswer, GuardQuestion, Guarded, Now, Refusal, Verdict};
use solera_time::Timestamp;

use crate::command::TxId;
use crate::config::Rule;
use crate::message::{Errand, GuardLater, Message, Output, PrepareGuarded, Write};
use crate::rare;
use crate::record::{Part, Prepared, Record};
use crate::replica::Replica;

use super::Waiting;

/// Guards of transactions at this worker.
#[derive(Debug, Default)]
pub(crate) struct Guarding {
    /// Transactions that are not prepared yet, because guards have not answered the reservation.
    reserving: BTreeMap<TxId, Reserving>,
    prepared: BTreeMap<TxId, Voting>,
    /// Transactions that have ended, until all their guards have acknowledged the outcome.
    ended: BTreeMap<TxId, Unacknowledged>,
    /// Open questions: the transaction, and the protocol.
    asked: BTreeMap<AskId, (TxId, u8)>,
    /// Number of questions so far.
    count: u64,
    /// Number of guards so far that name a protocol which guards no keys at this worker.
    pub(crate) unknown: u64,
}

/// A transaction whose guards are asked for a reservation.
#[derive(Debug)]
struct Reserving {
    coordinator: Address,
    prepare: PrepareGuarded,
    /// Protocols that have not answered.
    silent: BTreeSet<u8>,
}

/// Votes of the guards of a prepared transaction.
#[derive(Debug)]
struct Voting {
    guards: Guarded,
    /// Protocols that have not answered. Empty after a restart, when only the coordinator knows
    /// whether all have promised.
    silent: BTreeSet<u8>,
    refused: bool,
}

#[derive(Debug)]
struct Unacknowledged {
    committed: bool,
    /// Protocols that have not acknowledged the outcome.
    protocols: BTreeSet<u8>,
    /// Whether the outcome was sent to them since the start.
    sent: bool,
}

impl Guarding {
    /// Returns the number of transactions that wait for reservations, are prepared, or have ended
    /// with an outcome that some guard has not acknowledged.
    pub(crate) fn open(&self) -> usize {
        self.reserving.len() + self.prepared.len() + self.ended.len()
    }

    /// Returns whether all guards have promised, as far as this process knows.
    pub(super) fn may_commit(&self, tx: TxId) -> bool {
        self.prepared.get(&tx).is_none_or(|voting| !voting.refused && voting.silent.is_empty())
    }

    /// Restores the guards of a transaction that was prepared before a restart.
    pub(crate) fn restore(&mut self, tx: TxId, guards: Guarded) {
        let (silent, refused) = (BTreeSet::new(), false);
        self.prepared.insert(tx, Voting { guards, silent, refused });
    }

    /// Restores the state of a checkpoint.
    pub(crate) fn restore_part(
        &mut self,
        prepared: Vec<(TxId, Guarded)>,
        untold: Vec<(TxId, bool, Vec<u8>)>,
    ) {
        for (tx, guards) in prepared {
            self.restore(tx, guards);
        }
        for (tx, committed, protocols) in untold {
            let protocols = protocols.into_iter().collect();
            self.ended.insert(tx, Unacknowledged { committed, protocols, sent: false });
        }
    }

    /// Returns the state for a checkpoint: no part, or parts with `most` bytes of guards each,
    /// which the last guards of a part may exceed.
    pub(crate) fn to_save(&self, most: usize) -> Vec<Part> {
        let (mut parts, mut bytes) = (Vec::new(), most);
        for (tx, voting) in &self.prepared {
            let kept = (*tx, voting.guards.clone());
            match parts.last_mut() {
                Some(Part::Guards { prepared, .. }) if bytes < most => prepared.push(kept),
                _ => {
                    bytes = 0;
                    parts.push(Part::Guards { prepared: vec![kept], untold: Vec::new() });
                }
            }
            bytes += voting.guards.bytes();
        }
        if !self.ended.is_empty() {
            let untold = self.ended.iter().map(|(tx, ended)| {
                let protocols = ended.protocols.iter().copied().collect();
                (*tx, ended.committed, protocols)
            });
            let (prepared, untold) = (Vec::new(), untold.collect());
            parts.push(Part::Guards { prepared, untold });
        }
        parts
    }

    /// Ends a prepared transaction, whose guards will get the outcome. Returns whether it had
    /// guards.
    pub(crate) fn end(&mut self, tx: TxId, committed: bool) -> bool {
        let Some(voting) = self.prepared.remove(&tx) else { return false };
        let protocols = voting.guards.protocols().into_iter().collect();
        self.ended.insert(tx, Unacknowledged { committed, protocols, sent: false });
        true
    }

    /// Forgets a transaction whose guards have all acknowledged the outcome.
    pub(crate) fn forget(&mut self, tx: TxId) {
        self.ended.remove(&tx);
    }

    fn ask(&mut self, tx: TxId, protocol: u8, question: GuardQuestion) -> Output {
        self.count += 1;
        let ask = AskId(self.count);
        self.asked.insert(ask, (tx, protocol));
        Output::Ask { ask, question: Errand { protocol, question } }
    }
}

impl Replica {
    /// PREPARE of a transaction with guards here (UniStore Alg. 1 l. 36–41). PREPARE_ACK waits for
    /// their promises.
    pub(crate) fn on_prepare_guarded(
        &mut self,
        now: Now,
        coordinator: Address,
        prepare: PrepareGuarded,
    ) {
        let PrepareGuarded { tx, snap_vec, writes, eventual, guards } = &prepare;
        let tx = *tx;
        // UniStore Alg. 1 l. 37–38
        self.worker.learn_uniform(snap_vec);
        if let Err(refusal) = self.check_guards(writes, eventual, guards) {
            return self.worker.send(coordinator, Message::GuardRefused { tx, refusal });
        }
        if let Some(guard) = guards.iter().find(|it| !self.guards_keys(it.protocol)) {
            self.participant.guarding.unknown += 1;
            let (key, protocol) = (guard.key.clone(), guard.protocol);
            let reason = format!("protocol {protocol} guards no keys at its worker");
            let refusal = Refusal { key, protocol, reason };
            return self.worker.send(coordinator, Message::GuardRefused { tx, refusal });
        }
        if !self.worker.config.keeps(Rule::AskGuards) {
            return self.prepare_guarded(now, coordinator, prepare);
        }
        let guarding = &mut self.participant.guarding;
        for protocol in guards.protocols() {
            let (id, guards, snapshot) = (tx.into(), guards.of(protocol), *snap_vec);
            let question = GuardQuestion::Reserve { id, guards, snapshot };
            let output = guarding.ask(tx, protocol, question);
            self.worker.outputs.push_back(output);
        }
        let silent = guards.protocols().into_iter().collect();
        guarding.reserving.insert(tx, Reserving { coordinator, prepare, silent });
        self.worker.note_activity(now);
    }

    /// Returns the refusal of a transaction that changes a key of
    /// [`GuardedKeys`](crate::GuardedKeys) without its guard, or more than its number.
    pub(super) fn check_guards(
        &self,
        writes: &[Write],
        eventual: &[(Key, Op)],
        guards: &Guarded,
    ) -> Result<(), Refusal> {
        let Some(guarded) = &self.worker.config.guarded_keys else { return Ok(()) };
        let protocol = guarded.protocol;
        let is_allowed = |write: &&Write| {
            let named = |key: &Key| {
                guards.iter().any(|it| it.key == key.as_bytes() && it.protocol == protocol)
            };
            guarded.measure(&write.key).is_none_or(|measure| {
                let span = measure.of_effect(&write.effect);
                span.is_some_and(|span| span.is_none() || named(&write.key))
            })
        };
        let unguarded = writes.iter().find(|write| !is_allowed(write)).map(|write| &write.key);
        let mut eventual = eventual.iter().map(|(key, _)| key);
        match unguarded.or_else(|| eventual.find(|key| guarded.contains(key))) {
            None => Ok(()),
            Some(key) => {
                let reason = "the transaction does not name the guard of the key".to_owned();
                Err(Refusal { key: key.as_bytes().to_vec(), protocol, reason })
            }
        }
    }

    /// Prepares a transaction whose guards are ready for it, and asks them for promises.
    fn prepare_guarded(&mut self, now: Now, coordinator: Address, prepare: PrepareGuarded) {
        let PrepareGuarded { tx, snap_vec, writes, eventual, guards } = prepare;
        let ts = self.worker.new_dot(now, &snap_vec).ts;
        let prepared = Prepared { coordinator, ts, snap_vec, writes, eventual };
        let record = |prepared| Record::PreparedGuarded(tx, prepared, guards.clone());
        self.keep_prepared(now, tx, prepared, record);
        self.participant.guarding.restore(tx, guards.clone());
        if !self.worker.config.keeps(Rule::AskGuards) {
            return self.worker.send(coordinator, Message::PrepareAck { tx, ts });
        }
        for protocol in guards.protocols() {
            let question = GuardQuestion::Promise { id: tx.into(), guards: guards.of(protocol) };
            self.participant.guarding.expect(tx, protocol);
            let output = self.participant.guarding.ask(tx, protocol, question);
            self.worker.outputs.push_back(output);
        }
    }

    /// Returns whether a protocol of this worker guards keys.
    pub(crate) fn guards_keys(&self, protocol: u8) -> bool {
        self.worker.config.guards.contains(&protocol)
    }

    /// Handles a guard's answer.
    pub(crate) fn on_guard_answer(&mut self, now: Now, ask: AskId, answer: GuardAnswer) {
        let Some((tx, protocol)) = self.participant.guarding.asked.remove(&ask) else {
            self.worker.ignored += 1;
            return;
        };
        match answer {
            GuardAnswer::Verdict(verdict) => self.on_verdict(now, tx, protocol, verdict),
            GuardAnswer::Ended => self.on_acknowledged(tx, protocol),
        }
    }

    /// Handles the answer of a guard that a transaction waits for before it prepares.
    fn on_reserved(&mut self, now: Now, tx: TxId, protocol: u8, verdict: Verdict) {
        let reserving = &mut self.participant.guarding.reserving;
        let Some(it) = reserving.get_mut(&tx) else { return };
        match verdict {
            Verdict::Refused(refusal) if self.worker.config.keeps(Rule::RefusalsAbort) => {
                let coordinator = it.coordinator;
                self.give_up_reserving(tx);
                let refusal = Refusal { protocol, ..refusal }.shortened();
                self.worker.send(coordinator, Message::GuardRefused { tx, refusal });
            }
            Verdict::Later { key, past } => {
                let coordinator = it.coordinator;
                self.give_up_reserving(tx);
                let reason = "what it needs has arrived after it began: run it again".to_owned();
                let refusal = Refusal { key, protocol, reason }.shortened();
                let later = Box::new(GuardLater { tx, refusal, past });
                self.worker.send(coordinator, Message::GuardLater(later));
            }
            _ => {
                it.silent.remove(&protocol);
                if it.silent.is_empty()
                    && let Some(Reserving { coordinator, prepare, .. }) = reserving.remove(&tx)
                {
                    self.prepare_guarded(now, coordinator, prepare);
                }
            }
        }
    }

    /// Ends a transaction that is not prepared yet. Its guards release what they have reserved.
    pub(super) fn give_up_reserving(&mut self, tx: TxId) {
        let guarding = &mut self.participant.guarding;
        let Some(Reserving { prepare, .. }) = guarding.reserving.remove(&tx) else { return };
        for protocol in prepare.guards.protocols() {
            let question = GuardQuestion::End { id: tx.into(), committed: false };
            let output = guarding.ask(tx, protocol, question);
            self.worker.outputs.push_back(output);
        }
    }

    fn on_verdict(&mut self, now: Now, tx: TxId, protocol: u8, verdict: Verdict) {
        if self.participant.guarding.reserving.contains_key(&tx) {
            return self.on_reserved(now, tx, protocol, verdict);
        }
        // A transaction may end before its guards answer. This worker has then sent them the
        // outcome.
        let Some((coordinator, ts)) = self.prepared_at(tx) else { return };
        let Some(voting) = self.participant.guarding.prepared.get_mut(&tx) else { return };
        self.worker.note_activity(now);
        if let Verdict::Refused(refusal) = verdict
            && self.worker.config.keeps(Rule::RefusalsAbort)
        {
            voting.refused = true;
            let refusal = Refusal { protocol, ..refusal }.shortened();
            return self.worker.send(coordinator, Message::GuardRefused { tx, refusal });
        }
        voting.silent.remove(&protocol);
        if voting.silent.is_empty() && !voting.refused {
            self.worker.send(coordinator, Message::PrepareAck { tx, ts });
        }
    }

    /// Returns the coordinator of a prepared transaction, and its prepare time.
    fn prepared_at(&self, tx: TxId) -> Option<(Address, Timestamp)> {
        let Waiting { prepared, .. } = self.participant.prepared.get(&tx)?;
        Some((prepared.coordinator, prepared.ts))
    }

    /// Handles the acknowledgement of a guard that has recorded the outcome of a transaction.
    fn on_acknowledged(&mut self, tx: TxId, protocol: u8) {
        let Some(ended) = self.participant.guarding.ended.get_mut(&tx) else { return };
        ended.protocols.remove(&protocol);
        if ended.protocols.is_empty() {
            self.participant.guarding.forget(tx);
            self.worker.record(|| Record::GuardsNotified(tx));
        }
    }

    /// Sends the outcome of a transaction to its guards, after it was recorded.
    pub(super) fn end_guards(&mut self, tx: TxId, committed: bool) {
        if self.participant.guarding.end(tx, committed) {
            self.send_outcome(tx);
        }
    }

    fn send_outcome(&mut self, tx: TxId) {
        let guarding = &mut self.participant.guarding;
        let Some(ended) = guarding.ended.get_mut(&tx) else { return };
        ended.sent = true;
        let (committed, protocols) = (ended.committed, ended.protocols.clone());
        for protocol in protocols {
            if !self.guards_keys(protocol) {
                // Only a former process ran the protocol. The protocol keeps no promise in this
                // process.
                self.on_acknowledged(tx, protocol);
                continue;
            }
            let question = GuardQuestion::End { id: tx.into(), committed };
            let output = self.participant.guarding.ask(tx, protocol, question);
            self.worker.outputs.push_back(output);
        }
    }

    /// After a restart, sends guards the outcomes that they have not acknowledged: the former
    /// process may not have sent them.
    pub(crate) fn resend_outcomes(&mut self) {
        let ended = self.participant.guarding.ended.iter();
        let again: Vec<TxId> = ended.filter(|(_, ended)| !ended.sent).map(|(tx, _)| *tx).collect();
        for tx in again {
            self.worker.reach(rare::RESENDS_OUTCOMES);
            self.send_outcome(tx);
        }
    }
}

impl Guarding {
    /// Notes that a protocol was asked for a promise.
    fn expect(&mut self, tx: TxId, protocol: u8) {
        if let Some(voting) = self.prepared.get_mut(&tx) {
            voting.silent.insert(protocol);
        }
    }
}

#[cfg(test)]
mod tests {
    use solera_machine::Guard;

    use super::*;

    #[test]
    fn the_state_for_a_checkpoint_is_split_into_parts() {
        let mut guarding = Guarding::default();
        assert!(guarding.to_save(10).is_empty());
        for sequence in 0..5 {
            let guard = Guard { key: vec![0; 4], protocol: 9, claim: Vec::new() };
            guarding.restore(TxId { coordinator: 0, sequence }, guard.into());
        }
        guarding.end(TxId { coordinator: 0, sequence: 4 }, true);
        let parts = guarding.to_save(8);
        let lengths: Vec<_> = parts
            .iter()
            .map(|part| match part {
                Part::Guards { prepared, untold } => (prepared.len(), untold.len()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(lengths, [(2, 0), (2, 0), (0, 1)]);
        let mut again = Guarding::default();
        for part in parts {
            if let Part::Guards { prepared, untold } = part {
                again.restore_part(prepared, untold);
            }
        }
        assert_eq!(again.open(), 5);
    }
}
