//! Commands on their way to the thread of a session, with the way back of their answers.

use tokio::sync::oneshot;

use crate::commands::{
    Abort, Attach, AttachHorizon, AttachUntil, Begin, Commit, OnKey, Outcome, TakeToken, Txid,
    Watch,
};
use crate::context::Context;
use crate::session::Session;
use crate::typed::Typed;

/// Where the answer to a command goes.
pub type Answering<C> = oneshot::Sender<Result<<C as Typed>::Answer, String>>;

/// A command that can be sent to the thread of its session.
pub trait Sendable: Typed + Sized {
    /// The command with where its answer goes.
    fn request(self, answering: Answering<Self>) -> Request;
}

macro_rules! requests {
    ($($command:ident),*) => {
        /// Any of these commands, and where its answer goes.
        #[derive(Debug)]
        #[expect(missing_docs, reason = "each is the command of its name")]
        pub enum Request {
            $($command($command, Answering<$command>)),*
        }

        $(impl Sendable for $command {
            fn request(self, answering: Answering<Self>) -> Request {
                Request::$command(self, answering)
            }
        })*

        impl<W: Context> Session<W> {
            /// Runs a command, and sends its answer once `durable` has ended; if that says that the command's
            /// writes may never be durable, its error is the answer.
            pub async fn serve(
                &mut self,
                request: Request,
                durable: impl AsyncFnOnce() -> Result<(), String>,
            ) {
                match request {
                    $(Request::$command(command, answering) => {
                        let answer = self.execute(&command).await;
                        let answer = durable().await.and(answer);
                        // Who asked may be gone.
                        let _ = answering.send(answer);
                    })*
                }
            }
        }
    };
}

requests!(
    Abort,
    Attach,
    AttachHorizon,
    AttachUntil,
    Begin,
    Commit,
    OnKey,
    Outcome,
    TakeToken,
    Txid,
    Watch
);
