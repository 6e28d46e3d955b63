//! The clients of a virtual cluster, each in a closed loop.

use std::time::Duration;

use solera_time::Vector;
use solera_unistore::{Claim, Command, CommandError, Pasts, Response, TxId};

use super::source::{Step, Transaction};
use crate::random::Random;

/// What a client is waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Until the site has what the attempt before lacked.
    Attach,
    Begin,
    /// The answers to a round of operations.
    Round(usize),
    Commit,
}

/// What comes after an answer.
#[expect(clippy::large_enum_variant, reason = "moved once, never stored")]
pub(crate) enum Then {
    /// The next command of the same round.
    Go(Command),
    /// The client hears of it.
    Tell,
}

/// One client and its session at a worker.
pub(crate) struct Client {
    /// Its site, and the place of the worker that it is connected to.
    pub(crate) site: usize,
    pub(crate) worker: usize,
    pub(crate) random: Random,
    pub(crate) past: Vector,
    pub(crate) transaction: Transaction,
    pub(crate) strong: bool,
    pub(crate) started: u64,
    pub(crate) phase: Phase,
    /// Which command of the round.
    pub(crate) at: usize,
    tx: Option<TxId>,
    /// Whether the attempt has failed, so that it must begin anew.
    pub(crate) failed: Option<Failed>,
    /// How many attempts of the transaction have.
    failures: u32,
    /// What the last one has left: the next goes first with the claim, and lacks this until it
    /// comes.
    claim: Option<Claim>,
    lacks: Option<Vector>,
}

/// For so long it is waited for what an attempt lacked, as a session of the server does.
const ATTACHING: Duration = Duration::from_millis(500);

/// Why an attempt came to nothing.
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
        }
    }

    /// How long the client waits before it runs a transaction again that failed, in nanoseconds: as
    /// [`solera::Client::strong`] does.
    pub(crate) fn pause(&mut self) -> u64 {
        let pause = 1_000_000 << self.failures.min(6);
        self.failures += 1;
        pause
    }

    /// The operations that the client sends together now, if it sends operations.
    fn round(&self) -> Option<&[Step]> {
        match self.phase {
            Phase::Attach | Phase::Begin | Phase::Commit => None,
            Phase::Round(round) => Some(&self.transaction.rounds[round]),
        }
    }

    /// How many commands the client sends together now.
    pub(crate) fn commands(&self) -> usize {
        self.round().map_or(1, <[_]>::len)
    }

    /// How many of them write something.
    pub(crate) fn writes(&self) -> usize {
        self.round().into_iter().flatten().filter(|step| step.op.is_update()).count()
    }

    /// How many operations its transaction has.
    pub(crate) fn operations(&self) -> usize {
        self.transaction.rounds.iter().map(Vec::len).sum()
    }

    /// The command that is due.
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

    /// Its worker has an answer.
    pub(crate) fn answered(&mut self, response: Response) -> Then {
        match response {
            Response::Begun(tx) => self.tx = Some(tx),
            Response::Operated(_) => {
                self.at += 1;
                if self.at < self.commands() {
                    return Then::Go(self.command());
                }
            }
            Response::Committed { pasts } => self.past.join(&pasts.causal),
            // What does not come in time may never come.
            Response::Attached | Response::Failed(CommandError::TimedOut { .. }) => {
                self.lacks = None;
            }
            Response::Failed(CommandError::Aborted { claim, lacks, .. }) => {
                self.failed = Some(Failed::Conflict);
                (self.claim, self.lacks) = (Some(claim), lacks.map(|lacks| *lacks));
            }
            _ => self.failed = Some(Failed::Other),
        }
        Then::Tell
    }

    /// The client goes on after an answer; whether there is anything left to do.
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

    /// Another transaction is run.
    pub(crate) fn run(&mut self, transaction: Transaction, strong: bool, now: u64) {
        (self.transaction, self.strong, self.started, self.failures) =
            (transaction, strong, now, 0);
        (self.claim, self.lacks) = (None, None);
        self.begin();
    }

    /// The transaction is run from its beginning.
    pub(crate) fn begin(&mut self) {
        let phase = if self.lacks.is_some() { Phase::Attach } else { Phase::Begin };
        (self.phase, self.at, self.tx, self.failed) = (phase, 0, None, None);
    }
}
