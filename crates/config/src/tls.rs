//! Certificates and keys of connections.

use std::path::PathBuf;

/// A file that a setting names. It is read only by the node that needs it, because one
/// configuration serves all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Path. A relative path starts at the configuration's folder.
    pub path: PathBuf,
    /// Name of the setting, such as `tls.cert`.
    pub setting: String,
    /// File and line of the setting.
    pub at: Option<String>,
}

/// Certificates and keys for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Own certificate, and the intermediate certificates up to the authority.
    pub cert: NamedFile,
    /// Private key of the certificate.
    pub key: NamedFile,
    /// Authorities that sign the other side's certificates.
    pub ca: Option<NamedFile>,
}

/// TLS for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    /// Certificate and key. With a `ca`, clients need certificates, too.
    pub files: TlsFiles,
    /// Base port for `up`, which uses TLS for site *i*, from 1, on this port + *i*.
    pub port: Option<u16>,
    /// Whether HTTP uses TLS, too, with the same certificate and without client certificates.
    pub admin: bool,
}
