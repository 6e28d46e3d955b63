//! The server: workers, sessions and links, and the clusters that consist of them.
//!
//! Each worker is a thread that owns its partitions exclusively and shares nothing with other
//! workers except mailboxes. A connection belongs to one worker. A command on a key of that worker
//! is a direct call of the protocol's machine; a command on a key of another worker costs one
//! message in each direction.

mod admin;
mod attempts;
mod clients;
mod clock;
mod cluster;
mod connection_limiter;
mod control;
mod data_dir;
mod descriptors;
mod drain;
mod fuzzing;
mod gauge;
mod handshake;
mod here;
mod http;
mod http_auth;
mod joining;
mod link;
mod links;
mod membership;
mod memory;
mod metrics;
mod modules;
mod network;
mod node;
mod peers;
mod progress;
mod questions;
mod random;
mod recovering;
mod refused;
mod reload;
mod run;
mod status;
mod storage;
mod tls;
mod utc;
mod worker;

pub use admin::{AdminError, AdminListener, NO_FAULTS};
pub use clock::Clock;
pub use cluster::{Cluster, Fault, FaultError, SiteDown, SiteInfo, SiteRef, StartError};
pub use data_dir::{disown, examine};
pub use descriptors::raise_descriptor_limit;
pub use drain::Unfinished;
#[doc(hidden)]
pub use fuzzing::read_as_peer;
pub use http_auth::REALM;
pub use metrics::{METRICS, Metric};
pub use modules::{Caller, Incomplete, Local, Modules, Wanted};
pub use node::{Node, ServeError};
pub use reload::ReloadError;
pub use solera_session::{Token, TokenError, hash_password};
pub use status::{
    ClusterStatus, LinkStatus, MemoryStatus, NodeStatus, OccultStatus, PeerStatus, PrimaryStatus,
    ReachedSite, SiteStatus, SpeculativeJoining, SpeculativeStatus,
};
pub use storage::{Found, StorageError};
pub use utc::utc;
