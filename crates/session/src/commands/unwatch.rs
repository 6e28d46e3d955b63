//! UNWATCH: clears the watched keys.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// UNWATCH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unwatch;

impl Request for Unwatch {
    fn parse(_: &Arguments<'_>, _: &ClusterSpec) -> Result<Unwatch, String> {
        Ok(Unwatch)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        session.unwatch();
        session.out.simple("OK");
    }
}
