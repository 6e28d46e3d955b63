//! WAIT: as many other sites hold what the session has seen.

use std::time::{Duration, Instant};

use solera_resp::{Arguments, parse_integer};
use solera_unistore::{Command, Response};

use crate::context::Context;
use crate::session::{Session, Wait};

/// WAIT sites timeout: as Redis does with replicas, the number of other sites that surely hold what the
/// session has seen and written: f once that is uniform, and 0 if it is not in time or never can be.
pub(crate) async fn wait<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let Some(wanted) = parse_integer(arguments.get(1)) else {
        return session.fail("ERR value is not an integer or out of range");
    };
    if wanted < 0 {
        return session.fail("ERR value is out of range, must be positive");
    }
    let timeout = match parse_integer(arguments.get(2)) {
        Some(ms) if ms < 0 => return session.fail("ERR timeout is negative"),
        Some(0) => None,
        Some(ms) => Some(Duration::from_millis(ms as u64)),
        None => return session.fail("ERR timeout is not an integer or out of range"),
    };
    if session.in_transaction() {
        return session.fail("ERR WAIT is not allowed inside a transaction");
    }
    if wanted == 0 {
        return session.out.integer(0);
    }
    let began = Instant::now();
    match session.worker.call(Command::Barrier { pasts: session.pasts, timeout }).await {
        Some(Response::Uniform) => {
            let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
            let stored = session.wait_for_primary(&session.primary, Wait::Stored, left).await;
            let sites = if stored.is_ok() { session.worker.spec().f } else { 0 };
            session.out.integer(sites as i64);
        }
        Some(Response::Failed(_)) => session.out.integer(0),
        _ => session.fail_unanswered(),
    }
}
