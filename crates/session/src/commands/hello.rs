//! HELLO: which protocol the client speaks, and who it is.

use solera_resp::{Arguments, Protocol, parse_integer};

use super::auth::authenticate;
use crate::context::Context;
use crate::session::Session;

/// The version of Redis whose behaviour clients may expect.
pub(crate) const VERSION: &str = "7.0.15";

pub(crate) fn hello<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let mut protocol = session.out.protocol;
    let (mut name, mut logins) = (None, Vec::new());
    if arguments.len() > 1 {
        protocol = match parse_integer(arguments.get(1)) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return session.fail("NOPROTO unsupported protocol version"),
            None => {
                return session.fail("ERR Protocol version is not an integer or out of range");
            }
        };
    }
    let mut at = 2;
    while at < arguments.len() {
        let option = arguments.get(at);
        if option.eq_ignore_ascii_case(b"setname") && at + 1 < arguments.len() {
            let Some(given) = super::client::word(arguments.get(at + 1)) else {
                return session.fail(super::client::BAD_NAME);
            };
            name = Some(given);
            at += 2;
        } else if option.eq_ignore_ascii_case(b"auth") && at + 2 < arguments.len() {
            logins.push((arguments.get(at + 1), arguments.get(at + 2)));
            at += 3;
        } else {
            let option = String::from_utf8_lossy(option).into_owned();
            return session.fail(format!("ERR Syntax error in HELLO option '{option}'"));
        }
    }
    // Nothing is done before all options are known to be right, as in Redis.
    for (user, password) in logins {
        if !authenticate(session, user, password) {
            return;
        }
    }
    if !session.identity.is_known() {
        return session.fail(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
             AUTH <user> <pass> option can be used to authenticate the client and select the RESP \
             protocol version at the same time",
        );
    }
    if let Some(name) = name {
        session.name = name;
    }
    session.out.protocol = protocol;
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
