//! Inputs and outputs of machines.

use std::convert::Infallible;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Address;
use crate::records::Records;

/// Identifies a request, so that replies can be matched to it. The host chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// Identifies a job of one machine, so that its result can be matched to it. The machine chooses
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// Identifies a question that one machine asks another protocol of its worker. The asking machine
/// chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// Work that depends on nothing but its own data. Hosts run jobs beside the machine, several at a
/// time: servers on separate threads, the simulator on virtual cores.
pub trait Job: Send + 'static {
    /// Result of the work.
    type Result: Send + 'static;

    /// Does the work.
    fn run(self) -> Self::Result;

    /// Returns how long the work occupies a core in virtual time.
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

/// An input of a machine with messages `M`, commands `C`, job results `D`, and answers `A` to its
/// questions.
#[derive(Clone, Debug)]
pub enum Input<M, C, D = Infallible, A = Infallible> {
    /// A message from another participant. Links are FIFO. Messages may be lost between sites, and
    /// within a site when one of its processes fails.
    Message {
        /// The sender.
        from: Address,
        /// Generation of the sender's site when it sent the message. A removed site that joins
        /// again has a new generation.
        generation: u32,
        /// The message.
        message: M,
    },
    /// A client's command.
    Client {
        /// Identifies the reply.
        request: RequestId,
        /// The command.
        command: C,
    },
    /// The client wants no more replies to a request. The machine may have executed the command
    /// already, and may still execute it if it cannot revoke it. The input has no effect for a
    /// request that has ended or is unknown.
    Cancel {
        /// The request of the command.
        request: RequestId,
    },
    /// A job has ended. Jobs end in any order. The results of jobs that run when the process ends
    /// are lost.
    Done {
        /// The job.
        job: JobId,
        /// Its result.
        result: D,
    },
    /// Another protocol of the worker answers a question. Questions that are open when the process
    /// ends are never answered.
    Answered {
        /// The question.
        ask: AskId,
        /// The answer.
        answer: A,
    },
}

/// An output of a machine with messages `M`, responses `R`, events `E`, jobs `J` and questions `Q`.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<M, R, E, J = Infallible, Q = Infallible> {
    /// A message to another participant.
    Send {
        /// The receiver.
        to: Address,
        /// The message.
        message: M,
    },
    /// A reply to a client's command. There may be several replies; each contains more than the
    /// previous one.
    Reply {
        /// The command's request.
        request: RequestId,
        /// The answer.
        response: R,
        /// Whether this is the last reply to the request.
        last: bool,
    },
    /// Records for the journal, if the machine has one. Messages and replies that follow must not
    /// leave before these records are durable.
    Records(Records),
    /// An event for the simulator's checkers. A machine emits events only if its configuration
    /// requires them.
    Trace(E),
    /// Work that the host runs elsewhere. The host need not wait for records before it runs the
    /// work, because only this process receives the result.
    Job {
        /// Identifies it in [`Input::Done`].
        job: JobId,
        /// The work.
        work: J,
    },
    /// A question to another protocol of the worker. The machine that composes the protocols
    /// answers it with [`Input::Answered`]. Hosts never receive a question.
    Ask {
        /// Identifies it in the answer.
        ask: AskId,
        /// The question.
        question: Q,
    },
}

impl<M, R, E, J, Q> Output<M, R, E, J, Q> {
    /// Converts an output to an output of the machine that contains this one.
    ///
    /// # Errors
    /// Returns a question, which the containing machine has to answer.
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
