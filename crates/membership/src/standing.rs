//! Statuses of sites.

use std::fmt;

/// Status of a site in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The site takes part.
    Member,
    /// The site was declared dead. Members ignore its messages and settle its history.
    Leaving,
    /// The site is removed, and its history does not change any more.
    Gone,
    /// The site was let in again and is fetching all data from the other sites.
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
