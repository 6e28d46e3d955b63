//! RESET: returns the session to the state of a new connection.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// RESET.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reset;

impl Request for Reset {
    fn parse(_: &Arguments<'_>, _: &ClusterSpec) -> Result<Reset, String> {
        Ok(Reset)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        session.reset();
        session.out.simple("RESET");
    }
}
