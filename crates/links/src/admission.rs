//! Admission of nodes, from the statuses of the sites and the data that nodes had before.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use solera_machine::NodeId;
use solera_membership::{Members, SiteStatus};
use solera_time::{SiteId, Timestamp};

use crate::acceptance::Acceptance;

/// Identity of a node's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Generation of its site.
    pub generation: u32,
    /// Random number drawn when the data was created.
    pub data: u64,
    /// Number of processes that have started with the data; 0 for a node in memory.
    pub starts: u64,
    /// Random number of the process.
    pub incarnation: u64,
}

/// Reason for which a node of another generation, or with other data, is not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwelcome {
    /// The site was removed.
    Removed,
    /// The site joins, or has joined, in a generation that this node does not know.
    Unknown,
    /// The node has other data than before.
    OtherData,
    /// The data is a copy that was made before another process started with the data.
    OlderCopy,
    /// The node has lost data that it had announced to this node.
    LostData,
    /// The node's list lacks a site that was added.
    Lacks(SiteId),
}

/// Two times of a worker: the last one that it recovered when its process started, and the first
/// one that it has used since. Times between them belong to the lost end of an earlier run.
pub type Run = (Timestamp, Timestamp);

/// The role of this node.
#[derive(Clone, Copy, Debug)]
pub struct NodeRole {
    /// Site that the node belongs to; `None` if one process runs all sites.
    pub site: Option<SiteId>,
    /// Whether it stores data on a disk.
    pub durable: bool,
    /// Generation of the site that it belongs to.
    pub generation: u32,
}

/// A node's knowledge of the sites and of the other nodes, by which it decides on admission.
#[derive(Debug)]
pub struct Admission {
    role: NodeRole,
    members: Members,
    /// Answers of other sites' nodes to this node's calls.
    acceptance: Acceptance,
    /// Data of each other node that was admitted.
    entered: BTreeMap<NodeId, Origin>,
    /// Number of changes of `entered`.
    changes: u64,
    /// Incarnations of processes that lack data that they had stored.
    lacking: BTreeMap<NodeId, u64>,
    /// Number of sites in the list of each admitted node.
    listed: BTreeMap<NodeId, usize>,
}

/// Returns whether a worker with this start announced `heard` in a run whose end it has lost.
fn has_lost_data(run: Run, heard: Timestamp) -> bool {
    let (recovered, began) = run;
    recovered < heard && heard < began
}

impl Admission {
    /// Creates the admission for a node with this role. `members` is the state at the start, and
    /// `entered` the nodes that were admitted before.
    pub fn new(role: NodeRole, members: Members, entered: BTreeMap<NodeId, Origin>) -> Admission {
        let (acceptance, listed, lacking) =
            (Acceptance::default(), BTreeMap::new(), BTreeMap::new());
        Admission { role, members, acceptance, entered, changes: 0, lacking, listed }
    }

    /// Merges the members that a replica of this node knows. Returns whether anything changed.
    pub fn note(&mut self, members: &Members) -> bool {
        if self.members == *members || !self.members.merge(members) {
            return false;
        }
        self.acceptance.note(&self.members);
        true
    }

    /// Returns the members as this node knows them.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Checks whether this node accepts messages of a generation of a site.
    ///
    /// # Errors
    /// The reason why it does not.
    pub fn admits(&self, site: SiteId, generation: u32) -> Result<(), Unwelcome> {
        if Some(site) == self.role.site {
            // The nodes of a site join together, before they learn that the site may join.
            return match generation.cmp(&self.role.generation) {
                Ordering::Less => Err(Unwelcome::Removed),
                Ordering::Equal => Ok(()),
                Ordering::Greater => Err(Unwelcome::Unknown),
            };
        }
        let (present, status) = (self.members.generation(site), self.members.status(site));
        let gone = matches!(status, SiteStatus::Leaving | SiteStatus::Gone);
        if generation < present || (generation == present && gone) {
            return Err(Unwelcome::Removed);
        }
        if generation > present && self.knows_members() { Err(Unwelcome::Unknown) } else { Ok(()) }
    }

    /// Returns whether this node knows the statuses of the other sites. A joining node learns them
    /// from the nodes that it admits. Until then, it regards all listed sites as founders.
    fn knows_members(&self) -> bool {
        self.role.site.is_none_or(|site| self.members.generation(site) >= self.role.generation)
    }

    /// Checks whether a node with this data may be admitted. Its list has `listed` sites. A node
    /// that has lost its data has also lost its promises, so it must not return. There are two
    /// exceptions for nodes of this node's own site: while the site keeps its data in memory, and
    /// while no other site has taken part, because no other site could restore the data.
    ///
    /// # Errors
    /// The reason why it may not be admitted.
    pub fn may_enter(&self, node: NodeId, origin: Origin, listed: usize) -> Result<(), Unwelcome> {
        self.admits(node.site, origin.generation)?;
        let members = &self.members;
        let mut beyond = SiteId::all(members.sites()).skip(listed);
        if let Some(site) = beyond.find(|site| !members.is_new(*site))
            && self.knows_members()
        {
            return Err(Unwelcome::Lacks(site));
        }
        // A site that is only listed has no data from which others could be restored.
        let is_own = |site: SiteId| Some(site) == self.role.site;
        let mut others = SiteId::all(members.sites()).filter(|site| !is_own(*site));
        let keeps = self.role.durable && others.any(|site| !members.is_new(site));
        let before = self.entered.get(&node).filter(|_| keeps || !is_own(node.site));
        let Some(before) = before.filter(|before| before.generation == origin.generation) else {
            return Ok(());
        };
        if before.data != origin.data {
            return Err(Unwelcome::OtherData);
        }
        if before.incarnation != origin.incarnation && origin.starts <= before.starts {
            return Err(Unwelcome::OlderCopy);
        }
        if self.lacking.get(&node) == Some(&origin.incarnation) {
            return Err(Unwelcome::LostData);
        }
        Ok(())
    }

    /// Notes that the node's process requests updates again that it had stored and that no site
    /// keeps any more. The process is not admitted again.
    pub fn note_lacking(&mut self, node: NodeId) {
        if let Some(origin) = self.entered.get(&node) {
            self.lacking.insert(node, origin.incarnation);
        }
    }

    /// Checks whether this node still accepts messages of an admitted node.
    ///
    /// # Errors
    /// The reason why it does not.
    pub fn accepts_messages(&self, node: NodeId, generation: u32) -> Result<(), Unwelcome> {
        self.admits(node.site, generation)?;
        let present = self.entered.get(&node).map(|origin| origin.incarnation);
        let lacks = present.is_some() && self.lacking.get(&node).copied() == present;
        if lacks { Err(Unwelcome::LostData) } else { Ok(()) }
    }

    /// Returns whether a worker of a site has lost data up to the time `heard`, which it had
    /// announced. Times of former generations of the site do not count.
    pub fn has_lost_data(&self, site: SiteId, run: Run, heard: Timestamp) -> bool {
        let former = self.members.gaps(site).last().map_or(Timestamp::ZERO, |gap| gap.end);
        self.members.is_member(site) && heard > former && has_lost_data(run, heard)
    }

    /// Notes that a node is admitted. Its list has `listed` sites.
    pub fn note_entry(&mut self, node: NodeId, origin: Origin, listed: usize) {
        self.listed.insert(node, listed);
        if self.entered.insert(node, origin) != Some(origin) {
            self.changes += 1;
        }
    }

    /// Returns the data of each admitted node. This node must store it as long as its own data.
    pub fn entered(&self) -> &BTreeMap<NodeId, Origin> {
        &self.entered
    }

    /// Returns the number of changes of [`Self::entered`].
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns how many sites, at most `f`, may fail without a loss of uniform data.
    pub fn survives(&self, f: usize) -> usize {
        f.min(self.members.members().filter(|site| Some(*site) != self.role.site).count())
    }

    /// Returns those of `nodes` at other member sites that may not list `site`, if this site never
    /// took part. Returns none if it has taken part.
    pub fn without(&self, site: SiteId, nodes: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
        if !self.members.is_new(site) {
            return Vec::new();
        }
        nodes
            .filter(|node| self.members.is_member(node.site))
            .filter(|node| self.listed.get(node).is_none_or(|listed| *listed <= site.index()))
            .collect()
    }

    /// Notes that a node of another site has accepted this one, or refused it for this reason.
    pub fn heard(&mut self, node: NodeId, answer: Result<(), String>) {
        if Some(node.site) != self.role.site {
            self.acceptance.heard(node, answer, &self.members);
        }
    }

    /// Notes that a node has not answered for a long time.
    pub fn note_timeout(&mut self, node: NodeId) {
        self.acceptance.note_timeout(node);
    }

    /// Returns the node that refuses this one, and its reason, if no other site accepts this node.
    /// The node must then reject writes.
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

    fn admission(members: Members, durable: bool, generation: u32) -> Admission {
        let role = NodeRole { site: Some(SiteId(0)), durable, generation };
        Admission::new(role, members, BTreeMap::new())
    }

    fn of(sites: usize, durable: bool, generation: u32) -> Admission {
        admission(Members::new(sites), durable, generation)
    }

    fn let_in(
        admission: &mut Admission,
        node: NodeId,
        generation: u32,
        data: u64,
        starts: u64,
    ) -> Result<(), Unwelcome> {
        // Each start has its own process.
        let origin = Origin { generation, data, starts, incarnation: starts };
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
        // A joining node does not know other sites' generations yet.
        assert_eq!(let_in(&mut of(2, true, 1), NODE, 3, 8, 1), Ok(()));
        // A node in memory, and a node that no other site could restore, continue with their
        // present data.
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
        // A copy from before start 6 is started as start 5 or 6.
        for starts in [5, 6] {
            let origin = Origin { generation: 0, data: 7, starts, incarnation: 99 };
            assert_eq!(membership.may_enter(NODE, origin, 2), Err(Unwelcome::OlderCopy));
        }
        assert_eq!(let_in(&mut membership, NODE, 0, 7, 7), Ok(()));
    }

    #[test]
    fn a_worker_that_announced_more_than_it_recovered_has_lost_data() {
        let run = (Timestamp(10), Timestamp(20));
        for (heard, forgotten) in [(9, false), (10, false), (11, true), (19, true), (20, false)] {
            assert_eq!(has_lost_data(run, Timestamp(heard)), forgotten, "{heard}");
        }
    }

    #[test]
    fn a_new_site_is_known_to_all_before_it_is_added() {
        let mut admission = admission(Members::founded(2, 3), true, 0);
        let nodes = [0, 1].map(|node| NodeId { site: SiteId(1), node });
        let without = |known: &Admission, site| known.without(SiteId(site), nodes.into_iter());
        assert_eq!(without(&admission, 2), nodes, "nodes not heard from may not list it");
        assert_eq!(without(&admission, 1), []);
        let origin = Origin { generation: 0, data: 7, starts: 1, incarnation: 1 };
        admission.note_entry(nodes[0], origin, 2);
        assert_eq!(without(&admission, 2), nodes);
        for node in nodes {
            admission.note_entry(node, origin, 3);
        }
        assert_eq!(without(&admission, 2), []);
    }

    #[test]
    fn a_process_that_lacks_stored_data_is_cut_off_and_not_admitted_again() {
        let mut admission = of(2, true, 0);
        let origin =
            |incarnation| Origin { generation: 0, data: 7, starts: incarnation, incarnation };
        admission.note_lacking(NODE);
        admission.note_entry(NODE, origin(1), 2);
        assert_eq!(admission.accepts_messages(NODE, 0), Ok(()), "it was not let in then");
        admission.note_lacking(NODE);
        assert_eq!(admission.accepts_messages(NODE, 0), Err(Unwelcome::LostData));
        assert_eq!(admission.may_enter(NODE, origin(1), 2), Err(Unwelcome::LostData));
        assert_eq!(admission.may_enter(NODE, origin(2), 2), Ok(()), "with the right data perhaps");
        admission.note_entry(NODE, origin(2), 2);
        assert_eq!(admission.accepts_messages(NODE, 0), Ok(()));
    }

    #[test]
    fn a_list_without_a_site_that_takes_part_is_refused() {
        let membership = of(3, true, 0);
        let origin = Origin { generation: 0, data: 7, starts: 1, incarnation: 1 };
        let refused = membership.may_enter(NODE, origin, 2);
        assert_eq!(refused, Err(Unwelcome::Lacks(SiteId(2))));
        assert_eq!(membership.may_enter(NODE, origin, 3), Ok(()));
    }

    #[test]
    fn a_joining_node_checks_no_list_before_it_knows_the_sites() {
        let role = NodeRole { site: Some(SiteId(2)), durable: true, generation: 1 };
        let mut joining = Admission::new(role, Members::new(4), BTreeMap::new());
        let origin = Origin { generation: 0, data: 7, starts: 1, incarnation: 1 };
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
