//! Batches of commands for a session that runs on another thread, and their answers.

use tokio::sync::oneshot;

use crate::commands::{
    Abort, AttachHorizon, AttachUntil, Begin, Commit, OnKey, Outcome, Speculate, Txid, Watch,
};
use crate::context::Context;
use crate::session::ClientSession;
use crate::typed::Typed;

/// Commands that a session runs one after another. An error does not stop the ones that follow.
#[derive(Debug)]
pub struct Batch {
    /// The commands.
    pub commands: Vec<Command>,
    /// Channel for the answers. They are sent once all writes that they depend on are durable.
    pub answers: oneshot::Sender<Answers>,
}

/// The answer to each command of a batch. An error if the session ended without answering; any of
/// the commands may then have been done.
pub type Answers = Result<Vec<Result<Answer, String>>, String>;

/// A command that can be sent to the thread of its session.
pub trait Sendable: Typed + Into<Command> {
    /// Returns the typed answer, or `None` if `answer` belongs to another command.
    fn answer(answer: Answer) -> Option<Self::Answer>;
}

macro_rules! commands {
    ($($command:ident),*) => {
        /// Any of the commands that can be sent to a session's thread.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each is the command of its name")]
        pub enum Command {
            $($command($command)),*
        }

        /// The answer to a [`Command`].
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each is the answer to the command of its name")]
        pub enum Answer {
            $($command(<$command as Typed>::Answer)),*
        }

        $(impl From<$command> for Command {
            fn from(command: $command) -> Command {
                Command::$command(command)
            }
        }

        impl Sendable for $command {
            fn answer(answer: Answer) -> Option<Self::Answer> {
                match answer {
                    Answer::$command(answer) => Some(answer),
                    _ => None,
                }
            }
        })*

        impl<W: Context> ClientSession<W> {
            /// Runs commands one after another.
            ///
            /// The answers may depend on writes that are not durable yet. The caller must wait for
            /// these writes before it passes the answers on.
            pub async fn execute_all(&mut self, commands: &[Command]) -> Vec<Result<Answer, String>> {
                let mut answers = Vec::with_capacity(commands.len());
                for command in commands {
                    answers.push(match command {
                        $(Command::$command(command) => {
                            self.execute(command).await.map(Answer::$command)
                        })*
                    });
                }
                answers
            }
        }
    };
}

commands!(Abort, AttachHorizon, AttachUntil, Begin, Commit, OnKey, Outcome, Speculate, Txid, Watch);
