//! Spaces as the store of the services, by the types of the Rust client.

use std::time::Duration;

use solera::ipa::{
    self, Consistency, Counter, ErrorTolerance, List, Pool, Set, Taken, Wanted, level,
};
use solera::{Client, Error, Token, Value};
use solera_levels::Level;

use super::observations;
use super::store::{Bought, IpaStoreSession, Observed, Policy, Read};
use crate::closed_loop::{Sessions, WorkloadSession};
use crate::place::TargetCluster;
use crate::session::{BenchSession, Strong, multi, repeat};
use crate::tally::{Aborts, Counters};

const WEAK: Consistency<level::Causal> = Consistency::new();

/// A space that policies of a type use.
#[derive(Clone, Copy)]
pub(crate) enum Needed {
    /// Everything whose policy is strong.
    Strong,
    /// Counters and texts.
    Weak,
    /// Objects of a type: `pool`, `set` or `list`.
    Typed(&'static str),
    /// Counters with a tolerance, in percent.
    Counters(u32),
    /// Sets whose sizes have a tolerance, in percent.
    Sets(u32),
}

/// Returns the tables of spaces whose keys begin with `prefix`, in the format of `solera.toml`.
pub(crate) fn tables(prefix: &str, needed: &[Needed]) -> String {
    let table = |needed: &Needed| {
        let tolerant = |short: &str, of_type: &str, percents: u32| {
            let more = format!("type = \"{of_type}\"\nerror = \"{percents}%\"\n");
            (format!("{short}{percents}"), "causal", more)
        };
        let (space, level, more) = match *needed {
            Needed::Strong => ("strong".to_owned(), "linearizable", String::new()),
            Needed::Weak => ("weak".to_owned(), "causal", String::new()),
            Needed::Typed(of_type) => {
                (of_type.to_owned(), "causal", format!("type = \"{of_type}\"\n"))
            }
            Needed::Counters(percents) => tolerant("e", "counter", percents),
            Needed::Sets(percents) => tolerant("s", "set", percents),
        };
        let name = prefix.replace(':', "-") + &space;
        format!(
            "[[space]]\nname = \"{name}\"\nprefix = \"{prefix}{space}:\"\nlevel = \"{level}\"\n{more}"
        )
    };
    needed.iter().map(table).collect::<Vec<_>>().join("\n")
}

/// Sites of a cluster with such spaces.
#[derive(Clone)]
pub(crate) struct SpacesSites {
    pub(crate) place: TargetCluster,
    /// Beginning of all keys.
    pub(crate) prefix: &'static str,
}

impl Sessions for SpacesSites {
    type Session = SpacesSession;

    fn sites(&self) -> Vec<String> {
        self.place.sites()
    }

    fn site_of(&self, client: usize) -> usize {
        self.place.site_of(client)
    }

    async fn connect(&self, client: usize) -> Result<SpacesSession, Error> {
        Ok(SpacesSession::new(self.place.connect(client).await?, self.prefix))
    }
}

/// Connection of a client to spaces.
pub(crate) struct SpacesSession {
    session: BenchSession,
    prefix: &'static str,
    /// Whether reads need not reach other sites.
    settled: bool,
    /// Numbers of observations of this client, by name.
    counted: Counters,
}

impl SpacesSession {
    pub(crate) fn new(client: Client, prefix: &'static str) -> SpacesSession {
        let session = BenchSession::new(client, Strong::Solera);
        SpacesSession { session, prefix, settled: false, counted: Counters::new() }
    }

    /// Creates a session whose reads return what its site has, because that is everything.
    pub(crate) fn settled(client: Client, prefix: &'static str) -> SpacesSession {
        SpacesSession { settled: true, ..SpacesSession::new(client, prefix) }
    }

    /// Adds to a number of observations.
    pub(crate) fn count(&mut self, name: &str, number: u64) {
        *self.counted.entry(name.to_owned()).or_default() += number;
    }

    /// Counts what an operation has read.
    pub(crate) fn observe(&mut self, observed: &Observed) {
        for (name, number) in observations::numbers(observed) {
            self.count(&name, number);
        }
    }

    /// Reads how many units are left in a pool. If there is a counter beside the pool, does not
    /// read the counter.
    pub(crate) async fn units(&mut self, pool: &str, policy: Policy) -> Result<i64, Error> {
        if policy == Policy::Strong {
            return self.value(pool, policy).await;
        }
        let (key, levelled) = (self.of_type("pool", pool, policy), self.levelled(policy));
        let pool = Pool::open(self.client(), key, levelled).await?;
        Ok(pool.left(self.client()).await?.0)
    }

    /// Reads the value of a counter, not its interval.
    pub(crate) async fn value(&mut self, counter: &str, policy: Policy) -> Result<i64, Error> {
        let (key, levelled) = (self.counter(counter, policy), self.levelled(policy));
        let counter = Counter::open(self.client(), key, levelled).await?;
        Ok(counter.read(self.client()).await?.0)
    }

    fn levelled(&self, policy: Policy) -> Levelled {
        Levelled(if self.settled { Policy::Weak } else { policy })
    }

    fn client(&mut self) -> &mut Client {
        &mut self.session.client
    }

    /// Returns the key of a counter whose operations have a policy.
    fn counter(&self, name: &str, policy: Policy) -> String {
        let prefix = self.prefix;
        match policy {
            Policy::Strong | Policy::Within(_) => format!("{prefix}strong:{name}"),
            Policy::Weak => format!("{prefix}weak:{name}"),
            Policy::Tolerance(percents) => format!("{prefix}e{percents}:{name}"),
        }
    }

    /// Returns the key of an object of a type. Policies have objects of their own.
    fn of_type(&self, of_type: &str, name: &str, policy: Policy) -> String {
        let prefix = self.prefix;
        match policy {
            Policy::Strong => format!("{prefix}strong:{of_type}:{name}"),
            Policy::Weak => format!("{prefix}{of_type}:weak:{name}"),
            Policy::Within(bound) => format!("{prefix}{of_type}:{}:{name}", bound.as_millis()),
            Policy::Tolerance(percents) => format!("{prefix}{of_type}:{percents}%:{name}"),
        }
    }

    /// Returns the key of a set, whose size may have a tolerance.
    fn set(&self, name: &str, policy: Policy) -> String {
        match policy {
            Policy::Tolerance(percents) => format!("{}s{percents}:{name}", self.prefix),
            _ => self.of_type("set", name, policy),
        }
    }

    /// Returns the key of a text.
    fn text_key(&self, name: &str) -> String {
        format!("{}weak:text:{name}", self.prefix)
    }

    /// Runs commands at once, and again after a conflict. Returns their replies.
    async fn multi(&mut self, commands: &[Vec<&[u8]>]) -> Result<Vec<Value>, Error> {
        let BenchSession { client, aborts, .. } = &mut self.session;
        repeat(async || multi(client, commands).await, |_| *aborts += 1).await
    }
}

impl WorkloadSession for SpacesSession {
    fn take_aborts(&mut self) -> Aborts {
        self.session.take_aborts()
    }

    async fn counters(&mut self) -> Counters {
        self.counted.clone()
    }

    async fn reconnect(&mut self) -> Result<(), Error> {
        self.session.reconnect().await
    }

    async fn token(&mut self) -> Option<Token> {
        self.session.token().await
    }
}

impl IpaStoreSession for SpacesSession {
    async fn add(&mut self, counter: &str, number: i64, policy: Policy) -> Result<(), Error> {
        let key = self.counter(counter, policy);
        self.client().incr_by(&key, number).await.map(drop)
    }

    async fn read(&mut self, counter: &str, policy: Policy) -> Result<Read, Error> {
        let key = self.counter(counter, policy);
        let levelled = self.levelled(policy);
        let client = self.client();
        if let Policy::Tolerance(percents) = policy {
            let tolerance = ErrorTolerance::percent(percents);
            let value = Counter::open(client, key, tolerance).await?.read(client).await?;
            return Ok(Read::Interval(value.min(), value.max()));
        }
        let counter = Counter::open(client, key, levelled).await?;
        let (value, level) = counter.read(client).await?;
        Ok(Read::Value(value, level))
    }

    /// A pool with a tolerance is a pool and a counter, which are updated in one transaction.
    async fn grow(&mut self, pool: &str, units: u32, policy: Policy) -> Result<(), Error> {
        match policy {
            Policy::Strong => return self.add(pool, units.into(), policy).await,
            Policy::Tolerance(_) => self.add(pool, units.into(), policy).await?,
            Policy::Within(_) | Policy::Weak => {}
        }
        let key = self.of_type("pool", pool, policy);
        let client = self.client();
        Pool::open(client, key, WEAK).await?.grow(client, units).await
    }

    async fn take(&mut self, pool: &str, policy: Policy) -> Result<Bought, Error> {
        let (counter, units) = (self.counter(pool, policy), self.of_type("pool", pool, policy));
        match policy {
            Policy::Strong => {
                let buy = async |tx: &mut Client| {
                    let left = tx.get(&counter).await?.and_then(|left| left.parse::<i64>().ok());
                    match left.filter(|left| *left > 0) {
                        None => Ok(Bought::SoldOut),
                        Some(left) => {
                            tx.incr_by(&counter, -1).await?;
                            // No other transaction that commits has read this number.
                            Ok(Bought::One(format!("{pool}-{left}")))
                        }
                    }
                };
                self.session.strong(buy).await
            }
            Policy::Weak | Policy::Within(_) => {
                let client = self.client();
                let pool = Pool::open(client, units, WEAK).await?;
                Ok(match pool.take(client, 1).await? {
                    Taken::Units(ids) => Bought::One(ids.concat()),
                    Taken::SoldOut { .. } => Bought::SoldOut,
                    Taken::CannotTell { .. } => Bought::CannotTell,
                })
            }
            Policy::Tolerance(_) => {
                let commands: [Vec<&[u8]>; 2] =
                    [vec![b"SOLERA.TAKE", units.as_bytes()], vec![b"DECR", counter.as_bytes()]];
                let replies = match self.multi(&commands).await {
                    Err(error) if error.code() == Some("TRYAGAIN") => {
                        return Ok(Bought::CannotTell);
                    }
                    Err(error) if error.code() == Some("SOLDOUT") => return Ok(Bought::SoldOut),
                    replies => replies?,
                };
                if let [Value::Array(ids), Value::Integer(_)] = &replies[..]
                    && let [Value::Bulk(id)] = &ids[..]
                {
                    return Ok(Bought::One(String::from_utf8_lossy(id).into_owned()));
                }
                Err(Error::unexpected(&Value::Array(replies)))
            }
        }
    }

    async fn left(&mut self, pool: &str, policy: Policy) -> Result<Read, Error> {
        match policy {
            Policy::Strong | Policy::Tolerance(_) => self.read(pool, policy).await,
            Policy::Weak | Policy::Within(_) => {
                let key = self.of_type("pool", pool, policy);
                let levelled = self.levelled(policy);
                let client = self.client();
                let pool = Pool::open(client, key, levelled).await?;
                let (left, level) = pool.left(client).await?;
                Ok(Read::Value(left, level))
            }
        }
    }

    async fn insert(
        &mut self,
        set: &str,
        elements: &[String],
        policy: Policy,
    ) -> Result<(), Error> {
        let key = self.set(set, policy);
        let mut command = vec!["SADD", &key];
        command.extend(elements.iter().map(String::as_str));
        self.client().command(&command).await.map(drop)
    }

    async fn elements(&mut self, set: &str, policy: Policy) -> Result<(Vec<String>, Level), Error> {
        let key = self.set(set, policy);
        let levelled = self.levelled(policy);
        let client = self.client();
        let set = Set::open(client, key, levelled).await?;
        let (elements, level) = set.elements(client).await?;
        Ok((elements.into_iter().collect(), level))
    }

    async fn size(&mut self, set: &str, policy: Policy) -> Result<Read, Error> {
        let key = self.set(set, policy);
        let levelled = self.levelled(policy);
        let client = self.client();
        if let Policy::Tolerance(percents) = policy {
            let tolerance = ErrorTolerance::percent(percents);
            let set = Set::open_with_size(client, key, WEAK, tolerance).await?;
            let size = set.size(client).await?;
            return Ok(Read::Interval(size.min(), size.max()));
        }
        let set = Set::open(client, key, levelled).await?;
        let (size, level) = set.size(client).await?;
        Ok(Read::Value(size, level))
    }

    async fn push(&mut self, lists: &[String], element: &str, policy: Policy) -> Result<(), Error> {
        let keys: Vec<String> =
            lists.iter().map(|list| self.of_type("list", list, policy)).collect();
        let push = |key| vec![&b"SOLERA.PUSH"[..], key, element.as_bytes()];
        let commands: Vec<Vec<&[u8]>> = keys.iter().map(String::as_bytes).map(push).collect();
        self.multi(&commands).await.map(drop)
    }

    async fn newest(
        &mut self,
        list: &str,
        most: u32,
        policy: Policy,
    ) -> Result<(Vec<String>, Level), Error> {
        let key = self.of_type("list", list, policy);
        let levelled = self.levelled(policy);
        let client = self.client();
        List::open(client, key, levelled).await?.newest(client, most).await
    }

    async fn write(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let key = self.text_key(name);
        self.client().set(&key, text).await
    }

    async fn text(&mut self, name: &str) -> Result<Option<String>, Error> {
        let key = self.text_key(name);
        self.client().get(&key).await
    }

    async fn settle(&mut self) -> Result<Option<Token>, Error> {
        self.client().barrier(Some(Duration::from_secs(20))).await?;
        self.client().token().await.map(Some)
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
