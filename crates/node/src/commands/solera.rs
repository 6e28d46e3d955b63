//! Solera's own commands: tokens, barriers, sites and spaces.

use std::time::Duration;

use solera_resp::{Arguments, parse_integer};
use solera_unistore::{Command, Response};

use crate::session::Session;
use crate::token::Token;

/// How long SOLERA.ATTACH waits for what is still under way.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);

/// SOLERA.TOKEN: the session's causal past, to be attached at any site.
pub(crate) fn token(session: &mut Session) {
    if session.in_transaction() {
        session.fail("ERR take the token after the transaction, which it cannot contain yet");
        return;
    }
    let token = Token { cluster: session.worker.cluster, past: session.past };
    session.out.bulk(token.encode().as_bytes());
}

/// SOLERA.ATTACH token: waits until this site holds the token's past (UniStore Alg. 1 l. 51).
pub(crate) async fn attach(session: &mut Session, arguments: &Arguments<'_>) {
    if session.in_transaction() {
        session.fail("ERR SOLERA.ATTACH is not allowed inside a transaction");
        return;
    }
    let spec = &session.worker.spec;
    let token = match Token::decode(arguments.get(1), session.worker.cluster, spec.sites.len()) {
        Ok(token) => token,
        Err(error) => {
            session.fail(format!("BADTOKEN {error}"));
            return;
        }
    };
    let command = Command::Attach { past: token.past, timeout: Some(ATTACH_TIMEOUT) };
    match session.worker.call(command).await {
        Some(Response::Attached) => {
            session.past.join(&token.past);
            session.out.simple("OK");
        }
        Some(Response::Failed(error)) => session.fail_command(&error),
        _ => {}
    }
}

/// SOLERA.BARRIER [timeout-ms]: waits until the session's past is durable (Alg. 1 l. 49).
pub(crate) async fn barrier(session: &mut Session, arguments: &Arguments<'_>) {
    let timeout = match arguments.len() {
        1 => None,
        2 => match parse_integer(arguments.get(1)).and_then(|ms| u64::try_from(ms).ok()) {
            Some(0) => None,
            Some(ms) => Some(Duration::from_millis(ms)),
            None => return session.fail("ERR timeout is not an integer or out of range"),
        },
        _ => return session.fail("ERR wrong number of arguments for 'solera.barrier' command"),
    };
    if session.in_transaction() {
        session.fail("ERR SOLERA.BARRIER is not allowed inside a transaction");
        return;
    }
    match session.worker.call(Command::Barrier { past: session.past, timeout }).await {
        Some(Response::Uniform) => session.out.simple("OK"),
        Some(Response::Failed(error)) => session.fail_command(&error),
        _ => {}
    }
}

/// SOLERA.SITE: the name of the site.
pub(crate) fn site(session: &mut Session) {
    let name = session.worker.site_name(session.worker.address.site).to_owned();
    session.out.bulk(name.as_bytes());
}

/// SOLERA.SPACES: name, prefix and level of each space.
pub(crate) fn spaces(session: &mut Session) {
    let spec = session.worker.spec.clone();
    session.out.array(spec.spaces.iter().len());
    for space in spec.spaces.iter() {
        session.out.map(3);
        let level = space.level.name();
        for (key, value) in [("name", &*space.name), ("prefix", &space.prefix), ("level", level)] {
            session.out.bulk(key.as_bytes());
            session.out.bulk(value.as_bytes());
        }
    }
}

/// SOLERA.LEVEL key: what operations on a key promise.
pub(crate) fn level(session: &mut Session, arguments: &Arguments<'_>) {
    let level = session.worker.spec.spaces.level_of(arguments.get(1)).name();
    session.out.bulk(level.as_bytes());
}
