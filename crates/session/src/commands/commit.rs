//! SOLERA.COMMIT: commits the open transaction.

use solera_commands::CommandId;
use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;
use crate::typed::Typed;

/// SOLERA.COMMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit;

impl Typed for Commit {
    type Answer = ();

    fn command(&self) -> CommandId {
        CommandId::SoleraCommit
    }

    async fn run<W: Context>(&self, session: &mut ClientSession<W>) -> Result<(), String> {
        session.commit_open().await
    }
}

impl Request for Commit {
    fn parse(_: &Arguments<'_>, _: &ClusterSpec) -> Result<Commit, String> {
        Ok(Commit)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let ended = self.run(session).await;
        session.answer_ok(ended);
    }
}
