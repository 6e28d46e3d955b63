//! Changes of the list of sites, and their effects.

use solera_machine::{Address, Now};
use solera_membership::{Change, MemberError, Members, SiteStatus};
use solera_time::SiteId;

use super::Replica;
use crate::config::Rule;
use crate::message::{Event, Message, SiteGeneration};
use crate::record::Record;

/// Progress of the worker's other protocols with changes of the list of sites.
#[derive(Debug)]
pub(crate) struct OtherProtocols {
    /// Whether they have the data that they need to serve.
    pub(crate) filled: bool,
    /// Whether they have completed what the present list of sites requires of them.
    pub(crate) completed: bool,
}

impl Replica {
    /// Changes the status of a site for an operator. Must be called at the root of a site's workers
    /// (worker 0), which is the first to receive the confirmations of other sites.
    ///
    /// # Errors
    /// The reason why the status cannot be changed now.
    pub fn change_members(
        &mut self,
        now: Now,
        site: SiteId,
        change: Change,
    ) -> Result<(), MemberError> {
        let members = self.worker.dissemination.members.changed(self.worker.me, site, change)?;
        // The site needs a new generation, and only all sites together know all of its generations.
        if change == Change::Add
            && let Some(other) = self.worker.dissemination.not_agreed()
        {
            return Err(MemberError::NotAgreed(other));
        }
        self.learn_members(now, &members);
        Ok(())
    }

    /// Returns this worker's view of the list of sites.
    pub fn members(&self) -> &Members {
        &self.worker.dissemination.members
    }

    /// Notes the progress of the worker's other protocols with changes of the list of sites:
    /// whether they have the data that they need to serve, and whether they have completed the
    /// change to the current list. See [`Participant`](solera_membership::Participant).
    pub fn note_others(&mut self, filled: bool, completed: bool) {
        self.others = Some(OtherProtocols { filled, completed });
    }

    /// Returns the site removals that the worker's other protocols have completed; `None` without
    /// such protocols.
    pub(crate) fn completed_removals(&self) -> Option<Vec<SiteGeneration>> {
        let others = self.others.as_ref()?;
        let members = &self.worker.dissemination.members;
        let leaving = members.which(SiteStatus::Leaving).filter(|_| others.completed);
        Some(leaving.map(|site| (site, members.generation(site))).collect())
    }

    /// Merges another worker's view of the sites' statuses.
    pub(crate) fn learn_members(&mut self, now: Now, theirs: &Members) {
        let mut members = self.worker.dissemination.members.clone();
        if members.merge(theirs) {
            self.worker.note_activity(now);
            self.worker.record(|| Record::Members(members.clone()));
            self.set_members(members, |_| false);
            for site in SiteId::all(self.worker.config.topology.sites()) {
                for index in 0..self.worker.partitions.len() {
                    self.keep_known(index, site);
                }
            }
        }
    }

    /// Applies new statuses of sites. `knows` returns, for the index of a partition, whether the
    /// partition was loaded from a checkpoint that contains this change already. Data of such a
    /// partition after the end of a generation belongs to the next generation.
    pub(crate) fn set_members(&mut self, members: Members, knows: impl Fn(usize) -> bool) {
        let before = std::mem::replace(&mut self.worker.dissemination.members, members.clone());
        if let Some(others) = &mut self.others {
            // The other protocols have not received this list.
            others.completed = false;
        }
        // The clocks of all workers of a site that has joined begin after its former generations.
        for gap in members.gaps(self.worker.me) {
            self.worker.clock.observe(gap.end);
        }
        for site in SiteId::all(members.sites()) {
            for gap in &members.gaps(site)[before.gaps(site).len()..] {
                if site != self.worker.me && !members.is_member(self.worker.me) {
                    // The data received so far may lack some of the history that the members have
                    // agreed to keep.
                    self.begin_filling_anew();
                }
                let drops = self.worker.config.keeps(Rule::DropAfterCut);
                let filled = self.worker.partitions.iter_mut().enumerate();
                for (index, partition) in filled.filter(|(_, partition)| partition.filled) {
                    if drops && !knows(index) {
                        partition.drop_causal_after(site, gap.cut);
                    }
                    partition.note_complete(site, gap.end);
                }
                self.worker.trace(|| Event::Closed { site, gap: *gap });
            }
            // Another member may have received more of the site's history and lost it in a crash,
            // or data that is kept may depend on more of it. The history therefore counts as
            // complete up to the end of the gap.
            if let Some(gap) = members.open_gap(site) {
                for partition in
                    self.worker.partitions.iter_mut().filter(|partition| partition.filled)
                {
                    partition.note_complete(site, gap.end);
                }
            }
            if members.generation(site) != before.generation(site) {
                self.worker.dissemination.begin_generation(site);
                for partition in &mut self.worker.partitions {
                    partition.begin_generation(site);
                }
            }
        }
        for partition in &mut self.worker.partitions {
            partition.agreed.fill(false);
        }
        self.set_groups();
    }

    /// Returns whether a message of another site's replica is valid now: the current generation of
    /// a member must have sent it. Statuses of sites are accepted from every site.
    pub(super) fn admits(
        &mut self,
        now: Now,
        from: Address,
        generation: u32,
        message: &Message,
    ) -> bool {
        if let Message::StableVec { members, .. }
        | Message::KnownVecGlobal { members, .. }
        | Message::Changes { members, .. } = message
        {
            self.learn_members(now, members);
        }
        let members = &self.worker.dissemination.members;
        members.generation(from.site) == generation
            && match members.status(from.site) {
                SiteStatus::Member => true,
                SiteStatus::Joining => {
                    // The site may have joined and execute transactions before this worker learns
                    // of it.
                    let answers = matches!(message, Message::Changes { .. });
                    answers || matches!(message, Message::Fetch(_) | Message::StableVec { .. })
                }
                SiteStatus::Leaving | SiteStatus::Gone => false,
            }
    }
}
