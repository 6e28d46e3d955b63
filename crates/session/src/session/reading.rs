//! Reads at a chosen level, and reads within a bound of latency (IPA §4.2).

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use smallvec::SmallVec;
use solera_commands::CommandId;
use solera_config::Baseline;
use solera_data::{OpError, Outcome};
use solera_ipa::Monitor;
use solera_levels::Level;
use solera_unistore::{Command, Response};
use tokio::time::{Instant, sleep_until};

use super::ClientSession;
use crate::context::Context;
use crate::plan::KeyOp;

/// Condition that a client sets for a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// At least this level.
    At(Level),
    /// The strongest level that arrives in time.
    Within(Duration),
}

/// Result of an operation, and the level at which it was read.
pub(crate) type Read = (Result<Outcome, OpError>, Level);

/// How a read is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// As a strong transaction.
    Certified,
    /// As a causal transaction that contains what any site has acknowledged.
    Complete,
    /// As a transaction of this level, at this site: causal or eventual.
    Local(Level),
}

/// The ways in which a key can be read, each with the level of the result, the strongest first.
type Ways = SmallVec<[(Level, Way); 3]>;

impl Way {
    /// Returns whether the read needs answers of other sites.
    fn is_remote(self) -> bool {
        matches!(self, Way::Certified | Way::Complete)
    }
}

/// Monitors of the session's remote reads, by operation, level and way.
#[derive(Debug, Default)]
pub(crate) struct Monitors(Vec<((CommandId, Level, Way), Box<Monitor>)>);

impl Monitors {
    fn of(&mut self, reads: (CommandId, Level, Way), now: Duration) -> &mut Monitor {
        let found = self.0.iter().position(|(of, _)| *of == reads);
        let at = found.unwrap_or_else(|| {
            self.0.push((reads, Box::new(Monitor::new(now))));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}

impl<W: Context> ClientSession<W> {
    /// Reads a key, outside of transactions. `command` is the command that does the operation.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn read(
        &mut self,
        command: CommandId,
        op: &KeyOp<'_>,
        wanted: Wanted,
    ) -> Result<Read, String> {
        let ways = self.ways(command, op)?;
        let read = match wanted {
            Wanted::At(level) => self.read_at(command, op, &ways, level).await,
            // The space permits no weaker level, so that the answer may be late.
            Wanted::Within(_) if ways.iter().all(|(_, way)| way.is_remote()) => {
                self.read_at(command, op, &ways, ways[0].0).await
            }
            Wanted::Within(bound) => self.read_within(command, op, &ways, bound).await,
        }?;
        let within = matches!(wanted, Wanted::Within(_));
        self.worker.count_reads(|counts| counts.note_answer(within, read.1));
        Ok(read)
    }

    async fn read_at(
        &mut self,
        command: CommandId,
        op: &KeyOp<'_>,
        ways: &[(Level, Way)],
        level: Level,
    ) -> Result<Read, String> {
        let space = self.worker.spec().spaces.space_of(&op.key);
        if let Some(least) = space.stronger_least(level) {
            let (key, name) = (String::from_utf8_lossy(&op.key), &space.name);
            return Err(format!(
                "ERR '{key}' cannot be read at level {level}: in solera.toml, its space '{name}' has at_least = \
                 \"{least}\""
            ));
        }
        let suitable = ways.iter().rev().find(|(offered, _)| offered.at_least(level));
        let Some((level, way)) = suitable else {
            return Err(self.too_strong(op, level));
        };
        let result = match way {
            Way::Certified => self.execute_strong(command, op).await?,
            Way::Complete => {
                self.worker.reach(&op.key).map_err(|error| error.to_string())?;
                let response = self.worker.call(self.remote_read(command, op, *way)).await;
                self.executed(response)?
            }
            Way::Local(local) => self.execute_causal(op, *local).await?,
        };
        Ok((result, *level))
    }

    fn ways(&self, command: CommandId, op: &KeyOp<'_>) -> Result<Ways, String> {
        let spec = self.worker.spec();
        if spec.protocol != Baseline::UniStore {
            return Err(format!(
                "ERR protocol {} offers no choice of levels",
                spec.protocol.name()
            ));
        }
        let space = spec.spaces.space_of(&op.key);
        if space.read_levels().is_empty() {
            let (key, name) = (String::from_utf8_lossy(&op.key), &space.name);
            let level = space.level_name();
            return Err(format!(
                "ERR the level of a read of '{key}' cannot be chosen: its space '{name}' is {level}; \
                 use the command itself"
            ));
        }
        let is_strong = self.class_of(command, op).strong;
        let way = |level: Level| match level {
            own if is_strong && own == space.level => Way::Certified,
            stronger if stronger.is_stronger_than(space.level) => Way::Complete,
            Level::Eventual => Way::Local(Level::Eventual),
            _ => Way::Local(Level::Causal),
        };
        let levels = space.read_levels().iter().copied();
        let permitted = levels.filter(|level| space.stronger_least(*level).is_none());
        let mut ways: Ways = permitted.map(|level| (level, way(level))).collect();
        // What answers at two levels has the stronger one.
        ways.dedup_by_key(|(_, way)| *way);
        Ok(ways)
    }

    /// Returns the command for a remote read that may be cancelled.
    fn remote_read(&self, command: CommandId, op: &KeyOp<'_>, way: Way) -> Command {
        let kind = self.class_of(command, op).as_kind();
        let (past, key, op) = (self.pasts.causal, (&*op.key).into(), op.op.clone());
        match way {
            Way::Complete => Command::ReadComplete { past, key, op },
            Way::Certified | Way::Local(_) => Command::ReadStrong { past, key, op, kind },
        }
    }

    fn too_strong(&self, op: &KeyOp<'_>, level: Level) -> String {
        let space = self.worker.spec().spaces.space_of(&op.key);
        let (key, name, own) = (String::from_utf8_lossy(&op.key), &space.name, space.level);
        format!("ERR '{key}' cannot be read at level {level}: its space '{name}' is {own}")
    }

    /// Attempts a remote read if it is likely to arrive in time, beside a local one. Returns the
    /// stronger result of those that arrive within the bound, or else the first one. A remote read
    /// that is late is cancelled.
    async fn read_within(
        &mut self,
        command: CommandId,
        op: &KeyOp<'_>,
        ways: &[(Level, Way)],
        bound: Duration,
    ) -> Result<Read, String> {
        self.worker.reach(&op.key).map_err(|error| error.to_string())?;
        let began = Instant::now();
        let (strongest, way) = ways[0];
        let locals = if way.is_remote() { &ways[1..] } else { ways };
        let now = self.monitored_time();
        let attempts = way.is_remote()
            && self.monitors.of((command, strongest, way), now).attempts(now, bound);
        let strong = attempts.then(|| self.remote_read(command, op, way));
        let worker = Rc::clone(&self.worker);
        let mut strong = pin!(async move {
            match strong {
                Some(strong) => worker.ask(strong).await,
                None => std::future::pending().await,
            }
        });
        let mut late = pin!(sleep_until(began + bound));
        // The response of the strong read, if it has succeeded.
        let (mut waits_for_strong, mut response) = (attempts, None);
        let mut result = Err(String::new());
        for (at, (level, way)) in locals.iter().enumerate() {
            let Way::Local(local) = *way else { continue };
            let is_last = at + 1 == locals.len();
            let mut read = pin!(self.execute_causal(op, local));
            let mut waits = true;
            // When the time is over, a local read that still waits gives way to the next, weaker
            // one. The last one waits for its worker only.
            while waits_for_strong || waits {
                tokio::select! {
                    biased;
                    answer = &mut strong, if waits_for_strong => {
                        waits_for_strong = false;
                        response = answer.filter(|it| matches!(it, Response::Executed { .. }));
                        if response.is_some() {
                            break;
                        }
                    }
                    answer = &mut read, if waits => {
                        waits = false;
                        result = answer.map(|answer| (answer, *level));
                    }
                    () = &mut late, if !late.is_elapsed() => {}
                }
                if late.is_elapsed() && (result.is_ok() || !is_last) {
                    break;
                }
            }
            if result.is_ok() || response.is_some() {
                break;
            }
        }
        if attempts {
            let now = self.monitored_time();
            let monitor = self.monitors.of((command, strongest, way), now);
            match response {
                Some(_) => monitor.arrived(now, began.elapsed()),
                None => monitor.given_up(now, bound),
            }
            self.worker.count_reads(|counts| match response {
                Some(_) => counts.attempts.answered += 1,
                None if waits_for_strong => counts.attempts.cancelled += 1,
                None => counts.attempts.failed += 1,
            });
        }
        match response {
            Some(_) => Ok((self.executed(response)?, strongest)),
            None => result,
        }
    }

    /// Returns the time since the worker's start, for the monitors.
    fn monitored_time(&self) -> Duration {
        Duration::from_nanos(self.worker.now().monotonic.0)
    }
}
