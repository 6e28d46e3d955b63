//! `creek` as workers run it: with operations on keys as procedures.

use solera_creek::{Creek, KeyProcedures, Procedures};

/// Operation of a speculative space.
pub type Operation = <KeyProcedures as Procedures>::Operation;
/// Message between workers.
pub type Message = solera_creek::Message<Operation>;
/// Command of a client.
pub type Command = solera_creek::Command<Operation>;
/// Reply to a command.
pub type Response = solera_creek::Response<<KeyProcedures as Procedures>::Response>;
/// Step of the protocol, for checkers of histories.
pub type Event = solera_creek::Event;
/// Part of a checkpoint.
pub type Part = solera_creek::Part<Operation, <KeyProcedures as Procedures>::Value>;
/// The machine.
pub type Speculative = Creek<KeyProcedures>;
