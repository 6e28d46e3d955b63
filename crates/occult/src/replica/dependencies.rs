//! Checks of dependencies, in the baseline [`Shows::AfterDependencies`]: a replica asks the workers
//! of its site that store the dependencies of a write whether they show them, as Eiger does.
//!
//! [`Shows::AfterDependencies`]: crate::Shows::AfterDependencies

use std::collections::BTreeMap;

use solera_machine::Address;

use super::held::Needed;
use super::{Context, Replica};
use crate::message::{Batch, Body, DependencyCheck, Entry};
use crate::shard::{ShardId, Stamp};

/// The stamp for which a check waits, and its number in the order of arrival.
type WaitPlace = (Stamp, u64);

/// Checks that wait, each for a shard that does not show a dependency.
#[derive(Debug, Default)]
pub(super) struct Checks {
    waiting: BTreeMap<ShardId, BTreeMap<WaitPlace, (Address, DependencyCheck)>>,
    arrived: u64,
}

impl Checks {
    fn push(&mut self, (shard, stamp): (ShardId, Stamp), check: (Address, DependencyCheck)) {
        self.arrived += 1;
        self.waiting.entry(shard).or_default().insert((stamp, self.arrived), check);
    }

    /// Removes the checks that wait for a stamp of this shard up to `until`.
    fn take(&mut self, shard: ShardId, until: Stamp) -> Vec<(Address, DependencyCheck)> {
        let Some(waiting) = self.waiting.get_mut(&shard) else { return Vec::new() };
        let later = waiting.split_off(&(until.next(), 0));
        let taken = std::mem::replace(waiting, later);
        if waiting.is_empty() {
            self.waiting.remove(&shard);
        }
        taken.into_values().collect()
    }
}

impl Replica {
    /// Holds the writes of a batch back until their dependencies are shown here.
    pub(super) fn hold(&mut self, context: &mut Context<'_>, from: Address, batch: &mut Batch) {
        let (config, homes) = (context.config, context.homes);
        let me = config.address.site;
        let needs = |entry: &Entry| {
            let mut needs: BTreeMap<Address, Vec<(ShardId, Stamp)>> = BTreeMap::new();
            let all = entry.writes.iter().flat_map(|(.., past)| past.exact());
            // This site's homes show what anyone can depend on.
            let is_foreign = |shard| homes.home(shard) != me && shard != entry.shard;
            for need in all.filter(|(shard, _)| is_foreign(*shard)) {
                needs.entry(config.owner(me, need.0)).or_default().push(need);
            }
            needs
        };
        let stream = self.streams.entry(from).or_default();
        let shown = |shard| stream.shown(shard);
        let needed = self.held.take_dependent((from, context.now), batch, shown, needs);
        send(context, needed);
    }

    /// Sends checks again that were not confirmed for some time.
    pub(crate) fn check_again(&mut self, context: &mut Context<'_>) {
        let needed = self.held.unconfirmed(context.now, context.config.timing.retry);
        send(context, needed);
    }

    /// Confirms a check, or lets it wait for a dependency.
    pub(crate) fn on_check(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        mut check: DependencyCheck,
    ) {
        while let Some(need) = check.needs.last().copied() {
            let (shard, stamp) = need;
            let home = context.config.owner(context.homes.home(shard), shard);
            let shown = self.shown(home, shard, (context.store, context.homes));
            if shown < stamp && !self.held.waits_for(need, check.of, context.homes) {
                return self.checks.push(need, (from, check));
            }
            check.needs.pop();
        }
        context.out.send(from, Body::DependenciesShown(check.number, check.of.0));
    }

    /// Takes the confirmation of a check.
    pub(crate) fn on_dependencies_shown(
        &mut self,
        context: &mut Context<'_>,
        from: Address,
        (number, shard): (u64, ShardId),
    ) {
        self.held.confirm(shard, number, from);
        self.show_held(context);
    }

    /// Shows held writes that need not wait any more, and continues the checks of others.
    pub(crate) fn show_held(&mut self, context: &mut Context<'_>) {
        self.held.apply_due(context.now, context.store, context.homes);
        let shards: Vec<ShardId> = self.checks.waiting.keys().copied().collect();
        for shard in shards {
            let home = context.config.owner(context.homes.home(shard), shard);
            let shown = self.shown(home, shard, (context.store, context.homes));
            let until = self.held.new_next(shard).map_or(shown, |next| next.max(shown));
            for (from, check) in self.checks.take(shard, until) {
                self.on_check(context, from, check);
            }
        }
    }
}

fn send(context: &mut Context<'_>, needed: Vec<Needed>) {
    for Needed { check, worker, of, needs } in needed {
        let check = DependencyCheck { number: check, of, needs };
        context.out.send(worker, Body::DependencyCheck(check));
    }
}
