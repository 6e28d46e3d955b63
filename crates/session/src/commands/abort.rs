//! SOLERA.ABORT: drops the open transaction.

use solera_commands::CommandId;
use solera_resp::Arguments;

use crate::context::Context;
use crate::session::Session;
use crate::typed::Typed;

/// `SOLERA.ABORT [CERTIFY]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abort {
    /// Whether what the strong transaction has read is certified before it is dropped.
    pub certify: bool,
}

impl Abort {
    fn parse(arguments: &Arguments<'_>) -> Result<Abort, String> {
        match (arguments.len(), arguments.from(1).next()) {
            (1, _) => Ok(Abort { certify: false }),
            (2, Some(word)) if word.eq_ignore_ascii_case(b"certify") => Ok(Abort { certify: true }),
            _ => Err("ERR syntax error: SOLERA.ABORT or SOLERA.ABORT CERTIFY".to_owned()),
        }
    }
}

impl Typed for Abort {
    type Answer = ();

    fn command(&self) -> CommandId {
        CommandId::SoleraAbort
    }

    async fn run<W: Context>(&self, session: &mut Session<W>) -> Result<(), String> {
        match self.certify {
            true => session.certify_open().await,
            false => session.abort_open(),
        }
    }
}

pub(crate) async fn abort<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let ended = match Abort::parse(arguments) {
        Ok(abort) => abort.run(session).await,
        Err(error) => Err(error),
    };
    session.answer_ok(ended);
}
