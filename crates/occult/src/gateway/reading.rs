//! Reads: at the local replica first, then at the home (§4.3).

use std::time::Duration;

use solera_data::{Key, Op};
use solera_machine::{Address, RequestId};
use solera_time::Monotonic;

use super::{Context, Gateway, Stage};
use crate::client::Freshness;
use crate::command::{OnStale, ReadCounts, Response};
use crate::config::{Rule, StaleReads};
use crate::message::{Body, Read, ReadAnswer};

/// Delay before a read is sent again to a home whose answer was stale.
const HOME_RETRY: Duration = Duration::from_millis(20);
/// Delay before a read is sent again to a copy that had not carried out a move, or has restarted.
const LATE_RETRY: Duration = Duration::from_millis(2);
/// Number of times that such a read is sent again to the same copy before it goes to the home.
const LATE_RETRIES: u32 = 3;
/// Number of times that a read is sent again to a home whose answers are stale.
const HOME_RETRIES: u32 = 20;

/// A read that has no answer yet.
#[derive(Debug)]
pub(super) struct Reading {
    request: RequestId,
    key: Key,
    op: Op,
    /// Number of the request that has no answer yet.
    number: u64,
    /// Number of stale answers of the home so far.
    stale_at_home: u32,
    /// Number of answers so far of copies that had not carried out a move, or that showed less than
    /// all replicas do.
    late: u32,
    at: Address,
    since: Monotonic,
    /// Time when the request is sent next.
    next: Monotonic,
    /// Whether the last request got an answer, which was stale.
    answered: bool,
    counts: ReadCounts,
}

impl Reading {
    /// Returns the number of the request that has no answer yet.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn request(&self) -> RequestId {
        self.request
    }
}

impl Gateway {
    /// Sends a read to the local copy (List. 3 l. 15–19; Fig. 3 l. 9–12); or to the home, if the
    /// local copy is known to be slow.
    pub(super) fn read(
        &mut self,
        context: &mut Context<'_>,
        request: RequestId,
        number: u64,
        (key, op): (Key, Op),
    ) {
        let (shard, site, home) = context.home_of(&key);
        let now = context.now.monotonic;
        let local = context.config.owner(context.config.address.site, shard);
        let is_slow = self.slow.get(&shard).is_some_and(|until| now < *until);
        let counts = ReadCounts::default();
        let mut reading = Reading {
            request,
            key,
            op,
            number: 0,
            stale_at_home: 0,
            late: 0,
            at: local,
            since: now,
            next: now,
            answered: false,
            counts,
        };
        let Some(open) = self.open.get(&number) else { return };
        if is_slow && site != local.site && open.on_stale == OnStale::Home {
            reading.at = home;
            reading.counts.at_home = 1;
        }
        self.wait(number, Stage::Reading(reading));
        self.send_read(context, number);
    }

    fn send_read(&mut self, context: &mut Context<'_>, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        let Stage::Reading(reading) = &mut open.stage else { return };
        self.reads.remove(&reading.number);
        reading.number = self.next_read;
        self.next_read += 1;
        self.reads.insert(reading.number, number);
        (reading.next, reading.answered) = (context.retry_at(), false);
        let shard = context.config.shard_of(&reading.key);
        let at_least = open.transaction.timestamp().stamp(shard, context.homes);
        let read = Read {
            number: reading.number,
            key: reading.key.clone(),
            op: reading.op.clone(),
            own: open.transaction.own(&reading.key).cloned(),
            at_least,
            waits: open.on_stale == OnStale::Home,
        };
        let to = reading.at;
        context.out.send(to, Body::Read(read));
    }

    /// Takes a copy's answer, unless it is stale.
    pub(crate) fn on_read_answer(
        &mut self,
        context: &mut Context<'_>,
        answer: ReadAnswer,
        epoch: u64,
    ) {
        let Some(number) = self.reads.remove(&answer.number) else { return };
        let Some(open) = self.open.get_mut(&number) else { return };
        let Stage::Reading(reading) = &mut open.stage else { return };
        if reading.number != answer.number {
            // It answers an earlier read of the transaction, which has timed out.
            return;
        }
        let shard = context.config.shard_of(&reading.key);
        let (shown, dependencies) = (answer.shown, answer.dependencies);
        let freshness = open.transaction.check(shard, shown, &dependencies, context.homes);
        // The copy answered before all replicas passed this stamp. Dependencies up to the stamp may
        // have been removed since.
        let is_late = shown < context.passed.confirmed(context.homes.home(shard))
            // The copy may show writes that were lost since.
            || epoch < context.homes.moved_by(shard)
            // The session must first find out whether it depends on lost writes.
            || context.homes.is_undecided(shard);
        let is_home = reading.at.site == context.homes.home(shard);
        let checks = context.config.has(match is_home {
            true => Rule::CheckHomes,
            false => Rule::CheckReplicas,
        });
        if is_late {
            reading.late += 1;
            reading.answered = true;
            reading.next = context.now.monotonic.after(LATE_RETRY);
            if reading.late > LATE_RETRIES {
                (_, _, reading.at) = context.home_of(&reading.key);
            }
            return;
        }
        if freshness == Freshness::Stale && checks {
            reading.counts.stale += u32::from(!is_home);
            if open.on_stale != OnStale::Accept || is_home {
                return self.retry_stale(context, number);
            }
        }
        open.transaction.add_read((shard, shown), dependencies, epoch, context.homes);
        let (request, key, counts) = (reading.request, reading.key.clone(), reading.counts);
        open.stage = Stage::Idle;
        self.active.remove(&number);
        let result = answer.result.map(|(outcome, effect)| {
            if let Some(effect) = effect {
                open.transaction.add_write(key, effect);
            }
            outcome
        });
        if !open.single {
            return context.out.reply(request, Response::Done(result, counts));
        }
        let past = open.transaction.timestamp().clone();
        let reply = match result {
            Ok(outcome) => {
                let past = Gateway::next_past(context, past);
                Response::Committed { outcomes: vec![outcome], past, counts }
            }
            Err(error) => Response::Failed(error),
        };
        self.end(context, number, request, reply);
    }

    /// Sends a stale read to the same copy again after a delay, and finally to the home (List. 3 l.
    /// 21; Fig. 3 l. 15).
    fn retry_stale(&mut self, context: &mut Context<'_>, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        let on_stale = open.on_stale;
        let Stage::Reading(reading) = &mut open.stage else { return };
        let now = context.now.monotonic;
        let (shard, site, home) = context.home_of(&reading.key);
        if reading.at == home {
            reading.stale_at_home += 1;
            if reading.stale_at_home > HOME_RETRIES {
                return self.give_up_read(context, number, Response::Ahead(site));
            }
            reading.next = now.after(HOME_RETRY);
        } else if on_stale == OnStale::Fail {
            return self.give_up_read(context, number, Response::Stale);
        } else {
            let delays: &[Duration] = match &context.config.timing.stale {
                StaleReads::Retry(delays) => delays,
                StaleReads::Wait(_) => &[],
            };
            match delays.get(reading.counts.stale as usize - 1) {
                Some(delay) => reading.next = now.after(*delay),
                None => {
                    (reading.next, reading.at) = (now, home);
                    reading.counts.at_home += 1;
                    self.slow.insert(shard, now.after(context.config.timing.slow));
                }
            }
        }
        let Some(open) = self.open.get_mut(&number) else { return };
        if let Stage::Reading(reading) = &mut open.stage {
            reading.answered = true;
        }
        self.repeat_read(context, number);
    }

    /// Ends a read without a value. A transaction stays open; a single operation ends.
    fn give_up_read(&mut self, context: &mut Context<'_>, number: u64, reply: Response) {
        let Some(open) = self.open.get_mut(&number) else { return };
        let Stage::Reading(reading) = &open.stage else { return };
        let request = reading.request;
        self.reads.remove(&reading.number);
        open.stage = Stage::Idle;
        self.active.remove(&number);
        match open.single {
            true => self.end(context, number, request, reply),
            false => context.out.reply(request, reply),
        }
    }

    pub(super) fn repeat_read(&mut self, context: &mut Context<'_>, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        let Stage::Reading(reading) = &mut open.stage else { return };
        if context.has_timed_out(reading.since) {
            return self.give_up_read(context, number, Response::TimedOut);
        }
        if context.is_due(reading.next) {
            // The home may have moved.
            if reading.at.site != context.config.address.site {
                (_, _, reading.at) = context.home_of(&reading.key);
            }
            if !reading.answered {
                // The copy does not answer and may be down, so the next request goes to the home.
                let (_, _, home) = context.home_of(&reading.key);
                reading.at = home;
            }
            self.send_read(context, number);
        }
    }

    /// Removes expired entries from the table of slow replicas.
    pub(crate) fn forget_slow(&mut self, now: Monotonic) {
        self.slow.retain(|_, until| now < *until);
    }
}
