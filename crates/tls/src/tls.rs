//! TLS configuration of a client.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
use tokio_rustls::rustls::{client::WantsClientCert, crypto::WebPkiSupportedAlgorithms};

use crate::lenient::Lenient;
use crate::refused::Refused;

/// Files for TLS with a server. All are PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// Certificates of trusted authorities.
    pub authorities: PathBuf,
    /// Certificate to present and its key, where the server requires one.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// TLS configuration of a client, for versions 1.2 and 1.3.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
    /// Name of the file with the trusted authorities.
    authorities: Arc<str>,
}

/// Error of files that TLS cannot use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

fn unusable(file: &Path) -> impl Fn(&dyn fmt::Display) -> TlsError {
    move |reason| TlsError(format!("{} cannot be used: {reason}", file.display()))
}

impl Files {
    /// Trusts servers whose certificate an authority has signed for the host at which they are
    /// reached.
    ///
    /// # Errors
    /// A file cannot be read, or has other contents.
    pub fn tls(&self) -> Result<Tls, TlsError> {
        self.read(|builder, roots| builder.with_root_certificates(roots))
    }

    /// Trusts servers whose certificate an authority has signed for any host.
    ///
    /// # Errors
    /// As [`Files::tls`].
    pub fn tls_for_any_host(&self) -> Result<Tls, TlsError> {
        self.read(|builder, roots| leniently(builder, Some(roots)))
    }

    fn read(
        &self,
        trusting: impl FnOnce(Builder<WantsVerifier>, RootCertStore) -> Builder<WantsClientCert>,
    ) -> Result<Tls, TlsError> {
        let authorities = &self.authorities;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authorities)? {
            roots.add(certificate).map_err(|error| unusable(authorities)(&error))?;
        }
        let builder = trusting(builder(), roots);
        let config = match &self.own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let private = PrivateKeyDer::from_pem_file(key);
                let private = private.map_err(|error| unusable(key)(&error))?;
                builder
                    .with_client_auth_cert(certificates(certificate)?, private)
                    .map_err(|error| unusable(certificate)(&error))?
            }
        };
        Ok(Tls::of(config, &authorities.display().to_string()))
    }
}

impl Tls {
    /// Trusts servers whose certificate an authority in the file has signed; presents the
    /// certificate `own` with its key, if given. All files are PEM.
    ///
    /// # Errors
    /// A file cannot be read, or has other contents.
    pub fn new(authority: &Path, own: Option<(&Path, &Path)>) -> Result<Tls, TlsError> {
        let own = own.map(|(certificate, key)| (certificate.to_owned(), key.to_owned()));
        Files { authorities: authority.to_owned(), own }.tls()
    }

    /// Trusts every server. This protects against eavesdropping, but not against an attacker
    /// between client and server.
    pub fn unverified() -> Tls {
        Tls::of(leniently(builder(), None).with_no_client_auth(), "none")
    }

    fn of(config: ClientConfig, authorities: &str) -> Tls {
        Tls { connector: TlsConnector::from(Arc::new(config)), authorities: authorities.into() }
    }

    /// Performs the TLS handshake over a stream that leads to the server `host`.
    ///
    /// # Errors
    /// The stream breaks, or the server is not trusted; the latter error contains a [`Refused`].
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> std::io::Result<TlsStream<S>> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| std::io::Error::other(format!("'{host}': {error}")))?;
        self.connector.connect(name, stream).await.map_err(|error| {
            match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(reason) => {
                    let refused = Refused::new(reason, host, &self.authorities);
                    std::io::Error::new(error.kind(), refused)
                }
                None => error,
            }
        })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration contains a key, so it is not printed.
        f.debug_struct("Tls").field("authorities", &self.authorities).finish_non_exhaustive()
    }
}

type Builder<State> = ConfigBuilder<ClientConfig, State>;

fn builder() -> Builder<WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has what these versions of TLS need")
}

fn leniently(
    builder: Builder<WantsVerifier>,
    roots: Option<RootCertStore>,
) -> Builder<WantsClientCert> {
    let algorithms: WebPkiSupportedAlgorithms =
        ring::default_provider().signature_verification_algorithms;
    let verifier = Arc::new(Lenient { roots, algorithms });
    builder.dangerous().with_custom_certificate_verifier(verifier)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).map_err(|error| unusable(file)(&error))?.collect();
    let found = found.map_err(|error| unusable(file)(&error))?;
    match found.is_empty() {
        true => Err(unusable(file)(&"it holds no certificate")),
        false => Ok(found),
    }
}
