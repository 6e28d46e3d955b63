//! Parts of checkpoints.

use std::collections::VecDeque;
use std::fmt;

use crate::execution::Registers;
use crate::object::Procedures;
use crate::record::{Part, Rest};
use crate::replica::{Consensus, Replica};

/// A part of a checkpoint of a machine with `P` as operations.
pub(crate) type PartOf<P> =
    Part<<P as Procedures>::Operation, <P as Procedures>::Value, <P as Procedures>::Response>;

/// Progress of a checkpoint.
///
/// The first part takes a snapshot of the registers, and copies the references to operations. The
/// parts are then written one by one.
pub struct Checkpoint<P: Procedures> {
    begun: Option<Begun<P>>,
    /// Whether a joining site will take over the parts.
    for_other: bool,
}

struct Begun<P: Procedures> {
    /// Registers that are left.
    registers: Registers<P::Value>,
    parts: VecDeque<PartOf<P>>,
}

impl<P: Procedures> Default for Checkpoint<P> {
    fn default() -> Checkpoint<P> {
        Checkpoint { begun: None, for_other: false }
    }
}

impl<P: Procedures> fmt::Debug for Checkpoint<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.begun.as_ref().map(|begun| begun.parts.len());
        f.debug_struct("Checkpoint").field("left", &left).finish()
    }
}

impl<P: Procedures> Checkpoint<P> {
    /// Creates a checkpoint for another site, which takes over what is final, committed or
    /// tentative, and not what this site has promised.
    pub(crate) fn for_other() -> Checkpoint<P> {
        Checkpoint { begun: None, for_other: true }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.begun.as_ref().is_some_and(|it| it.parts.is_empty() && it.registers.is_empty())
    }

    /// Returns the next part, with at most `keys` registers or operations.
    pub(crate) fn next(
        &mut self,
        replica: &Replica<P>,
        consensus: &Consensus<P>,
        keys: usize,
    ) -> Option<PartOf<P>> {
        let keys = keys.max(1);
        let begun = self.begun.get_or_insert_with(|| Begun {
            registers: replica.execution.registers(),
            parts: parts(replica, consensus, keys, self.for_other),
        });
        if begun.registers.is_empty() {
            return begun.parts.pop_front();
        }
        let some = begun.registers.take(keys);
        Some(Part::Registers(some))
    }
}

fn parts<P: Procedures>(
    replica: &Replica<P>,
    consensus: &Consensus<P>,
    keys: usize,
    for_other: bool,
) -> VecDeque<PartOf<P>> {
    let tentative = replica.order.tentative();
    let rest = Rest {
        run: replica.run,
        clock: replica.clock.last(),
        removed: replica.streams.removed().collect(),
        causal: replica.causal.clone(),
        weak: tentative.filter(|it| !it.is_strong()).map(|it| it.id).collect(),
        casts: replica.casts.iter().map(|(stream, last)| (*stream, *last)).collect(),
        finals: replica.order.finals(),
        digest: replica.digest,
    };
    let mut parts = VecDeque::from([Part::Rest(Box::new(rest))]);
    let kept: Vec<_> = replica.streams.kept().cloned().collect();
    parts.extend(kept.chunks(keys).map(|some| Part::Kept(some.to_vec())));
    let committed: Vec<_> = replica.order.committed().iter().cloned().collect();
    parts.extend(committed.chunks(keys).map(|some| Part::Committed(some.to_vec())));
    let history: Vec<_> = replica.history.iter().cloned().collect();
    parts.extend(history.chunks(keys).map(|some| Part::History(some.to_vec())));
    parts.push_back(Part::Closed(replica.departures.closed()));
    if for_other {
        parts.push_back(Part::Delivered(consensus.snapshot()));
        return parts;
    }
    if replica.config.generation > 0 && replica.is_filled {
        parts.push_back(Part::Filled);
    }
    let mut progress = solera_consensus::Checkpoint::default();
    let agreed = std::iter::from_fn(|| consensus.next_part(&mut progress, keys));
    parts.extend(agreed.map(Part::Consensus));
    parts
}
