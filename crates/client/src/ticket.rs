//! Names of operations of a speculative space.

use std::fmt;

/// Name of an operation of a speculative space, such as `0-1-17`. It is valid at each site of the
/// cluster, and in other processes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(String);

impl Ticket {
    /// Returns the ticket as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for Ticket {
    fn from(text: &str) -> Self {
        Ticket(text.to_owned())
    }
}
