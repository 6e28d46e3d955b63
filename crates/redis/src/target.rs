//! Addresses of servers.

use redis::{ConnectionInfo, IntoConnectionInfo};
use solera_tls::{Files, Tls};

/// A server, or some nodes of a cluster from which the client finds the others, with the
/// credentials.
#[derive(Clone, Debug)]
pub struct Target {
    pub(crate) nodes: Vec<ConnectionInfo>,
    pub(crate) cluster: bool,
    /// Settings of TLS; `None` without TLS.
    pub(crate) tls: Option<Tls>,
}

/// Error of an invalid URL. Its text does not contain the URL, which may have a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// The scheme is unknown.
    #[error(
        "the URL of a Redis server looks like redis://host:6379, with TLS like \
         rediss://host:6379, that of a cluster like redis-cluster://host:6379,host:6379"
    )]
    Scheme,
    /// The settings for TLS are invalid.
    #[error("{0}")]
    Tls(String),
    /// The rest of the URL is invalid.
    #[error("the URL cannot be read: {0}")]
    Malformed(String),
}

impl Target {
    /// Parses `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]`, or
    /// `redis-cluster://[USER[:PASSWORD]@]HOST[:PORT],…`.
    ///
    /// # Errors
    /// See [`TargetError`].
    pub fn parse(url: &str) -> Result<Target, TargetError> {
        Target::parse_with(url, None)
    }

    /// Parses the same URLs, and `rediss://…`, a server with TLS, which needs files.
    ///
    /// # Errors
    /// See [`TargetError`].
    pub fn parse_with(url: &str, files: Option<&Files>) -> Result<Target, TargetError> {
        let (scheme, rest) = url.split_once("://").ok_or(TargetError::Scheme)?;
        let wrong = |why: &str| Err(TargetError::Tls(why.to_owned()));
        let (cluster, secure) = match scheme {
            "redis" => (false, false),
            "rediss" => (false, true),
            "redis-cluster" => (true, false),
            "rediss-cluster" => {
                return wrong(
                    "TLS to a cluster of Redis is not supported: the URL must begin with redis-cluster://",
                );
            }
            _ => return Err(TargetError::Scheme),
        };
        let tls = match (secure, files) {
            (true, Some(files)) => {
                Some(files.tls().map_err(|error| TargetError::Tls(error.to_string()))?)
            }
            (true, None) => {
                return wrong(
                    "rediss:// needs a file with the authority that signs the server's certificate (`ca`)",
                );
            }
            (false, Some(_)) => {
                return wrong(
                    "a file with an authority (`ca`) is for URLs that begin with rediss://",
                );
            }
            (false, None) => None,
        };
        let (user, hosts) = match rest.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), rest),
        };
        let hosts: Vec<_> = if cluster { hosts.split(',').collect() } else { vec![hosts] };
        let node = |host: &&str| {
            check(host)?;
            let info = format!("redis://{user}{host}").into_connection_info();
            info.map_err(|error| TargetError::Malformed(error.to_string()))
        };
        let nodes = hosts.iter().map(node).collect::<Result<Vec<_>, _>>()?;
        if cluster && nodes.iter().any(|node| node.redis_settings().db() != 0) {
            return Err(TargetError::Malformed("a cluster has no numbered databases".to_owned()));
        }
        Ok(Target { nodes, cluster, tls })
    }

    /// Returns whether it is a cluster.
    pub fn is_cluster(&self) -> bool {
        self.cluster
    }

    /// Returns the address for messages.
    pub(crate) fn address(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|node| node.addr().to_string()).collect();
        nodes.join(", ")
    }

    /// Returns the addresses, as `HOST:PORT`.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.addr().to_string()).collect()
    }

    /// Returns the user and the password, if the URL has them.
    pub fn login(&self) -> (Option<String>, Option<String>) {
        let settings = self.nodes.first().map(ConnectionInfo::redis_settings);
        let text = |text: Option<&str>| text.map(str::to_owned);
        settings
            .map_or((None, None), |settings| (text(settings.username()), text(settings.password())))
    }

    /// Replaces the password in the URL.
    pub fn with_password(mut self, password: &str) -> Target {
        for node in &mut self.nodes {
            let settings = node.redis_settings().clone().set_password(password);
            *node = node.clone().set_redis_settings(settings);
        }
        self
    }
}

/// Finds the most frequent errors in `HOST[:PORT][/DATABASE]`. The error texts do not repeat any
/// part of the input: if the `@` is missing, it contains a password.
fn check(host: &str) -> Result<(), TargetError> {
    let malformed = |why: &str| Err(TargetError::Malformed(why.to_owned()));
    let (address, query) = host.split_once(['/', '?']).unwrap_or((host, ""));
    let (name, port) = match address.rsplit_once(':') {
        // The colons of an IPv6 address are within brackets.
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (address, None),
    };
    if name.is_empty() {
        return malformed("it names no host");
    }
    if port.is_some_and(|port| !port.parse().is_ok_and(|port: u16| port > 0)) {
        return malformed("a port is a number from 1 to 65535");
    }
    let database = query.split('?').next().unwrap_or_default();
    if host.contains('/') && !database.is_empty() && database.parse::<i64>().is_err() {
        return malformed("the name of a database after the / must be a number");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lead_to_servers_and_clusters() {
        let target = Target::parse("redis://ann:secret@db.example:7000/3").unwrap();
        let settings = target.nodes[0].redis_settings();
        assert_eq!(target.nodes[0].addr().to_string(), "db.example:7000");
        assert_eq!((settings.username(), settings.password()), (Some("ann"), Some("secret")));
        assert_eq!((settings.db(), target.cluster), (3, false));
        for url in
            ["redis://[::1]:7000", "redis://[::1]", "redis://h/", "redis://h:1/2?protocol=resp3"]
        {
            assert!(Target::parse(url).is_ok(), "{url}");
        }
        let target = Target::parse("redis-cluster://a:1,b:2,c").unwrap().with_password("x");
        let addresses: Vec<_> = target.nodes.iter().map(|node| node.addr().to_string()).collect();
        assert_eq!(addresses, ["a:1", "b:2", "c:6379"]);
        assert!(target.cluster);
        assert!(target.nodes.iter().all(|node| node.redis_settings().password() == Some("x")));
    }

    #[test]
    fn other_urls_are_rejected_without_their_text() {
        let refused = |url: &str| Target::parse(url).unwrap_err();
        assert_eq!(refused("127.0.0.1:6379"), TargetError::Scheme);
        assert_eq!(refused("http://secret@h"), TargetError::Scheme);
        for (url, why) in [
            ("rediss://u:secret@h", "rediss:// needs a file with the authority"),
            ("rediss-cluster://u:secret@h", "TLS to a cluster of Redis is not supported"),
        ] {
            let message = refused(url).to_string();
            assert!(message.starts_with(why) && !message.contains("secret"), "{message}");
        }
        let files = Files { authorities: "/none/such.pem".into(), own: None };
        for (url, why) in [
            ("redis://h", "a file with an authority (`ca`) is for URLs that begin with rediss://"),
            ("rediss://h", "/none/such.pem cannot be used: "),
        ] {
            let message = Target::parse_with(url, Some(&files)).unwrap_err().to_string();
            assert!(message.starts_with(why), "{message}");
        }
        let port = "a port is a number from 1 to 65535";
        for (url, why) in [
            ("redis://", "it names no host"),
            ("redis://:6379", "it names no host"),
            ("redis://u:secret@h:99999", port),
            ("redis://u:secret@h:0", port),
            ("redis://u:secret@h:", port),
            ("redis://u:secret", port),
            ("redis-cluster://a:1,b:x", port),
            ("redis-cluster://h/3", "a cluster has no numbered databases"),
            ("redis://u:secret@h/x", "the name of a database after the / must be a number"),
            ("redis-cluster://a,,b", "it names no host"),
        ] {
            let message = refused(url).to_string();
            assert_eq!(message, format!("the URL cannot be read: {why}"), "{url}");
            assert!(!message.contains("secret"), "{message}");
        }
    }
}
