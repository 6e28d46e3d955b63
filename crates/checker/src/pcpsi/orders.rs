//! Orders of the versions of keys, and the edges that follow from them: wr, ww, and missed writes.

use std::collections::{BTreeMap, BTreeSet};

use super::graph::{Graph, Missed, Reason};
use super::history::Version;
use super::index::{Index, Key, KeyRead, Writer};
use super::violation::Violation;

/// Known part of the order of a key's versions.
pub(super) struct Order {
    /// Transactions with trusted stamps, in the order of their stamps.
    stamped: Vec<usize>,
    /// Position of each of them.
    rank: BTreeMap<usize, usize>,
    /// Whether they are all transactions that wrote the key.
    pub(super) is_total: bool,
    /// Transactions that overwrote each version, or the initial one.
    overwriters: BTreeMap<Option<usize>, BTreeSet<usize>>,
    /// First writer of each chain; only of keys whose order is not total.
    firsts: Vec<usize>,
    /// Stamped removals, in the order of their stamps.
    pub(super) removals: Vec<usize>,
}

impl Order {
    /// Derives the order of a key's versions from stamps and from overwritten versions.
    fn new(index: &Index<'_>, key: &Key<'_>, violations: &mut Vec<Violation>) -> Self {
        let mut by_stamp: Vec<(u64, &Writer)> =
            key.writers.iter().filter_map(|writer| Some((writer.stamp?, writer))).collect();
        by_stamp.sort_by_key(|(stamp, writer)| (*stamp, writer.node));
        let errors = stamp_errors(index, key, &by_stamp);
        if !errors.is_empty() {
            by_stamp.clear();
        }
        violations.extend(errors);
        let stamped: Vec<usize> = by_stamp.iter().map(|(_, writer)| writer.node).collect();
        let is_total = stamped.len() == key.writers.len();
        let mut overwriters: BTreeMap<Option<usize>, BTreeSet<usize>> = BTreeMap::new();
        let is_known = |read: &&KeyRead| read.from.is_some() || !key.may_be_removed();
        for read in key.reads.iter().filter(|read| read.overwrites).filter(is_known) {
            overwriters.entry(read.from).or_default().insert(read.node);
        }
        let mut firsts = Vec::new();
        if !is_total {
            let mut seen = BTreeSet::new();
            let nodes = key.writers.iter().map(|writer| writer.node);
            firsts = nodes.filter(|node| seen.insert(index.nodes[*node].chain)).collect();
        }
        let removals = by_stamp.iter().filter(|(_, writer)| writer.removes);
        let removals = removals.map(|(_, writer)| writer.node).collect();
        let rank = stamped.iter().enumerate().map(|(rank, node)| (*node, rank)).collect();
        Order { stamped, rank, is_total, overwriters, firsts, removals }
    }

    /// Returns the transaction that overwrote the version of `writer`, if there is only one.
    pub(super) fn overwriter(&self, writer: usize) -> Option<usize> {
        only(self.overwriters.get(&Some(writer))?)
    }

    /// Returns the transaction with the next stamp after a transaction or the initial version.
    pub(super) fn next(&self, source: Option<usize>) -> Option<usize> {
        let at = match source {
            None => 0,
            Some(writer) => self.rank.get(&writer)? + 1,
        };
        self.stamped.get(at).copied()
    }

    /// Returns transactions whose versions are later than one that was read, in every order. Other
    /// transactions that stamps and answers show to be later follow one of these.
    fn later(&self, key: &Key<'_>, source: Option<usize>) -> Vec<usize> {
        let source = match source {
            // A read of no value may have observed a removal.
            None if key.may_be_removed() => return Vec::new(),
            source => source,
        };
        let next = self.next(source);
        if self.is_total {
            return next.into_iter().collect();
        }
        let mut later: Vec<usize> = next.into_iter().collect();
        match self.overwriters.get(&source) {
            Some(overwriters) => later.extend(overwriters),
            None if source.is_none() => later.extend(&self.firsts),
            None => {}
        }
        later
    }
}

/// Returns the element of a set that has one.
fn only(set: &BTreeSet<usize>) -> Option<usize> {
    let mut nodes = set.iter();
    nodes.next().filter(|_| nodes.next().is_none()).copied()
}

/// Reports stamps that cannot be the order of a key's versions.
fn stamp_errors(index: &Index<'_>, key: &Key<'_>, by_stamp: &[(u64, &Writer)]) -> Vec<Violation> {
    let mut errors = Vec::new();
    for pair in by_stamp.windows(2) {
        if let [(stamp, first), (other, second)] = pair
            && stamp == other
        {
            errors.push(Violation::SameStamp {
                key: key.name.to_owned(),
                stamp: *stamp,
                first: (index.name(first.node), first.id),
                second: (index.name(second.node), second.id),
            });
        }
    }
    for read in key.reads.iter().filter(|read| read.overwrites) {
        let stamp = |node: usize| {
            let writer = key.writer(node)?;
            Some((index.name(node), writer.id, writer.stamp?))
        };
        if let Some(overwritten) = read.from.and_then(stamp)
            && let Some(by) = stamp(read.node)
            && overwritten.2 > by.2
        {
            let key = key.name.to_owned();
            errors.push(Violation::StampsContradict { key, overwritten, by });
        }
    }
    errors
}

/// Adds the edges of all keys to the graph. Returns the orders, missed writes (rw), and violations.
pub(super) fn link(
    index: &Index<'_>,
    graph: &mut Graph,
) -> (Vec<Order>, Vec<Missed>, Vec<Violation>) {
    let mut violations = Vec::new();
    let mut missed = Vec::new();
    let mut orders = Vec::new();
    for (at, key) in index.keys.iter().enumerate() {
        let order = Order::new(index, key, &mut violations);
        lost_updates(index, key, &order, &mut violations);
        for read in &key.reads {
            if let (Some(from), Version::Of(id)) = (read.from, read.version) {
                graph.add(from, read.node, Reason::Read { key: at, id });
            }
        }
        for pair in order.stamped.windows(2) {
            if let [earlier, later] = pair {
                graph.add(*earlier, *later, Reason::Order { key: at });
            }
        }
        // The only transaction that overwrote the initial version precedes all others.
        if let Some(first) = order.overwriters.get(&None).and_then(only) {
            order.firsts.iter().for_each(|node| graph.add(first, *node, Reason::Order { key: at }));
        }
        missed.extend(missed_writes(at, key, &order));
        orders.push(order);
    }
    missed.sort_unstable();
    missed.dedup();
    (orders, missed, violations)
}

/// Returns the missed writes of a key, except those of two transactions that overwrote one version:
/// they are reported as lost updates.
fn missed_writes(at: usize, key: &Key<'_>, order: &Order) -> Vec<Missed> {
    let mut writes = Vec::new();
    for read in key.reads.iter().filter(|read| read.misses) {
        let both_overwrote = |later: usize| {
            let overwriters = order.overwriters.get(&read.from);
            overwriters.is_some_and(|set| set.contains(&later) && set.contains(&read.node))
        };
        let later = order.later(key, read.from).into_iter();
        let later = later.filter(|later| *later != read.node && !both_overwrote(*later));
        writes.extend(later.map(|missed| Missed {
            reader: read.node,
            source: read.from,
            missed,
            key: at,
        }));
    }
    writes
}

fn lost_updates(index: &Index<'_>, key: &Key<'_>, order: &Order, violations: &mut Vec<Violation>) {
    for (source, overwriters) in &order.overwriters {
        let version = match source.and_then(|source| key.writer(source)) {
            Some(writer) => Version::Of(writer.id),
            None => Version::Absent,
        };
        let mut overwriters = overwriters.iter();
        let Some(first) = overwriters.next() else { continue };
        violations.extend(overwriters.map(|second| Violation::LostUpdate {
            first: index.name(*first),
            second: index.name(*second),
            key: key.name.to_owned(),
            version,
        }));
    }
}
