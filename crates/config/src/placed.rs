//! Settings that are checked by those who know what they mean.

use crate::error::ConfigError;

/// A value, and where in the file it stands. It is the same wherever it stands.
#[derive(Clone, Debug, Default)]
pub struct Placed<T> {
    /// The value.
    pub value: T,
    /// The file and the line, if it is from a file.
    pub at: Option<String>,
}

impl<T> Placed<T> {
    /// An error about it.
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
