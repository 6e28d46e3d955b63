//! One operation on a key, typed, for server-side code.

use solera_commands::CommandId;
use solera_data::{Op, Outcome};

use crate::context::Context;
use crate::plan::{self, Plan};
use crate::session::{ClientSession, Stopped};
use crate::typed::Typed;

/// An operation on a key, within the open transaction or as a transaction of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct OnKey {
    key: Vec<u8>,
    op: Op,
    command: CommandId,
}

impl OnKey {
    /// Creates the command. Returns `None` for operations that no command of clients performs.
    pub fn new(key: impl Into<Vec<u8>>, op: Op) -> Option<OnKey> {
        let command = command_of(&op)?;
        Some(OnKey { key: key.into(), op, command })
    }
}

/// Returns the command that performs an operation. The right to run it is the right to do the
/// operation.
fn command_of(op: &Op) -> Option<CommandId> {
    Some(match op {
        Op::Get => CommandId::Get,
        Op::Set(_) => CommandId::Set,
        Op::SetNew(_) => CommandId::Setnx,
        Op::Delete => CommandId::Del,
        Op::Exists => CommandId::Exists,
        Op::Type => CommandId::Type,
        Op::IncrBy(_) => CommandId::Incrby,
        Op::SetAdd(_) => CommandId::Sadd,
        Op::SetRemove(_) => CommandId::Srem,
        Op::SetMembers => CommandId::Smembers,
        Op::SetContains(_) => CommandId::Sismember,
        Op::SetLen => CommandId::Scard,
        Op::HashSet(_) => CommandId::Hset,
        Op::HashGet(_) => CommandId::Hget,
        Op::HashGetMany(_) => CommandId::Hmget,
        Op::HashGetAll => CommandId::Hgetall,
        Op::HashNewest(_) => CommandId::SoleraNewest,
        Op::HashDelete(_) => CommandId::Hdel,
        Op::HashIncrBy(..) => CommandId::Hincrby,
        Op::Digest => return None,
    })
}

impl Typed for OnKey {
    type Answer = Outcome;

    fn command(&self) -> CommandId {
        self.command
    }

    fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        std::iter::once(self.key.as_slice())
    }

    async fn run<W: Context>(&self, session: &mut ClientSession<W>) -> Result<Outcome, String> {
        let plan = Plan::single(self.command, &self.key, self.op.clone());
        let mut results = session.run_plan(&plan).await.map_err(Stopped::into_error)?;
        let result = results.pop().expect("one operation has one result");
        result.map_err(|error| plan::error_reply(&error))
    }
}
