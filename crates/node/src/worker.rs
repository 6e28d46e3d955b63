//! One worker: a thread that owns partitions, runs the protocol's machine, and serves connections.
//!
//! | module | subject |
//! |---|---|
//! | `callers` | sessions of server-side code |
//! | `connection` | a connection: bytes in, commands, bytes out |
//! | `listening` | connections of clients, as they arrive |
//! | `postman` | what reaches a worker: messages, orders, and time |
//! | `primary` | commands of `primary` |
//! | `replies` | who waits for replies |
//! | `sessions` | what sessions need of a worker |

mod callers;
mod connection;
mod leaving;
mod listening;
mod postman;
mod primary;
mod replies;
mod sessions;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use solera_commands::COMMANDS;
use solera_config::{ClusterSpec, Users};
use solera_journal::Event;
use solera_machine::{Address, Job as _, JobId, Now, PartitionId, RequestId};
use solera_membership::{Change, Members};
use solera_session::{Ask, Context, Page, Scans, SitesReport};
use solera_site::{Job, Message, Output};
use solera_time::{Monotonic, SiteId};
use solera_unistore::{Replica, Response, Status};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;

use self::listening::listen;
use self::postman::Postman;
use self::replies::Replies;
use crate::attempts::Attempts;
use crate::control::{Control, Parcel};
use crate::current::Current;
use crate::joining::News;
use crate::links::tell_of_acceptance;
use crate::log::Log;
use crate::network::{Network, NoWrites};
use crate::run::Run;
use crate::status::{NOBODY, WorkerSample};
use crate::storage::{Engine, Storage, in_words, is_behind, set_durability};

/// While more bytes of records wait for the disk, no more commands are read.
const MAX_UNWRITTEN: u64 = 32 << 20;

/// What the tasks of a worker's thread share.
pub(crate) struct Worker {
    pub(crate) address: Address,
    pub(crate) spec: Arc<ClusterSpec>,
    /// Identifies the cluster and its data in tokens.
    pub(crate) cluster: u64,
    pub(crate) network: Arc<Network>,
    state: RefCell<State>,
    users: watch::Sender<Arc<Users>>,
    /// Whether any user is configured: what every command asks first.
    guarded: Cell<bool>,
    pub(crate) log: Log,
    attempts: Attempts,
    /// See [`Self::serves`].
    serves: Cell<bool>,
    tls: Option<Arc<Current<TlsAcceptor>>>,
    /// Wakes the protocol's task when its deadline has moved.
    wake: Notify,
    /// Wakes the task that hands records to the disk.
    written: Notify,
    /// Whether the site is alive; connections end when it is not.
    alive: watch::Sender<bool>,
    started: Instant,
}

struct State {
    engine: Engine,
    scans: Scans,
    /// Where there is a journal.
    storage: Option<Storage>,
    /// Whether the journal takes no writes, as far as others were told.
    refuses: bool,
    waiting: Replies,
    requests: u64,
    outbox: BTreeMap<Address, Vec<Message>>,
    /// Work for other threads.
    jobs: Vec<(JobId, Job)>,
    armed: Option<Monotonic>,
    counters: Counters,
    clients: u64,
}

impl State {
    /// A message goes to the outbox, a reply to whoever waits for it.
    fn let_go(&mut self, output: Output) {
        match output {
            Output::Send { to, message } => self.outbox.entry(to).or_default().push(message),
            Output::Reply { request, response, last } => {
                self.waiting.give(request, response, last);
            }
            Output::Job { job, work } => self.jobs.push((job, work)),
            Output::Records(_) | Output::Trace(_) => {}
        }
    }
}

/// What a worker counts.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) commands: Vec<u64>,
    pub(crate) errors: u64,
    pub(crate) failed_logins: u64,
    pub(crate) connections: u64,
    /// Those that were not served.
    pub(crate) refused_connections: u64,
    /// Batches of commands by the logarithm of their duration in microseconds.
    pub(crate) batches: [u64; 24],
    /// What they took together, in microseconds.
    pub(crate) batch_sum_us: u64,
}

impl Worker {
    /// The time, read once for a batch of commands.
    pub(crate) fn now(&self) -> Now {
        let clock = self.network.clock();
        let elapsed = clock.instant().saturating_duration_since(self.started);
        Now { monotonic: Monotonic(elapsed.as_nanos() as u64), physical: clock.physical() }
    }

    /// Runs `action` on UniStore's machine. Must not be called from within another.
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut Replica) -> R) -> R {
        action(self.state.borrow_mut().engine.machine_mut().unistore_mut())
    }

    /// The next page of a partition of this worker; `None` while that cannot be told yet.
    fn scan_here(&self, ask: &Ask) -> Option<Page> {
        if !self.serves() {
            return None;
        }
        let now = self.now();
        let mut state = self.state.borrow_mut();
        let State { engine, scans, .. } = &mut *state;
        let page = scans.page(engine.machine_mut().unistore_mut(), &self.spec.spaces, now, ask);
        drop(state);
        self.flush();
        page
    }

    /// Counts with the worker's counters.
    pub(crate) fn count(&self, action: impl FnOnce(&mut Counters)) {
        action(&mut self.state.borrow_mut().counters);
    }

    /// Tells of the users whenever they change from now on.
    pub(crate) fn users_to_come(&self) -> watch::Receiver<Arc<Users>> {
        self.users.subscribe()
    }

    /// Takes over what can change while the worker runs.
    fn configure(&self, spec: &ClusterSpec) {
        self.guarded.set(spec.users.are_configured());
        self.users.send_replace(Arc::new(spec.users.clone()));
        let mut state = self.state.borrow_mut();
        let replica = state.engine.machine_mut().unistore_mut();
        replica.limit_transactions(spec.transaction_timeout, spec.transaction_max_age);
        replica.limit_strong(spec.strong_limits);
        replica.limit_times_ahead(spec.max_ahead());
        if let Some(syncer) = state.engine.log() {
            set_durability(syncer, spec.durability);
        }
    }

    /// A client's TLS did not come about.
    pub(crate) fn tls_refused(&self, reason: &str, from: SocketAddr) {
        self.count(|counters| counters.refused_connections += 1);
        self.attempts.broken(reason, from);
    }

    /// A number for a new client, unique in the cluster.
    pub(crate) fn new_client(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.clients += 1;
        let place = u64::from(self.address.site.0) << 8 | u64::from(self.address.worker);
        state.clients << 16 | place
    }

    /// Waits for the reply to a request. `None` as with [`Self::call`].
    pub(crate) async fn reply_to(&self, request: RequestId) -> Option<Response> {
        if !self.answers() {
            return None;
        }
        let receiver = self.state.borrow_mut().waiting.once(request);
        let _forgotten = Forgotten(self, request);
        self.flush();
        match receiver.await.ok()? {
            solera_site::Response::UniStore(response) => Some(response),
            _ => unreachable!("the request was UniStore's"),
        }
    }

    /// Carries out what the machine asks for, and re-arms its deadline.
    pub(crate) fn flush(&self) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        self.tell_failure(state);
        while let Some(output) = state.engine.poll() {
            if matches!(output, Output::Records(_)) {
                self.tell_failure(state);
            }
            state.let_go(output);
        }
        while let Some(client) = state.engine.take_durable() {
            // One that is gone needs no word.
            let _ = client.send(());
        }
        if state.engine.wants_submit() {
            self.written.notify_one();
        }
        while let Some((to, messages)) = state.outbox.pop_first() {
            self.network.send(self.address, to, messages);
        }
        for (job, work) in state.jobs.drain(..) {
            self.begin_job(job, work);
        }
        let deadline = state.engine.next_deadline();
        if deadline < state.armed || (state.armed.is_none() && deadline.is_some()) {
            self.wake.notify_one();
        }
    }

    /// Runs a job on a thread of its own; the result comes back through the mailbox.
    fn begin_job(&self, job: JobId, work: Job) {
        let (network, address) = (self.network.clone(), self.address);
        tokio::task::spawn_blocking(move || {
            network.control(address, Control::Done(job, work.run()));
        });
    }

    /// While the journal takes no writes, all of this process takes none. If it has failed, nobody
    /// waits for what may never come: it takes replies with it, those to other workers too. What
    /// was done is unknown.
    fn tell_failure(&self, state: &mut State) {
        let who = || self.node_name(self.address);
        let Some(reason) = state.engine.refuses() else {
            if std::mem::take(&mut state.refuses) && self.network.withdraw_refusal(self.address) {
                self.log.info(format_args!("{} takes writes again: its disk has room", who()));
            }
            return;
        };
        if !std::mem::replace(&mut state.refuses, true) {
            let reason = in_words(reason);
            let line = format!("{} takes no writes from now on: {reason}", who());
            // Another worker may have been first.
            if self.network.refuse_writes(self.address, NoWrites::Full(reason)) {
                self.log.error(format_args!("{line}"));
            }
        }
        // After that, so that who tries again is refused.
        if state.engine.has_just_stopped() {
            let then = match state.engine.answers() {
                true => "what it takes is in memory alone",
                false => "it answers nobody until the node is started again",
            };
            let (who, worker) = (who(), self.address.worker);
            let reason = state.engine.refuses().map_or_else(String::new, in_words);
            self.log.error(format_args!(
                "the journal of {who}, worker {worker}, has failed: {then}: {reason}"
            ));
            // It may have refused writes for less before.
            self.network.refuse_writes(self.address, NoWrites::Failed(reason));
            state.waiting.clear();
            // Comes before all that this worker says from now on.
            self.network.give_up_waiting();
        }
    }

    /// Waits until all that was written so far is durable, if it has to be.
    ///
    /// `had_stopped` tells whether the journal had failed already before anything was done.
    ///
    /// # Errors
    /// It may never be: the journal has failed meanwhile.
    pub(crate) async fn durable(&self, had_stopped: bool) -> Result<(), String> {
        let waiting = {
            let engine = &mut self.state.borrow_mut().engine;
            if engine.has_stopped() && !had_stopped {
                return Err(self.refuses().unwrap_or_default());
            }
            if !engine.must_wait() {
                return Ok(());
            }
            let (sender, receiver) = oneshot::channel();
            if engine.hold(sender).is_some() {
                return Ok(());
            }
            receiver
        };
        waiting.await.map_err(|_| self.refuses().unwrap_or_default())
    }

    /// Waits while too much waits for the disk: what clients write must not fill the memory when
    /// they are faster. Nothing that the disk waits for waits here.
    pub(crate) async fn keep_pace(&self) {
        if self.is_behind(MAX_UNWRITTEN) {
            while self.is_behind(MAX_UNWRITTEN / 2) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    fn is_behind(&self, bytes: u64) -> bool {
        is_behind(&self.state.borrow().engine, bytes)
    }

    /// Whether the journal of this worker has failed.
    pub(crate) fn has_stopped(&self) -> bool {
        self.state.borrow().engine.has_stopped()
    }

    /// Whether clients of this worker are answered at all.
    pub(crate) fn answers(&self) -> bool {
        self.state.borrow().engine.answers()
    }

    /// Whether the site has the data that it serves; one that joins gets it first.
    pub(crate) fn serves(&self) -> bool {
        self.serves.get()
    }

    /// Changes how a site stands, if asked to, and tells how all do once that is durable here;
    /// nothing if it may never be. Only at the root.
    async fn change_sites(&self, change: Option<(SiteId, Change)>) -> Option<SitesReport> {
        // Without a journal nothing can change any more; how all stand can be told.
        let had_stopped = change.is_none() && self.has_stopped();
        let now = self.now();
        let told = {
            let mut state = self.state.borrow_mut();
            let machine = state.engine.machine_mut();
            let refused =
                change.and_then(|(site, change)| machine.change_members(now, site, change).err());
            let status = machine.unistore().status();
            let (members, not_agreed) = (status.members().clone(), status.not_agreed());
            SitesReport { members, not_agreed, refused }
        };
        self.note_members(&told.members);
        self.flush();
        self.durable(had_stopped).await.ok()?;
        Some(told)
    }

    /// What the links do depends on how the sites stand, and whether this process takes writes.
    fn note_members(&self, members: &Members) {
        let news = self.network.membership().note(members);
        tell_of_acceptance(&self.network, &self.spec, &self.log, news);
    }

    /// Whether this process takes no writes.
    pub(crate) fn refuses_writes(&self) -> bool {
        self.network.refuses_writes()
    }

    /// Why this process takes no writes, if it does not.
    pub(crate) fn refuses(&self) -> Option<String> {
        self.network.why_no_writes()
    }

    /// Goes on with a checkpoint, and hands the disk what nobody waits for. All records must be in
    /// the journal.
    fn save(&self) {
        let mut state = self.state.borrow_mut();
        let State { engine, storage, .. } = &mut *state;
        if let Some(storage) = storage {
            if !engine.waits() {
                engine.submit();
            }
            storage.save(engine);
        }
        let problem = engine.take_problem();
        drop(state);
        if let Some(problem) = problem {
            let (site, worker) = (self.site_name(self.address.site), self.address.worker);
            self.log.warn(format_args!(
                "{site} worker {worker}: a checkpoint failed, so its journal only grows: {}",
                in_words(&problem)
            ));
        }
        if self.has_stopped() {
            self.flush();
        }
    }

    /// Hands records to the disk. Others that are ready to run come first, so that one sync serves
    /// them all.
    async fn submit_records(&self) {
        loop {
            self.written.notified().await;
            self.state.borrow_mut().engine.submit();
            if self.has_stopped() {
                self.flush();
            }
        }
    }

    fn on_journal(&self, event: Event) {
        let mut state = self.state.borrow_mut();
        let State { engine, storage, .. } = &mut *state;
        let published = matches!(event, Event::SnapshotPublished(_));
        if let Some(storage) = storage {
            storage.on_event(engine, event);
        }
        drop(state);
        if published && self.refuses_writes() {
            // What has gone may be enough for those that share the disk, too.
            self.network.look_for_room();
        }
        self.flush();
    }

    pub(crate) fn look_for_room(&self) {
        if let Some(log) = self.state.borrow().engine.log() {
            log.look_for_room();
        }
    }

    /// Ends when the site dies.
    pub(crate) async fn death(&self) {
        let mut alive = self.alive.subscribe();
        // The sender lives as long as the worker.
        let _ = alive.wait_for(|alive| !alive).await;
    }

    fn instant(&self, at: Monotonic) -> Instant {
        self.started + Duration::from_nanos(at.0)
    }

    fn keys_by_space(&self, status: &Status<'_>) -> Vec<u64> {
        let spaces = &self.spec.spaces;
        let mut counts = vec![0; spaces.iter().len()];
        for key in status.each_key() {
            counts[spaces.place_of(key)] += 1;
        }
        counts
    }

    fn sample(&self, detailed: bool) -> WorkerSample {
        let now = self.now();
        let state = self.state.borrow();
        let status = state.engine.machine().unistore().status();
        let view = status.view();
        let entries = |vector: &solera_time::Vector| -> Vec<u64> {
            vector.entries().iter().map(|ts| ts.0).collect()
        };
        let behind = |ts: &solera_time::Timestamp| {
            now.physical.0.saturating_sub(ts.micros()) as f64 / 1000.0
        };
        let leaders: BTreeMap<PartitionId, SiteId> =
            status.leaders().map(|(partition, leader, _)| (partition, leader)).collect();
        let leader = |id| leaders.get(&id).map_or(NOBODY, |site| site.index() as u64);
        let leads = self.spec.topology().owned_by(self.address).map(leader).collect();
        WorkerSample {
            keys: status.keys(),
            size: detailed.then(|| status.versions_and_bytes()),
            connections: state.counters.connections,
            commands: state.counters.commands.clone(),
            errors: state.counters.errors,
            failed_logins: state.counters.failed_logins,
            refused_connections: state.counters.refused_connections,
            batches: state.counters.batches.to_vec(),
            batch_sum_us: state.counters.batch_sum_us,
            space_keys: if detailed { self.keys_by_space(&status) } else { Vec::new() },
            stable_vec: entries(&view.stable_vec),
            uniform_vec: entries(&view.uniform_vec),
            behind_ms: view.uniform_vec.entries().iter().map(behind).collect(),
            suspects: status.suspects().iter().map(|site| site.index()).collect(),
            open_transactions: status.open_transactions(),
            prepared_transactions: status.prepared_transactions(),
            unsettled_updates: status.unsettled_updates(),
            at_risk: status.at_risk(0).transactions,
            leads,
            strong: status.strong(),
            primary: state.primary_status(),
            ignored: state.engine.machine().ignored().to_vec(),
            serving: view.serving,
            progress: status.progress(),
            // Its files are looked at, which is too much for every status.
            journal: state
                .storage
                .as_ref()
                .zip(state.engine.log())
                .filter(|_| detailed)
                .map(|(storage, syncer)| storage.sample(syncer)),
        }
    }
}

/// No reply is waited for any more.
struct Forgotten<'a>(&'a Worker, RequestId);

impl Drop for Forgotten<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().waiting.forget(self.1);
    }
}

/// Runs a worker until it is told to stop. `started` tells when it serves, or why it cannot.
#[expect(clippy::too_many_arguments, reason = "all that a thread takes with it")]
pub(crate) fn run(
    engine: Engine,
    storage: Option<Storage>,
    spec: Arc<ClusterSpec>,
    run: Run,
    network: Arc<Network>,
    mailbox: UnboundedReceiver<Parcel>,
    started: &std::sync::mpsc::Sender<std::io::Result<()>>,
) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().event_interval(127).build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    let address = engine.machine().address();
    let users = Arc::new(spec.users.clone());
    let guarded = Cell::new(users.are_configured());
    let serving = engine.machine().serves();
    let started_at = network.clock().instant();
    let worker = Rc::new(Worker {
        address,
        spec,
        cluster: run.cluster,
        network,
        state: RefCell::new(State {
            engine,
            scans: Scans::default(),
            storage,
            refuses: false,
            waiting: Replies::default(),
            requests: run.first_number,
            outbox: BTreeMap::new(),
            jobs: Vec::new(),
            armed: None,
            counters: Counters {
                commands: vec![0; COMMANDS.len()],
                errors: 0,
                failed_logins: 0,
                connections: 0,
                refused_connections: 0,
                batches: [0; 24],
                batch_sum_us: 0,
            },
            clients: 0,
        }),
        users: watch::Sender::new(users),
        guarded,
        log: run.log.clone(),
        attempts: Attempts::new(run.log),
        serves: Cell::new(serving),
        tls: run.tls,
        wake: Notify::new(),
        written: Notify::new(),
        alive: watch::Sender::new(true),
        started: started_at,
    });
    let local = tokio::task::LocalSet::new();
    runtime.block_on(local.run_until(async {
        let submitting = worker.clone();
        spawn_local(async move { submitting.submit_records().await });
        // Before anybody can ask whether the node is ready.
        worker.tell_failure(&mut worker.state.borrow_mut());
        let listening = listen(&worker);
        let failed = listening.is_err();
        let _ = started.send(listening);
        if !failed {
            Postman::new(worker, mailbox).run().await;
        }
    }));
}

impl Worker {
    fn tell_of_joining(&self, news: &News) {
        let Address { site, worker } = self.address;
        let name = |site: usize| self.site_name(SiteId(site as u8)).to_owned();
        let worker = format!("{} worker {worker}", self.site_name(site));
        self.log.info(format_args!("{}", news.explain(&worker, name)));
    }
}
