//! Commands on keys of spaces that `primary` runs, and the session's past there.

use std::time::{Duration, Instant};

use smallvec::smallvec;
use solera_commands::CommandId;
use solera_config::{Answer, Space};
use solera_data::{Key, Op, Outcome};
use solera_machine::{Address, PartitionId};
use solera_primary::{Command, Done, Failure, Past, Position, Response, Update};

use super::ClientSession;
use super::operations::Results;
use crate::context::{Context, ToPrimary, Unreachable};
use crate::plan::{KeyOp, Plan};

/// State that a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// This site has applied the updates in the past.
    Applied,
    /// f + 1 sites store them.
    Stored,
}

impl<W: Context> ClientSession<W> {
    /// Returns whether a command names a key of a space that `primary` runs.
    pub(crate) fn is_for_primary(&self, plan: &Plan<'_>) -> bool {
        let spaces = &self.worker.spec().spaces;
        spaces.run_primary() && plan.ops.iter().any(|op| spaces.primary_of(&op.key).is_some())
    }

    /// Checks that no key is in a space that `primary` runs.
    ///
    /// # Errors
    /// The error reply, which lists the commands that such a space takes.
    pub(crate) fn is_beside_primary<'a>(
        &self,
        mut keys: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), String> {
        let spaces = &self.worker.spec().spaces;
        match keys.find_map(|key| Some((key, spaces.primary_of(key)?.0))) {
            Some((key, space)) => Err(not_taken(key, space)),
            None => Ok(()),
        }
    }

    /// Runs a command that [names such a key](Self::is_for_primary).
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn run_on_primary(&mut self, plan: &Plan<'_>) -> Result<Results, String> {
        let spec = self.worker.spec().clone();
        let place = |op: &KeyOp<'_>| Some((Key::from(&*op.key), spec.spaces.primary_of(&op.key)?));
        let found = plan.ops.iter().find_map(place);
        let (key, (space, answer)) = found.expect("the caller has found such a key");
        let refusal = || Err(not_taken(key.as_bytes(), space));
        let ([op], true) = (plan.ops.as_slice(), is_taken(plan.command)) else { return refusal() };
        if self.in_transaction() {
            return refusal();
        }
        let takes_accepted = answer == Answer::Accepted;
        let command = match op.op.clone() {
            Op::Get | Op::Exists => Command::Read { key },
            Op::Set(value) => Command::Update { key, update: Update::Set(value) },
            Op::IncrBy(by) => Command::Update { key, update: Update::IncrBy(by) },
            Op::Delete => Command::Update { key, update: Update::Delete },
            _ => return refusal(),
        };
        let owner = self.worker.reach(&op.key).map_err(|error| error.to_string())?;
        let response = self.worker.ask_primary(owner, ToPrimary { command, takes_accepted }).await;
        let response = response.ok_or_else(|| self.no_answer_reply(owner, op))?;
        Ok(smallvec![Ok(self.outcome_of(op, response)?)])
    }

    /// Returns the outcome of an operation. Adds the position that it read or wrote to the
    /// session's past.
    fn outcome_of(&mut self, op: &KeyOp<'_>, response: Response) -> Result<Outcome, String> {
        match response {
            Response::Value { value, position } => {
                self.note_position(&op.key, position);
                Ok(match (&op.op, value) {
                    (Op::Exists, value) => Outcome::Int(i64::from(value.is_some())),
                    (_, Some(value)) => Outcome::Bulk(value),
                    (_, None) => Outcome::Nil,
                })
            }
            Response::Accepted(done) | Response::Applied(done) => {
                let Done { position, number } = done;
                self.note_position(&op.key, position);
                match (&op.op, number) {
                    (Op::Set(_), _) => Ok(Outcome::Ok),
                    (_, Some(number)) => Ok(Outcome::Int(number)),
                    (_, None) => Err(format!(
                        "UNKNOWN {} was changed, but the result is unknown; read the key",
                        self.named(&op.key)
                    )),
                }
            }
            Response::Failed(failure) => Err(self.primary_error(&op.key, failure)),
            Response::Attached | Response::Stored => Err(self.unanswered()),
        }
    }

    fn note_position(&mut self, key: &[u8], position: Position) {
        // Before the first update of a partition there is nothing to depend on.
        if position.index == 0 {
            return;
        }
        let partition = PartitionId::of(key, self.worker.spec().partitions);
        self.primary.note(partition, position);
    }

    /// Formats a key and its space for an error.
    fn named(&self, key: &[u8]) -> String {
        let space = self.worker.spec().spaces.space_of(key);
        format!("'{}' (space '{}')", String::from_utf8_lossy(key), space.name)
    }

    fn primary_error(&self, key: &[u8], failure: Failure) -> String {
        let named = self.named(key);
        match failure {
            Failure::TimedOut => format!(
                "UNKNOWN the home of {named} did not answer in time; the command may have been done, and \
                 may still be"
            ),
            Failure::NotANumber => "ERR value is not an integer or out of range".to_owned(),
            Failure::TooLarge => format!("TOOLARGE the value of {named} would be too long"),
            Failure::Busy => {
                format!("TRYAGAIN too many updates wait for homes; {named} was not changed")
            }
            Failure::Lost | Failure::OtherWorker => format!("ERR {named}: {failure}"),
        }
    }

    /// Returns the error reply for a worker that gave no answer at all.
    fn no_answer_reply(&self, owner: Address, op: &KeyOp<'_>) -> String {
        let node = self.worker.node_name(owner);
        match self.worker.process_of(owner) {
            Some(0) => self.unanswered(),
            _ if op.op.is_update() => {
                format!("UNKNOWN {node} does not answer; the command may have been done")
            }
            _ => Unreachable(node).to_string(),
        }
    }

    /// Waits until the updates in a past have reached the state `wait`.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn wait_for_primary(
        &self,
        past: &Past,
        wait: Wait,
        patience: Option<Duration>,
    ) -> Result<(), String> {
        if past.is_empty() {
            return Ok(());
        }
        let spec = self.worker.spec();
        if !spec.spaces.run_primary() {
            return Err(
                "BADTOKEN the token has seen keys of a space that 'primary' runs, and there is no \
                        such space"
                    .to_owned(),
            );
        }
        let (began, topology) = (Instant::now(), spec.topology());
        for worker in self.worker.workers() {
            let past = past.of_worker(&topology, worker);
            let left = || patience.map(|patience| patience.saturating_sub(began.elapsed()));
            while !past.is_empty() {
                match self.wait_at(worker, &past, wait, left()).await {
                    None => return Err(Unreachable(self.worker.node_name(worker)).to_string()),
                    Some(Response::Attached | Response::Stored) => break,
                    // The protocol has a timeout of its own; repeat the request while time is left.
                    Some(Response::Failed(Failure::TimedOut))
                        if left().is_none_or(|left| !left.is_zero()) => {}
                    Some(Response::Failed(failure)) => return Err(timeout_reply(wait, failure)),
                    Some(_) => return Err(self.unanswered()),
                }
            }
        }
        Ok(())
    }

    async fn wait_at(
        &self,
        worker: Address,
        past: &Past,
        wait: Wait,
        left: Option<Duration>,
    ) -> Option<Response> {
        let past = past.clone();
        let command = match wait {
            Wait::Applied => Command::Attach { past },
            Wait::Stored => Command::Barrier { past },
        };
        let asked = self.worker.ask_primary(worker, ToPrimary { command, takes_accepted: false });
        match left {
            Some(left) => {
                let late = Some(Response::Failed(Failure::TimedOut));
                tokio::time::timeout(left, asked).await.unwrap_or(late)
            }
            None => asked.await,
        }
    }
}

/// Returns whether a space of `primary` takes a command with one key.
fn is_taken(command: CommandId) -> bool {
    matches!(
        command,
        CommandId::Get
            | CommandId::Set
            | CommandId::Incr
            | CommandId::Decr
            | CommandId::Incrby
            | CommandId::Decrby
            | CommandId::Del
            | CommandId::Exists
    )
}

/// Returns the error for a command that a space of `primary` does not take.
fn not_taken(key: &[u8], space: &Space) -> String {
    format!(
        "ERR '{}' is in space '{}', which 'primary' runs: it takes GET, SET without options, INCR, DECR, INCRBY, \
         DECRBY, and DEL and EXISTS of one key, and no transactions",
        String::from_utf8_lossy(key),
        space.name
    )
}

fn timeout_reply(wait: Wait, failure: Failure) -> String {
    match (failure, wait) {
        (Failure::Lost, _) => {
            "LOST the session or its token has seen updates of a space that 'primary' runs that were lost with a \
             site; RESET, and go on without the token"
                .to_owned()
        }
        (Failure::TimedOut, Wait::Applied) => {
            "TIMEOUT this site has not yet applied all that the token has seen in spaces that 'primary' runs; a \
             home may be cut off, try again"
                .to_owned()
        }
        (Failure::TimedOut, Wait::Stored) => {
            "TIMEOUT too few sites are known to store what the session has seen in spaces that 'primary' runs; \
             others may be cut off, try again"
                .to_owned()
        }
        (failure, _) => format!("TRYAGAIN {failure}"),
    }
}
