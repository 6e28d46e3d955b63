//! The files that connections are protected with.

use std::path::PathBuf;

/// A file that a setting names. It is read when it is needed: one configuration serves all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Where it is. A relative path begins at the configuration's own folder.
    pub path: PathBuf,
    /// The setting, as in `tls.cert`.
    pub setting: String,
    /// Where the setting stands: file and line.
    pub at: Option<String>,
}

/// What connections are protected with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The own certificate, and those between it and the authority.
    pub cert: NamedFile,
    /// Its private key.
    pub key: NamedFile,
    /// Who signs the other side's certificates.
    pub ca: Option<NamedFile>,
}

/// TLS for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// With a `ca`, clients need certificates, too.
    pub files: TlsFiles,
    /// `up` speaks TLS for site *i*, from 1, on this port + *i*.
    pub port: Option<u16>,
    /// Whether HTTP speaks TLS, too, with the same certificate and without client certificates.
    pub admin: bool,
}
