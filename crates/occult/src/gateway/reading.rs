//! Reads: at the local replica first, then at the home (§4.3).

use solera_data::{Key, Op};
use solera_machine::{Address, RequestId};
use solera_time::Monotonic;

use super::{Context, Gateway, Stage};
use crate::client::Freshness;
use crate::command::Response;
use crate::config::Rule;
use crate::message::{Body, Read, ReadAnswer};

/// A read that has no answer yet.
#[derive(Debug)]
pub(super) struct Reading {
    request: RequestId,
    key: Key,
    op: Op,
    /// Number of the request that has no answer yet.
    number: u64,
    /// Number of stale answers so far.
    stale: usize,
    at: Address,
    since: Monotonic,
    /// Time when the request is sent next.
    next: Monotonic,
    /// Whether the last request got an answer, which was stale.
    answered: bool,
}

impl Gateway {
    /// Sends a read to the local copy.
    pub(super) fn read(
        &mut self,
        context: &mut Context<'_>,
        request: RequestId,
        number: u64,
        key: Key,
        op: Op,
    ) {
        let shard = context.config.shard_of(&key);
        let at = context.config.owner(context.config.address.site, shard);
        let now = context.now.monotonic;
        let reading = Reading {
            request,
            key,
            op,
            number: 0,
            stale: 0,
            at,
            since: now,
            next: now,
            answered: false,
        };
        if let Some(open) = self.open.get_mut(&number) {
            open.stage = Stage::Reading(reading);
            self.send_read(context, number);
        }
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
        };
        let to = reading.at;
        context.out.send(to, Body::Read(read));
    }

    /// Takes a copy's answer, unless it is stale.
    pub(crate) fn on_read_answer(&mut self, context: &mut Context<'_>, answer: ReadAnswer) {
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
        let is_home = reading.at.site == context.homes.home(shard);
        let checks = context.config.has(match is_home {
            true => Rule::CheckHomes,
            false => Rule::CheckReplicas,
        });
        if freshness == Freshness::Stale && checks {
            return self.retry_stale(context, number);
        }
        open.transaction.add_read(shard, shown, dependencies, context.homes);
        let (request, key) = (reading.request, reading.key.clone());
        open.stage = Stage::Idle;
        let result = answer.result.map(|(outcome, effect)| {
            if let Some(effect) = effect {
                open.transaction.add_write(key, effect);
            }
            outcome
        });
        if !open.single {
            return context.out.reply(request, Response::Done(result));
        }
        let past = open.transaction.timestamp().clone();
        let reply = match result {
            Ok(outcome) => {
                let past = Gateway::next_past(context, past);
                Response::Committed { outcomes: vec![outcome], past }
            }
            Err(error) => Response::Failed(error),
        };
        self.end(context, number, request, reply);
    }

    /// Sends a stale read to the same copy again after a delay, and in the end to the home.
    fn retry_stale(&mut self, context: &mut Context<'_>, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        let Stage::Reading(reading) = &mut open.stage else { return };
        let delays = context.config.timing.stale_retries;
        match delays.get(reading.stale) {
            Some(delay) => reading.next = context.now.monotonic.after(*delay),
            None => {
                let (_, _, home) = context.home_of(&reading.key);
                // A home is not stale. If it were, asking at once again would not help.
                let was_there = reading.at == home;
                reading.next = if was_there { context.retry_at() } else { context.now.monotonic };
                reading.at = home;
            }
        }
        reading.stale += 1;
        reading.answered = true;
        self.repeat_read(context, number);
    }

    pub(super) fn repeat_read(&mut self, context: &mut Context<'_>, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        let Stage::Reading(reading) = &mut open.stage else { return };
        if context.has_timed_out(reading.since) {
            let (request, single) = (reading.request, open.single);
            self.reads.remove(&reading.number);
            open.stage = Stage::Idle;
            if single {
                return self.end(context, number, request, Response::TimedOut);
            }
            return context.out.reply(request, Response::TimedOut);
        }
        if context.is_due(reading.next) {
            if !reading.answered {
                // The copy does not answer and may be down, so the next request goes to the home.
                let (_, _, home) = context.home_of(&reading.key);
                reading.at = home;
            }
            self.send_read(context, number);
        }
    }
}
