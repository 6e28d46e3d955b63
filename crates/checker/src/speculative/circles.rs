//! Searches for circles: operations that saw one another, and tentative operations in contradictory
//! orders.
//!
//! A graph with an edge for each operation that a reply saw would be too large, because most of
//! them are committed. Instead, each prefix of the final order is a node, with an edge to its last
//! operation and to the prefix before it. Likewise, a session has a node for each prefix of the
//! operations that its later ones follow.

use std::collections::VecDeque;

use super::history::ReplyKind;
use super::index::{Found, Index, NOWHERE};
use super::violation::{Link, Violation};

/// Largest number of circles of one kind that are reported.
const MOST: usize = 4;

/// Searches for circles of what replies saw and session order: among weak operations, and if the
/// space is acyclic, also through strong ones.
pub(super) fn check_seen(index: &Index<'_>, found: &mut Found) {
    let graph = seen(index);
    let count = index.history.operations.len();
    for circle in graph.circles() {
        // Nodes of prefixes lead from an operation to one that it saw or follows.
        let length = circle.len();
        let links = (0..length).filter(|at| circle[*at] < count).map(|at| {
            let next = circle[(at + 1) % length];
            let is_session = next > count + index.order.len();
            let link = if is_session { Link::Follows } else { Link::Saw };
            (index.name(circle[at]), link)
        });
        found.push(Violation::Circle { links: links.collect() });
    }
}

/// Searches for tentative operations that replies have in contradictory orders. Tentative
/// operations are ordered by their timestamps, which never change (Creek Alg. 1 l. 36–41).
pub(super) fn check_tentative(index: &Index<'_>, found: &mut Found) {
    let mut pairs = Vec::new();
    // Operation that followed each one in the latest order, because most orders repeat others.
    let mut latest = vec![NOWHERE; index.history.operations.len()];
    for claim in &index.claims {
        let is_broadcast = index.operation(claim.operation).id().is_some();
        let own = is_broadcast.then_some(claim.operation);
        let next = claim.tentative.iter().map(|it| *it as usize).skip(1).chain(own);
        for (before, after) in claim.tentative.iter().zip(next) {
            let before = *before as usize;
            if std::mem::replace(&mut latest[before], after) != after {
                pairs.push((before, after));
            }
        }
    }
    let graph = Graph::new(index.history.operations.len(), &pairs);
    for circle in graph.circles() {
        let operations = circle.into_iter().map(|operation| index.name(operation)).collect();
        found.push(Violation::TentativeOrder { operations });
    }
}

/// Returns the graph of operations, prefixes of the final order, and prefixes of sessions.
fn seen(index: &Index<'_>) -> Graph {
    let acyclic = index.history.acyclic;
    let count = index.history.operations.len();
    let takes_part = |operation: usize| acyclic || !index.is_strong(operation);
    let mut edges = Vec::new();
    for (position, operation) in index.order.iter().enumerate() {
        let prefix = count + position;
        edges.push((prefix + 1, prefix));
        edges.extend(operation.filter(|it| takes_part(*it)).map(|it| (prefix + 1, it)));
    }
    for operation in 0..count {
        if index.is_strong(operation) {
            let position = index.positions[operation];
            if acyclic && position != NOWHERE {
                edges.push((operation, count + position));
            }
        } else if let Some(claim) = index.first_claim(operation)
            && claim.kind() == ReplyKind::Weak
        {
            edges.push((operation, count + claim.committed()));
            let seen = claim.tentative.iter().map(|seen| *seen as usize);
            edges.extend(seen.filter(|it| takes_part(*it)).map(|it| (operation, it)));
        }
    }
    let mut nodes = count + index.order.len() + 1;
    for operations in index.sessions.values() {
        add_session(index, operations, &mut nodes, &mut edges);
    }
    Graph::new(nodes, &edges)
}

/// Adds a node for each prefix of the operations that later ones of the session follow: weak ones,
/// and strong ones whose stable reply the session awaited.
fn add_session(
    index: &Index<'_>,
    operations: &[usize],
    nodes: &mut usize,
    edges: &mut Vec<(usize, usize)>,
) {
    let acyclic = index.history.acyclic;
    let mut last = None;
    let mut waiting: Vec<usize> = Vec::new();
    let mut follow = |last: &mut Option<usize>, operation, edges: &mut Vec<(usize, usize)>| {
        let node = std::mem::replace(nodes, *nodes + 1);
        edges.push((node, operation));
        edges.extend(last.replace(node).map(|before| (node, before)));
    };
    for operation in operations {
        let invoked = index.operation(*operation).invoked;
        waiting.retain(|strong| {
            let is_awaited = index.stable[*strong].is_some_and(|at| at < invoked);
            if is_awaited {
                follow(&mut last, *strong, edges);
            }
            !is_awaited
        });
        if index.is_strong(*operation) && !acyclic {
            continue;
        }
        edges.extend(last.map(|node| (*operation, node)));
        if !index.is_strong(*operation) {
            follow(&mut last, *operation, edges);
        } else if index.stable[*operation].is_some() {
            waiting.push(*operation);
        }
    }
}

/// A directed graph.
struct Graph {
    /// For each node, where its successors begin.
    starts: Vec<usize>,
    successors: Vec<u32>,
}

impl Graph {
    fn new(nodes: usize, edges: &[(usize, usize)]) -> Graph {
        let mut starts = vec![0; nodes + 1];
        for (from, _) in edges {
            starts[from + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut ends = starts.clone();
        let mut successors = vec![0; edges.len()];
        for (from, to) in edges {
            let to = u32::try_from(*to).expect("a history has fewer than 2^30 operations");
            successors[ends[*from]] = to;
            ends[*from] += 1;
        }
        Graph { starts, successors }
    }

    fn successors(&self, node: usize) -> &[u32] {
        &self.successors[self.starts[node]..self.starts[node + 1]]
    }

    /// Returns some circles, each as short as possible, and at least one if there is any.
    fn circles(&self) -> Vec<Vec<usize>> {
        #[derive(Clone, Copy, PartialEq, Eq)]
        enum Colour {
            New,
            Open,
            Done,
        }
        let nodes = self.starts.len() - 1;
        let mut colours = vec![Colour::New; nodes];
        let mut circles = Vec::new();
        let mut path: Vec<(usize, usize)> = Vec::new();
        for root in 0..nodes {
            if colours[root] != Colour::New {
                continue;
            }
            colours[root] = Colour::Open;
            path.push((root, 0));
            while let Some((node, next)) = path.last_mut() {
                let Some(successor) = self.successors(*node).get(*next) else {
                    colours[*node] = Colour::Done;
                    path.pop();
                    continue;
                };
                *next += 1;
                let successor = *successor as usize;
                match colours[successor] {
                    Colour::Done => {}
                    Colour::New => {
                        colours[successor] = Colour::Open;
                        path.push((successor, 0));
                    }
                    Colour::Open => {
                        circles.push(self.path(successor, *node));
                        if circles.len() == MOST {
                            return circles;
                        }
                    }
                }
            }
        }
        circles
    }

    /// Returns a shortest path from one node to another, which must be reachable.
    fn path(&self, from: usize, to: usize) -> Vec<usize> {
        let mut parents = vec![usize::MAX; self.starts.len() - 1];
        parents[from] = from;
        let mut waiting = VecDeque::from([from]);
        while let Some(node) = waiting.pop_front()
            && node != to
        {
            for successor in self.successors(node) {
                let successor = *successor as usize;
                if parents[successor] == usize::MAX {
                    parents[successor] = node;
                    waiting.push_back(successor);
                }
            }
        }
        let mut path = vec![to];
        let mut node = to;
        while node != from {
            node = parents[node];
            path.push(node);
        }
        path.reverse();
        path
    }
}
