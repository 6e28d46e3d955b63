//! Commands of `primary`, whose replies arrive one after the other, and the protocol's status.

use std::collections::BTreeSet;

use solera_data::Key;
use solera_machine::{Address, RequestId};
use solera_occult::Occult;
use solera_primary::{Command, Primary, Response};
use solera_session::ToPrimary;
use solera_unistore::{AtRisk, Held};
use tokio::sync::oneshot;

use super::open_request::OpenRequest;
use super::{State, Worker};
use crate::status::PrimaryStatus;

impl Worker {
    /// Runs a command of a session at the worker that owns the key. Returns `None` if no reply
    /// comes: a worker stops, a journal has failed, or a node cannot be reached.
    pub(super) async fn ask_primary_at(
        &self,
        worker: Address,
        asked: ToPrimary,
    ) -> Option<Response> {
        match worker == self.address {
            true => self.run_primary(asked).await,
            false => self.network.ask_primary(worker, asked).await,
        }
    }

    /// Runs a command here. A read is a direct call; any other command is queued among the
    /// machine's inputs. If the future is dropped before it ends, the request is cancelled.
    async fn run_primary(&self, asked: ToPrimary) -> Option<Response> {
        let ToPrimary { command, takes_accepted } = asked;
        if !self.answers() {
            return None;
        }
        if let Command::Read { key } = &command {
            return self.read_primary(key);
        }
        self.state.borrow().engine.machine().primary()?;
        let request = self.queue(command.into());
        let mut replies = self.state.borrow_mut().waiting.each(request);
        let mut open = OpenRequest { worker: self, request, answered: false };
        self.flush();
        loop {
            let (response, last) = replies.recv().await?;
            let solera_site::Response::Primary(response) = response else { return None };
            if last || (takes_accepted && matches!(response, Response::Accepted(_))) {
                open.answered = true;
                return Some(response);
            }
        }
    }

    /// Reads a key of this worker.
    fn read_primary(&self, key: &Key) -> Option<Response> {
        let state = self.state.borrow();
        Some(state.engine.machine().primary()?.read(key))
    }

    /// Returns the transactions of this worker that the loss of sites could still undo, with at
    /// most `keys` keys.
    pub(super) fn at_risk_here(&self, keys: usize) -> AtRisk {
        let state = self.state.borrow();
        let mut found = state.engine.machine().unistore().status().at_risk(keys);
        if let Some(primary) = state.engine.machine().primary() {
            found.transactions += primary.unsettled() as usize;
            let left = keys.saturating_sub(found.keys.len());
            found.keys.extend(primary.at_risk().take(left).cloned());
        }
        if let Some(occult) = state.engine.machine().occult() {
            let sites = self.spec.f + 1;
            found.transactions += occult.unstored(sites);
            let left = keys.saturating_sub(found.keys.len());
            found.keys.extend(occult.unstored_keys(sites, left));
        }
        if let Some(speculative) = state.engine.machine().creek() {
            let left = keys.saturating_sub(found.keys.len());
            found.transactions += speculative.unstable().count();
            let latest = speculative.unstable().rev().filter_map(|it| it.operation.as_ref());
            let mut seen = BTreeSet::new();
            let of_them = latest.flat_map(|operation| operation.keys());
            let of_them = of_them.filter(|key| seen.insert(*key));
            found.keys.extend(of_them.take(left).map(Key::from));
        }
        found
    }

    /// Returns the size of the data of all protocols in bytes: now, and its maximum since the
    /// previous call.
    pub(super) fn take_held(&self) -> Held {
        let mut state = self.state.borrow_mut();
        let machine = state.engine.machine_mut();
        let held = machine.unistore_mut().take_held();
        let (now, most) = machine.primary_mut().map_or((0, 0), Primary::take_held);
        let held = held.and(Held { now, most });
        let (now, most) = machine.occult_mut().map_or((0, 0), Occult::take_held);
        let held = held.and(Held { now, most });
        let speculative = machine.creek().map_or(0, |machine| machine.status().bytes);
        held.and(Held { now: speculative, most: speculative })
    }

    /// Runs a command for another worker of the site. If that worker stops waiting, the request is
    /// cancelled.
    pub(super) async fn answer_primary(
        &self,
        asked: ToPrimary,
        mut reply: oneshot::Sender<Response>,
    ) {
        let had_stopped = self.has_stopped();
        let reads = matches!(asked.command, Command::Read { .. });
        let response = tokio::select! {
            response = self.run_primary(asked) => response,
            () = reply.closed() => None,
        };
        let Some(response) = response else { return };
        // The result of a read must be durable, as it must be when the connection's own worker
        // reads.
        if reads && self.durable(had_stopped).await.is_err() {
            return;
        }
        // The caller may no longer wait.
        let _ = reply.send(response);
    }
}

impl State {
    /// Returns the status of `primary`, if the worker runs it.
    pub(super) fn primary_status(&self) -> Option<PrimaryStatus> {
        let primary = self.engine.machine().primary()?;
        let home_of = primary.applied().filter(|(.., is_home)| *is_home).count();
        Some(PrimaryStatus {
            keys: primary.keys() as u64,
            pending_updates: primary.pending() as u64,
            unsettled_updates: primary.unsettled(),
            home_of: home_of as u64,
            dropped_replies: self.waiting.dropped(),
        })
    }

    /// Returns a number for a new request.
    pub(super) fn next_request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }
}
