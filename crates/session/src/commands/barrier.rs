//! SOLERA.BARRIER: waits until what the session has seen survives the loss of f sites.

use std::time::{Duration, Instant};

use solera_config::ClusterSpec;
use solera_resp::{Arguments, parse_integer};
use solera_unistore::{Command, Response};

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// SOLERA.BARRIER [timeout-ms]: waits until the session's durability past is uniform (Alg. 1 l.
/// 49).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Barrier {
    /// Maximal time to wait; `None` for no limit.
    timeout: Option<Duration>,
}

impl Request for Barrier {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Barrier, String> {
        let timeout = match arguments.len() {
            1 => None,
            2 => match parse_integer(arguments.get(1)).and_then(|ms| u64::try_from(ms).ok()) {
                Some(0) => None,
                Some(ms) => Some(Duration::from_millis(ms)),
                None => return Err("ERR timeout is not an integer or out of range".to_owned()),
            },
            _ => {
                return Err("ERR wrong number of arguments for 'solera.barrier' command".to_owned());
            }
        };
        Ok(Barrier { timeout })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        if session.in_transaction() {
            session.fail("ERR SOLERA.BARRIER is not allowed inside a transaction");
            return;
        }
        let (began, timeout) = (Instant::now(), self.timeout);
        match session.worker.call(Command::Barrier { pasts: session.pasts, timeout }).await {
            Some(Response::Uniform) => {
                let stored = session.wait_beside_unistore(began, timeout).await;
                session.answer_ok(stored);
            }
            Some(Response::Failed(error)) => session.fail_command(&error),
            _ => session.fail_unanswered(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn no_timeout_is_for_ever() {
        let barrier = |timeout| Ok(Barrier { timeout });
        assert_eq!(parse("SOLERA.BARRIER"), barrier(None));
        assert_eq!(parse("SOLERA.BARRIER 0"), barrier(None));
        assert_eq!(parse("SOLERA.BARRIER 20"), barrier(Some(Duration::from_millis(20))));
        let number = "ERR timeout is not an integer or out of range";
        rejects::<Barrier>(&[
            ("SOLERA.BARRIER x", number),
            ("SOLERA.BARRIER -1", number),
            ("SOLERA.BARRIER 1 2", "ERR wrong number of arguments for 'solera.barrier' command"),
        ]);
    }
}
