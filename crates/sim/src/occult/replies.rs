//! Replies to the sessions that use Occult.

use std::collections::BTreeSet;

use solera_checker::pcpsi::{Operation, Outcome, Read};
use solera_data::{Key, Outcome as Answer};
use solera_machine::{Address, RequestId};
use solera_occult::{AbortCause, CausalTimestamp, Command, OnStale, ReadCounts, Response, Unknown};

use super::plan::{Planned, Step, name};
use super::{AWAITS, Doing, OccultSessions, STEPS, WAKES};
use crate::queue::MS;
use crate::world::World;

impl OccultSessions {
    pub(crate) fn reply(
        &mut self,
        world: &mut World,
        (from, request): (Address, RequestId),
        response: Response,
    ) {
        if self.verdicts.reply(request, &response) {
            return;
        }
        let waits = |session: &super::OccultSession| session.waiting_for.contains(&(from, request));
        let Some(index) = self.sessions.iter().position(waits) else { return };
        let session = &mut self.sessions[index];
        session.waiting_for.retain(|(_, other)| *other != request);
        session.impatient_at = None;
        self.note_moves(world, index);
        let session = &mut self.sessions[index];
        let doing = std::mem::replace(&mut session.doing, Doing::Nothing);
        match (doing, response) {
            (Doing::Begin, Response::Begun(transaction)) => self.pause(world, index, transaction),
            (Doing::Operate(transaction, step), Response::Done(Ok(answer), counts)) => {
                let written = step.write().filter(|_| step.has_written(&answer));
                self.note_version(index, &step, &answer, counts);
                self.sessions[index].operations.extend(written.map(Operation::Write));
                self.pause(world, index, transaction);
            }
            (
                Doing::Operate(transaction, _),
                Response::TimedOut | Response::Stale | Response::Ahead(_),
            ) => {
                self.note_delay(world, index);
                world.tally.count("occult: reads in transactions that failed");
                // Some clients continue without this read.
                if self.random.chance(50) {
                    return self.pause(world, index, transaction);
                }
                self.record(index, Outcome::Aborted);
                let at = self.sessions[index].at;
                self.send_unawaited(world, at, Command::Abort { transaction });
                self.rest(world, index);
            }
            (Doing::Operate(..) | Doing::Commit, Response::NoSuchTransaction) => {
                world.tally.count("occult: transactions that were idle for too long");
                self.end(world, index, Outcome::Aborted);
            }
            (Doing::Barrier(covered, left), Response::Stored(sites)) => {
                let enough = sites >= self.stored_at;
                self.on_stored(world, index, (covered, left), enough);
            }
            (Doing::Barrier(covered, left), Response::Unstored(homes)) => {
                self.on_stored(world, index, (covered, left), homes.is_empty());
            }
            (Doing::Move, Response::Moving) => {
                world.tally.count("occult: moves of homes");
                self.rest(world, index);
            }
            (Doing::Move, Response::NotMoved(_)) => self.rest(world, index),
            (Doing::Await(..), Response::NoSuchTransaction) => {
                self.end(world, index, Outcome::Unknown);
            }
            (Doing::Single(step), response) => {
                self.on_outcome(world, index, (Some(step), 0), response);
            }
            (Doing::Commit, response) => self.on_outcome(world, index, (None, 0), response),
            (Doing::Await(step, awaits), response) => {
                self.on_outcome(world, index, (step, awaits), response);
            }
            (doing, response) => {
                self.verdicts.problem(format!("{doing:?} was answered {response:?}"));
                self.end(world, index, Outcome::Unknown);
            }
        }
    }

    /// Handles the outcome of an operation or a transaction.
    fn on_outcome(
        &mut self,
        world: &mut World,
        index: usize,
        (step, awaits): (Option<Step>, usize),
        response: Response,
    ) {
        match response {
            Response::Committed { outcomes, past, counts } => {
                if let (Some(step), Some(answer)) = (&step, outcomes.first()) {
                    if !step.has_written(answer) {
                        self.sessions[index].operations.clear();
                    }
                    self.note_version(index, step, answer, counts);
                }
                world.tally.count(match step {
                    Some(_) => "occult: single operations",
                    None => "occult: commits",
                });
                self.sessions[index].past = past;
                self.end(world, index, Outcome::Committed);
            }
            Response::Aborted(cause) => {
                world.tally.count(match cause {
                    AbortCause::Locked(_) => "occult: aborts by locks",
                    AbortCause::ReadSet(_) => "occult: aborts by read sets",
                    AbortCause::OverwriteSet(_) => "occult: aborts by overwrite sets",
                    AbortCause::Expired => "occult: aborts by expiry",
                    AbortCause::Moved => "occult: a home had moved",
                    AbortCause::TimedOut => "occult: aborts by timeouts",
                    AbortCause::Given => "occult: aborts by clients",
                });
                self.end(world, index, Outcome::Aborted);
            }
            Response::TimedOut | Response::Stale | Response::Ahead(_) => {
                self.note_delay(world, index);
                world.tally.count("occult: operations that failed");
                self.end(world, index, Outcome::Aborted);
            }
            Response::Unknown(unknown) => {
                self.note_delay(world, index);
                self.on_unknown(world, index, (step, awaits), unknown);
            }
            response => {
                self.verdicts.problem(format!("{step:?} was answered {response:?}"));
                self.end(world, index, Outcome::Unknown);
            }
        }
    }

    fn on_unknown(
        &mut self,
        world: &mut World,
        index: usize,
        (step, awaits): (Option<Step>, usize),
        unknown: Unknown,
    ) {
        match unknown {
            Unknown::Past(past) => self.go_on_with(world, index, past),
            Unknown::Lost => self.end(world, index, Outcome::Unknown),
            Unknown::Pending(transaction) => {
                let at = self.sessions[index].at;
                if awaits < AWAITS && self.random.chance(70) {
                    world.tally.count("occult: sessions that waited for an outcome");
                    let doing = Doing::Await(step, awaits + 1);
                    return self.ask(
                        world,
                        index,
                        doing,
                        vec![(at, Command::Await { transaction })],
                    );
                }
                if self.random.chance(50) {
                    self.send_unawaited(world, at, Command::Abort { transaction });
                }
                self.end(world, index, Outcome::Unknown);
            }
        }
    }

    /// Continues the session with a past that is valid for both outcomes.
    fn go_on_with(&mut self, world: &mut World, index: usize, past: CausalTimestamp) {
        world.tally.count("occult: sessions that went on after an unknown outcome");
        self.record(index, Outcome::Unknown);
        self.sessions[index].past = past;
        self.rest(world, index);
    }

    /// Handles one worker's answer that states whether enough sites store the session's past.
    fn on_stored(
        &mut self,
        world: &mut World,
        index: usize,
        (covered, left): (BTreeSet<(Key, u64)>, usize),
        enough: bool,
    ) {
        if !enough {
            world.tally.count("occult: barriers not kept");
            return self.rest(world, index);
        }
        if left > 1 {
            self.sessions[index].doing = Doing::Barrier(covered, left - 1);
            return;
        }
        world.tally.count("occult: barriers kept");
        let session = &self.sessions[index];
        let (number, site, ms) = (session.number, session.at.site, world.now / MS);
        let promise = format!("a barrier at site {site} promised session {number} at {ms} ms");
        self.verdicts.promise(covered, &promise);
        self.rest(world, index);
    }

    /// Lets a moment pass before the next operation of a transaction.
    fn pause(&mut self, world: &mut World, index: usize, transaction: u64) {
        let pause = self.sessions[index].plan.front().map_or(0, |Planned { pause, .. }| *pause);
        let session = &mut self.sessions[index];
        session.doing = Doing::Open(transaction);
        session.due = world.now + pause;
        world.wake(WAKES + index, pause);
    }

    /// While a home is gone, commands take long, so such a session makes fewer steps.
    fn note_delay(&mut self, world: &mut World, index: usize) {
        world.tally.count("occult: commands that failed or timed out");
        let session = &mut self.sessions[index];
        session.left = session.left.saturating_sub(STEPS / 10);
    }

    /// Adds the read of a version, if the answer shows one.
    fn note_version(&mut self, index: usize, step: &Step, answer: &Answer, counts: ReadCounts) {
        let Some(version) = step.version(answer) else { return };
        let session = &mut self.sessions[index];
        if step.validates() {
            session.validated.push((step.key().clone(), version));
        }
        let stale = session.on_stale == OnStale::Accept && counts.stale > 0;
        let read = Read { key: name(step.key()), version, stale };
        session.operations.push(Operation::Read(read));
    }
}
