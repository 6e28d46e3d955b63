//! Runs groups of phases next to their stores, for coordinators elsewhere (MixT §7.2).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::binding::Modules;
use crate::drive::{Clock, Connections};
use crate::group::{GroupEnd, GroupRun, GroupStep};
use crate::job::{CannotResume, Job};
use crate::outcome::Limits;
use crate::record::Turn;
use crate::request::Request;
use crate::request::calls::{Begin, StoreError};
use crate::request::shipment::{Shipment, Shipped};

/// How long it waits before it looks again for what a group waits for, in milliseconds.
const LOOK_AGAIN_MS: u64 = 5;

/// What a worker remembers of shipments, so that none is run twice.
#[derive(Debug, Default)]
pub struct Worker {
    seen: Mutex<BTreeMap<u64, Seen>>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// When it is refused for its age.
    until_ms: u64,
    running: bool,
}

/// A shipment that is being run. It is over when this is dropped.
struct Running<'a> {
    worker: &'a Worker,
    number: u64,
}

impl Worker {
    /// Runs a shipment over these databases. Limits are the worker's own. If the future is dropped,
    /// what is open is given up with the connections.
    ///
    /// # Errors
    /// If nothing was begun.
    pub async fn execute(
        &self,
        shipment: &Shipment,
        (modules, limits): (&Modules, Limits),
        connections: &mut Connections,
        clock: &dyn Clock,
    ) -> Result<Shipped, Unshipped> {
        let job = Job::of(&shipment.record, modules, limits).map_err(|unknown| {
            match modules.contains_key(&shipment.record.module) {
                true => Unshipped::Malformed(unknown.id.to_string()),
                false => Unshipped::UnknownModule(unknown),
            }
        })?;
        let next = shipment.record.state.next as usize;
        let database = job.plan.groups.get(next).and_then(|group| group.database.clone());
        let Some(database) = database else {
            return Err(Unshipped::Malformed(job.id.to_string()));
        };
        connections.take_for(&job.users, &database).await.map_err(Unshipped::Store)?.leave();
        let _running = self.begin(shipment, clock.now_ms())?;
        let look_until_ms =
            shipment.until_ms.min(clock.now_ms().saturating_add(limits.on_the_way_ms()));
        let run = Execution { job: Arc::new(job), shipment, database, look_until_ms };
        Ok(run.run(connections, clock).await)
    }

    /// Whether a shipment is over, or will never be begun: then what it has committed is there.
    /// `until_ms` is the shipment's.
    pub fn settle(&self, number: u64, until_ms: u64, now_ms: u64) -> bool {
        let mut seen = self.seen(now_ms);
        // One that comes later is refused.
        !seen.entry(number).or_insert(Seen { until_ms, running: false }).running
    }

    fn begin(&self, shipment: &Shipment, now_ms: u64) -> Result<Running<'_>, Unshipped> {
        if now_ms >= shipment.until_ms {
            return Err(Unshipped::Late);
        }
        let mut seen = self.seen(now_ms);
        if seen.contains_key(&shipment.number) {
            return Err(Unshipped::Again);
        }
        seen.insert(shipment.number, Seen { until_ms: shipment.until_ms, running: true });
        Ok(Running { worker: self, number: shipment.number })
    }

    /// What is not refused for its age.
    fn seen(&self, now_ms: u64) -> MutexGuard<'_, BTreeMap<u64, Seen>> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, seen| seen.running || now_ms < seen.until_ms);
        seen
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut seen = self.worker.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = seen.get_mut(&self.number) {
            seen.running = false;
        }
    }
}

/// One shipment.
struct Execution<'a> {
    job: Arc<Job>,
    shipment: &'a Shipment,
    database: Arc<str>,
    /// Until when it looks for commit witnesses.
    look_until_ms: u64,
}

impl Execution<'_> {
    async fn run(self, connections: &mut Connections, clock: &dyn Clock) -> Shipped {
        loop {
            let mut shipped = Shipped::default();
            match self.attempt(&mut shipped, connections, clock).await {
                Some(GroupEnd::Blocked(_)) if clock.now_ms() < self.look_until_ms => {
                    clock.sleep(LOOK_AGAIN_MS).await;
                }
                Some(GroupEnd::Unknown(_)) => {
                    self.wait_for_commit(connections, clock).await;
                    return shipped;
                }
                _ => return shipped,
            }
        }
    }

    /// Waits until a commit has taken effect, or never will, of which the answer was lost: the next
    /// shipment has another session, which could not tell. When others may go on with the
    /// transaction, it is over.
    async fn wait_for_commit(&self, connections: &mut Connections, clock: &dyn Clock) {
        let begin = Request::Begin(Begin::default());
        let limits = &self.job.limits;
        let in_doubt_ms = limits.orphan_ms.saturating_sub(limits.finish_ms);
        let over_ms = self.shipment.until_ms.saturating_add(in_doubt_ms);
        while connections.ask_for(&self.job.users, &self.database, &begin).await.is_err() {
            if clock.now_ms() >= over_ms {
                return;
            }
            clock.sleep(LOOK_AGAIN_MS).await;
        }
        self.abort(connections).await;
    }

    fn is_late(&self, clock: &dyn Clock) -> bool {
        clock.now_ms() >= self.shipment.until_ms
    }

    async fn abort(&self, connections: &mut Connections) {
        // Nothing is open afterwards, whatever is answered.
        let _ = connections.ask_for(&self.job.users, &self.database, &Request::Abort).await;
    }

    /// Runs the group once. None if it has stopped before it would commit, as the coordinator has
    /// to decide.
    async fn attempt(
        &self,
        shipped: &mut Shipped,
        connections: &mut Connections,
        clock: &dyn Clock,
    ) -> Option<GroupEnd> {
        let state = self.shipment.record.state.clone();
        let (mut sight, mut worklist) = (self.shipment.sight.clone(), state.worklist.clone());
        let mut run = GroupRun::new(Arc::clone(&self.job), state, false);
        let mut step = run.next(None);
        loop {
            step = match step {
                // A loop without an end asks for ever. Whether it is one the coordinator has to
                // decide.
                GroupStep::Ask(_) if run.asks_for_operation() && self.is_late(clock) => {
                    self.abort(connections).await;
                    return None;
                }
                GroupStep::Ask(request) => {
                    let users = &self.job.users;
                    let reply = connections.ask_for(users, &self.database, &request).await;
                    shipped.replies.push(reply.clone());
                    run.next(Some(reply))
                }
                GroupStep::Ended(end) => return Some(end),
                GroupStep::Ready => {
                    let now_ms = clock.now_ms();
                    let whole = sight.take_in(&run, &mut worklist, now_ms);
                    let unsure = sight.suspicious && !run.is_after_commit();
                    if !whole {
                        run.give_up()
                    } else if run.group().writes() && (unsure || self.is_late(clock)) {
                        self.abort(connections).await;
                        return None;
                    } else {
                        let turn = Turn { since_ms: now_ms, ..self.shipment.record.turn.clone() };
                        sight.commit(&mut run, &worklist, turn)
                    }
                }
            }
        }
    }
}

/// Why a worker has not begun with a shipment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unshipped {
    /// The program is not known here.
    UnknownModule(CannotResume),
    /// It does not fit its program. The transaction is told.
    Malformed(String),
    /// It came too late.
    Late,
    /// It was here before.
    Again,
    /// Its database cannot be used.
    Store(StoreError),
}

impl fmt::Display for Unshipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unshipped::UnknownModule(unknown) => write!(f, "{unknown}"),
            Unshipped::Malformed(id) => {
                write!(f, "the phases of transaction {id} do not fit its module")
            }
            Unshipped::Late => write!(f, "the phases came too late, or clocks differ"),
            Unshipped::Again => write!(f, "the same phases came before"),
            Unshipped::Store(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Unshipped {}

impl Unshipped {
    /// What [`Connection::execute`](crate::store::Connection::execute) says then.
    pub fn into_store_error(self) -> StoreError {
        match self {
            // The answer to the one that came before is lost.
            Unshipped::Again => StoreError::OutcomeUnknown(self.to_string()),
            other => StoreError::Unavailable(other.to_string()),
        }
    }
}
