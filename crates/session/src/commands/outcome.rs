//! SOLERA.OUTCOME: reports the outcome of a strong transaction whose reply was lost.

use solera_commands::CommandId;
use solera_config::ClusterSpec;
use solera_resp::Arguments;
use solera_unistore::{Command, Response, TransactionId};

use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;
use crate::typed::Typed;

/// SOLERA.OUTCOME id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Id of the transaction.
    pub tid: TransactionId,
}

impl Outcome {
    /// Creates a query for the transaction with this name.
    ///
    /// # Errors
    /// The error reply, if `name` is not the name of a transaction.
    pub fn of(name: &str) -> Result<Outcome, String> {
        let tid = name.parse().map_err(|error| format!("ERR '{name}': {error}"))?;
        Ok(Outcome { tid })
    }
}

impl Typed for Outcome {
    /// Whether the transaction committed; `None` if that is unknown.
    type Answer = Option<bool>;

    fn command(&self) -> CommandId {
        CommandId::SoleraOutcome
    }

    async fn run<W: Context>(
        &self,
        session: &mut ClientSession<W>,
    ) -> Result<Option<bool>, String> {
        let tid = self.tid;
        has_coordinator(session.worker.spec(), tid, &tid.to_string())?;
        match session.worker.call(Command::Outcome { tid }).await {
            Some(Response::Outcome(committed)) => Ok(committed),
            _ => Err(session.unanswered()),
        }
    }
}

/// Checks that the worker that coordinated a transaction exists. `name` is the transaction's name
/// in the error.
fn has_coordinator(spec: &ClusterSpec, tid: TransactionId, name: &str) -> Result<(), String> {
    let TransactionId { coordinator, .. } = tid;
    let exists = spec.sites.len() > coordinator.site.index()
        && coordinator.worker < spec.workers_of(coordinator.site.index());
    match exists {
        true => Ok(()),
        false => Err(format!("ERR '{name}' refers to an unknown site or worker")),
    }
}

impl Request for Outcome {
    fn parse(arguments: &Arguments<'_>, spec: &ClusterSpec) -> Result<Outcome, String> {
        let name = String::from_utf8_lossy(arguments.get(1));
        let outcome = Outcome::of(&name)?;
        has_coordinator(spec, outcome.tid, &name)?;
        Ok(outcome)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        match self.run(session).await {
            Ok(committed) => session.out.simple(match committed {
                Some(true) => "committed",
                Some(false) => "aborted",
                None => "unknown",
            }),
            Err(error) => session.fail(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn a_transaction_of_a_worker_of_the_cluster_is_named() {
        let outcome = Outcome::of("1.0.7.42").unwrap();
        assert_eq!(parse("SOLERA.OUTCOME 1.0.7.42"), Ok(outcome));
        rejects::<Outcome>(&[
            ("SOLERA.OUTCOME x", "ERR 'x': a transaction is named by four numbers, as in 0.1.3.42"),
            ("SOLERA.OUTCOME 2.0.7.42", "ERR '2.0.7.42' refers to an unknown site or worker"),
        ]);
    }
}
