//! Conditions that must hold at the end, and the history for the checker.

use std::collections::{BTreeMap, BTreeSet};

use solera_checker::speculative::{
    self as checker, History, Operation, Origin, Procedure, Report, Strength,
};
use solera_creek::{OperationId, RegisterKey};
use solera_membership::SiteStatus;

use super::record::{Invocation, Issued, Shown, known, run_of, site_in};
use super::{SpeculativeSessions, member};
use crate::world::creeks::last_finals;
use crate::world::{SiteState, World};

impl SpeculativeSessions {
    /// Describes everything that has not finished yet at sites that are up.
    pub(crate) fn left(&self, world: &World) -> Vec<String> {
        let mut texts = Vec::new();
        if self.shape.is_none() || !self.has_majority(world) {
            return texts;
        }
        let members = self.members(world);
        let up = self.up(world);
        let all_up = members.iter().all(|site| up.contains(site));
        let mut counts: Vec<(u64, u64)> = Vec::new();
        for (at, creek) in world.creeks() {
            let status = creek.status();
            // What a lost site may lack is kept for it.
            if status.tentative > 0 || all_up && status.kept > 0 {
                texts.push(format!("creek: {at:?} has operations left: {status:?}"));
            }
            counts.push((status.committed, status.finals));
        }
        if counts.iter().any(|(committed, finals)| committed != finals || counts[0].0 != *finals) {
            texts.push(format!("creek: committed and final operations of the sites: {counts:?}"));
        }
        let unanswered = self.record.unanswered();
        texts.extend(unanswered.map(|issued| format!("creek: {issued:?} has no stable reply")));
        texts
    }

    fn has_majority(&self, world: &World) -> bool {
        let (members, up) = (self.members(world), self.up(world));
        2 * members.iter().filter(|site| up.contains(site)).count() > members.len()
    }

    /// Returns the sites that are not removed.
    fn members(&self, world: &World) -> Vec<usize> {
        let is_removed = |site: usize| {
            let status = world.site_status(site).map(|(status, _)| status);
            status.is_some_and(|status| status != SiteStatus::Member)
        };
        (0..self.sites).filter(|site| !is_removed(*site)).collect()
    }

    /// Returns the generations of sites that are lost for good, with the sites.
    fn destroyed(&self, world: &World) -> Vec<(usize, u32)> {
        let of_site = |site: usize| {
            let present = world.generation(site);
            let is_lost = world.state(site) == SiteState::Destroyed;
            (0..present + u32::from(is_lost)).map(move |generation| (site, generation))
        };
        (0..self.sites).flat_map(of_site).collect()
    }

    /// Returns operations that were called lost and are final, or whose sites are not lost.
    fn wrongly_lost(&self, world: &World) -> Vec<String> {
        let destroyed = self.destroyed(world);
        let finals: BTreeSet<OperationId> = self.record.finals.values().copied().collect();
        let is_wrong = |id: &&OperationId| {
            let site = (id.site.index(), run_of(id.run).0);
            finals.contains(*id) || !destroyed.contains(&site)
        };
        let wrong = self.record.lost.iter().filter(is_wrong);
        wrong.map(|id| format!("{id} was called lost")).collect()
    }

    /// Returns the problems found.
    pub(crate) fn judge(&mut self, world: &World) -> Vec<String> {
        for site in self.up(world) {
            let Some(creek) = world.creek(member(site)) else { continue };
            let incarnation = world.incarnation(member(site));
            self.record.show(site, incarnation, last_finals(creek));
        }
        let mut problems = std::mem::take(&mut self.record.problems);
        if self.has_majority(world) {
            problems.extend(registers_differ(world));
        }
        problems.extend(self.too_early());
        problems.extend(self.wrongly_lost(world));
        let history = self.history(world);
        problems.extend(checker::check(&history).into_iter().map(|found| found.to_string()));
        problems
    }

    /// Returns what the checker judges.
    fn history(&self, world: &World) -> History {
        let record = &self.record;
        let seen = record.issued.iter().filter_map(|issued| self.operation(issued));
        let own = record.invoked.iter().filter(|(_, (request, _))| request.is_none());
        let own = own.map(|(id, (_, invoked))| without_effect(*id, *invoked));
        let positions = (1..).map_while(|position| record.finals.get(&position));
        History {
            operations: seen.chain(own).collect(),
            order: positions.map(|id| known(*id)).collect(),
            reports: record.shown.iter().filter_map(|shown| self.report(shown)).collect(),
            destroyed: self
                .destroyed(world)
                .into_iter()
                .map(|(site, generation)| site_in(site, generation))
                .collect(),
            unsettled: !self.has_majority(world),
            acyclic: self.shape.as_ref().is_some_and(|shape| shape.acyclic),
            strong_contexts: false,
        }
    }

    /// Returns an operation for the checker. One that no machine invoked before its site went down
    /// is in no history.
    fn operation(&self, issued: &Issued) -> Option<Operation> {
        let Invocation { session, site, incarnation, strong, procedure } = &issued.invocation;
        // A number of its own if the site has invoked nothing else.
        let own = (*site as u32, u32::MAX - *incarnation as u32);
        let (of, run) = self.run(*site, *incarnation).unwrap_or(own);
        let local = || Origin::Local { site: of, run };
        let origin = match issued.id {
            Some(id) => Origin::Broadcast(known(id)),
            None => (!issued.replies.is_empty()).then(local)?,
        };
        Some(Operation {
            session: *session,
            origin,
            strength: if *strong { Strength::Strong } else { Strength::Weak },
            procedure: procedure.clone(),
            invoked: issued.invoked,
            replies: issued.replies.clone(),
        })
    }

    /// Returns the site and the run of an incarnation, as the checker names them; `None` if the
    /// site has invoked nothing.
    fn run(&self, site: usize, incarnation: u64) -> Option<(u32, u32)> {
        let (generation, run) = run_of(*self.record.runs.get(&(site, incarnation))?);
        Some((site_in(site, generation), run))
    }

    /// Returns a committed list for the checker, which needs the run.
    fn report(&self, shown: &Shown) -> Option<Report> {
        let (site, run) = self.run(shown.site, shown.incarnation)?;
        Some(Report {
            site,
            run,
            at: shown.at,
            from: shown.from as usize,
            operations: shown.operations.iter().copied().map(known).collect(),
            digest: shown.digest.map(|digest| digest.0),
        })
    }
}

fn without_effect(id: OperationId, invoked: u64) -> Operation {
    Operation {
        session: None,
        origin: Origin::Broadcast(known(id)),
        strength: Strength::Strong,
        procedure: Procedure::Nothing,
        invoked,
        replies: Vec::new(),
    }
}

/// Compares the registers of all sites.
fn registers_differ(world: &World) -> Option<String> {
    let all = world.creeks().map(|(at, creek)| {
        let registers: BTreeMap<RegisterKey, _> = creek.final_registers().into_iter().collect();
        (at, registers)
    });
    let all: Vec<_> = all.collect();
    let (first, registers) = all.first()?;
    let (other, different) = all.iter().find(|(_, other)| other != registers)?;
    Some(format!("registers of {first:?}: {registers:?}; of {other:?}: {different:?}"))
}
