//! One run of a cluster, or of a part of it.

use std::sync::Arc;

use solera_time::SiteId;
use tokio_rustls::TlsAcceptor;

use crate::clock::Clock;
use crate::current::Current;
use crate::log::Log;
use crate::modules::Modules;

/// What distinguishes this run from others of the same cluster.
#[derive(Clone)]
pub(crate) struct Run {
    /// Identifies the cluster and its data in tokens.
    pub(crate) cluster: u64,
    /// Requests and transactions are numbered from here: late answers to those of an earlier run
    /// must not be taken for answers to others.
    pub(crate) first_number: u64,
    pub(crate) log: Log,
    /// What runs modules, if they can be used.
    pub(crate) modules: Option<Arc<dyn Modules>>,
    /// What clients' TLS needs, where it is spoken.
    pub(crate) tls: Option<Arc<Current<TlsAcceptor>>>,
    /// The same of HTTP.
    pub(crate) admin_tls: Option<Arc<Current<TlsAcceptor>>>,
    /// The site that this process belongs to, if it is not the whole cluster.
    pub(crate) site: Option<SiteId>,
    /// Which life of its site this process belongs to; nothing is that of its data.
    pub(crate) life: Option<u32>,
    /// What its workers read the time from.
    pub(crate) clock: Clock,
}
