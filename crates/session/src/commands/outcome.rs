//! SOLERA.OUTCOME: reports the outcome of a strong transaction, or of one of level `pcpsi`, whose
//! reply was lost.

use solera_commands::CommandId;
use solera_config::ClusterSpec;
use solera_machine::Address;
use solera_resp::Arguments;
use solera_unistore::{Command, Response, TransactionId};

use super::request::Request;
use crate::context::Context;
use crate::session::{ClientSession, PcpsiName};
use crate::typed::Typed;

/// SOLERA.OUTCOME id, for a strong transaction.
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
        has_worker(session.worker.spec(), tid.coordinator, &tid.to_string())?;
        match session.worker.call(Command::Outcome { tid }).await {
            Some(Response::Outcome(committed)) => Ok(committed),
            _ => Err(session.unanswered()),
        }
    }
}

/// Checks that the worker that coordinated a transaction exists. `name` is the transaction's name
/// in the error.
fn has_worker(spec: &ClusterSpec, worker: Address, name: &str) -> Result<(), String> {
    let exists = spec.sites.len() > worker.site.index()
        && worker.worker < spec.workers_of(worker.site.index());
    match exists {
        true => Ok(()),
        false => Err(format!("ERR '{name}' refers to an unknown site or worker")),
    }
}

/// SOLERA.OUTCOME id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    Strong(Outcome),
    PcPsi(PcpsiName),
}

impl Request for Query {
    fn parse(arguments: &Arguments<'_>, spec: &ClusterSpec) -> Result<Query, String> {
        let name = String::from_utf8_lossy(arguments.get(1));
        let (query, worker) = if name.starts_with('p') {
            let of = name.parse::<PcpsiName>().map_err(|error| format!("ERR '{name}': {error}"))?;
            if !spec.spaces.run_occult() {
                return Err("ERR there is no space of level pcpsi".to_owned());
            }
            (Query::PcPsi(of), of.worker)
        } else {
            let outcome = Outcome::of(&name).map_err(|error| match spec.spaces.run_occult() {
                true => format!("{error}; one of level pcpsi by p and four, as in p0.1.3.42"),
                false => error,
            })?;
            (Query::Strong(outcome), outcome.tid.coordinator)
        };
        has_worker(spec, worker, &name)?;
        Ok(query)
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        let found = match self {
            Query::Strong(outcome) => outcome.run(session).await,
            Query::PcPsi(name) => session.pcpsi_outcome(name).await,
        };
        match found {
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
    use solera_config::sample;

    use super::super::request::testing::{parse, rejects, with_line};
    use super::*;

    #[test]
    fn a_transaction_of_a_worker_of_the_cluster_is_named() {
        let outcome = Outcome::of("1.0.7.42").unwrap();
        assert_eq!(parse("SOLERA.OUTCOME 1.0.7.42"), Ok(Query::Strong(outcome)));
        rejects::<Query>(&[
            ("SOLERA.OUTCOME x", "ERR 'x': a transaction is named by four numbers, as in 0.1.3.42"),
            ("SOLERA.OUTCOME 2.0.7.42", "ERR '2.0.7.42' refers to an unknown site or worker"),
        ]);
        let pcpsi = "[[space]]\nname = 'p'\nprefix = 'p:'\nlevel = 'pcpsi'\n";
        let spec = sample::parse(&format!("{}{pcpsi}", sample::TWO_SITES));
        let error = with_line("SOLERA.OUTCOME x", |line, _| Query::parse(line, &spec));
        let both = "ERR 'x': a transaction is named by four numbers, as in 0.1.3.42; one of \
                    level pcpsi by p and four, as in p0.1.3.42";
        assert_eq!(error, Err(both.to_owned()));
    }
}
