//! Spaces as the store of the experiments, by the types of the Rust client.

use std::net::SocketAddr;
use std::time::Duration;

use solera::ipa::{
    self, Consistency, Counter, ErrorTolerance, List, Pool, Set, Taken, Wanted, level,
};
use solera::{Client, Error, Value};
use solera_levels::Level;

use super::store::{Bought, Failure, IpaStoreSession, Policy, Read, Store};
use crate::error::BenchError;

/// Tolerances, in percent, for each of which there is a space.
pub(super) const TOLERANCES: [u32; 4] = [1, 3, 5, 10];

const WEAK: Consistency<level::Causal> = Consistency::new();

/// Returns the configuration of a cluster with the spaces.
pub(super) fn config() -> String {
    let space = |name: &str, level: &str, more: &str| {
        format!("[[space]]\nname = '{name}'\nprefix = '{name}:'\nlevel = '{level}'\n{more}\n")
    };
    let mut config = space("strong", "linearizable", "") + &space("weak", "causal", "");
    for of_type in ["pool", "set", "list"] {
        config += &space(of_type, "causal", &format!("type = '{of_type}'"));
    }
    for percents in TOLERANCES {
        let more = |of_type| format!("type = '{of_type}'\nerror = '{percents}%'");
        config += &space(&format!("e{percents}"), "causal", &more("counter"));
        config += &space(&format!("s{percents}"), "causal", &more("set"));
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

/// Returns the key of a counter whose operations have a policy.
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

impl IpaStoreSession for Client {
    async fn add(&mut self, counter: &str, number: i64, policy: Policy) -> Result<(), Failure> {
        Ok(self.incr_by(&key(counter, policy), number).await.map(drop)?)
    }

    async fn read(&mut self, counter: &str, policy: Policy) -> Result<Read, Failure> {
        let key = key(counter, policy);
        Ok(match policy {
            Policy::Tolerance(percents) => {
                let tolerance = ErrorTolerance::percent(percents);
                let value = Counter::open(self, key, tolerance).await?.read(self).await?;
                Read::Interval(value.min(), value.max())
            }
            _ => {
                let counter = Counter::open(self, key, Levelled(policy)).await?;
                let (value, level) = counter.read(self).await?;
                Read::Value(value, level)
            }
        })
    }

    /// A pool with a tolerance is a pool and a counter, which are updated in one transaction.
    async fn grow(&mut self, pool: &str, units: u32, policy: Policy) -> Result<(), Failure> {
        match policy {
            Policy::Strong => return self.add(pool, units.into(), policy).await,
            Policy::Tolerance(_) => self.add(pool, units.into(), policy).await?,
            Policy::Within(_) | Policy::Weak => {}
        }
        let pool = Pool::open(self, of_type("pool", pool, policy), WEAK).await?;
        Ok(pool.grow(self, units).await?)
    }

    async fn take(&mut self, pool: &str, policy: Policy) -> Result<Bought, Failure> {
        match policy {
            Policy::Strong => {
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
            Policy::Weak | Policy::Within(_) => {
                let pool = Pool::open(self, of_type("pool", pool, policy), WEAK).await?;
                Ok(match pool.take(self, 1).await? {
                    Taken::Units(_) => Bought::One,
                    Taken::SoldOut { .. } => Bought::SoldOut,
                    Taken::CannotTell { .. } => Bought::CannotTell,
                })
            }
            Policy::Tolerance(_) => {
                let (pool, counter) = (of_type("pool", pool, policy), key(pool, policy));
                let commands: [Vec<&[u8]>; 4] = [
                    vec![b"MULTI"],
                    vec![b"SOLERA.TAKE", pool.as_bytes()],
                    vec![b"DECR", counter.as_bytes()],
                    vec![b"EXEC"],
                ];
                let replies = match self.pipeline(&commands).await?.pop() {
                    Some(Value::Array(replies)) => replies,
                    Some(Value::Error(text)) if text.starts_with("TRYAGAIN") => {
                        return Ok(Bought::CannotTell);
                    }
                    Some(Value::Error(text)) if text.starts_with("SOLDOUT") => {
                        return Ok(Bought::SoldOut);
                    }
                    other => return Err(Failure(format!("{other:?}"))),
                };
                match &replies[..] {
                    [Value::Array(ids), Value::Integer(_)] if ids.len() == 1 => Ok(Bought::One),
                    other => Err(Failure(format!("{other:?}"))),
                }
            }
        }
    }

    async fn left(&mut self, pool: &str, policy: Policy) -> Result<Read, Failure> {
        Ok(match policy {
            Policy::Strong | Policy::Tolerance(_) => return self.read(pool, policy).await,
            Policy::Weak | Policy::Within(_) => {
                let key = of_type("pool", pool, policy);
                let pool = Pool::open(self, key, Levelled(policy)).await?;
                let (left, level) = pool.left(self).await?;
                Read::Value(left, level)
            }
        })
    }

    async fn insert(
        &mut self,
        set: &str,
        elements: &[String],
        policy: Policy,
    ) -> Result<(), Failure> {
        let key = of_set(set, policy);
        let mut command = vec!["SADD", &key];
        command.extend(elements.iter().map(String::as_str));
        Ok(self.command(&command).await.map(drop)?)
    }

    async fn elements(
        &mut self,
        set: &str,
        policy: Policy,
    ) -> Result<(Vec<String>, Level), Failure> {
        let set = Set::open(self, of_set(set, policy), Levelled(policy)).await?;
        let (elements, level) = set.elements(self).await?;
        Ok((elements.into_iter().collect(), level))
    }

    async fn size(&mut self, set: &str, policy: Policy) -> Result<Read, Failure> {
        let key = of_set(set, policy);
        Ok(match policy {
            Policy::Tolerance(percents) => {
                let tolerance = ErrorTolerance::percent(percents);
                let set = Set::open_with_size(self, key, WEAK, tolerance).await?;
                let size = set.size(self).await?;
                Read::Interval(size.min(), size.max())
            }
            _ => {
                let set = Set::open(self, key, Levelled(policy)).await?;
                let (size, level) = set.size(self).await?;
                Read::Value(size, level)
            }
        })
    }

    async fn push(
        &mut self,
        lists: &[String],
        element: &str,
        policy: Policy,
    ) -> Result<(), Failure> {
        let keys: Vec<String> = lists.iter().map(|list| of_type("list", list, policy)).collect();
        let mut commands: Vec<Vec<&[u8]>> = vec![vec![b"MULTI"]];
        for key in &keys {
            commands.push(vec![b"SOLERA.PUSH", key.as_bytes(), element.as_bytes()]);
        }
        commands.push(vec![b"EXEC"]);
        match self.pipeline(&commands).await?.pop() {
            Some(Value::Array(_)) => Ok(()),
            other => Err(Failure(format!("{other:?}"))),
        }
    }

    async fn newest(
        &mut self,
        list: &str,
        most: u32,
        policy: Policy,
    ) -> Result<(Vec<String>, Level), Failure> {
        let list = List::open(self, of_type("list", list, policy), Levelled(policy)).await?;
        Ok(list.newest(self, most).await?)
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

/// Reads return values with their levels. A tolerance does not concern them.
#[derive(Clone, Copy)]
struct Levelled(Policy);

impl ipa::Policy for Levelled {
    type Read<T> = (T, Level);

    fn wanted(&self) -> Wanted {
        match self.0 {
            Policy::Strong => Wanted::At(Level::Linearizable),
            Policy::Within(bound) => Wanted::Within(bound),
            Policy::Weak | Policy::Tolerance(_) => Wanted::At(Level::Causal),
        }
    }

    fn label<T>(&self, value: T, level: Level) -> Option<(T, Level)> {
        Some((value, level))
    }
}

/// Returns the key of an object of a type. Policies have objects of their own.
fn of_type(of_type: &str, name: &str, policy: Policy) -> String {
    match policy {
        Policy::Strong => format!("strong:{of_type}:{name}"),
        Policy::Weak => format!("{of_type}:weak:{name}"),
        Policy::Within(bound) => format!("{of_type}:{}:{name}", bound.as_millis()),
        Policy::Tolerance(percents) => format!("{of_type}:{percents}%:{name}"),
    }
}

/// Returns the key of a set, whose size may have a tolerance.
fn of_set(name: &str, policy: Policy) -> String {
    match policy {
        Policy::Tolerance(percents) => format!("s{percents}:{name}"),
        _ => of_type("set", name, policy),
    }
}
