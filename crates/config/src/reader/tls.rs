//! `[tls]` and `[peer_tls]`: certificates and keys of connections.

use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::Reader;
use crate::error::ConfigError;
use crate::tls::{ClientTls, NamedFile, TlsFiles};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClientTable {
    cert: Spanned<String>,
    key: Spanned<String>,
    client_ca: Option<Spanned<String>>,
    port: Option<Spanned<u16>>,
    #[serde(default)]
    admin: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerTable {
    cert: Spanned<String>,
    key: Spanned<String>,
    ca: Spanned<String>,
}

impl Reader<'_> {
    pub(super) fn client_tls(&self, table: &ClientTable) -> Result<ClientTls, ConfigError> {
        if let Some(port) = table.port.as_ref().filter(|port| *port.get_ref() == 0) {
            return self.invalid(Some(port.span().start), "there is no port 0".to_owned());
        }
        let files = TlsFiles {
            cert: self.named("tls.cert", &table.cert)?,
            key: self.named("tls.key", &table.key)?,
            ca: table.client_ca.as_ref().map(|ca| self.named("tls.client_ca", ca)).transpose()?,
        };
        let port = table.port.as_ref().map(|port| *port.get_ref());
        Ok(ClientTls { files, port, admin: table.admin })
    }

    pub(super) fn peer_tls(&self, table: &PeerTable) -> Result<TlsFiles, ConfigError> {
        Ok(TlsFiles {
            cert: self.named("peer_tls.cert", &table.cert)?,
            key: self.named("peer_tls.key", &table.key)?,
            ca: Some(self.named("peer_tls.ca", &table.ca)?),
        })
    }

    pub(super) fn named(
        &self,
        setting: &str,
        text: &Spanned<String>,
    ) -> Result<NamedFile, ConfigError> {
        let place = Some(text.span().start);
        if text.get_ref().is_empty() {
            return self.invalid(place, format!("{setting} names no file"));
        }
        let folder = self.file.as_deref().map(Path::new).and_then(Path::parent);
        Ok(NamedFile {
            path: folder.unwrap_or(Path::new("")).join(text.get_ref()),
            setting: setting.to_owned(),
            at: self.at(place),
        })
    }
}
