//! Changes of the member list that an operator requests, and the reasons to reject them.

use serde::{Deserialize, Serialize};
use solera_time::SiteId;

use crate::status::{SiteStatus, status_at};

/// Reason why a site's status cannot be changed now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberError {
    /// The site that received the request is not a member itself.
    NotAMember,
    /// The request asks a site to remove itself.
    Itself,
    /// The change does not apply to the site's status, for example because the site has the
    /// requested status already. Holds the site's stage.
    Already(u32),
    /// Another site is leaving or joining. The change has to wait until that site has left or
    /// joined.
    Busy(SiteId),
    /// This site has not confirmed that all its workers list the same sites and have seen all
    /// earlier changes. Confirmations before the start of the site that received the request do not
    /// count.
    NotAgreed(SiteId),
}

/// A change of a site's status that an operator can request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Remove the site, which will never return with its data.
    Remove,
    /// Let the site join again, with no data of its own.
    Add,
}

impl MemberError {
    /// Returns the reason as text, with the sites' names.
    pub fn explain(&self, name: impl Fn(SiteId) -> String) -> String {
        match self {
            MemberError::NotAMember => {
                "this site is not a member; send the request to a member".to_owned()
            }
            MemberError::Itself => {
                "a site cannot remove itself; stop it and send the request to another member"
                    .to_owned()
            }
            MemberError::Already(stage) => match status_at(*stage) {
                SiteStatus::Member => "the site is already a member".to_owned(),
                SiteStatus::Leaving => {
                    "the site is leaving; it can be added once it has been removed".to_owned()
                }
                SiteStatus::Gone => "the site is already removed".to_owned(),
                SiteStatus::Joining => "the site is already joining".to_owned(),
            },
            MemberError::Busy(site) => format!(
                "site {} is leaving or joining; add a site when no other is leaving or joining",
                name(*site)
            ),
            MemberError::NotAgreed(site) => format!(
                "site {} has not confirmed the last change yet, or has sent nothing since this \
                 site started; all of its nodes must be reachable, and list the same sites",
                name(*site)
            ),
        }
    }
}
