//! Finds cycles with no or one missed write, and derives orders of versions that no stamp or answer
//! shows.

use std::collections::BTreeSet;

use super::graph::{Components, Graph, Implied, Missed, Reason, Step};
use super::history::Version;
use super::index::{Index, KeyRead};
use super::orders::{Order, link};
use super::reach::{Clocks, Reach};
use super::violation::{Dependency, Edge, Violation};

/// Maximum number of reported cycles of each kind.
const MOST_CYCLES: usize = 64;

/// Number of transactions from which the shortest cycle of a component is searched.
const STARTS: usize = 8;

/// Maximum number of rounds, each of which derives orders from those of the round before.
const ROUNDS: usize = 16;

/// Reports the violations that involve several transactions.
pub(super) fn check(index: &Index<'_>) -> Vec<Violation> {
    let mut graph = Graph::new(index);
    let (orders, mut missed, mut violations) = link(index, &mut graph);
    missed.extend(after_removals(index, &graph, &orders));
    missed.sort_by_key(|missed| index.nodes[missed.missed].chain);
    let unordered = (0..orders.len()).filter(|key| !orders[*key].is_total);
    let unordered = unordered.map(|key| Unordered::new(index, key, &orders[key])).collect();
    let (found, sums) = (BTreeSet::new(), Vec::new());
    let mut judge = Judge { index, graph, missed, unordered, found, sums };
    violations.extend(judge.run());
    violations
}

/// For keys whose order is known, returns the writes that reads of no value certainly missed.
///
/// Such a read may have observed any removal that does not depend on it. If it misses the version
/// after the last such removal, it misses the versions after earlier ones as well.
fn after_removals(index: &Index<'_>, graph: &Graph, orders: &[Order]) -> Vec<Missed> {
    let mut reads: Vec<(usize, usize, usize)> = Vec::new();
    for (at, key) in index.keys.iter().enumerate() {
        let order = &orders[at];
        if order.is_total && !order.removals.is_empty() && !key.unseen_removal {
            let absent = |read: &&KeyRead| read.misses && read.version == Version::Absent;
            let absent = key.reads.iter().filter(absent);
            reads.extend(absent.map(|read| (index.nodes[read.node].chain, read.node, at)));
        }
    }
    reads.sort_unstable();
    reads.dedup();
    let mut missed = Vec::new();
    if reads.is_empty() {
        return missed;
    }
    let components = graph.components();
    for clocks in Reach::new(index, graph, &components).blocks() {
        let begin = reads.partition_point(|(chain, ..)| *chain < clocks.first());
        let block = reads[begin..].iter().take_while(|(chain, ..)| clocks.covers(*chain));
        for (chain, reader, key) in block.copied() {
            let (order, place) = (&orders[key], index.nodes[reader].place);
            let removals = &order.removals;
            let possible = removals.partition_point(|node| clocks.at(*node, chain) < place);
            let removal = possible.checked_sub(1).map(|last| removals[last]);
            let later = order.next(removal).filter(|later| *later != reader);
            missed.extend(later.map(|missed| Missed { reader, source: None, missed, key }));
        }
    }
    missed
}

struct Judge<'a> {
    index: &'a Index<'a>,
    graph: Graph,
    /// Missed writes, sorted by the chains of their writers.
    missed: Vec<Missed>,
    unordered: Vec<Unordered<'a>>,
    /// Missed writes on whose writers the readers depend.
    found: BTreeSet<Missed>,
    /// Sums of the clocks of each block in the last round, by node.
    sums: Vec<Vec<u64>>,
}

impl Judge<'_> {
    fn run(&mut self) -> Vec<Violation> {
        let components = self.graph.components();
        let circular = self.circular(&components);
        if !circular.is_empty() {
            self.round(&components, false);
            return [circular, self.missed_effects()].concat();
        }
        let mut components = components;
        for _ in 0..ROUNDS {
            if !self.round(&components, true) {
                break;
            }
            components = self.graph.components();
            if components.cyclic().next().is_some() {
                break;
            }
        }
        let mut violations = self.missed_effects();
        violations.extend(self.implied_cycles(&components));
        violations
    }

    /// Finds missed effects. Adds the orders of versions that follow from the graph, if it has no
    /// cycle, and returns whether there are new ones.
    fn round(&mut self, components: &Components, derives: bool) -> bool {
        let mut implied = Vec::new();
        let reach = Reach::new(self.index, &self.graph, components);
        for (block, clocks) in reach.blocks().enumerate() {
            let chain = |missed: &Missed| self.index.nodes[missed.missed].chain;
            let begin = self.missed.partition_point(|missed| chain(missed) < clocks.first());
            let missed = self.missed[begin..].iter().take_while(|one| clocks.covers(chain(one)));
            self.found.extend(missed.filter(|missed| {
                let node = &self.index.nodes[missed.missed];
                clocks.at(missed.reader, node.chain) >= node.place
            }));
            if derives && !self.unordered.is_empty() {
                let changed = self.changed(block, &clocks);
                let unordered = self.unordered.iter();
                unordered.for_each(|key| key.derive(self.index, &clocks, &changed, &mut implied));
            }
        }
        let mut is_new = false;
        for implied in implied {
            is_new |= self.graph.imply(implied);
        }
        is_new
    }

    /// Returns, for each node, whether more transactions of a block lead to it than in the last
    /// round. Clocks only grow, so equal sums imply equal clocks.
    fn changed(&mut self, block: usize, clocks: &Clocks<'_>) -> Vec<bool> {
        let sums: Vec<u64> = (0..self.index.nodes.len()).map(|node| clocks.sum(node)).collect();
        if block == self.sums.len() {
            self.sums.push(vec![0; sums.len()]);
        }
        let last = std::mem::replace(&mut self.sums[block], sums);
        last.iter().zip(&self.sums[block]).map(|(last, sum)| last != sum).collect()
    }

    /// Reports a short cycle of each component that has one.
    fn circular(&self, components: &Components) -> Vec<Violation> {
        let cycles = components.cyclic().take(MOST_CYCLES).filter_map(|members| {
            let starts = members.iter().take(STARTS);
            starts.filter_map(|node| self.graph.path(*node, *node, true)).min_by_key(Vec::len)
        });
        cycles
            .map(|cycle| Violation::CircularInformationFlow { cycle: self.edges(&cycle) })
            .collect()
    }

    /// Reports a cycle for each transaction that misses effects.
    fn missed_effects(&self) -> Vec<Violation> {
        let mut readers = BTreeSet::new();
        let found = self.found.iter().filter(|missed| readers.insert(missed.reader));
        found
            .take(MOST_CYCLES)
            .filter_map(|missed| {
                let back = |with_implied| {
                    let path = self.graph.path(missed.missed, missed.reader, with_implied)?;
                    Some([vec![self.miss(missed)], self.edges(&path)].concat())
                };
                let certain =
                    back(false).map(|cycle| Violation::MissedEffects { cycle, order: Vec::new() });
                certain.or_else(|| Some(Violation::NoVersionOrder { cycle: back(true)? }))
            })
            .collect()
    }

    /// Reports cycles that exist only because of the graph's implied orders.
    fn implied_cycles(&self, components: &Components) -> Vec<Violation> {
        let mut readers: BTreeSet<usize> = self.found.iter().map(|missed| missed.reader).collect();
        let mut violations = Vec::new();
        let of = &components.of;
        let on_cycle = |implied: &&Implied| of[implied.earlier] == of[implied.later];
        let mut explained = BTreeSet::new();
        for implied in self.graph.implied.iter().filter(on_cycle).take(MOST_CYCLES) {
            if readers.contains(&implied.reader) {
                explained.insert(of[implied.earlier]);
            } else if let Some(violation) = self.misses_effects(implied) {
                readers.insert(implied.reader);
                explained.insert(of[implied.earlier]);
                violations.push(violation);
            }
        }
        let cyclic = components.cyclic().filter(|nodes| !explained.contains(&of[nodes[0]]));
        violations.extend(cyclic.take(MOST_CYCLES).filter_map(|nodes| {
            let cycles = nodes.iter().take(STARTS);
            let cycles = cycles.filter_map(|node| self.graph.path(*node, *node, true));
            let cycle = self.edges(&cycles.min_by_key(Vec::len)?);
            Some(Violation::NoVersionOrder { cycle })
        }));
        violations
    }

    /// Returns the violation if the opposite of an implied order follows from certain edges.
    fn misses_effects(&self, implied: &Implied) -> Option<Violation> {
        let Implied { key, reader, source, missed, .. } = *implied;
        let order = self.graph.path(source, missed, false)?;
        let back = self.graph.path(missed, reader, false)?;
        let miss = self.miss(&Missed { reader, source: Some(source), missed, key });
        let cycle = [vec![miss], self.edges(&back)].concat();
        Some(Violation::MissedEffects { cycle, order: self.edges(&order) })
    }

    fn miss(&self, missed: &Missed) -> Edge {
        let Missed { reader, source, missed, key } = *missed;
        let version = source.map_or(Version::Absent, |source| Version::Of(self.id(key, source)));
        let missed_id = self.id(key, missed);
        let key = self.index.keys[key].name.to_owned();
        let dependency = Dependency::Misses { key, version, missed: missed_id };
        Edge { from: self.index.name(reader), to: self.index.name(missed), dependency }
    }

    /// Returns the number of a transaction's last write of a key.
    fn id(&self, key: usize, node: usize) -> u64 {
        self.index.keys[key].writer(node).map_or(0, |writer| writer.id)
    }

    fn edges(&self, steps: &[Step]) -> Vec<Edge> {
        let edges = steps.iter().map(|(from, to, reason)| {
            let name = |key: usize| self.index.keys[key].name.to_owned();
            let dependency = match *reason {
                Reason::Session => Dependency::Session,
                Reason::Read { key, id } => Dependency::Read { key: name(key), id },
                Reason::Order { key } => Dependency::Order {
                    key: name(key),
                    earlier: self.id(key, *from),
                    later: self.id(key, *to),
                },
                Reason::Implied(number) => {
                    let Implied { key, reader, .. } = self.graph.implied[number];
                    Dependency::Implied {
                        key: name(key),
                        earlier: self.id(key, *from),
                        later: self.id(key, *to),
                        reader: self.index.name(reader),
                    }
                }
            };
            Edge { from: self.index.name(*from), to: self.index.name(*to), dependency }
        });
        edges.collect()
    }
}

/// A key whose versions are not all ordered by stamps.
struct Unordered<'a> {
    key: usize,
    order: &'a Order,
    /// Chain, place and node of each writer, sorted.
    writers: Vec<(usize, u32, usize)>,
    /// Writers that did not show the version that they overwrote.
    blind: Vec<usize>,
}

impl<'a> Unordered<'a> {
    fn new(index: &Index<'_>, key: usize, order: &'a Order) -> Self {
        let nodes = || index.keys[key].writers.iter().map(|writer| writer.node);
        let mut writers: Vec<(usize, u32, usize)> =
            nodes().map(|node| (index.nodes[node].chain, index.nodes[node].place, node)).collect();
        writers.sort_unstable();
        let reads = index.keys[key].reads.iter();
        let overwriters: BTreeSet<usize> =
            reads.filter(|read| read.overwrites).map(|read| read.node).collect();
        let blind = nodes().filter(|node| !overwriters.contains(node)).collect();
        Unordered { key, order, writers, blind }
    }

    /// Finds orders of versions whose opposite would be a cycle with one missed write, for nodes
    /// whose clocks changed.
    fn derive(
        &self,
        index: &Index<'_>,
        clocks: &Clocks<'_>,
        changed: &[bool],
        implied: &mut Vec<Implied>,
    ) {
        let key = self.key;
        let begin = self.writers.partition_point(|(chain, ..)| *chain < clocks.first());
        let end = self
            .writers
            .partition_point(|(chain, ..)| *chain < clocks.first() || clocks.covers(*chain));
        let chains = || self.writers[begin..end].chunk_by(|one, other| one.0 == other.0);
        // A writer that leads to a reader has an earlier version than the one that was read.
        let reads = index.keys[key].reads.iter();
        for read in reads.filter(|read| read.misses && changed[read.node]) {
            let Some(source) = read.from else { continue };
            for chain in chains() {
                if let Some((chain, place, missed)) = latest_before(index, clocks, chain, read.node)
                    && missed != source
                    && clocks.at(source, chain) < place
                {
                    let (earlier, later, reader) = (missed, source, read.node);
                    implied.push(Implied { key, earlier, later, reader, source, missed });
                }
            }
        }
        // If one of two versions overwrote the other, no version is between them. For transactions
        // that overwrote a version, this follows from the above.
        for later in self.blind.iter().filter(|later| changed[**later]) {
            for chain in chains() {
                if let Some((_, _, source)) = latest_before(index, clocks, chain, *later)
                    && let Some(reader) = self.order.overwriter(source)
                    && reader != *later
                {
                    let (earlier, missed, later) = (reader, *later, *later);
                    implied.push(Implied { key, earlier, later, reader, source, missed });
                }
            }
        }
    }
}

/// Returns the latest of a chain's writers that leads to a node.
fn latest_before(
    index: &Index<'_>,
    clocks: &Clocks<'_>,
    writers: &[(usize, u32, usize)],
    node: usize,
) -> Option<(usize, u32, usize)> {
    let chain = writers.first()?.0;
    let limit = clocks.at(node, chain);
    let of_node = &index.nodes[node];
    let is_before =
        |place: u32| place <= limit && (chain != of_node.chain || place < of_node.place);
    let end = writers.partition_point(|(_, place, _)| is_before(*place));
    writers[..end].last().copied()
}
