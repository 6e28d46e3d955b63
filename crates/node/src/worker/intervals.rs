//! Intervals that contain the values of counters, and holders of their tokens and rights.

use solera_data::{Key, Op, Outcome};
use solera_machine::Address;
use solera_reservations::{Command, Response};
use solera_session::{AskBound, Bound, What};
use solera_unistore::Pasts;
use tokio::sync::oneshot;

use super::Worker;
use super::queued::pass_on;

impl Worker {
    /// Returns the number of keys of this worker that contain agreements on error bounds instead of
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

    /// Reads the interval or the holders of a counter at the worker that owns the key. Returns
    /// `None` if no reply comes.
    pub(super) async fn ask_bound_at(&self, worker: Address, asked: AskBound) -> Option<Bound> {
        match worker == self.address {
            true => self.read_bound(asked).await,
            false => self.network.ask_bound(worker, asked).await,
        }
    }

    /// Reads the interval or the holders of a counter here. If the future is dropped before it
    /// ends, the request is cancelled.
    async fn read_bound(&self, asked: AskBound) -> Option<Bound> {
        self.state.borrow().engine.machine().reservations()?;
        let AskBound { key, what, within } = asked;
        let key = key.as_bytes().to_vec();
        let command = match what {
            What::Interval => Command::Interval { key, within },
            What::Holders => Command::Holders { key, within },
        };
        match self.run_queued(command.into()).await? {
            solera_site::Response::Reservations(response) => match response {
                Response::Interval { least, greatest } => Some(Bound::Interval(least, greatest)),
                Response::Holders(holders) => Some(Bound::Holders(holders)),
                Response::Cannot(reason) => Some(Bound::Cannot(reason)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Reads the interval or the holders of a counter for another worker of the site.
    pub(super) async fn answer_bound(&self, asked: AskBound, reply: oneshot::Sender<Bound>) {
        pass_on(self.read_bound(asked), reply).await;
    }
}
