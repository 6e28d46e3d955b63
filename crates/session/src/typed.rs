//! Typed commands and answers for server-side code. They run in the same sessions and with the same
//! rights as commands of clients.

use solera_commands::{COMMANDS, CommandId, Unit};

use crate::context::Context;
use crate::session::ClientSession;

/// A command with its arguments.
pub trait Typed {
    /// Type of the answer.
    type Answer;

    /// Returns the command that the session's user must be allowed to run.
    fn command(&self) -> CommandId;

    /// Returns the keys that the user must be allowed to use in the way that the command does.
    fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        std::iter::empty()
    }

    /// Runs the command, after all checks have passed.
    ///
    /// # Errors
    /// The error reply.
    fn run<W: Context>(
        &self,
        session: &mut ClientSession<W>,
    ) -> impl Future<Output = Result<Self::Answer, String>>;
}

impl<W: Context> ClientSession<W> {
    /// Runs a command. If it fails, an open transaction has no effect, as after a client's command.
    /// Neither the command nor its error is counted, because the counters cover clients only.
    ///
    /// The answer may depend on writes that are not durable yet. The caller must wait for these
    /// writes before it passes the answer on.
    ///
    /// # Errors
    /// The error reply, without the hyphen before it.
    pub async fn execute<C: Typed>(&mut self, command: &C) -> Result<C::Answer, String> {
        self.now = self.worker.now();
        let answer = self.execute_if_permitted(command).await;
        if let Err(error) = &answer {
            self.fail_transaction(Some(command.command()), error.clone());
        }
        answer
    }

    async fn execute_if_permitted<C: Typed>(&mut self, command: &C) -> Result<C::Answer, String> {
        let described = &COMMANDS[command.command() as usize];
        self.last_command = described.name;
        self.client.begin_command(described.id);
        self.may_use(Unit::of(described, None), command.keys())
            .map_err(|refused| refused.to_string())?;
        self.admits(described)?;
        self.mode.admits(described.id)?;
        self.note_writes(described);
        command.run(self).await
    }
}
