//! The place of this process in a cluster of several nodes.

use std::sync::Arc;

use solera_machine::NodeId;

use crate::current::Current;
use crate::link::Link;
use crate::links::Running;
use crate::tls::PeerTls;

/// Which node this process is, and its links to the others.
pub(crate) struct Here {
    pub(crate) id: NodeId,
    pub(crate) links: Vec<Arc<Link>>,
    /// What new links are protected with.
    pub(crate) peer_tls: Option<Arc<Current<PeerTls>>>,
    /// Held for as long as the links run.
    _running: Running,
}

impl Here {
    pub(crate) fn new(
        id: NodeId,
        links: Vec<Arc<Link>>,
        peer_tls: Option<Arc<Current<PeerTls>>>,
        running: Running,
    ) -> Here {
        Here { id, links, peer_tls, _running: running }
    }

    /// Whether all nodes of the own site can be reached.
    pub(crate) fn is_ready(&self) -> bool {
        let mut own = self.links.iter().filter(|link| link.peer.site == self.id.site);
        own.all(|link| link.is_whole())
    }
}
