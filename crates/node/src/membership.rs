//! What this process knows of the sites' standings, for links and clients; the replicas decide.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use solera_config::NodeId;
use solera_membership::{MemberError, Members, Standing};
use solera_time::{SiteId, Timestamp};
use solera_unistore::Progress;
use tokio::sync::watch;

use crate::acceptance::Acceptance;
use crate::peers::{Origin, Peers};

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
    /// Held while the file of the peers is written; taken before `known`.
    writing: Mutex<()>,
    /// Whether no other site accepts this node: what every command asks first.
    refused: AtomicBool,
    /// The greatest time that a worker of this process has seen, in microseconds since 1970.
    hybrid_us: AtomicU64,
    /// Why this process must end: its site takes no part any more.
    expelled: watch::Sender<Option<String>>,
}

#[derive(Debug)]
struct Known {
    members: Members,
    /// What nodes of other sites said of this one.
    acceptance: Acceptance,
    /// The data of each other node that was let in.
    peers: Peers,
    /// How many sites the lists of those nodes have.
    listed: BTreeMap<NodeId, usize>,
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
    /// Its data is a copy from before another start with it.
    OlderCopy,
    /// It lacks the end of what it has told this node.
    Forgetful,
    /// Its list lacks a site that was added.
    Lacks(SiteId),
}

/// What each worker of a node knew when its process began, see [`Replica::begin_run`].
///
/// [`Replica::begin_run`]: solera_unistore::Replica::begin_run
pub(crate) type Runs = Vec<(Timestamp, Timestamp)>;

/// Whether a worker that began so has told `heard` in a run that it does not remember.
pub(crate) fn has_forgotten(run: (Timestamp, Timestamp), heard: Timestamp) -> bool {
    let (recovered, began) = run;
    recovered < heard && heard < began
}

impl Membership {
    /// `members` are as they were in the beginning, `peers` those that let this node in before.
    pub(crate) fn new(
        members: Members,
        site: Option<SiteId>,
        durable: bool,
        life: u32,
        peers: Peers,
    ) -> Self {
        let acceptance = Acceptance::default();
        let known = Known { members, acceptance, peers, listed: BTreeMap::new() };
        Membership {
            site,
            durable,
            life,
            known: Mutex::new(known),
            writing: Mutex::default(),
            refused: AtomicBool::new(false),
            hybrid_us: AtomicU64::new(0),
            expelled: watch::Sender::new(None),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("nothing panics with the lock")
    }

    /// A worker's replica knows this. Returns whether this node takes writes from now on, if that is news.
    pub(crate) fn note(&self, members: &Members) -> Option<bool> {
        let mut known = self.known();
        if known.members == *members || !known.members.merge(members) {
            return None;
        }
        let Known { members, acceptance, .. } = &mut *known;
        acceptance.note(members);
        self.judge(&known)
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
        if life > present && self.is_told(&known) { Err(Unwelcome::Unknown) } else { Ok(()) }
    }

    /// Whether this process knows how the others stand. Who joins is told of that by those whom it lets
    /// in; until then it takes all sites that it lists for founders.
    fn is_told(&self, known: &Known) -> bool {
        self.site.is_none_or(|site| known.members.life(site) >= self.life)
    }

    /// Whether a node may be let in that says to have this data. What it had promised is in its data;
    /// without, it is not the node that it was. What is lost is lost within a site that keeps nothing,
    /// and while no other site has taken part, for nobody could fill it again.
    pub(crate) fn may_enter(
        &self,
        node: NodeId,
        origin: Origin,
        listed: usize,
    ) -> Result<(), Unwelcome> {
        self.admits(node.site, origin.life)?;
        let known = self.known();
        let mut beyond = SiteId::all(known.members.sites()).skip(listed);
        if let Some(site) = beyond.find(|site| !known.members.is_new(*site))
            && self.is_told(&known)
        {
            return Err(Unwelcome::Lacks(site));
        }
        // One that is only listed has nothing to fill it with.
        let mut others = SiteId::all(known.members.sites()).filter(|site| Some(*site) != self.site);
        let keeps = self.durable && others.any(|site| !known.members.is_new(site));
        let before = known.peers.get(node).filter(|_| keeps || Some(node.site) != self.site);
        let Some(before) = before.filter(|before| before.life == origin.life) else {
            return Ok(());
        };
        if before.data != origin.data {
            return Err(Unwelcome::OtherData);
        }
        if before.incarnation != origin.incarnation && origin.starts <= before.starts {
            return Err(Unwelcome::OlderCopy);
        }
        Ok(())
    }

    /// How many of `f` sites can be lost before something is that counts as uniform.
    pub(crate) fn survives(&self, f: usize) -> usize {
        f.min(self.known().members.members().filter(|site| Some(*site) != self.site).count())
    }

    /// A node is let in, whose list has so many sites. [`Self::keep_entries`] makes that durable.
    pub(crate) fn note_entry(&self, node: NodeId, origin: Origin, listed: usize) {
        let mut known = self.known();
        known.listed.insert(node, listed);
        known.peers.note(node, origin);
    }

    /// Writes what was learned of the peers and is in no file yet. Waits for the disk, and keeps nobody
    /// else waiting meanwhile.
    ///
    /// # Errors
    /// That will be forgotten with this process, if no later call succeeds.
    pub(crate) fn keep_entries(&self) -> Result<(), String> {
        let _writing = self.writing.lock().expect("nothing panics with the lock");
        let Some(unwritten) = self.known().peers.unwritten() else { return Ok(()) };
        unwritten.write()?;
        self.known().peers.is_written(&unwritten);
        Ok(())
    }

    /// Which of these nodes, other members', are not known to list a site that never took part; none if it
    /// did.
    pub(crate) fn without(&self, site: SiteId, nodes: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
        let known = self.known();
        if !known.members.is_new(site) {
            return Vec::new();
        }
        nodes
            .filter(|node| known.members.is_member(node.site))
            .filter(|node| known.listed.get(node).is_none_or(|listed| *listed <= site.index()))
            .collect()
    }

    /// Up to when times of a site's former lives may have been heard; nothing while it is no member.
    pub(crate) fn life_began(&self, site: SiteId) -> Option<Timestamp> {
        let known = self.known();
        let last = known.members.gaps(site).last().map_or(Timestamp::ZERO, |gap| gap.end);
        known.members.is_member(site).then_some(last)
    }

    /// A node of another site has let this one in, or refused it with this reason. Returns whether this
    /// node takes writes from now on, if that is news.
    pub(crate) fn heard(&self, node: NodeId, word: Result<(), String>) -> Option<bool> {
        if Some(node.site) == self.site {
            return None;
        }
        let mut known = self.known();
        let Known { members, acceptance, .. } = &mut *known;
        acceptance.heard(node, word, members);
        self.judge(&known)
    }

    /// A node has not answered for long. Returns whether this node takes writes from now on, if that is
    /// news.
    pub(crate) fn silent(&self, node: NodeId) -> Option<bool> {
        let mut known = self.known();
        known.acceptance.silent(node);
        self.judge(&known)
    }

    fn judge(&self, known: &Known) -> Option<bool> {
        let refused = known.acceptance.refused(&known.members).is_some();
        (self.refused.swap(refused, Relaxed) != refused).then_some(!refused)
    }

    /// Whether no other site accepts this node, so that it takes no writes.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Relaxed)
    }

    /// Who refuses it, and why.
    pub(crate) fn refusal(&self) -> Option<(NodeId, String)> {
        if !self.is_refused() {
            return None;
        }
        let known = self.known();
        let refused = known.acceptance.refused(&known.members);
        refused.map(|(node, reason)| (node, reason.to_owned()))
    }

    /// A worker of this process has seen this time.
    pub(crate) fn note_clock(&self, clock: Timestamp) {
        self.hybrid_us.fetch_max(clock.micros(), Relaxed);
    }

    /// The greatest time that a worker of this process has seen, in microseconds since 1970.
    pub(crate) fn hybrid_us(&self) -> u64 {
        self.hybrid_us.load(Relaxed)
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
    use crate::acceptance::tests::{FOUNDER, GONE, JOINING, LEAVING, members};

    const NODE: NodeId = NodeId { site: SiteId(1), node: 0 };
    const SIBLING: NodeId = NodeId { site: SiteId(0), node: 1 };

    fn membership(sites: usize, durable: bool, life: u32) -> Membership {
        Membership::new(Members::new(sites), Some(SiteId(0)), durable, life, Peers::default())
    }

    fn let_in(
        membership: &Membership,
        node: NodeId,
        life: u32,
        data: u64,
        starts: u64,
    ) -> Result<(), Unwelcome> {
        // Each start is a process of its own.
        let origin = Origin { life, data, starts, incarnation: starts };
        membership.may_enter(node, origin, 2)?;
        membership.note_entry(node, origin, 2);
        Ok(())
    }

    #[test]
    fn a_node_without_its_data_is_not_let_in() {
        let durable = membership(2, true, 0);
        assert_eq!(let_in(&durable, NODE, 0, 7, 1), Ok(()));
        assert_eq!(let_in(&durable, NODE, 0, 7, 1), Ok(()));
        assert_eq!(let_in(&durable, NODE, 0, 8, 1), Err(Unwelcome::OtherData));
        assert_eq!(let_in(&durable, NODE, 1, 8, 1), Err(Unwelcome::Unknown));
        assert_eq!(let_in(&durable, NODE, 0, 7, 1), Ok(()));
        assert_eq!(let_in(&durable, SIBLING, 1, 8, 1), Err(Unwelcome::Unknown));
        assert_eq!(let_in(&durable, SIBLING, 0, 8, 1), Ok(()));
        assert_eq!(let_in(&durable, SIBLING, 0, 9, 1), Err(Unwelcome::OtherData));
        // One that joins knows nothing of others' lives yet.
        assert_eq!(let_in(&membership(2, true, 1), NODE, 3, 8, 1), Ok(()));
        // Who keeps nothing, and who has nobody to be filled from, goes on with what is left.
        let listed = Members::founded(1, 2);
        let listed = Membership::new(listed, Some(SiteId(0)), true, 0, Peers::default());
        for membership in [membership(2, false, 0), membership(1, true, 0), listed] {
            assert_eq!(let_in(&membership, SIBLING, 0, 8, 1), Ok(()));
            assert_eq!(let_in(&membership, SIBLING, 0, 9, 1), Ok(()));
        }
        let fleeting = membership(2, false, 0);
        assert_eq!(let_in(&fleeting, NODE, 0, 8, 1), Ok(()));
        assert_eq!(let_in(&fleeting, NODE, 0, 9, 1), Err(Unwelcome::OtherData));
    }

    #[test]
    fn an_older_copy_of_a_nodes_data_is_not_let_in() {
        let membership = membership(2, true, 0);
        assert_eq!(let_in(&membership, NODE, 0, 7, 4), Ok(()));
        assert_eq!(let_in(&membership, NODE, 0, 7, 6), Ok(()));
        // A copy of what there was before start 6 is started as its start 5, or 6.
        for starts in [5, 6] {
            let origin = Origin { life: 0, data: 7, starts, incarnation: 99 };
            assert_eq!(membership.may_enter(NODE, origin, 2), Err(Unwelcome::OlderCopy));
        }
        assert_eq!(let_in(&membership, NODE, 0, 7, 7), Ok(()));
    }

    #[test]
    fn who_has_told_more_than_it_remembers_has_forgotten() {
        let run = (Timestamp(10), Timestamp(20));
        for (heard, forgotten) in [(9, false), (10, false), (11, true), (19, true), (20, false)] {
            assert_eq!(has_forgotten(run, Timestamp(heard)), forgotten, "{heard}");
        }
    }

    #[test]
    fn a_new_site_is_known_to_all_before_it_is_added() {
        let members = Members::founded(2, 3);
        let membership = Membership::new(members, Some(SiteId(0)), true, 0, Peers::default());
        let nodes = [0, 1].map(|node| NodeId { site: SiteId(1), node });
        let without = |site| membership.without(SiteId(site), nodes.into_iter());
        assert_eq!(without(2), nodes, "who was not heard may not list it");
        assert_eq!(without(1), []);
        let origin = Origin { life: 0, data: 7, starts: 1, incarnation: 1 };
        membership.note_entry(nodes[0], origin, 2);
        assert_eq!(without(2), nodes);
        for node in nodes {
            membership.note_entry(node, origin, 3);
        }
        assert_eq!(without(2), []);
    }

    #[test]
    fn a_list_without_a_site_that_takes_part_is_refused() {
        let membership = membership(3, true, 0);
        let origin = Origin { life: 0, data: 7, starts: 1, incarnation: 1 };
        let refused = membership.may_enter(NODE, origin, 2);
        assert_eq!(refused, Err(Unwelcome::Lacks(SiteId(2))));
        assert_eq!(membership.may_enter(NODE, origin, 3), Ok(()));
    }

    #[test]
    fn who_joins_judges_no_list_before_it_is_told_of_the_sites() {
        let joining = Membership::new(Members::new(4), Some(SiteId(2)), true, 1, Peers::default());
        let origin = Origin { life: 0, data: 7, starts: 1, incarnation: 1 };
        joining.note(&members(&[FOUNDER, FOUNDER, GONE, FOUNDER]));
        assert_eq!(joining.may_enter(NODE, origin, 3), Ok(()));
        joining.note(&members(&[FOUNDER, FOUNDER, JOINING, GONE]));
        assert_eq!(joining.may_enter(NODE, origin, 3), Ok(()), "nobody has added the last one");
        joining.note(&members(&[FOUNDER, FOUNDER, JOINING, JOINING]));
        assert_eq!(joining.may_enter(NODE, origin, 3), Err(Unwelcome::Lacks(SiteId(3))));
    }

    #[test]
    fn what_could_not_be_kept_is_kept_later() {
        let root = std::env::temp_dir().join(format!("solera-entries-{}", std::process::id()));
        let sites = ["eu".to_owned(), "us".to_owned()];
        let peers = Peers::open(&root, &sites).unwrap();
        let membership = Membership::new(Members::new(2), Some(SiteId(0)), true, 0, peers);
        let origin = Origin { life: 0, data: 7, starts: 1, incarnation: 1 };
        membership.note_entry(NODE, origin, 2);
        assert!(membership.keep_entries().is_err(), "the folder is not there");
        std::fs::create_dir_all(&root).unwrap();
        membership.keep_entries().unwrap();
        assert_eq!(Peers::open(&root, &sites).unwrap().get(NODE), Some(&origin));
        std::fs::remove_dir_all(&root).unwrap();
        membership.keep_entries().unwrap();
    }

    #[test]
    fn only_members_keep_a_node_from_writing() {
        let only =
            Membership::new(Members::founded(1, 2), Some(SiteId(0)), true, 0, Peers::default());
        assert_eq!(only.heard(NODE, Err("f".to_owned())), None);
        assert!(!only.is_refused() && only.refusal().is_none());

        let of_two = membership(2, true, 0);
        assert_eq!(of_two.heard(NODE, Err("f".to_owned())), Some(false));
        assert_eq!(of_two.refusal(), Some((NODE, "f".to_owned())));
        assert_eq!(of_two.note(&members(&[FOUNDER, LEAVING])), Some(true));
        assert!(!of_two.is_refused() && of_two.refusal().is_none());
        assert_eq!(of_two.note(&members(&[FOUNDER, LEAVING])), None);
        assert_eq!(of_two.heard(NODE, Err("f".to_owned())), None);
    }
}
