//! A store of the services: data types whose operations take a policy each. Another store, such as
//! Apache Cassandra, would implement the same trait.

use std::time::Duration;

use solera::{Error, Token};
use solera_levels::Level;

/// Policy of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
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
    pub(crate) fn name(self) -> String {
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
pub(crate) enum Read {
    /// A value, with its level.
    Value(i64, Level),
    /// The minimum and the maximum.
    Interval(i64, i64),
}

/// Result of taking a unit of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bought {
    /// Identifier of the unit, which no other client gets.
    One(String),
    SoldOut,
    CannotTell,
}

/// Consistency of what an operation has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Levels of values.
    pub(crate) levels: Vec<Level>,
    /// Minimum and maximum of intervals.
    pub(crate) intervals: Vec<(i64, i64)>,
}

impl Observed {
    pub(crate) fn note(&mut self, read: Read) {
        match read {
            Read::Value(_, level) => self.levels.push(level),
            Read::Interval(min, max) => self.intervals.push((min, max)),
        }
    }
}

/// Connection of a client. Names of objects are unique within their type.
pub(crate) trait IpaStoreSession: Sized + 'static {
    /// Adds to a counter.
    async fn add(&mut self, counter: &str, number: i64, policy: Policy) -> Result<(), Error>;

    /// Reads a counter.
    async fn read(&mut self, counter: &str, policy: Policy) -> Result<Read, Error>;

    /// Adds units to a pool.
    async fn grow(&mut self, pool: &str, units: u32, policy: Policy) -> Result<(), Error>;

    /// Takes one unit from a pool.
    async fn take(&mut self, pool: &str, policy: Policy) -> Result<Bought, Error>;

    /// Reads how many units are left in a pool.
    async fn left(&mut self, pool: &str, policy: Policy) -> Result<Read, Error>;

    /// Adds elements to a set, at once.
    async fn insert(&mut self, set: &str, elements: &[String], policy: Policy)
    -> Result<(), Error>;

    /// Reads the elements of a set, with the level of the read. Tolerances do not apply.
    async fn elements(&mut self, set: &str, policy: Policy) -> Result<(Vec<String>, Level), Error>;

    /// Reads the number of elements of a set.
    async fn size(&mut self, set: &str, policy: Policy) -> Result<Read, Error>;

    /// Appends an element to lists, at once.
    async fn push(&mut self, lists: &[String], element: &str, policy: Policy) -> Result<(), Error>;

    /// Reads the newest elements of a list, with the level of the read.
    async fn newest(
        &mut self,
        list: &str,
        most: u32,
        policy: Policy,
    ) -> Result<(Vec<String>, Level), Error>;

    /// Writes a text.
    async fn write(&mut self, name: &str, text: &str) -> Result<(), Error>;

    /// Reads a text weakly.
    async fn text(&mut self, name: &str) -> Result<Option<String>, Error>;

    /// Waits until a majority of the replicas has what this session has written. Returns a token
    /// with which other sessions see it, if the store has tokens.
    async fn settle(&mut self) -> Result<Option<Token>, Error>;
}
