//! What this process knows of the sites' standings, for links and clients; the replicas decide.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use solera_time::SiteId;
use solera_unistore::{MemberError, Members, Progress, Standing};
use tokio::sync::watch;

use crate::config::NodeId;

/// Shared by the workers of a process, and its links.
#[derive(Debug)]
pub(crate) struct Membership {
    /// The site that this process belongs to, if there are others in other processes.
    site: Option<SiteId>,
    /// Whether it keeps data.
    durable: bool,
    /// Which life of its site that is.
    pub(crate) life: u32,
    known: Mutex<Known>,
    /// Why this process must end: its site takes no part any more.
    expelled: watch::Sender<Option<String>>,
}

#[derive(Debug)]
struct Known {
    members: Members,
    /// The life and the data of each other node that was let in.
    data: BTreeMap<NodeId, (u32, u64)>,
}

/// Why a node of another life, or with other data, is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwelcome {
    /// Its site was removed.
    Removed,
    /// Its site joins, or has, in a life that this node has not heard of.
    Unknown,
    /// It has not the data any more that it had.
    OtherData,
}

impl Membership {
    pub(crate) fn new(sites: usize, site: Option<SiteId>, durable: bool, life: u32) -> Self {
        let known = Known { members: Members::new(sites), data: BTreeMap::new() };
        Membership {
            site,
            durable,
            life,
            known: Mutex::new(known),
            expelled: watch::Sender::new(None),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("nothing panics with the lock")
    }

    /// A worker's replica knows this.
    pub(crate) fn note(&self, members: &Members) {
        let mut known = self.known();
        if known.members != *members {
            known.members.merge(members);
        }
    }

    /// How a site stands.
    pub(crate) fn standing(&self, site: SiteId) -> Standing {
        self.known().members.standing(site)
    }

    /// Whether messages of a life of a site count.
    pub(crate) fn admits(&self, site: SiteId, life: u32) -> Result<(), Unwelcome> {
        if Some(site) == self.site {
            // Its nodes join together, before they are told that they may.
            return match life.cmp(&self.life) {
                Ordering::Less => Err(Unwelcome::Removed),
                Ordering::Equal => Ok(()),
                Ordering::Greater => Err(Unwelcome::Unknown),
            };
        }
        let known = self.known();
        let (present, standing) = (known.members.life(site), known.members.standing(site));
        let gone = matches!(standing, Standing::Leaving | Standing::Gone);
        if life < present || (life == present && gone) {
            return Err(Unwelcome::Removed);
        }
        // Who joins is told of all lives by those whom it lets in.
        let told = self.site.is_none_or(|site| known.members.life(site) >= self.life);
        if life > present && told { Err(Unwelcome::Unknown) } else { Ok(()) }
    }

    /// Whether a node may be let in that says to be of this life and to have this data. What it had
    /// promised is in its data; without, it is not the node that it was. Only within a site that keeps
    /// nothing that does not matter: what is lost is lost.
    pub(crate) fn let_in(&self, node: NodeId, life: u32, data: u64) -> Result<(), Unwelcome> {
        self.admits(node.site, life)?;
        let mut known = self.known();
        let before = known.data.get(&node).filter(|_| self.durable || Some(node.site) != self.site);
        if before.is_some_and(|(former, before)| *former == life && *before != data) {
            return Err(Unwelcome::OtherData);
        }
        known.data.insert(node, (life, data));
        Ok(())
    }

    /// This process' site takes no part any more.
    pub(crate) fn expel(&self, reason: String) {
        self.expelled.send_replace(Some(reason));
    }

    /// Ends, with the reason, when this process' site takes no part any more.
    pub(crate) async fn expelled(&self) -> String {
        let mut expelled = self.expelled.subscribe();
        match expelled.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }
}

/// What the root of a site's workers tells of the sites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SitesTold {
    pub(crate) members: Members,
    /// Who has not confirmed that.
    pub(crate) not_agreed: Option<SiteId>,
    /// Whether what was asked for was done.
    pub(crate) refused: Option<MemberError>,
}

/// How far the workers of a joining site are, together, from 0 to 1.
pub(crate) fn share(progress: &[Progress]) -> f64 {
    let (done, all) = progress.iter().fold((0.0, 0), |(done, all), progress| {
        (done + progress.filled as f64 + progress.current, all + progress.partitions)
    });
    if all == 0 { 1.0 } else { done / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_its_data_is_not_let_in() {
        let membership = Membership::new(2, Some(SiteId(0)), true, 0);
        let node = NodeId { site: SiteId(1), node: 0 };
        assert_eq!(membership.let_in(node, 0, 7), Ok(()));
        assert_eq!(membership.let_in(node, 0, 7), Ok(()));
        assert_eq!(membership.let_in(node, 0, 8), Err(Unwelcome::OtherData));
        assert_eq!(membership.let_in(node, 1, 8), Err(Unwelcome::Unknown));
        assert_eq!(membership.let_in(node, 0, 7), Ok(()));
        let sibling = NodeId { site: SiteId(0), node: 1 };
        assert_eq!(membership.let_in(sibling, 1, 8), Err(Unwelcome::Unknown));
        assert_eq!(membership.let_in(sibling, 0, 8), Ok(()));
        assert_eq!(membership.let_in(sibling, 0, 9), Err(Unwelcome::OtherData));
        // One that joins knows nothing of others' lives yet.
        let joining = Membership::new(2, Some(SiteId(0)), true, 1);
        assert_eq!(joining.let_in(node, 3, 8), Ok(()));
        let fleeting = Membership::new(2, Some(SiteId(0)), false, 0);
        assert_eq!(fleeting.let_in(sibling, 0, 8), Ok(()));
        assert_eq!(fleeting.let_in(sibling, 0, 9), Ok(()));
        assert_eq!(fleeting.let_in(node, 0, 8), Ok(()));
        assert_eq!(fleeting.let_in(node, 0, 9), Err(Unwelcome::OtherData));
    }
}
