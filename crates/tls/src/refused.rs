//! Reasons why a TLS connection failed.

use tokio_rustls::rustls::{CertificateError, Error, InvalidMessage};

/// Reason why TLS with a server failed, as the rest of a sentence that begins with the server.
/// [`Tls::connect`](crate::Tls::connect) returns it within an [`std::io::Error`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refused {
    reason: String,
    speaks_no_tls: bool,
}

impl Refused {
    /// Explains an error. `authorities` is the file of trusted authorities.
    pub(crate) fn new(error: &Error, host: &str, authorities: &str) -> Refused {
        let speaks_no_tls = matches!(error, Error::InvalidMessage(_));
        Refused { reason: words(error, host, authorities), speaks_no_tls }
    }

    /// Returns whether the server has answered with something other than TLS.
    pub fn speaks_no_tls(&self) -> bool {
        self.speaks_no_tls
    }
}

fn words(error: &Error, host: &str, authorities: &str) -> String {
    match error {
        Error::InvalidCertificate(error) => certificate(error, host, authorities),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not speak TLS there".to_owned()
        }
        Error::AlertReceived(alert) => {
            format!("it refuses to speak TLS with this client: {alert:?}")
        }
        other => format!("no TLS with it: {other}"),
    }
}

fn certificate(error: &CertificateError, host: &str, authorities: &str) -> String {
    match error {
        // The signature is bad if another authority with the same name, but another key, signed the
        // certificate.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            format!("its certificate is not signed by an authority in {authorities}")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet".to_owned()
        }
        CertificateError::NotValidForName => format!("its certificate is not for {host}"),
        CertificateError::NotValidForNameContext { presented, .. } => {
            let names: Vec<_> = presented.iter().map(|name| bare(name)).collect();
            format!("its certificate is not for {host}, but for {}", names.join(", "))
        }
        other => format!("its certificate cannot be trusted: {other}"),
    }
}

/// Returns a name without its kind, as in `DnsName("host")`.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, inner)| inner.strip_suffix(')'));
    inner.unwrap_or(name).trim_matches('"')
}
