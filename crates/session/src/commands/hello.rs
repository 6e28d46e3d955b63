//! HELLO: sets the protocol, and authenticates and names the client.

use solera_config::ClusterSpec;
use solera_resp::{Arguments, Protocol, parse_integer};

use super::auth::authenticate;
use super::client::{BAD_NAME, word};
use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// Version of Redis that HELLO and INFO report, for clients that depend on it.
pub(crate) const VERSION: &str = "7.0.15";

const UNKNOWN: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
     AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
     protocol version at the same time";

/// HELLO [version [AUTH user password] [SETNAME name] …].
#[derive(Default, PartialEq, Eq)]
pub(crate) struct Hello {
    /// New version of RESP; `None` leaves it unchanged.
    protocol: Option<Protocol>,
    /// Users and their passwords, in the order in which the connection authenticates.
    logins: Vec<(Vec<u8>, Vec<u8>)>,
    name: Option<String>,
}

impl Request for Hello {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Hello, String> {
        let mut hello = Hello::default();
        if arguments.len() > 1 {
            hello.protocol = Some(match parse_integer(arguments.get(1)) {
                Some(2) => Protocol::Resp2,
                Some(3) => Protocol::Resp3,
                Some(_) => return Err("NOPROTO unsupported protocol version".to_owned()),
                None => {
                    return Err("ERR Protocol version is not an integer or out of range".to_owned());
                }
            });
        }
        let mut at = 2;
        while at < arguments.len() {
            let option = arguments.get(at);
            if option.eq_ignore_ascii_case(b"setname") && at + 1 < arguments.len() {
                hello.name = Some(word(arguments.get(at + 1)).ok_or(BAD_NAME)?);
                at += 2;
            } else if option.eq_ignore_ascii_case(b"auth") && at + 2 < arguments.len() {
                let (user, password) = (arguments.get(at + 1), arguments.get(at + 2));
                hello.logins.push((user.to_vec(), password.to_vec()));
                at += 3;
            } else {
                let option = String::from_utf8_lossy(option);
                return Err(format!("ERR Syntax error in HELLO option '{option}'"));
            }
        }
        Ok(hello)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        for (user, password) in &self.logins {
            if let Err(error) = authenticate(session, user, password) {
                return session.fail(error);
            }
        }
        if !session.identity.is_known() {
            return session.fail(UNKNOWN);
        }
        if let Some(name) = &self.name {
            session.name.clone_from(name);
        }
        if let Some(protocol) = self.protocol {
            session.out.protocol = protocol;
        }
        introduce(session);
    }
}

/// Appends the description of the server.
fn introduce<W: Context>(session: &mut ClientSession<W>) {
    let protocol = session.out.protocol;
    let client = session.client.id;
    let worker = session.worker.clone();
    let site = worker.site_name(worker.address().site);
    let out = &mut session.out;
    out.map(10);
    for (key, value) in [("server", "redis"), ("version", VERSION)] {
        out.bulk(key.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"proto");
    out.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    out.bulk(b"id");
    out.integer(client as i64);
    for (key, value) in [
        ("mode", "standalone"),
        ("role", "master"),
        ("solera_version", env!("CARGO_PKG_VERSION")),
        ("solera_cluster", &worker.spec().name),
        ("solera_site", site),
    ] {
        out.bulk(key.as_bytes());
        out.bulk(value.as_bytes());
    }
    out.bulk(b"modules");
    out.array(0);
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn a_protocol_and_options_are_parsed() {
        assert!(parse("HELLO") == Ok(Hello::default()));
        let hello = Hello {
            protocol: Some(Protocol::Resp3),
            logins: vec![(b"bob".to_vec(), b"pw".to_vec())],
            name: Some("a".to_owned()),
        };
        assert!(parse("HELLO 3 auth bob pw SetName a") == Ok(hello));
    }

    #[test]
    fn bad_arguments_are_rejected() {
        rejects::<Hello>(&[
            ("HELLO 4", "NOPROTO unsupported protocol version"),
            ("HELLO x", "ERR Protocol version is not an integer or out of range"),
            ("HELLO 3 FOO", "ERR Syntax error in HELLO option 'FOO'"),
            ("HELLO 3 AUTH bob", "ERR Syntax error in HELLO option 'AUTH'"),
            ("HELLO 3 SETNAME", "ERR Syntax error in HELLO option 'SETNAME'"),
            ("HELLO 3 SETNAME \"a b\"", BAD_NAME),
        ]);
    }
}
