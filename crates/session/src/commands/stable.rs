//! SOLERA.STABLE: waits for the final result of an operation of the speculative space.

use std::time::Duration;

use solera_config::ClusterSpec;
use solera_creek::OperationId;
use solera_resp::{Arguments, parse_integer};

use super::help;
use super::request::Request;
use crate::context::Context;
use crate::returned::write_returned;
use crate::session::ClientSession;
use crate::ticket::Ticket;

/// Timeout unless another one is given.
const TIMEOUT: Duration = Duration::from_secs(10);

const HELP: &[&str] = &[
    "SOLERA.STABLE <ticket> [<timeout-ms>]",
    "    Return the final result of the operation of a speculative space that the ticket",
    "    names, at any site. SOLERA.CALL STRONG and TRACK return tickets. Wait for",
    "    10 seconds, or as long as given; 0 is no limit.",
    "SOLERA.STABLE HELP",
    "    Print this help.",
];

/// SOLERA.STABLE ticket [timeout-ms]: replies with the final result. Any site answers. A timeout of
/// 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stable {
    Help,
    Await { id: OperationId, timeout: Option<Duration> },
}

impl Request for Stable {
    fn admit<W: Context>(session: &mut ClientSession<W>) -> Result<(), String> {
        match session.in_transaction() {
            true => Err("ERR SOLERA.STABLE is not allowed inside a transaction".to_owned()),
            false => Ok(()),
        }
    }

    fn parse(arguments: &Arguments<'_>, spec: &ClusterSpec) -> Result<Stable, String> {
        if help::is_asked(arguments) {
            return Ok(Stable::Help);
        }
        let timeout = match arguments.len() {
            2 => Some(TIMEOUT),
            3 => match parse_integer(arguments.get(2)).and_then(|ms| u64::try_from(ms).ok()) {
                Some(0) => None,
                Some(ms) => Some(Duration::from_millis(ms)),
                None => return Err("ERR timeout is not an integer or out of range".to_owned()),
            },
            _ => return Err("ERR wrong number of arguments for 'solera.stable' command".to_owned()),
        };
        Ok(Stable::Await { id: Ticket::parse(arguments.get(1), spec.sites.len())?, timeout })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let Stable::Await { id, timeout } = self else { return help::answer(session, HELP) };
        if let Err(error) = session.has_speculative_space() {
            return session.fail(error);
        }
        match session.stable_result(id, timeout).await {
            Ok(returned) => write_returned(&mut session.out, &returned),
            Err(error) => session.fail(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use solera_time::SiteId;

    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn a_timeout_may_be_given() {
        let id = OperationId { site: SiteId(1), run: 3, event: 9 };
        let stable = |timeout| Ok(Stable::Await { id, timeout });
        assert_eq!(parse("SOLERA.STABLE Help"), Ok(Stable::Help));
        assert_eq!(parse("SOLERA.STABLE 1-3-9"), stable(Some(TIMEOUT)));
        assert_eq!(parse("SOLERA.STABLE 1-3-9 20"), stable(Some(Duration::from_millis(20))));
        assert_eq!(parse("SOLERA.STABLE 1-3-9 0"), stable(None));
        let number = "ERR timeout is not an integer or out of range";
        let ticket = "NOTICKET no operation has the ticket 2-3-9: the cluster has no site with the number 2, from 0 on";
        rejects::<Stable>(&[
            ("SOLERA.STABLE 1-3-9 x", number),
            ("SOLERA.STABLE 1-3-9 -1", number),
            ("SOLERA.STABLE 2-3-9", ticket),
            (
                "SOLERA.STABLE 1-3-9 1 2",
                "ERR wrong number of arguments for 'solera.stable' command",
            ),
        ]);
    }
}
