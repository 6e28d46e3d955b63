//! Intervals that contain the values of counters.

use solera_data::{Key, Op, Outcome};
use solera_machine::Address;
use solera_reservations::{Command, Response};
use solera_session::{AskInterval, Interval};
use solera_unistore::Pasts;
use tokio::sync::oneshot;

use super::Worker;
use super::queued::pass_on;

impl Worker {
    /// Returns the number of keys of this worker that contain agreements on error bounds, and no
    /// data of clients.
    pub(super) fn count_agreements(&self) -> usize {
        if !self.spec.spaces.have_bounds() {
            return 0;
        }
        let (now, mut pasts) = (self.now(), Pasts::none(self.spec.sites.len()));
        let mut state = self.state.borrow_mut();
        let machine = state.engine.machine_mut();
        let keys: Vec<Key> = machine.agreement_keys().cloned().collect();
        let replica = machine.unistore_mut();
        let mut exists = |key: &&Key| {
            let level = self.spec.spaces.level_of(key.as_bytes());
            let found =
                replica.execute_at_once(now, &mut pasts, level, key.as_bytes(), &Op::Exists);
            found == Some(Ok(Outcome::Int(1)))
        };
        keys.iter().filter(|key| exists(key)).count()
    }

    /// Reads an interval at the worker that owns the key. Returns `None` if no reply comes.
    pub(super) async fn ask_interval_at(
        &self,
        worker: Address,
        asked: AskInterval,
    ) -> Option<Interval> {
        match worker == self.address {
            true => self.read_interval(asked).await,
            false => self.network.ask_interval(worker, asked).await,
        }
    }

    /// Reads an interval here. If the future is dropped before it ends, the request is cancelled.
    async fn read_interval(&self, asked: AskInterval) -> Option<Interval> {
        self.state.borrow().engine.machine().reservations()?;
        let AskInterval { key, within } = asked;
        let command = Command::Interval { key: key.as_bytes().to_vec(), within };
        match self.run_queued(command.into()).await? {
            solera_site::Response::Reservations(Response::Interval { least, greatest }) => {
                Some(Ok((least, greatest)))
            }
            solera_site::Response::Reservations(Response::Cannot(reason)) => Some(Err(reason)),
            _ => None,
        }
    }

    /// Reads an interval for another worker of the site.
    pub(super) async fn answer_interval(
        &self,
        asked: AskInterval,
        reply: oneshot::Sender<Interval>,
    ) {
        pass_on(self.read_interval(asked), reply).await;
    }
}
