//! Checks of dependencies, in the baseline [`Shows::AfterDependencies`]: a replica asks the workers
//! of its site that store the dependencies of a write whether they show them, as Eiger does.
//!
//! [`Shows::AfterDependencies`]: crate::Shows::AfterDependencies

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use solera_machine::Address;

use super::held::Needed;
use super::{Context, Replica};
use crate::message::{Batch, Body, DependencyCheck, Entry};
use crate::shard::{ShardId, Stamp};

/// The stamp for which a check waits, and the sender and number of the check.
type WaitPlace = (Stamp, Address, u64);

/// Checks that wait, each for a shard that does not show a dependency.
#[derive(Debug, Default)]
pub(super) struct Checks(BTreeMap<ShardId, BTreeMap<WaitPlace, DependencyCheck>>);

impl Checks {
    fn push(&mut self, (shard, stamp): (ShardId, Stamp), from: Address, check: DependencyCheck) {
        self.0.entry(shard).or_default().insert((stamp, from, check.number), check);
    }

    /// Removes the checks that wait for one of these stamps of a shard.
    fn take(
        &mut self,
        shard: ShardId,
        stamps: RangeInclusive<Stamp>,
    ) -> Vec<(Address, DependencyCheck)> {
        let Some(waiting) = self.0.get_mut(&shard) else { return Vec::new() };
        let is_before = |(stamp, ..): &&WaitPlace| *stamp < *stamps.start();
        let places = waiting.keys().skip_while(is_before);
        let places: Vec<WaitPlace> =
            places.take_while(|(stamp, ..)| stamps.contains(stamp)).copied().collect();
        let taken = places.into_iter().filter_map(|place| Some((place.1, waiting.remove(&place)?)));
        let taken = taken.collect();
        if waiting.is_empty() {
            self.0.remove(&shard);
        }
        taken
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
            let shown = self.shown_to_checks(context, shard);
            if shown < stamp && !self.held.has_arrived(need, check.of, context.homes) {
                return self.checks.push(need, from, check);
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

    /// Returns the shardstamp of a copy here. A home at this site shows whatever anyone can depend
    /// on.
    fn shown_to_checks(&self, context: &Context<'_>, shard: ShardId) -> Stamp {
        let site = context.homes.home(shard);
        if site == context.config.address.site {
            return Stamp(u64::MAX);
        }
        self.shown(context.config.owner(site, shard), shard, (context.store, context.homes))
    }

    /// Shows held writes that need not wait any more, and continues the checks of others.
    pub(crate) fn show_held(&mut self, context: &mut Context<'_>) {
        self.held.apply_due(context.now, context.store, context.homes);
        for (shard, stamp) in self.held.take_arrived() {
            for (from, check) in self.checks.take(shard, stamp..=stamp) {
                self.on_check(context, from, check);
            }
        }
        let shards: Vec<ShardId> = self.checks.0.keys().copied().collect();
        for shard in shards {
            let shown = self.shown_to_checks(context, shard);
            for (from, check) in self.checks.take(shard, Stamp::ZERO..=shown) {
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
