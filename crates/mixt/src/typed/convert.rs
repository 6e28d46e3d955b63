//! Conversion between Rust values and values of programs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_program::value::Value;

/// Types of arguments.
pub trait ToValue {
    /// Converts to the value that programs see.
    fn to_value(&self) -> Value;
}

/// Types of results.
pub trait FromValue: Sized {
    /// Converts from a value; `None` if it has another type.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! scalars {
    ($($rust:ty => $kind:ident,)*) => {$(
        impl ToValue for $rust {
            fn to_value(&self) -> Value {
                Value::$kind(*self)
            }
        }

        impl FromValue for $rust {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::$kind(found) => Some(*found),
                    _ => None,
                }
            }
        }
    )*};
}

scalars! {
    i64 => Int,
    f64 => Float,
    bool => Bool,
}

impl FromValue for () {
    fn from_value(value: &Value) -> Option<Self> {
        matches!(value, Value::Unit).then_some(())
    }
}

impl ToValue for str {
    fn to_value(&self) -> Value {
        Value::string(self)
    }
}

impl ToValue for String {
    fn to_value(&self) -> Value {
        self.as_str().to_value()
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(text.to_string()),
            _ => None,
        }
    }
}

impl ToValue for [u8] {
    fn to_value(&self) -> Value {
        Value::Bytes(self.into())
    }
}

impl ToValue for Vec<u8> {
    fn to_value(&self) -> Value {
        self.as_slice().to_value()
    }
}

impl FromValue for Vec<u8> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bytes(bytes) => Some(bytes.to_vec()),
            _ => None,
        }
    }
}

impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value {
        Value::Option(self.as_ref().map(|value| Arc::new(value.to_value())))
    }
}

impl<T: FromValue> FromValue for Option<T> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Option(None) => Some(None),
            Value::Option(Some(value)) => T::from_value(value).map(Some),
            _ => None,
        }
    }
}

// A struct may contain itself behind an option, which Rust requires to be boxed.
impl<T: ToValue> ToValue for Box<T> {
    fn to_value(&self) -> Value {
        T::to_value(self)
    }
}

impl<T: FromValue> FromValue for Box<T> {
    fn from_value(value: &Value) -> Option<Self> {
        T::from_value(value).map(Box::new)
    }
}

impl<T: ToValue> ToValue for [T] {
    fn to_value(&self) -> Value {
        Value::list(self.iter().map(T::to_value))
    }
}

impl<T: ToValue> ToValue for Vec<T> {
    fn to_value(&self) -> Value {
        self.as_slice().to_value()
    }
}

impl<T: FromValue> FromValue for Vec<T> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::List(values) => values.iter().map(T::from_value).collect(),
            _ => None,
        }
    }
}

impl<T: ToValue> ToValue for BTreeSet<T> {
    fn to_value(&self) -> Value {
        Value::Set(Arc::new(self.iter().map(T::to_value).collect()))
    }
}

impl<T: FromValue + Ord> FromValue for BTreeSet<T> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Set(values) => values.iter().map(T::from_value).collect(),
            _ => None,
        }
    }
}

impl<K: ToValue, V: ToValue> ToValue for BTreeMap<K, V> {
    fn to_value(&self) -> Value {
        let entries = self.iter().map(|(key, value)| (key.to_value(), value.to_value()));
        Value::Map(Arc::new(entries.collect()))
    }
}

impl<K: FromValue + Ord, V: FromValue> FromValue for BTreeMap<K, V> {
    fn from_value(value: &Value) -> Option<Self> {
        let Value::Map(entries) = value else { return None };
        let one = |(key, value)| Some((K::from_value(key)?, V::from_value(value)?));
        entries.iter().map(one).collect()
    }
}
