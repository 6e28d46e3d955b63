//! What clients ask of a replica, and what it answers.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

use solera_certification::{Claim, Kind, TransactionId};
use solera_data::{Key, Op, OpError, Outcome};
use solera_levels::Level;
use solera_machine::{Address, Guarded, PromiseId, Refusal};
use solera_time::{Origin, SiteId, Vector};

use crate::pasts::Pasts;

/// Names an interactive transaction within its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TxId {
    /// The worker that coordinates it.
    pub coordinator: u8,
    /// Counts the coordinator's transactions.
    pub sequence: u64,
}

impl From<TxId> for PromiseId {
    fn from(TxId { coordinator, sequence }: TxId) -> PromiseId {
        PromiseId { coordinator, sequence }
    }
}

/// A client's request. `past` is the client's causal past (`pastVec`, §5.1).
#[derive(Clone, Debug)]
pub enum Command {
    /// A transaction of one operation.
    Execute {
        /// The client's causal past.
        past: Vector,
        /// The level of the key's space: causal or eventual.
        level: Level,
        /// The key.
        key: Key,
        /// The operation.
        op: Op,
    },
    /// A strong transaction of one operation, executed again when it aborts.
    ExecuteStrong {
        /// The client's causal past.
        past: Vector,
        /// The key.
        key: Key,
        /// The operation.
        op: Op,
        /// What it conflicts with.
        kind: Kind,
    },
    /// START_TX: opens an interactive transaction (Alg. 1 l. 1).
    Begin {
        /// The client's causal past.
        past: Vector,
        /// Whether it will be certified.
        strong: bool,
    },
    /// DO_OP (Alg. 1 l. 9). Several may be outstanding, on different keys.
    Operate {
        /// The transaction.
        tx: TxId,
        /// The level of the key's space.
        level: Level,
        /// The key.
        key: Key,
        /// The operation.
        op: Op,
        /// What it conflicts with, if the transaction is strong.
        kind: Kind,
    },
    /// COMMIT_CAUSAL (Alg. 1 l. 26), or COMMIT_STRONG (Alg. 3 l. 1).
    Commit {
        /// The transaction.
        tx: TxId,
        /// If its client's last one was aborted: what [`CommandError::Aborted`] said then. It
        /// counts if this one is about the same keys, and so may be the next attempt.
        claim: Option<Claim>,
    },
    /// Certifies what an open strong transaction has read, and drops the transaction: nothing that
    /// it wrote takes effect. Answered as [`Command::Commit`] is.
    Certify {
        /// The transaction.
        tx: TxId,
        /// As of [`Command::Commit`].
        claim: Option<Claim>,
    },
    /// The name by which an open strong transaction will be certified, to ask for its
    /// [`Command::Outcome`] if the answer to its commit is lost. It must be committed within a
    /// minute from then on.
    Name {
        /// The transaction.
        tx: TxId,
    },
    /// Drops a transaction; it has no effect. Needs no reply, and gets none.
    Abort {
        /// The transaction.
        tx: TxId,
    },
    /// UNIFORM_BARRIER (Alg. 1 l. 49): returns when all of the durability past is uniform.
    Barrier {
        /// The client's pasts.
        pasts: Pasts,
        /// How long to wait; `None` for ever.
        timeout: Option<Duration>,
    },
    /// ATTACH (Alg. 1 l. 51): returns when this site holds all of the causal past, taken at another
    /// site. Eventual writes are not waited for: no read rests on them.
    Attach {
        /// The client's pasts.
        pasts: Pasts,
        /// How long to wait; `None` for ever.
        timeout: Option<Duration>,
    },
    /// What became of a strong transaction whose answer was lost.
    Outcome {
        /// The transaction.
        tid: TransactionId,
    },
    /// Names guards of an open transaction, in addition to those that it has. It commits only if
    /// all of them promise. A transaction whose guards cannot be named is given up.
    Guard {
        /// The transaction.
        tx: TxId,
        /// The guards.
        guards: Guarded,
    },
    /// A transaction of one operation that commits only if all its guards promise.
    ExecuteGuarded(Box<ExecuteGuarded>),
}

/// See [`Command::ExecuteGuarded`].
#[derive(Clone, Debug)]
pub struct ExecuteGuarded {
    /// The client's causal past.
    pub past: Vector,
    /// The level of the key's space: causal or eventual.
    pub level: Level,
    /// The key.
    pub key: Key,
    /// The operation.
    pub op: Op,
    /// The guards.
    pub guards: Guarded,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// To [`Command::Execute`] and [`Command::ExecuteGuarded`]: the answer, and what the client's
    /// pasts contain from now on.
    Executed {
        /// What the operation answered; an [`OpError`] had no effect.
        outcome: Result<Outcome, OpError>,
        /// Includes the operation and what it read.
        pasts: Pasts,
    },
    /// To [`Command::Begin`].
    Begun(TxId),
    /// To [`Command::Name`].
    Named(TransactionId),
    /// To [`Command::Operate`]; after an [`OpError`] the transaction stays open.
    Operated(Result<Outcome, OpError>),
    /// To [`Command::Commit`] and [`Command::Certify`]: what the client's pasts contain from now
    /// on.
    Committed {
        /// Includes the transaction, its writes to eventual spaces, and what it read.
        pasts: Pasts,
    },
    /// To [`Command::Barrier`]: what the client observed survives the loss of `f` sites.
    Uniform,
    /// To [`Command::Attach`]: the client may go on here.
    Attached,
    /// To [`Command::Outcome`]: whether it committed, if this worker knows.
    Outcome(Option<bool>),
    /// The command could not be carried out.
    Failed(CommandError),
    /// To [`Command::Guard`].
    Guarded,
}

/// Why a command could not be carried out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CommandError {
    /// The transaction is not open here: it ended, was idle for too long, or became too old.
    NoSuchTransaction,
    /// COMMIT came while operations of the transaction were still outstanding.
    OperationsOutstanding,
    /// A partition of this site did not prepare in time. The transaction had no effect; retry it.
    PartitionSlow,
    /// The transaction committed, and a worker of this site has not confirmed in time that it has
    /// executed the operations on eventual spaces. It does so when it answers again.
    Unconfirmed {
        /// The worker.
        worker: Address,
    },
    /// The transaction writes more than can be kept in one piece. It is not open any more, and had
    /// no effect.
    TooLarge,
    /// Too few other sites take part: the loss of `f` sites would be the loss of all.
    TooFewSites {
        /// How many others there are.
        others: usize,
        /// How many sites may fail.
        f: usize,
    },
    /// The wait of a barrier or an attach ended without success; what it waits for may still come.
    TimedOut {
        /// Whose transactions are missing.
        origin: Origin,
        /// How far this site is behind the asked past, by that site's clock; `None` if nothing of
        /// it is visible here yet.
        behind: Option<Duration>,
    },
    /// A strong transaction conflicts with another, which it has not seen. It had no effect.
    Aborted {
        /// A key on which they conflict, if it is known.
        key: Option<Key>,
        /// Has the next attempt go before transactions that are younger.
        claim: Claim,
        /// Before this site holds this much, another attempt is in vain ([`Command::Attach`]);
        /// nothing if that is not known.
        lacks: Option<Box<Vector>>,
    },
    /// A strong transaction could not be decided in time: too few sites were reached.
    Unavailable {
        /// The transaction, which may still commit or abort. None if it was not even submitted, so
        /// that it had no effect.
        tid: Option<TransactionId>,
    },
    /// This cluster runs a protocol without strong transactions.
    NoStrong,
    /// The client has seen a strong transaction that did not arrive at this site in time.
    NotHereYet,
    /// The past contains transactions of a failed site that no reachable site holds.
    Lost {
        /// The failed site.
        site: SiteId,
        /// How much of its most recent history is missing, by that site's clock.
        missing: Duration,
    },
    /// The operation would make a strong transaction larger than one may be. It is not open any
    /// more, and had no effect.
    StrongTooLarge(StrongLimit),
    /// A guard refused. The transaction is not open any more, and had no effect.
    Guarded(Box<Refusal>),
    /// A guard was named whose protocol guards nothing at this site. The transaction is not open
    /// any more, and had no effect.
    NoGuard {
        /// The number of the protocol.
        protocol: u8,
    },
    /// More guards, or longer ones, than a transaction may name. It is not open any more, and had
    /// no effect.
    TooManyGuards,
    /// Guards were named of a strong transaction, which cannot have any. It is not open any more,
    /// and had no effect.
    StrongGuarded,
}

/// What bounds a strong transaction; see [`StrongLimits`](crate::StrongLimits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StrongLimit {
    /// So many bytes of values it writes and keys it accesses.
    Bytes(usize),
    /// So many operations.
    Operations(usize),
}

impl fmt::Display for StrongLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrongLimit::Bytes(bytes) if *bytes > 0 && bytes % (1 << 20) == 0 => {
                write!(f, "{} MiB of keys and values", bytes >> 20)
            }
            StrongLimit::Bytes(bytes) => write!(f, "{bytes} bytes of keys and values"),
            StrongLimit::Operations(operations) => write!(f, "{operations} operations"),
        }
    }
}

impl fmt::Display for CommandError {
    #[expect(clippy::too_many_lines, reason = "one arm per error")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::NoSuchTransaction => {
                write!(
                    f,
                    "the transaction is no longer open; it ended, was idle for too long or became too old"
                )
            }
            CommandError::OperationsOutstanding => {
                write!(f, "operations of the transaction are still outstanding")
            }
            CommandError::PartitionSlow => {
                write!(
                    f,
                    "a partition of this site answered too slowly; nothing was changed, retry"
                )
            }
            CommandError::Unconfirmed { worker } => write!(
                f,
                "the transaction committed, but worker {} of its site does not confirm its writes to eventual \
                 spaces; they are done when that worker answers again",
                worker.worker
            ),
            CommandError::TooLarge => write!(
                f,
                "the transaction is too large: at most 512 MB may be written at once; nothing was changed"
            ),
            CommandError::TooFewSites { others, f: sites } => {
                let take = if *others == 1 { "other site takes" } else { "other sites take" };
                write!(
                    f,
                    "{others} {take} part, so nothing survives the loss of f = {sites}; add a site"
                )
            }
            CommandError::TimedOut { origin, behind } => {
                match behind {
                    Some(behind) => write!(f, "still {} ms behind ", behind.as_millis().max(1))?,
                    None => f.write_str("nothing is visible here yet of ")?,
                }
                match origin {
                    Origin::Site(site) => write!(f, "site {site}"),
                    Origin::Strong => f.write_str("the strong transactions"),
                }
            }
            CommandError::Aborted { key, .. } => {
                match key {
                    Some(key) => {
                        write!(f, "conflict on '{}'", String::from_utf8_lossy(key.as_bytes()))?;
                    }
                    None => {
                        write!(f, "the sites did not agree in time, or their leader has changed")?
                    }
                }
                write!(f, "; nothing was changed, run the transaction again")
            }
            CommandError::Unavailable { tid: None } => write!(
                f,
                "too few sites, or too few of their nodes, answer to agree on a strong transaction; nothing \
                 was changed"
            ),
            CommandError::Unavailable { tid: Some(tid) } => write!(
                f,
                "too few sites, or too few of their nodes, answered to agree in time; the outcome of \
                 transaction {tid} is not known: ask SOLERA.OUTCOME {tid} until it is"
            ),
            CommandError::NoStrong => {
                write!(f, "this cluster's protocol has no strong transactions; nothing was changed")
            }
            CommandError::NotHereYet => write!(
                f,
                "a strong transaction that this session has seen has not arrived at this site yet; \
                 nothing was changed"
            ),
            CommandError::StrongTooLarge(limit) => {
                write!(f, "a strong transaction has at most {limit}; nothing was changed")
            }
            CommandError::Guarded(refusal) => write!(
                f,
                "the guard of '{}' refuses: {}; nothing was changed",
                String::from_utf8_lossy(&refusal.key),
                refusal.reason
            ),
            CommandError::NoGuard { protocol } => {
                write!(f, "protocol {protocol} guards no keys at this site; nothing was changed")
            }
            CommandError::TooManyGuards => write!(
                f,
                "a transaction has at most {} guards, {} bytes of each claim and {} KiB of keys and claims; nothing was changed",
                Guarded::MOST,
                Guarded::LONGEST_CLAIM,
                Guarded::MOST_BYTES >> 10
            ),
            CommandError::StrongGuarded => {
                write!(f, "a strong transaction cannot have guards; nothing was changed")
            }
            CommandError::Lost { site, missing } => {
                write!(f, "site {site} failed with its last {} ms", missing.as_millis())
            }
        }
    }
}

impl std::error::Error for CommandError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_counted_as_people_do() {
        for (others, words) in [(0, "0 other sites take"), (1, "1 other site takes")] {
            let told = CommandError::TooFewSites { others, f: 2 }.to_string();
            assert_eq!(
                told,
                format!("{words} part, so nothing survives the loss of f = 2; add a site")
            );
        }
    }
}
