//! Other replication schemes over the same store and broadcast, for comparisons (Creek §6).
//!
//! All of them order every update by the broadcast, without causal contexts. State machine
//! replication executes an operation after its delivery. Archie executes it at the place that the
//! leader proposes, before it is delivered. Bayou orders tentative operations by their timestamps
//! as Creek does, and its primary determines the final order.

use std::sync::Arc;

use solera_consensus::{CastId, Slot, Variant};
use solera_time::Timestamp;

use super::Replica;
use crate::config::Scheme;
use crate::execution::Kind;
use crate::object::Procedures;
use crate::request::Request;

/// Bits of a timestamp for the position within a slot.
const POSITION: u32 = 16;

impl Scheme {
    /// Returns whether operations have no place before the broadcast proposes or delivers them.
    pub(crate) fn orders_first(self) -> bool {
        matches!(self, Scheme::Smr | Scheme::Archie)
    }

    pub(crate) fn variant(self) -> Variant {
        match self {
            Scheme::Creek | Scheme::Smr => Variant::Quorum,
            Scheme::Bayou => Variant::Primary,
            Scheme::Archie => Variant::Optimistic,
        }
    }
}

impl<P: Procedures> Replica<P> {
    /// Returns whether an operation is executed as a weak one of Creek.
    pub(super) fn is_weak(&self, operation: &P::Operation) -> bool {
        match self.config.scheme {
            Scheme::Creek => true,
            Scheme::Bayou => self.execution.is_read_only(operation),
            Scheme::Smr | Scheme::Archie => false,
        }
    }

    /// Gives the operations of a proposed slot tentative places (Archie: optimistic delivery).
    pub(crate) fn deliver_optimistically(&mut self, slot: Slot, casts: &[CastId]) {
        for (position, cast) in casts.iter().enumerate() {
            let Some(known) = self.undecided.get_mut(cast) else { continue };
            if self.order.is_tentative(known) {
                continue;
            }
            let timestamp = Timestamp((slot.0 << POSITION) + position as u64);
            *known = Arc::new(Request { timestamp, ..Request::clone(known) });
            let request = Arc::clone(known);
            let place = self.order.insert(Arc::clone(&request));
            let kind =
                if self.awaited.contains_key(&request.id) { Kind::Awaited } else { Kind::Other };
            self.execution.insert(&self.order, place, request, kind);
        }
    }
}
