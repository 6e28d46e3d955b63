//! BROADCAST_VECS within a site, by a tree of its workers (§5.4). The same messages carry the floor
//! of the site's snapshots and causal stability, which determine what may be folded and forgotten.

use std::collections::VecDeque;

use solera_machine::Address;
use solera_membership::{Members, SiteStatus};
use solera_time::{Origin, SiteId, Timestamp, Vector};

use crate::config::{Config, Rule};
use crate::message::{Converged, SiteGeneration, SiteView, Subtree};
use crate::uniformity::uniform_vec;

/// Position of this worker in the dissemination tree, and the latest reports of its children.
///
/// The paper broadcasts KNOWNVEC_LOCAL to all replicas of the site and lets siblings exchange
/// STABLEVEC pairwise. Here each node of the tree sends the meet of its subtree's vectors up, the
/// roots exchange STABLEVEC, and the results are sent down, because they are the same for the whole
/// site.
#[derive(Debug)]
pub(crate) struct Dissemination {
    me: Address,
    parent: Option<Address>,
    children: Vec<Address>,
    heard: Vec<Option<Subtree>>,
    root: Option<Root>,
    /// Latest results of the root.
    pub(crate) view: SiteView,
    /// This worker's view of the members.
    pub(crate) members: Members,
}

/// Error: the worker is not a child of this one in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoChild;

/// State that only the root of a site's tree has.
#[derive(Debug)]
struct Root {
    f: usize,
    uniform_before_visible: bool,
    /// `stableMatrix` (Alg. 2 l. 32).
    stable_matrix: Vec<Vector>,
    /// List of members that each site has last reported.
    reported: Vec<Option<Members>>,
    /// Site removals that each site has completed, from its last STABLEVEC.
    completed_removals: Vec<Option<Vec<SiteGeneration>>>,
    /// Number of sites that all workers of this site list, as far as is known.
    listed: usize,
    floors: Vec<Floors>,
    /// Join of the vectors that this site's workers had when they reported their floors.
    ceiling: Vector,
    /// Whether the history of each site is complete, and no update here depends on more of it.
    closed: Vec<bool>,
    /// Time up to which all strong transactions are folded in all partitions of this site.
    strong_folded: Timestamp,
    /// See [`Subtree::former_generations_covered`].
    former_generations_covered: bool,
}

impl Root {
    /// Returns the floor to send to other sites. It is zero, and so does not advance causal
    /// stability, until `ceiling` covers all transactions that may execute on snapshots below the
    /// floor.
    fn to_announce(&self, floor: &Vector) -> Vector {
        match self.former_generations_covered {
            true => *floor,
            false => Vector::zero(self.floors.len()),
        }
    }
}

/// Floors that one site has announced, with their ceilings: each of the site's transactions is
/// within the ceiling or observes the floor. A floor takes effect once this site has folded
/// everything within the ceiling, so that only transactions that observe the floor can still be
/// applied to a key.
#[derive(Debug)]
struct Floors {
    in_force: Vector,
    announced: VecDeque<(Vector, Vector)>,
}

/// Largest number of announcements per site. A further one replaces the last, which only delays
/// pruning.
const ANNOUNCEMENTS: usize = 64;

impl Dissemination {
    pub(crate) fn new(config: &Config) -> Self {
        let me = config.address;
        let sites = config.topology.sites();
        let fan_out = u16::from(config.fan_out.max(1));
        let workers = u16::from(config.topology.workers[me.site.index()]);
        let index = u16::from(me.worker);
        let at = |worker: u16| Address { site: me.site, worker: worker as u8 };
        let first = index * fan_out + 1;
        let children: Vec<_> = (first..(first + fan_out).min(workers)).map(at).collect();
        let zero = Vector::zero(sites);
        Dissemination {
            me,
            parent: (index > 0).then(|| at((index - 1) / fan_out)),
            heard: vec![None; children.len()],
            children,
            root: (index == 0).then(|| Root {
                f: config.f,
                uniform_before_visible: config.keeps(Rule::UniformBeforeVisible),
                stable_matrix: vec![zero; sites],
                reported: vec![None; sites],
                completed_removals: vec![Some(Vec::new()); sites],
                listed: 0,
                floors: (0..sites)
                    .map(|_| Floors { in_force: zero, announced: VecDeque::new() })
                    .collect(),
                ceiling: zero,
                closed: vec![false; sites],
                strong_folded: Timestamp::ZERO,
                former_generations_covered: false,
            }),
            view: SiteView {
                stable_vec: zero,
                uniform_vec: zero,
                reachable_vec: zero,
                floor: zero,
                clock: Timestamp::ZERO,
                strong_clock: Timestamp::ZERO,
                settled_vec: zero,
                agreed: false,
                serving: config.generation == 0,
            },
            members: Members::at_start(sites, config.founders, me.site, config.generation),
        }
    }

    pub(crate) fn parent(&self) -> Option<Address> {
        self.parent
    }

    pub(crate) fn children(&self) -> &[Address] {
        &self.children
    }

    /// Handles KNOWNVEC_LOCAL of a child's subtree (Alg. 2 l. 27–28). Returns the child's previous
    /// report.
    pub(crate) fn on_up(
        &mut self,
        from: Address,
        subtree: Subtree,
    ) -> Result<Option<Subtree>, NoChild> {
        let child = self.children.iter().position(|child| *child == from).ok_or(NoChild)?;
        Ok(self.heard[child].replace(subtree))
    }

    /// Merges the results of the root, whose vectors and clocks never decrease.
    pub(crate) fn on_down(&mut self, view: SiteView) {
        self.view.stable_vec.join(&view.stable_vec);
        self.view.uniform_vec.join(&view.uniform_vec);
        self.view.reachable_vec.join(&view.reachable_vec);
        self.view.floor.join(&view.floor);
        self.view.clock = self.view.clock.max(view.clock);
        self.view.strong_clock = self.view.strong_clock.max(view.strong_clock);
        self.view.settled_vec.join(&view.settled_vec);
        self.view.agreed = view.agreed;
        self.view.serving |= view.serving;
    }

    /// Begins a new generation of a site: reports of its earlier generations do not apply to it.
    pub(crate) fn begin_generation(&mut self, site: SiteId) {
        let Some(root) = &mut self.root else { return };
        root.stable_matrix[site.index()] = Vector::zero(self.members.sites());
        // The settled vector does not advance until the site announces what its transactions
        // observe.
        root.floors[site.index()] =
            Floors { in_force: self.view.settled_vec, announced: VecDeque::new() };
    }

    /// At the root: returns a member or joining site that has not confirmed the same list of
    /// members. Returns this site while some of its workers list fewer sites or have not reported
    /// yet.
    pub(crate) fn not_agreed(&self) -> Option<SiteId> {
        let root = self.root.as_ref();
        let reported = |site: SiteId| root.and_then(|root| root.reported[site.index()].as_ref());
        let listed = root.map_or(0, |root| root.listed);
        self.members.members_and_joining().find(|site| match *site == self.me.site {
            true => listed < self.members.sites(),
            false => reported(*site) != Some(&self.members),
        })
    }

    /// Returns, at the root, a member that has not reported that all of its protocols have
    /// completed the removal of this generation of a site.
    pub(crate) fn not_completed(&self, removed: SiteGeneration) -> Option<SiteId> {
        let root = self.root.as_ref()?;
        let has_completed = |site: &SiteId| match &root.completed_removals[site.index()] {
            Some(generations) => generations.contains(&removed),
            None => true,
        };
        self.members.members().find(|site| !has_completed(site))
    }

    /// Returns, at the root, the site removals that all workers of this site have completed.
    pub(crate) fn completed_removals(&self) -> Option<Vec<SiteGeneration>> {
        self.root.as_ref().and_then(|root| root.completed_removals[self.me.site.index()].clone())
    }

    /// Notes, at the root, which site removals all workers of this site have completed.
    pub(crate) fn note_completed_removals(&mut self, removals: Option<Vec<SiteGeneration>>) {
        let me = self.me.site.index();
        if let Some(root) = &mut self.root {
            root.completed_removals[me] = removals;
        }
    }

    /// At the root: returns the statuses of sites that all workers of this site have. A worker that
    /// lists fewer sites has no statuses of the others.
    pub(crate) fn known_members(&self) -> Members {
        self.members.first(self.root.as_ref().map_or(0, |root| root.listed))
    }

    /// Returns the state of this worker's subtree, given its own part; `None` until every child has
    /// reported.
    pub(crate) fn subtree(&self, own: Subtree) -> Option<Subtree> {
        let mut met = own;
        for child in &self.heard {
            let child = child.as_ref()?;
            met.known_vec.meet(&child.known_vec);
            met.floor.meet(&child.floor);
            met.ceiling.join(&child.ceiling);
            met.strong_clock = met.strong_clock.max(child.strong_clock);
            met.strong_folded = met.strong_folded.min(child.strong_folded);
            met.former_generations_covered &= child.former_generations_covered;
            met.uniform_vec.join(&child.uniform_vec);
            met.filled &= child.filled;
            met.base_vec.join(&child.base_vec);
            met.listed = met.listed.min(child.listed);
            met.settled = completed_by_both(met.settled, child.settled.as_deref());
            met.converged.retain_mut(|mine| {
                let of =
                    |converged: &Converged| (converged.site, converged.generation, converged.gone);
                let same = |theirs: &&Converged| of(theirs) == of(mine);
                let Some(theirs) = child.converged.iter().find(same) else { return false };
                mine.least = mine.least.min(theirs.least);
                mine.most = mine.most.max(theirs.most);
                mine.ceiling = mine.ceiling.zip(theirs.ceiling).map(|(mut mine, theirs)| {
                    mine.join(&theirs);
                    mine
                });
                true
            });
        }
        Some(met)
    }

    /// At the root: takes the state of the whole site, and computes `stableVec` (Alg. 2 l. 29),
    /// `uniformVec` (l. 33–36) and the site's floor.
    pub(crate) fn on_whole_site(&mut self, site: Subtree) {
        let me = self.me.site;
        if let Some(root) = &mut self.root {
            root.listed = usize::from(site.listed);
        }
        self.view.agreed = self.not_agreed().is_none();
        let Some(root) = &mut self.root else { return };
        if !self.members.is_member(me) {
            return;
        }
        self.view.stable_vec.join(&known_of_open_generations(&self.members, &site));
        self.view.floor.join(&site.floor);
        self.view.uniform_vec.join(&site.uniform_vec);
        root.ceiling.join(&site.ceiling);
        self.view.clock = self.view.clock.max(site.ceiling[me]);
        self.view.strong_clock = self.view.strong_clock.max(site.strong_clock);
        root.stable_matrix[me.index()] = self.view.stable_vec;
        root.strong_folded = root.strong_folded.max(site.strong_folded);
        root.former_generations_covered = site.former_generations_covered;
        let floor = root.to_announce(&self.view.floor);
        root.floors[me.index()].announce(root.ceiling, floor);
        root.closed.fill(false);
        for Converged { site, gone, most, ceiling, .. } in &site.converged {
            let gap = self.members.open_gap(*site).filter(|_| *gone);
            root.closed[site.index()] = gap.is_some_and(|gap| *most <= gap.end);
            if let Some(ceiling) = ceiling
                && gap.is_some()
                && self.members.status(*site) == SiteStatus::Gone
            {
                root.floors[site.index()].announce_the_end(*ceiling);
            }
        }
        self.refresh();
        // The site's snapshots must be within the vector of every partition, and must cover the
        // snapshots with which the partitions were filled.
        let filled_with = site.base_vec.with(me, Timestamp::ZERO);
        self.view.serving |= site.filled && self.view.uniform_vec.covers(&filled_with);
    }

    /// At the root: handles STABLEVEC of another site (Alg. 2 l. 31–32), with its floor.
    pub(crate) fn on_stable_vec(
        &mut self,
        site: SiteId,
        stable_vec: &Vector,
        ceiling: Vector,
        floor: Vector,
        (members, removals): (Members, Option<Vec<SiteGeneration>>),
    ) {
        let Some(root) = &mut self.root else { return };
        root.reported[site.index()] = Some(members);
        root.completed_removals[site.index()] = removals;
        if !self.members.is_member(self.me.site) || !self.members.is_member(site) {
            return;
        }
        root.stable_matrix[site.index()].join(stable_vec);
        root.floors[site.index()].announce(ceiling, floor);
        self.refresh();
    }

    /// Returns the vectors that the root sends to the other sites' roots: `stableVec`, the floor
    /// and its ceiling.
    pub(crate) fn stable_vec(&self) -> Option<(Vector, Vector, Vector)> {
        let root = self.root.as_ref()?;
        Some((self.view.stable_vec, root.to_announce(&self.view.floor), root.ceiling))
    }

    fn refresh(&mut self) {
        let me = self.me.site;
        let Some(root) = &mut self.root else { return };
        let uniform = if root.uniform_before_visible {
            uniform_vec(&root.stable_matrix, self.me.site, root.f, &self.members)
        } else {
            self.view.stable_vec
        };
        self.view.uniform_vec.join(&uniform);
        // A strong transaction is uniform when it commits.
        let strong = self.view.stable_vec.strong;
        self.view.uniform_vec.raise(Origin::Strong, strong);
        for (row, stable_vec) in SiteId::all(root.stable_matrix.len()).zip(&root.stable_matrix) {
            // A site's own latest transactions may be stored at no other site.
            let elsewhere =
                if row == me { *stable_vec } else { stable_vec.with(row, Timestamp::ZERO) };
            self.view.reachable_vec.join(&elsewhere);
        }
        let mut settled = Vector::top(root.floors.len());
        // Every partition here stores and has folded the transactions within both vectors.
        let mut folded = self.view.floor;
        folded.meet(&self.view.stable_vec);
        // Other sites bound the times of strong transactions that can still arrive, but not always
        // their snapshots.
        folded.strong = folded.strong.min(root.strong_folded);
        let sites = SiteId::all(self.members.sites());
        for site in sites.filter(|site| root.closed[site.index()]) {
            if self.members.open_gap(site).is_some_and(|gap| folded[site] >= gap.end) {
                // A ceiling may contain a later time: a worker may have received more of the site's
                // transactions and lost them in a crash.
                folded[site] = Timestamp::MAX;
            }
        }
        for floors in &mut root.floors {
            floors.advance(&folded);
            settled.meet(&floors.in_force);
        }
        self.view.settled_vec.join(&settled);
    }
}

/// Returns the site removals that two subtrees have both completed.
fn completed_by_both(
    mine: Option<Vec<SiteGeneration>>,
    theirs: Option<&[SiteGeneration]>,
) -> Option<Vec<SiteGeneration>> {
    let Some(theirs) = theirs else { return mine };
    let Some(mut mine) = mine else { return Some(theirs.to_vec()) };
    mine.retain(|generation| theirs.contains(generation));
    Some(mine)
}

/// Returns the vector of what all workers of the site store (Alg. 2 l. 29). The entry of a removed
/// site is at most the cut while some worker has not received the removal. Such a worker still
/// holds transactions after the cut, which are given up. With a greater entry, it would show them
/// in snapshots, and would confirm a past that is lost.
fn known_of_open_generations(members: &Members, whole: &Subtree) -> Vector {
    let mut known_vec = whole.known_vec;
    for site in SiteId::all(members.sites()) {
        let Some(gap) = members.gap_of(site, known_vec[site]) else { continue };
        let heard = whole
            .converged
            .iter()
            .any(|of| of.gone && of.site == site && of.generation == members.generation(site));
        if !heard {
            known_vec[site] = gap.cut;
        }
    }
    known_vec
}

impl Floors {
    fn announce(&mut self, ceiling: Vector, floor: Vector) {
        if self.announced.len() == ANNOUNCEMENTS {
            self.announced.pop_back();
        }
        self.announced.push_back((ceiling, floor));
    }

    /// Announces that the site is removed: once its history is folded, none of its transactions can
    /// be applied any more.
    fn announce_the_end(&mut self, ceiling: Vector) {
        let top = Vector::top(self.in_force.entries().len());
        let announced = self.announced.back().map_or(self.in_force, |(_, floor)| *floor);
        if announced != top {
            self.announce(ceiling, top);
        }
    }

    fn advance(&mut self, folded: &Vector) {
        while self.announced.front().is_some_and(|(ceiling, _)| folded.covers(ceiling)) {
            let (_, floor) = self.announced.pop_front().expect("there is a front");
            self.in_force.join(&floor);
        }
    }
}

#[cfg(test)]
mod tests {
    use solera_membership::{Change, Gap};

    use super::*;

    const GONE: SiteId = SiteId(0);

    /// Returns the vector of a site's workers for site 0, when one or all of them have received the
    /// removal of that site.
    fn whole(members: &Members, known: u64, all_have_heard: bool) -> Subtree {
        let zero = Vector::zero(3);
        let converged = Converged {
            site: GONE,
            generation: members.generation(GONE),
            gone: true,
            least: Timestamp(known),
            most: Timestamp(known),
            ceiling: None,
        };
        Subtree {
            known_vec: zero.with(GONE, Timestamp(known)).with(SiteId(1), Timestamp(7)),
            floor: zero,
            ceiling: zero,
            strong_clock: Timestamp::ZERO,
            strong_folded: Timestamp::ZERO,
            former_generations_covered: true,
            uniform_vec: zero,
            filled: true,
            base_vec: zero,
            listed: 3,
            converged: if all_have_heard { vec![converged] } else { Vec::new() },
            settled: None,
        }
    }

    #[test]
    fn nothing_is_known_beyond_a_cut_before_all_workers_have_the_removal() {
        let gap = Gap { cut: Timestamp(2), end: Timestamp(5) };
        let leaving = Members::new(3).changed(SiteId(1), GONE, Change::Remove).unwrap();
        let gone = leaving.closed(GONE, gap);
        let joining = gone.changed(SiteId(1), GONE, Change::Add).unwrap();
        let again = joining.joined(GONE, Timestamp(9));
        for (members, known, all_have_heard, expected) in [
            (&leaving, 5, false, 5),
            (&gone, 1, false, 1),
            (&gone, 5, false, 2),
            (&gone, 5, true, 5),
            (&joining, 5, false, 2),
            (&joining, 5, true, 5),
            // In a list with the next generation, the gap of the previous generation ends later.
            (&again, 5, false, 2),
            (&again, 10, false, 10),
        ] {
            let known_vec =
                known_of_open_generations(members, &whole(members, known, all_have_heard));
            assert_eq!(known_vec[GONE], Timestamp(expected), "{members:?}, {known}");
            assert_eq!(known_vec[SiteId(1)], Timestamp(7));
        }
    }

    #[test]
    fn a_subtree_has_completed_a_removal_when_every_part_has_completed_it() {
        let (one, other) = ((SiteId(1), 0), (SiteId(2), 4));
        for (mine, theirs, both) in [
            (None, None, None),
            (None, Some(vec![one]), Some(vec![one])),
            (Some(vec![one]), None, Some(vec![one])),
            (Some(vec![one, other]), Some(vec![other]), Some(vec![other])),
            (Some(vec![one]), Some(vec![(SiteId(1), 1)]), Some(vec![])),
        ] {
            assert_eq!(completed_by_both(mine, theirs.as_deref()), both);
        }
    }
}
