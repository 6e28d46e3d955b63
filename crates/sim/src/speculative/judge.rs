//! Conditions that must hold at the end, and the history for the checker.

use std::collections::BTreeMap;

use solera_checker::speculative::{
    self as checker, History, Operation, Origin, Procedure, Report, Strength,
};
use solera_creek::{OperationId, RegisterKey};

use super::record::{Invocation, Issued, Shown, known};
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
        let all_up = self.up(world).len() == self.sites;
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
        2 * self.up(world).len() > self.sites
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
            destroyed: (0..self.sites)
                .filter(|site| world.state(*site) == SiteState::Destroyed)
                .map(|site| site as u32)
                .collect(),
            unsettled: !self.has_majority(world),
            acyclic: false,
            strong_contexts: false,
        }
    }

    /// Returns an operation for the checker. One that no machine invoked before its site went down
    /// is in no history.
    fn operation(&self, issued: &Issued) -> Option<Operation> {
        let Invocation { session, site, incarnation, strong, procedure } = &issued.invocation;
        // A number of its own if the site has invoked nothing else.
        let run = self.run(*site, *incarnation).unwrap_or(u32::MAX - *incarnation as u32);
        let local = || Origin::Local { site: *site as u32, run };
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

    /// Returns the run of an incarnation; `None` if the site has invoked nothing.
    fn run(&self, site: usize, incarnation: u64) -> Option<u32> {
        self.record.runs.get(&(site, incarnation)).map(|run| *run as u32)
    }

    /// Returns a committed list for the checker, which needs the run.
    fn report(&self, shown: &Shown) -> Option<Report> {
        Some(Report {
            site: shown.site as u32,
            run: self.run(shown.site, shown.incarnation)?,
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
