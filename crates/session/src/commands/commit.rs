//! SOLERA.COMMIT: commits the open transaction.

use solera_commands::CommandId;

use crate::context::Context;
use crate::session::Session;
use crate::typed::Typed;

/// SOLERA.COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit;

impl Typed for Commit {
    type Answer = ();

    fn command(&self) -> CommandId {
        CommandId::SoleraCommit
    }

    async fn run<W: Context>(&self, session: &mut Session<W>) -> Result<(), String> {
        session.commit_open().await
    }
}

pub(crate) async fn commit<W: Context>(session: &mut Session<W>) {
    let ended = Commit.run(session).await;
    session.answer_ok(ended);
}
