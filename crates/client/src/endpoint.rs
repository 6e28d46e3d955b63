//! Where a site is, and how to come in.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use solera_tls::Tls;

/// A site's address by name, with whatever it takes to be let in. From text: `host:port`, an IPv6
/// address in brackets.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) login: Option<(String, String)>,
    pub(crate) tls: Option<Tls>,
    pub(crate) timeout: Option<Duration>,
}

impl Endpoint {
    /// The same, as one of the site's users.
    pub fn user(mut self, name: &str, password: &str) -> Endpoint {
        self.login = Some((name.to_owned(), password.to_owned()));
        self
    }

    /// The same, over TLS.
    pub fn tls(mut self, tls: Tls) -> Endpoint {
        self.tls = Some(tls);
        self
    }

    /// The same, where connecting and each reply may take no longer than this; the connection is
    /// given up then.
    pub fn timeout(mut self, timeout: Duration) -> Endpoint {
        self.timeout = Some(timeout);
        self
    }
}

/// Text that is no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAnEndpoint(String);

impl fmt::Display for NotAnEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is not as HOST:PORT", self.0)
    }
}

impl std::error::Error for NotAnEndpoint {}

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
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_back_and_others_refused() {
        for text in ["localhost:7101", "10.0.0.1:1", "[::1]:7101"] {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        for text in ["", "host", ":7101", "host:", "host:x", "host:70000", "::1:7101", "[]:1"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
