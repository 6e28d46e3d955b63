//! The versions of registers (Creek §4.4). Snapshots share them and cost nothing to take.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use rpds::{HashTrieMapSync, RedBlackTreeMapSync};
use serde::Serialize;
use solera_machine::codec;

use crate::object::{Access, Add, RegisterKey};
use crate::order::OrderPlace;

/// Name of a register, shared by everything that refers to it.
pub(crate) type Name = Arc<[u8]>;

/// A persistent map of registers. Its order is the same in each run.
type Named<V> = HashTrieMapSync<Name, V, BuildHasherDefault<DefaultHasher>>;

/// Value of a register; `None` if it has none.
pub(crate) type Held<V> = Option<Arc<V>>;

/// Values of registers.
pub(crate) type Values<V> = BTreeMap<Name, Held<V>>;

/// Change of a register by an operation.
pub(crate) enum Version<V> {
    /// The operation has set the register.
    Set(Held<V>),
    /// The operation has added a change to the value of the register.
    Merge(Arc<V>, Add<V>),
}

/// Changes of registers by an operation.
pub(crate) type Writes<V> = BTreeMap<Name, Version<V>>;

impl<V> Clone for Version<V> {
    fn clone(&self) -> Version<V> {
        match self {
            Version::Set(value) => Version::Set(value.clone()),
            Version::Merge(change, add) => Version::Merge(Arc::clone(change), *add),
        }
    }
}

impl<V> fmt::Debug for Version<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Version::Set(_)) { "Set" } else { "Merge" })
    }
}

impl<V: Clone + PartialEq> Version<V> {
    /// Returns the value of a register after this version, from the value before it.
    fn after(&self, before: Held<V>) -> Held<V> {
        match self {
            Version::Set(value) => value.clone(),
            Version::Merge(change, add) => {
                Some(Arc::new(add(before.map(Arc::unwrap_or_clone), change)))
            }
        }
    }

    fn is_same(&self, other: &Version<V>) -> bool {
        match (self, other) {
            (Version::Set(a), Version::Set(b)) => is_same(a, b),
            (Version::Merge(a, _), Version::Merge(b, _)) => a == b,
            _ => false,
        }
    }
}

/// Values of the registers after the final operations, and the versions that all later operations
/// have written.
///
/// The maps are persistent: a clone takes constant time, and later changes do not show in it.
#[derive(Clone, Debug)]
pub(crate) struct Store<V> {
    base: Named<Arc<V>>,
    /// Versions of each register, by the places of the operations that have written them.
    versions: Named<RedBlackTreeMapSync<OrderPlace, Version<V>>>,
    /// Bytes of the names and of the encodings of the values in `base`.
    bytes: usize,
    /// Number of registers in `base` that are keys of clients.
    keys: usize,
    is_key: fn(&[u8]) -> bool,
}

/// The versions before the place of an operation, as they were when the snapshot was taken. With
/// them, the values that the operation has read, and its writes.
#[derive(Debug)]
pub(crate) struct Snapshot<V> {
    store: Store<V>,
    place: OrderPlace,
    reads: RefCell<Values<V>>,
    writes: Writes<V>,
}

/// Values of the registers after the final operations, at the time when the struct was made.
pub struct Registers<V> {
    left: Named<Arc<V>>,
}

impl<V> fmt::Debug for Registers<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registers").field("left", &self.left.size()).finish()
    }
}

impl<V: Clone> Registers<V> {
    /// Returns whether no registers are left.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Removes and returns the first registers, at most `count`.
    pub fn take(&mut self, count: usize) -> Vec<(RegisterKey, V)> {
        let some: Vec<_> = self.left.iter().take(count).map(|(name, _)| name.clone()).collect();
        let take = |name: Name| {
            let value = self.left.get(&name).map(|value| V::clone(value));
            self.left.remove_mut(&name);
            value.map(|value| (name.to_vec(), value))
        };
        some.into_iter().filter_map(take).collect()
    }
}

impl<V> FromIterator<(RegisterKey, V)> for Registers<V> {
    fn from_iter<I: IntoIterator<Item = (RegisterKey, V)>>(registers: I) -> Registers<V> {
        let registers = registers.into_iter();
        let mut left = named();
        registers.for_each(|(name, value)| left.insert_mut(Name::from(name), Arc::new(value)));
        Registers { left }
    }
}

fn named<V>() -> Named<V> {
    HashTrieMapSync::new_with_hasher_and_ptr_kind(BuildHasherDefault::default())
}

/// Returns whether two values are equal.
pub(crate) fn is_same<V: PartialEq>(a: &Held<V>, b: &Held<V>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
        (None, None) => true,
        _ => false,
    }
}

impl<V: Clone + PartialEq + Serialize> Store<V> {
    /// Creates a store without registers. Those that `is_key` names are keys of clients.
    pub(crate) fn new(is_key: fn(&[u8]) -> bool) -> Store<V> {
        Store { base: named(), versions: named(), bytes: 0, keys: 0, is_key }
    }

    /// Returns the shared name of a register.
    pub(crate) fn name(&self, key: &[u8]) -> Name {
        let known = self.versions.get_key_value(key).map(|(name, _)| name);
        let known = known.or_else(|| self.base.get_key_value(key).map(|(name, _)| name));
        known.map_or_else(|| Arc::from(key), Arc::clone)
    }

    /// Returns the value of a register that an operation at a place reads.
    pub(crate) fn read(&self, key: &[u8], place: OrderPlace) -> Held<V> {
        let mut merges = Vec::new();
        let versions = self.versions.get(key).map(|versions| versions.range(..place));
        for (_, version) in versions.into_iter().flatten().rev() {
            match version {
                Version::Set(value) => return sum(value.clone(), &merges),
                Version::Merge(..) => merges.push(version),
            }
        }
        sum(self.base.get(key).cloned(), &merges)
    }

    /// Returns the place of the first version after a place that sets a register.
    pub(crate) fn next_set(&self, name: &Name, place: OrderPlace) -> Option<OrderPlace> {
        let after = (std::ops::Bound::Excluded(place), std::ops::Bound::Unbounded);
        let mut versions = self.versions.get(name)?.range(after);
        versions.find(|(_, version)| matches!(version, Version::Set(_))).map(|(place, _)| *place)
    }

    /// Returns the places before a place at which there are versions of a register, from the last
    /// one on.
    pub(crate) fn places_before(
        &self,
        name: &Name,
        place: OrderPlace,
    ) -> impl Iterator<Item = OrderPlace> + use<'_, V> {
        let versions = self.versions.get(name).map(|versions| versions.range(..place));
        versions.into_iter().flatten().rev().map(|(place, _)| *place)
    }

    /// Sets or removes the version of a register at a place. Returns whether that is a change.
    pub(crate) fn change(
        &mut self,
        name: &Name,
        place: OrderPlace,
        value: Option<Version<V>>,
    ) -> bool {
        let present = self.versions.get(name).and_then(|versions| versions.get(&place));
        match (present, value) {
            (None, None) => return false,
            (Some(present), Some(value)) if present.is_same(&value) => return false,
            (_, Some(value)) => match self.versions.get_mut(name) {
                Some(versions) => versions.insert_mut(place, value),
                None => {
                    let versions = RedBlackTreeMapSync::new_sync().insert(place, value);
                    self.versions.insert_mut(Arc::clone(name), versions);
                }
            },
            (Some(_), None) => drop(self.take(name, place)),
        }
        true
    }

    /// Moves the version of a register to another place.
    pub(crate) fn relocate(&mut self, name: &Name, from: OrderPlace, to: OrderPlace) {
        let Some(versions) = self.versions.get_mut(name) else { return };
        if let Some(version) = versions.get(&from).cloned() {
            versions.remove_mut(&from);
            versions.insert_mut(to, version);
        }
    }

    /// Removes and returns the version of a register at a place.
    fn take(&mut self, name: &Name, place: OrderPlace) -> Option<Version<V>> {
        let versions = self.versions.get_mut(name)?;
        let version = versions.get(&place).cloned()?;
        versions.remove_mut(&place);
        if versions.is_empty() {
            self.versions.remove_mut(name);
        }
        Some(version)
    }

    /// Makes the first version of a register final.
    pub(crate) fn make_final(&mut self, name: &Name, place: OrderPlace) {
        if let Some(version) = self.take(name, place) {
            let value = version.after(self.base.get(name).cloned());
            self.set(name, value);
        }
    }

    /// Sets the value that a register has after the final operations.
    pub(crate) fn set(&mut self, name: &Name, value: Held<V>) {
        let bytes = |value: &V| name.len() + codec::encoded_bytes(value);
        let counted = usize::from((self.is_key)(name));
        if let Some(before) = self.base.get(name) {
            self.bytes -= bytes(before);
            self.keys -= counted;
        }
        match value {
            Some(value) => {
                self.bytes += bytes(&value);
                self.keys += counted;
                self.base.insert_mut(Arc::clone(name), value);
            }
            None => {
                self.base.remove_mut(name);
            }
        }
    }

    /// Returns a snapshot of the registers after the final operations.
    pub(crate) fn finals(&self) -> Registers<V> {
        Registers { left: self.base.clone() }
    }

    /// Returns the number of keys after the final operations, and the bytes of all registers.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.keys, self.bytes)
    }

    /// Returns the version of a register at a place.
    pub(crate) fn version(&self, name: &Name, place: OrderPlace) -> Option<Version<V>> {
        self.versions.get(name)?.get(&place).cloned()
    }

    /// Returns the number of registers with versions that are not final.
    #[cfg(test)]
    pub(crate) fn unfinished(&self) -> usize {
        self.versions.size()
    }

    pub(crate) fn snapshot(&self, place: OrderPlace) -> Snapshot<V> {
        let (reads, writes) = (RefCell::default(), Writes::new());
        Snapshot { store: self.clone(), place, reads, writes }
    }
}

/// Returns the value of a register after changes. The list begins with the latest change.
fn sum<V: Clone + PartialEq>(value: Held<V>, merges: &[&Version<V>]) -> Held<V> {
    merges.iter().rev().fold(value, |value, merge| merge.after(value))
}

impl<V> Snapshot<V> {
    /// Returns the values that the operation has read from the store, and its writes.
    pub(crate) fn into_accesses(self) -> (Values<V>, Writes<V>) {
        (self.reads.into_inner(), self.writes)
    }
}

impl<V: Clone + PartialEq + Serialize> Access<V> for Snapshot<V> {
    fn read(&self, key: &[u8]) -> Option<V> {
        let own = self.writes.get(key);
        if let Some(Version::Set(value)) = own {
            return value.as_deref().cloned();
        }
        let known = self.reads.borrow().get(key).cloned();
        let value = known.unwrap_or_else(|| {
            let value = self.store.read(key, self.place);
            self.reads.borrow_mut().insert(self.store.name(key), value.clone());
            value
        });
        let value = own.map_or_else(|| value.clone(), |own| own.after(value.clone()));
        value.as_deref().cloned()
    }

    fn write(&mut self, key: &[u8], value: Option<V>) {
        let name = self.store.name(key);
        self.writes.insert(name, Version::Set(value.map(Arc::new)));
    }

    fn merge(&mut self, key: &[u8], change: V, add: Add<V>) {
        let version = match self.writes.get(key) {
            Some(Version::Set(value)) => {
                Version::Set(Some(Arc::new(add(value.as_deref().cloned(), &change))))
            }
            Some(Version::Merge(before, _)) => {
                Version::Merge(Arc::new(add(Some(V::clone(before)), &change)), add)
            }
            None => Version::Merge(Arc::new(change), add),
        };
        self.writes.insert(self.store.name(key), version);
    }
}
