//! How sites stand.

use std::fmt;

/// How a site stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It takes part.
    Member,
    /// It was declared dead; nobody listens to it, and its history is being settled.
    Leaving,
    /// It is gone, and nothing of it will change any more.
    Gone,
    /// It was let in again, and is getting all data from the others.
    Joining,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Standing::Member => "member",
            Standing::Leaving => "leaving",
            Standing::Gone => "removed",
            Standing::Joining => "joining",
        })
    }
}

pub(crate) fn standing_at(stage: u32) -> Standing {
    match stage % 4 {
        0 => Standing::Member,
        1 => Standing::Leaving,
        2 => Standing::Gone,
        _ => Standing::Joining,
    }
}
