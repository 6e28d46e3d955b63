//! WAIT: waits until other sites store what the session has seen.

use std::time::{Duration, Instant};

use solera_config::ClusterSpec;
use solera_resp::{Arguments, parse_integer};
use solera_unistore::{Command, Response};

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// WAIT sites timeout: replies with the number of other sites that certainly store what the session
/// has seen and written, as Redis does for replicas. The number is f once that is uniform. It is 0
/// if that does not happen in time or is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Whether the client waits for at least one other site.
    wants_sites: bool,
    /// Maximal time to wait; `None` for no limit.
    timeout: Option<Duration>,
}

impl Request for Wait {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Wait, String> {
        let wants_sites = match parse_integer(arguments.get(1)) {
            Some(..0) => return Err("ERR value is out of range, must be positive".to_owned()),
            Some(sites) => sites > 0,
            None => return Err("ERR value is not an integer or out of range".to_owned()),
        };
        let timeout = match parse_integer(arguments.get(2)) {
            Some(..0) => return Err("ERR timeout is negative".to_owned()),
            Some(0) => None,
            Some(ms) => Some(Duration::from_millis(ms as u64)),
            None => return Err("ERR timeout is not an integer or out of range".to_owned()),
        };
        Ok(Wait { wants_sites, timeout })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        if session.in_transaction() {
            return session.fail("ERR WAIT is not allowed inside a transaction");
        }
        if !self.wants_sites {
            return session.out.integer(0);
        }
        let (began, timeout) = (Instant::now(), self.timeout);
        match session.worker.call(Command::Barrier { pasts: session.pasts, timeout }).await {
            Some(Response::Uniform) => {
                let stored = session.wait_beside_unistore(began, timeout).await;
                let sites = if stored.is_ok() { session.worker.spec().f } else { 0 };
                session.out.integer(sites as i64);
            }
            Some(Response::Failed(_)) => session.out.integer(0),
            _ => session.fail_unanswered(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn sites_and_a_time_are_parsed() {
        let wait = |wants_sites, ms: Option<u64>| {
            Ok(Wait { wants_sites, timeout: ms.map(Duration::from_millis) })
        };
        assert_eq!(parse("WAIT 0 0"), wait(false, None));
        assert_eq!(parse("WAIT 2 50"), wait(true, Some(50)));
        rejects::<Wait>(&[
            ("WAIT x 0", "ERR value is not an integer or out of range"),
            ("WAIT -1 0", "ERR value is out of range, must be positive"),
            ("WAIT 1 -1", "ERR timeout is negative"),
            ("WAIT 1 x", "ERR timeout is not an integer or out of range"),
        ]);
    }
}
