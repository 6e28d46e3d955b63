//! Names and outcomes of transactions of level `pcpsi`, for clients that have not received the
//! reply.

use std::fmt;
use std::str::FromStr;

use solera_machine::Address;
use solera_occult::{Command, Fate, Response};
use solera_time::SiteId;

use super::ClientSession;
use super::mode::OccultTransaction;
use crate::context::Context;

/// Name of a transaction of level `pcpsi`: the worker on which it began, the start of the worker's
/// process, and the transaction's number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PcpsiName {
    pub(crate) worker: Address,
    incarnation: u64,
    number: u64,
}

impl fmt::Display for PcpsiName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PcpsiName { worker: Address { site, worker }, incarnation, number } = self;
        write!(f, "p{}.{worker}.{incarnation}.{number}", site.0)
    }
}

impl FromStr for PcpsiName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<PcpsiName, &'static str> {
        const WRONG: &str =
            "a transaction of level pcpsi is named by p and four numbers, as in p0.1.3.42";
        let numbers = text.strip_prefix('p').ok_or(WRONG)?.split('.');
        let numbers: Vec<u64> =
            numbers.map(str::parse).collect::<Result<_, _>>().map_err(|_| WRONG)?;
        let [site, worker, incarnation, number] = numbers[..] else { return Err(WRONG) };
        let (Ok(site), Ok(worker)) = (u8::try_from(site), u8::try_from(worker)) else {
            return Err(WRONG);
        };
        let worker = Address { site: SiteId(site), worker };
        Ok(PcpsiName { worker, incarnation, number })
    }
}

impl<W: Context> ClientSession<W> {
    /// Returns the name of a transaction that has begun here.
    pub(crate) fn name_of(&self, OccultTransaction(number): OccultTransaction) -> PcpsiName {
        let incarnation = self.worker.with_occult(|occult| occult.config().incarnation);
        let worker = self.worker.address();
        PcpsiName { worker, incarnation: incarnation.unwrap_or_default(), number }
    }

    /// Returns whether a transaction has committed; `None` while it is undecided.
    ///
    /// # Errors
    /// The error reply, if the outcome is not known any more, or the worker does not answer.
    pub(crate) async fn pcpsi_outcome(&self, name: PcpsiName) -> Result<Option<bool>, String> {
        let PcpsiName { worker, incarnation, number } = name;
        let node = self.worker.node_name(worker);
        match self.worker.ask_occult(worker, Command::Outcome { incarnation, number }).await {
            Some(Response::Outcome(Fate::Committed)) => Ok(Some(true)),
            Some(Response::Outcome(Fate::Aborted)) => Ok(Some(false)),
            Some(Response::Outcome(Fate::Undecided)) => Ok(None),
            Some(Response::Outcome(Fate::Restarted)) => Err(format!(
                "UNKNOWN {node} was restarted since transaction {name} began, and has lost its outcome; read what it \
                 has written"
            )),
            Some(Response::Outcome(Fate::Forgotten)) => Err(format!(
                "UNKNOWN {node} does not know transaction {name}: it never began, 65536 others have ended since, or its home was taken by force; \
                 read what it has written"
            )),
            _ => {
                Err(format!("TRYAGAIN {node}, on which transaction {name} began, gives no answer"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let worker = Address { site: SiteId(2), worker: 1 };
        let name = PcpsiName { worker, incarnation: 7, number: 42 };
        assert_eq!(name.to_string(), "p2.1.7.42");
        assert_eq!("p2.1.7.42".parse(), Ok(name));
        for wrong in ["2.1.7.42", "p2.1.7", "p256.1.7.42", "p2.1.7.x", "p2.1.7.4.2", "p", ""] {
            assert!(wrong.parse::<PcpsiName>().is_err(), "{wrong}");
        }
    }
}
