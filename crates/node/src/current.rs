//! What is exchanged while others use it.

use std::sync::{Arc, PoisonError, RwLock};

/// A value that can be exchanged. Whoever has begun with the old one ends with it.
#[derive(Debug)]
pub(crate) struct Current<T>(RwLock<Arc<T>>);

impl<T> Current<T> {
    pub(crate) fn new(value: T) -> Current<T> {
        Current(RwLock::new(Arc::new(value)))
    }

    /// The value as of now.
    pub(crate) fn get(&self) -> Arc<T> {
        // Nothing that could panic is done with the lock.
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The value from now on.
    pub(crate) fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}
