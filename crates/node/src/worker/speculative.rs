//! Requests to the machine of the speculative space, which one worker of each site runs.

use solera_config::areas::SITES;
use solera_creek::{Command, Final, Past, Response};
use solera_machine::{Address, codec};
use solera_procedures::{Procedure, Returned};
use solera_session::{
    Context as _, FinalAnswer, FinalState, FinalStep, FromSpeculative, LogEntry,
    SPECULATIVE_WORKER, SpeculativeState, ToSpeculative,
};
use solera_site::speculative::Speculative;
use tokio::sync::oneshot;
use tracing::error;

use super::open_request::OpenRequest;
use super::queued::pass_on;
use super::{State, Worker};

/// Most bytes of operations that SOLERA.LOG returns, unless one alone is longer.
const MOST_LOGGED: usize = 16 << 20;

impl Worker {
    /// Sends a request to the machine of this site. Returns `None` if no reply comes.
    pub(super) async fn ask_speculative_at_site(
        &self,
        asked: ToSpeculative,
    ) -> Option<FromSpeculative> {
        let worker = Address { site: self.address.site, worker: SPECULATIVE_WORKER };
        if worker == self.address {
            return self.run_speculative(asked).await;
        }
        match self.network.link_to(worker) {
            Some(link) if !link.is_reachable() => {
                Some(FromSpeculative::Unreachable(self.node_name(worker)))
            }
            _ => self.network.ask_speculative(worker, asked).await,
        }
    }

    async fn run_speculative(&self, asked: ToSpeculative) -> Option<FromSpeculative> {
        match asked {
            ToSpeculative::Run { command, within } => {
                let named = match &command {
                    Command::Await { id } => Some(*id),
                    _ => None,
                };
                let Ok(response) =
                    tokio::time::timeout(within, self.run_speculative_command(command)).await
                else {
                    return Some(FromSpeculative::TimedOut);
                };
                let response = Box::new(response?);
                // What the site has delivered since then is no less than what the client has seen.
                self.with_speculative(|machine| FromSpeculative::Responded {
                    response,
                    past: machine.past(),
                    operation: named.and_then(|id| machine.final_of(id)?.request.operation.clone()),
                })
            }
            ToSpeculative::State => {
                self.with_speculative(|machine| FromSpeculative::State(Box::new(state_of(machine))))
            }
            ToSpeculative::Log { from, count } => self.with_speculative(|machine| {
                let mut bytes = 0;
                let fits = |entry: &LogEntry| {
                    let is_first = bytes == 0;
                    bytes += codec::encoded_bytes(entry);
                    is_first || bytes <= MOST_LOGGED
                };
                let entries = machine.log(from, count).map(entry_of).take_while(fits);
                FromSpeculative::Log(entries.collect(), machine.log_start())
            }),
            ToSpeculative::Export(step) => self.export_speculative(step),
            ToSpeculative::Unfinished(past) => self.with_speculative(|machine| {
                FromSpeculative::Unfinished(machine.unfinished_sites(&past).collect())
            }),
        }
    }

    /// Makes a step of an export. Returns `None` if the worker does not run the space.
    fn export_speculative(&self, step: FinalStep) -> Option<FromSpeculative> {
        if !self.answers() {
            return None;
        }
        let now = self.now().monotonic;
        let mut state = self.state.borrow_mut();
        let State { engine, finals, .. } = &mut *state;
        let machine = engine.machine().creek()?;
        let answer = match step {
            FinalStep::Begin { id, lasts, past } => match machine.divergence() {
                Some(divergence) if divergence.is_stopped => FinalAnswer::Diverged(divergence),
                _ if finals.begin(now, id, lasts, machine.registers()) => {
                    FinalAnswer::Begun(final_state_of(machine, &past))
                }
                _ => FinalAnswer::TooMany,
            },
            FinalStep::Page { id, number } => finals.page(now, id, number),
            FinalStep::End { id } => {
                finals.end(id);
                FinalAnswer::Ended
            }
        };
        Some(FromSpeculative::Exported(answer))
    }

    /// Runs a command here and returns the first response. If the future is dropped before it
    /// ends, the request is cancelled.
    async fn run_speculative_command(
        &self,
        command: Command<Procedure, Returned>,
    ) -> Option<Response<Returned>> {
        if !self.answers() {
            return None;
        }
        self.state.borrow().engine.machine().creek()?;
        let request = self.queue(command.into());
        let mut replies = self.state.borrow_mut().waiting.each(request);
        let mut open = OpenRequest { worker: self, request, answered: false };
        self.flush();
        let (response, _) = replies.recv().await?;
        // An operation that was invoked stays; later responses to it have no receiver.
        open.answered = true;
        match response {
            solera_site::Response::Creek(response) => Some(response),
            _ => None,
        }
    }

    /// Runs `action` on the machine of the speculative space, if the worker runs it.
    pub(super) fn with_speculative<R>(&self, action: impl FnOnce(&Speculative) -> R) -> Option<R> {
        self.state.borrow().engine.machine().creek().map(action)
    }

    /// Reports further sites whose results differ from this site's.
    pub(super) fn report_divergence(&self, state: &mut State) {
        let Some(found) = state.engine.machine().creek().and_then(Speculative::divergence) else {
            return;
        };
        if found.sites.len() == state.differing {
            return;
        }
        state.differing = found.sites.len();
        let others: Vec<&str> = found.sites.iter().map(|it| self.site_name(*it)).collect();
        let (site, others) = (self.site_name(self.address.site), others.join(", "));
        error!(
            target: SITES,
            site,
            "the results of the speculative space at {site} differ from those of {others} after operation {}; {}",
            found.after,
            if found.is_stopped { "the site gives none any more" } else { "the site goes on" }
        );
    }

    /// Runs a request for another worker of the site.
    pub(super) async fn answer_speculative(
        &self,
        asked: ToSpeculative,
        reply: oneshot::Sender<FromSpeculative>,
    ) {
        let had_stopped = self.has_stopped();
        let answered = async {
            let answer = self.run_speculative(asked).await?;
            // What the machine shows must be durable, as responses of the machine are.
            self.durable(had_stopped).await.ok()?;
            Some(answer)
        };
        pass_on(answered, reply).await;
    }
}

fn entry_of(last: &Final<Procedure, Returned>) -> LogEntry {
    let has_effect = last.response.as_deref() != Some(&Returned::Changed);
    LogEntry {
        position: last.position,
        id: last.request.id,
        strong: last.request.cast().is_some(),
        operation: last.request.operation.clone().filter(|_| has_effect),
    }
}

/// Describes the state after the final operations. Counts the operations of a past that are not
/// among them, unless they change nothing.
fn final_state_of(machine: &Speculative, past: &Past) -> FinalState {
    let status = machine.status();
    let left_out = machine.unstable().filter(|request| past.contains(request.id));
    let operations = left_out.filter_map(|request| request.operation.as_ref());
    FinalState {
        finals: status.finals,
        digest: status.digest.0,
        left_out: operations.filter(|operation| !operation.is_read_only()).count() as u64,
    }
}

fn state_of(machine: &Speculative) -> SpeculativeState {
    let status = machine.status();
    SpeculativeState {
        finals: status.finals,
        committed: status.committed,
        tentative: status.tentative as u64,
        digest: status.digest.0,
        leader: machine.leader(),
        executions: status.executions,
        predicted: status.predicted,
        accurate: status.accurate,
        divergence: machine.divergence(),
    }
}
