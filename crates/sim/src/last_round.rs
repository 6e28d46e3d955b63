//! Liveness check after healing: every site must commit strong transactions on every group, and no
//! site may fail for ever because others keep changing the same key. A finite run can detect
//! violations of both.

use std::collections::BTreeMap;

use solera_data::{Key, Op};
use solera_machine::{PartitionId, RequestId, Topology};
use solera_time::{SiteId, Vector};
use solera_unistore::{Cause, CommandError, Response};

use crate::queue::MS;
use crate::recorded::{Recorded, Status};
use crate::spaces;
use crate::world::World;

/// Sessions of the last round, beyond those of clients.
const SESSIONS: usize = 1 << 32;
/// Requests of the last round; final reads count down from the greatest.
const REQUESTS: u64 = 1 << 62;
/// Number of strong transactions of each site that must commit while all sites change one key.
const TURNS: usize = 2;

/// The last round: a strong transaction on each group, from one site after the other; then many on
/// one key, from all sites at once.
#[derive(Debug, Default)]
pub(crate) struct LastRound {
    /// Transactions to be submitted, for the first time or again.
    due: Vec<Recorded>,
    waiting: BTreeMap<RequestId, Recorded>,
    requests: u64,
    sessions: usize,
    pub(crate) recorded: Vec<Recorded>,
    /// The sites that change one key, and how often each has done so.
    contest: BTreeMap<usize, usize>,
    /// Transactions that were given up because of conflicts.
    pub(crate) starved: Vec<String>,
}

impl LastRound {
    /// Begins the turn of one site.
    pub(crate) fn begin(&mut self, topology: &Topology, site: usize) {
        for partition in 0..topology.partitions {
            self.push(site, key_of(PartitionId(partition), topology));
        }
    }

    /// Has these sites change one key until each has succeeded a few times.
    pub(crate) fn begin_contest(&mut self, topology: &Topology, sites: &[usize]) {
        for site in sites {
            self.contest.insert(*site, 0);
            self.push(*site, key_of(PartitionId(0), topology));
        }
    }

    fn push(&mut self, site: usize, key: Key) {
        self.sessions += 1;
        self.due.push(Recorded {
            session: SESSIONS + self.sessions,
            site,
            steps: vec![spaces::step(key, Op::IncrBy(1), true)],
            status: Status::Unknown,
            cause: None,
            invoked: 0,
            answered: None,
        });
    }

    /// Submits the transactions that are due.
    pub(crate) fn submit(&mut self, world: &mut World) {
        for mut recorded in std::mem::take(&mut self.due) {
            self.requests += 1;
            let request = RequestId(REQUESTS + self.requests);
            let worker = world.some_worker(SiteId(recorded.site as u8), self.requests as usize);
            recorded.cause = Some(Cause::Request(worker, request));
            recorded.invoked = world.now;
            let command = spaces::command(Vector::zero(world.sites()), &recorded.steps[0], false);
            self.waiting.insert(request, recorded);
            world.command(worker, request, command);
        }
    }

    /// Handles a reply. Returns it if it belongs to another request.
    pub(crate) fn reply(
        &mut self,
        now: u64,
        request: RequestId,
        response: Response,
    ) -> Option<Response> {
        let Some(mut recorded) = self.waiting.remove(&request) else { return Some(response) };
        match response {
            Response::Executed { outcome, .. } => {
                recorded.steps[0].answer = Some(outcome);
                (recorded.status, recorded.answered) = (Status::Committed, Some(now));
                if let Some(turns) = self.contest.get_mut(&recorded.site) {
                    *turns += 1;
                    if self.contest.values().any(|turns| *turns < TURNS) {
                        self.push(recorded.site, recorded.steps[0].key.clone());
                    }
                }
            }
            Response::Failed(CommandError::Aborted { .. }) if !self.contest.is_empty() => {
                self.starved.push(format!("site {} of {:?}", recorded.site, self.contest));
                // The other sites need not continue.
                self.contest.clear();
            }
            _ => self.due.push(recorded.clone()),
        }
        self.recorded.push(recorded);
        None
    }

    /// Returns whether sites contend for one key, which they do without pauses.
    pub(crate) fn is_contest(&self) -> bool {
        !self.contest.is_empty()
    }

    /// Returns whether all transactions of this turn committed.
    pub(crate) fn is_done(&self) -> bool {
        self.due.is_empty() && self.waiting.is_empty()
    }

    /// Returns the transactions of this turn that did not commit. Those that still wait may commit
    /// later; the checkers treat them as unknown.
    pub(crate) fn take_missing(&mut self) -> Vec<String> {
        let waiting: Vec<_> = std::mem::take(&mut self.waiting).into_values().collect();
        self.recorded.extend(waiting.iter().cloned());
        let missing = waiting.into_iter().chain(std::mem::take(&mut self.due));
        let describe = |recorded: Recorded| {
            let (site, key) = (recorded.site, &recorded.steps[0].key);
            format!(
                "site {site} cannot change '{key}' strongly, begun at {} ms",
                recorded.invoked / MS
            )
        };
        missing.map(describe).collect()
    }
}

/// Returns a linearizable key of a partition.
fn key_of(partition: PartitionId, topology: &Topology) -> Key {
    let mut keys = (0..).map(|number| format!("l-last{number}"));
    let key = keys.find(|key| PartitionId::of(key.as_bytes(), topology.partitions) == partition);
    Key::from(key.expect("some key is in every partition").as_str())
}
