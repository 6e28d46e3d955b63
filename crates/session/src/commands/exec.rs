//! EXEC: runs the queued commands as one transaction.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// EXEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exec;

impl Request for Exec {
    fn parse(_: &Arguments<'_>, _: &ClusterSpec) -> Result<Exec, String> {
        Ok(Exec)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        session.exec().await;
    }
}
