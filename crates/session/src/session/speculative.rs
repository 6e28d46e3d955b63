//! Commands on keys of the speculative space, and the session's past there.

use std::time::{Duration, Instant};

use solera_commands::{CommandId, Unit};
use solera_creek::{Command, Level, OperationId, Past, Response};
use solera_data::{Key, Op, OpError, Outcome};
use solera_machine::Address;
use solera_procedures::{Procedure, Returned, Right, next_element};
use solera_time::SiteId;

use super::ClientSession;
use super::followed::{Followed, PAUSE, ROUND};
use super::operations::Results;
use super::queue::{Queue, Runner, Work};
use crate::context::{Context, FromSpeculative, SPECULATIVE_WORKER, ToSpeculative, Unreachable};
use crate::finals::FinalState;
use crate::plan::{KeyOp, Plan};
use crate::returned::Invoked;
use crate::ticket::{Ticket, diverged, forgotten, lost, unknown};

/// Time for which a strong command waits for its final place.
const STRONG_PATIENCE: Duration = Duration::from_secs(10);

/// A session's state for keys of the speculative space.
#[derive(Debug, Default)]
pub(crate) struct SpeculativeSession {
    /// Operations that the site had delivered when it sent replies to this session.
    pub(crate) past: Past,
    /// Watched keys, and the digest of each when it was watched.
    watched: Vec<(Key, Result<Outcome, OpError>)>,
    /// Operations whose later results the client gets as they arrive.
    pub(crate) followed: Followed,
    /// The export of the open transaction: its number, and the state that it contains.
    pub(crate) export: Option<(u64, FinalState)>,
}

/// A final operation.
pub(crate) struct Final {
    /// Its result.
    pub(crate) returned: Returned,
    /// The operation, which determines who may learn its result.
    pub(crate) operation: Option<Procedure>,
}

/// Part of EXEC's reply that a queued command contributes.
enum Reply<'a, W> {
    /// The results of a command on keys.
    Keys(&'a Plan<'static>),
    /// The reply of another command, which runs after the operation.
    Other(&'a dyn super::queue::Later<W>),
    /// An error of a command that does not run.
    Error(String),
}

impl SpeculativeSession {
    /// Returns whether keys are watched.
    pub(crate) fn watches(&self) -> bool {
        !self.watched.is_empty()
    }

    /// Stops watching keys.
    pub(crate) fn unwatch(&mut self) {
        self.watched.clear();
    }
}

impl<W: Context> ClientSession<W> {
    /// Stops watching keys, whatever protocol runs them.
    pub(crate) fn unwatch(&mut self) {
        self.watched.clear();
        self.occult.unwatch();
        self.speculative.unwatch();
    }

    /// Runs a command on keys of the speculative space.
    ///
    /// # Errors
    /// The error reply. Nothing was done, or the effect is unknown.
    pub(crate) async fn run_on_speculative(&mut self, plan: &Plan<'_>) -> Result<Results, String> {
        let level = if self.is_strong(plan) { Level::Strong } else { Level::Weak };
        let procedure = self.procedure_of(plan)?;
        match self.run_procedure(procedure, level).await? {
            Returned::Outcomes(outcomes) => Ok(outcomes.into()),
            _ => Err(self.unanswered()),
        }
    }

    /// Returns the operation of a command on keys.
    ///
    /// # Errors
    /// The error reply, if keys of the space do not support the command.
    pub(crate) fn procedure_of(&self, plan: &Plan<'_>) -> Result<Procedure, String> {
        self.fit_types(plan)?;
        Ok(Procedure::of_steps(steps_of(plan).collect()))
    }

    /// Runs an operation and returns its result: the first one of a weak operation, and the final
    /// one of a strong operation.
    ///
    /// # Errors
    /// The error reply. Nothing was done, or the effect is unknown.
    pub(crate) async fn run_procedure(
        &mut self,
        procedure: Procedure,
        level: Level,
    ) -> Result<Returned, String> {
        let Invoked { id, returned, is_stable } = self.invoke(procedure, level).await?;
        match (level, id) {
            (Level::Strong, Some(id)) if !is_stable => {
                match self.await_stable(id, Some(STRONG_PATIENCE)).await? {
                    Some(done) => Ok(done.returned),
                    None => Err(format!("UNKNOWN {}", not_final(id))),
                }
            }
            _ => Ok(returned),
        }
    }

    /// Invokes an operation and returns its first result.
    ///
    /// # Errors
    /// The error reply. Nothing was done, or the effect is unknown.
    pub(crate) async fn invoke(
        &mut self,
        operation: Procedure,
        level: Level,
    ) -> Result<Invoked, String> {
        let command = Command::Invoke { operation, level, track: false };
        match self.ask_speculative(command, ROUND).await? {
            Some((Response::Tentative(first), _)) => {
                Ok(Invoked { id: first.id, returned: first.response, is_stable: false })
            }
            Some((Response::Stable { id, response, .. }, _)) => {
                Ok(Invoked { id: Some(id), returned: response, is_stable: true })
            }
            Some((Response::Busy, _)) => Err(format!(
                "BUSY too many operations of space '{}' are not final; nothing was done, try again later",
                self.speculative_space()
            )),
            None => Err(format!(
                "UNKNOWN the worker that runs space '{}' did not answer in time; the command may have been done, \
                 and may still be",
                self.speculative_space()
            )),
            Some((other, _)) => Err(self.unexpected(&other)),
        }
    }

    /// Waits until an operation is final. Returns `None` if that takes longer than `patience`.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn await_stable(
        &mut self,
        id: OperationId,
        patience: Option<Duration>,
    ) -> Result<Option<Final>, String> {
        let began = Instant::now();
        loop {
            let left = patience.map(|patience| patience.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
            let round = left.map_or(ROUND, |left| left.min(ROUND));
            match self.wait_speculative(Command::Await { id }, round).await? {
                Some((Response::Stable { response: returned, .. }, operation)) => {
                    return Ok(Some(Final { returned, operation }));
                }
                Some((Response::Forgotten { .. }, _)) => return Err(forgotten(id)),
                Some((Response::Lost { .. }, _)) => {
                    return Err(lost(id, self.worker.site_name(id.site)));
                }
                Some((Response::Unknown { .. }, _)) => {
                    return Err(unknown(id, self.worker.site_name(id.site)));
                }
                None => {}
                Some((other, _)) => return Err(self.unexpected(&other)),
            }
        }
    }

    /// SOLERA.STABLE: waits for the final result of an operation. The client must be allowed to
    /// read the keys of the operation.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn stable_result(
        &mut self,
        id: OperationId,
        patience: Option<Duration>,
    ) -> Result<Returned, String> {
        let Some(Final { returned, operation }) = self.await_stable(id, patience).await? else {
            return Err(format!("TIMEOUT {}", not_final(id)));
        };
        let may_learn = match operation {
            Some(operation) => self.may_learn(&operation),
            // The site has just forgotten the operation, and with it the keys.
            None => !self.worker.is_guarded(),
        };
        match may_learn {
            true => Ok(returned),
            false => Err(format!(
                "NOPERM the operation {} may show keys that this user may not read",
                Ticket(id)
            )),
        }
    }

    /// Returns whether the client may learn the result of an operation. The keys that a call of a
    /// transaction uses are not known in advance. Only users with the same rights as its caller,
    /// and users who may read all keys, may therefore learn its result.
    fn may_learn(&self, operation: &Procedure) -> bool {
        match operation {
            Procedure::Call(call) if self.worker.is_guarded() => {
                let user = self.identity.user();
                user.is_some_and(|user| {
                    let of_call = &call.scope.rights;
                    let is_same = |((pattern, operations), right): ((&[u8], u64), &Right)| {
                        *pattern == *right.pattern && operations == right.operations
                    };
                    let has_same = user.operations().count() == of_call.len()
                        && user.operations().zip(of_call).all(is_same);
                    has_same || user.reads_all_keys()
                })
            }
            _ => operation.keys().all(|key| self.may_read(key)),
        }
    }

    /// Checks that there is a speculative space.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) fn has_speculative_space(&self) -> Result<(), String> {
        match self.worker.spec().spaces.run_speculative() {
            true => Ok(()),
            false => Err("ERR there is no space of level speculative".to_owned()),
        }
    }

    /// Returns the error reply for a response that gives no result.
    fn unexpected(&self, response: &Response<Returned>) -> String {
        match response {
            Response::Diverged(divergence) => diverged(&*self.worker, divergence),
            _ => self.unanswered(),
        }
    }

    /// Sends the site's machine a command, and returns its response; `None` if there is none in
    /// time.
    ///
    /// # Errors
    /// The error reply.
    pub(super) async fn ask_speculative(
        &mut self,
        command: Command<Procedure, Returned>,
        within: Duration,
    ) -> Result<Option<(Response<Returned>, Option<Procedure>)>, String> {
        match self.request_speculative(ToSpeculative::Run { command, within }).await? {
            FromSpeculative::Responded { response, past, operation } => {
                self.speculative.past.join(&past);
                Ok(Some((*response, operation)))
            }
            FromSpeculative::TimedOut => Ok(None),
            _ => Err(self.unanswered()),
        }
    }

    /// Sends a request to the worker of the site that runs the speculative space.
    ///
    /// # Errors
    /// The error reply, if there is no answer.
    pub(crate) async fn request_speculative(
        &self,
        asked: ToSpeculative,
    ) -> Result<FromSpeculative, String> {
        match self.worker.ask_speculative(asked).await {
            Some(FromSpeculative::Unreachable(node)) => Err(Unreachable(node).to_string()),
            Some(answer) => Ok(answer),
            None => Err(self.speculative_unanswered()),
        }
    }

    /// Sends the site's machine a command that only waits, and returns its response; `None` if
    /// there is none in time, or the worker's node does not answer now.
    ///
    /// # Errors
    /// The error reply, if there will be no response.
    async fn wait_speculative(
        &mut self,
        command: Command<Procedure, Returned>,
        within: Duration,
    ) -> Result<Option<(Response<Returned>, Option<Procedure>)>, String> {
        let answer = self.ask_speculative(command, within).await;
        if answer.is_err() && self.is_elsewhere() && self.worker.refuses().is_none() {
            tokio::time::sleep(PAUSE.min(within)).await;
            return Ok(None);
        }
        answer
    }

    /// Returns whether another worker runs the speculative space.
    fn is_elsewhere(&self) -> bool {
        self.worker.address() != self.speculative_worker()
    }

    /// Returns the worker that runs the speculative space.
    pub(super) fn speculative_worker(&self) -> Address {
        Address { site: self.worker.address().site, worker: SPECULATIVE_WORKER }
    }

    /// Returns the error reply for a worker of the speculative space that gives no answer.
    fn speculative_unanswered(&self) -> String {
        match self.is_elsewhere() && self.worker.refuses().is_none() {
            true => format!(
                "UNKNOWN {}, which runs space '{}', does not answer; the command may have been done",
                self.worker.node_name(self.speculative_worker()),
                self.speculative_space()
            ),
            false => self.unanswered(),
        }
    }

    /// Returns the sites whose operations that the session has done or seen are not all final at
    /// this site.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn unfinished_sites(&self) -> Result<Vec<SiteId>, String> {
        let past = &self.speculative.past;
        if past.is_empty() {
            return Ok(Vec::new());
        }
        match self.request_speculative(ToSpeculative::Unfinished(past.clone())).await? {
            FromSpeculative::Unfinished(sites) => Ok(sites),
            _ => Err(self.unanswered()),
        }
    }

    /// Asks a site to lead the speculative space.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn move_speculative_leader(&mut self, site: SiteId) -> Result<(), String> {
        match self.ask_speculative(Command::Lead { site }, ROUND).await? {
            Some((Response::Reached, _)) => Ok(()),
            Some((other, _)) => Err(self.unexpected(&other)),
            None => Err(self.unanswered()),
        }
    }

    /// Returns the name of the speculative space.
    pub(crate) fn speculative_space(&self) -> String {
        let space = self.worker.spec().spaces.speculative();
        space.map_or_else(String::new, |space| space.name.clone())
    }

    /// Watches keys of the speculative space (WATCH).
    ///
    /// # Errors
    /// The error reply.
    pub(super) async fn watch_on_speculative<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), String> {
        let is_new = |key: &&[u8]| {
            !self.speculative.watched.iter().any(|(watched, _)| watched.as_bytes() == *key)
        };
        let keys: Vec<Key> = keys.filter(is_new).map(Key::from).collect();
        let steps = keys.iter().map(|key| (key.clone(), Op::Digest)).collect();
        match self.run_procedure(Procedure::of_steps(steps), Level::Weak).await? {
            Returned::Outcomes(digests) => {
                self.speculative.watched.extend(keys.into_iter().zip(digests));
                Ok(())
            }
            _ => Err(self.unanswered()),
        }
    }

    /// Runs a queue as one operation. It is strong if a key is watched or a command is strong.
    pub(super) async fn exec_on_speculative(&mut self, queue: &Queue<W>) {
        let expects = std::mem::take(&mut self.speculative.watched);
        let watches_others = !self.watched.is_empty() || self.occult.watches();
        if watches_others || queue.runner.is_some_and(|runner| runner != Runner::Speculative) {
            self.unwatch();
            let ours = match expects.first() {
                Some((key, _)) => self.key_in_space(key.as_bytes()),
                None => "a key used since MULTI".to_owned(),
            };
            return self.fail(format!(
                "ERR {ours} is of level speculative, and another key that is watched or used is not: one transaction \
                 cannot span both"
            ));
        }
        let is_strong = queue.strong || !expects.is_empty();
        let level = if is_strong { Level::Strong } else { Level::Weak };
        let mut steps = Vec::new();
        let mut replies = Vec::with_capacity(queue.commands.len());
        for queued in &queue.commands {
            // Rights may have changed since the command was queued.
            if let Err(refused) = self.may_use(Unit::of(queued.command, None), queued.keys()) {
                replies.push(Reply::Error(refused.in_exec()));
                continue;
            }
            replies.push(match &queued.work {
                Work::Keys(plan) => {
                    steps.extend(steps_of(plan));
                    Reply::Keys(plan)
                }
                Work::Other(command) => Reply::Other(&**command),
                Work::Wrong(error) => Reply::Error(error.clone()),
            });
        }
        let results = match self.run_procedure(Procedure::Keys { expects, steps }, level).await {
            Ok(Returned::Outcomes(results)) => results,
            Ok(Returned::Changed) => return self.out.null_array(),
            Ok(_) => return self.fail_unanswered(),
            Err(error) => return self.fail(error),
        };
        let mut results = results.into_iter();
        self.out.array(replies.len());
        for reply in replies {
            match reply {
                Reply::Keys(plan) => {
                    let own: Results = results.by_ref().take(plan.ops.len()).collect();
                    self.answer(plan, &own);
                }
                Reply::Other(command) => command.run(self).await,
                Reply::Error(error) => self.fail(error),
            }
        }
    }

    /// Waits until this site has delivered a past of keys of the speculative space, or until all of
    /// it is final here.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn wait_for_speculative(
        &mut self,
        past: &Past,
        until: Until,
        patience: Option<Duration>,
    ) -> Result<(), String> {
        let has_reached = past.is_empty()
            || {
                if !self.worker.spec().spaces.run_speculative() {
                    return Err("BADTOKEN the token has seen keys of a space of level speculative, and there is no such \
                            space"
                    .to_owned());
                }
                self.reach_speculative(past, until, patience).await?
            };
        let space = || self.speculative_space();
        match (has_reached, until) {
            (true, _) => Ok(()),
            (false, Until::Delivered) => Err(format!(
                "TIMEOUT this site has not received all that the token has seen in space '{}'; try again",
                space()
            )),
            (false, Until::Final) => Err(format!(
                "TIMEOUT not all that the session has seen in space '{}' is final; too few sites may be connected, try \
                 again",
                space()
            )),
        }
    }

    /// Waits until this site has delivered a past, or until all of it is final here. Returns
    /// `false` if that takes longer than `patience`.
    ///
    /// # Errors
    /// The error reply.
    pub(super) async fn reach_speculative(
        &mut self,
        past: &Past,
        until: Until,
        patience: Option<Duration>,
    ) -> Result<bool, String> {
        if past.is_empty() {
            return Ok(true);
        }
        let began = Instant::now();
        loop {
            let left = patience.map(|patience| patience.saturating_sub(began.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(false);
            }
            let command = match until {
                Until::Delivered => Command::Attach { past: past.clone() },
                Until::Final => Command::Barrier { past: past.clone() },
            };
            let round = left.map_or(ROUND, |left| left.min(ROUND));
            match self.wait_speculative(command, round).await? {
                Some((Response::Reached, _)) => return Ok(true),
                Some((Response::Lost { id }, _)) => {
                    return Err(format!(
                        "LOST the session or its token has seen operations of space '{}' that were lost with site {}, \
                         which was removed; continue without the token",
                        self.speculative_space(),
                        self.worker.site_name(id.site)
                    ));
                }
                None => {}
                Some((other, _)) => return Err(self.unexpected(&other)),
            }
        }
    }
}

/// Returns the operations of a command on keys.
fn steps_of(plan: &Plan<'_>) -> impl Iterator<Item = (Key, Op)> {
    let is_push = plan.command == CommandId::SoleraPush;
    plan.ops.iter().map(move |KeyOp { key, op }| {
        let op = match op {
            // The places of the operations in the order determine the places of the elements; no
            // clock does.
            Op::HashSet(fields) if is_push => {
                let elements =
                    (0..).zip(fields).map(|(at, (_, new))| (next_element(at), new.clone()));
                Op::HashSet(elements.collect())
            }
            other => other.clone(),
        };
        (Key::from(&**key), op)
    })
}

/// State that a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// This site has delivered the operations.
    Delivered,
    /// The operations are final.
    Final,
}

/// Returns the text, after the code, of an error reply about an operation that is not final in
/// time.
fn not_final(id: OperationId) -> String {
    format!(
        "the operation is not final here yet, and may still be executed; too few sites may be connected, or the ticket \
         is unknown: SOLERA.STABLE {} waits for its result",
        Ticket(id)
    )
}
