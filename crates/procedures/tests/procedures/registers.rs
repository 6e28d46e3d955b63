//! Registers of a test.

use std::collections::BTreeMap;

use solera_procedures::KeyValue;

pub(crate) type Registers = BTreeMap<Vec<u8>, KeyValue>;
