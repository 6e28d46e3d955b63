//! TPC-C (Standard Specification, revision 5.11) in a speculative space, by the transactions of the
//! module `examples/tpcc.mixt`.
//!
//! Payment is strong: its client waits for the stable result. The others are weak, so their clients
//! go on with the result of the first execution.
//!
//! | module | subject |
//! |---|---|
//! | `rows` | the tables: keys, values and sizes |
//! | `initial` | the initial rows (clause 4.3) |
//! | `load` | writing them, and the module |
//! | `inputs` | inputs of the transactions, as arguments of calls |
//! | `check` | the consistency conditions (clause 3.3.2) |

mod check;
mod initial;
mod inputs;
mod load;
mod rows;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use solera::{Client, Error, Value};
use solera_random::Random;
use solera_tpcc::{Mix, Operation, Transaction};

use crate::closed_loop::{Pace, Ran, Workload, run_workload};
use crate::error::BenchError;
use crate::invariant::Invariant;
use crate::place::TargetCluster;
use crate::rubis::Scale;
use crate::session::{BenchSession, BenchSessions, Strong};
use crate::spaces;
use crate::tally::{Class, Done, Kind, Tally};
use initial::Population;
use rows::{Keys, Sizes};

/// The space of the tables, in the format of `solera.toml`.
pub(crate) const SPACES: &str = r#"[[space]]
name = "tpcc"
prefix = "tpcc:"
level = "speculative"
"#;

/// Name of the module in the cluster.
const MODULE: &str = "tpcc";

/// Source of the module.
const SOURCE: &str = include_str!("../../../examples/tpcc.mixt");

/// Time for which a client waits for a stable result, in milliseconds.
const STABLE_MS: &str = "30000";

/// Settings of the workload.
#[derive(Clone, Debug)]
pub struct Tpcc {
    /// Number of warehouses, at least 1.
    pub warehouses: u16,
    /// Amount of data of a warehouse. `full` is that of the specification.
    pub scale: Scale,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Source of the module; `None` for `examples/tpcc.mixt`.
    pub source: Option<String>,
}

/// Kinds of transactions; the last one counts the tentative results of Payment.
const KINDS: [Kind; 6] = [
    Kind { name: "New-Order", class: Class::Weak },
    Kind { name: "Payment", class: Class::Stable },
    Kind { name: "Order-Status", class: Class::Weak },
    Kind { name: "Delivery", class: Class::Weak },
    Kind { name: "Stock-Level", class: Class::Weak },
    Kind { name: "Payment, tentative", class: Class::Tentative },
];
const TENTATIVE: usize = 5;

impl fmt::Display for Tpcc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warehouses = solera_commands::counted(self.warehouses, "warehouse");
        write!(f, "tpcc, {warehouses}, {}", self.scale)
    }
}

/// Loads the tables, runs the transactions, and checks the conditions.
///
/// # Errors
/// See [`BenchError`]. Transactions that fail are counted and are no error.
pub(crate) fn run(
    tpcc: &Tpcc,
    place: &TargetCluster,
    strong: Strong,
    pace: &Pace,
    report: &dyn Fn(&str),
) -> Result<(Vec<Kind>, Tally, Vec<Invariant>), BenchError> {
    if tpcc.warehouses == 0 {
        return Err(BenchError::Settings("the number of warehouses must be at least 1".to_owned()));
    }
    if strong == Strong::Causal {
        let wrong = "--strong causal does not apply to tpcc, whose space is speculative";
        return Err(BenchError::Settings(wrong.to_owned()));
    }
    let runtime = crate::runtime()?;
    let space = runtime.block_on(spaces::speculative(place, SPACES))?;
    let sizes = Sizes::of(tpcc.warehouses, tpcc.scale);
    let keys = Keys::new(space.prefix.clone());
    let source = tpcc.source.as_deref().unwrap_or(SOURCE);
    let loaded = async {
        load::install(place, &space.name, source).await?;
        if load::is_needed(tpcc, &keys, place).await? {
            let population = Arc::new(Population::new(sizes, tpcc.seed));
            load::load(tpcc, &keys, &population, place, report).await?;
        }
        let mut client = place.connect(0).await.map_err(BenchError::Connect)?;
        check::sums(&mut client, &keys, sizes).await.map_err(BenchError::Check)
    };
    let before = runtime.block_on(loaded)?;
    report("running");
    let mix = Mix::new(tpcc.warehouses);
    let workload = Arc::new(Load { mix, sizes, seed: tpcc.seed });
    let Ran { tally, visitors, tokens } =
        run_workload(&workload, &BenchSessions::new(place, strong), pace)?;
    report("checking");
    let acknowledged = visitors.iter().fold(Acknowledged::default(), |sum, visitor| Acknowledged {
        orders: sum.orders + visitor.acknowledged.orders,
        paid: sum.paid + visitor.acknowledged.paid,
    });
    let checked = runtime.block_on(async {
        let mut client = crate::settled(place, &tokens).await?;
        client.barrier(Some(check::PATIENCE)).await?;
        let agreement = check::agreement(place, &space.name).await?;
        let mut found = check::check(&mut client, &keys, sizes, report).await?;
        let after = check::sums(&mut client, &keys, sizes).await?;
        found.push(check::acknowledged(&acknowledged, before, after));
        found.push(agreement);
        Ok(found)
    });
    Ok((KINDS.to_vec(), tally, checked.map_err(BenchError::Check)?))
}

/// Orders and payments that have been acknowledged to the clients.
#[derive(Clone, Copy, Debug, Default)]
struct Acknowledged {
    /// Number of orders.
    orders: i64,
    /// Sum of the payments, in cents.
    paid: i64,
}

/// The load of all clients.
struct Load {
    mix: Mix,
    sizes: Sizes,
    seed: u64,
}

/// A client.
pub(crate) struct Visitor {
    random: Random,
    next: Option<Operation>,
    acknowledged: Acknowledged,
    /// Time of the tentative result of the last Payment.
    tentative: Option<Duration>,
}

impl Workload for Load {
    type Sessions = BenchSessions;
    type Visitor = Visitor;

    fn kinds(&self) -> Vec<Kind> {
        KINDS.to_vec()
    }

    fn visitor(&self, client: usize) -> Visitor {
        let seed = self.seed ^ ((client as u64) << 32);
        Visitor {
            random: Random::new(Random::new(seed).draw()),
            next: None,
            acknowledged: Acknowledged::default(),
            tentative: None,
        }
    }

    fn next(&self, visitor: &mut Visitor) -> usize {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let date = u64::try_from(now.as_millis()).unwrap_or_default();
        let operation = self.mix.draw(date, &mut visitor.random);
        visitor.tentative = None;
        match visitor.next.insert(operation).transaction {
            Transaction::NewOrder(_) => 0,
            Transaction::Payment(_) => 1,
            Transaction::OrderStatus(_) => 2,
            Transaction::Delivery(_) => 3,
            Transaction::StockLevel(_) => 4,
        }
    }

    async fn run(
        &self,
        _kind: usize,
        visitor: &mut Visitor,
        session: &mut BenchSession,
    ) -> Result<Done, Error> {
        let operation = visitor.next.take().expect("an operation was drawn for each run");
        let words = inputs::call(&operation, self.sizes);
        let client = &mut session.client;
        if let Transaction::Payment(payment) = &operation.transaction {
            let started = Instant::now();
            let ticket = ticket_of(client.command(&words).await?)?;
            visitor.tentative = Some(started.elapsed());
            client.command(&["SOLERA.STABLE", &ticket, STABLE_MS]).await?;
            visitor.acknowledged.paid += i64::from(payment.amount);
            return Ok(Done::Well);
        }
        match client.command(&words).await {
            Ok(_) => {
                let orders = matches!(operation.transaction, Transaction::NewOrder(_));
                visitor.acknowledged.orders += i64::from(orders);
                Ok(Done::Well)
            }
            Err(Error::Server { code, message }) if is_rollback(&code, &message) => {
                Ok(Done::Refused)
            }
            Err(error) => Err(error),
        }
    }

    fn earlier_reply(&self, visitor: &Visitor) -> Option<(usize, Duration)> {
        visitor.tentative.map(|time| (TENTATIVE, time))
    }
}

/// Returns whether an error is the rollback that 1% of New-Orders ask for (clause 2.4.1.4).
fn is_rollback(code: &str, message: &str) -> bool {
    code == "FAILED" && message.starts_with("aborted: item number is not valid ")
}

/// Returns the ticket in the reply to `SOLERA.CALL STRONG`.
fn ticket_of(reply: Value) -> Result<String, Error> {
    let Value::Map(pairs) = &reply else { return Err(Error::unexpected(&reply)) };
    let found = pairs.iter().find_map(|pair| match pair {
        (Value::Bulk(name), Value::Bulk(ticket)) if name == b"ticket" => Some(ticket),
        _ => None,
    });
    let ticket = found.and_then(|ticket| String::from_utf8(ticket.clone()).ok());
    ticket.ok_or_else(|| Error::unexpected(&reply))
}

/// Reads values of keys, in the order of the keys.
async fn read(client: &mut Client, keys: &[String]) -> Result<Vec<Option<String>>, Error> {
    let words: Vec<&str> = std::iter::once("MGET").chain(keys.iter().map(String::as_str)).collect();
    let reply = client.command(&words).await?;
    let Value::Array(values) = reply else { return Err(Error::unexpected(&reply)) };
    let text = |value: Value| match value {
        Value::Null => Ok(None),
        Value::Bulk(bytes) => match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text)),
            Err(_) => Err(Error::UnexpectedReply("a value that is no text".to_owned())),
        },
        other => Err(Error::unexpected(&other)),
    };
    values.into_iter().map(text).collect()
}
