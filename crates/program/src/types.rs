//! Types of values and of the objects of handles.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::nesting;

/// Index of a struct in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StructId(pub u16);

/// Index of a store in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StoreId(pub u8);

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Type {
    /// The type of statements and calls without a result.
    Unit,
    /// `bool`
    Bool,
    /// `int`: 64 bits, signed. An overflow fails the transaction.
    Int,
    /// `float`: IEEE 754, 64 bits.
    Float,
    /// `string`: UTF-8.
    String,
    /// `bytes`
    Bytes,
    /// `option<T>`
    Option(#[serde(deserialize_with = "nesting::within")] Arc<Type>),
    /// `list<T>`
    List(#[serde(deserialize_with = "nesting::within")] Arc<Type>),
    /// `set<T>`
    Set(#[serde(deserialize_with = "nesting::within")] Arc<Type>),
    /// `map<K, V>`
    Map(
        #[serde(deserialize_with = "nesting::within")] Arc<Type>,
        #[serde(deserialize_with = "nesting::within")] Arc<Type>,
    ),
    /// A struct as a value.
    Struct(StructId),
    /// `handle<object> in store`
    Handle(#[serde(deserialize_with = "nesting::within")] Arc<Object>, StoreId),
    /// Type of an expression with a reported error: compatible with every type.
    Unknown,
}

/// Type of the object of a handle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Object {
    /// `register<T>`, or any other type of value: one value.
    Register(Type),
    /// `counter`
    Counter,
    /// `set<T>`
    Set(Type),
    /// `map<K, V>`
    Map(Type, Type),
    /// `list<T>`: values in the order in which they were added.
    List(Type),
    /// `log<T>`: an append-only list.
    Log(Type),
    /// A struct with individually accessible fields.
    Struct(StructId),
    /// `RemoteList<T>`: a cell of a linked list, with the fields `v` and `next`.
    RemoteList(Type),
}

impl Type {
    /// Returns whether it may be the type of a set's elements or a map's keys: whether its
    /// comparison is a total order.
    pub fn is_key(&self) -> bool {
        match self {
            Type::Float => false,
            Type::Option(of) | Type::List(of) | Type::Set(of) => of.is_key(),
            Type::Map(key, value) => key.is_key() && value.is_key(),
            _ => true,
        }
    }
}
