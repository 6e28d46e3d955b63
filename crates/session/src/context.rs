//! The interface between a session and the worker at which it is open.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use solera_commands::CommandId;
use solera_config::{ClusterSpec, Users};
use solera_data::{Key, Op, OpError, Outcome};
use solera_levels::Level;
use solera_machine::{Address, Now, RequestId};
use solera_membership::{Change, MemberError, Members};
use solera_occult::Occult;
use solera_procedures::{Procedure, Returned};
use solera_reservations::{Cannot, Holder};
use solera_resp::Value;
use solera_time::SiteId;
use solera_unistore::{AtRisk, Command, Pasts, Replica, Response};
use tokio::sync::oneshot;

use crate::client::Client;
use crate::counts::ReadCounts;
use crate::delegation::Delegation;
use crate::finals::{FinalAnswer, FinalStep};
use crate::identity::Identity;
use crate::scan::{Ask, Page};

/// A worker, as its sessions use it. Methods refer to the worker's own site unless a parameter
/// names another.
pub trait Context: 'static {
    /// Returns the worker's address.
    fn address(&self) -> Address;

    /// Returns the configuration with which the process started.
    fn spec(&self) -> &Arc<ClusterSpec>;

    /// Returns the current configuration. Settings that can change at run time must be read here.
    fn settings(&self) -> Arc<ClusterSpec>;

    /// Returns the number that identifies the cluster and its data in tokens.
    fn cluster(&self) -> u64;

    /// Returns the current time.
    fn now(&self) -> Now;

    /// Runs `action` on UniStore's machine. Must not be called from within another `action`.
    fn with<R>(&self, action: impl FnOnce(&mut Replica) -> R) -> R;

    /// Runs a single operation on a key of this worker and counts its command. Returns `None` if
    /// the operation cannot be done at once.
    fn execute_at_once(
        &self,
        now: Now,
        pasts: &mut Pasts,
        single: Single<'_>,
    ) -> Option<Result<Outcome, OpError>>;

    /// Returns a new request id, to wait for its reply with [`Context::reply_about`].
    fn new_request(&self) -> RequestId;

    /// Waits for the reply to a request on a key that `owner` holds. `Ok(None)` means the same as
    /// `None` of [`Context::call`]. Dropping the future cancels the request.
    ///
    /// # Errors
    /// No reply came in time. The worker may have executed the request, or may still execute it.
    fn reply_about(
        &self,
        request: RequestId,
        owner: Address,
    ) -> impl Future<Output = Result<Option<Response>, PeerTimeout>>;

    /// Sends the machine a command and waits for its reply. Returns `None` if there will be no
    /// reply, because the worker is stopping or a journal has failed.
    fn call(&self, command: Command) -> impl Future<Output = Option<Response>>;

    /// Like [`Context::call`]. Dropping the future cancels the request.
    fn ask(&self, command: Command) -> impl Future<Output = Option<Response>>;

    /// Sends the machine a command that needs no reply.
    fn send(&self, command: Command);

    /// Runs a command of `primary` at a worker of the site. Returns the last reply, or an earlier
    /// one if that is sufficient for the command. Dropping the future cancels the request. Returns
    /// `None` if there will be no reply.
    fn ask_primary(
        &self,
        worker: Address,
        asked: ToPrimary,
    ) -> impl Future<Output = Option<solera_primary::Response>>;

    /// Runs `action` on Occult's machine; returns `None` if the worker does not run it. Must not be
    /// called from within another `action`.
    fn with_occult<R>(&self, action: impl FnOnce(&mut Occult) -> R) -> Option<R>;

    /// Runs a command of Occult at a worker of the site. Dropping the future cancels the request.
    /// Returns `None` if there will be no reply.
    fn ask_occult(
        &self,
        worker: Address,
        command: solera_occult::Command,
    ) -> impl Future<Output = Option<solera_occult::Response>>;

    /// Sends Occult's machine of this worker a command whose reply is not needed.
    fn send_occult(&self, command: solera_occult::Command);

    /// Sends the machine of the speculative space a request, at the worker of the site that runs
    /// it. Dropping the future cancels the request. Returns `None` if there will be no reply, or
    /// no such space.
    fn ask_speculative(
        &self,
        asked: ToSpeculative,
    ) -> impl Future<Output = Option<FromSpeculative>>;

    /// Reads an interval at the worker of the site that owns a key. The interval contains the value
    /// of the counter at some moment between the call and its result. Dropping the future cancels
    /// the request. Returns `None` if there will be no reply.
    fn ask_bound(&self, worker: Address, asked: AskBound) -> impl Future<Output = Option<Bound>>;

    /// Returns the workers of the site.
    fn workers(&self) -> impl Iterator<Item = Address>;

    /// Returns the worker that holds a key.
    ///
    /// # Errors
    /// The worker is on a node that cannot be reached.
    fn reach(&self, key: &[u8]) -> Result<Address, Unreachable>;

    /// Returns the name of a node of the site that cannot be reached, if any.
    fn unreachable_neighbour(&self) -> Option<String>;

    /// Returns the number of the process that runs a worker. Numbers are not reused; 0 is this
    /// process. Returns `None` if no message of the worker has arrived yet.
    fn process_of(&self, worker: Address) -> Option<u64>;

    /// Counts the keys of a worker. Returns `None` if the worker cannot be reached.
    fn count_keys(&self, worker: Address) -> impl Future<Output = Option<usize>>;

    /// Returns the transactions of a worker that the loss of sites could still undo; `None` if the
    /// worker cannot be reached.
    fn at_risk(&self, worker: Address, keys: usize) -> impl Future<Output = Option<AtRisk>>;

    /// Returns the index of the leading site of each partition of a worker. An index beyond the
    /// last site means that no site leads. Returns `None` if the worker cannot be reached.
    fn leaders_at(&self, worker: Address) -> impl Future<Output = Option<Vec<u64>>>;

    /// Returns the next page of a partition that a worker holds; `Some(None)` while the worker does
    /// not have the whole snapshot. Returns `None` if the worker cannot be reached.
    fn scan(&self, worker: Address, ask: Ask) -> impl Future<Output = Option<Option<Page>>>;

    /// Makes a change of the sites, if one is given, at the root of the site's workers. Returns the
    /// state of the sites after the change; `None` if the root cannot be reached.
    fn sites(&self, change: Option<(SiteId, Change)>) -> impl Future<Output = Option<SitesReport>>;

    /// Returns the name of a node of `site` that exchanges messages with this process. Returns
    /// `None` if there is no such node, or if the site is neither a member nor joining.
    fn answering_node(&self, site: SiteId) -> Option<String>;

    /// Returns the name of a node that is not known to list a new site; `None` if all nodes list
    /// it, or the site is not new.
    fn node_without(&self, site: SiteId) -> Option<String>;

    /// Returns whether the site has all data that it serves. A joining site receives the data
    /// first.
    fn serves(&self) -> bool;

    /// Returns whether the node now rejects some commands that it usually accepts.
    fn refuses_some(&self) -> bool;

    /// Returns the reason if this process accepts no writes because of a journal.
    fn refuses(&self) -> Option<String>;

    /// Returns the error reply to writes while this process accepts none.
    fn takes_no_writes(&self) -> Option<String>;

    /// Returns the reason if all other sites reject this node.
    fn refused_by_others(&self) -> Option<String>;

    /// Returns the bytes of memory that the process uses; 0 where that is unknown.
    fn memory_used(&self) -> u64;

    /// Returns whether the process uses more memory than its limit.
    fn is_memory_full(&self) -> bool;

    /// Returns whether access control is in force.
    fn is_guarded(&self) -> bool;

    /// Returns the current users.
    fn users(&self) -> Arc<Users>;

    /// Authenticates a connection as a user. Returns whether the password is right.
    fn login(
        &self,
        identity: &Identity,
        name: &[u8],
        password: &[u8],
        from: Option<SocketAddr>,
    ) -> bool;

    /// Returns the clients of the site in this process.
    fn clients(&self) -> Vec<Arc<Client>>;

    /// Returns the number of clients of the site in this process.
    fn client_count(&self) -> usize;

    /// Counts a command.
    fn count_command(&self, command: CommandId);

    /// Counts an error reply.
    fn count_error(&self);

    /// Changes the counts of reads at a chosen level and of intervals.
    fn count_reads(&self, action: impl FnOnce(&mut ReadCounts));

    /// Returns the number of commands that the worker has run.
    fn commands_run(&self) -> u64;

    /// Passes a request to the module runtime, on behalf of a session. Returns `None` if the server
    /// has no runtime. A dropped sender means that the server is stopping.
    fn run_modules(
        &self,
        caller: Delegation,
        request: Vec<Vec<u8>>,
    ) -> Option<oneshot::Receiver<Value>>;

    /// Returns the name of a site.
    fn site_name(&self, site: SiteId) -> &str {
        self.spec().sites.get(site.index()).map_or("?", |site| &site.name)
    }

    /// Returns the name of a worker's node.
    fn node_name(&self, worker: Address) -> String {
        let spec = self.spec();
        let node = spec.node_of(worker);
        node.map_or_else(|| self.site_name(worker.site).to_owned(), |node| spec.name_of(node))
    }
}

/// A command on one key that runs at once.
#[derive(Debug)]
pub struct Single<'a> {
    /// Level of the key.
    pub level: Level,
    /// The key.
    pub key: &'a [u8],
    /// The operation.
    pub op: &'a Op,
    /// The command, for the counters.
    pub command: CommandId,
}

/// A command for `primary`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToPrimary {
    /// The command.
    pub command: solera_primary::Command,
    /// Whether the client can be answered once an update is accepted.
    pub takes_accepted: bool,
}

/// Number of the worker of each site that runs the speculative space.
pub const SPECULATIVE_WORKER: u8 = 0;

/// A request to the machine of the speculative space.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToSpeculative {
    /// Runs a command and returns its first response.
    Run {
        /// The command.
        command: solera_creek::Command<Procedure, Returned>,
        /// Time after which the request ends without a response.
        within: Duration,
    },
    /// Returns the machine's numbers.
    State,
    /// Returns final operations.
    Log {
        /// Position of the first one, from 1.
        from: u64,
        /// Most operations to return.
        count: usize,
    },
    /// Makes a step of an export.
    Export(FinalStep),
    /// Returns the sites whose operations of a past are not all final.
    Unfinished(solera_creek::Past),
}

/// The answer to a [`ToSpeculative`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromSpeculative {
    /// A response of the machine.
    Responded {
        /// The response.
        response: Box<solera_creek::Response<Returned>>,
        /// Operations that the site has delivered.
        past: solera_creek::Past,
        /// The operation that a [`solera_creek::Command::Await`] names, if it is known.
        operation: Option<Procedure>,
    },
    /// There was no response in time.
    TimedOut,
    /// The node of the worker that runs the machine cannot be reached. Nothing was asked.
    Unreachable(String),
    /// The machine's numbers.
    State(Box<SpeculativeState>),
    /// Final operations, and the position of the first one that the site keeps.
    Log(Vec<LogEntry>, u64),
    /// The answer to a step of an export.
    Exported(FinalAnswer),
    /// Sites whose operations of the past are not all final.
    Unfinished(Vec<SiteId>),
}

/// Numbers of the speculative space at a site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpeculativeState {
    /// Number of final operations.
    pub finals: u64,
    /// Number of committed operations, which have their final places.
    pub committed: u64,
    /// Number of tentative operations.
    pub tentative: u64,
    /// Digest of the final operations and their results.
    pub digest: u64,
    /// The site that leads the agreement, as far as this site knows.
    pub leader: Option<SiteId>,
    /// Number of executions since the start.
    pub executions: u64,
    /// Number of operations of this site's clients since the start that had a result before they
    /// were final.
    pub predicted: u64,
    /// How many of them had the final result at first.
    pub accurate: u64,
    /// Sites whose results differ, if there are any.
    pub divergence: Option<solera_creek::Divergence>,
}

/// A final operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Its position in the final order, from 1.
    pub position: u64,
    /// Its name.
    pub id: solera_creek::OperationId,
    /// Whether it was strong.
    pub strong: bool,
    /// The operation; `None` for one that has done nothing: it commits others, or a watched key had
    /// changed.
    pub operation: Option<Procedure>,
}

/// A request about a counter or set with a bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskBound {
    /// The counter.
    pub key: Key,
    /// Result to return.
    pub what: What,
    /// Time after which the request fails.
    pub within: Duration,
}

/// Kind of result that a request about a counter returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// An interval that contains the value.
    Interval,
    /// The sites with tokens or rights.
    Holders,
}

/// The answer to a request about a counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// Least and greatest value. Values beyond 64 bits are cut.
    Interval(i64, i64),
    /// The sites.
    Holders(Vec<Holder>),
    /// Why neither is known.
    Cannot(Cannot),
}

/// State of the sites, as the root of a site's workers reports it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SitesReport {
    /// Members, as far as this site knows.
    pub members: Members,
    /// A site that has not confirmed the same members, if any.
    pub not_agreed: Option<SiteId>,
    /// Reason why the requested change was not made.
    pub refused: Option<MemberError>,
}

/// A node that cannot be reached.
#[derive(Debug)]
pub struct Unreachable(pub String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TRYAGAIN {} is unreachable or has too much work; nothing was changed", self.0)
    }
}

/// Error of a request to a node, given by name, that did not answer in time.
#[derive(Debug)]
pub struct PeerTimeout(pub String);
