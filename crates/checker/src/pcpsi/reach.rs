//! Reachability by vector clocks: for each transaction, how many transactions of each chain lead to
//! it. Clocks are computed for a block of chains at a time, so that their size is bounded.

use super::graph::{Components, Graph};
use super::index::Index;

/// Number of chains of a block.
const WIDTH: usize = 64;

/// The graph of components.
pub(super) struct Reach<'a> {
    index: &'a Index<'a>,
    components: &'a Components,
    successors: Vec<Vec<usize>>,
}

impl<'a> Reach<'a> {
    pub(super) fn new(index: &'a Index<'a>, graph: &Graph, components: &'a Components) -> Self {
        let mut successors = vec![Vec::new(); components.members.len()];
        for (from, to) in graph.edges() {
            let (from, to) = (components.of[from], components.of[to]);
            if from != to {
                successors[from].push(to);
            }
        }
        for successors in &mut successors {
            successors.sort_unstable();
            successors.dedup();
        }
        Reach { index, components, successors }
    }

    /// Returns the clocks of all blocks of chains, one after the other.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Clocks<'a>> {
        (0..self.index.chains).step_by(WIDTH).map(|first| self.clocks(first))
    }

    fn clocks(&self, first: usize) -> Clocks<'a> {
        let of = &self.components.of;
        let mut rows = vec![0; self.components.members.len() * WIDTH];
        for (at, node) in self.index.nodes.iter().enumerate() {
            if (first..first + WIDTH).contains(&node.chain) {
                let entry = &mut rows[of[at] * WIDTH + node.chain - first];
                *entry = node.place.max(*entry);
            }
        }
        // Edges lead to smaller numbers.
        for (from, successors) in self.successors.iter().enumerate().rev() {
            let (before, row) = rows.split_at_mut(from * WIDTH);
            for to in successors {
                let target = &mut before[to * WIDTH..][..WIDTH];
                for (entry, other) in target.iter_mut().zip(&row[..WIDTH]) {
                    *entry = (*entry).max(*other);
                }
            }
        }
        Clocks { first, of, rows }
    }
}

/// Clocks for the chains of a block.
pub(super) struct Clocks<'a> {
    first: usize,
    of: &'a [usize],
    rows: Vec<u32>,
}

impl Clocks<'_> {
    /// Returns the first chain of the block.
    pub(super) fn first(&self) -> usize {
        self.first
    }

    /// Returns whether a chain is in the block.
    pub(super) fn covers(&self, chain: usize) -> bool {
        (self.first..self.first + WIDTH).contains(&chain)
    }

    /// Returns the greatest place in a chain of the block whose transaction leads to the node or is
    /// the node, or 0.
    pub(super) fn at(&self, node: usize, chain: usize) -> u32 {
        self.rows[self.of[node] * WIDTH + chain - self.first]
    }

    /// Returns the sum of a node's clock.
    pub(super) fn sum(&self, node: usize) -> u64 {
        self.rows[self.of[node] * WIDTH..][..WIDTH].iter().map(|place| u64::from(*place)).sum()
    }
}
