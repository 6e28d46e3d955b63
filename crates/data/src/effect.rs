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
    /// Of the reading transaction's own writes, which come after everything it sees.
    pub(crate) fn own() -> Dot {
        Dot { ts: Timestamp::MAX, site: SiteId(u8::MAX) }
    }
}

/// What a transaction observed of one key: the effects within its snapshot.
///
/// A snapshot holds the transactions whose whole commit vector it covers. A dot alone tells less: a
/// transaction may be old enough and still depend on something outside. Those few on the key are
/// listed apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    observed: &'a Vector,
    unseen: &'a [Dot],
}

impl Seen<'_> {
    pub(crate) fn contains(self, dot: Dot) -> bool {
        dot.ts <= self.observed[dot.site] && !self.unseen.contains(&dot)
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
    /// Effects on the key that are as old as the snapshot but not within it; see
    /// [`View::with_pending`](crate::View::with_pending). Nearly always empty.
    pub unseen: Vec<Dot>,
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

impl Effect {
    /// This effect followed by `later`, of the same transaction. A later removal drops what the
    /// transaction itself wrote before, and keeps what it removed.
    pub fn then(mut self, later: Effect) -> Effect {
        for dot in &later.unseen {
            if !self.unseen.contains(dot) {
                self.unseen.push(*dot);
            }
        }
        if later.clear {
            return Effect { unseen: self.unseen, ..later };
        }
        self.cell = self.cell.then(later.cell);
        if let Some(later) = later.set {
            let set = self.set.get_or_insert_default();
            set.append(*later);
        }
        if let Some(later) = later.hash {
            let hash = self.hash.get_or_insert_default();
            hash.append(*later);
        }
        self
    }

    pub(crate) fn seen<'a>(&'a self, context: Context<'a>) -> Seen<'a> {
        Seen { observed: context.observed, unseen: &self.unseen }
    }
}

impl CellChange {
    /// Whether the change changes nothing.
    pub fn is_noop(&self) -> bool {
        self.assign.is_none() && self.add.is_none()
    }

    fn then(self, later: CellChange) -> CellChange {
        if later.assign.is_some() {
            return later;
        }
        match (self.add, later.add) {
            (earlier, Some(more)) => {
                let add = Some(earlier.unwrap_or(0).saturating_add(more));
                CellChange { assign: self.assign, add }
            }
            (earlier, None) => CellChange { assign: self.assign, add: earlier },
        }
    }
}

impl SetChange {
    fn append(&mut self, later: SetChange) {
        self.added.retain(|element| !later.removed.contains(element));
        for element in later.removed {
            if !self.removed.contains(&element) {
                self.removed.push(element);
            }
        }
        for element in later.added {
            if !self.added.contains(&element) {
                self.added.push(element);
            }
        }
    }
}

impl HashChange {
    fn append(&mut self, later: HashChange) {
        for (field, removes, change) in later.fields {
            match self.fields.iter_mut().find(|(other, ..)| *other == field) {
                Some((_, removed, earlier)) if removes => {
                    *removed = true;
                    *earlier = change;
                }
                Some((_, _, earlier)) => *earlier = std::mem::take(earlier).then(change),
                None => self.fields.push((field, removes, change)),
            }
        }
    }
}
