//! The role of this process in a cluster of several nodes.

use std::sync::Arc;

use arc_swap::ArcSwap;
use solera_machine::NodeId;

use crate::link::Link;
use crate::links::Running;
use crate::refused::Refused;
use crate::tls::PeerTls;

/// The node that this process runs, and its links to the other nodes.
pub(crate) struct Here {
    pub(crate) id: NodeId,
    pub(crate) links: Vec<Arc<Link>>,
    /// TLS configuration of new links; `None` without TLS.
    pub(crate) peer_tls: Option<Arc<ArcSwap<PeerTls>>>,
    /// Handshakes and frames that the links have refused.
    pub(crate) refused: Arc<Refused>,
    /// Keeps the links running.
    _running: Running,
}

impl Here {
    pub(crate) fn new(
        id: NodeId,
        links: Vec<Arc<Link>>,
        peer_tls: Option<Arc<ArcSwap<PeerTls>>>,
        refused: Arc<Refused>,
        running: Running,
    ) -> Here {
        Here { id, links, peer_tls, refused, _running: running }
    }

    /// Returns whether all other nodes of this node's site can be reached.
    pub(crate) fn is_ready(&self) -> bool {
        let mut own = self.links.iter().filter(|link| link.peer.site == self.id.site);
        own.all(|link| link.is_whole())
    }
}
