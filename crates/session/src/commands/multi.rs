//! MULTI: queues the commands that follow until EXEC.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// MULTI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Multi;

impl Request for Multi {
    fn parse(_: &Arguments<'_>, _: &ClusterSpec) -> Result<Multi, String> {
        Ok(Multi)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let begun = session.mode.begin_queue();
        session.answer_ok(begun);
    }
}
