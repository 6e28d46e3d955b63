//! How a driver uses its log, and rules that tests leave out.

use solera_machine::Without;

/// How a log is used.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether messages and replies wait until the records before them are durable.
    pub waits: bool,
    /// A rule to leave out.
    pub without: Without<Rule>,
}

/// A rule of the driver that tests leave out, to see that somebody notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Outputs wait until the records that were emitted earlier are durable.
    SyncFirst,
    /// Nobody is answered after the log has failed.
    LogToAnswer,
    /// Clients who have called the machine directly wait for the records, too.
    HoldClients,
    /// A checkpoint is in force once the records that it knows of are durable.
    PublishDurable,
}
