//! The store of the experiments: data types whose operations take a policy each. Another store,
//! such as Apache Cassandra, would implement the same traits.

use std::time::Duration;

use solera_levels::Level;

use crate::error::BenchError;

/// Policy of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// The strongest level of the store.
    Strong,
    /// A weak level, of reads and updates.
    Weak,
    /// Reads return the strongest value that arrives in time. Updates of counters are strong, and
    /// those of other types are weak.
    Within(Duration),
    /// Reads return intervals with this tolerance, in percent.
    Tolerance(u32),
}

impl Policy {
    pub(super) fn name(self) -> String {
        match self {
            Policy::Strong => "strong".to_owned(),
            Policy::Weak => "weak".to_owned(),
            Policy::Within(bound) => format!("{} ms bound", bound.as_millis()),
            Policy::Tolerance(percents) => format!("{percents}% error"),
        }
    }
}

/// Result of reading a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// A value, with its level.
    Value(i64, Level),
    /// The minimum and the maximum.
    Interval(i64, i64),
}

/// Result of taking a unit of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bought {
    One,
    SoldOut,
    CannotTell,
}

/// An operation that has failed: the store's text.
#[derive(Clone, Debug)]
pub(super) struct Failure(pub(super) String);

/// A store with replicas.
pub(super) trait Store {
    type Session: IpaStoreSession;

    /// Connects the client with this number. Half of the clients are near one replica, and half
    /// near another.
    async fn connect(&self, client: usize) -> Result<Self::Session, BenchError>;

    /// Connects to the replica of such a client without delays, to load data.
    async fn connect_beside(&self, client: usize) -> Result<Self::Session, BenchError>;
}

/// Connection of a client. Names of objects are unique within their type.
pub(super) trait IpaStoreSession: Sized + 'static {
    /// Adds to a counter.
    async fn add(&mut self, counter: &str, number: i64, policy: Policy) -> Result<(), Failure>;

    /// Reads a counter.
    async fn read(&mut self, counter: &str, policy: Policy) -> Result<Read, Failure>;

    /// Adds units to a pool.
    async fn grow(&mut self, pool: &str, units: u32, policy: Policy) -> Result<(), Failure>;

    /// Takes one unit from a pool.
    async fn take(&mut self, pool: &str, policy: Policy) -> Result<Bought, Failure>;

    /// Reads how many units are left in a pool.
    async fn left(&mut self, pool: &str, policy: Policy) -> Result<Read, Failure>;

    /// Adds elements to a set, at once.
    async fn insert(
        &mut self,
        set: &str,
        elements: &[String],
        policy: Policy,
    ) -> Result<(), Failure>;

    /// Reads the elements of a set, with the level of the read. Tolerances do not apply.
    async fn elements(
        &mut self,
        set: &str,
        policy: Policy,
    ) -> Result<(Vec<String>, Level), Failure>;

    /// Reads the number of elements of a set.
    async fn size(&mut self, set: &str, policy: Policy) -> Result<Read, Failure>;

    /// Appends an element to lists, at once.
    async fn push(
        &mut self,
        lists: &[String],
        element: &str,
        policy: Policy,
    ) -> Result<(), Failure>;

    /// Reads the newest elements of a list, with the level of the read.
    async fn newest(
        &mut self,
        list: &str,
        most: u32,
        policy: Policy,
    ) -> Result<(Vec<String>, Level), Failure>;

    /// Writes a text.
    async fn write(&mut self, name: &str, text: &str) -> Result<(), Failure>;

    /// Reads a text weakly.
    async fn text(&mut self, name: &str) -> Result<Option<String>, Failure>;

    /// Waits until a majority of the replicas has what this session has written.
    async fn settle(&mut self) -> Result<(), Failure>;
}
