//! How transactions end, and how long they are tried.

use std::fmt;
use std::sync::Arc;

use solera_program::run::{self, Failure};
use solera_program::value::Value;

use crate::place::Place;
use crate::record::Record;
use crate::request::calls::StoreError;
use crate::witness::TransactionId;

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All of it has taken effect.
    Done {
        /// What it returns.
        result: Value,
        /// How often groups of phases were run, and how many would have done.
        attempts: Attempts,
    },
    /// It has changed nothing in stores that are atomic.
    Failed(Why),
    /// Some phases have committed, and others not yet.
    Incomplete {
        /// What resumes it ([`Coordinator::resume`](crate::coordinator::Coordinator::resume)). None
        /// if it cannot be found out whether the only phase that writes has committed, or if others
        /// have [completed](Why::Completed) it.
        ticket: Option<Box<Record>>,
        /// The phases that have committed.
        committed: Vec<usize>,
        /// What is in the way.
        why: Why,
    },
}

impl Outcome {
    /// What its users have no right to, if that is why it is incomplete.
    pub fn denied(&self) -> Option<&Why> {
        match self {
            Outcome::Incomplete { why: why @ Why::Denied { .. }, .. } => Some(why),
            _ => None,
        }
    }
}

/// How often groups of phases were run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// How often they were begun.
    pub begun: u32,
    /// How many there are.
    pub groups: u32,
}

/// Why a transaction did not come to its end.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The program failed, on values that its databases have certified; or it took too long,
    /// whatever it has read.
    Program(Failure),
    /// The program failed on values that a database has not certified: they may not have been so,
    /// and the failure may not follow from what is so.
    Uncertified {
        /// How it failed.
        failure: Box<Failure>,
        /// The database's name.
        database: Arc<str>,
        /// Why it has not certified them.
        error: StoreError,
    },
    /// Others changed the same data again and again.
    Contention {
        /// How often it was tried.
        attempts: u32,
    },
    /// A database could not be reached.
    Unavailable {
        /// Its name.
        database: Arc<str>,
        /// What it said last.
        reason: String,
    },
    /// A database refused for good.
    Refused {
        /// Its name.
        database: Arc<str>,
        /// What it said.
        reason: String,
    },
    /// A right is missing that its user needs, or a database takes no writes: people can change
    /// that.
    Denied {
        /// The database's name.
        database: Arc<str>,
        /// The phase that needs it; none if it is not about a single one.
        phase: Option<usize>,
        /// What is missing.
        reason: String,
    },
    /// Somebody has given it up.
    GivenUp {
        /// Who, and why.
        reason: String,
    },
    /// Another transaction, which this one has seen a part of, does not become visible as a whole.
    Blocked {
        /// The other transaction.
        by: TransactionId,
        /// Where it is not visible.
        place: Place,
    },
    /// Others have completed it before it was resumed, and its result is not kept any more.
    Completed,
    /// Somebody else is completing it, or what was asked for by one who has stopped may still be
    /// under way.
    Taken,
    /// It took longer than it may: others may complete it soon.
    Late,
    /// The answer to a commit was lost.
    Unknown {
        /// The database's name.
        database: Arc<str>,
        /// What happened.
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
                            "of its phases {phases} have taken effect, the others not yet: {why}"
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
                write!(f, "other transactions were in the way {attempts} times")
            }
            Why::Unavailable { database, reason } => {
                write!(f, "the database `{database}` cannot be used: {reason}")
            }
            Why::Refused { database, reason } => write!(f, "`{database}` refuses: {reason}"),
            Why::Denied { database, reason, .. } => write!(f, "`{database}` denies it: {reason}"),
            Why::GivenUp { reason } => write!(f, "it was given up: {reason}"),
            Why::Blocked { by, place } => {
                write!(f, "transaction {by} is under way and does not reach {place}")
            }
            Why::Completed => write!(f, "others have completed it, and its result is gone"),
            Why::Taken => write!(f, "somebody else is completing it, or may still be"),
            Why::Late => write!(f, "it took longer than it may"),
            Why::Unknown { database, reason } => {
                write!(f, "the answer of `{database}` to a commit was lost: {reason}")
            }
        }
    }
}

impl std::error::Error for Why {}

impl Why {
    /// How the program failed, if it did: certainly or not.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Why::Program(failure) => Some(failure),
            Why::Uncertified { failure, .. } => Some(failure),
            _ => None,
        }
    }

    /// Why a failure is [uncertified](Why::Uncertified), in words; none if this is anything else.
    pub fn caveat(&self) -> Option<String> {
        let Why::Uncertified { database, error, .. } = self else { return None };
        Some(format!(
            "this is uncertified, as `{database}` has not confirmed what the program had read: {error}"
        ))
    }

    /// Whether the program failed, and a database that could certify it did not answer.
    pub(crate) fn is_uncertified_for_now(&self) -> bool {
        matches!(self, Why::Uncertified { error: StoreError::Unavailable(_), .. })
    }
}

/// How long transactions are tried, in milliseconds. All hosts that share databases need the same
/// times, and clocks that run equally fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What a phase may do.
    pub phase: run::Limits,
    /// How long phases may ask their stores for operations, from the transaction's beginning and as
    /// long as nothing has committed. Afterwards it cannot be given up any more, and only what
    /// [`phase`](Self::phase) says bounds it.
    pub run_ms: u64,
    /// How often a transaction is tried of which nothing has committed.
    pub attempts: u32,
    /// How long it waits before it tries again, at first; doubled each time.
    pub backoff_first_ms: u64,
    /// How long it waits at most.
    pub backoff_last_ms: u64,
    /// How long a coordinator tries to complete a transaction, from when it asked for its first
    /// commit or took it over. Afterwards it does not touch it any more, unless it is resumed.
    pub finish_ms: u64,
    /// How long after that others may complete it. Greater than `finish_ms`, by more than
    /// [`IN_DOUBT_MS`] and what clocks differ by: a commit that was asked for at the last moment
    /// may take effect that much later.
    pub orphan_ms: u64,
    /// How long it waits for other transactions of which it has seen a part. Greater than
    /// `orphan_ms`.
    pub blocked_ms: u64,
    /// How long witnesses, marks and records are kept after the end of their transaction. At least
    /// twice what it takes a commit to reach all replicas of its database, and greater than
    /// `blocked_ms`. If it is less than twice `blocked_ms`, who waits finds out that a
    /// transaction's leftovers are removed already, and goes on.
    pub keep_ms: u64,
}

/// How long a commit may still take effect of which the answer was lost, in milliseconds: as long
/// as databases let a command run whose connection broke.
pub const IN_DOUBT_MS: u64 = 12_000;

/// Two times of [`Limits`] that contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// What must be less, and how long it is.
    pub less: (&'static str, u64),
    /// Than what, and how long that is.
    pub more: (&'static str, u64),
    /// By how much it must be less, at least.
    pub by_ms: u64,
    /// Why.
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
    /// Whether the times fit one another: a transaction is given up by its coordinator, and what
    /// that has asked for is over, before others complete it; whoever waits for it waits for that,
    /// too; and what tells of it is kept as long.
    ///
    /// # Errors
    /// The first two that do not.
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

    /// Whether an argument is a value that programs may handle.
    ///
    /// # Errors
    /// If it is too large: how large it is, and may be. Or if a handle in it has no key.
    pub fn check_argument(&self, value: &Value) -> Result<(), String> {
        if has_empty_key(value) {
            return Err("a handle's key must not be empty".to_owned());
        }
        let (size, most) = (size(value), self.phase.value_bytes);
        if size <= most {
            return Ok(());
        }
        Err(format!("it takes {size} bytes, and a value may take {most} at most"))
    }

    /// How long a coordinator waits for a transaction of which it has seen a part before it looks
    /// for its record, and a worker before it answers that it waits.
    pub(crate) fn on_the_way_ms(&self) -> u64 {
        self.finish_ms / 8
    }
}

fn has_empty_key(value: &Value) -> bool {
    match value {
        Value::Handle(handle) => handle.key.is_empty(),
        Value::Option(of) => of.as_deref().is_some_and(has_empty_key),
        Value::List(of) | Value::Struct(of) => of.iter().any(has_empty_key),
        Value::Set(of) => of.iter().any(has_empty_key),
        Value::Map(of) => of.iter().any(|(key, value)| has_empty_key(key) || has_empty_key(value)),
        _ => false,
    }
}

/// How many bytes a value takes, as the interpreter counts them: 16 and its text for each that is
/// in it.
fn size(value: &Value) -> u64 {
    let (bytes, held): (usize, u64) = match value {
        Value::Unit | Value::Bool(_) | Value::Int(_) | Value::Float(_) => (0, 0),
        Value::String(text) => (text.len(), 0),
        Value::Bytes(bytes) => (bytes.len(), 0),
        Value::Handle(handle) => (handle.store.len() + handle.key.len(), 0),
        Value::Option(of) => (0, of.as_deref().map_or(0, size)),
        Value::List(of) | Value::Struct(of) => (0, of.iter().map(size).sum()),
        Value::Set(of) => (0, of.iter().map(size).sum()),
        Value::Map(of) => (0, of.iter().map(|(key, value)| size(key) + size(value)).sum()),
    };
    16 + bytes as u64 + held
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
        let told = |limits: Limits| limits.check().unwrap_err().to_string();
        let orphan_ms = limits.finish_ms + IN_DOUBT_MS;
        assert_eq!(
            told(Limits { orphan_ms, ..limits }),
            "finish_ms (8000) must be less than orphan_ms (20000) by 12001 or more: a commit may take effect that late"
        );
        assert_eq!(Limits { orphan_ms: orphan_ms + 1, ..limits }.check(), Ok(()));
        assert_eq!(
            told(Limits { orphan_ms: 32_000, ..limits }),
            "orphan_ms (32000) must be less than blocked_ms (32000)"
        );
        assert_eq!(
            told(Limits { keep_ms: 31_999, ..limits }),
            "blocked_ms (32000) must be less than keep_ms (31999)"
        );
    }
}
