//! What goes into a machine, and what comes out.

use serde::{Deserialize, Serialize};

use crate::Address;
use crate::records::Records;

/// Names a request, so that its reply can be told from others. Chosen by the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// An input of a machine with messages `M` and commands `C`.
#[derive(Clone, Debug)]
pub enum Input<M, C> {
    /// A message from another participant. Links are FIFO. Messages may be lost between sites, and within
    /// one when a process of it fails.
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
    /// The client wants no more replies to a request. The machine may have carried it out, and may still do so where it cannot
    /// call it back. Harmless for a request that is over or unknown.
    Cancel {
        /// The request of the command.
        request: RequestId,
    },
}

/// An output of a machine with messages `M`, responses `R` and events `E`.
#[derive(Clone, Debug, PartialEq)]
pub enum Output<M, R, E> {
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
    /// Steps for the journal, if the machine has one. Messages and replies after them must not leave before they are
    /// durable.
    Records(Records),
    /// What happened, for the simulator's ledger; only where the machine is asked to tell.
    Trace(E),
}

impl<M, R, E> Output<M, R, E> {
    /// Returns the same output as one of a machine that contains the machine whose output this is.
    #[inline]
    pub fn widen<M2: From<M>, R2: From<R>, E2: From<E>>(self) -> Output<M2, R2, E2> {
        match self {
            Output::Send { to, message } => Output::Send { to, message: message.into() },
            Output::Reply { request, response, last } => {
                Output::Reply { request, response: response.into(), last }
            }
            Output::Records(records) => Output::Records(records),
            Output::Trace(event) => Output::Trace(event.into()),
        }
    }
}
