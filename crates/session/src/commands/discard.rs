//! DISCARD: drops the queued commands and clears the watched keys.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// DISCARD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Discard;

impl Request for Discard {
    fn parse(_: &Arguments<'_>, _: &ClusterSpec) -> Result<Discard, String> {
        Ok(Discard)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        match session.mode.end_queue() {
            Some(_) => {
                session.unwatch();
                session.out.simple("OK");
            }
            None => session.fail("ERR DISCARD without MULTI"),
        }
    }
}
