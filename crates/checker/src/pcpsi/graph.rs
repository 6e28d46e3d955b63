//! The graph of dependencies without missed writes, its strongly connected components and paths.

use std::collections::{BTreeSet, VecDeque};

use super::history::Outcome;
use super::index::Index;

/// Reason of an edge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// Order of a session.
    Session,
    /// A read of the write `id` of a key.
    Read { key: usize, id: u64 },
    /// Order of the versions of a key.
    Order { key: usize },
    /// Number of an implied order.
    Implied(usize),
}

/// An order of two versions that holds because one reader misses effects in the opposite order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Implied {
    pub(super) key: usize,
    /// Transaction of the earlier version.
    pub(super) earlier: usize,
    /// Transaction of the later version.
    pub(super) later: usize,
    /// Reader.
    pub(super) reader: usize,
    /// Transaction of the version that it reads.
    pub(super) source: usize,
    /// Transaction of the version that it misses in the opposite order.
    pub(super) missed: usize,
}

/// A reader of a version, and a transaction that wrote a later one (rw).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Missed {
    pub(super) reader: usize,
    /// Transaction that wrote the version that it reads, or `None` for no value.
    pub(super) source: Option<usize>,
    /// Transaction that wrote the later version.
    pub(super) missed: usize,
    pub(super) key: usize,
}

/// An edge between two nodes.
pub(super) type Step = (usize, usize, Reason);

/// Edges of wr, ww and sd.
pub(super) struct Graph {
    edges: Vec<Vec<(usize, Reason)>>,
    pub(super) implied: Vec<Implied>,
    known: BTreeSet<(usize, usize)>,
}

impl Graph {
    /// Creates a graph with the order of sessions.
    ///
    /// A transaction of unknown outcome may have committed after later ones of its session. It
    /// follows those that committed before it was invoked, and precedes none.
    pub(super) fn new(index: &Index<'_>) -> Self {
        let edges = vec![Vec::new(); index.nodes.len()];
        let mut graph = Graph { edges, implied: Vec::new(), known: BTreeSet::new() };
        let mut last: Option<usize> = None;
        for (at, node) in index.nodes.iter().enumerate() {
            let session = node.transaction.session;
            let earlier = last.filter(|last| index.nodes[*last].transaction.session == session);
            if let Some(earlier) = earlier {
                graph.add(earlier, at, Reason::Session);
            }
            if node.transaction.outcome != Outcome::Unknown {
                last = Some(at);
            }
        }
        graph
    }

    pub(super) fn add(&mut self, from: usize, to: usize, reason: Reason) {
        if from != to {
            self.edges[from].push((to, reason));
        }
    }

    /// Adds an implied order. Returns whether it is new.
    pub(super) fn imply(&mut self, implied: Implied) -> bool {
        let is_new = self.known.insert((implied.earlier, implied.later));
        if is_new {
            self.add(implied.earlier, implied.later, Reason::Implied(self.implied.len()));
            self.implied.push(implied);
        }
        is_new
    }

    /// Returns all edges.
    pub(super) fn edges(&self) -> impl Iterator<Item = (usize, usize)> {
        let edges = self.edges.iter().enumerate();
        edges.flat_map(|(from, edges)| edges.iter().map(move |(to, _)| (from, *to)))
    }

    /// Returns a shortest path. It has at least one edge, so that a path from a node to itself is a
    /// cycle.
    pub(super) fn path(&self, from: usize, to: usize, with_implied: bool) -> Option<Vec<Step>> {
        let mut reached: Vec<Option<(usize, Reason)>> = vec![None; self.edges.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for (next, reason) in &self.edges[node] {
                let is_implied = matches!(reason, Reason::Implied(_));
                if reached[*next].is_some() || (is_implied && !with_implied) {
                    continue;
                }
                reached[*next] = Some((node, *reason));
                if *next == to {
                    return way(from, to, &reached);
                }
                queue.push_back(*next);
            }
        }
        None
    }

    /// Returns the strongly connected components.
    pub(super) fn components(&self) -> Components {
        Tarjan::new(&self.edges).run()
    }
}

fn way(from: usize, to: usize, reached: &[Option<(usize, Reason)>]) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut node = to;
    loop {
        let (earlier, reason) = reached[node]?;
        steps.push((earlier, node, reason));
        node = earlier;
        if node == from {
            steps.reverse();
            return Some(steps);
        }
    }
}

/// Strongly connected components. Edges lead to components with equal or smaller numbers.
pub(super) struct Components {
    /// Component of each node.
    pub(super) of: Vec<usize>,
    /// Nodes of each component, sorted.
    pub(super) members: Vec<Vec<usize>>,
}

impl Components {
    /// Returns the components that contain cycles.
    pub(super) fn cyclic(&self) -> impl Iterator<Item = &Vec<usize>> {
        self.members.iter().filter(|members| members.len() > 1)
    }
}

/// Tarjan's algorithm ("Depth-first search and linear graph algorithms", 1972) without recursion.
struct Tarjan<'a> {
    edges: &'a [Vec<(usize, Reason)>],
    /// Number of each node in the order of visits, from 1.
    visit: Vec<usize>,
    /// Least visit that is known to be reachable.
    low: Vec<usize>,
    /// Nodes whose component is not complete.
    open: Vec<usize>,
    visits: usize,
    components: Components,
}

const NONE: usize = usize::MAX;

impl<'a> Tarjan<'a> {
    fn new(edges: &'a [Vec<(usize, Reason)>]) -> Self {
        let components = Components { of: vec![NONE; edges.len()], members: Vec::new() };
        let unvisited = || vec![0; edges.len()];
        let (visit, low) = (unvisited(), unvisited());
        Tarjan { edges, visit, low, open: Vec::new(), visits: 0, components }
    }

    fn run(mut self) -> Components {
        for root in 0..self.edges.len() {
            if self.visit[root] == 0 {
                self.search(root);
            }
        }
        self.components
    }

    fn search(&mut self, root: usize) {
        self.enter(root);
        // Nodes on the path, with the number of edges followed.
        let mut path = vec![(root, 0)];
        while let Some((node, followed)) = path.last_mut() {
            let node = *node;
            if let Some((next, _)) = self.edges[node].get(*followed) {
                *followed += 1;
                if self.visit[*next] == 0 {
                    self.enter(*next);
                    path.push((*next, 0));
                } else if self.components.of[*next] == NONE {
                    self.low[node] = self.low[node].min(self.visit[*next]);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                self.low[*parent] = self.low[*parent].min(self.low[node]);
            }
            if self.low[node] == self.visit[node] {
                self.complete(node);
            }
        }
    }

    fn enter(&mut self, node: usize) {
        self.visits += 1;
        self.visit[node] = self.visits;
        self.low[node] = self.visits;
        self.open.push(node);
    }

    fn complete(&mut self, root: usize) {
        let at = self.open.iter().rposition(|node| *node == root).unwrap_or(0);
        let mut members = self.open.split_off(at);
        members.sort_unstable();
        for node in &members {
            self.components.of[*node] = self.components.members.len();
        }
        self.components.members.push(members);
    }
}
