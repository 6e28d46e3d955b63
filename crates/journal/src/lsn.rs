//! Numbers of records.

use std::fmt;

/// A record's number in its journal: the first is 1, and there are no gaps. 0 is "no record yet".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Returns the next number.
    pub fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }

    /// Returns the previous number. Panics for 0.
    pub(crate) fn before(self) -> Lsn {
        Lsn(self.0.checked_sub(1).expect("records are numbered from 1"))
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
