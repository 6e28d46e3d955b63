//! Commands as server-side code constructs and runs them: typed arguments and typed answers, by the
//! same rights and in the same sessions as commands of clients.

use solera_commands::{COMMANDS, CommandId, Unit};

use crate::context::Context;
use crate::session::Session;

/// A command with its arguments.
pub trait Typed {
    /// What it answers.
    type Answer;

    /// The command that the session's user must be allowed to run.
    fn command(&self) -> CommandId;

    /// The keys that the user must be allowed to use as the command does.
    fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        std::iter::empty()
    }

    /// Runs the command, which nothing refuses.
    ///
    /// # Errors
    /// The error reply.
    fn run<W: Context>(
        &self,
        session: &mut Session<W>,
    ) -> impl Future<Output = Result<Self::Answer, String>>;
}

impl<W: Context> Session<W> {
    /// Runs a command. If it fails, an open transaction has no effect, as after a client's command.
    /// Neither the command nor its error is counted: counters are about clients.
    ///
    /// The answer may tell of writes that are not durable yet: who passes it on waits for them
    /// before.
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
        self.may_use(Unit::of(described, None), command.keys())
            .map_err(|refused| refused.to_string())?;
        self.admits(described)?;
        self.mode.admits(described.id)?;
        self.note_writes(described);
        command.run(self).await
    }
}
