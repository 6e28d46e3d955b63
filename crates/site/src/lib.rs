//! Composes the protocols that one worker of a site runs into one machine.
//!
//! Hosts run one [`Site`] per worker and do not depend on any protocol. A `Site` passes each input
//! to the protocol that it is for. Outputs carry their protocol as the variant of [`Message`],
//! [`Command`], [`Response`], [`Event`] or [`Part`], and as its number in bytes that leave the
//! process ([`PROTOCOLS`]).
//!
//! | module | subject |
//! |---|---|
//! | `composed` | inputs and outputs of all protocols |
//! | `internal` | questions of one protocol to another |
//! | `machine` | the machine |
//! | `machine::bounds` | connects `reservations` to UniStore: its streams, its record, increments |
//! | `recovery` | rebuilds the machine from its journal |

mod composed;
mod internal;
mod machine;
mod recovery;
pub mod speculative;

use solera_machine::Protocol;

pub use composed::{Command, Event, Input, Job, JobResult, Message, Output, Part, Response};
pub use machine::{Checkpoint, Config, Site};
pub use recovery::Recovery;

/// Protocols that this build can run. A number is never reused for another protocol.
pub const PROTOCOLS: &[Protocol] = &[
    solera_unistore::PROTOCOL,
    solera_primary::PROTOCOL,
    solera_occult::PROTOCOL,
    solera_reservations::PROTOCOL,
    solera_creek::PROTOCOL,
    solera_trial::PROTOCOL,
];

/// Returns the protocols that servers can run, with their values among those of [`PROTOCOLS`].
/// `trial` runs only in the simulator.
pub fn of_servers<T>(values: &[T]) -> impl Iterator<Item = (&'static Protocol, &T)> {
    PROTOCOLS.iter().zip(values).filter(|(protocol, _)| **protocol != solera_trial::PROTOCOL)
}

/// The protocols that workers run beside UniStore.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Whether they run `primary`.
    pub primary: bool,
    /// Whether they run `occult`.
    pub occult: bool,
    /// Whether they run `reservations`.
    pub reservations: bool,
    /// Whether they run `creek`.
    pub creek: bool,
    /// Whether they run `trial`.
    pub trial: bool,
}

/// Returns the protocols of a cluster whose workers run these beside UniStore. A node announces
/// only these to other nodes, and nodes that run others reject it.
pub fn protocols(beside: Beside) -> impl Iterator<Item = &'static Protocol> {
    PROTOCOLS.iter().filter(move |protocol| match **protocol {
        solera_primary::PROTOCOL => beside.primary,
        solera_occult::PROTOCOL => beside.occult,
        solera_reservations::PROTOCOL => beside.reservations,
        solera_creek::PROTOCOL => beside.creek,
        solera_trial::PROTOCOL => beside.trial,
        _ => true,
    })
}
