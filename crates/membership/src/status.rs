//! Statuses of sites.

use std::fmt;

/// Status of a site in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SiteStatus {
    /// The site takes part.
    Member,
    /// An operator has declared the site dead. Members ignore its messages and agree on its
    /// history.
    Leaving,
    /// The site is removed, and its history does not change any more.
    Gone,
    /// An operator has let the site in again. It is fetching all data from the other sites.
    Joining,
}

impl fmt::Display for SiteStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SiteStatus::Member => "member",
            SiteStatus::Leaving => "leaving",
            SiteStatus::Gone => "removed",
            SiteStatus::Joining => "joining",
        })
    }
}

pub(crate) fn status_at(stage: u32) -> SiteStatus {
    match stage % 4 {
        0 => SiteStatus::Member,
        1 => SiteStatus::Leaving,
        2 => SiteStatus::Gone,
        _ => SiteStatus::Joining,
    }
}
