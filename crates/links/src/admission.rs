//! Who is let in, by what is known of the sites and of the data that nodes had before.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use solera_machine::NodeId;
use solera_membership::{Members, SiteStatus};
use solera_time::{SiteId, Timestamp};

use crate::acceptance::Acceptance;

/// What a node says of its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Which life of its site it belongs to.
    pub life: u32,
    /// Drawn when the data was begun.
    pub data: u64,
    /// How often a process was started with it; 0 of a node that keeps none.
    pub starts: u64,
    /// Drawn anew by each process.
    pub incarnation: u64,
}

/// Why a node of another life, or with other data, is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwelcome {
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

/// Up to when a worker remembered what it has told others when its process began, and from when on
/// it tells them of times since then. The times in between are those of a run that it does not
/// remember.
pub type Run = (Timestamp, Timestamp);

/// Which of these nodes, and from where.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The site that the node belongs to, if there are others in other processes.
    pub site: Option<SiteId>,
    /// Whether it keeps data.
    pub durable: bool,
    /// Which life of its site it belongs to.
    pub life: u32,
}

/// What a node knows of the sites and of the other nodes.
#[derive(Debug)]
pub struct Admission {
    place: Place,
    members: Members,
    /// What nodes of other sites said of this one.
    acceptance: Acceptance,
    /// The data of each other node that was let in.
    entered: BTreeMap<NodeId, Origin>,
    /// Counts the changes of `entered`.
    changes: u64,
    /// The processes that were found to lack what they had stored, by incarnation.
    lacking: BTreeMap<NodeId, u64>,
    /// How many sites the lists of those nodes have.
    listed: BTreeMap<NodeId, usize>,
}

/// Whether a worker that began so has told `heard` in a run that it does not remember.
fn has_forgotten(run: Run, heard: Timestamp) -> bool {
    let (recovered, began) = run;
    recovered < heard && heard < began
}

impl Admission {
    /// Of a node in this place. `members` are as they were in the beginning, `entered` those that
    /// were let in before.
    pub fn new(place: Place, members: Members, entered: BTreeMap<NodeId, Origin>) -> Admission {
        let (acceptance, listed, lacking) =
            (Acceptance::default(), BTreeMap::new(), BTreeMap::new());
        Admission { place, members, acceptance, entered, changes: 0, lacking, listed }
    }

    /// A replica of this node knows this of the sites. Returns whether it is news.
    pub fn note(&mut self, members: &Members) -> bool {
        if self.members == *members || !self.members.merge(members) {
            return false;
        }
        self.acceptance.note(&self.members);
        true
    }

    /// What is known of the sites.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Whether messages of a life of a site count.
    ///
    /// # Errors
    /// Why they do not.
    pub fn admits(&self, site: SiteId, life: u32) -> Result<(), Unwelcome> {
        if Some(site) == self.place.site {
            // Its nodes join together, before they are told that they may.
            return match life.cmp(&self.place.life) {
                Ordering::Less => Err(Unwelcome::Removed),
                Ordering::Equal => Ok(()),
                Ordering::Greater => Err(Unwelcome::Unknown),
            };
        }
        let (present, standing) = (self.members.life(site), self.members.status(site));
        let gone = matches!(standing, SiteStatus::Leaving | SiteStatus::Gone);
        if life < present || (life == present && gone) {
            return Err(Unwelcome::Removed);
        }
        if life > present && self.is_told() { Err(Unwelcome::Unknown) } else { Ok(()) }
    }

    /// Whether this node knows how the others stand. Who joins is told of that by those whom it
    /// lets in; until then it takes all sites that it lists for founders.
    fn is_told(&self) -> bool {
        self.place.site.is_none_or(|site| self.members.life(site) >= self.place.life)
    }

    /// Whether a node may be let in that says to have this data, and lists so many sites. What it
    /// had promised is in its data; without, it is not the node that it was. What is lost is lost
    /// within a site that keeps nothing, and while no other site has taken part, for nobody could
    /// fill it again.
    ///
    /// # Errors
    /// Why it may not.
    pub fn may_enter(&self, node: NodeId, origin: Origin, listed: usize) -> Result<(), Unwelcome> {
        self.admits(node.site, origin.life)?;
        let members = &self.members;
        let mut beyond = SiteId::all(members.sites()).skip(listed);
        if let Some(site) = beyond.find(|site| !members.is_new(*site))
            && self.is_told()
        {
            return Err(Unwelcome::Lacks(site));
        }
        // One that is only listed has nothing to fill it with.
        let is_own = |site: SiteId| Some(site) == self.place.site;
        let mut others = SiteId::all(members.sites()).filter(|site| !is_own(*site));
        let keeps = self.place.durable && others.any(|site| !members.is_new(site));
        let before = self.entered.get(&node).filter(|_| keeps || !is_own(node.site));
        let Some(before) = before.filter(|before| before.life == origin.life) else {
            return Ok(());
        };
        if before.data != origin.data {
            return Err(Unwelcome::OtherData);
        }
        if before.incarnation != origin.incarnation && origin.starts <= before.starts {
            return Err(Unwelcome::OlderCopy);
        }
        if self.lacking.get(&node) == Some(&origin.incarnation) {
            return Err(Unwelcome::Forgetful);
        }
        Ok(())
    }

    /// The process that was last let in as this node asks for updates that it had stored, and that
    /// are forgotten everywhere since. It is let in no more.
    pub fn note_lacking(&mut self, node: NodeId) {
        if let Some(origin) = self.entered.get(&node) {
            self.lacking.insert(node, origin.incarnation);
        }
    }

    /// Whether messages of a node that was let in still count.
    ///
    /// # Errors
    /// Why they do not.
    pub fn may_speak(&self, node: NodeId, life: u32) -> Result<(), Unwelcome> {
        self.admits(node.site, life)?;
        let present = self.entered.get(&node).map(|origin| origin.incarnation);
        let lacks = present.is_some() && self.lacking.get(&node).copied() == present;
        if lacks { Err(Unwelcome::Forgetful) } else { Ok(()) }
    }

    /// Whether a worker of a site has forgotten a time of its own that was heard of it. Times of
    /// former lives of the site do not count.
    pub fn has_forgotten(&self, site: SiteId, run: Run, heard: Timestamp) -> bool {
        let former = self.members.gaps(site).last().map_or(Timestamp::ZERO, |gap| gap.end);
        self.members.is_member(site) && heard > former && has_forgotten(run, heard)
    }

    /// A node is let in, whose list has so many sites.
    pub fn note_entry(&mut self, node: NodeId, origin: Origin, listed: usize) {
        self.listed.insert(node, listed);
        if self.entered.insert(node, origin) != Some(origin) {
            self.changes += 1;
        }
    }

    /// The data of each node that was let in, which must outlive this process as long as its own
    /// data does.
    pub fn entered(&self) -> &BTreeMap<NodeId, Origin> {
        &self.entered
    }

    /// Counts the changes of [`Self::entered`].
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// How many of `f` sites can be lost before something is that counts as uniform.
    pub fn survives(&self, f: usize) -> usize {
        f.min(self.members.members().filter(|site| Some(*site) != self.place.site).count())
    }

    /// Which of these nodes, other members', are not known to list a site that never took part;
    /// none if it did.
    pub fn without(&self, site: SiteId, nodes: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
        if !self.members.is_new(site) {
            return Vec::new();
        }
        nodes
            .filter(|node| self.members.is_member(node.site))
            .filter(|node| self.listed.get(node).is_none_or(|listed| *listed <= site.index()))
            .collect()
    }

    /// A node of another site has let this one in, or refused it with this reason.
    pub fn heard(&mut self, node: NodeId, word: Result<(), String>) {
        if Some(node.site) != self.place.site {
            self.acceptance.heard(node, word, &self.members);
        }
    }

    /// A node has not answered for long.
    pub fn silent(&mut self, node: NodeId) {
        self.acceptance.silent(node);
    }

    /// Who refuses this node, and why, if no other site accepts it, so that it must take no writes.
    pub fn refusal(&self) -> Option<(NodeId, &str)> {
        self.acceptance.refused(&self.members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acceptance::tests::{FOUNDER, GONE, JOINING, LEAVING, members};

    const NODE: NodeId = NodeId { site: SiteId(1), node: 0 };
    const SIBLING: NodeId = NodeId { site: SiteId(0), node: 1 };

    fn admission(members: Members, durable: bool, life: u32) -> Admission {
        let place = Place { site: Some(SiteId(0)), durable, life };
        Admission::new(place, members, BTreeMap::new())
    }

    fn of(sites: usize, durable: bool, life: u32) -> Admission {
        admission(Members::new(sites), durable, life)
    }

    fn let_in(
        admission: &mut Admission,
        node: NodeId,
        life: u32,
        data: u64,
        starts: u64,
    ) -> Result<(), Unwelcome> {
        // Each start is a process of its own.
        let origin = Origin { life, data, starts, incarnation: starts };
        admission.may_enter(node, origin, 2)?;
        admission.note_entry(node, origin, 2);
        Ok(())
    }

    #[test]
    fn a_node_without_its_data_is_not_let_in() {
        let mut durable = of(2, true, 0);
        assert_eq!(let_in(&mut durable, NODE, 0, 7, 1), Ok(()));
        assert_eq!(let_in(&mut durable, NODE, 0, 7, 1), Ok(()));
        assert_eq!(let_in(&mut durable, NODE, 0, 8, 1), Err(Unwelcome::OtherData));
        assert_eq!(let_in(&mut durable, NODE, 1, 8, 1), Err(Unwelcome::Unknown));
        assert_eq!(let_in(&mut durable, NODE, 0, 7, 1), Ok(()));
        assert_eq!(let_in(&mut durable, SIBLING, 1, 8, 1), Err(Unwelcome::Unknown));
        assert_eq!(let_in(&mut durable, SIBLING, 0, 8, 1), Ok(()));
        assert_eq!(let_in(&mut durable, SIBLING, 0, 9, 1), Err(Unwelcome::OtherData));
        // One that joins knows nothing of others' lives yet.
        assert_eq!(let_in(&mut of(2, true, 1), NODE, 3, 8, 1), Ok(()));
        // Who keeps nothing, and who has nobody to be filled from, goes on with what is left.
        let listed = admission(Members::founded(1, 2), true, 0);
        for mut membership in [of(2, false, 0), of(1, true, 0), listed] {
            assert_eq!(let_in(&mut membership, SIBLING, 0, 8, 1), Ok(()));
            assert_eq!(let_in(&mut membership, SIBLING, 0, 9, 1), Ok(()));
        }
        let mut fleeting = of(2, false, 0);
        assert_eq!(let_in(&mut fleeting, NODE, 0, 8, 1), Ok(()));
        assert_eq!(let_in(&mut fleeting, NODE, 0, 9, 1), Err(Unwelcome::OtherData));
    }

    #[test]
    fn an_older_copy_of_a_nodes_data_is_not_let_in() {
        let mut membership = of(2, true, 0);
        assert_eq!(let_in(&mut membership, NODE, 0, 7, 4), Ok(()));
        assert_eq!(let_in(&mut membership, NODE, 0, 7, 6), Ok(()));
        // A copy of what there was before start 6 is started as its start 5, or 6.
        for starts in [5, 6] {
            let origin = Origin { life: 0, data: 7, starts, incarnation: 99 };
            assert_eq!(membership.may_enter(NODE, origin, 2), Err(Unwelcome::OlderCopy));
        }
        assert_eq!(let_in(&mut membership, NODE, 0, 7, 7), Ok(()));
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
        let mut admission = admission(Members::founded(2, 3), true, 0);
        let nodes = [0, 1].map(|node| NodeId { site: SiteId(1), node });
        let without = |known: &Admission, site| known.without(SiteId(site), nodes.into_iter());
        assert_eq!(without(&admission, 2), nodes, "who was not heard may not list it");
        assert_eq!(without(&admission, 1), []);
        let origin = Origin { life: 0, data: 7, starts: 1, incarnation: 1 };
        admission.note_entry(nodes[0], origin, 2);
        assert_eq!(without(&admission, 2), nodes);
        for node in nodes {
            admission.note_entry(node, origin, 3);
        }
        assert_eq!(without(&admission, 2), []);
    }

    #[test]
    fn who_lacks_what_it_had_stored_speaks_no_more_and_is_not_let_in_again() {
        let mut admission = of(2, true, 0);
        let origin = |incarnation| Origin { life: 0, data: 7, starts: incarnation, incarnation };
        admission.note_lacking(NODE);
        admission.note_entry(NODE, origin(1), 2);
        assert_eq!(admission.may_speak(NODE, 0), Ok(()), "it was not let in then");
        admission.note_lacking(NODE);
        assert_eq!(admission.may_speak(NODE, 0), Err(Unwelcome::Forgetful));
        assert_eq!(admission.may_enter(NODE, origin(1), 2), Err(Unwelcome::Forgetful));
        assert_eq!(admission.may_enter(NODE, origin(2), 2), Ok(()), "with the right data perhaps");
        admission.note_entry(NODE, origin(2), 2);
        assert_eq!(admission.may_speak(NODE, 0), Ok(()));
    }

    #[test]
    fn a_list_without_a_site_that_takes_part_is_refused() {
        let membership = of(3, true, 0);
        let origin = Origin { life: 0, data: 7, starts: 1, incarnation: 1 };
        let refused = membership.may_enter(NODE, origin, 2);
        assert_eq!(refused, Err(Unwelcome::Lacks(SiteId(2))));
        assert_eq!(membership.may_enter(NODE, origin, 3), Ok(()));
    }

    #[test]
    fn who_joins_judges_no_list_before_it_is_told_of_the_sites() {
        let place = Place { site: Some(SiteId(2)), durable: true, life: 1 };
        let mut joining = Admission::new(place, Members::new(4), BTreeMap::new());
        let origin = Origin { life: 0, data: 7, starts: 1, incarnation: 1 };
        joining.note(&members(&[FOUNDER, FOUNDER, GONE, FOUNDER]));
        assert_eq!(joining.may_enter(NODE, origin, 3), Ok(()));
        joining.note(&members(&[FOUNDER, FOUNDER, JOINING, GONE]));
        assert_eq!(joining.may_enter(NODE, origin, 3), Ok(()), "nobody has added the last one");
        joining.note(&members(&[FOUNDER, FOUNDER, JOINING, JOINING]));
        assert_eq!(joining.may_enter(NODE, origin, 3), Err(Unwelcome::Lacks(SiteId(3))));
    }

    #[test]
    fn only_members_keep_a_node_from_writing() {
        let mut only = admission(Members::founded(1, 2), true, 0);
        only.heard(NODE, Err("f".to_owned()));
        assert_eq!(only.refusal(), None);

        let mut of_two = of(2, true, 0);
        of_two.heard(NODE, Err("f".to_owned()));
        assert_eq!(of_two.refusal(), Some((NODE, "f")));
        assert!(of_two.note(&members(&[FOUNDER, LEAVING])));
        assert_eq!(of_two.refusal(), None);
        assert!(!of_two.note(&members(&[FOUNDER, LEAVING])));
        of_two.heard(NODE, Err("f".to_owned()));
        assert_eq!(of_two.refusal(), None);
    }
}
