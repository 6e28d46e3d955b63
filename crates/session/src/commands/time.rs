//! TIME: replies with the wall-clock time.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// TIME: replies with the seconds and microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time;

impl Request for Time {
    fn parse(_: &Arguments<'_>, _: &ClusterSpec) -> Result<Time, String> {
        Ok(Time)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let micros = session.worker.now().physical.0;
        session.out.array(2);
        for part in [micros / 1_000_000, micros % 1_000_000] {
            session.out.bulk(part.to_string().as_bytes());
        }
    }
}
