//! The types of values, and what handles lead to.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::nesting;

/// The number of a struct in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StructId(pub u16);

/// The number of a store in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StoreId(pub u8);

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Type {
    /// What has no value.
    Unit,
    /// `bool`
    Bool,
    /// `int`: 64 bits, signed. What does not fit is an error of the transaction.
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
    /// Of something already reported: fits everything.
    Unknown,
}

/// What a handle leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Object {
    /// `register<T>`, or any type that is none of the others: one value.
    Register(Type),
    /// `counter`
    Counter,
    /// `set<T>`
    Set(Type),
    /// `map<K, V>`
    Map(Type, Type),
    /// `list<T>`: values in the order in which they were added.
    List(Type),
    /// `log<T>`: a list that is only added to.
    Log(Type),
    /// A struct whose fields are read and written one by one.
    Struct(StructId),
    /// `RemoteList<T>`: a cell of a linked list, with the fields `v` and `next`.
    RemoteList(Type),
}

impl Type {
    /// Whether it may be an element of a set or the key of a map: whether `==` orders it totally.
    pub fn is_key(&self) -> bool {
        match self {
            Type::Float => false,
            Type::Option(of) | Type::List(of) | Type::Set(of) => of.is_key(),
            Type::Map(key, value) => key.is_key() && value.is_key(),
            _ => true,
        }
    }
}
