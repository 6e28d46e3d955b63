//! The Yahoo! Cloud Serving Benchmark: reads and updates of single values, alone or in
//! transactions, as in Occult §8.
//!
//! | module | subject |
//! |---|---|
//! | `keys` | keys, and their distributions |
//! | `target` | Solera, Redis and Redis Cluster as targets |
//! | `report` | the report |

mod keys;
mod report;
mod target;

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use solera::Error;
use tokio::task::{JoinSet, LocalSet};

use crate::closed_loop::{Pace, Sessions, Workload, run_workload};
use crate::error::BenchError;
use crate::load::{self, Part, Writing};
use crate::place::TargetCluster;
use crate::random::Random;
use crate::session::Strong;
use crate::spaces;
use crate::tally::{Class, Done, Kind};
pub use keys::Distribution;
pub(crate) use keys::{hottest, name};
pub use report::YcsbReport;
use target::{Operation, YcsbSession, get, set};
pub use target::{Sending, Target};

/// Settings of the workload.
#[derive(Clone, Debug)]
pub struct Ycsb {
    /// Number of keys, at least 1.
    pub keys: u64,
    /// Prefix of all keys.
    pub prefix: String,
    /// Size of a value in bytes.
    pub value_bytes: u64,
    /// Share of operations that read, in percent. The others replace the value.
    pub reads: u8,
    /// Distribution of the keys.
    pub distribution: Distribution,
    /// Number of operations of a transaction, at least 1. Single operations are no transactions.
    pub operations: u64,
    /// How transactions are sent.
    pub sending: Sending,
    /// Whether all keys are written before the run.
    pub load: bool,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Number of connections that write to a Redis server at the same time.
const LANES: u64 = 16;

const OPERATIONS: [Kind; 2] =
    [Kind { name: "read", class: Class::Read }, Kind { name: "update", class: Class::Causal }];
const TRANSACTIONS: [Kind; 2] = [
    Kind { name: "read-only", class: Class::Read },
    Kind { name: "with updates", class: Class::Causal },
];

/// Loads the keys, if wanted, and runs the workload. Reports progress to `report`.
///
/// # Errors
/// See [`BenchError`]. Operations that fail are counted and are no error.
pub fn run(
    ycsb: &Ycsb,
    target: &Target,
    pace: &Pace,
    report: &dyn Fn(&str),
) -> Result<YcsbReport, BenchError> {
    crate::check_pace(pace)?;
    ycsb.check(target)?;
    if ycsb.load {
        report(&format!("loading {} keys", ycsb.keys));
        crate::runtime()?.block_on(ycsb.load(target)).map_err(BenchError::Load)?;
    }
    let all = pace.ramp_up + pace.warm_up + pace.window;
    report(&format!("running for {} s", all.as_secs()));
    let workload = Arc::new(ycsb.clone());
    let ran = run_workload(&workload, target, pace)?;
    let (sites, kinds) = (target.sites(), ycsb.kinds());
    Ok(YcsbReport::new(ycsb.to_string(), pace, ycsb.operations, sites, &kinds, ran.tally))
}

/// Returns the prefix of a space of a running cluster.
///
/// # Errors
/// Fails if the cluster does not answer, or has no such space.
pub fn prefix_of(place: &TargetCluster, space: &str) -> Result<String, BenchError> {
    crate::runtime()?.block_on(spaces::prefix_of(place, space))
}

impl fmt::Display for Ycsb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ycsb { keys, value_bytes, reads, distribution, operations, sending, .. } = self;
        let distribution = distribution.name();
        write!(f, "ycsb, {reads}% reads, {distribution}, {keys} keys of {value_bytes} bytes")?;
        match (operations, sending) {
            (1, _) => Ok(()),
            (_, Sending::Interactive) => write!(f, ", transactions of {operations} operations"),
            (_, Sending::Multi) => write!(f, ", MULTI with {operations} operations"),
        }
    }
}

impl Ycsb {
    fn check(&self, target: &Target) -> Result<(), BenchError> {
        let wrong = if self.keys == 0 {
            "the number of keys must be at least 1".to_owned()
        } else if self.reads > 100 {
            format!("reads: {}% is more than 100%", self.reads)
        } else if self.operations == 0 {
            "a transaction has at least 1 operation".to_owned()
        } else if self.operations > 1
            && let Target::Redis(redis, _) = target
            && redis.is_cluster()
        {
            "a Redis Cluster runs no transactions over several slots; leave --ops-per-transaction \
             out"
            .to_owned()
        } else {
            return Ok(());
        };
        Err(BenchError::Settings(wrong))
    }

    fn key(&self, number: u64) -> String {
        keys::name(&self.prefix, number)
    }

    /// Writes all keys.
    async fn load(&self, target: &Target) -> Result<(), Error> {
        let Target::Solera(place) = target else { return self.load_redis(target).await };
        let ycsb = self.clone();
        let write = move |number: u64, batch: &mut crate::batch::Batch| {
            let value = Random::new(ycsb.seed ^ number).text(ycsb.value_bytes);
            batch.add(&["SET", &ycsb.key(number), &value]);
        };
        let part = Part { count: self.keys, writing: Writing::Causal, write: Rc::new(write) };
        load::fill(place, Strong::Solera, vec![part]).await
    }

    async fn load_redis(&self, target: &Target) -> Result<(), Error> {
        let lanes = LANES.min(self.keys);
        LocalSet::new()
            .run_until(async {
                let mut writers = JoinSet::new();
                for lane in 0..lanes {
                    let (ycsb, target) = (self.clone(), target.clone());
                    writers.spawn_local(async move {
                        let mut session = target.connect(lane as usize).await?;
                        let mut number = lane;
                        while number < ycsb.keys {
                            let value = Random::new(ycsb.seed ^ number).text(ycsb.value_bytes);
                            session.run(&set(&ycsb.key(number), &value)).await?;
                            number += lanes;
                        }
                        Ok::<_, Error>(())
                    });
                }
                while let Some(written) = writers.join_next().await {
                    written.expect("the thread has reported the panic")?;
                }
                Ok(())
            })
            .await
    }

    /// Draws the operations of a transaction; returns them and whether one updates.
    fn draw(&self, random: &mut Random) -> (Vec<Operation>, bool) {
        let mut updates = false;
        let operation = |_| {
            let key = self.key(self.distribution.draw(random, self.keys));
            if random.chance(self.reads) {
                return get(&key);
            }
            updates = true;
            set(&key, &random.text(self.value_bytes))
        };
        ((0..self.operations).map(operation).collect(), updates)
    }
}

/// A client: its random numbers, and the operations that it runs next.
pub(crate) struct Visitor {
    random: Random,
    operations: Vec<Operation>,
}

impl Workload for Ycsb {
    type Sessions = Target;
    type Visitor = Visitor;

    fn kinds(&self) -> Vec<Kind> {
        if self.operations == 1 { OPERATIONS.to_vec() } else { TRANSACTIONS.to_vec() }
    }

    fn visitor(&self, client: usize) -> Visitor {
        let random = Random::new(self.seed ^ ((client as u64) << 32));
        Visitor { random, operations: Vec::new() }
    }

    fn next(&self, visitor: &mut Visitor) -> usize {
        let (operations, updates) = self.draw(&mut visitor.random);
        visitor.operations = operations;
        usize::from(updates)
    }

    async fn run(
        &self,
        _kind: usize,
        visitor: &mut Visitor,
        session: &mut YcsbSession,
    ) -> Result<Done, Error> {
        match visitor.operations.as_slice() {
            [operation] => session.run(operation).await?,
            operations => session.transaction(operations, self.sending).await?,
        }
        Ok(Done::Well)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_wanted_shares_and_sizes() {
        let ycsb = Ycsb {
            keys: 50,
            prefix: "y:".to_owned(),
            value_bytes: 7,
            reads: 75,
            distribution: Distribution::Uniform,
            operations: 4,
            sending: Sending::Interactive,
            load: false,
            seed: 1,
        };
        let mut visitor = ycsb.visitor(0);
        let (mut reads, mut read_only) = (0, 0_u32);
        for _ in 0..10_000 {
            let kind = ycsb.next(&mut visitor);
            assert_eq!(visitor.operations.len(), 4);
            read_only += u32::from(kind == 0);
            for operation in &visitor.operations {
                assert!(operation[1].starts_with(b"y:user"));
                match operation.as_slice() {
                    [get, _] if get == b"GET" => reads += 1,
                    [set, _, value] => assert!(set == b"SET" && value.len() == 7),
                    other => panic!("{other:?}"),
                }
            }
        }
        assert!((29_500..30_500).contains(&reads), "{reads}");
        // 0.75 to the power of 4.
        assert!(read_only.abs_diff(3164) < 200, "{read_only}");
    }
}
