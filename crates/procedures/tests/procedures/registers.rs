//! Registers of a test.

use std::collections::BTreeMap;

use solera_creek::Access;
use solera_procedures::KeyValue;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Registers(pub(crate) BTreeMap<Vec<u8>, KeyValue>);

impl Access<KeyValue> for Registers {
    fn read(&self, key: &[u8]) -> Option<KeyValue> {
        self.0.get(key).cloned()
    }

    fn write(&mut self, key: &[u8], value: Option<KeyValue>) {
        match value {
            Some(value) => self.0.insert(key.to_vec(), value),
            None => self.0.remove(key),
        };
    }
}
