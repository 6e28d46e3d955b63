//! TLS: reading certificates and keys, and explaining mismatches.

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;

use solera_config::{ConfigError, NamedFile, TlsFiles};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, InvalidMessage, RootCertStore,
    ServerConfig, version,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::utc::utc;

const VALID_SETTINGS: &str = "the provider has what these versions of TLS need";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn invalid<T>(file: &NamedFile, reason: impl fmt::Display) -> Result<T, ConfigError> {
    let NamedFile { path, setting, at } = file;
    let reason = format!("{} ({setting}) {reason}", path.display());
    Err(ConfigError::Invalid { at: at.clone(), reason })
}

/// Returns the server's TLS configuration for client connections.
///
/// # Errors
/// A file cannot be read, has other contents, does not match the others, or is out of date.
pub(crate) fn for_clients(files: &TlsFiles) -> Result<TlsAcceptor, ConfigError> {
    let own = Own::read(files)?;
    own.check_dates(&files.cert)?;
    let builder = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect(VALID_SETTINGS);
    let builder = match &files.ca {
        None => builder.with_no_client_auth(),
        Some(ca) => builder.with_client_cert_verifier(client_verifier(ca)?),
    };
    let config = builder.with_single_cert(own.chain, own.key);
    let config = config.or_else(|error| mismatch(files, &error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Returns the server's TLS configuration for HTTP. Its clients present no certificates, because
/// probes have none.
///
/// # Errors
/// As [`for_clients`].
pub(crate) fn for_admin(files: &TlsFiles) -> Result<TlsAcceptor, ConfigError> {
    for_clients(&TlsFiles { ca: None, ..files.clone() })
}

/// TLS configuration of a node's links.
pub(crate) struct PeerTls {
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) connector: TlsConnector,
    cert: String,
    ca: String,
}

impl PeerTls {
    /// Reads the configuration of node `name`, which the other nodes reach at `host`.
    ///
    /// # Errors
    /// A file cannot be read, has other contents or does not match the others; the certificate is
    /// out of date, or the other nodes would reject it.
    pub(crate) fn load(files: &TlsFiles, name: &str, host: &str) -> Result<PeerTls, ConfigError> {
        let own = Own::read(files)?;
        own.check_dates(&files.cert)?;
        let Some(ca) = &files.ca else {
            return invalid(&files.cert, "has no effect without peer_tls.ca");
        };
        let (servers, clients) = (server_verifier(ca)?, client_verifier(ca)?);
        let tls = PeerTls::assemble(files, ca, own, &servers, &clients)?;
        let own = Own::read(files)?;
        let Ok(server_name) = ServerName::try_from(host.to_owned()) else {
            return invalid(&files.cert, format_args!("cannot be for the host '{host}' of {name}"));
        };
        let now = UnixTime::now();
        let (leaf, rest) =
            own.chain.split_first().expect("a chain that was read has a certificate");
        let called = servers.verify_server_cert(leaf, rest, &server_name, &[], now);
        let calling = clients.verify_client_cert(leaf, rest, now);
        match called.map(|_| ()).and(calling.map(|_| ())) {
            Ok(()) => Ok(tls),
            Err(Error::InvalidCertificate(error)) => {
                let problem = tls.problem(&error);
                invalid(&files.cert, format_args!("{problem}: other nodes would refuse {name}"))
            }
            Err(error) => invalid(&files.cert, error),
        }
    }

    fn assemble(
        files: &TlsFiles,
        ca: &NamedFile,
        own: Own,
        servers: &Arc<WebPkiServerVerifier>,
        clients: &Arc<dyn ClientCertVerifier>,
    ) -> Result<PeerTls, ConfigError> {
        let server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])
            .expect(VALID_SETTINGS)
            .with_client_cert_verifier(clients.clone())
            .with_single_cert(own.chain.clone(), own.key.clone_key());
        let server = server.or_else(|error| mismatch(files, &error))?;
        let client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])
            .expect(VALID_SETTINGS)
            .with_webpki_verifier(servers.clone())
            .with_client_auth_cert(own.chain, own.key);
        let client = client.or_else(|error| mismatch(files, &error))?;
        Ok(PeerTls {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: TlsConnector::from(Arc::new(client)),
            cert: files.cert.path.display().to_string(),
            ca: ca.path.display().to_string(),
        })
    }

    /// Checks that a caller's verified certificate is for this host.
    ///
    /// # Errors
    /// Description of the mismatch.
    pub(crate) fn check_host(
        &self,
        certificate: &CertificateDer<'_>,
        host: &str,
    ) -> Result<(), String> {
        let name = ServerName::try_from(host).map_err(|_| format!("'{host}' is no host"))?;
        let verify = |certificate: &CertificateDer<'_>| {
            let parsed = ParsedCertificate::try_from(certificate)?;
            tokio_rustls::rustls::client::verify_server_name(&parsed, &name)
        };
        verify(certificate).map_err(|error| match error {
            Error::InvalidCertificate(error) => self.problem(&error),
            error => error.to_string(),
        })
    }

    /// Explains why a connection with `whom` failed, if TLS is the reason.
    pub(crate) fn explain(&self, error: &std::io::Error, whom: &str) -> Option<String> {
        let error = error.get_ref()?.downcast_ref::<Error>()?;
        let (cert, ca) = (&self.cert, &self.ca);
        Some(match error {
            Error::InvalidCertificate(error) => {
                format!("the certificate of {whom} {}", self.problem(error))
            }
            Error::NoCertificatesPresented => format!("{whom} shows no certificate"),
            Error::AlertReceived(AlertDescription::UnknownCA | AlertDescription::DecryptError) => {
                format!(
                    "{whom} does not know the authority that signed the certificate of this node \
                 ({cert}); compare peer_tls.ca of both, here {ca}"
                )
            }
            Error::AlertReceived(AlertDescription::CertificateExpired) => {
                format!("the certificate of this node ({cert}) has expired, according to {whom}")
            }
            Error::AlertReceived(
                alert @ (AlertDescription::BadCertificate
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::AccessDenied),
            ) => format!("{whom} refuses the certificate of this node ({cert}): {alert:?}"),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => format!(
                "{whom} speaks without TLS, and this node only with it; give both [peer_tls]"
            ),
            error => format!("no TLS with {whom}: {error}"),
        })
    }

    fn problem(&self, error: &CertificateError) -> String {
        problem(error, &self.ca)
    }
}

/// Describes the problem of a certificate, as the rest of a sentence that begins with the
/// certificate.
fn problem(error: &CertificateError, ca: &str) -> String {
    match error {
        CertificateError::Expired => "has expired".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("has expired on {}", utc(not_after.as_secs().saturating_mul(1000)))
        }
        CertificateError::NotValidYet => "is not valid yet".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("is not valid before {}", utc(not_before.as_secs().saturating_mul(1000)))
        }
        // The signature is bad if another authority with the same name, but another key, signed the
        // certificate.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            format!("is not signed by an authority in {ca}")
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let presented: Vec<String> = presented.iter().map(|name| plain(name)).collect();
            format!("is for {}, not for {}", presented.join(", "), expected.to_str())
        }
        CertificateError::NotValidForName => "is for another host".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not made for this use; between nodes it needs serverAuth and clientAuth, or no \
             extended key usage"
                .to_owned()
        }
        other => format!("cannot be used: {other}"),
    }
}

/// Turns `DnsName("eu-1")` into `eu-1`.
fn plain(name: &str) -> String {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.map_or(name, |inner| inner.trim_matches('"')).to_owned()
}

/// A certificate with its chain, and its key.
struct Own {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Own {
    fn read(files: &TlsFiles) -> Result<Own, ConfigError> {
        let chain = certificates(&files.cert)?;
        let key = PrivateKeyDer::from_pem_slice(&bytes(&files.key)?);
        match key {
            Ok(key) => Ok(Own { chain, key }),
            Err(PemError::NoItemsFound) => invalid(&files.key, "holds no private key in PEM"),
            Err(error) => invalid(&files.key, format_args!("is damaged: {error}")),
        }
    }

    /// Checks that the certificate is valid now. Its signature is not checked.
    fn check_dates(&self, file: &NamedFile) -> Result<(), ConfigError> {
        let (leaf, rest) =
            self.chain.split_first().expect("a chain that was read has a certificate");
        let mut roots = RootCertStore::empty();
        if let Err(error) = roots.add(leaf.clone()) {
            return invalid(file, format_args!("cannot be used: {error}"));
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider());
        let verifier = verifier.build().expect("there is a root");
        let anybody = ServerName::try_from("localhost").expect("it is a name");
        // The dates are checked before everything else.
        match verifier.verify_server_cert(leaf, rest, &anybody, &[], UnixTime::now()) {
            Err(Error::InvalidCertificate(
                error @ (CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
                | CertificateError::BadEncoding),
            )) => invalid(file, problem(&error, "")),
            _ => Ok(()),
        }
    }
}

fn bytes(file: &NamedFile) -> Result<Vec<u8>, ConfigError> {
    std::fs::read(&file.path).or_else(|error| match error.kind() {
        ErrorKind::NotFound => invalid(file, "does not exist"),
        _ => invalid(file, format_args!("cannot be read: {error}")),
    })
}

fn certificates(file: &NamedFile) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let bytes = bytes(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match found {
        Ok(found) if found.is_empty() => invalid(file, "holds no certificate in PEM"),
        Ok(found) => Ok(found),
        Err(error) => invalid(file, format_args!("is damaged: {error}")),
    }
}

fn roots(file: &NamedFile) -> Result<Arc<RootCertStore>, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        if let Err(error) = roots.add(certificate) {
            return invalid(file, format_args!("cannot be used: {error}"));
        }
    }
    Ok(Arc::new(roots))
}

fn client_verifier(ca: &NamedFile) -> Result<Arc<dyn ClientCertVerifier>, ConfigError> {
    let verifier = WebPkiClientVerifier::builder_with_provider(roots(ca)?, provider());
    verifier.build().or_else(|error| invalid(ca, format_args!("cannot be used: {error}")))
}

fn server_verifier(ca: &NamedFile) -> Result<Arc<WebPkiServerVerifier>, ConfigError> {
    let verifier = WebPkiServerVerifier::builder_with_provider(roots(ca)?, provider());
    verifier.build().or_else(|error| invalid(ca, format_args!("cannot be used: {error}")))
}

fn mismatch<T>(files: &TlsFiles, error: &Error) -> Result<T, ConfigError> {
    match error {
        Error::InconsistentKeys(_) => {
            let cert = files.cert.path.display();
            invalid(&files.key, format_args!("is not the key of the certificate in {cert}"))
        }
        error => invalid(&files.key, format_args!("cannot be used: {error}")),
    }
}

/// Explains why a client's TLS handshake failed, as the rest of a sentence.
pub(crate) fn client_problem(error: &std::io::Error) -> String {
    match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::NoCertificatesPresented) => {
            "it shows no certificate, which tls.client_ca asks for".to_owned()
        }
        Some(Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        )) => {
            "its certificate is not made for this use; a client's needs clientAuth, or no extended \
               key usage"
                .to_owned()
        }
        Some(Error::InvalidCertificate(error)) => {
            format!("its certificate {}", problem(error, "tls.client_ca"))
        }
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "it speaks without TLS".to_owned()
        }
        _ if error.kind() == ErrorKind::UnexpectedEof => "it closed the connection".to_owned(),
        _ => error.to_string(),
    }
}
