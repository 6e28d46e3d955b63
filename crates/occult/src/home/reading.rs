//! Reads at homes. A read may have to wait for the decision about a transaction.

use std::collections::BTreeSet;

use solera_machine::Address;
use solera_time::Monotonic;

use super::{Context, Home};
use crate::config::Rule;
use crate::message::{Body, Read, ReadAnswer, TransactionId};
use crate::rare;
use crate::shard::Stamp;

/// A read that waits until the transactions that its client may have seen are decided.
#[derive(Debug)]
pub(super) struct ParkedRead {
    from: Address,
    read: Read,
    /// Time of its arrival; its client stops waiting some time after this.
    pub(super) since: Monotonic,
}

impl Home {
    /// Reads a key at its home (List. 2 l. 10–12; Fig. 4 l. 15–17). At another home, the client may
    /// have seen the commit of a transaction that is still undecided here. This is possible only if
    /// the stamp that was assigned here is at most the client's entry. In this case the read waits,
    /// and this home asks for the decision.
    pub(crate) fn on_read(&mut self, context: &mut Context<'_>, from: Address, read: Read) {
        let now = context.now.monotonic;
        self.used = Some(now);
        if self.is_too_far_ahead(context, read.at_least) {
            // The reader finds that the answer's shardstamp is below its entry.
            let read = Read { at_least: Stamp::ZERO, ..read };
            return self.read_since(context, from, read, now);
        }
        self.read_since(context, from, read, now);
    }

    fn read_since(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        read: Read,
        since: Monotonic,
    ) {
        let shard = context.config.shard_of(&read.key);
        let undecided: BTreeSet<TransactionId> = self
            .assigned
            .get(&shard)
            .into_iter()
            .flatten()
            .filter(|(assigned, _)| *assigned <= read.at_least)
            .map(|(_, tid)| *tid)
            .collect();
        if !context.is_home(shard) {
            // The data of the shard has not arrived yet.
            self.parked.push(ParkedRead { from, read, since });
            return;
        }
        if !undecided.is_empty() && context.config.has(Rule::CheckHomes) {
            // A read that has waited before has asked already.
            let asks = since == context.now.monotonic;
            if asks {
                context.out.rare(rare::WAITED_AT_HOME);
            }
            for tid in undecided.into_iter().filter(|_| asks) {
                let decision_home = self.prepared[&tid].decision_home;
                if decision_home != context.config.address {
                    context.out.send(decision_home, Body::Query(tid));
                }
            }
            self.parked.push(ParkedRead { from, read, since });
            return;
        }
        let (result, dependencies) =
            context.store.read(shard, &read.key, &read.op, read.own.as_ref());
        // A compressed timestamp can contain a stamp of another home for this shard. If the clock
        // stayed below that stamp, the version would look stale until the wall clock passed the
        // stamp.
        let named = dependencies.stamp(shard, context.homes);
        let named = if self.is_too_far_ahead(context, named) { Stamp::ZERO } else { named };
        // Every write up to the clock is shown, or waits for an undecided transaction. Later
        // assigned stamps are above the reported one.
        self.advance(context, read.at_least.max(named).max(context.clock()));
        let shown = self.shown(context.config, shard);
        let answer = ReadAnswer { number: read.number, result, dependencies, shown };
        context.out.send(from, Body::ReadAnswer(answer));
    }

    pub(super) fn answer_parked(&mut self, context: &mut Context<'_>) {
        for ParkedRead { from, read, since } in std::mem::take(&mut self.parked) {
            self.read_since(context, from, read, since);
        }
    }
}
