//! Recovery of a machine from a checkpoint and records.

use std::sync::Arc;

use solera_time::SiteId;

use crate::checkpoint::PartOf;
use crate::config::Config;
use crate::context::Context;
use crate::execution::Kind;
use crate::ids::OperationId;
use crate::machine::Creek;
use crate::object::Procedures;
use crate::record::{Part, Record};
use crate::replica::Replica;
use crate::request::Request;

/// A machine under recovery.
pub struct Recovery<P: Procedures> {
    machine: Creek<P>,
    /// Weak operations that were tentative when the checkpoint was written.
    weak: Context,
    /// Operations of the parts that have not been put in their places.
    kept: Vec<Arc<Request<P::Operation>>>,
}

impl<P: Procedures> Recovery<P> {
    /// Creates a recovery without any data.
    pub fn new(config: Config, procedures: P) -> Recovery<P> {
        let consensus = Creek::<P>::member(&config);
        let machine = Creek { replica: Replica::new(config, procedures), consensus };
        Recovery { machine, weak: Context::default(), kept: Vec::new() }
    }

    /// Restores a part of a checkpoint.
    ///
    /// All parts hold the state at the time of the first one, so records up to the number with
    /// which a later part was written are replayed as well. Replaying a record whose effect the
    /// parts contain changes nothing.
    ///
    /// # Errors
    /// The bytes are no part of this protocol.
    pub fn take_part(&mut self, part: &[u8]) -> Result<(), String> {
        let Creek { replica, consensus } = &mut self.machine;
        match PartOf::<P>::decode(part).map_err(|error| error.to_string())? {
            Part::Rest(rest) => {
                replica.run = rest.run;
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
        }
        Ok(())
    }

    /// Restores a record.
    ///
    /// # Errors
    /// The bytes are no record of this protocol.
    pub fn take_record(&mut self, record: &[u8]) -> Result<(), String> {
        let record = Record::decode(record).map_err(|error| error.to_string())?;
        self.place_kept();
        let Creek { replica, consensus } = &mut self.machine;
        match record {
            Record::Started { run } => replica.run = run.max(replica.run),
            Record::Operation(request) => replica.restore(request),
            Record::Consensus(record) => {
                let delivery = consensus.restore(record).map_err(|error| error.to_string())?;
                if let Some(delivery) = delivery {
                    self.machine.redeliver(&delivery);
                }
            }
        }
        while self.machine.replica.poll_output().is_some() {}
        Ok(())
    }

    /// Puts the operations of the parts in their places, once all parts were taken.
    fn place_kept(&mut self) {
        let replica = &mut self.machine.replica;
        for request in std::mem::take(&mut self.kept) {
            if replica.causal.contains(request.id) && !self.weak.contains(request.id) {
                replica.restore_committed(request);
            } else {
                replica.restore(request);
            }
        }
        replica.execute_committed();
    }

    /// Returns the machine with the state after the last record. It begins a new run.
    pub fn into_machine(mut self) -> Creek<P> {
        self.place_kept();
        let replica = &mut self.machine.replica;
        while replica.poll_output().is_some() {}
        // What is committed need not be proposed.
        let undecided = &replica.undecided;
        replica.learned.retain(|cast| undecided.contains_key(cast));
        for site in SiteId::all(replica.config.topology.sites()) {
            if let Some((run, event)) = replica.streams.last_run(site) {
                replica.frontier.take_all(OperationId { site, run, event });
            }
        }
        replica.start();
        self.machine
    }
}

impl<P: Procedures> solera_machine::Recovery for Recovery<P> {
    type Machine = Creek<P>;

    fn take_part(&mut self, _: u64, part: &[u8]) -> Result<(), String> {
        Recovery::take_part(self, part)
    }

    fn take_record(&mut self, _: u64, record: &[u8]) -> Result<(), String> {
        Recovery::take_record(self, record)
    }

    fn into_machine(self) -> Creek<P> {
        Recovery::into_machine(self)
    }
}
