//! Commands of a replica's clients, and its responses.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

use solera_certification::{Claim, Kind, TransactionId};
use solera_data::{Key, Op, OpError, Outcome};
use solera_levels::Level;
use solera_machine::{Address, Guarded, PromiseId, Refusal};
use solera_time::{Origin, SiteId, Vector};

use crate::pasts::Pasts;

/// Identifies an interactive transaction within its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TxId {
    /// Worker that coordinates it.
    pub coordinator: u8,
    /// Number of the transaction among those of its coordinator.
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
        /// Level of the key's space: causal or eventual.
        level: Level,
        /// The key.
        key: Key,
        /// The operation.
        op: Op,
    },
    /// A strong transaction of one operation, retried when it aborts.
    ExecuteStrong {
        /// The client's causal past.
        past: Vector,
        /// The key.
        key: Key,
        /// The operation.
        op: Op,
        /// Kind of the operation, which determines its conflicts.
        kind: Kind,
    },
    /// The same for a read whose client may cancel it. After an abort it has no priority over other
    /// transactions, because no keys may be reserved for an attempt that never comes.
    ReadStrong {
        /// The client's causal past.
        past: Vector,
        /// The key.
        key: Key,
        /// The operation.
        op: Op,
        /// Kind of the operation, which determines its conflicts.
        kind: Kind,
    },
    /// A read that contains every update of the key, in any causal or strong transaction, that was
    /// acknowledged before the read began. It asks every site, and fails if one does not answer.
    /// Its client may cancel it.
    ReadComplete {
        /// The client's causal past.
        past: Vector,
        /// The key, in a causal space.
        key: Key,
        /// The operation; not an update.
        op: Op,
    },
    /// START_TX: opens an interactive transaction (Alg. 1 l. 1).
    Begin {
        /// The client's causal past.
        past: Vector,
        /// Whether it will be certified.
        strong: bool,
    },
    /// DO_OP (Alg. 1 l. 9). Several operations may be outstanding, on different keys.
    Operate {
        /// The transaction.
        tx: TxId,
        /// The level of the key's space.
        level: Level,
        /// The key.
        key: Key,
        /// The operation.
        op: Op,
        /// Kind of the operation, which determines its conflicts, if the transaction is strong.
        kind: Kind,
    },
    /// COMMIT_CAUSAL (Alg. 1 l. 26), or COMMIT_STRONG (Alg. 3 l. 1).
    Commit {
        /// The transaction.
        tx: TxId,
        /// Claim from [`CommandError::Aborted`], if the client's previous transaction was aborted.
        /// It only counts if this transaction accesses the same keys, and may thus be the next
        /// attempt.
        claim: Option<Claim>,
    },
    /// Certifies the reads of an open strong transaction, and drops the transaction: none of its
    /// writes takes effect. The responses are those of [`Command::Commit`].
    Certify {
        /// The transaction.
        tx: TxId,
        /// See [`Command::Commit`].
        claim: Option<Claim>,
    },
    /// Returns the identifier by which an open strong transaction will be certified. If the
    /// response to its commit is lost, the client can use it to ask for the [`Command::Outcome`].
    /// The transaction must be committed within a minute.
    Name {
        /// The transaction.
        tx: TxId,
    },
    /// Drops a transaction, which then has no effect. Has no response.
    Abort {
        /// The transaction.
        tx: TxId,
    },
    /// UNIFORM_BARRIER (Alg. 1 l. 49): waits until the whole durability past is uniform.
    Barrier {
        /// The client's pasts.
        pasts: Pasts,
        /// Longest wait; `None` waits without limit.
        timeout: Option<Duration>,
    },
    /// ATTACH (Alg. 1 l. 51): waits until this site holds the whole causal past, which was taken at
    /// another site. It does not wait for eventual writes, because no read depends on them.
    Attach {
        /// The client's pasts.
        pasts: Pasts,
        /// Longest wait; `None` waits without limit.
        timeout: Option<Duration>,
    },
    /// Asks for the outcome of a strong transaction whose response was lost.
    Outcome {
        /// The transaction.
        tid: TransactionId,
    },
    /// Adds guards to an open transaction, which then commits only if all of them promise. If the
    /// guards cannot be added, the transaction is aborted.
    Guard {
        /// The transaction.
        tx: TxId,
        /// The guards.
        guards: Guarded,
    },
    /// Executes a transaction of one operation that commits only if all its guards promise.
    ExecuteGuarded(Box<ExecuteGuarded>),
}

/// Fields of [`Command::ExecuteGuarded`].
#[derive(Clone, Debug)]
pub struct ExecuteGuarded {
    /// The client's causal past.
    pub past: Vector,
    /// Level of the key's space: causal or eventual.
    pub level: Level,
    /// The key.
    pub key: Key,
    /// The operation.
    pub op: Op,
    /// The guards.
    pub guards: Guarded,
}

/// Response to a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// Answers [`Command::Execute`] and [`Command::ExecuteGuarded`].
    Executed {
        /// Outcome of the operation, which had no effect in case of an [`OpError`].
        outcome: Result<Outcome, OpError>,
        /// The client's new pasts, which include the operation and its reads.
        pasts: Pasts,
    },
    /// Answers [`Command::Begin`].
    Begun(TxId),
    /// Answers [`Command::Name`].
    Named(TransactionId),
    /// Answers [`Command::Operate`]. After an [`OpError`] the transaction stays open.
    Operated(Result<Outcome, OpError>),
    /// Answers [`Command::Commit`] and [`Command::Certify`].
    Committed {
        /// The client's new pasts, which include the transaction, its writes to eventual spaces,
        /// and its reads.
        pasts: Pasts,
    },
    /// Answers [`Command::Barrier`]: everything that the client has observed survives the loss of
    /// `f` sites.
    Uniform,
    /// Answers [`Command::Attach`]: the client may continue here.
    Attached,
    /// Answers [`Command::Outcome`]: whether the transaction committed; `None` if this worker does
    /// not know.
    Outcome(Option<bool>),
    /// The command failed.
    Failed(CommandError),
    /// Answers [`Command::Guard`].
    Guarded,
}

/// Reason why a command failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CommandError {
    /// The transaction is not open here: it ended, was idle for too long, or became too old.
    NoSuchTransaction,
    /// The client sent COMMIT while operations of the transaction were still outstanding.
    OperationsOutstanding,
    /// A partition of this site did not prepare in time. The transaction had no effect; retry it.
    PartitionSlow,
    /// The transaction committed, but a worker of this site has not confirmed in time that it has
    /// executed the operations on eventual spaces. It executes them when it responds again.
    Unconfirmed {
        /// The worker that has not confirmed.
        worker: Address,
    },
    /// The transaction writes more than a record can hold. It was aborted and had no effect.
    TooLarge,
    /// There are too few other members: the loss of `f` sites would lose all data.
    TooFewSites {
        /// Number of other members.
        others: usize,
        /// Number of sites that may fail.
        f: usize,
    },
    /// A barrier or an attach has timed out. The past may still become uniform or arrive.
    TimedOut {
        /// Origin of the missing transactions.
        origin: Origin,
        /// Difference between the required past and this site's vector, by the clock of the origin;
        /// `None` if none of the origin's transactions is visible here yet.
        behind: Option<Duration>,
    },
    /// A strong transaction conflicts with another that it has not seen. It had no effect.
    Aborted {
        /// A key on which they conflict, if it is known.
        key: Option<Key>,
        /// Claim that gives the next attempt priority over younger transactions.
        claim: Claim,
        /// Snapshot that this site must hold before a retry can succeed ([`Command::Attach`]);
        /// `None` if it is not known.
        lacks: Option<Box<Vector>>,
    },
    /// A strong transaction was not decided in time, because too few sites responded.
    Unavailable {
        /// The transaction, which may still commit or abort. `None` if it was not submitted and so
        /// had no effect.
        tid: Option<TransactionId>,
        /// Whether the clocks of sites seem to differ by more than is allowed, so that sites ignore
        /// messages.
        clocks: bool,
    },
    /// A site does not answer a complete read.
    SiteTimedOut {
        /// The site.
        site: SiteId,
    },
    /// The sites do not have the same list of sites, so that a complete read cannot ask all.
    ListsDiffer,
    /// The key of a complete read changes too often, or is changed by a transaction that is not
    /// decided.
    Changing {
        /// The key.
        key: Key,
    },
    /// This cluster runs a protocol without strong transactions.
    NoStrong,
    /// A strong transaction that the client has seen did not arrive at this site in time.
    NotHereYet,
    /// The past contains transactions of a failed site that no reachable site holds.
    Lost {
        /// The failed site.
        site: SiteId,
        /// Time span of its most recent history that is missing, by that site's clock.
        missing: Duration,
    },
    /// The operation would exceed a limit of strong transactions. The transaction was aborted and
    /// had no effect.
    StrongTooLarge(StrongLimit),
    /// A guard has refused. The transaction was aborted and had no effect.
    Guarded {
        /// The refusal.
        refusal: Box<Refusal>,
        /// Past with which the guard may promise the same transaction: its snapshot lacked what the
        /// guard relies on. `None` if a later snapshot does not help.
        later: Option<Box<Vector>>,
    },
    /// The transaction has a guard whose protocol guards nothing at this site. It was aborted and
    /// had no effect.
    NoGuard {
        /// The number of the protocol.
        protocol: u8,
    },
    /// The number or length of guards exceeds a limit. The transaction was aborted and had no
    /// effect.
    TooManyGuards,
    /// The client has added guards to a strong transaction, which cannot have any, or the
    /// transaction changes a key of [`GuardedKeys`](crate::GuardedKeys). The transaction was
    /// aborted and had no effect.
    StrongGuarded,
    /// The key belongs to [`GuardedKeys`](crate::GuardedKeys), and the transaction changes it
    /// otherwise than by causal operations on its number. The transaction was aborted and had no
    /// effect.
    OnlyCounted {
        /// The key.
        key: Key,
    },
}

/// A limit of strong transactions; see [`StrongLimits`](crate::StrongLimits).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StrongLimit {
    /// Largest number of bytes of the values that it writes and the keys that it accesses.
    Bytes(usize),
    /// Largest number of operations.
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
            CommandError::Unavailable { tid, clocks } => {
                f.write_str("too few sites, or too few of their nodes, ")?;
                f.write_str(match tid {
                    None => "answer to agree on a strong transaction",
                    Some(_) => "answered to agree in time",
                })?;
                if *clocks {
                    f.write_str(
                        ", perhaps because the clocks of sites differ by more than max_clock_skew_ms, \
                         or did a while ago",
                    )?;
                }
                match tid {
                    None => f.write_str("; nothing was changed"),
                    Some(tid) => write!(
                        f,
                        "; the outcome of transaction {tid} is not known: repeat SOLERA.OUTCOME \
                         {tid} until it is"
                    ),
                }
            }
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
            CommandError::SiteTimedOut { site } => {
                write!(
                    f,
                    "site {} does not answer, and the read needs the answers of all sites",
                    site.0
                )
            }
            CommandError::Changing { key } => {
                let key = String::from_utf8_lossy(key.as_bytes());
                write!(
                    f,
                    "'{key}' changes too often for a read that contains all changes, or is changed by a \
                     transaction that is not decided yet"
                )
            }
            CommandError::ListsDiffer => {
                write!(
                    f,
                    "the list of sites is changing, and the read needs the answers of all sites"
                )
            }
            CommandError::Guarded { refusal, .. } => write!(
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
            CommandError::OnlyCounted { key } => write!(
                f,
                "only increments of a counter and SADD and SREM of a set may change '{}', which \
                 has a bound, and only in causal transactions; nothing was changed",
                String::from_utf8_lossy(key.as_bytes())
            ),
            CommandError::Lost { site, missing } => {
                write!(
                    f,
                    "site {site} failed, and its last {} ms of updates are lost",
                    missing.as_millis()
                )
            }
        }
    }
}

impl std::error::Error for CommandError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_site_is_singular() {
        for (others, words) in [(0, "0 other sites take"), (1, "1 other site takes")] {
            let text = CommandError::TooFewSites { others, f: 2 }.to_string();
            assert_eq!(
                text,
                format!("{words} part, so nothing survives the loss of f = 2; add a site")
            );
        }
    }
}
