//! What goes into a machine, and what comes out.

use std::convert::Infallible;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Address;
use crate::records::Records;

/// Names a request, so that its reply can be told from others. Chosen by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// Names a job of one machine, so that its result can be told from others. Chosen by the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// Names a question that one machine asks another protocol of its worker. Chosen by the machine
/// that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// Work that needs nothing but itself. Hosts run it beside the machine, several at a time: servers
/// on threads of their own, the simulator on virtual cores.
pub trait Job: Send + 'static {
    /// What comes of it.
    type Result: Send + 'static;

    /// Does the work.
    fn run(self) -> Self::Result;

    /// How long the work occupies a core in virtual time.
    fn cost(&self) -> Duration;
}

impl Job for Infallible {
    type Result = Infallible;

    fn run(self) -> Infallible {
        self
    }

    fn cost(&self) -> Duration {
        match *self {}
    }
}

/// An input of a machine with messages `M` and commands `C`, to whose jobs there are results `D`,
/// and to whose questions there are answers `A`.
#[derive(Clone, Debug)]
pub enum Input<M, C, D = Infallible, A = Infallible> {
    /// A message from another participant. Links are FIFO. Messages may be lost between sites, and
    /// within one when a process of it fails.
    Message {
        /// The sender.
        from: Address,
        /// Which life of its site the sender belongs to: sites that were removed may join again.
        life: u32,
        /// The message.
        message: M,
    },
    /// A client's command.
    Client {
        /// For the reply.
        request: RequestId,
        /// The command.
        command: C,
    },
    /// The client wants no more replies to a request. The machine may have carried it out, and may
    /// still do so where it cannot call it back. Harmless for a request that is over or unknown.
    Cancel {
        /// The request of the command.
        request: RequestId,
    },
    /// A job has ended. Jobs end in any order; when the process ends, those that run come to
    /// nothing.
    Done {
        /// The job.
        job: JobId,
        /// What came of it.
        result: D,
    },
    /// Another protocol of the worker answers a question. Questions that are open when the process
    /// ends are not answered.
    Answered {
        /// The question.
        ask: AskId,
        /// The answer.
        answer: A,
    },
}

/// An output of a machine with messages `M`, responses `R` and events `E`, which hands out jobs `J`
/// and asks questions `Q`.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<M, R, E, J = Infallible, Q = Infallible> {
    /// A message to another participant.
    Send {
        /// The receiver.
        to: Address,
        /// The message.
        message: M,
    },
    /// A reply to a client's command. There may be several: each tells more than those before it.
    Reply {
        /// The command's request.
        request: RequestId,
        /// The answer.
        response: R,
        /// Whether no other reply to the request follows. A machine sends nothing after it.
        last: bool,
    },
    /// Steps for the journal, if the machine has one. Messages and replies after them must not
    /// leave before they are durable.
    Records(Records),
    /// What happened, for the simulator's ledger; only where the machine is asked to tell.
    Trace(E),
    /// Work that the host does elsewhere. It waits for no record: its result comes back to this
    /// process alone.
    Job {
        /// Names it in [`Input::Done`].
        job: JobId,
        /// The work.
        work: J,
    },
    /// A question to another protocol of the worker. What composes the protocols answers it with
    /// [`Input::Answered`]; a host sees none.
    Ask {
        /// Names it in the answer.
        ask: AskId,
        /// The question.
        question: Q,
    },
}

impl<M, R, E, J, Q> Output<M, R, E, J, Q> {
    /// Returns the same output as one of a machine that contains the machine whose output this is.
    ///
    /// # Errors
    /// It is a question, which the machine that contains both has to answer.
    #[inline]
    pub fn widen<M2, R2, E2, J2>(self) -> Result<Output<M2, R2, E2, J2>, (AskId, Q)>
    where
        M2: From<M>,
        R2: From<R>,
        E2: From<E>,
        J2: From<J>,
    {
        Ok(match self {
            Output::Send { to, message } => Output::Send { to, message: message.into() },
            Output::Reply { request, response, last } => {
                Output::Reply { request, response: response.into(), last }
            }
            Output::Records(records) => Output::Records(records),
            Output::Trace(event) => Output::Trace(event.into()),
            Output::Job { job, work } => Output::Job { job, work: work.into() },
            Output::Ask { ask, question } => return Err((ask, question)),
        })
    }
}
