//! SOLERA.LEVEL: reports the level of a key.

use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// SOLERA.LEVEL key: replies with the consistency level of the key's space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    key: Vec<u8>,
}

impl Request for Level {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Level, String> {
        Ok(Level { key: arguments.get(1).to_vec() })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let level = session.worker.spec().spaces.space_of(&self.key).level_name();
        session.out.bulk(level.as_bytes());
    }
}
