//! Commands on their way to the thread of a session, with the way back of their answers.

use tokio::sync::oneshot;

use crate::commands::{
    Abort, AttachHorizon, AttachUntil, Begin, Commit, OnKey, Outcome, Txid, Watch,
};
use crate::context::Context;
use crate::session::Session;
use crate::typed::Typed;

/// Commands that a session runs one after another, whatever the ones before them came to.
#[derive(Debug)]
pub struct Batch {
    /// The commands.
    pub commands: Vec<Command>,
    /// Where the answers go, once all that they tell of is durable.
    pub answers: oneshot::Sender<Answers>,
}

/// The answer to each command of a batch. An error if the session ends without telling: any of the
/// commands may have been done.
pub type Answers = Result<Vec<Result<Answer, String>>, String>;

/// A command that can be sent to the thread of its session.
pub trait Sendable: Typed + Into<Command> {
    /// Its answer, if this is one.
    fn answer(answer: Answer) -> Option<Self::Answer>;
}

macro_rules! commands {
    ($($command:ident),*) => {
        /// Any of these commands.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "each is the command of its name")]
        pub enum Command {
            $($command($command)),*
        }

        /// What a command answers.
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

        impl<W: Context> Session<W> {
            /// Runs commands one after another.
            ///
            /// The answers may tell of writes that are not durable yet: who passes them on waits
            /// for these before.
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

commands!(Abort, AttachHorizon, AttachUntil, Begin, Commit, OnKey, Outcome, Txid, Watch);
