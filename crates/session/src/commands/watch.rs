//! WATCH: has the next transaction depend on keys.

use solera_commands::CommandId;
use solera_resp::Arguments;

use crate::context::Context;
use crate::session::Session;
use crate::typed::Typed;

/// WATCH key ….
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// The keys.
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

    async fn run<W: Context>(&self, session: &mut Session<W>) -> Result<(), String> {
        session.watch(self.keys()).await
    }
}

pub(crate) async fn watch<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let watched = session.watch(arguments.from(1)).await;
    session.answer_ok(watched);
}
