//! What a worker's mailbox takes: messages of other workers, and orders of the host.

use std::sync::Arc;
use std::time::Instant;

use solera_config::ClusterSpec;
use solera_journal::Event;
use solera_machine::{Address, JobId};
use solera_membership::Change;
use solera_session::{Ask, Batch, Delegation, Page, SitesReport, ToPrimary};
use solera_site::{JobResult, Message};
use solera_time::{SiteId, Timestamp};
use solera_unistore::{AtRisk, Held};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use crate::status::WorkerSample;

/// What arrives in a worker's mailbox.
pub(crate) enum Parcel {
    /// Messages of another worker, to be handled when they are due.
    Messages { from: Address, due: Instant, life: u32, messages: Vec<Message> },
    /// An order of the host.
    Control(Control),
}

/// An order of the host to a worker.
pub(crate) enum Control {
    /// Serve an in-memory connection.
    Connect(DuplexStream),
    /// Serve server-side code in the name of another session.
    Open(Delegation, UnboundedReceiver<Batch>),
    /// Tell about yourself; whether in detail.
    Sample(bool, oneshot::Sender<WorkerSample>),
    /// Tell how many bytes your data takes, and took at most since you were asked last.
    Held(oneshot::Sender<Held>),
    /// Count keys.
    CountKeys(oneshot::Sender<usize>),
    /// Tell what the loss of sites could still undo, with at most so many keys.
    AtRisk(usize, oneshot::Sender<AtRisk>),
    /// Tell the greatest times of their own that the workers of a site have told you, with the
    /// worker of each: one for each worker that told some, and one for the last update in each of
    /// your partitions.
    Heard(SiteId, oneshot::Sender<Vec<(Address, Timestamp)>>),
    /// Change how a site stands, if asked to, and tell how all do.
    Sites(Option<(SiteId, Change)>, oneshot::Sender<SitesReport>),
    /// Tell the next page of a partition; nothing while that cannot be told yet.
    Scan(Ask, oneshot::Sender<Option<Page>>),
    /// Have `primary` run a command of another worker's session.
    Primary(ToPrimary, oneshot::Sender<solera_primary::Response>),
    /// Run this on the worker's thread.
    Run(Box<dyn FnOnce() + Send>),
    /// These are the settings from now on.
    Configure(Arc<ClusterSpec>),
    /// Stop serving, as if the site had died; keep the state.
    Kill(oneshot::Sender<()>),
    /// Go on.
    Restart(oneshot::Sender<std::io::Result<()>>),
    /// A job of the machine is done.
    Done(JobId, JobResult),
    /// The journal's thread has something to say.
    Journal(Event),
    /// The journal of some worker in this process has failed.
    GiveUpWaiting,
    /// Something has gone from a disk that the worker may share.
    LookForRoom,
    /// End.
    Stop,
}

impl Control {
    /// Whether the answer tells of what the worker has in memory, and not only how much that is.
    pub(crate) fn asks_about_data(&self) -> bool {
        matches!(
            self,
            Control::Sample(..)
                | Control::CountKeys(_)
                | Control::AtRisk(..)
                | Control::Sites(..)
                | Control::Scan(..)
                | Control::Primary(..)
        )
    }
}
