//! Acceptance of this node by the other sites.

use std::collections::{BTreeMap, BTreeSet};

use solera_machine::NodeId;
use solera_membership::{Members, SiteStatus};

/// The last answers of other sites' nodes to this node's calls.
///
/// A node that every other node refuses has another configuration, belongs to another cluster, or
/// has a wrong clock. Its writes may never merge with those of the other nodes. A node that gets no
/// answer is only cut off.
///
/// Only answers of sites that take part count. The acceptance by a joining site counts, too, but
/// its refusal does not, because otherwise one wrongly configured new site could stop a whole
/// cluster.
#[derive(Debug, Default)]
pub(crate) struct Acceptance {
    /// Whether any of these nodes has ever accepted this process.
    ever: bool,
    /// Last answer of each node; a refusal has its reason.
    answers: BTreeMap<NodeId, Result<(), String>>,
}

impl Acceptance {
    /// Notes that a node of another site has accepted this one, or refused it.
    pub(crate) fn heard(&mut self, node: NodeId, answer: Result<(), String>, members: &Members) {
        if has_a_say(node, members) {
            self.ever |= answer.is_ok();
            self.answers.insert(node, answer);
        }
    }

    /// Notes that a node has not answered for a long time. Its refusal no longer counts, because
    /// the remaining sites may accept this node. If no site remains, this node is only cut off.
    pub(crate) fn note_timeout(&mut self, node: NodeId) {
        if self.answers.get(&node).is_some_and(Result::is_err) {
            self.answers.remove(&node);
        }
    }

    /// Updates the statuses of the sites. Removes answers from an earlier generation of a site.
    pub(crate) fn note(&mut self, members: &Members) {
        self.answers.retain(|node, _| has_a_say(*node, members));
    }

    /// Returns the node that refuses this one, and its reason, if no site accepts this node. The
    /// node must then reject writes. Once a site has accepted this process, the refusal of a single
    /// other site does not suffice, because that site may be the one with the wrong configuration
    /// or clock.
    pub(crate) fn refused(&self, members: &Members) -> Option<(NodeId, &str)> {
        if self.answers.values().any(Result::is_ok) {
            return None;
        }
        let mut of_members = self.answers.iter().filter(|(node, _)| members.is_member(node.site));
        let sites: BTreeSet<_> = of_members.clone().map(|(node, _)| node.site).collect();
        if self.ever && sites.len() < 2 {
            return None;
        }
        let (node, answer) = of_members.next()?;
        Some((*node, answer.as_ref().err()?))
    }
}

fn has_a_say(node: NodeId, members: &Members) -> bool {
    matches!(members.status(node.site), SiteStatus::Member | SiteStatus::Joining)
}

#[cfg(test)]
pub(crate) mod tests {
    use solera_time::SiteId;

    use super::*;

    /// Stages of a site: founder, leaving, removed, joining later, and member after joining.
    pub(crate) const FOUNDER: u32 = 0;
    pub(crate) const LEAVING: u32 = 1;
    pub(crate) const GONE: u32 = 2;
    pub(crate) const JOINING: u32 = 3;
    pub(crate) const JOINED: u32 = 4;

    /// Returns a list of sites at these stages, as replicas send it.
    pub(crate) fn members(stages: &[u32]) -> Members {
        let gaps = |stage: u32| vec![(0u64, 0u64); (stage as usize + 2) / 4];
        let slots: Vec<_> = stages.iter().map(|stage| (*stage, gaps(*stage))).collect();
        postcard::from_bytes(&postcard::to_stdvec(&slots).unwrap()).unwrap()
    }

    fn node(site: u8) -> NodeId {
        NodeId { site: SiteId(site), node: 0 }
    }

    fn refused() -> Result<(), String> {
        Err("other clock".to_owned())
    }

    #[test]
    fn whom_nobody_accepts_takes_no_writes() {
        let three = members(&[FOUNDER; 3]);
        let mut acceptance = Acceptance::default();
        assert_eq!(acceptance.refused(&three), None, "a node without answers continues");
        acceptance.heard(node(1), refused(), &three);
        assert_eq!(acceptance.refused(&three), Some((node(1), "other clock")));
        acceptance.heard(node(2), Ok(()), &three);
        assert_eq!(acceptance.refused(&three), None, "one of the others may be wrong");
        acceptance.heard(node(2), refused(), &three);
        assert_eq!(acceptance.refused(&three), Some((node(1), "other clock")), "both are not");
        acceptance.heard(node(1), Ok(()), &three);
        assert_eq!(acceptance.refused(&three), None);

        let mut of_two = Acceptance::default();
        of_two.heard(node(1), Ok(()), &three);
        of_two.heard(node(1), refused(), &three);
        assert_eq!(of_two.refused(&three), None, "the other site may be wrong");
    }

    #[test]
    fn refusals_of_sites_that_take_no_part_do_not_count() {
        for stage in [LEAVING, GONE, JOINING] {
            let (two, four) =
                (members(&[FOUNDER, stage]), members(&[FOUNDER, FOUNDER, stage, stage]));
            let mut alone = Acceptance::default();
            alone.heard(node(1), refused(), &two);
            assert_eq!(alone.refused(&two), None, "{stage}");
            let mut acceptance = Acceptance::default();
            acceptance.heard(node(1), Ok(()), &four);
            for site in 1..4 {
                acceptance.heard(node(site), refused(), &four);
            }
            assert_eq!(acceptance.refused(&four), None, "{stage}: only one member refuses");
        }
    }

    #[test]
    fn a_joining_site_can_accept() {
        let joining = members(&[FOUNDER, FOUNDER, JOINING]);
        let mut acceptance = Acceptance::default();
        acceptance.heard(node(1), refused(), &joining);
        assert!(acceptance.refused(&joining).is_some());
        acceptance.heard(node(2), Ok(()), &joining);
        assert_eq!(acceptance.refused(&joining), None);
        acceptance.heard(node(2), refused(), &joining);
        assert_eq!(acceptance.refused(&joining), None, "its refusal does not count");
        let joined = members(&[FOUNDER, FOUNDER, JOINED]);
        assert!(acceptance.refused(&joined).is_some(), "as a member it does");
    }

    #[test]
    fn refusals_of_unreachable_nodes_do_not_count() {
        let three = members(&[FOUNDER; 3]);
        let mut acceptance = Acceptance::default();
        acceptance.heard(node(1), refused(), &three);
        acceptance.heard(node(2), refused(), &three);
        acceptance.note_timeout(node(1));
        assert_eq!(acceptance.refused(&three), Some((node(2), "other clock")));
        acceptance.note_timeout(node(2));
        assert_eq!(acceptance.refused(&three), None);
        acceptance.heard(node(1), Ok(()), &three);
        acceptance.note_timeout(node(1));
        acceptance.heard(node(2), refused(), &three);
        assert_eq!(
            acceptance.refused(&three),
            None,
            "the site that accepted it is only unreachable"
        );
    }

    #[test]
    fn answers_from_an_earlier_generation_are_removed() {
        let two = members(&[FOUNDER; 2]);
        let mut acceptance = Acceptance::default();
        acceptance.heard(node(1), refused(), &two);
        assert!(acceptance.refused(&two).is_some());
        acceptance.note(&members(&[FOUNDER, LEAVING]));
        let again = members(&[FOUNDER, JOINED]);
        acceptance.note(&again);
        assert_eq!(acceptance.refused(&again), None);
    }
}
