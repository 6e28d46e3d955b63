//! Settings with their places, for later checks by other crates.

use crate::error::ConfigError;

/// A value, with its place in the file. The place does not count in comparisons.
#[derive(Clone, Debug, Default)]
pub struct Placed<T> {
    /// Value.
    pub value: T,
    /// File and line, if the value is from a file.
    pub at: Option<String>,
}

impl<T> Placed<T> {
    /// Returns an error about the value.
    ///
    /// # Errors
    /// Always.
    pub fn invalid<R>(&self, reason: String) -> Result<R, ConfigError> {
        Err(ConfigError::Invalid { at: self.at.clone(), reason })
    }
}

impl<T: PartialEq> PartialEq for Placed<T> {
    fn eq(&self, other: &Placed<T>) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Placed<T> {}
