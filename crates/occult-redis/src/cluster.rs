//! The nodes of a cluster: where requests are sent, and what the nodes report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use solera_occult::ShardId;
use solera_resp::Value;
use tokio::sync::Semaphore;

use crate::copies::{Copies, Progress};
use crate::error::Error;
use crate::functions::{Means, Request, library, scripts, text_of};
use crate::lives::{Lives, State};
use crate::node::{Login, NoAnswer, Node, within};
use crate::report::{Info, replicas_of_self};
use crate::risk::Life;
use crate::routes::{Redirection, Routes, listed};
use crate::slot::clock_key;
use crate::stored::Layout;

/// Time between two polls of the nodes. A poll finds promotions, and the replication offsets of
/// replicas.
const POLL: Duration = Duration::from_millis(200);
/// Time limit of a connection, and of an answer to a poll.
const POLL_TIMEOUT: Duration = Duration::from_millis(1000);
/// Time limit of an answer of a replica. Afterwards, the master answers.
const NEAR_TIMEOUT: Duration = Duration::from_millis(200);
/// Time for which a node that has not answered is avoided.
const AVOID: Duration = Duration::from_secs(1);
/// Time for which a slot's replica is avoided after it was stale in all attempts.
const SLOW: Duration = Duration::from_millis(50);
/// Time between two attempts while a slot moves or its master is replaced.
const PAUSE: Duration = Duration::from_millis(10);
/// Least time for another attempt. If less is left, the error of the last attempt is reported.
const LEAST_ATTEMPT: Duration = Duration::from_millis(50);
/// Time between two steps of a master's clock.
pub(crate) const CLOCK_STEP: Duration = Duration::from_millis(5);
/// Time for which a master's clock advances after the last read of its slots.
const CLOCK_IDLE: Duration = Duration::from_secs(1);
/// Greatest number of steps of a clock that have no answer yet.
const CLOCK_STEPS: usize = 64;
/// Greatest number of leases that are renewed at the same time.
const RENEWALS: usize = 32;
/// Least time between two renewals of the lease of a slot.
const RENEW_PAUSE: Duration = Duration::from_secs(1);
/// A replica is read if its round trip is at most this much longer than the master's.
const PREFERENCE: Duration = Duration::from_micros(500);

/// Failure of a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Failure {
    /// The request may have been executed; the caller may repeat it if it is idempotent.
    Lost(String),
    /// The request was not executed.
    Error(Error),
}

/// Settings of a cluster's connections.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub(crate) seeds: Vec<String>,
    pub(crate) login: Login,
    /// Hosts, or hosts and ports, of the nodes that are read; empty: the nearest ones.
    pub(crate) near: Vec<String>,
    /// Time limit of a request, with all its attempts.
    pub(crate) timeout: Duration,
    /// Time after which a replica without its master is not read any more.
    pub(crate) silence: Duration,
    /// Layout of stored strings.
    pub(crate) layout: Layout,
}

type Seat = Arc<tokio::sync::Mutex<Option<Arc<Node>>>>;

#[derive(Default)]
struct Known {
    routes: Routes,
    seats: BTreeMap<String, Seat>,
    /// Smoothed round trips.
    trips: BTreeMap<String, Duration>,
    avoided: BTreeMap<String, Instant>,
    /// Difference by which each node's clock is ahead of this process's, in µs.
    clocks: BTreeMap<String, i64>,
    slow: BTreeMap<ShardId, Instant>,
    /// The masters whose clocks this gateway advances, with the times when they were last wanted.
    wanted: BTreeMap<String, Instant>,
    /// Masters about whose clocks a warning was logged.
    stuck: BTreeSet<String>,
    /// Slots whose leases are being renewed, or were a moment ago.
    renewing: BTreeSet<ShardId>,
    lives: Lives,
    copies: Copies,
}

pub(crate) struct Cluster {
    pub(crate) reach: Reach,
    known: Mutex<Known>,
    means: Mutex<Means>,
    /// Lock that lets only one poll run at a time.
    polling: tokio::sync::Mutex<()>,
    /// Permits of renewals of leases.
    renewals: Arc<Semaphore>,
}

/// Returns the time of this process, in µs since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as u64)
}

fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']'])
}

/// Returns whether an option that is HOST or HOST:PORT names the node at an address.
fn is_named(address: &str, option: &str) -> bool {
    option == address || option == host_of(address)
}

impl Cluster {
    /// Connects to a cluster, and loads the functions on its masters.
    pub(crate) async fn connect(reach: Reach) -> Result<Arc<Cluster>, Error> {
        let means = Mutex::new(Means { scripts: None, layout: reach.layout, clock: None });
        let cluster = Arc::new(Cluster {
            reach,
            known: Mutex::default(),
            means,
            polling: tokio::sync::Mutex::default(),
            renewals: Arc::new(Semaphore::new(RENEWALS)),
        });
        cluster.refresh().await?;
        cluster.check_near().await?;
        let masters = cluster.known().routes.masters();
        for address in masters {
            // A master that does not answer gets the functions when it is first used.
            match cluster.node(&address).await {
                Ok(node) => {
                    cluster.load(&node).await?;
                    warn_of_eviction(&node).await;
                }
                Err(why) => tracing::warn!("a master cannot be reached: {why:?}"),
            }
        }
        cluster.poll().await;
        tokio::spawn(keep_polling(Arc::downgrade(&cluster)));
        Ok(cluster)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lives<T>(&self, read: impl FnOnce(&Lives) -> T) -> T {
        read(&self.known().lives)
    }

    /// Returns the time up to which all copies have all writes, in µs by this process's clock.
    pub(crate) fn replicated_until(&self) -> u64 {
        let known = self.known();
        known.copies.until(&known.routes.masters())
    }

    /// Returns how functions are called at a master or its replicas.
    pub(crate) fn means_at(&self, master: &str) -> Means {
        let clock = self.known().routes.clock_of(master);
        let means = self.means.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Means { clock, ..means }
    }

    /// Returns the connection to a node, which it opens if necessary.
    async fn node(&self, address: &str) -> Result<Arc<Node>, NoAnswer> {
        let seat = Arc::clone(self.known().seats.entry(address.to_owned()).or_default());
        let mut held = seat.lock().await;
        if let Some(node) = held.as_ref().filter(|node| !node.is_closed()) {
            return Ok(Arc::clone(node));
        }
        let connected = tokio::time::timeout(
            POLL_TIMEOUT.min(self.reach.timeout),
            Node::connect(address, &self.reach.login),
        );
        let late = || NoAnswer::NotSent(format!("{address} does not accept a connection"));
        // The caller's request was not sent: only the login was.
        let node = connected.await.unwrap_or_else(|_| Err(late())).map_err(|why| match why {
            NoAnswer::NotSent(why) | NoAnswer::Lost(why) => NoAnswer::NotSent(why),
        })?;
        let node = Arc::new(node);
        *held = Some(Arc::clone(&node));
        Ok(node)
    }

    /// Returns the connection to a node, if it is open.
    fn open_node(&self, address: &str) -> Option<Arc<Node>> {
        let seat = self.known().seats.get(address).cloned()?;
        let held = seat.try_lock().ok()?;
        held.as_ref().filter(|node| !node.is_closed()).map(Arc::clone)
    }

    /// Forgets a connection on which an answer is missing.
    async fn drop_node(&self, node: &Arc<Node>) {
        let seat = self.known().seats.get(&node.address).cloned();
        let Some(seat) = seat else { return };
        let mut held = seat.lock().await;
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, node)) {
            *held = None;
        }
    }

    async fn load(&self, node: &Node) -> Result<(), Error> {
        if self.means_at(&node.address).scripts.is_none() {
            let loaded = node.command(&["FUNCTION", "LOAD", &library()]).await;
            match loaded {
                Ok(Value::Error(text)) if text.contains("already exists") => return Ok(()),
                Ok(Value::Error(text)) if is_forbidden(&text) => {
                    tracing::info!("{} has no functions, using scripts: {text}", node.address);
                }
                Ok(Value::Error(text)) => {
                    return Err(Error::NoCluster(format!("{}: {text}", node.address)));
                }
                Ok(_) => return Ok(()),
                Err(NoAnswer::NotSent(why) | NoAnswer::Lost(why)) => {
                    return Err(Error::NoCluster(why));
                }
            }
        }
        let mut digests = Vec::new();
        for script in scripts() {
            match node.command(&["SCRIPT", "LOAD", &script]).await {
                Ok(Value::Bulk(digest)) => {
                    digests.push(String::from_utf8_lossy(&digest).into_owned());
                }
                Ok(other) => {
                    return Err(Error::NoCluster(format!(
                        "{} permits neither functions nor scripts: {}",
                        node.address,
                        text_of(&other)
                    )));
                }
                Err(NoAnswer::NotSent(why) | NoAnswer::Lost(why)) => {
                    return Err(Error::NoCluster(why));
                }
            }
        }
        let mut means = self.means.lock().unwrap_or_else(PoisonError::into_inner);
        means.scripts = <[String; 2]>::try_from(digests).ok();
        Ok(())
    }

    /// Asks the nodes, one after the other, for the owners of the slots.
    pub(crate) async fn refresh(&self) -> Result<(), Error> {
        let mut nodes: Vec<String> = self.known().routes.nodes().into_iter().collect();
        nodes.retain(|node| !self.is_avoided(node));
        nodes.extend(self.reach.seeds.iter().cloned());
        let mut why = "no node is known".to_owned();
        for address in nodes {
            match self.slots_of(&address).await {
                Ok(routes) => {
                    self.known().routes = routes;
                    return Ok(());
                }
                Err(error) => why = error,
            }
        }
        Err(Error::NoCluster(format!("no node of the cluster answers: {why}")))
    }

    async fn slots_of(&self, address: &str) -> Result<Routes, String> {
        let text = |why| match why {
            NoAnswer::NotSent(why) | NoAnswer::Lost(why) => why,
        };
        let node = self.node(address).await.map_err(text)?;
        let asked = node.command(&["CLUSTER", "SLOTS"]);
        let reply = match within(POLL_TIMEOUT, address, asked).await {
            Ok(reply) => reply,
            Err(why) => {
                self.drop_node(&node).await;
                self.avoid(address);
                return Err(text(why));
            }
        };
        let routes = Routes::parse(&reply, host_of(address));
        routes.ok_or_else(|| format!("{address} is no node of a cluster: {}", text_of(&reply)))
    }

    /// Fails if a node that the options call near is no node of the cluster: the gateway would read
    /// at distant masters only.
    async fn check_near(&self) -> Result<(), Error> {
        let (mut nodes, masters) = {
            let known = self.known();
            (known.routes.nodes(), known.routes.masters())
        };
        let unknown = |nodes: &BTreeSet<String>| {
            let known = |near: &&String| nodes.iter().any(|node| is_named(node, near));
            self.reach.near.iter().find(|near| !known(near)).cloned()
        };
        if unknown(&nodes).is_some() {
            // Nodes that have failed own no slots, and only this list contains them.
            for master in masters {
                let Ok(node) = self.node(&master).await else { continue };
                let asked = node.command(&["CLUSTER", "NODES"]);
                if let Ok(list) = within(POLL_TIMEOUT, &master, asked).await {
                    nodes.extend(listed(&text_of(&list)));
                    break;
                }
            }
        }
        let Some(near) = unknown(&nodes) else { return Ok(()) };
        let nodes: Vec<String> = nodes.into_iter().collect();
        Err(Error::NoCluster(format!(
            "the near node '{near}' is not one of the cluster's nodes, which announce themselves \
             as {}",
            nodes.join(", ")
        )))
    }

    fn avoid(&self, address: &str) {
        self.known().avoided.insert(address.to_owned(), Instant::now() + AVOID);
    }

    fn is_avoided(&self, address: &str) -> bool {
        self.known().avoided.get(address).is_some_and(|until| *until > Instant::now())
    }

    /// Returns whether the slot's replica is avoided because it was stale.
    pub(crate) fn is_slow(&self, slot: ShardId) -> bool {
        self.known().slow.get(&slot).is_some_and(|until| *until > Instant::now())
    }

    pub(crate) fn note_slow(&self, slot: ShardId) {
        self.known().slow.insert(slot, Instant::now() + SLOW);
    }

    pub(crate) fn master(&self, slot: ShardId) -> Option<String> {
        self.known().routes.owners(slot).map(|owners| owners.master.clone())
    }

    /// Returns the node at which a slot is read, and whether it is the master.
    pub(crate) fn near(&self, slot: ShardId) -> Option<(String, bool)> {
        let known = self.known();
        let owners = known.routes.owners(slot)?;
        let moment = Instant::now();
        let usable = |node: &&String| {
            let near = self.reach.near.is_empty()
                || self.reach.near.iter().any(|near| is_named(node, near));
            near && known.avoided.get(*node).is_none_or(|until| *until <= moment)
        };
        let trip = |node: &&String| known.trips.get(*node).copied().unwrap_or(Duration::MAX);
        let replica = owners.replicas.iter().filter(usable).min_by_key(trip);
        let farther = |replica: &String| {
            self.reach.near.is_empty()
                && trip(&replica) > trip(&&owners.master).saturating_add(PREFERENCE)
        };
        match replica {
            Some(replica) if !farther(replica) => Some((replica.clone(), false)),
            _ => Some((owners.master.clone(), true)),
        }
    }

    /// Sends commands that read to a nearby node, which executes them in order. Returns the
    /// answers; `None` if another node must be asked.
    pub(crate) async fn ask_near<const N: usize>(
        &self,
        address: &str,
        commands: [Vec<u8>; N],
    ) -> Option<[Value; N]> {
        let node = match self.node(address).await {
            Ok(node) => node,
            Err(_) => {
                self.avoid(address);
                return None;
            }
        };
        let asked = commands.map(|bytes| within(NEAR_TIMEOUT, address, node.ask(bytes, 0)));
        let answers: Result<Vec<Value>, NoAnswer> =
            futures_util::future::join_all(asked).await.into_iter().collect();
        match answers {
            Ok(answers) => <[Value; N]>::try_from(answers).ok(),
            Err(_) => {
                self.avoid(address);
                None
            }
        }
    }

    /// Returns whether a node's answer means that another node must be asked.
    pub(crate) fn is_redirection(address: &str, answer: &Value) -> bool {
        matches!(answer, Value::Error(text) if Redirection::read(text, host_of(address)).is_some())
    }

    /// Returns the round trip to a slot's master, as far as it is known.
    pub(crate) fn trip_to_master(&self, slot: ShardId) -> Duration {
        let known = self.known();
        let trip = known.routes.owners(slot).and_then(|owners| known.trips.get(&owners.master));
        trip.copied().unwrap_or_default()
    }

    /// Advances the clock of a slot's master from now on, until it has not been wanted for a
    /// while. Returns the slot with the clock.
    pub(crate) fn want_clock(self: &Arc<Self>, slot: ShardId) -> Option<ShardId> {
        let known = &mut *self.known();
        let master = &known.routes.owners(slot)?.master;
        let clock = known.routes.clock_of(master)?;
        match known.wanted.get_mut(master) {
            Some(wanted) => *wanted = Instant::now(),
            None => {
                known.wanted.insert(master.clone(), Instant::now());
                tokio::spawn(advance_clock(Arc::downgrade(self), master.clone()));
            }
        }
        Some(clock)
    }

    /// Lets the record of a slot name its master's clock, or extends the lease, in the background.
    pub(crate) fn renew(self: &Arc<Self>, slot: ShardId) {
        if !self.known().renewing.insert(slot) {
            return;
        }
        let Ok(permit) = Arc::clone(&self.renewals).try_acquire_owned() else {
            self.known().renewing.remove(&slot);
            return;
        };
        let cluster = Arc::clone(self);
        tokio::spawn(async move {
            let mut request = Request::new("renew", slot, &[]);
            request.number(now());
            let until = Instant::now() + POLL_TIMEOUT;
            // If it fails, a later read tries it again.
            let _ = cluster.ask_master(slot, until, |means, _| request.encode(means)).await;
            drop(permit);
            tokio::time::sleep(RENEW_PAUSE).await;
            cluster.known().renewing.remove(&slot);
        });
    }

    /// Begins to advance a master's clock by one step, which takes a round trip. Returns `false`
    /// if the clock is not wanted any more.
    fn step_clock(self: &Arc<Self>, master: &str, under_way: &Arc<Semaphore>) -> bool {
        let (clock, trip) = {
            let mut known = self.known();
            let wanted = known.wanted.get(master).copied();
            if wanted.is_none_or(|wanted| wanted.elapsed() > CLOCK_IDLE) {
                known.wanted.remove(master);
                return false;
            }
            let trip = known.trips.get(master).copied().unwrap_or_default();
            (known.routes.clock_of(master), trip)
        };
        // The clock opens no connection: requests of sessions would have to wait for it.
        if let Some(node) = self.open_node(master)
            && let Some(clock) = clock
            && let Ok(permit) = Arc::clone(under_way).try_acquire_owned()
        {
            let arrival = now() + (trip / 2).as_micros() as u64;
            let mut request = Request { name: "clock", keys: vec![clock_key(clock)], args: vec![] };
            request.number(arrival).number(CLOCK_STEP.as_micros() as u64);
            let bytes = request.encode(&self.means_at(master));
            let (cluster, master) = (Arc::clone(self), master.to_owned());
            tokio::spawn(async move {
                let _permit = permit;
                let answer = within(POLL_TIMEOUT, &master, node.ask(bytes, 0)).await;
                let Ok(Value::Error(text)) = answer else { return };
                match Redirection::read(&text, host_of(&master)) {
                    Some(Redirection::NoFunctions) => drop(cluster.load(&node).await),
                    // The requests of sessions notice that a slot has moved.
                    Some(_) => {}
                    None if cluster.known().stuck.insert(master.clone()) => {
                        tracing::warn!("the clock of {master} does not advance: {text}");
                    }
                    None => {}
                }
            });
        }
        true
    }

    /// Returns a master's time, as far as it is known, in µs.
    pub(crate) fn time_at(&self, address: &str) -> u64 {
        let ahead = self.known().clocks.get(address).copied().unwrap_or_default();
        now().saturating_add_signed(ahead)
    }

    /// Notes the reading of a master's clock.
    pub(crate) fn note_time(&self, address: &str, time: u64) {
        let ahead = time.cast_signed().wrapping_sub(now().cast_signed());
        self.known().clocks.insert(address.to_owned(), ahead);
    }

    /// Sends a request to the master of a slot, and follows the slot if it moves. `encode` returns
    /// the request for the master at an address. The request is not repeated after it may have been
    /// executed. Returns the answer and the master.
    pub(crate) async fn ask_master(
        self: &Arc<Self>,
        slot: ShardId,
        until: Instant,
        encode: impl Fn(&Means, &str) -> Vec<u8>,
    ) -> Result<(Value, String), Failure> {
        self.want_clock(slot);
        let mut target: Option<(String, bool)> = None;
        loop {
            let (address, asking) =
                match target.take().or_else(|| Some((self.master(slot)?, false))) {
                    Some(target) => target,
                    None => {
                        self.wait(slot, until, "no master has it").await?;
                        continue;
                    }
                };
            let node = match self.node(&address).await {
                Ok(node) => node,
                Err(NoAnswer::NotSent(why) | NoAnswer::Lost(why)) => {
                    self.wait(slot, until, &why).await?;
                    continue;
                }
            };
            let mut bytes = encode(&self.means_at(&address), &address);
            if asking {
                bytes.splice(0..0, *b"*1\r\n$6\r\nASKING\r\n");
            }
            let left = until.saturating_duration_since(Instant::now());
            let limit = left.min(self.attempt_limit());
            match within(limit, &address, node.ask(bytes, usize::from(asking))).await {
                Ok(Value::Error(text)) => {
                    target = self.redirect(slot, until, &node, text).await?;
                }
                Ok(value) => return Ok((value, address)),
                Err(NoAnswer::NotSent(why)) => self.wait(slot, until, &why).await?,
                Err(NoAnswer::Lost(why)) => {
                    self.drop_node(&node).await;
                    let _ = self.refresh().await;
                    return Err(Failure::Lost(why));
                }
            }
        }
    }

    /// Returns the time limit of one attempt: a part of the request's limit, because a master that
    /// does not answer may have failed, and its slots may soon have another master.
    fn attempt_limit(&self) -> Duration {
        (self.reach.timeout / 4).max(POLL_TIMEOUT)
    }

    /// Follows an error reply. Returns the node to ask next, and whether ASKING must precede the
    /// request; `None` for the slot's master.
    async fn redirect(
        &self,
        slot: ShardId,
        until: Instant,
        node: &Node,
        text: String,
    ) -> Result<Option<(String, bool)>, Failure> {
        match Redirection::read(&text, host_of(&node.address)) {
            Some(Redirection::Moved(to)) => {
                self.known().routes.moved(slot, &to);
                if Instant::now() >= until {
                    self.wait(slot, until, &text).await?;
                }
                Ok(None)
            }
            Some(Redirection::Ask(to)) => {
                if Instant::now() >= until {
                    self.wait(slot, until, &text).await?;
                }
                Ok(Some((to, true)))
            }
            Some(Redirection::TryAgain) => {
                let text = "it is being moved to another master, and its keys lie at both";
                self.wait(slot, until, text).await?;
                Ok(None)
            }
            Some(Redirection::NotNow(why)) => {
                self.wait(slot, until, &why).await?;
                Ok(None)
            }
            Some(Redirection::NoFunctions) => {
                self.load(node).await.map_err(Failure::Error)?;
                Ok(None)
            }
            None => Err(Failure::Error(Error::Reply(text))),
        }
    }

    /// Waits until the slot may have another master. Fails if no time would be left for another
    /// attempt.
    async fn wait(&self, slot: ShardId, until: Instant, why: &str) -> Result<(), Failure> {
        if Instant::now() + LEAST_ATTEMPT >= until {
            let why = why.to_owned();
            return Err(Failure::Error(Error::Unavailable { slot, why }));
        }
        tokio::time::sleep(PAUSE).await;
        let _ = self.refresh().await;
        Ok(())
    }

    /// Asks all nodes for their reports.
    pub(crate) async fn poll(&self) {
        let _one = self.polling.lock().await;
        let _ = self.refresh().await;
        let (nodes, masters) = {
            let known = self.known();
            (known.routes.nodes(), known.routes.masters())
        };
        self.known().lives.keep(|node| masters.iter().any(|master| master == node));
        let polls = nodes.iter().map(|node| self.poll_node(node, masters.contains(node)));
        futures_util::future::join_all(polls).await;
    }

    async fn poll_node(&self, address: &str, is_master: bool) {
        let Ok(node) = self.node(address).await else { return self.avoid(address) };
        let (before, time) = (Instant::now(), now());
        let asked = node.command(&["INFO", "server", "replication"]);
        let Ok(reply) = within(POLL_TIMEOUT, address, asked).await else {
            self.drop_node(&node).await;
            return self.avoid(address);
        };
        let trip = before.elapsed();
        let text = text_of(&reply);
        let info = Info::parse(&text);
        let mut replicas = None;
        if is_master && info.is_master() {
            let asked = node.command(&["CLUSTER", "NODES"]);
            let nodes = within(POLL_TIMEOUT, address, asked).await;
            replicas = nodes.ok().and_then(|nodes| replicas_of_self(&text_of(&nodes)));
        }
        let mut known = self.known();
        let smooth = known.trips.entry(address.to_owned()).or_insert(trip);
        *smooth = (*smooth * 7 + trip) / 8;
        if let Some(time) = info.time() {
            let ahead = time.cast_signed().wrapping_sub(now().cast_signed());
            known.clocks.insert(address.to_owned(), ahead);
        }
        if let Some(replicas) = replicas
            && let Some(report) = info.report(replicas)
        {
            if let Some(offset) = info.offset() {
                let (life, replicated) = (report.life, report.replicated);
                let alone = replicas == 0;
                let progress = Progress { time, life, offset, replicated, alone };
                known.copies.report(address, progress);
            }
            known.lives.report(address, report);
        }
        if info.silence().is_some_and(|s| Duration::from_secs(s) > self.reach.silence) {
            known.avoided.insert(address.to_owned(), Instant::now() + AVOID);
        }
    }

    /// Returns the state of a life. Polls the nodes first if the state is unknown.
    pub(crate) async fn state_of(&self, life: Life) -> State {
        if self.lives(|lives| lives.state(life)) == State::Unknown {
            self.poll().await;
        }
        self.lives(|lives| lives.state(life))
    }
}

/// Warns if a node may evict records, which have no time to live.
async fn warn_of_eviction(node: &Node) {
    let asked = node.command(&["CONFIG", "GET", "maxmemory-policy"]).await;
    let Ok(Value::Array(pair)) = asked else { return };
    let policy = pair.get(1).map(text_of).unwrap_or_default();
    if policy.starts_with("allkeys") {
        tracing::warn!(
            "{} may evict the records of slots (maxmemory-policy {policy}): reads and writes of \
             such a slot then fail with EVICTED; use noeviction or a volatile- policy",
            node.address
        );
    }
}

/// Advances the clock of a master as long as it is wanted.
async fn advance_clock(cluster: Weak<Cluster>, master: String) {
    let under_way = Arc::new(Semaphore::new(CLOCK_STEPS));
    loop {
        let Some(cluster) = cluster.upgrade() else { return };
        if !cluster.step_clock(&master, &under_way) {
            return;
        }
        drop(cluster);
        tokio::time::sleep(CLOCK_STEP).await;
    }
}

fn is_forbidden(text: &str) -> bool {
    text.starts_with("NOPERM") || text.starts_with("ERR unknown command")
}

async fn keep_polling(cluster: Weak<Cluster>) {
    loop {
        tokio::time::sleep(POLL).await;
        let Some(cluster) = cluster.upgrade() else { return };
        cluster.poll().await;
    }
}
