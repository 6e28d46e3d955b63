//! Changes that an operator asks for, and why they are refused.

use serde::{Deserialize, Serialize};
use solera_time::SiteId;

use crate::standing::{Standing, standing_at};

/// Why a site's standing cannot be changed now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberError {
    /// The asked site itself is not a member.
    NotAMember,
    /// A site does not remove itself.
    Itself,
    /// The site stands so that there is nothing to change.
    Already(u32),
    /// Another site is leaving or joining, and this one has to wait until it has left or joined.
    Busy(SiteId),
    /// A site that has not told, since the asked one started, that all of its workers list the same
    /// sites and that it knows of all earlier changes.
    NotAgreed(SiteId),
}

/// A change of a site's standing that an operator can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// It is dead for good.
    Remove,
    /// It may join, with nothing of its own.
    Add,
}

impl MemberError {
    /// In words, with the sites' names.
    pub fn explain(&self, name: impl Fn(SiteId) -> String) -> String {
        match self {
            MemberError::NotAMember => "this site is no member itself; ask another one".to_owned(),
            MemberError::Itself => {
                "a site does not remove itself; ask another one, when this one is stopped"
                    .to_owned()
            }
            MemberError::Already(stage) => match standing_at(*stage) {
                Standing::Member => "the site is a member already".to_owned(),
                Standing::Leaving => {
                    "the site is leaving; it can be added once it is gone".to_owned()
                }
                Standing::Gone => "the site is gone already".to_owned(),
                Standing::Joining => "the site is joining already".to_owned(),
            },
            MemberError::Busy(site) => format!(
                "site {} is leaving or joining; one site joins at a time, when none is leaving",
                name(*site)
            ),
            MemberError::NotAgreed(site) => format!(
                "site {} has not confirmed the last change yet, or was not heard since this site \
                 started; all of its nodes must be reachable, and list the same sites",
                name(*site)
            ),
        }
    }
}
