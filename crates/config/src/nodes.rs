//! The processes of a site, and their addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A host, given by name or address, and a port. Names are resolved when they are used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostPort {
    /// Name, or address without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostPort { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not \"host:port\", as in \"10.0.0.1:7101\"");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bare {
            Some(address) if address.parse::<std::net::Ipv6Addr>().is_ok() => address,
            Some(_) => return Err(wrong()),
            None => host,
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if host.is_empty() || (bare.is_none() && !host.chars().all(allowed)) {
            return Err(wrong());
        }
        Ok(HostPort { host: host.to_owned(), port })
    }
}

impl HostPort {
    /// Returns whether the address can belong to a single host. A name always can.
    pub(crate) fn can_be_dialed(&self) -> bool {
        // The operating system accepts short forms, such as 0, for addresses, too.
        if self.host.chars().all(|c| c == '0' || c == '.') {
            return false;
        }
        match self.host.parse::<IpAddr>().map(|address| address.to_canonical()) {
            Ok(IpAddr::V4(v4)) => !v4.is_unspecified() && !v4.is_multicast() && !v4.is_broadcast(),
            Ok(IpAddr::V6(v6)) => !v6.is_unspecified() && !v6.is_multicast(),
            Err(_) => true,
        }
    }
}

/// One process of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Address of RESP.
    pub resp: Option<HostPort>,
    /// Address of RESP over TLS. At least one of the two is set.
    pub resp_tls: Option<HostPort>,
    /// Address at which other nodes reach the node.
    pub peer: HostPort,
    /// Address of HTTP.
    pub admin: HostPort,
    /// Number of workers.
    pub workers: u8,
}
