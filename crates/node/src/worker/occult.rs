//! Commands of Occult, and the protocol's status.

use solera_machine::Address;
use solera_occult::{Command, Occult, Response};
use solera_site::Input;
use tokio::sync::oneshot;

use super::queued::pass_on;
use super::{State, Worker};
use crate::status::OccultStatus;

impl Worker {
    /// Runs `action` on Occult's machine, if the worker runs it.
    pub(super) fn with_occult_here<R>(&self, action: impl FnOnce(&mut Occult) -> R) -> Option<R> {
        let mut state = self.state.borrow_mut();
        state.engine.machine_mut().occult_mut().map(action)
    }

    /// Returns the number of keys of this worker, of all protocols that count them.
    pub(super) fn count_keys_here(&self) -> usize {
        let now = self.now();
        let keys = self.with(|replica| replica.count_keys(now));
        // An agreement that has arrived in between counts in the second number only.
        let keys = keys.saturating_sub(self.count_agreements());
        let of_occult = self.with_occult_here(|occult| occult.keys()).unwrap_or(0);
        let speculative = self.with_speculative(|machine| machine.status().keys).unwrap_or(0);
        keys + of_occult + speculative
    }

    /// Runs a command at a worker of this site. Returns `None` if no reply comes.
    pub(super) async fn ask_occult_at(
        &self,
        worker: Address,
        command: Command,
    ) -> Option<Response> {
        match worker == self.address {
            true => self.run_occult(command).await,
            false => self.network.ask_occult(worker, command).await,
        }
    }

    /// Runs a command here. If the future is dropped before it ends, the request is cancelled.
    async fn run_occult(&self, command: Command) -> Option<Response> {
        self.state.borrow().engine.machine().occult()?;
        match self.run_queued(command.into()).await? {
            solera_site::Response::Occult(response) => Some(response),
            _ => None,
        }
    }

    /// Sends the machine a command whose reply is not needed.
    pub(super) fn send_occult_here(&self, command: Command) {
        let now = self.now();
        let mut state = self.state.borrow_mut();
        if state.engine.machine().occult().is_none() {
            return;
        }
        let request = state.next_request();
        state.engine.handle(now, Input::Client { request, command: command.into() });
        drop(state);
        self.flush();
    }

    /// Runs a command for another worker of the site.
    pub(super) async fn answer_occult(&self, command: Command, reply: oneshot::Sender<Response>) {
        pass_on(self.run_occult(command), reply).await;
    }
}

impl State {
    /// Returns the status of Occult, if the worker runs it.
    pub(super) fn occult_status(&self) -> Option<OccultStatus> {
        let occult = self.engine.machine().occult()?;
        let (prepared, records, hidden) = occult.unfinished();
        Some(OccultStatus {
            keys: occult.keys() as u64,
            home_shards: occult.home_of() as u64,
            arriving_shards: occult.arriving() as u64,
            open_transactions: occult.open() as u64,
            prepared_transactions: prepared as u64,
            outcome_records: records as u64,
            hidden_writes: hidden as u64,
        })
    }
}
