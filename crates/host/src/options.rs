//! Options of a driver, and the rules that tests can disable.

use solera_machine::Without;

/// Options of a driver's use of its log.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether messages and replies wait until the records before them are durable.
    pub waits: bool,
    /// Rule that is disabled.
    pub without: Without<Rule>,
}

/// A rule of the driver that tests can disable, to prove that the checks detect its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Outputs wait until the records that were emitted earlier are durable.
    SyncFirst,
    /// Clients get no replies after the log has failed.
    LogToAnswer,
    /// Clients that have called the machine directly wait for the records, too.
    HoldClients,
    /// A checkpoint is published only when all records whose effects it contains are durable.
    PublishDurable,
}
