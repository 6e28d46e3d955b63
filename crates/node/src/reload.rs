//! Changing the settings of a running cluster, completely or not at all.

use std::sync::Arc;

use solera_config::{ClusterSpec, ConfigError};
use solera_time::SiteId;

use crate::cluster::{Cluster, admin_tls};
use crate::control::Control;
use crate::tls::{PeerTls, for_clients};

/// Reason why the settings are unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// A certificate cannot be used.
    #[error(transparent)]
    Tls(ConfigError),
    /// Without users, every client would have all rights. A half-written file must not cause that.
    #[error("without any [[user]], every client would have all rights; to permit that, restart")]
    WouldOpen,
}

impl Cluster {
    /// Applies settings, which must come from [`ClusterSpec::reload`], and reads certificates
    /// again. Returns descriptions of the changes.
    ///
    /// Connections of removed or disabled users are closed, and so are unauthenticated ones that
    /// now need a password. New certificates apply to new connections.
    ///
    /// # Errors
    /// In this case, nothing is changed.
    pub fn reload(&self, mut spec: ClusterSpec) -> Result<Vec<String>, ReloadError> {
        let old = self.network.settings();
        if !spec.users.are_configured() && old.users.are_configured() {
            return Err(ReloadError::WouldOpen);
        }
        let tls = self.tls.as_ref().zip(spec.tls.as_ref());
        let tls = tls.map(|(current, tls)| for_clients(&tls.files).map(|new| (current, new)));
        let tls = tls.transpose().map_err(ReloadError::Tls)?;
        let admin_tls = admin_tls(&spec).map_err(ReloadError::Tls)?;
        let here = self.here.as_ref();
        let peer_tls = here.and_then(|here| Some((here, here.peer_tls.as_ref()?)));
        let peer_tls = peer_tls.zip(spec.peer_tls.as_ref()).and_then(|((here, current), files)| {
            let host = &spec.node(here.id)?.peer.host;
            Some(PeerTls::load(files, &spec.name_of(here.id), host).map(|new| (current, new)))
        });
        let peer_tls = peer_tls.transpose().map_err(ReloadError::Tls)?;
        self.needs.limit_connections(&mut spec);
        let mut changes = old.changes_to(&spec);
        if let Some((current, new)) = tls {
            current.store(Arc::new(new));
            changes.push("certificates for clients were read".to_owned());
        }
        if let Some((current, new)) = self.admin_tls.as_ref().zip(admin_tls) {
            current.store(Arc::new(new));
            changes.push("the certificate for HTTP was read".to_owned());
        }
        if let Some((current, new)) = peer_tls {
            current.store(Arc::new(new));
            changes.push("certificates for nodes were read".to_owned());
        }
        self.network.change_settings(spec);
        let settings = self.network.settings();
        for site in SiteId::all(self.spec.sites.len()) {
            for worker in self.network.workers_here(site) {
                self.network.control(worker, Control::Configure(settings.clone()));
            }
        }
        Ok(changes)
    }
}
