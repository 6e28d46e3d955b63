//! Machines of `creek`, and what they show.

use solera_creek::{Digest, OperationId};
use solera_machine::Address;
use solera_site::speculative::Speculative;

use super::{SiteState, World, WorldEvent};

/// A final operation, with its position from 1 and the digest of all operations up to it.
pub(crate) type FinalOperation = (u64, OperationId, Digest);

/// Returns the final operations that a machine remembers, in order.
pub(crate) fn last_finals(creek: &Speculative) -> Vec<FinalOperation> {
    let positions = (1..=creek.status().finals).rev();
    let finals = positions.zip(creek.history().rev());
    let mut finals: Vec<_> = finals.map(|(at, (id, digest))| (at, id, digest)).collect();
    finals.reverse();
    finals
}

impl World {
    /// Returns the machine of `creek` at a worker.
    pub(crate) fn creek(&self, worker: Address) -> Option<&Speculative> {
        self.workers.get(&worker)?.machine().creek()
    }

    /// Returns the machines of `creek` at sites that are up.
    pub(crate) fn creeks(&self) -> impl Iterator<Item = (Address, &Speculative)> {
        let up = |address: &Address| self.state(address.site.index()) == SiteState::Up;
        let workers = self.workers.iter().filter(move |(address, _)| up(address));
        workers.filter_map(|(address, worker)| Some((*address, worker.machine().creek()?)))
    }

    /// Reports a step of `creek`.
    pub(super) fn show_step(&mut self, address: Address, step: solera_creek::Event) {
        let incarnation = self.incarnation(address);
        self.events.push(WorldEvent::SpeculativeStep(address, incarnation, step));
    }

    /// Reports the start of a worker with its last final operations, if it runs `creek`, and before
    /// that the durable steps of its previous incarnation.
    pub(super) fn show_start(
        &mut self,
        address: Address,
        steps: Vec<solera_creek::Event>,
        finals: Option<Vec<FinalOperation>>,
    ) {
        let Some(finals) = finals else { return };
        let incarnation = self.incarnation(address);
        let step = |step| WorldEvent::SpeculativeStep(address, incarnation - 1, step);
        self.events.extend(steps.into_iter().map(step));
        self.events.push(WorldEvent::SpeculativeStart(address, incarnation, finals));
    }
}
