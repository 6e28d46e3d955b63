//! Handles whose types contain the kind of object and the store.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::sync::Arc;

use solera_program::value::{self, Value};

use super::{FromValue, ToValue};

/// A store of a program, as a type.
pub trait Store {
    /// Name of the store in the program.
    const NAME: &'static str;
}

/// Refers to an object `O` of the store `S`. A handle is a name: the object need not exist.
///
/// `O` is one of [`Register`], [`Counter`], [`Set`], [`Map`], [`List`], [`Log`], [`RemoteList`], or
/// a struct of the program. Handles of other objects or stores have other types.
pub struct Handle<O, S> {
    key: Arc<str>,
    leads_to: PhantomData<fn() -> (O, S)>,
}

impl<O, S> Handle<O, S> {
    /// Creates a handle of the object with this name in the store.
    pub fn new(key: impl Into<Arc<str>>) -> Handle<O, S> {
        Handle { key: key.into(), leads_to: PhantomData }
    }

    /// Returns the object's name within the store.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl<O, S> Clone for Handle<O, S> {
    fn clone(&self) -> Self {
        Handle::new(Arc::clone(&self.key))
    }
}

impl<O, S> PartialEq for Handle<O, S> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<O, S> Eq for Handle<O, S> {}

impl<O, S> PartialOrd for Handle<O, S> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<O, S> Ord for Handle<O, S> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl<O, S> Hash for Handle<O, S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
    }
}

impl<O, S: Store> fmt::Debug for Handle<O, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Formats the handle like SOLERA.CALL: `mail:ann`.
impl<O, S: Store> fmt::Display for Handle<O, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", S::NAME, self.key)
    }
}

impl<O, S: Store> ToValue for Handle<O, S> {
    fn to_value(&self) -> Value {
        Value::Handle(value::Handle { store: S::NAME.into(), key: Arc::clone(&self.key) })
    }
}

impl<O, S: Store> FromValue for Handle<O, S> {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Handle(handle) if *handle.store == *S::NAME => {
                Some(Handle::new(Arc::clone(&handle.key)))
            }
            _ => None,
        }
    }
}

/// One value: `register<T>`.
#[derive(Debug)]
pub struct Register<T>(PhantomData<fn() -> T>);

/// `counter`
#[derive(Debug)]
pub enum Counter {}

/// `set<T>`
#[derive(Debug)]
pub struct Set<T>(PhantomData<fn() -> T>);

/// `map<K, V>`
#[derive(Debug)]
pub struct Map<K, V>(PhantomData<fn() -> (K, V)>);

/// `list<T>`
#[derive(Debug)]
pub struct List<T>(PhantomData<fn() -> T>);

/// `log<T>`
#[derive(Debug)]
pub struct Log<T>(PhantomData<fn() -> T>);

/// `RemoteList<T>`
#[derive(Debug)]
pub struct RemoteList<T>(PhantomData<fn() -> T>);
