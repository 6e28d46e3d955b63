//! TLS on the client's side.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// What a client needs to speak TLS. Versions 1.2 and 1.3.
#[derive(Clone)]
pub struct Tls {
    connector: TlsConnector,
}

/// Files that TLS cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

fn unusable(file: &Path) -> impl Fn(&dyn fmt::Display) -> TlsError {
    move |reason| TlsError(format!("{} cannot be used: {reason}", file.display()))
}

impl Tls {
    /// Trusts servers whose certificate an authority in the file has signed; shows the certificate
    /// `own` with its key, if there is one. All files are PEM.
    ///
    /// # Errors
    /// A file cannot be read, or does not hold what it should.
    pub fn new(authority: &Path, own: Option<(&Path, &Path)>) -> Result<Tls, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authority)? {
            roots.add(certificate).map_err(|error| unusable(authority)(&error))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has what these versions of TLS need")
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let private = PrivateKeyDer::from_pem_file(key);
                let private = private.map_err(|error| unusable(key)(&error))?;
                builder
                    .with_client_auth_cert(certificates(certificate)?, private)
                    .map_err(|error| unusable(certificate)(&error))?
            }
        };
        Ok(Tls { connector: TlsConnector::from(Arc::new(config)) })
    }

    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| std::io::Error::other(format!("'{host}': {error}")))?;
        self.connector.connect(name, stream).await
    }
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
