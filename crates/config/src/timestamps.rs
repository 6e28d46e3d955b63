//! Timestamps of spaces of level `pcpsi`.

use std::fmt;

/// Representation of a session's and a value's dependencies in spaces of level `pcpsi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timestamps {
    /// A stamp for each shard.
    Exact,
    /// This many stamps, each for all shards whose numbers have the same remainder.
    Structural(u16),
    /// This many stamps: those of the latest shards, and one for all others.
    Temporal(u16),
    /// This many stamps for each site, as with [`Timestamps::Temporal`].
    PerSite(u16),
}

impl Default for Timestamps {
    fn default() -> Timestamps {
        Timestamps::PerSite(2)
    }
}

impl Timestamps {
    /// Returns the name of their kind.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Timestamps::Exact => "exact",
            Timestamps::Structural(_) => "structural",
            Timestamps::Temporal(_) => "temporal",
            Timestamps::PerSite(_) => "per-site",
        }
    }
}

impl fmt::Display for Timestamps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Timestamps::Exact => f.write_str(self.name()),
            Timestamps::Structural(stamps)
            | Timestamps::Temporal(stamps)
            | Timestamps::PerSite(stamps) => write!(f, "{} with {stamps} stamps", self.name()),
        }
    }
}
