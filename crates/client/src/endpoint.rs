//! Address of a site and credentials for it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use solera_tls::Tls;

/// A site's address by host name, with credentials, TLS settings and a timeout. Parses from
/// `host:port`; an IPv6 address is written in brackets.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) login: Option<(String, String)>,
    pub(crate) tls: Option<Tls>,
    pub(crate) timeout: Option<Duration>,
}

impl Endpoint {
    /// Returns the endpoint with a user.
    pub fn user(mut self, name: &str, password: &str) -> Endpoint {
        self.login = Some((name.to_owned(), password.to_owned()));
        self
    }

    /// Returns the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the endpoint with TLS.
    pub fn tls(mut self, tls: Tls) -> Endpoint {
        self.tls = Some(tls);
        self
    }

    /// Returns the endpoint with a time limit for connecting and for each reply. The connection is
    /// given up when the limit is exceeded.
    pub fn timeout(mut self, timeout: Duration) -> Endpoint {
        self.timeout = Some(timeout);
        self
    }
}

/// Error for text that is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' does not have the form HOST:PORT")]
pub struct NotAnEndpoint(String);

impl FromStr for Endpoint {
    type Err = NotAnEndpoint;

    fn from_str(text: &str) -> Result<Endpoint, NotAnEndpoint> {
        let found = text.rsplit_once(':').and_then(|(host, port)| {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let host = bare.or((!host.contains(':')).then_some(host))?;
            Some((host, port.parse().ok()?)).filter(|(host, _)| !host.is_empty())
        });
        let (host, port) = found.ok_or_else(|| NotAnEndpoint(text.to_owned()))?;
        Ok(Endpoint { host: host.to_owned(), port, login: None, tls: None, timeout: None })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Endpoint {
    /// Formats the endpoint without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_other_texts_rejected() {
        for text in ["localhost:7101", "10.0.0.1:1", "[::1]:7101"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in ["", "host", ":7101", "host:", "host:x", "host:70000", "::1:7101", "[]:1"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
