//! Tickets, which are the textual names of operations of the speculative space, and the error
//! replies about operations without a result.

use std::fmt;

use solera_creek::{Divergence, OperationId};
use solera_time::SiteId;

use crate::context::Context;

/// An operation's name, as clients see it: the number of its site from 0, the run of the site, and
/// the number of the operation within the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(pub(crate) OperationId);

impl Ticket {
    /// Reads a ticket in a cluster with this number of sites.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) fn parse(text: &[u8], sites: usize) -> Result<OperationId, String> {
        let refused = || {
            let text = String::from_utf8_lossy(text);
            format!("ERR '{text}' is not a ticket; SOLERA.CALL STRONG returns one, such as 0-1-17")
        };
        let numbers = std::str::from_utf8(text).map_err(|_| refused())?;
        let mut numbers = numbers.split('-').map(|number| match number.bytes().all(is_digit) {
            true => number.parse::<u64>().ok(),
            false => None,
        });
        let (Some(Some(site)), Some(Some(run)), Some(Some(event)), None) =
            (numbers.next(), numbers.next(), numbers.next(), numbers.next())
        else {
            return Err(refused());
        };
        if run == 0 || event == 0 {
            return Err(refused());
        }
        match u8::try_from(site).ok().filter(|site| usize::from(*site) < sites) {
            Some(site) => Ok(OperationId { site: SiteId(site), run, event }),
            None => Err(format!(
                "NOTICKET no operation has the ticket {site}-{run}-{event}: the cluster has no site with the number \
                 {site}, from 0 on"
            )),
        }
    }
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

/// Returns the error reply about an operation whose result is no longer kept.
pub(crate) fn forgotten(id: OperationId) -> String {
    format!("ERR the operation {} is final, and its result is no longer kept", Ticket(id))
}

/// Returns the error reply about a ticket that its site has never given.
pub(crate) fn unknown(id: OperationId, site: &str) -> String {
    let ticket = Ticket(id);
    format!("NOTICKET no operation has the ticket {ticket}: site {site} has never given it")
}

/// Returns the error reply about an operation that is lost with its site.
pub(crate) fn lost(id: OperationId, site: &str) -> String {
    format!(
        "LOST the operation {} was invoked at site {site}, which was removed, and no other site has it, or all that it \
         depends on; it will not be executed",
        Ticket(id)
    )
}

/// Returns the error reply of a site whose results differ from those of other sites.
pub(crate) fn diverged<W: Context>(worker: &W, divergence: &Divergence) -> String {
    let space = worker.spec().spaces.speculative();
    let others: Vec<&str> = divergence.sites.iter().map(|it| worker.site_name(*it)).collect();
    format!(
        "DIVERGED site {} gives no results of space '{}', because they differ from those of {} after operation {}; a \
         command that was under way may have been done; use another site",
        worker.site_name(worker.address().site),
        space.map_or("", |space| &space.name),
        others.join(", "),
        divergence.after
    )
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OperationId { site, run, event } = self.0;
        write!(f, "{}-{run}-{event}", site.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_read_back() {
        let id = OperationId { site: SiteId(2), run: 7, event: u64::MAX };
        let text = Ticket(id).to_string();
        assert_eq!(text, "2-7-18446744073709551615");
        assert_eq!(Ticket::parse(text.as_bytes(), 3), Ok(id));
        for wrong in ["", "2", "2-7", "2-7-1-1", "3-0-1", "0-0-1", "0-1-0", "+0-1-1", "0-1-x"] {
            let refused = Ticket::parse(wrong.as_bytes(), 3).unwrap_err();
            assert!(refused.starts_with(&format!("ERR '{wrong}' is not a ticket;")), "{refused}");
        }
        for site in ["3", "256"] {
            let refused = Ticket::parse(format!("{site}-7-1").as_bytes(), 3).unwrap_err();
            assert!(
                refused.starts_with(&format!("NOTICKET no operation has the ticket {site}-7-1"))
            );
        }
        assert!(Ticket::parse(b"0-1-18446744073709551616", 3).is_err());
        assert!(Ticket::parse(b"\xff", 3).is_err());
    }
}
