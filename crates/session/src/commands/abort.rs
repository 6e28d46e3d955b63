//! SOLERA.ABORT: drops the open transaction.

use solera_commands::CommandId;

use crate::context::Context;
use crate::session::Session;
use crate::typed::Typed;

/// SOLERA.ABORT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abort;

impl Typed for Abort {
    type Answer = ();

    fn command(&self) -> CommandId {
        CommandId::SoleraAbort
    }

    async fn run<W: Context>(&self, session: &mut Session<W>) -> Result<(), String> {
        session.abort_open()
    }
}

pub(crate) async fn abort<W: Context>(session: &mut Session<W>) {
    let ended = Abort.run(session).await;
    session.answer_ok(ended);
}
