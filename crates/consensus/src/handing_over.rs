//! Promises: what a member hands over to a candidate, in parts of bounded size.

use std::collections::BTreeMap;

use solera_election::Ballot;
use solera_time::SiteId;

use crate::config::Rule;
use crate::ids::{CastId, Held, Slot};
use crate::message::Message;
use crate::rare;
use crate::state::State;
use crate::step::Step;

/// Approximate size of a slot without ids, and of an id.
const SLOT_BYTES: usize = 32;
const ID_BYTES: usize = 16;

/// Returns the approximate size of a slot with this number of ids.
pub(crate) fn slot_bytes(ids: usize) -> usize {
    SLOT_BYTES + ids * ID_BYTES
}

/// State that a member hands over to the candidate of a term. It does not change while the member
/// sends it, although the member may learn decisions in the meantime.
#[derive(Debug)]
pub(crate) struct HandOver<B> {
    ballot: Ballot,
    /// Number of the request for which it was composed.
    version: u32,
    /// Number of the last request that was answered.
    attempt: u32,
    parts: Vec<(Vec<Held>, Vec<B>)>,
}

impl<B: Clone> HandOver<B> {
    /// Composes what a candidate needs that has delivered the slots up to `delivered`: the later
    /// slots, and the bodies and contexts of those that are not delivered here. A delivered id was
    /// accepted by a quorum, so its body does not depend on this member.
    pub(crate) fn compose(
        state: &State,
        step: &mut Step<'_, B>,
        ballot: Ballot,
        delivered: Slot,
        attempt: u32,
    ) -> Self {
        let slots: Vec<Held> = state.log.held(delivered).collect();
        let undelivered = slots.iter().filter(|held| held.slot > state.log.delivered);
        let ids: Vec<CastId> = undelivered.flat_map(|held| held.batch.iter()).copied().collect();
        let bodies = match step.keeps(Rule::BodiesWithPromises) && !ids.is_empty() {
            true => step.predicate.bodies(&ids),
            false => Vec::new(),
        };
        if !bodies.is_empty() {
            step.reach(rare::HANDS_OVER_BODIES);
        }
        let mut cutter = Cutter { limit: step.config.part_bytes, bytes: 0, parts: Vec::new() };
        for held in slots {
            cutter.part(slot_bytes(held.batch.len())).0.push(held);
        }
        for body in bodies {
            cutter.part(step.predicate.bytes(&body)).1.push(body);
        }
        let mut parts = cutter.parts;
        if parts.is_empty() {
            parts.push((Vec::new(), Vec::new()));
        }
        if parts.len() > 1 {
            step.reach(rare::SEVERAL_PARTS);
        }
        HandOver { ballot, version: attempt, attempt: 0, parts }
    }

    /// Answers a request for a part. A duplicate of a request has no effect.
    pub(crate) fn answer(
        &mut self,
        step: &mut Step<'_, B>,
        to: SiteId,
        established: u64,
        attempt: u32,
        part: u32,
    ) {
        if attempt <= self.attempt {
            step.reach(rare::ANSWERS_ONCE);
            return;
        }
        self.attempt = attempt;
        // A member that was restarted begins anew.
        let part = if self.version == attempt { 0 } else { part };
        let Some((slots, bodies)) = self.parts.get(part as usize) else { return };
        let (ballot, version, parts) = (self.ballot, self.version, self.parts.len() as u32);
        let (slots, bodies) = (slots.clone(), bodies.clone());
        step.send(
            to,
            Message::Promise { ballot, version, part, parts, established, slots, bodies },
        );
    }

    pub(crate) fn is_of(&self, ballot: Ballot) -> bool {
        self.ballot == ballot
    }
}

/// Distributes items over parts.
struct Cutter<B> {
    limit: usize,
    bytes: usize,
    parts: Vec<(Vec<Held>, Vec<B>)>,
}

impl<B> Cutter<B> {
    /// Returns the part for the next item.
    fn part(&mut self, bytes: usize) -> &mut (Vec<Held>, Vec<B>) {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.parts.is_empty() || self.bytes > self.limit {
            self.parts.push((Vec::new(), Vec::new()));
            self.bytes = bytes;
        }
        self.parts.last_mut().expect("a part was pushed if there was none")
    }
}

/// A part of a promise, without its ballot.
#[derive(Debug)]
pub(crate) struct PromisePart<B> {
    pub(crate) version: u32,
    pub(crate) part: u32,
    pub(crate) parts: u32,
    pub(crate) established: u64,
    pub(crate) slots: Vec<Held>,
    pub(crate) bodies: Vec<B>,
}

/// The parts of promises that a candidate has received.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    members: BTreeMap<SiteId, FromMember>,
}

#[derive(Debug, Default)]
struct FromMember {
    /// Number of the last request to the member.
    attempt: u32,
    version: u32,
    /// The part that is needed next.
    next: u32,
    slots: Vec<Held>,
    is_complete: bool,
}

/// Next step with a member's promise.
#[derive(Debug)]
pub(crate) enum Received {
    /// The part is of no use.
    Ignored,
    /// Other parts are needed.
    Continue,
    /// The promise is complete: all slots that the member has accepted.
    Complete(Vec<Held>),
}

impl Gathered {
    /// Returns the next request to a member: its number, and the part that is needed. If the
    /// promise is complete, there is no such part. The request then shows the member that the
    /// candidate is alive, while it waits for others.
    pub(crate) fn request(&mut self, to: SiteId) -> (u32, u32) {
        let member = self.members.entry(to).or_default();
        member.attempt = member.attempt.saturating_add(1);
        (member.attempt, member.next)
    }

    /// Takes a part, whose slots it moves away.
    pub(crate) fn take<B>(
        &mut self,
        step: &mut Step<'_, B>,
        from: SiteId,
        part: &mut PromisePart<B>,
    ) -> Received {
        let member = self.members.entry(from).or_default();
        if part.part == 0 && part.version > member.version && !member.is_complete {
            if member.next > 0 {
                step.reach(rare::PROMISES_ANEW);
            }
            (member.version, member.next) = (part.version, 0);
            member.slots.clear();
        }
        if part.version != member.version || part.part != member.next || member.is_complete {
            return Received::Ignored;
        }
        member.slots.append(&mut part.slots);
        member.next = member.next.saturating_add(1);
        if member.next < part.parts {
            return Received::Continue;
        }
        member.is_complete = true;
        Received::Complete(std::mem::take(&mut member.slots))
    }
}
