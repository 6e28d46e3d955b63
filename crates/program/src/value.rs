//! Values that programs compute with.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
pub use solera_data::RESERVED;

use crate::nesting;

/// A value. Copies are cheap: large values are shared until they are changed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Value {
    /// Nothing.
    Unit,
    /// A Boolean.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// An IEEE 754 float.
    Float(f64),
    /// A text.
    String(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A value that may be missing.
    Option(#[serde(deserialize_with = "nesting::within")] Option<Arc<Value>>),
    /// Values in order.
    List(#[serde(deserialize_with = "nesting::within")] Arc<Vec<Value>>),
    /// Distinct values, in ascending order.
    Set(#[serde(deserialize_with = "nesting::within")] Arc<BTreeSet<Value>>),
    /// Values by key, in ascending order of the keys.
    Map(#[serde(deserialize_with = "nesting::within")] Arc<BTreeMap<Value, Value>>),
    /// The fields of a struct, in the order of its declaration.
    Struct(#[serde(deserialize_with = "nesting::within")] Arc<Vec<Value>>),
    /// A reference to an object of a store.
    Handle(Handle),
}

/// A reference to an object of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Handle {
    /// The store's name in the module.
    pub store: Arc<str>,
    /// The object's name within the store.
    pub key: Arc<str>,
}

/// Returns whether a program may make a handle of a key: it is not empty, and not one of the keys
/// that Solera reserves for itself.
pub fn is_usable_key(key: &str) -> bool {
    !key.is_empty() && !key.starts_with(RESERVED)
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.store, self.key)
    }
}

impl Value {
    /// Creates a text.
    pub fn string(text: impl AsRef<str>) -> Value {
        Value::String(text.as_ref().into())
    }

    /// Creates an option with this value.
    pub fn some(value: Value) -> Value {
        Value::Option(Some(Arc::new(value)))
    }

    /// The option without a value.
    pub const NONE: Value = Value::Option(None);

    /// Creates a list.
    pub fn list(values: impl IntoIterator<Item = Value>) -> Value {
        Value::List(Arc::new(values.into_iter().collect()))
    }

    /// Returns the kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Unit => "nothing",
            Value::Bool(_) => "a bool",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a float",
            Value::String(_) => "a string",
            Value::Bytes(_) => "bytes",
            Value::Option(_) => "an optional value",
            Value::List(_) => "a list",
            Value::Set(_) => "a set",
            Value::Map(_) => "a map",
            Value::Struct(_) => "a struct",
            Value::Handle(_) => "a handle",
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Unit => 0,
            Value::Bool(_) => 1,
            Value::Int(_) => 2,
            Value::Float(_) => 3,
            Value::String(_) => 4,
            Value::Bytes(_) => 5,
            Value::Option(_) => 6,
            Value::List(_) => 7,
            Value::Set(_) => 8,
            Value::Map(_) => 9,
            Value::Struct(_) => 10,
            Value::Handle(_) => 11,
        }
    }
}

/// Iteration order of sets and maps: total, and the same on every host. Floats are ordered by
/// `total_cmp` here, whereas the language's `==` and `<` follow IEEE 754.
impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::Option(a), Value::Option(b)) => a.cmp(b),
            (Value::List(a), Value::List(b)) | (Value::Struct(a), Value::Struct(b)) => a.cmp(b),
            (Value::Set(a), Value::Set(b)) => a.cmp(b),
            (Value::Map(a), Value::Map(b)) => a.cmp(b),
            (Value::Handle(a), Value::Handle(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}
