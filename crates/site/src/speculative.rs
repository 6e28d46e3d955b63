//! `creek` as workers run it: with the operations of speculative spaces.

use solera_creek::Creek;
use solera_procedures::{KeyValue, Procedure, Returned, SpaceProcedures};

/// Operation of a speculative space.
pub type Operation = Procedure;
/// Message between workers.
pub type Message = solera_creek::Message<Operation>;
/// Command of a client.
pub type Command = solera_creek::Command<Operation, Returned>;
/// Reply to a command.
pub type Response = solera_creek::Response<Returned>;
/// Step of the protocol, for checkers of histories.
pub type Event = solera_creek::Event;
/// Part of a checkpoint.
pub type Part = solera_creek::Part<Operation, KeyValue, Returned>;
/// Execution of an operation.
pub type Job = solera_creek::Job<SpaceProcedures>;
/// Result of a job.
pub type Done = solera_creek::Done<SpaceProcedures>;
/// The machine.
pub type Speculative = Creek<SpaceProcedures>;
