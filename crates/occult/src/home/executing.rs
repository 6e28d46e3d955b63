//! Transactions of one home, which the home validates, decides and records in one step.

use solera_data::{Effect, Key, Op, OpError, Outcome, View, execute};
use solera_machine::Address;

use super::{Context, Ended, Home};
use crate::config::Rule;
use crate::message::{Body, Execute, Executed, TransactionId};
use crate::record::Record;
use crate::shard::{ShardId, Stamp};
use crate::timestamp::CausalTimestamp;

impl Home {
    /// EXECUTE: runs the transaction, unless it has been run before (Fig. 4 l. 1–2).
    pub(crate) fn on_execute(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        request: Execute,
    ) {
        self.used = Some(context.now.monotonic);
        let (tid, attempt) = (request.tid, request.attempt);
        self.on_oldest(tid.client, request.oldest);
        if !self.may_arrive(tid) {
            return;
        }
        let answer = match self.records.get(&tid) {
            Some(Ended::Executed(answer)) => answer.clone(),
            Some(_) => return,
            None => {
                let (answer, writes, stamp) = self.execute(context, request);
                if answer.is_final() {
                    let record = Record::Executed {
                        tid,
                        answer: answer.clone(),
                        writes: writes.clone(),
                        stamp,
                    };
                    context.out.record(record);
                    self.note_executed(context, tid, &answer, (writes, stamp));
                }
                answer
            }
        };
        context.out.send(from, Body::Executed(tid, attempt, answer));
    }

    /// Carries out the result of a transaction, and keeps the answer for a client that repeats the
    /// request.
    pub(super) fn note_executed(
        &mut self,
        context: &mut Context<'_>,
        tid: TransactionId,
        answer: &Executed,
        (writes, stamp): (Vec<(Key, Effect)>, Stamp),
    ) {
        if let Executed::Committed(_, timestamp) = answer {
            let shards = context.config.shards_of(&writes);
            for (key, effect) in writes {
                let shard = context.config.shard_of(&key);
                context.store.hide(shard, stamp, (key, effect), timestamp);
            }
            self.show(context, shards);
        }
        self.records.insert(tid, Ended::Executed(answer.clone()));
    }

    /// Validates and decides a transaction. Returns the answer, and the writes with their stamp
    /// (Fig. 4 l. 5–6).
    fn execute(
        &mut self,
        context: &mut Context<'_>,
        request: Execute,
    ) -> (Executed, Vec<(Key, Effect)>, Stamp) {
        let refused = |answer| (answer, Vec::new(), Stamp::ZERO);
        let Execute { tid, mut timestamp, reads, operations, mut writes, .. } = request;
        let keys = operations.iter().map(|(key, _)| key).chain(writes.iter().map(|(key, _)| key));
        if !context.is_home_of(keys.clone()) {
            return refused(Executed::Moved);
        }
        if let Some(key) = self.locked(context, tid, keys) {
            return refused(Executed::Locked(key));
        }
        if self.is_too_far_ahead(context, timestamp.greatest(context.site())) {
            return refused(Executed::Ahead);
        }
        // If the home of a shard was moved by force after the read, the new home may assign stamps
        // below the shardstamp of the read. The client may not know of the move yet.
        let has_moved =
            |(shard, _, epoch): &&(ShardId, Stamp, u64)| *epoch < context.homes.moved_by(*shard);
        if let Some((shard, ..)) = reads.iter().find(has_moved) {
            return refused(Executed::Conflict(*shard));
        }
        let mut overwritten = context.overwritten_by(&writes);
        let mut outcomes = Vec::new();
        for (key, op) in operations {
            match run(context, &mut overwritten, &mut writes, key.clone(), &op) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => return refused(Executed::Failed(key, error)),
            }
        }
        // The reads must not have missed anything on which an overwritten version depends (§6.2).
        let missed = reads.iter().find(|(shard, shown, _)| {
            context.config.has(Rule::ValidateOverwriteSet)
                && *shown < overwritten.stamp(*shard, context.homes)
        });
        if let Some((shard, ..)) = missed {
            return refused(Executed::Conflict(*shard));
        }
        if context.config.has(Rule::OverwrittenTimestamps) {
            timestamp.merge(&overwritten, context.homes);
        }
        let site = context.site();
        let stamp = self.assign(context, timestamp.greatest(site));
        for shard in context.config.shards_of(&writes) {
            timestamp.raise(shard, site, stamp);
        }
        (Executed::Committed(outcomes, timestamp), writes, stamp)
    }
}

/// Executes an operation on the latest version of its key, even if that version is hidden, because
/// it precedes this write. Adds the effect to `writes`.
fn run(
    context: &Context<'_>,
    overwritten: &mut CausalTimestamp,
    writes: &mut Vec<(Key, Effect)>,
    key: Key,
    op: &Op,
) -> Result<Outcome, OpError> {
    let (state, dependencies) = context.store.latest(context.config.shard_of(&key), &key);
    let own = writes.iter().position(|(other, _)| *other == key);
    let view = View::new(&state).own(own.map(|at| &writes[at].1));
    let (outcome, effect) = execute(op, &view)?;
    overwritten.merge(&dependencies, context.homes);
    match (own, effect) {
        (Some(at), Some(later)) => {
            let before = std::mem::take(&mut writes[at].1);
            writes[at].1 = before.then(later);
        }
        (None, Some(effect)) => writes.push((key, effect)),
        (_, None) => {}
    }
    Ok(outcome)
}
