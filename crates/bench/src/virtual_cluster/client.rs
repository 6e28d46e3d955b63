//! Clients of a virtual cluster, each in a closed loop.

use std::time::Duration;

use solera_machine::codec::encoded_bytes;
use solera_time::Vector;
use solera_unistore::{Claim, Command, CommandError, Pasts, Response, TxId};

use super::source::{Step, Transaction};
use crate::random::Random;

/// Event that a client is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waits until the site has the updates that the previous attempt lacked.
    Attach,
    Begin,
    /// Waits for the replies to a round of operations.
    Round(usize),
    Commit,
}

/// Action after a reply.
#[expect(clippy::large_enum_variant, reason = "moved once, never stored")]
pub(crate) enum Then {
    /// Run the next command of the same round.
    Go(Command),
    /// Send the reply to the client.
    Reply,
}

/// One client and its session at a worker.
pub(crate) struct Client {
    /// Its site, and the index of the worker that it is connected to.
    pub(crate) site: usize,
    pub(crate) worker: usize,
    pub(crate) random: Random,
    pub(crate) past: Vector,
    pub(crate) transaction: Transaction,
    pub(crate) strong: bool,
    pub(crate) started: u64,
    pub(crate) phase: Phase,
    /// Index of the current command of the round.
    pub(crate) at: usize,
    tx: Option<TxId>,
    /// Failure of the current attempt, which must be retried.
    pub(crate) failed: Option<Failed>,
    /// Number of failed attempts of the transaction.
    failures: u32,
    /// Claim of the last attempt, which gives the next attempt priority.
    claim: Option<Claim>,
    /// Snapshot that the site must have before the next attempt.
    lacks: Option<Vector>,
    /// Bytes of the replies to the current batch; `None` if they are not counted.
    replied: Option<u64>,
}

/// Maximum wait for the updates that an attempt lacked, as in a session of the server.
const ATTACHING: Duration = Duration::from_millis(500);

/// Failure of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    Conflict,
    Other,
}

impl Client {
    pub(crate) fn new(site: usize, worker: usize, seed: u64, sites: usize) -> Client {
        Client {
            site,
            worker,
            random: Random::new(seed),
            past: Vector::zero(sites),
            transaction: Transaction { class: crate::tally::Class::Read, rounds: Vec::new() },
            strong: false,
            started: 0,
            phase: Phase::Begin,
            at: 0,
            tx: None,
            failed: None,
            failures: 0,
            claim: None,
            lacks: None,
            replied: None,
        }
    }

    /// Lets the client count the bytes of replies.
    pub(crate) fn counting_bytes(self) -> Client {
        Client { replied: Some(0), ..self }
    }

    /// Returns the bytes of the replies to the current batch, which then begin at 0.
    pub(crate) fn take_replied(&mut self) -> u64 {
        self.replied.as_mut().map_or(0, std::mem::take)
    }

    /// Returns the bytes of the current batch.
    pub(crate) fn requested(&self) -> u64 {
        let size = |step: &Step| encoded_bytes(&step.key) + encoded_bytes(&step.op);
        self.round().into_iter().flatten().map(size).sum::<usize>() as u64
    }

    /// Returns the pause before the client retries a failed transaction, in nanoseconds, as in
    /// [`solera::Client::strong`].
    pub(crate) fn pause(&mut self) -> u64 {
        let pause = 1_000_000 << self.failures.min(6);
        self.failures += 1;
        pause
    }

    /// Returns the operations of the current batch, if it consists of operations.
    fn round(&self) -> Option<&[Step]> {
        match self.phase {
            Phase::Attach | Phase::Begin | Phase::Commit => None,
            Phase::Round(round) => Some(&self.transaction.rounds[round]),
        }
    }

    /// Returns the number of commands in the current batch.
    pub(crate) fn commands(&self) -> usize {
        self.round().map_or(1, <[_]>::len)
    }

    /// Returns the number of writing commands in the current batch.
    pub(crate) fn writes(&self) -> usize {
        self.round().into_iter().flatten().filter(|step| step.op.is_update()).count()
    }

    /// Returns the number of operations of its transaction.
    pub(crate) fn operations(&self) -> usize {
        self.transaction.rounds.iter().map(Vec::len).sum()
    }

    /// Returns the current command.
    pub(crate) fn command(&self) -> Command {
        match (self.phase, self.tx) {
            (Phase::Attach, _) => {
                let pasts = Pasts::causal(self.lacks.unwrap_or(self.past));
                Command::Attach { pasts, timeout: Some(ATTACHING) }
            }
            (Phase::Begin, _) | (_, None) => {
                Command::Begin { past: self.past, strong: self.strong }
            }
            (Phase::Round(round), Some(tx)) => {
                let step = &self.transaction.rounds[round][self.at];
                let (level, key, op, kind) =
                    (step.level, step.key.clone(), step.op.clone(), step.kind);
                Command::Operate { tx, level, key, op, kind }
            }
            (Phase::Commit, Some(tx)) => Command::Commit { tx, claim: self.claim },
        }
    }

    /// Processes a response of its worker.
    pub(crate) fn answered(&mut self, response: Response) -> Then {
        match response {
            Response::Begun(tx) => self.tx = Some(tx),
            Response::Operated(outcome) => {
                if let (Some(bytes), Ok(outcome)) = (&mut self.replied, &outcome) {
                    *bytes += encoded_bytes(outcome) as u64;
                }
                self.at += 1;
                if self.at < self.commands() {
                    return Then::Go(self.command());
                }
            }
            Response::Committed { pasts } => self.past.join(&pasts.causal),
            // Updates that do not arrive in time may never arrive.
            Response::Attached | Response::Failed(CommandError::TimedOut { .. }) => {
                self.lacks = None;
            }
            Response::Failed(CommandError::Aborted { claim, lacks, .. }) => {
                self.failed = Some(Failed::Conflict);
                (self.claim, self.lacks) = (Some(claim), lacks.map(|lacks| *lacks));
            }
            _ => self.failed = Some(Failed::Other),
        }
        Then::Reply
    }

    /// Advances after a reply; returns whether the transaction continues.
    pub(crate) fn advance(&mut self) -> bool {
        self.at = 0;
        self.phase = match self.phase {
            Phase::Attach => Phase::Begin,
            Phase::Begin => Phase::Round(0),
            Phase::Round(round) => Phase::Round(round + 1),
            Phase::Commit => return false,
        };
        if self.phase == Phase::Round(self.transaction.rounds.len()) {
            self.phase = Phase::Commit;
        }
        true
    }

    /// Starts a new transaction.
    pub(crate) fn run(&mut self, transaction: Transaction, strong: bool, now: u64) {
        (self.transaction, self.strong, self.started, self.failures) =
            (transaction, strong, now, 0);
        (self.claim, self.lacks) = (None, None);
        self.begin();
    }

    /// Restarts the transaction.
    pub(crate) fn begin(&mut self) {
        let phase = if self.lacks.is_some() { Phase::Attach } else { Phase::Begin };
        (self.phase, self.at, self.tx, self.failed) = (phase, 0, None, None);
    }
}
