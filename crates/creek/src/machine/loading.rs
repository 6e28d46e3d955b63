//! Loads parts into a machine without data: those of its own checkpoint, or another site's.

use std::sync::Arc;

use solera_consensus::Record as Agreed;
use solera_time::SiteId;

use super::Creek;
use crate::checkpoint::PartOf;
use crate::context::Context;
use crate::execution::Kind;
use crate::ids::OperationId;
use crate::object::Procedures;
use crate::record::Part;
use crate::replica::Replica;
use crate::request::Request;

/// Progress of loading.
pub(crate) struct Loading<P: Procedures> {
    /// Whether the parts are of this site.
    is_own: bool,
    /// Weak operations that were tentative when the parts were written.
    weak: Context,
    /// Operations of the parts that have not been put in their places.
    kept: Vec<Arc<Request<P::Operation>>>,
}

impl<P: Procedures> Loading<P> {
    /// Begins to load a checkpoint of this site.
    pub(crate) fn own() -> Loading<P> {
        Loading { is_own: true, weak: Context::default(), kept: Vec::new() }
    }

    /// Begins to load another site's data.
    pub(crate) fn of_other() -> Loading<P> {
        Loading { is_own: false, ..Loading::own() }
    }

    /// Takes a part.
    pub(crate) fn take(&mut self, machine: &mut Creek<P>, part: PartOf<P>) {
        let Creek { replica, consensus, .. } = machine;
        match part {
            Part::Rest(rest) => {
                if self.is_own {
                    replica.run = rest.run;
                }
                replica.clock.observe(rest.clock);
                for (stream, removed) in rest.removed {
                    replica.streams.restore(stream, removed);
                }
                replica.causal = rest.causal;
                self.weak = rest.weak;
                replica.casts = rest.casts.into_iter().collect();
                replica.order.restore(rest.finals);
                replica.digest = rest.digest;
            }
            Part::Registers(registers) => {
                for (key, value) in registers {
                    replica.execution.restore(key, value);
                }
            }
            Part::Kept(requests) => self.kept.extend(requests),
            Part::Committed(requests) => {
                for request in requests {
                    let place = replica.order.push_committed(Arc::clone(&request));
                    replica.execution.insert(&replica.order, place, request, Kind::Other);
                }
            }
            Part::Consensus(part) => consensus.restore_part(part),
            Part::History(finals) => finals.into_iter().for_each(|it| replica.history.push(it)),
            Part::Delivered(snapshot) => {
                let restored = consensus.restore(Agreed::Installed(snapshot));
                restored.expect("only records of deliveries can be out of order");
            }
            Part::Filled => replica.is_filled = true,
            Part::Closed(closed) => replica.restore_closed(closed),
        }
    }

    /// Puts the operations of the parts in their places, once all parts were taken.
    pub(crate) fn place_kept(&mut self, replica: &mut Replica<P>) {
        for request in std::mem::take(&mut self.kept) {
            if replica.causal.contains(request.id) && !self.weak.contains(request.id) {
                replica.restore_committed(request);
            } else {
                replica.restore(request);
            }
        }
        replica.execute_committed();
    }

    /// Completes loading.
    pub(crate) fn end(mut self, replica: &mut Replica<P>) {
        self.place_kept(replica);
        // What is committed need not be proposed.
        let undecided = &replica.undecided;
        replica.learned.retain(|cast| undecided.contains_key(cast));
        for site in SiteId::all(replica.config.topology.sites()) {
            if let Some((run, event)) = replica.streams.last_run(site) {
                replica.frontier.take_all(OperationId { site, run, event });
            }
        }
    }
}
