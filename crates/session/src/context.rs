//! What a session needs of the worker at which it is open.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use solera_commands::CommandId;
use solera_config::{ClusterSpec, Users};
use solera_data::{Op, OpError, Outcome};
use solera_levels::Level;
use solera_machine::{Address, Now, RequestId};
use solera_membership::{Change, MemberError, Members};
use solera_resp::Value;
use solera_time::SiteId;
use solera_unistore::{AtRisk, Command, Pasts, Replica, Response};
use tokio::sync::oneshot;

use crate::client::Client;
use crate::identity::Identity;
use crate::lent::Lent;
use crate::scan::{Ask, Page};

/// A worker, as its sessions use it. What is said of a site is said of the worker's own site unless
/// a parameter names another.
pub trait Context: 'static {
    /// The worker itself.
    fn address(&self) -> Address;

    /// The configuration with which the process started.
    fn spec(&self) -> &Arc<ClusterSpec>;

    /// The configuration as of now: what can change while the process runs is read here.
    fn settings(&self) -> Arc<ClusterSpec>;

    /// Identifies the cluster and its data in tokens.
    fn cluster(&self) -> u64;

    /// The time.
    fn now(&self) -> Now;

    /// Runs `action` on UniStore's machine. Must not be called from within another.
    fn with<R>(&self, action: impl FnOnce(&mut Replica) -> R) -> R;

    /// Runs a single operation on a key of this worker, if nothing blocks it, and counts its
    /// command.
    fn execute_at_once(
        &self,
        now: Now,
        pasts: &mut Pasts,
        single: Single<'_>,
    ) -> Option<Result<Outcome, OpError>>;

    /// A request whose reply [`Context::reply_about`] can wait for.
    fn new_request(&self) -> RequestId;

    /// Waits for the reply to a request on a key that `owner` holds. `Ok(None)` as with
    /// [`Context::call`].
    ///
    /// # Errors
    /// Nothing came in time. The request may have been carried out, and may still be.
    fn reply_about(
        &self,
        request: RequestId,
        owner: Address,
    ) -> impl Future<Output = Result<Option<Response>, PeerTimeout>>;

    /// Gives the machine a command and waits for its reply. `None` if there will be none: the
    /// worker is stopping, or a journal has failed.
    fn call(&self, command: Command) -> impl Future<Output = Option<Response>>;

    /// Gives the machine a command that needs no reply.
    fn tell(&self, command: Command);

    /// Has a worker of the site run a command of `primary`, and waits for its reply: for the last
    /// one, or for one before if that is reply enough. If the future is dropped, the request is
    /// cancelled. `None` if there will be no reply.
    fn ask_primary(
        &self,
        worker: Address,
        asked: ToPrimary,
    ) -> impl Future<Output = Option<solera_primary::Response>>;

    /// The workers of the site.
    fn workers(&self) -> impl Iterator<Item = Address>;

    /// The worker that holds a key, if it can be reached.
    ///
    /// # Errors
    /// It is on a node that cannot be reached.
    fn reach(&self, key: &[u8]) -> Result<Address, Unreachable>;

    /// A node of the site that cannot be reached, as people call it.
    fn unreachable_neighbour(&self) -> Option<String>;

    /// Which process runs a worker, as a number that is not used again; 0 for this one. `None` if
    /// it was never heard of.
    fn process_of(&self, worker: Address) -> Option<u64>;

    /// How many keys another worker has. `None` if it cannot be reached.
    fn count_keys(&self, worker: Address) -> impl Future<Output = Option<usize>>;

    /// What the loss of sites could still undo at a worker. `None` if it cannot be reached.
    fn at_risk(&self, worker: Address, keys: usize) -> impl Future<Output = Option<AtRisk>>;

    /// By partition of a worker, the index of the site that leads it; none of a site's if nobody
    /// does. `None` if it cannot be reached.
    fn leaders_at(&self, worker: Address) -> impl Future<Output = Option<Vec<u64>>>;

    /// The next page of a partition that a worker has; `Some(None)` while it cannot tell yet.
    /// `None` if it cannot be reached.
    fn scan(&self, worker: Address, ask: Ask) -> impl Future<Output = Option<Option<Page>>>;

    /// What the root of the site's workers knows of the sites, after it has changed what is asked
    /// for. `None` if it cannot be reached.
    fn sites(&self, change: Option<(SiteId, Change)>) -> impl Future<Output = Option<SitesReport>>;

    /// A node of a site that takes part, if this process reaches one.
    fn answering_node(&self, site: SiteId) -> Option<String>;

    /// A node that is not known to list a new site; none if all do, or it is not new.
    fn node_without(&self, site: SiteId) -> Option<String>;

    /// Whether the site has the data that it serves; one that joins gets it first.
    fn serves(&self) -> bool;

    /// Whether some commands are refused now that are not otherwise.
    fn refuses_some(&self) -> bool;

    /// Why this process takes no writes because of a journal.
    fn refuses(&self) -> Option<String>;

    /// Why this process takes no writes, as clients are told.
    fn takes_no_writes(&self) -> Option<String>;

    /// Why no other site accepts this node, if none does.
    fn refused_by_others(&self) -> Option<String>;

    /// Bytes of memory that the process uses; 0 where that is not known.
    fn memory_used(&self) -> u64;

    /// Whether it uses more than it may.
    fn is_memory_full(&self) -> bool;

    /// Whether commands are only for users who may run them.
    fn is_guarded(&self) -> bool;

    /// The users as of now.
    fn users(&self) -> Arc<Users>;

    /// Makes a connection a user, if the password is right.
    fn login(
        &self,
        identity: &Identity,
        name: &[u8],
        password: &[u8],
        from: Option<SocketAddr>,
    ) -> bool;

    /// The clients of the site in this process.
    fn clients(&self) -> Vec<Arc<Client>>;

    /// How many they are.
    fn client_count(&self) -> usize;

    /// Counts a command.
    fn count_command(&self, command: CommandId);

    /// Counts an error reply.
    fn count_error(&self);

    /// How many commands the worker has run.
    fn commands_run(&self) -> u64;

    /// Has what runs modules do a request for a session; `None` if nothing does. An answer that is
    /// dropped is told as a server that stops.
    fn run_modules(&self, caller: Lent, request: Vec<Vec<u8>>) -> Option<oneshot::Receiver<Value>>;

    /// The name of a site.
    fn site_name(&self, site: SiteId) -> &str {
        self.spec().sites.get(site.index()).map_or("?", |site| &site.name)
    }

    /// The node of a worker, as people call it.
    fn node_name(&self, worker: Address) -> String {
        let spec = self.spec();
        let node = spec.node_of(worker);
        node.map_or_else(|| self.site_name(worker.site).to_owned(), |node| spec.name_of(node))
    }
}

/// A command on one key, as it runs at once.
#[derive(Debug)]
pub struct Single<'a> {
    /// The level of the key.
    pub level: Level,
    /// The key.
    pub key: &'a [u8],
    /// What is done with it.
    pub op: &'a Op,
    /// The command that is counted.
    pub command: CommandId,
}

/// A command for `primary`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToPrimary {
    /// The command.
    pub command: solera_primary::Command,
    /// Whether it is enough for the client that an update is accepted.
    pub takes_accepted: bool,
}

/// Standings of the sites, as the root of a site's workers reports them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SitesReport {
    /// As this site knows them.
    pub members: Members,
    /// A site that has not confirmed the same.
    pub not_agreed: Option<SiteId>,
    /// Why a change that was asked for was not made.
    pub refused: Option<MemberError>,
}

/// A node that cannot be reached.
#[derive(Debug)]
pub struct Unreachable(pub String);

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TRYAGAIN {} is unreachable or overwhelmed; nothing was changed", self.0)
    }
}

/// Error of a request to a node, given by name, that did not answer in time.
#[derive(Debug)]
pub struct PeerTimeout(pub String);
