//! A value that can be replaced while others use it.

use std::sync::{Arc, PoisonError, RwLock};

/// A value that can be replaced. Code that holds the old value continues with it.
#[derive(Debug)]
pub(crate) struct Current<T>(RwLock<Arc<T>>);

impl<T> Current<T> {
    pub(crate) fn new(value: T) -> Current<T> {
        Current(RwLock::new(Arc::new(value)))
    }

    /// Returns the current value.
    pub(crate) fn get(&self) -> Arc<T> {
        // Nothing that could panic runs with the lock.
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the value.
    pub(crate) fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}
