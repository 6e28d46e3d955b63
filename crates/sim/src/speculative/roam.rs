//! Sessions that continue at another site, with what they have seen.

use solera_creek::{Command, OperationId, Past};
use solera_machine::{Address, RequestId};

use super::{PATIENCE, SpeculativeSessions, WAKES, member};
use crate::world::World;

/// A barrier that was reached.
#[derive(Debug)]
pub(super) struct Reached {
    site: usize,
    past: Past,
    /// Number of final operations of the site then.
    finals: u64,
}

impl SpeculativeSessions {
    /// Notes what a session has seen.
    pub(super) fn see(&mut self, world: &World, index: usize) {
        let session = &mut self.sessions[index];
        if let Some(creek) = world.creek(member(session.site)) {
            session.past.join(&creek.past());
        }
    }

    /// Has a session go to another site, or stay, and wait until its past is there.
    pub(super) fn roam(&mut self, world: &mut World, index: usize) {
        let sites: Vec<Address> = (0..self.sites).map(member).collect();
        let up = world.up(&sites);
        let Some(to) = (!up.is_empty()).then(|| up[self.random.below(up.len())]) else {
            return self.rest(world, index);
        };
        // Its strong operations keep their order only if they are decided.
        let is_barrier = self.sessions[index].is_open || self.random.chance(40);
        let past = self.sessions[index].past.clone();
        let command = match is_barrier {
            true => Command::Barrier { past },
            false => Command::Attach { past },
        };
        let request = RequestId(self.requests);
        self.requests += 1;
        let session = &mut self.sessions[index];
        (session.site, session.roams, session.waits) = (to.site.index(), true, Some(request));
        session.is_barrier = is_barrier;
        session.next = world.now + PATIENCE;
        world.wake(WAKES + index, PATIENCE);
        if !world.example_command(to, request, command.into(), false) {
            self.start_over(world, index);
            self.rest(world, index);
        }
    }

    /// Continues a session whose past is at its site.
    pub(super) fn arrive(&mut self, world: &mut World, site: usize, request: RequestId) {
        let waits = |session: &super::SimulatedSpeculativeSession| session.waits == Some(request);
        let Some(index) = self.sessions.iter().position(waits) else { return };
        let session = &mut self.sessions[index];
        session.roams = false;
        if session.is_barrier {
            session.is_open = false;
            let finals = world.creek(member(site)).map_or(0, |creek| creek.status().finals);
            let past = session.past.clone();
            self.barriers.push(Reached { site, past, finals });
            world.tally.count("creek: barriers");
        } else {
            world.tally.count("creek: sessions that moved with their past");
        }
        self.rest(world, index);
    }

    /// Returns barriers that were reached before an operation of their past was final.
    pub(super) fn too_early(&self) -> impl Iterator<Item = String> + '_ {
        self.barriers.iter().filter_map(|Reached { site, past, finals }| {
            let late =
                |(position, id): &(&u64, &OperationId)| *position > finals && past.contains(**id);
            let (position, id) = self.record.finals.iter().find(late)?;
            Some(format!("site {site} has passed a barrier without {id} at {position}"))
        })
    }
}
