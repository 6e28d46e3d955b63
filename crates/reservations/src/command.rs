//! Commands, their replies, and questions to the host.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use solera_machine::{GuardAnswer, GuardQuestion, PartitionId, codec};
use solera_time::{SiteId, Vector};

use crate::agreed::{Change, Key};
use crate::numbers::{Epoch, Nonce, Position, Tokens, Version};
use crate::rights::Gift;

/// An entry of a site's stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// An update of the key by this amount. Those that create rights are
    /// [`Created`](Self::Created).
    Update(i64),
    /// The site has stopped under this epoch of the key and all earlier ones.
    Ended(Epoch),
    /// The site gives rights to another one (B3). The vector is what a snapshot must contain to
    /// contain the gift.
    Given(Gift, Box<Vector>),
    /// An update that creates rights (B5): its amount, and what a snapshot must contain to contain
    /// the update.
    Created(u64, Box<Vector>),
    /// An update of a set whose size has a bound: the tokens that it uses, and the size of the set
    /// with all updates in the site's streams so far. The size may contain later updates, too: the
    /// tokens of these are in use, so an interval around it contains the size without them.
    Resized(Tokens, u64),
}

/// An entry with its place. Entries of one transaction have the same position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// Position in the stream.
    pub position: Position,
    /// The key.
    pub key: Key,
    /// The entry.
    pub entry: Entry,
}

/// Identifies tokens that a transaction has taken. See [`Claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TakeId(pub Nonce);

/// A command of a client or of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// From the host: the site has more of a stream. The host reports the updates of a transaction
    /// of its own site before it reports the end of the transaction to the guard. Entries that the
    /// machine has already have no effect.
    ///
    /// Entries survive a restart. A prefix that no entries have reached need not:
    /// [`known`](crate::Reservations::known) may be lower afterwards, and the host continues there.
    /// The machine does not take what a removed site has in its stream beyond what remains, until
    /// the record says that a later generation of the site takes part. The host then continues at
    /// `known`, too.
    Stream {
        /// The partition.
        partition: PartitionId,
        /// The site whose stream it is.
        origin: SiteId,
        /// The entries follow this position; between them and it are no others.
        after: Position,
        /// The entries in order.
        entries: Vec<Placed>,
        /// The site now has everything up to this position.
        upto: Position,
    },
    /// From the host: the next version of the record. The strong history orders the changes, and
    /// each site passes all of them to its machine. The machine decides whether a change takes
    /// effect; the version counts in both cases. A version that the machine has already has no
    /// effect.
    Changed {
        /// The partition.
        partition: PartitionId,
        /// The version before it.
        previous: Version,
        /// The version.
        version: Version,
        /// The version from which the change was derived ([`Question::Change`]).
        read: Version,
        /// The change.
        change: Change,
    },
    /// From the host: after the last version that the machine has, there is no change up to this
    /// one.
    Unchanged {
        /// The partition.
        partition: PartitionId,
        /// The version.
        upto: Version,
    },
    /// From the host: the members have agreed what remains of the stream of a site that the list of
    /// members says is leaving or removed. The host repeats it after a restart, until
    /// [`Agreed::is_removed`](crate::Agreed::is_removed) is true for the site's generation.
    Remove {
        /// The partition.
        partition: PartitionId,
        /// The site.
        site: SiteId,
        /// The last position that remains.
        upto: Position,
    },
    /// From the host: its streams and its strong history reach back to the state that the machine
    /// has got from another site, and from now on the host keeps what the machine has not read.
    Continues {
        /// The partition.
        partition: PartitionId,
    },
    /// From the host: its streams or its strong history do not reach back to what the machine has.
    /// The machine gets the state of another site again.
    Lacks {
        /// The partition.
        partition: PartitionId,
    },
    /// Take tokens for an update by `amount`.
    Take {
        /// The counter.
        key: Key,
        /// The amount, negative for a decrement.
        amount: i64,
        /// Time after which the request fails.
        within: Duration,
    },
    /// Give back tokens that no transaction uses.
    GiveBack {
        /// The counter.
        key: Key,
        /// The tokens.
        take: TakeId,
    },
    /// Read an interval that contains the value.
    Interval {
        /// The counter.
        key: Key,
        /// Time after which the request fails.
        within: Duration,
    },
    /// A question of another protocol of the worker, about a transaction with tokens.
    Guard(GuardQuestion),
    /// Read which sites have tokens or rights of a key.
    Holders {
        /// The counter.
        key: Key,
        /// Time for which the site waits for others.
        within: Duration,
    },
}

/// Times after which a site gives up what it has for a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expiry {
    /// Time until its lease to answer intervals ends unless it is renewed; `None` without one.
    pub lease: Option<Duration>,
    /// Time until it gives up its tokens unless it uses some; `None` if it has none, or has not
    /// used them since its start.
    pub unused: Option<Duration>,
}

impl Expiry {
    /// Returns the times that are left after `passed`.
    pub(crate) fn after(self, passed: Duration) -> Expiry {
        let left = |time: Option<Duration>| time.map(|time| time.saturating_sub(passed));
        Expiry { lease: left(self.lease), unused: left(self.unused) }
    }
}

/// A site with tokens or rights of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Holder {
    /// A site of a key with an error bound.
    Tokens {
        /// The site.
        site: SiteId,
        /// Its tokens.
        tokens: Tokens,
        /// Whether it may answer intervals while its lease lasts.
        answers: bool,
        /// When it gives them up. Nothing is known of a site that has not answered in time.
        expiry: Expiry,
    },
    /// A site of a key with rights.
    Rights {
        /// The site.
        site: SiteId,
        /// Its rights when it last reported them; `None` if it has not.
        rights: Option<u64>,
        /// Time since then.
        age: Duration,
    },
}

impl Holder {
    /// Returns the site.
    pub fn site(&self) -> SiteId {
        match self {
            Holder::Tokens { site, .. } | Holder::Rights { site, .. } => *site,
        }
    }
}

/// Reason why a request fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Cannot {
    /// The key has no error bound.
    NoPolicy,
    /// The amount is 0.
    Nothing,
    /// The value of the counter permits no more than `most` tokens to a site.
    TooMany {
        /// The number of tokens.
        most: u64,
    },
    /// All tokens of the site are in use, or the site could not get some in time.
    NoTokens,
    /// The value may be too near the least value on which the sites have agreed.
    AtFloor,
    /// This site may not answer alone.
    NotReader {
        /// Sites that may.
        readers: Vec<SiteId>,
    },
    /// This site may answer alone, and has not received yet what its sponsor had.
    Behind,
    /// The site's right to answer was not renewed in time, because it is cut off.
    NoLease,
    /// The interval would be wider than the tolerance.
    TooWide {
        /// Least value.
        least: i64,
        /// Greatest value.
        greatest: i64,
    },
    /// Too few rights are left at all sites together.
    SoldOut {
        /// Most that may be left.
        left: u64,
    },
    /// The site has too few rights, and some site that may have more did not answer in time.
    Uncounted,
    /// The value may be beyond 64 bits.
    OutOfRange,
}

/// The reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// To [`Command::Stream`]: how much of the stream the machine has.
    Position(Position),
    /// To [`Command::Changed`] and [`Command::Unchanged`]: the version that the machine has.
    Version(Version),
    /// To [`Command::Remove`].
    Removing,
    /// To [`Command::Continues`].
    Continues,
    /// To [`Command::Lacks`].
    Emptied,
    /// To [`Command::Take`]: the tokens, which the transaction lists as a [`Claim`].
    Taken(TakeId),
    /// To [`Command::GiveBack`]: whether the tokens were taken still.
    GivenBack(bool),
    /// To [`Command::Interval`]. Bounds beyond 64 bits are cut.
    Interval {
        /// Least value.
        least: i64,
        /// Greatest value.
        greatest: i64,
    },
    /// To [`Command::Take`] and [`Command::Interval`]: why the request fails.
    Cannot(Cannot),
    /// To [`Command::Guard`].
    Guard(GuardAnswer),
    /// To [`Command::Holders`]: the sites in order.
    Holders(Vec<Holder>),
}

/// A question to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Append a change of the record to the strong history. It conflicts with nothing there, and
    /// arrives as [`Command::Changed`].
    Change {
        /// The partition.
        partition: PartitionId,
        /// Version from which the change was derived.
        read: Version,
        /// The change.
        change: Change,
    },
    /// Write [`Entry::Ended`] into the site's stream, after all that is in it. It arrives as
    /// [`Command::Stream`].
    End {
        /// The partition.
        partition: PartitionId,
        /// The key.
        key: Key,
        /// The epoch.
        epoch: Epoch,
    },
    /// Write [`Entry::Given`] into the site's stream. It arrives as [`Command::Stream`].
    Give {
        /// The partition.
        partition: PartitionId,
        /// The key.
        key: Key,
        /// The rights.
        gift: Gift,
        /// Causal past of the gift; `None` if it depends on nothing.
        past: Option<Vector>,
    },
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The change has this version in the strong history, whether it takes effect or not.
    Decided(Version),
    /// The change may be in the strong history or not, now or later. To [`Question::Give`]: the
    /// entry may be in the stream, now or later.
    Unknown,
    /// To [`Question::End`]: the entry is in the stream.
    Ended,
    /// To [`Question::Give`]: the entry was not written and will not be.
    NotGiven,
}

/// The claim of a transaction's guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Claim {
    /// The sums of the increments and of the decrements that the transaction makes to the key. The
    /// guard takes them when it is asked for the reservation.
    Tokens(Tokens),
    /// Tokens that were taken with [`Command::Take`].
    Take(TakeId),
}

impl Claim {
    /// Encodes the claim.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        codec::append(self, &mut bytes);
        bytes
    }

    /// Decodes a claim; `None` if the bytes are not the encoding of one.
    pub fn decode(bytes: &[u8]) -> Option<Claim> {
        let (claim, rest): (Claim, _) = codec::take(bytes)?;
        (rest.is_empty() && claim.encode() == bytes).then_some(claim)
    }
}

/// Beginning of the reason of [`Cannot::SoldOut`], by which clients recognize it in a refusal.
pub const SOLD_OUT: &str = "sold out";

impl fmt::Display for Cannot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cannot::NoPolicy => write!(f, "the key has no bound"),
            Cannot::Nothing => write!(f, "the amount is 0"),
            Cannot::TooMany { most } => {
                write!(
                    f,
                    "the update needs more than the {most} tokens that the value permits now, and other sites \
                     hold some of them"
                )
            }
            Cannot::NoTokens => write!(
                f,
                "the site got no tokens in time: all are in use or held by other sites, or a site \
                 that must confirm them does not answer"
            ),
            Cannot::AtFloor => write!(
                f,
                "the value may be too near the floor on which the sites have agreed, and the floor \
                 was not lowered in time"
            ),
            Cannot::NotReader { .. } => {
                write!(f, "this site may not answer alone; ask a site that has the right")
            }
            Cannot::Behind => {
                write!(f, "this site has not received yet what it needs to answer alone")
            }
            Cannot::NoLease => {
                write!(f, "this site's right to answer alone was not renewed: it is cut off")
            }
            Cannot::TooWide { least, greatest } => write!(
                f,
                "the value is between {least} and {greatest}, which is wider than the tolerance"
            ),
            Cannot::SoldOut { left } => {
                write!(f, "{SOLD_OUT}: at most {left} are left at all sites together")
            }
            Cannot::Uncounted => write!(
                f,
                "this site has too few rights, and got none in time: another site may have some, \
                 and did not answer or uses them"
            ),
            Cannot::OutOfRange => write!(f, "the value may be beyond 64 bits"),
        }
    }
}
