//! Registers with values, and a sum of their bytes.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::Serialize;
use solera_machine::codec;

/// Registers and their values (Creek Alg. 2 l. 1).
#[derive(Clone, Debug)]
pub(crate) struct Registers<K, V> {
    values: BTreeMap<K, V>,
    /// Bytes of names, and of the encodings of values.
    bytes: usize,
}

fn bytes_of<V: Serialize>(name: &[u8], value: &V) -> usize {
    name.len() + codec::encoded_bytes(value)
}

impl<K: Ord + Borrow<[u8]>, V: Serialize> Registers<K, V> {
    pub(crate) fn new() -> Registers<K, V> {
        Registers { values: BTreeMap::new(), bytes: 0 }
    }

    /// Sets a register. Returns its former value.
    pub(crate) fn insert(&mut self, name: K, value: V) -> Option<V> {
        let before = self.remove(name.borrow());
        self.bytes += bytes_of(name.borrow(), &value);
        self.values.insert(name, value);
        before
    }

    /// Removes a register. Returns its value.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<V> {
        let before = self.values.remove(name);
        self.bytes -= before.as_ref().map_or(0, |value| bytes_of(name, value));
        before
    }

    pub(crate) fn values(&self) -> &BTreeMap<K, V> {
        &self.values
    }

    pub(crate) fn into_values(self) -> BTreeMap<K, V> {
        self.values
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
