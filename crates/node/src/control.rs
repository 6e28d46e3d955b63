//! Contents of a worker's mailbox: messages of other workers, and control messages of the host.

use std::sync::Arc;
use std::time::Instant;

use solera_config::ClusterSpec;
use solera_journal::Event;
use solera_machine::{Address, JobId};
use solera_membership::Change;
use solera_session::{
    Ask, AskBound, Batch, Bound, Delegation, FromSpeculative, Page, SitesReport, ToPrimary,
    ToSpeculative,
};
use solera_site::{JobResult, Message};
use solera_time::{SiteId, Timestamp};
use solera_unistore::{AtRisk, Held};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use crate::status::WorkerSample;

/// An entry of a worker's mailbox.
pub(crate) enum Envelope {
    /// Messages of another worker, to be handled when they are due.
    Messages { from: Address, due: Instant, generation: u32, messages: Vec<Message> },
    /// A control message of the host.
    Control(Control),
}

/// A control message of the host to a worker.
pub(crate) enum Control {
    /// Serves an in-memory connection.
    Connect(DuplexStream),
    /// Serves server-side code on behalf of another session.
    Open(Delegation, UnboundedReceiver<Batch>),
    /// Returns a sample of the worker's state; in detail if `true`.
    Sample(bool, oneshot::Sender<WorkerSample>),
    /// Returns the size of the worker's data in bytes: now, and its maximum since the previous
    /// request.
    Held(oneshot::Sender<Held>),
    /// Counts keys.
    CountKeys(oneshot::Sender<usize>),
    /// Returns the transactions that the loss of sites could still undo, with at most the given
    /// number of keys.
    AtRisk(usize, oneshot::Sender<AtRisk>),
    /// Returns times of their own history that the workers of a site have sent, each with its
    /// sender: the greatest time that each of them has sent to this worker, and the time of the
    /// last update in each of this worker's partitions.
    Heard(SiteId, oneshot::Sender<Vec<(Address, Timestamp)>>),
    /// Changes the status of a site, if requested, and returns the statuses of all sites.
    Sites(Option<(SiteId, Change)>, oneshot::Sender<SitesReport>),
    /// Returns the next page of a partition; `None` while it is not available yet.
    Scan(Ask, oneshot::Sender<Option<Page>>),
    /// Runs a command of another worker's session by `primary`.
    Primary(ToPrimary, oneshot::Sender<solera_primary::Response>),
    /// Runs a command of another worker's session by Occult.
    Occult(solera_occult::Command, oneshot::Sender<solera_occult::Response>),
    /// Reads the interval or the holders of a counter for another worker's session.
    Bound(AskBound, oneshot::Sender<Bound>),
    /// Sends the machine of the speculative space a request of another worker's session.
    Speculative(Box<ToSpeculative>, oneshot::Sender<FromSpeculative>),
    /// Runs a closure on the worker's thread.
    Run(Box<dyn FnOnce() + Send>),
    /// Replaces the settings.
    Configure(Arc<ClusterSpec>),
    /// Stops serving, as if the site had died, and keeps the state.
    Kill(oneshot::Sender<()>),
    /// Serves again after [`Control::Kill`].
    Restart(oneshot::Sender<std::io::Result<()>>),
    /// Delivers the result of a job of the machine.
    Done(JobId, JobResult),
    /// Delivers an event of the journal's thread.
    Journal(Event),
    /// Reports that the journal of some worker in this process has failed.
    GiveUpWaiting,
    /// Reports that space was freed on a disk that the worker may share.
    LookForRoom,
    /// Ends the worker.
    Stop,
}

impl Control {
    /// Returns whether the answer contains data of the worker's memory, and not only its size.
    pub(crate) fn reads_data(&self) -> bool {
        matches!(
            self,
            Control::Sample(..)
                | Control::CountKeys(_)
                | Control::AtRisk(..)
                | Control::Sites(..)
                | Control::Scan(..)
                | Control::Primary(..)
                | Control::Occult(..)
                | Control::Bound(..)
                | Control::Speculative(..)
        )
    }
}
