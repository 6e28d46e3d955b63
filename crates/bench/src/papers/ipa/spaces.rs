//! Spaces as the store of the experiments, by the types of the Rust client.

use std::net::SocketAddr;
use std::time::Duration;

use solera::ipa::{Consistency, Counter, ErrorTolerance, LatencyBound, Pool, Set, Taken, level};
use solera::{Client, Error, Value};
use solera_levels::Level;

use super::store::{Bought, Failure, Policy, Read, Session, Store};
use crate::error::BenchError;

/// Tolerances, in percent, for each of which there is a space.
pub(super) const TOLERANCES: [u32; 4] = [1, 3, 5, 10];

/// Attempts of a purchase from a pool with a tolerance.
const ATTEMPTS: usize = 4;

const STRONG: Consistency<level::Linearizable> = Consistency::new();
const WEAK: Consistency<level::Causal> = Consistency::new();

/// Returns the configuration of a cluster with the spaces.
pub(super) fn config() -> String {
    let space = |name: &str, level: &str, more: &str| {
        format!("[[space]]\nname = '{name}'\nprefix = '{name}:'\nlevel = '{level}'\n{more}\n")
    };
    let mut config = space("strong", "linearizable", "") + &space("weak", "causal", "");
    config += &space("pool", "causal", "type = 'pool'");
    for percents in TOLERANCES {
        let more = format!("type = 'counter'\nerror = '{percents}%'");
        config += &space(&format!("e{percents}"), "causal", &more);
    }
    config
}

/// Addresses of two sites: without and with the delays between clients and sites.
#[derive(Clone, Copy)]
pub(super) struct Spaces {
    pub(super) beside: [SocketAddr; 2],
    pub(super) away: [SocketAddr; 2],
}

impl Store for Spaces {
    type Session = Client;

    async fn connect(&self, client: usize) -> Result<Client, BenchError> {
        Client::connect(self.away[client % 2]).await.map_err(BenchError::Connect)
    }

    async fn connect_beside(&self, client: usize) -> Result<Client, BenchError> {
        Client::connect(self.beside[client % 2]).await.map_err(BenchError::Connect)
    }
}

/// Returns the key of an object whose operations have a policy.
fn key(name: &str, policy: Policy) -> String {
    match policy {
        Policy::Strong | Policy::Within(_) => format!("strong:{name}"),
        Policy::Weak => format!("weak:{name}"),
        Policy::Tolerance(percents) => format!("e{percents}:{name}"),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure(error.to_string())
    }
}

impl Session for Client {
    async fn add(&mut self, counter: &str, number: i64, policy: Policy) -> Result<(), Failure> {
        Ok(self.incr_by(&key(counter, policy), number).await.map(drop)?)
    }

    async fn read(&mut self, counter: &str, policy: Policy) -> Result<Read, Failure> {
        let key = key(counter, policy);
        Ok(match policy {
            Policy::Strong => {
                let value = Counter::open(self, key, STRONG).await?.read(self).await?;
                Read::Value(*value, Level::Linearizable)
            }
            Policy::Weak => {
                let value = Counter::open(self, key, WEAK).await?.read(self).await?;
                Read::Value(*value.endorse(), Level::Causal)
            }
            Policy::Within(bound) => {
                let value = Counter::open(self, key, LatencyBound(bound)).await?.read(self).await?;
                let level = value.level();
                Read::Value(*value.weaken().endorse(), level)
            }
            Policy::Tolerance(percents) => {
                let tolerance = ErrorTolerance::percent(percents);
                let value = Counter::open(self, key, tolerance).await?.read(self).await?;
                Read::Interval(value.min(), value.max())
            }
        })
    }

    /// A pool with a tolerance is a pool and a counter, which are updated in one transaction.
    async fn grow(&mut self, pool: &str, units: u32, policy: Policy) -> Result<(), Failure> {
        match policy {
            Policy::Strong | Policy::Within(_) => {
                return self.add(pool, units.into(), policy).await;
            }
            Policy::Tolerance(_) => self.add(pool, units.into(), policy).await?,
            Policy::Weak => {}
        }
        let pool = Pool::open(self, of_pool(pool, policy), WEAK).await?;
        Ok(pool.grow(self, units).await?)
    }

    async fn take(&mut self, pool: &str, policy: Policy) -> Result<Bought, Failure> {
        match policy {
            Policy::Strong | Policy::Within(_) => {
                let key = key(pool, policy);
                let buy = async |tx: &mut Client| {
                    let left = tx.get(&key).await?.and_then(|left| left.parse::<i64>().ok());
                    if left.unwrap_or(0) < 1 {
                        return Ok(Bought::SoldOut);
                    }
                    tx.incr_by(&key, -1).await?;
                    Ok(Bought::One)
                };
                Ok(self.strong(buy).await?)
            }
            Policy::Weak => {
                let pool = Pool::open(self, of_pool(pool, policy), WEAK).await?;
                Ok(match pool.take(self, 1).await? {
                    Taken::Units(_) => Bought::One,
                    Taken::SoldOut { .. } => Bought::SoldOut,
                    Taken::CannotTell { .. } => Bought::CannotTell,
                })
            }
            Policy::Tolerance(_) => {
                let (pool, counter) = (of_pool(pool, policy), key(pool, policy));
                let commands: [Vec<&[u8]>; 4] = [
                    vec![b"MULTI"],
                    vec![b"SOLERA.TAKE", pool.as_bytes()],
                    vec![b"DECR", counter.as_bytes()],
                    vec![b"EXEC"],
                ];
                // A transaction whose snapshot lacks what has added the units is run again, as the
                // guide says.
                for _ in 0..ATTEMPTS {
                    let reply = self.pipeline(&commands).await?.pop();
                    let replies = match reply {
                        Some(Value::Array(replies)) => replies,
                        Some(Value::Error(text)) if text.starts_with("TRYAGAIN") => continue,
                        Some(Value::Error(text)) if text.starts_with("SOLDOUT") => {
                            return Ok(Bought::SoldOut);
                        }
                        other => return Err(Failure(format!("{other:?}"))),
                    };
                    return match &replies[..] {
                        [Value::Array(ids), Value::Integer(_)] if ids.len() == 1 => Ok(Bought::One),
                        other => Err(Failure(format!("{other:?}"))),
                    };
                }
                Ok(Bought::CannotTell)
            }
        }
    }

    async fn left(&mut self, pool: &str, policy: Policy) -> Result<Read, Failure> {
        if policy != Policy::Weak {
            return self.read(pool, policy).await;
        }
        let pool = Pool::open(self, of_pool(pool, policy), WEAK).await?;
        let left = pool.left(self).await?;
        Ok(Read::Value(*left.endorse(), Level::Causal))
    }

    async fn insert(&mut self, set: &str, element: &str, policy: Policy) -> Result<(), Failure> {
        Ok(self.sadd(&of_set(set, policy), element).await.map(drop)?)
    }

    async fn elements(&mut self, set: &str, policy: Policy) -> Result<(usize, Level), Failure> {
        let key = of_set(set, policy);
        Ok(match policy {
            Policy::Strong => {
                let set = Set::open(self, key, STRONG).await?;
                (set.elements(self).await?.len(), Level::Linearizable)
            }
            Policy::Within(bound) => {
                let set = Set::open(self, key, LatencyBound(bound)).await?;
                let elements = set.elements(self).await?;
                let level = elements.level();
                (elements.weaken().endorse().len(), level)
            }
            Policy::Weak | Policy::Tolerance(_) => {
                let set = Set::open(self, key, WEAK).await?;
                (set.elements(self).await?.endorse().len(), Level::Causal)
            }
        })
    }

    async fn write(&mut self, name: &str, text: &str) -> Result<(), Failure> {
        Ok(self.set(&format!("weak:text:{name}"), text).await?)
    }

    async fn text(&mut self, name: &str) -> Result<Option<String>, Failure> {
        Ok(self.get(&format!("weak:text:{name}")).await?)
    }

    async fn settle(&mut self) -> Result<(), Failure> {
        Ok(self.barrier(Some(Duration::from_secs(20))).await?)
    }
}

/// Returns the key of a pool. Policies have pools of their own.
fn of_pool(name: &str, policy: Policy) -> String {
    match policy {
        Policy::Tolerance(percents) => format!("pool:{percents}:{name}"),
        _ => format!("pool:{name}"),
    }
}

/// Returns the key of a set. Sets have no tolerance.
fn of_set(name: &str, policy: Policy) -> String {
    match policy {
        Policy::Tolerance(percents) => format!("weak:set:{percents}:{name}"),
        _ => key(&format!("set:{name}"), policy),
    }
}
