//! Outcomes of transactions, and limits of their duration.

use std::fmt;
use std::sync::Arc;

use solera_program::run::{self, Failure};
use solera_program::value::Value;

use crate::location::Location;
use crate::record::Record;
use crate::request::calls::StoreError;
use crate::witness::TransactionId;

/// Outcome of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All of it has taken effect.
    Done {
        /// The value that it returns.
        result: Value,
        /// Number of runs of its groups.
        attempts: Attempts,
    },
    /// The transaction has changed nothing in atomic stores.
    Failed(Why),
    /// Some phases have committed, and others not yet.
    Incomplete {
        /// Ticket that resumes it
        /// ([`Coordinator::resume`](crate::coordinator::Coordinator::resume)). `None` if it cannot
        /// be determined whether the only phase that writes has committed, or if other coordinators
        /// have [completed](Why::Completed) the transaction.
        ticket: Option<Box<Record>>,
        /// The phases that have committed.
        committed: Vec<usize>,
        /// Reason why it is incomplete.
        why: Why,
    },
}

impl Outcome {
    /// Returns the reason, if it is incomplete because its users lack a right.
    pub fn denied(&self) -> Option<&Why> {
        match self {
            Outcome::Incomplete { why: why @ Why::Denied { .. }, .. } => Some(why),
            _ => None,
        }
    }
}

/// Number of runs of groups of phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Number of runs that were begun.
    pub begun: u32,
    /// Number of groups.
    pub groups: u32,
}

/// Reason why a transaction did not complete.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The program failed on values that its databases have certified, or it took too long. In the
    /// second case the values need no certification.
    Program(Failure),
    /// The program failed on values that a database has not certified. They may have been
    /// inconsistent, and then the failure may not follow from the data.
    Uncertified {
        /// The failure.
        failure: Box<Failure>,
        /// The database's name.
        database: Arc<str>,
        /// Reason why it has not certified them.
        error: StoreError,
    },
    /// Other transactions changed the same data at each attempt.
    Contention {
        /// Number of attempts.
        attempts: u32,
    },
    /// A database could not be reached.
    Unavailable {
        /// Name of the database.
        database: Arc<str>,
        /// Its last error.
        reason: String,
    },
    /// A database rejected a request that it never executes.
    Refused {
        /// Name of the database.
        database: Arc<str>,
        /// Its error.
        reason: String,
    },
    /// Its user lacks a right, or a database takes no writes. An administrator can change that.
    Denied {
        /// The database's name.
        database: Arc<str>,
        /// The phase that needs the right; `None` if the reason concerns no single phase.
        phase: Option<usize>,
        /// The missing right.
        reason: String,
    },
    /// An administrator has given it up.
    GivenUp {
        /// Name of the administrator, and the reason.
        reason: String,
    },
    /// Another transaction, part of which this one has seen, does not become visible as a whole.
    Blocked {
        /// The other transaction.
        by: TransactionId,
        /// The place where it is not visible.
        place: Location,
    },
    /// Other coordinators completed it before it was resumed, and its result is no longer stored.
    Completed,
    /// Another coordinator is completing it, or requests of one that has stopped may still be in
    /// progress.
    Taken,
    /// It exceeded its time limit: other coordinators may complete it soon.
    Late,
    /// The answer to a commit was lost.
    Unknown {
        /// The database's name.
        database: Arc<str>,
        /// The error that lost the answer.
        reason: String,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done { .. } => write!(f, "all of it has taken effect"),
            Outcome::Incomplete { why: why @ Why::Completed, .. } => write!(f, "{why}"),
            Outcome::Failed(why) => write!(f, "nothing was changed: {why}"),
            Outcome::Incomplete { ticket: None, why, .. } => {
                write!(f, "it may have taken effect, or not: {why}")
            }
            Outcome::Incomplete { committed, why, .. } => {
                let phases: Vec<_> =
                    committed.iter().map(|phase| (phase + 1).to_string()).collect();
                match &phases[..] {
                    [] => write!(f, "it may have begun to take effect: {why}"),
                    phases => {
                        let phases = phases.join(", ");
                        write!(
                            f,
                            "phases {phases} have taken effect, the others have not yet: {why}"
                        )
                    }
                }
            }
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Program(failure) => write!(f, "{failure}"),
            Why::Uncertified { failure, .. } => {
                write!(f, "{failure}; {}", self.caveat().unwrap_or_default())
            }
            Why::Contention { attempts } => {
                write!(f, "other transactions conflicted with it {attempts} times")
            }
            Why::Unavailable { database, reason } => {
                write!(f, "the database `{database}` cannot be used: {reason}")
            }
            Why::Refused { database, reason } => write!(f, "`{database}` refuses: {reason}"),
            Why::Denied { database, reason, .. } => write!(f, "`{database}` denies it: {reason}"),
            Why::GivenUp { reason } => write!(f, "it was given up: {reason}"),
            Why::Blocked { by, place } => {
                write!(f, "transaction {by} is in progress and not yet visible in {place}")
            }
            Why::Completed => write!(
                f,
                "another coordinator has completed it, and its result is no longer stored"
            ),
            Why::Taken => write!(f, "another coordinator is completing it, or may still be"),
            Why::Late => write!(f, "it exceeded its time limit"),
            Why::Unknown { database, reason } => {
                write!(f, "the answer of `{database}` to a commit was lost: {reason}")
            }
        }
    }
}

impl std::error::Error for Why {}

impl Why {
    /// Returns the failure of the program, certified or not.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Why::Program(failure) => Some(failure),
            Why::Uncertified { failure, .. } => Some(failure),
            _ => None,
        }
    }

    /// Returns the reason why a failure is [uncertified](Why::Uncertified), as text.
    pub fn caveat(&self) -> Option<String> {
        let Why::Uncertified { database, error, .. } = self else { return None };
        Some(format!(
            "this is uncertified, because `{database}` has not confirmed the program's reads: {error}"
        ))
    }

    /// Returns whether the program failed, and the database that could certify it did not answer.
    pub(crate) fn is_uncertified_for_now(&self) -> bool {
        matches!(self, Why::Uncertified { error: StoreError::Unavailable(_), .. })
    }
}

/// Limits of the duration of transactions, in milliseconds. All hosts that share databases need the
/// same times, and clocks that run equally fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limits of a phase.
    pub phase: run::Limits,
    /// Time from the beginning of a transaction during which phases may request operations, as long
    /// as nothing has committed. After a commit the transaction cannot be given up, and only
    /// [`phase`](Self::phase) limits it.
    pub run_ms: u64,
    /// Number of attempts before the first commit.
    pub attempts: u32,
    /// First pause between attempts; it doubles with each attempt.
    pub backoff_first_ms: u64,
    /// Longest pause between attempts.
    pub backoff_last_ms: u64,
    /// Time for which a coordinator tries to complete a transaction, from its request of the first
    /// commit or from the takeover. Afterwards it does nothing more, unless the transaction is
    /// resumed.
    pub finish_ms: u64,
    /// Time after which other coordinators may complete the transaction, from the same moment.
    /// Exceeds `finish_ms` by more than [`IN_DOUBT_MS`] and the difference of clocks: a commit
    /// requested at the last moment may take effect that much later.
    pub orphan_ms: u64,
    /// Time for which a transaction waits for others, parts of which it has seen. Exceeds
    /// `orphan_ms`.
    pub blocked_ms: u64,
    /// Time for which witnesses, marks and records are kept after the end of their transaction. At
    /// least twice the time in which a commit reaches all replicas of its database, and greater
    /// than `blocked_ms`. If it is less than twice `blocked_ms`, a waiting transaction finds out
    /// that the garbage of the other one is already removed, and continues.
    pub keep_ms: u64,
}

/// Time for which a commit whose answer was lost may still take effect, in milliseconds: databases
/// execute a command for that long after its connection has broken.
pub const IN_DOUBT_MS: u64 = 12_000;

/// Error of two times of [`Limits`] that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Name and value of the time that must be less.
    pub less: (&'static str, u64),
    /// Name and value of the time that must be greater.
    pub more: (&'static str, u64),
    /// Minimum difference.
    pub by_ms: u64,
    /// Reason for the difference.
    reason: &'static str,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((less, short), (more, long)) = (self.less, self.more);
        write!(f, "{less} ({short}) must be less than {more} ({long})")?;
        if self.by_ms > 1 {
            write!(f, " by {} or more: {}", self.by_ms, self.reason)?;
        }
        Ok(())
    }
}

impl std::error::Error for Contradiction {}

impl Limits {
    /// Checks that the times are consistent. A coordinator must give a transaction up, and its
    /// requests must have ended, before others complete the transaction. A transaction must wait
    /// longer than that for another one, and garbage must be kept longer than any transaction
    /// waits.
    ///
    /// # Errors
    /// The first two times that contradict each other.
    pub fn check(&self) -> Result<(), Contradiction> {
        let times = [
            ("finish_ms", self.finish_ms),
            ("orphan_ms", self.orphan_ms),
            ("blocked_ms", self.blocked_ms),
            ("keep_ms", self.keep_ms),
        ];
        for pair in times.windows(2) {
            let (less, more) = (pair[0], pair[1]);
            let (by_ms, reason) = match less.0 {
                "finish_ms" => (IN_DOUBT_MS + 1, "a commit may take effect that late"),
                _ => (1, ""),
            };
            if more.1.saturating_sub(less.1) < by_ms {
                return Err(Contradiction { less, more, by_ms, reason });
            }
        }
        Ok(())
    }

    /// Checks that a value is within the limits for arguments of programs.
    ///
    /// # Errors
    /// If the value is too large, with its size and the limit, or if a handle in it has an empty
    /// key.
    pub fn check_argument(&self, value: &Value) -> Result<(), String> {
        self.phase.check_argument(value)
    }

    /// Returns the time for which a coordinator waits for another transaction before it looks for
    /// that transaction's record. A worker waits as long before it reports that its group is
    /// blocked.
    pub(crate) fn on_the_way_ms(&self) -> u64 {
        self.finish_ms / 8
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            phase: run::Limits::default(),
            run_ms: 30_000,
            attempts: 20,
            backoff_first_ms: 2,
            backoff_last_ms: 500,
            finish_ms: 8_000,
            orphan_ms: 22_000,
            blocked_ms: 32_000,
            keep_ms: 60_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_do_not_fit_are_named() {
        let limits = Limits::default();
        assert_eq!(limits.check(), Ok(()));
        let message = |limits: Limits| limits.check().unwrap_err().to_string();
        let orphan_ms = limits.finish_ms + IN_DOUBT_MS;
        assert_eq!(
            message(Limits { orphan_ms, ..limits }),
            "finish_ms (8000) must be less than orphan_ms (20000) by 12001 or more: a commit may take effect that late"
        );
        assert_eq!(Limits { orphan_ms: orphan_ms + 1, ..limits }.check(), Ok(()));
        assert_eq!(
            message(Limits { orphan_ms: 32_000, ..limits }),
            "orphan_ms (32000) must be less than blocked_ms (32000)"
        );
        assert_eq!(
            message(Limits { keep_ms: 31_999, ..limits }),
            "blocked_ms (32000) must be less than keep_ms (31999)"
        );
    }
}
