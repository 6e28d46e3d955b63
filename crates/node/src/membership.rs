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
    /// The other nodes that were let in.
    met: BTreeMap<NodeId, Identity>,
}

/// What a node says to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Which life of its site it belongs to.
    pub(crate) life: u32,
    pub(crate) data: u64,
    /// How many sites its list has.
    pub(crate) listed: usize,
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
    /// Its list lacks a site that was added.
    Lacks(SiteId),
}

impl Membership {
    /// `members` are as they were in the beginning.
    pub(crate) fn new(members: Members, site: Option<SiteId>, durable: bool, life: u32) -> Self {
        let known = Known { members, met: BTreeMap::new() };
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
    pub(crate) fn let_in(&self, node: NodeId, says: Identity) -> Result<(), Unwelcome> {
        self.admits(node.site, says.life)?;
        let mut known = self.known();
        let before = known.met.get(&node).filter(|_| self.durable || Some(node.site) != self.site);
        if before.is_some_and(|before| before.life == says.life && before.data != says.data) {
            return Err(Unwelcome::OtherData);
        }
        let mut beyond = SiteId::all(known.members.sites()).skip(says.listed);
        if let Some(site) = beyond.find(|site| !known.members.is_new(*site)) {
            return Err(Unwelcome::Lacks(site));
        }
        known.met.insert(node, says);
        Ok(())
    }

    /// Which of these nodes, other members', are not known to list a site that never took part; none if it
    /// did.
    pub(crate) fn without(&self, site: SiteId, nodes: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
        let known = self.known();
        if !known.members.is_new(site) {
            return Vec::new();
        }
        let lists = |met: &Identity| met.listed > site.index();
        nodes
            .filter(|node| known.members.is_member(node.site))
            .filter(|node| !known.met.get(node).is_some_and(lists))
            .collect()
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

    fn says(life: u32, data: u64) -> Identity {
        Identity { life, data, listed: 2 }
    }

    #[test]
    fn a_node_without_its_data_is_not_let_in() {
        let of = |durable, life| Membership::new(Members::new(2), Some(SiteId(0)), durable, life);
        let membership = of(true, 0);
        let node = NodeId { site: SiteId(1), node: 0 };
        assert_eq!(membership.let_in(node, says(0, 7)), Ok(()));
        assert_eq!(membership.let_in(node, says(0, 7)), Ok(()));
        assert_eq!(membership.let_in(node, says(0, 8)), Err(Unwelcome::OtherData));
        assert_eq!(membership.let_in(node, says(1, 8)), Err(Unwelcome::Unknown));
        assert_eq!(membership.let_in(node, says(0, 7)), Ok(()));
        let sibling = NodeId { site: SiteId(0), node: 1 };
        assert_eq!(membership.let_in(sibling, says(1, 8)), Err(Unwelcome::Unknown));
        assert_eq!(membership.let_in(sibling, says(0, 8)), Ok(()));
        assert_eq!(membership.let_in(sibling, says(0, 9)), Err(Unwelcome::OtherData));
        // One that joins knows nothing of others' lives yet.
        let joining = of(true, 1);
        assert_eq!(joining.let_in(node, says(3, 8)), Ok(()));
        let fleeting = of(false, 0);
        assert_eq!(fleeting.let_in(sibling, says(0, 8)), Ok(()));
        assert_eq!(fleeting.let_in(sibling, says(0, 9)), Ok(()));
        assert_eq!(fleeting.let_in(node, says(0, 8)), Ok(()));
        assert_eq!(fleeting.let_in(node, says(0, 9)), Err(Unwelcome::OtherData));
    }

    #[test]
    fn a_new_site_is_known_to_all_before_it_is_added() {
        let membership = Membership::new(Members::founded(2, 3), Some(SiteId(0)), true, 0);
        let nodes = [0, 1].map(|node| NodeId { site: SiteId(1), node });
        let without = |site| membership.without(SiteId(site), nodes.into_iter());
        assert_eq!(without(2), nodes, "who was not heard may not list it");
        assert_eq!(without(1), []);
        assert_eq!(membership.let_in(nodes[0], says(0, 7)), Ok(()));
        assert_eq!(without(2), nodes);
        for node in nodes {
            let says = Identity { listed: 3, ..says(0, 7) };
            assert_eq!(membership.let_in(node, says), Ok(()));
        }
        assert_eq!(without(2), []);
    }

    #[test]
    fn a_list_without_a_site_that_takes_part_is_refused() {
        let membership = Membership::new(Members::new(3), Some(SiteId(0)), true, 0);
        let node = NodeId { site: SiteId(1), node: 0 };
        assert_eq!(membership.let_in(node, says(0, 7)), Err(Unwelcome::Lacks(SiteId(2))));
    }
}
