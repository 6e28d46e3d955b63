//! WATCH: makes the next transaction depend on keys.

use solera_commands::CommandId;
use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;
use crate::typed::Typed;

/// WATCH key ….
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Keys to watch.
    pub keys: Vec<Vec<u8>>,
}

impl Typed for Watch {
    type Answer = ();

    fn command(&self) -> CommandId {
        CommandId::Watch
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.keys.iter().map(Vec::as_slice)
    }

    async fn run<W: Context>(&self, session: &mut ClientSession<W>) -> Result<(), String> {
        session.watch(self.keys()).await
    }
}

impl Request for Watch {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Watch, String> {
        Ok(Watch { keys: arguments.from(1).map(<[u8]>::to_vec).collect() })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let watched = self.run(session).await;
        session.answer_ok(watched);
    }
}
