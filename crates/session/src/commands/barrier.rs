//! SOLERA.BARRIER: waiting until what the session has seen survives the loss of f sites.

use std::time::{Duration, Instant};

use solera_resp::{Arguments, parse_integer};
use solera_unistore::{Command, Response};

use crate::context::Context;
use crate::session::{Session, Wait};

/// SOLERA.BARRIER [timeout-ms]: waits until the session's durability past is uniform (Alg. 1 l. 49).
pub(crate) async fn barrier<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
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
    let began = Instant::now();
    match session.worker.call(Command::Barrier { pasts: session.pasts, timeout }).await {
        Some(Response::Uniform) => {
            let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
            let stored = session.wait_for_primary(&session.primary, Wait::Stored, left).await;
            session.answer_ok(stored);
        }
        Some(Response::Failed(error)) => session.fail_command(&error),
        _ => session.fail_unanswered(),
    }
}
