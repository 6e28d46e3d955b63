//! Configuration of a worker.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use solera_machine::{Address, PartitionId, Topology, Without};
use solera_time::SiteId;

/// Guarantee that the machine maintains for the counters below a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Intervals of the value within a tolerance.
    Error(Policy),
    /// Intervals of the number of elements of a set within a tolerance.
    Size(Policy),
    /// Updates do not make the value negative (B1 to B6).
    Rights,
}

impl Bound {
    /// Returns which of the bounds it is.
    pub fn kind(&self) -> BoundKind {
        match self {
            Bound::Error(_) => BoundKind::Error,
            Bound::Size(_) => BoundKind::Size,
            Bound::Rights => BoundKind::Rights,
        }
    }
}

/// Which of the [`Bound`]s a prefix has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum BoundKind {
    /// [`Bound::Error`].
    Error,
    /// [`Bound::Rights`].
    Rights,
    /// [`Bound::Size`].
    Size,
}

/// Error bound of the counters below a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Greatest width of an interval, in millionths of its least distance from 0.
    pub tolerance_ppm: u32,
    /// Number of tokens that a key may have even if its floor does not permit so many. Readers
    /// then answer when the holders have ended their epochs.
    pub spare: u32,
    /// Time for which a site keeps a grant that it does not use, and for which a transaction keeps
    /// tokens before its guard has promised.
    pub lease: Duration,
}

impl Policy {
    /// Returns the width that an interval between these values may have: 0 around zero.
    pub fn width(&self, least: i128, greatest: i128) -> u128 {
        if least <= 0 && greatest >= 0 {
            return 0;
        }
        let nearest = least.unsigned_abs().min(greatest.unsigned_abs());
        nearest.saturating_mul(self.tolerance_ppm.into()) / 1_000_000
    }

    /// Returns the number of tokens that a floor permits without making an interval too wide.
    pub fn capacity(&self, floor: Option<i64>) -> u128 {
        let floor = i128::from(floor.unwrap_or(0)).max(0);
        self.width(floor, floor)
    }

    /// Returns the greatest number of tokens that a key with this floor may have (S1).
    pub fn room(&self, floor: Option<i64>) -> u128 {
        self.capacity(floor).max(self.spare.into())
    }
}

/// Intervals and timeouts of a worker.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// Time for which a renewal gives a reader the right to answer, by the reader's clock.
    pub right: Duration,
    /// Time without a renewal after which a reader is excluded, by the excluder's clock. While a
    /// clock advances by this time, every other one must advance by at least `right`.
    pub exclusion: Duration,
    /// Longest time between two reports.
    pub report: Duration,
    /// Shortest time between two reports to a site that waits for them.
    pub spacing: Duration,
    /// Time without an effect after which a message is sent again.
    pub retry: Duration,
    /// Interval of the worker's timer.
    pub tick: Duration,
    /// Time after a request of a client for which a site renews its right.
    pub keep: Duration,
    /// Time for which a guard waits for the tokens of a transaction before it refuses it.
    pub patience: Duration,
    /// Time for which a transaction keeps rights before its guard has promised.
    pub hold: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            right: Duration::from_secs(3),
            exclusion: Duration::from_secs(6),
            report: Duration::from_millis(200),
            spacing: Duration::from_millis(2),
            retry: Duration::from_millis(200),
            tick: Duration::from_millis(20),
            keep: Duration::from_secs(30),
            patience: Duration::from_secs(2),
            hold: Duration::from_secs(5),
        }
    }
}

/// A rule that a test takes out, to prove that the checks detect its absence. The letters are those
/// of `docs/models/reservations`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A holder uses tokens when every reader has confirmed the grant (H1).
    Confirm,
    /// A used token is free again when every reader has seen its update (H4).
    Recycling,
    /// Increments and decrements do not cancel out (H4).
    SeparatePools,
    /// All tokens together fit the floor (S1).
    Capacity,
    /// A reader does not answer with an interval that is too wide.
    Width,
    /// Decrements do not go below the floor (H5).
    Floor,
    /// A holder uses a lower floor when every reader has confirmed it (H3).
    ConfirmFloor,
    /// Holders respect a higher floor before it is in force (H3).
    RespectRaise,
    /// A higher floor is in force when all holders of decrements respect it (S5).
    RaiseAfterHolders,
    /// A higher floor is in force when the value cannot be below it (S5).
    RaiseBelowValue,
    /// A higher floor is in force when enough sites store the updates on which it depends (S5).
    RaiseStored,
    /// The guard refuses a transaction whose token belongs to an ended epoch (H6).
    CheckAtCommit,
    /// The guard refuses a token that was taken back.
    TakeBack,
    /// The guard refuses a decrement while the site's lease has ended (H6).
    LeaseAtCommit,
    /// The guard refuses a decrement that was taken under another right (H6).
    TermAtCommit,
    /// A site stops under an epoch only when none of its promises is open (H7).
    EndAfterPromises,
    /// A site that has stopped under an epoch remembers it after a restart (H7).
    DurableStops,
    /// A grant counts until every reader has seen that its holder has stopped under it (S2).
    ReclaimAfterEnd,
    /// A site counts its own promises as outstanding (R2).
    CountPromises,
    /// A site counts tokens that an update uses until the update is in its stream (R2, H4, H7).
    CountSpent,
    /// A restarted site counts its updates that are not in its stream yet.
    RestoreCommits,
    /// A reader does not answer after its lease (R4).
    ReaderLease,
    /// A reader is excluded only when its lease has certainly ended (S3).
    WaitForLease,
    /// A restarted reader has no lease (L1).
    LeaseIsVolatile,
    /// A lease counts from when the renewal was sent, and only the process that has sent it knows
    /// this (Renew).
    LeaseFromSending,
    /// A version is durable before a site confirms it (L1).
    DurableCopies,
    /// A promise is durable (L1).
    DurablePromises,
    /// A pin is durable (S4).
    DurablePins,
    /// A site answers when it has seen what its sponsor had seen (R3).
    SeeSponsorsVector,
    /// A sponsor's reports stay as they are from the offer to the admission (R5).
    PinReports,
    /// A sponsor's reports to a holder that does not count the admitted site stay as they are (R5).
    CapReports,
    /// They stay until the holder has confirmed the admission, also if it does not last so long
    /// (R5).
    CapUntilConfirmed,
    /// Offers end with the sponsor's next renewal (S4).
    EndOffers,
    /// A reader whose lease has ended is excluded (S3).
    Exclude,
    /// An idle holder stops under its epoch (H7).
    EndWhenIdle,
    /// A site is removed only when it has no right any more (S6).
    RemoveAfterExclusion,
    /// Tokens of a removed site count until the reader has what remains of its stream (R1).
    CountUntilCut,
    /// Reports of a removed site do not count for its later generations (H4).
    ForgetReports,
    /// All readers lose the right only when their leases have certainly ended (S7).
    CloseAfterLeases,
    /// Readers are founded when all sites know that there are none, and have stopped (S7).
    FoundAfterEnds,
    /// A holder stops when a reader waits because of tokens that do not fit the floor.
    EndForReader,
    /// The host reports the end of a committed transaction when the site's stream contains its
    /// updates.
    EndAfterStream,
    /// The host keeps its histories until the machine has read them.
    KeepUnread,
    /// Rights that were promised or are being given are not available (B2, B3).
    KeepPromised,
    /// A site that gives rights does not have them any more (B3).
    SubtractGiven,
    /// A site has no rights of its earlier generations (B4).
    BurnRemoved,
    /// Sites are counted twice, so that nothing can move unseen between two of them (B6).
    CountTwice,
    /// The snapshot of a transaction contains what its rights depend on (B1).
    RightsInSnapshot,
    /// A count includes updates that have not reached the stream (B6).
    CountOpen,
    /// The host reads the size of a set. It is not the sum of the changes, because sites may add or
    /// remove the same element concurrently.
    ReadSizes,
    /// A floor of a size does not depend on updates that are not in the site's stream yet (S5).
    StoredSizes,
}

/// Configuration of a worker.
#[derive(Clone, Debug)]
pub struct Config {
    /// The worker.
    pub address: Address,
    /// The cluster's shape; the same everywhere.
    pub topology: Arc<Topology>,
    /// Number of sites with which the cluster began. They are the first readers.
    pub founders: usize,
    /// Generation of its site to which the worker belongs. In any generation but the first, the
    /// worker has no data at its first start, and gets them from another site.
    pub generation: u32,
    /// Number of sites that must store an update before a floor depends on it. Removals of fewer
    /// sites at a time must not lose what so many sites store.
    pub copies: usize,
    /// Prefixes of keys, the longest first, with their bounds if they have one. Other keys have
    /// none.
    pub bounds: Arc<[(Vec<u8>, Option<Bound>)]>,
    /// Number of this start of the worker's process, unless its journal has a greater one. A later
    /// start has a greater number.
    pub incarnation: u64,
    /// Whether to emit records.
    pub journal: bool,
    /// Intervals and timeouts.
    pub timing: Timing,
    /// Rule that a test takes out.
    pub without: Without<Rule>,
}

impl Config {
    /// Returns the configuration of a worker with usual timing.
    pub fn new(address: Address, topology: Arc<Topology>) -> Config {
        Config {
            address,
            founders: topology.sites(),
            generation: 0,
            copies: topology.sites() / 2 + 1,
            topology,
            bounds: Arc::new([]),
            incarnation: 1,
            journal: true,
            timing: Timing::default(),
            without: Without::default(),
        }
    }

    /// Returns whether a rule is in force.
    pub(crate) fn has(&self, rule: Rule) -> bool {
        self.without.keeps(rule)
    }

    /// Returns the bound of a key; `None` if it has none.
    pub fn bound(&self, key: &[u8]) -> Option<Bound> {
        let found = self.bounds.iter().find(|(prefix, _)| key.starts_with(prefix));
        found.and_then(|(_, bound)| *bound)
    }

    /// Returns the error bound of a key; `None` if it has none.
    pub fn policy(&self, key: &[u8]) -> Option<Policy> {
        match self.bound(key) {
            Some(Bound::Error(policy) | Bound::Size(policy)) => Some(policy),
            Some(Bound::Rights) | None => None,
        }
    }

    /// Returns whether some keys have error bounds.
    pub(crate) fn has_error_bounds(&self) -> bool {
        let errors = |bound: Bound| matches!(bound, Bound::Error(_) | Bound::Size(_));
        self.bounds.iter().any(|(_, bound)| bound.is_some_and(errors))
    }

    /// Returns whether decrements of some keys need rights.
    pub(crate) fn has_hard_bounds(&self) -> bool {
        self.bounds.iter().any(|(_, bound)| *bound == Some(Bound::Rights))
    }

    /// Returns whether decrements of a key need rights.
    pub(crate) fn has_rights(&self, key: &[u8]) -> bool {
        self.bound(key) == Some(Bound::Rights)
    }

    /// Returns the time for which a transaction keeps tokens or rights of a key before its guard
    /// has promised.
    pub(crate) fn hold(&self, key: &[u8]) -> Duration {
        self.policy(key).map_or(self.timing.hold, |policy| policy.lease)
    }

    /// Returns the prefixes of keys with bounds, in order.
    pub(crate) fn prefixes(&self) -> Vec<(Vec<u8>, BoundKind)> {
        let all = self.bounds.iter();
        let bounded = all.filter_map(|(prefix, it)| Some((prefix.clone(), it.as_ref()?.kind())));
        let mut prefixes: Vec<_> = bounded.collect();
        prefixes.sort();
        prefixes
    }

    /// Returns the partition of a key.
    pub fn partition_of(&self, key: &[u8]) -> PartitionId {
        PartitionId::of(key, self.topology.partitions)
    }

    /// Returns the number of sites.
    pub(crate) fn sites(&self) -> usize {
        self.topology.sites()
    }

    pub(crate) fn me(&self) -> SiteId {
        self.address.site
    }
}
