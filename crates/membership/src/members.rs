//! A participant's view of the sites' statuses.

use serde::{Deserialize, Serialize};
use solera_time::{MAX_SITES, SiteId, Timestamp};

use crate::change::{Change, MemberError};
use crate::status::{SiteStatus, status_at};

/// Times of the causal transactions that are lost with one generation of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Every member keeps the site's causal transactions up to this time.
    pub cut: Timestamp,
    /// No member has a transaction of this generation with a later time, nor anything that depends
    /// on one. If the site has joined again, its next generation begins after this time.
    pub end: Timestamp,
}

/// Status and history of one site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Slot {
    /// Position in the cycle of statuses (member, leaving, removed, joining), counted through all
    /// generations. It only grows; its last two bits are the status. The removal of a joining site
    /// skips a position.
    stage: u32,
    /// One gap for each generation that has ended.
    gaps: Vec<Gap>,
}

/// A replica's view of the sites' statuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<Slot>")]
pub struct Members(Vec<Slot>);

/// Checks a decoded list.
impl TryFrom<Vec<Slot>> for Members {
    type Error = &'static str;

    fn try_from(slots: Vec<Slot>) -> Result<Self, Self::Error> {
        let members = Members(slots);
        match members.is_well_formed() {
            true => Ok(members),
            false => {
                Err("invalid list of sites: too many sites, or gaps that disagree with the status")
            }
        }
    }
}

impl Slot {
    /// Returns the slot of a removed site whose generations before `generation` are unknown.
    fn before(generation: u32) -> Slot {
        let unknown = Gap { cut: Timestamp::ZERO, end: Timestamp::ZERO };
        Slot { stage: 4 * generation - 2, gaps: vec![unknown; generation as usize] }
    }
}

impl Members {
    /// Returns the list in which all sites are members in their first generations.
    pub fn new(sites: usize) -> Self {
        Members(vec![Slot::default(); sites])
    }

    /// Returns the list in which the first `founders` sites are members in their first generations.
    /// The other sites were listed later. They have the status of sites that were removed before
    /// they did anything, and can be added.
    pub fn founded(founders: usize, sites: usize) -> Self {
        let mut members = Members::new(sites);
        for slot in members.0.iter_mut().skip(founders) {
            *slot = Slot::before(1);
        }
        members
    }

    /// Returns the initial view of a replica that starts in the given generation of its site. In
    /// any generation but the first, the site is not a member until the other sites have sent the
    /// change that lets it join.
    pub fn at_start(sites: usize, founders: usize, site: SiteId, generation: u32) -> Self {
        let mut members = Members::founded(founders, sites);
        if generation > 0 {
            members.0[site.index()] = Slot::before(generation);
        }
        members
    }

    /// Returns the view reduced to the first `sites` sites.
    pub fn first(&self, sites: usize) -> Members {
        Members(self.0.iter().take(sites).cloned().collect())
    }

    /// Returns the number of listed sites.
    pub fn sites(&self) -> usize {
        self.0.len()
    }

    /// Returns the status of a site.
    pub fn status(&self, site: SiteId) -> SiteStatus {
        status_at(self.0[site.index()].stage)
    }

    /// Returns the number of a site's current generation: 0 from the beginning, then one more each
    /// time that the site joins.
    pub fn generation(&self, site: SiteId) -> u32 {
        (self.0[site.index()].stage + 1) / 4
    }

    /// Returns a site's position in the cycle of statuses. It grows with each change of the status.
    pub fn stage(&self, site: SiteId) -> u64 {
        self.0[site.index()].stage.into()
    }

    /// Returns whether a site is a member.
    pub fn is_member(&self, site: SiteId) -> bool {
        self.status(site) == SiteStatus::Member
    }

    /// Returns the sites that are members.
    pub fn members(&self) -> impl Iterator<Item = SiteId> + '_ {
        SiteId::all(self.sites()).filter(|site| self.is_member(*site))
    }

    /// Returns the sites that are members or are joining.
    pub fn members_and_joining(&self) -> impl Iterator<Item = SiteId> + '_ {
        self.members().chain(self.which(SiteStatus::Joining))
    }

    /// Returns the sites with a given status.
    pub fn which(&self, status: SiteStatus) -> impl Iterator<Item = SiteId> + '_ {
        SiteId::all(self.sites()).filter(move |site| self.status(*site) == status)
    }

    /// Returns the gaps of a site's earlier generations.
    pub fn gaps(&self, site: SiteId) -> &[Gap] {
        &self.0[site.index()].gaps
    }

    /// Returns the gap of the last generation of a site that was removed and is not a member again.
    /// No transactions are added to the history of such a site.
    pub fn open_gap(&self, site: SiteId) -> Option<Gap> {
        let gone = matches!(self.status(site), SiteStatus::Gone | SiteStatus::Joining);
        self.gaps(site).last().copied().filter(|_| gone)
    }

    /// Returns the gap that contains a time of a site's transactions. While the site is removed,
    /// its last gap contains every time after the cut, since no member knows when the old
    /// generation ended.
    pub fn gap_of(&self, site: SiteId, ts: Timestamp) -> Option<Gap> {
        let (gaps, gone) = (self.gaps(site), self.open_gap(site).is_some());
        let open = |at: usize| gone && at + 1 == gaps.len();
        let within = |at: &usize| gaps[*at].cut < ts && (ts <= gaps[*at].end || open(*at));
        (0..gaps.len()).find(within).map(|at| gaps[at])
    }

    /// Returns whether a site was listed later than others and never was a member.
    pub fn is_new(&self, site: SiteId) -> bool {
        self.0[site.index()] == Slot::before(1)
    }

    /// Returns a number for the configuration of these members. It is 0 for founding members, and
    /// differs for different members. `changes` returns the number of changes that count up to a
    /// [stage](Self::stage) of a site, and 0 for stage 0; the configuration's number grows with it.
    ///
    /// The number does not depend on how many sites the settings of a node list, or listed when its
    /// data began: sites that never were members do not count.
    pub fn configuration(&self, changes: impl Fn(u64) -> u64) -> u64 {
        let sites = SiteId::all(self.sites()).filter(|site| !self.is_new(*site));
        let who: u64 = self.members().map(|site| 1 << site.0).sum();
        match sites.map(|site| changes(self.stage(site))).sum::<u64>() {
            0 => 0,
            changes => (changes << 8) | who,
        }
    }

    /// Returns whether another list says the same of all sites. A site that only one of the lists
    /// contains must never have been a member.
    pub fn agrees_with(&self, other: &Members) -> bool {
        let listed = self.sites().min(other.sites());
        let new = |members: &Members| {
            SiteId::all(members.sites()).skip(listed).all(|site| members.is_new(site))
        };
        self.0[..listed] == other.0[..listed] && new(self) && new(other)
    }

    /// Returns whether a list is valid.
    fn is_well_formed(&self) -> bool {
        self.sites() <= MAX_SITES
            && self.0.iter().all(|slot| slot.gaps.len() == (slot.stage as usize + 2) / 4)
    }

    /// Adds the later statuses and gaps of another list, for the sites that both lists have.
    /// Returns whether anything changed.
    pub fn merge(&mut self, other: &Members) -> bool {
        let before = self.clone();
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            let former = if theirs.stage > mine.stage {
                std::mem::replace(&mut mine.gaps, theirs.gaps.clone())
            } else {
                theirs.gaps.clone()
            };
            mine.stage = mine.stage.max(theirs.stage);
            // The end of the last gap may grow after the removal, until the site has joined again.
            for (gap, former) in mine.gaps.iter_mut().zip(former) {
                gap.end = gap.end.max(former.end);
            }
        }
        *self != before
    }

    /// Returns the list after a change that was requested at site `me`.
    ///
    /// # Errors
    /// The reason why the change is rejected.
    pub fn changed(
        &self,
        me: SiteId,
        site: SiteId,
        change: Change,
    ) -> Result<Members, MemberError> {
        if !self.is_member(me) {
            return Err(MemberError::NotAMember);
        }
        let slot = &self.0[site.index()];
        let mut busy = SiteId::all(self.sites()).filter(|other| {
            *other != site
                && matches!(self.status(*other), SiteStatus::Leaving | SiteStatus::Joining)
        });
        let stage = match (change, self.status(site)) {
            (Change::Remove, _) if site == me => return Err(MemberError::Itself),
            (Change::Remove, SiteStatus::Member) => slot.stage + 1,
            (Change::Remove, SiteStatus::Joining) => slot.stage + 2,
            (Change::Add, SiteStatus::Gone) => slot.stage + 1,
            _ => return Err(MemberError::Already(slot.stage)),
        };
        if change == Change::Add
            && let Some(other) = busy.next()
        {
            return Err(MemberError::Busy(other));
        }
        let mut members = self.clone();
        members.0[site.index()].stage = stage;
        Ok(members)
    }

    /// Returns the list after a leaving site has been removed, with the gap of its last generation.
    pub fn closed(&self, site: SiteId, gap: Gap) -> Members {
        let mut members = self.clone();
        let slot = &mut members.0[site.index()];
        slot.stage += 1;
        // An empty gap would make the site look like one that never was a member.
        let end = gap.end.max(Timestamp(1));
        slot.gaps.push(Gap { end, ..gap });
        members
    }

    /// Returns the list with a later end of the last gap of a removed site, because updates of
    /// other sites depend on transactions up to `end`.
    pub fn ended_at(&self, site: SiteId, end: Timestamp) -> Members {
        let mut members = self.clone();
        if let Some(gap) = members.0[site.index()].gaps.last_mut() {
            gap.end = gap.end.max(end);
        }
        members
    }

    /// Returns the list after a site has joined. Its new generation begins after `now`.
    pub fn joined(&self, site: SiteId, now: Timestamp) -> Members {
        let mut members = self.ended_at(site, now);
        members.0[site.index()].stage += 1;
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SiteId = SiteId(0);
    const B: SiteId = SiteId(1);
    const C: SiteId = SiteId(2);

    #[test]
    fn a_site_leaves_and_joins_again_and_again() {
        let mut members = Members::new(3);
        for generation in 0..3 {
            assert_eq!(
                (members.status(C), members.generation(C)),
                (SiteStatus::Member, generation)
            );
            members = members.changed(A, C, Change::Remove).unwrap();
            assert_eq!(
                (members.status(C), members.generation(C)),
                (SiteStatus::Leaving, generation)
            );
            let (cut, end) = (
                Timestamp(10 * u64::from(generation) + 1),
                Timestamp(10 * u64::from(generation) + 5),
            );
            members = members.closed(C, Gap { cut, end });
            assert_eq!((members.status(C), members.generation(C)), (SiteStatus::Gone, generation));
            assert!(members.is_well_formed());
            members = members.changed(B, C, Change::Add).unwrap();
            assert_eq!(
                (members.status(C), members.generation(C)),
                (SiteStatus::Joining, generation + 1)
            );
            assert!(members.gap_of(C, Timestamp(1000)).is_some());
            members = members.joined(C, Timestamp(10 * u64::from(generation) + 7));
        }
        for (ts, lost) in [(1, false), (2, true), (7, true), (8, false), (14, true), (28, false)] {
            assert_eq!(members.gap_of(C, Timestamp(ts)).is_some(), lost, "{ts}");
        }
    }

    #[test]
    fn a_removed_site_without_updates_does_not_look_new() {
        let empty = Gap { cut: Timestamp::ZERO, end: Timestamp::ZERO };
        let leaving = Members::new(3).changed(A, C, Change::Remove).unwrap();
        let gone = leaving.closed(C, empty);
        assert!(!gone.is_new(C) && Members::founded(2, 3).is_new(C));
        let numbers = [&leaving, &gone].map(|list| list.configuration(|stage| stage));
        assert_eq!(numbers, [(1 << 8) | 0b11, (2 << 8) | 0b11]);
        assert_eq!(Members::founded(2, 3).configuration(|stage| stage), 0);
        assert!(!gone.agrees_with(&Members::new(2)));
    }

    #[test]
    fn lists_agree_if_they_say_the_same_of_all_sites() {
        let all = Members::new(3);
        assert!(all.agrees_with(&all) && !all.agrees_with(&Members::new(2)));
        let longer = Members::founded(3, 5);
        assert!(all.agrees_with(&longer) && longer.agrees_with(&all));
        let removed = all.changed(A, C, Change::Remove).unwrap();
        assert!(!removed.agrees_with(&all) && !longer.agrees_with(&removed));
    }

    #[test]
    fn transactions_of_a_leaving_site_are_not_given_up_before_it_is_removed() {
        let gap = Gap { cut: Timestamp(1), end: Timestamp(5) };
        let mut members = Members::new(3).changed(A, C, Change::Remove).unwrap().closed(C, gap);
        members = members.changed(A, C, Change::Add).unwrap().joined(C, Timestamp(7));
        let leaving = members.changed(A, C, Change::Remove).unwrap();
        assert_eq!(leaving.gap_of(C, Timestamp(7)).map(|gap| gap.cut), Some(Timestamp(1)));
        assert_eq!(leaving.gap_of(C, Timestamp(8)), None);
    }

    #[test]
    fn a_site_that_cannot_finish_joining_is_removed() {
        let gap = Gap { cut: Timestamp(1), end: Timestamp(1) };
        let members = Members::new(3).changed(A, C, Change::Remove).unwrap().closed(C, gap);
        let joining = members.changed(A, C, Change::Add).unwrap();
        let leaving = joining.changed(A, C, Change::Remove).unwrap();
        assert_eq!((leaving.status(C), leaving.generation(C)), (SiteStatus::Leaving, 1));
    }

    #[test]
    fn invalid_changes_are_rejected() {
        let members = Members::new(3);
        let leaving = members.changed(A, C, Change::Remove).unwrap();
        let gone = leaving.closed(C, Gap { cut: Timestamp(1), end: Timestamp(2) });
        let busy = gone.changed(A, B, Change::Remove).unwrap();
        for (list, at, site, change, error) in [
            (&members, A, A, Change::Remove, MemberError::Itself),
            (&members, A, C, Change::Add, MemberError::Already(0)),
            (&leaving, A, C, Change::Add, MemberError::Already(1)),
            (&leaving, A, C, Change::Remove, MemberError::Already(1)),
            (&busy, A, C, Change::Add, MemberError::Busy(B)),
            (&gone, C, B, Change::Remove, MemberError::NotAMember),
            (&gone, A, C, Change::Remove, MemberError::Already(2)),
        ] {
            assert_eq!(list.changed(at, site, change), Err(error));
        }
    }

    #[test]
    fn a_site_that_is_listed_later_waits_to_be_added() {
        let short = Members::new(2);
        let long = Members::founded(2, 3);
        assert_eq!((long.status(C), long.generation(C)), (SiteStatus::Gone, 0));
        assert!(long.is_well_formed() && long.is_new(C) && !long.is_new(B));
        assert_eq!(long.first(2), short);
        // Lists of different lengths exchange the statuses of the sites that both have.
        let leaving = short.changed(A, B, Change::Remove).unwrap();
        let (mut one, mut other) = (long.clone(), short.clone());
        assert!(one.merge(&leaving));
        assert!(other.merge(&one));
        assert_eq!((one.sites(), &other), (3, &leaving));
        let joining = long.changed(A, C, Change::Add).unwrap();
        assert_eq!((joining.status(C), joining.generation(C)), (SiteStatus::Joining, 1));
        let joined = joining.joined(C, Timestamp(7));
        assert!(joined.gap_of(C, Timestamp(8)).is_none() && !joined.is_new(C));
    }

    #[test]
    fn the_later_stage_wins() {
        let mut one = Members::new(3);
        let other = one.changed(A, C, Change::Remove).unwrap();
        assert!(one.merge(&other));
        assert!(!one.merge(&other));
        assert!(!one.merge(&Members::new(3)));
        assert_eq!(one, other);
    }

    #[test]
    fn a_generation_that_began_while_it_was_ended_is_not_forgotten() {
        let gap = Gap { cut: Timestamp(1), end: Timestamp(2) };
        let gone = Members::new(3).changed(A, C, Change::Remove).unwrap().closed(C, gap);
        let joining = gone.changed(A, C, Change::Add).unwrap();
        let (mut joined, mut leaving) =
            (joining.joined(C, Timestamp(9)), joining.changed(A, C, Change::Remove).unwrap());
        assert!(joined.merge(&leaving));
        assert!(leaving.merge(&joined));
        assert_eq!(joined, leaving);
        assert!(leaving.gap_of(C, Timestamp(9)).is_some());
    }
}
