use solera_time::{SiteId, Timestamp, Vector};

use crate::Value;

/// Identifies an effect: the commit timestamp of its transaction and the site that committed it.
///
/// Dots order effects totally, by timestamp and then by site; the order extends causality, because a
/// hybrid clock is past everything its transaction observed. It arbitrates between concurrent writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dot {
    /// The local timestamp of the transaction, `commitVec[d]` in UniStore.
    pub ts: Timestamp,
    /// The site that committed it.
    pub site: SiteId,
}

impl Dot {
    /// Whether a transaction that observed the snapshot `observed` observed this effect.
    pub fn seen_by(self, observed: &Vector) -> bool {
        self.ts <= observed[self.site]
    }
}

/// Where an effect comes from: its dot, and the snapshot that its transaction executed on.
///
/// A removal removes exactly what its transaction observed, so it needs no list of dots.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The transaction's dot.
    pub dot: Dot,
    /// The snapshot the transaction executed on; does not cover the transaction itself.
    pub observed: &'a Vector,
}

/// What one transaction does to one key, in canonical form: what it removes comes first, then what
/// it writes. A transaction's removals never touch its own earlier writes, because
/// [`Effect::then`] drops those when the removal is added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// Removes everything the transaction observed at this key (DEL, and SET before it writes).
    pub clear: bool,
    /// Changes the key's string: a register, with a counter on top.
    pub cell: CellChange,
    /// Changes the key's set.
    pub set: Option<Box<SetChange>>,
    /// Changes the key's hash.
    pub hash: Option<Box<HashChange>>,
}

/// A change of one register with a counter on top (a string key, or a field of a hash).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellChange {
    /// Assigns the register, after removing all that was observed in the cell.
    pub assign: Option<Value>,
    /// Adds to the counter; `Some(0)` creates it.
    pub add: Option<i64>,
}

/// A change of an add-wins set. `removed` and `added` may share elements: then the element's
/// observed adds are superseded and it stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetChange {
    /// Elements whose observed adds are removed.
    pub removed: Vec<Value>,
    /// Elements that are added.
    pub added: Vec<Value>,
}

/// A change of a hash: for each field whether what was observed in it is removed, and then the
/// change of its cell. Each field occurs at most once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HashChange {
    /// `(field, remove what was observed, then change the cell)`.
    pub fields: Vec<(Value, bool, CellChange)>,
}
