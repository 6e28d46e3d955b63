//! Parameters of one run of a cluster, or of a part of it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use solera_time::SiteId;
use tokio_rustls::TlsAcceptor;

use crate::clock::Clock;
use crate::modules::Modules;

/// Parameters that distinguish this run from other runs of the same cluster.
#[derive(Clone)]
pub(crate) struct Run {
    /// Identifies the cluster and its data in tokens.
    pub(crate) cluster: u64,
    /// First number of requests and transactions. Late answers to requests of an earlier run must
    /// not be taken for answers to requests of this one.
    pub(crate) first_number: u64,
    /// Executor of modules; `None` if modules are disabled.
    pub(crate) modules: Option<Arc<dyn Modules>>,
    /// TLS configuration of client connections; `None` without TLS.
    pub(crate) tls: Option<Arc<ArcSwap<TlsAcceptor>>>,
    /// TLS configuration of HTTP; `None` without TLS.
    pub(crate) admin_tls: Option<Arc<ArcSwap<TlsAcceptor>>>,
    /// Site that this process belongs to; `None` if it runs the whole cluster.
    pub(crate) site: Option<SiteId>,
    /// Generation of the site that this process belongs to; `None` takes the generation from the
    /// data.
    pub(crate) generation: Option<u32>,
    /// Clock of the workers.
    pub(crate) clock: Clock,
}
