//! SOLERA.OUTCOME: what became of a strong transaction whose reply was lost.

use solera_commands::CommandId;
use solera_config::ClusterSpec;
use solera_resp::Arguments;
use solera_unistore::{Command, Response, TransactionId};

use crate::context::Context;
use crate::session::Session;
use crate::typed::Typed;

/// SOLERA.OUTCOME id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The transaction.
    pub tid: TransactionId,
}

impl Outcome {
    /// About a transaction by its name.
    ///
    /// # Errors
    /// The error reply: it is no name of a transaction.
    pub fn of(name: &str) -> Result<Outcome, String> {
        let tid = name.parse().map_err(|error| format!("ERR '{name}': {error}"))?;
        Ok(Outcome { tid })
    }

    fn parse(spec: &ClusterSpec, arguments: &Arguments<'_>) -> Result<Outcome, String> {
        let name = String::from_utf8_lossy(arguments.get(1));
        let outcome = Outcome::of(&name)?;
        has_coordinator(spec, outcome.tid, &name)?;
        Ok(outcome)
    }
}

impl Typed for Outcome {
    /// Whether it has committed; `None` if that is not known.
    type Answer = Option<bool>;

    fn command(&self) -> CommandId {
        CommandId::SoleraOutcome
    }

    async fn run<W: Context>(&self, session: &mut Session<W>) -> Result<Option<bool>, String> {
        let tid = self.tid;
        has_coordinator(session.worker.spec(), tid, &tid.to_string())?;
        match session.worker.call(Command::Outcome { tid }).await {
            Some(Response::Outcome(committed)) => Ok(committed),
            _ => Err(session.unanswered()),
        }
    }
}

/// Whether there is such a worker as coordinated a transaction, which people call `name`.
fn has_coordinator(spec: &ClusterSpec, tid: TransactionId, name: &str) -> Result<(), String> {
    let TransactionId { coordinator, .. } = tid;
    let exists = spec.sites.len() > coordinator.site.index()
        && coordinator.worker < spec.workers_of(coordinator.site.index());
    match exists {
        true => Ok(()),
        false => Err(format!("ERR '{name}' names a site or worker that there is not")),
    }
}

pub(crate) async fn outcome<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let outcome = match Outcome::parse(session.worker.spec(), arguments) {
        Ok(outcome) => outcome.run(session).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(committed) => session.out.simple(match committed {
            Some(true) => "committed",
            Some(false) => "aborted",
            None => "unknown",
        }),
        Err(error) => session.fail(error),
    }
}
