//! Rare paths of the protocol, for simulations to show that they reach them.

use std::fmt;

/// A branch that few runs take and on which correctness or progress depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RarePath {
    /// A path of certification.
    Certification(solera_certification::RarePath),
    /// A worker asks a sibling for a part of a history that it missed.
    AsksForGap,
    /// A worker ignores the history of a leaving site that comes from a site which does not know of the removal.
    IgnoresUninformed,
    /// A participant asks a coordinator for a decision that does not come.
    AsksForDecision,
    /// A read is given up because what its snapshot holds does not come.
    GivesUpRead,
    /// A joining worker begins anew with another donor.
    ChangesDonor,
    /// A donor has lost the snapshot that it hands over.
    DonorLostSnapshot,
    /// A worker starts from a journal with prepared transactions.
    RecoversPrepared,
}

impl RarePath {
    /// Every path.
    pub fn all() -> impl Iterator<Item = RarePath> {
        use RarePath::*;
        let certification = solera_certification::RarePath::ALL.into_iter().map(Certification);
        certification.chain([
            AsksForGap,
            IgnoresUninformed,
            AsksForDecision,
            GivesUpRead,
            ChangesDonor,
            DonorLostSnapshot,
            RecoversPrepared,
        ])
    }
}

impl fmt::Display for RarePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RarePath::Certification(path) => return path.fmt(f),
            RarePath::AsksForGap => "a worker asks for a gap in a history",
            RarePath::IgnoresUninformed => "a worker ignores a site that knows of no removal",
            RarePath::AsksForDecision => "a participant asks for a decision",
            RarePath::GivesUpRead => "a read is given up",
            RarePath::ChangesDonor => "a joining worker changes its donor",
            RarePath::DonorLostSnapshot => "a donor has lost its snapshot",
            RarePath::RecoversPrepared => "a worker starts with prepared transactions",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_paths_are_listed_once() {
        assert!(RarePath::all().is_sorted_by(|a, b| a < b));
    }
}
