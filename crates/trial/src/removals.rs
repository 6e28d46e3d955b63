//! Jobs while a site leaves, which delay its removal.

use std::collections::{BTreeMap, BTreeSet};

use solera_machine::JobId;
use solera_membership::{Members, SiteStatus};
use solera_time::SiteId;

/// One job for each generation of a site that leaves. They reveal a removal that does not wait for
/// its protocols.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// Whether the worker has received a list of sites since its start.
    has_list: bool,
    begun: BTreeSet<(SiteId, u32)>,
    under_way: BTreeMap<JobId, (SiteId, u32)>,
}

impl Removals {
    /// Takes a list of sites. Returns the generations of leaving sites whose jobs have not begun.
    pub(crate) fn begin(&mut self, members: &Members) -> Vec<(SiteId, u32)> {
        self.has_list = true;
        let leaving =
            members.which(SiteStatus::Leaving).map(|site| (site, members.generation(site)));
        leaving.filter(|generation| self.begun.insert(*generation)).collect()
    }

    /// Records the job for a generation of a site.
    pub(crate) fn wait_for(&mut self, job: JobId, generation: (SiteId, u32)) {
        self.under_way.insert(job, generation);
    }

    /// Records the end of a job. Returns the generation of the site that it was for, if any.
    pub(crate) fn end(&mut self, job: JobId) -> Option<(SiteId, u32)> {
        self.under_way.remove(&job)
    }

    /// Returns whether all jobs for the list of sites have ended.
    pub(crate) fn are_complete(&self) -> bool {
        self.has_list && self.under_way.is_empty()
    }
}
