//! Error replies for errors of UniStore's machine.

use std::time::Duration;

use solera_commands::counted;
use solera_reservations::SOLD_OUT;
use solera_time::Origin;
use solera_unistore::{CommandError, StrongLimit};

use super::ClientSession;
use crate::context::Context;

impl<W: Context> ClientSession<W> {
    pub(crate) fn fail_command(&mut self, error: &CommandError) {
        let text = self.error_reply(error);
        self.fail(text);
    }

    /// Returns the error reply for an error of the machine.
    pub(crate) fn error_reply(&self, error: &CommandError) -> String {
        match error {
            CommandError::NoSuchTransaction => format!("NOTX {error}"),
            CommandError::OperationsOutstanding
            | CommandError::NoStrong
            | CommandError::NoGuard { .. }
            | CommandError::StrongGuarded
            | CommandError::OnlyCounted { .. } => format!("ERR {error}"),
            CommandError::Guarded { refusal, .. }
                if refusal.protocol == solera_reservations::PROTOCOL.number =>
            {
                let (key, reason) = (String::from_utf8_lossy(&refusal.key), &refusal.reason);
                match reason.strip_prefix(SOLD_OUT) {
                    Some(left) => format!("SOLDOUT '{key}' is sold out{left}; nothing was changed"),
                    None => format!(
                        "TRYAGAIN the bound of '{key}' does not permit the update now: {reason}; nothing was changed"
                    ),
                }
            }
            CommandError::Guarded { .. } => format!("GUARDED {error}"),
            CommandError::TooLarge | CommandError::TooManyGuards => format!("TOOLARGE {error}"),
            CommandError::StrongTooLarge(limit) => {
                let setting = match limit {
                    StrongLimit::Bytes(_) => "strong_max_bytes",
                    StrongLimit::Operations(_) => "strong_max_operations",
                };
                format!("TOOLARGE {error} ({setting} in solera.toml)")
            }
            CommandError::PartitionSlow => format!("TRYAGAIN {error}"),
            CommandError::Unconfirmed { worker } => format!(
                "UNKNOWN {} does not answer; the transaction committed, and its writes to eventual spaces on \
                 that node are done when it answers again; no barrier covers them until then",
                self.worker.node_name(*worker)
            ),
            CommandError::TooFewSites { .. } => format!("TOOFEW {error}"),
            CommandError::Aborted { .. } | CommandError::Changing { .. } => {
                format!("ABORTED {error}")
            }
            CommandError::SiteTimedOut { site } => format!(
                "UNAVAILABLE site {} does not answer, and the read needs the answers of all sites",
                self.worker.site_name(*site)
            ),
            CommandError::Unavailable { .. }
            | CommandError::NotHereYet
            | CommandError::ListsDiffer => {
                format!("UNAVAILABLE {error}")
            }
            CommandError::TimedOut { origin, behind } => self.timeout_reply(*origin, *behind),
            CommandError::Lost { site, missing } => format!(
                "LOST site {} failed or is cut off, and the last {} ms of its writes that the \
                 session or its token has seen are at no other site; go on without the token, or try \
                 again when the site is back",
                self.worker.site_name(*site),
                missing.as_millis().max(1)
            ),
        }
    }

    /// Returns the error reply to a barrier or attach that timed out. Either this site has not
    /// received some writes of `origin` yet, or other sites have not received this site's.
    fn timeout_reply(&self, origin: Origin, behind: Option<Duration>) -> String {
        let worker = &self.worker;
        let far = match behind {
            Some(behind) => format!("still {} ms behind", behind.as_millis().max(1)),
            None => "nothing is visible here yet of".to_owned(),
        };
        let (missing, advice) = match origin {
            Origin::Strong => (
                format!("{far} the strong transactions that the token has seen"),
                "too few sites may be reached, try again",
            ),
            Origin::Site(site) if site == worker.address().site => {
                let within = match behind {
                    Some(behind) => format!(", made within {} ms,", behind.as_millis().max(1)),
                    None => String::new(),
                };
                let sites = counted(worker.spec().f + 1, "site");
                (
                    format!("the last writes of this site{within} are not yet at {sites}"),
                    "others may be cut off, try again",
                )
            }
            Origin::Site(site) => {
                (format!("{far} site {}", worker.site_name(site)), "it may be cut off, try again")
            }
        };
        // Only all nodes of this site together can report how far the site is.
        match worker.unreachable_neighbour() {
            Some(node) => {
                format!("TIMEOUT {missing}; {node} cannot be reached, try again when it is back")
            }
            None => format!("TIMEOUT {missing}; {advice}"),
        }
    }
}
