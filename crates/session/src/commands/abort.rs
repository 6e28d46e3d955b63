//! SOLERA.ABORT: aborts the open transaction.

use solera_commands::CommandId;
use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;
use crate::typed::Typed;

const SYNTAX: &str = "ERR syntax error: SOLERA.ABORT or SOLERA.ABORT CERTIFY; the transaction, if one was open, \
                      is aborted";

/// `SOLERA.ABORT [CERTIFY]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abort {
    /// Whether the reads of the strong transaction are certified before it is aborted.
    pub certify: bool,
}

impl Typed for Abort {
    type Answer = ();

    fn command(&self) -> CommandId {
        CommandId::SoleraAbort
    }

    async fn run<W: Context>(&self, session: &mut ClientSession<W>) -> Result<(), String> {
        match self.certify {
            true => session.certify_open().await,
            false => session.abort_open(),
        }
    }
}

impl Request for Abort {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Abort, String> {
        match (arguments.len(), arguments.from(1).next()) {
            (1, _) => Ok(Abort { certify: false }),
            (2, Some(word)) if word.eq_ignore_ascii_case(b"certify") => Ok(Abort { certify: true }),
            // Any error of SOLERA.ABORT ends the transaction.
            _ => Err(SYNTAX.to_owned()),
        }
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let ended = self.run(session).await;
        session.answer_ok(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn only_certify_may_follow() {
        assert_eq!(parse("SOLERA.ABORT"), Ok(Abort { certify: false }));
        assert_eq!(parse("solera.abort Certify"), Ok(Abort { certify: true }));
        rejects::<Abort>(&[("SOLERA.ABORT x", SYNTAX), ("SOLERA.ABORT CERTIFY x", SYNTAX)]);
    }
}
