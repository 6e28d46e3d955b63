//! Parts of checkpoints.

use std::collections::VecDeque;
use std::fmt;

use crate::object::Procedures;
use crate::record::{Part, Rest};
use crate::replica::{Consensus, Replica};

/// A part of a checkpoint of a machine with `P` as operations.
pub(crate) type PartOf<P> =
    Part<<P as Procedures>::Operation, <P as Procedures>::Value, <P as Procedures>::Response>;

/// Progress of a checkpoint.
///
/// The state is copied when the first part is written, and the parts are then written one by one.
/// The copy takes one step and the memory of the data until the checkpoint is complete.
pub struct Checkpoint<P: Procedures> {
    parts: Option<VecDeque<PartOf<P>>>,
}

impl<P: Procedures> Default for Checkpoint<P> {
    fn default() -> Checkpoint<P> {
        Checkpoint { parts: None }
    }
}

impl<P: Procedures> fmt::Debug for Checkpoint<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = self.parts.as_ref().map(VecDeque::len);
        f.debug_struct("Checkpoint").field("left", &left).finish()
    }
}

impl<P: Procedures> Checkpoint<P> {
    pub(crate) fn is_complete(&self) -> bool {
        self.parts.as_ref().is_some_and(VecDeque::is_empty)
    }

    /// Returns the next part, with at most `keys` registers or operations.
    pub(crate) fn next(
        &mut self,
        replica: &Replica<P>,
        consensus: &Consensus<P>,
        keys: usize,
    ) -> Option<PartOf<P>> {
        self.parts.get_or_insert_with(|| parts(replica, consensus, keys.max(1))).pop_front()
    }
}

fn parts<P: Procedures>(
    replica: &Replica<P>,
    consensus: &Consensus<P>,
    keys: usize,
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
    let registers = replica.execution.final_registers();
    parts.extend(registers.chunks(keys).map(|some| Part::Registers(some.to_vec())));
    let kept: Vec<_> = replica.streams.kept().cloned().collect();
    parts.extend(kept.chunks(keys).map(|some| Part::Kept(some.to_vec())));
    let committed: Vec<_> = replica.order.committed().iter().cloned().collect();
    parts.extend(committed.chunks(keys).map(|some| Part::Committed(some.to_vec())));
    let history: Vec<_> = replica.history.iter().cloned().collect();
    parts.extend(history.chunks(keys).map(|some| Part::History(some.to_vec())));
    let mut progress = solera_consensus::Checkpoint::default();
    let agreed = std::iter::from_fn(|| consensus.next_part(&mut progress, keys));
    parts.extend(agreed.map(Part::Consensus));
    parts
}
