//! One worker: a thread that owns partitions, runs the protocol's machine, and serves connections.
//!
//! | module | subject |
//! |---|---|
//! | `callers` | sessions of server-side code |
//! | `connection` | a connection: bytes in, commands, bytes out |
//! | `listening` | accepts connections of clients |
//! | `event_loop` | handles messages, control messages and deadlines |
//! | `primary`, `occult`, `speculative` | commands of `primary`, Occult and the speculative space |
//! | `replies` | requests that wait for replies |
//! | `sessions` | the worker as the context of its sessions |

mod callers;
mod connection;
mod disconnect;
mod event_loop;
mod intervals;
mod listening;
mod occult;
mod open_request;
mod primary;
mod queued;
mod replies;
mod sessions;
mod speculative;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use solera_commands::COMMANDS;
use solera_config::areas::{JOURNAL, SITES};
use solera_config::{ClusterSpec, Users};
use solera_journal::Event;
use solera_machine::{Address, Job as _, JobId, Now, PartitionId, RequestId};
use solera_membership::{Change, Members};
use solera_reservations::Reservations;
use solera_session::{Ask, Context, FinalExports, Page, ReadCounts, Scans, SitesReport};
use solera_site::{Job, Message, Output};
use solera_time::{Monotonic, SiteId};
use solera_unistore::{Replica, Response, Status};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;
use tracing::{error, info, warn};

use self::event_loop::EventLoop;
use self::listening::listen;
use self::replies::Replies;
use crate::attempts::Attempts;
use crate::control::{Control, Envelope};
use crate::joining::News;
use crate::links::log_acceptance;
use crate::membership::MembersNews;
use crate::network::{Network, NoWrites};
use crate::run::Run;
use crate::status::{NOBODY, SpeculativeStatus, WorkerSample};
use crate::storage::{Engine, Storage, in_words, is_behind, set_durability};

/// If more bytes of records than this wait for the disk, the worker reads no more commands.
const MAX_UNWRITTEN: u64 = 32 << 20;

/// State that the tasks of a worker's thread share.
pub(crate) struct Worker {
    pub(crate) address: Address,
    pub(crate) spec: Arc<ClusterSpec>,
    /// Identifies the cluster and its data in tokens.
    pub(crate) cluster: u64,
    pub(crate) network: Arc<Network>,
    state: RefCell<State>,
    users: watch::Sender<Arc<Users>>,
    /// Whether any user is configured. Every command checks this first.
    guarded: Cell<bool>,
    attempts: Attempts,
    /// See [`Self::serves`].
    serves: Cell<bool>,
    tls: Option<Arc<ArcSwap<TlsAcceptor>>>,
    /// Wakes the event loop when the protocol's next deadline has changed.
    wake: Notify,
    /// Wakes the task that submits records to the disk.
    written: Notify,
    /// Whether the site is alive; connections end when it is not.
    alive: watch::Sender<bool>,
    started: Instant,
    /// Time for which the operating system was suspended before the start, and since then.
    suspended_before: Duration,
    suspended: Cell<Duration>,
}

struct State {
    engine: Engine,
    scans: Scans,
    /// Exports of the speculative space.
    finals: FinalExports,
    /// Journal of the worker; `None` in memory.
    storage: Option<Storage>,
    /// Whether the journal rejects writes, as last reported to the network.
    refuses: bool,
    /// Sites whose results of the speculative space differ, as last reported to the log.
    differing: usize,
    waiting: Replies,
    requests: u64,
    outbox: BTreeMap<Address, Vec<Message>>,
    /// Jobs for other threads.
    jobs: Vec<(JobId, Job)>,
    armed: Option<Monotonic>,
    counters: Counters,
    clients: u64,
}

impl State {
    /// Queues a message in the outbox, passes a reply to its waiter, or queues a job.
    fn dispatch(&mut self, output: Output) {
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

/// Counters of a worker.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) commands: Vec<u64>,
    pub(crate) errors: u64,
    pub(crate) failed_logins: u64,
    pub(crate) connections: u64,
    /// Connections that were rejected.
    pub(crate) refused_connections: u64,
    /// Batches of commands by the logarithm of their duration in microseconds.
    pub(crate) batches: [u64; 24],
    /// Total duration of these batches, in microseconds.
    pub(crate) batch_sum_us: u64,
    pub(crate) reads: ReadCounts,
}

/// Shortest suspension that is noticed.
const SUSPENSION: Duration = Duration::from_millis(20);

impl Worker {
    /// Returns the time, read once for a batch of commands.
    pub(crate) fn now(&self) -> Now {
        let elapsed = self.network.clock().instant().saturating_duration_since(self.started);
        let elapsed = elapsed + self.suspended();
        let physical = self.network.wall_clock(self.address.site);
        Now { monotonic: Monotonic(elapsed.as_nanos() as u64), physical }
    }

    /// Returns the time for which the operating system was suspended since the worker started.
    /// Leases of `reservations` end meanwhile; other protocols do not depend on it.
    fn suspended(&self) -> Duration {
        if self.spec.spaces.have_bounds() {
            let suspended = self.network.clock().suspended().saturating_sub(self.suspended_before);
            // The two clocks were read at slightly different times.
            if suspended > self.suspended.get() + SUSPENSION {
                self.suspended.set(suspended);
            }
        }
        self.suspended.get()
    }

    /// Runs `action` on UniStore's machine. Must not be called from within another action.
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut Replica) -> R) -> R {
        action(self.state.borrow_mut().engine.machine_mut().unistore_mut())
    }

    /// Returns the next page of a partition of this worker; `None` while it is not available yet.
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

    /// Updates the worker's counters.
    pub(crate) fn count(&self, action: impl FnOnce(&mut Counters)) {
        action(&mut self.state.borrow_mut().counters);
    }

    /// Returns a receiver of the users, which reports each later change.
    pub(crate) fn watch_users(&self) -> watch::Receiver<Arc<Users>> {
        self.users.subscribe()
    }

    /// Applies the settings that can change while the worker runs.
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

    /// Counts and logs a client whose TLS handshake failed.
    pub(crate) fn tls_refused(&self, reason: &str, from: SocketAddr) {
        self.count(|counters| counters.refused_connections += 1);
        self.attempts.log_failed_handshake(reason, from);
    }

    /// Returns a number for a new client, unique in the cluster.
    pub(crate) fn new_client(&self) -> u64 {
        let mut state = self.state.borrow_mut();
        state.clients += 1;
        let place = u64::from(self.address.site.0) << 8 | u64::from(self.address.worker);
        state.clients << 16 | place
    }

    /// Waits for the reply to a request. Returns `None` as [`Self::call`] does.
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

    /// Carries out the machine's outputs, and wakes the event loop when its deadline has changed.
    pub(crate) fn flush(&self) {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        self.report_failure(state);
        while let Some(output) = state.engine.poll() {
            if matches!(output, Output::Records(_)) {
                self.report_failure(state);
            }
            state.dispatch(output);
        }
        while let Some(client) = state.engine.take_durable() {
            // The client may have disconnected.
            let _ = client.send(());
        }
        self.report_divergence(state);
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

    /// Runs a job on a thread of its own. The result returns through the mailbox.
    fn begin_job(&self, job: JobId, work: Job) {
        let (network, address) = (self.network.clone(), self.address);
        tokio::task::spawn_blocking(move || {
            network.control(address, Control::Done(job, work.run()));
        });
    }

    /// Reports a journal that rejects writes; the whole process then rejects them. When the journal
    /// has failed, all pending requests are dropped, those to other workers too, because their
    /// answers might never come. Whether they took effect is unknown.
    fn report_failure(&self, state: &mut State) {
        let who = || self.node_name(self.address);
        let Some(reason) = state.engine.refuses() else {
            if std::mem::take(&mut state.refuses) && self.network.withdraw_refusal(self.address) {
                info!(
                    target: JOURNAL,
                    "{} takes writes again: its disk has enough free space",
                    who()
                );
            }
            return;
        };
        if !std::mem::replace(&mut state.refuses, true) {
            let reason = in_words(reason);
            let line = format!("{} takes no writes: {reason}", who());
            // Another worker may have reported a reason earlier.
            if self.network.refuse_writes(self.address, NoWrites::Full(reason)) {
                error!(target: JOURNAL, "{line}");
            }
        }
        // Drop pending requests only after writes are rejected, so that clients that retry are
        // rejected.
        if state.engine.has_just_stopped() {
            let then = match state.engine.answers() {
                true => "later writes are in memory only",
                false => "it answers no requests until the node is restarted",
            };
            let (who, worker) = (who(), self.address.worker);
            let reason = state.engine.refuses().map_or_else(String::new, in_words);
            error!(
                target: JOURNAL,
                site = self.site_name(self.address.site),
                worker,
                reason,
                "the journal of {who}, worker {worker}, has failed: {then}: {reason}"
            );
            // The journal may have rejected writes for a lesser reason before.
            self.network.refuse_writes(self.address, NoWrites::Failed(reason));
            state.waiting.clear();
            // This arrives before everything that this worker sends from here on.
            self.network.give_up_waiting();
        }
    }

    /// Waits until everything written so far is durable, if the durability setting requires it.
    ///
    /// `had_stopped` is whether the journal had already failed before the caller's operation.
    ///
    /// # Errors
    /// The journal has failed in the meantime, so the writes may never become durable.
    pub(crate) async fn durable(&self, had_stopped: bool) -> Result<(), String> {
        let waiting = {
            let engine = &mut self.state.borrow_mut().engine;
            if engine.has_stopped() && !had_stopped {
                return Err(self.why_no_writes().unwrap_or_default());
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
        waiting.await.map_err(|_| self.why_no_writes().unwrap_or_default())
    }

    /// Waits while too many bytes wait for the disk, so that clients that write faster than the
    /// disk do not fill the memory. Work that the disk itself depends on does not wait here.
    pub(crate) async fn wait_for_disk(&self) {
        if self.is_behind(MAX_UNWRITTEN) {
            while self.is_behind(MAX_UNWRITTEN / 2) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    fn is_behind(&self, bytes: u64) -> bool {
        is_behind(&self.state.borrow().engine, bytes)
    }

    /// Returns whether the journal of this worker has failed.
    pub(crate) fn has_stopped(&self) -> bool {
        self.state.borrow().engine.has_stopped()
    }

    /// Returns whether this worker answers its clients at all.
    pub(crate) fn answers(&self) -> bool {
        self.state.borrow().engine.answers()
    }

    /// Returns whether the site has the data that it serves. A joining site copies the data first.
    pub(crate) fn serves(&self) -> bool {
        self.serves.get()
    }

    /// Changes the status of a site if `change` is given, and returns the statuses of all sites
    /// once they are durable here; `None` if they may never become durable. Must be called at the
    /// root only.
    async fn change_sites(&self, change: Option<(SiteId, Change)>) -> Option<SitesReport> {
        // Without a journal nothing can change any more, but the statuses can still be reported.
        let had_stopped = change.is_none() && self.has_stopped();
        let now = self.now();
        let report = {
            let mut state = self.state.borrow_mut();
            let machine = state.engine.machine_mut();
            let refused =
                change.and_then(|(site, change)| machine.change_members(now, site, change).err());
            let status = machine.unistore().status();
            let (members, not_agreed) =
                (status.members().clone(), status.not_agreed().or(status.not_completed_removal()));
            SitesReport { members, not_agreed, refused }
        };
        self.note_members(&report.members);
        self.flush();
        self.durable(had_stopped).await.ok()?;
        Some(report)
    }

    /// Passes the members to the process' `Membership`. Logs changes of sites, and whether this
    /// process accepts writes if that has changed. The links depend on the members' statuses.
    fn note_members(&self, members: &Members) {
        let MembersNews { accepts, changed } = self.network.membership().note(members);
        for (site, status, generation) in changed {
            let (site, status) = (self.site_name(site), status.to_string());
            info!(target: SITES, site, generation, status, "site {site} is now: {status}");
        }
        log_acceptance(&self.network, &self.spec, accepts);
    }

    /// Returns whether this process rejects writes.
    pub(crate) fn refuses_writes(&self) -> bool {
        self.network.refuses_writes()
    }

    /// Returns the reason why this process rejects writes; `None` if it accepts them.
    pub(crate) fn why_no_writes(&self) -> Option<String> {
        self.network.why_no_writes()
    }

    /// Continues a checkpoint. Submits records to the disk for which no output waits. All records
    /// must be in the journal.
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
            warn!(
                target: JOURNAL,
                site,
                worker,
                "{site} worker {worker}: a checkpoint failed, so its journal only grows: {}",
                in_words(&problem)
            );
        }
        if self.has_stopped() {
            self.flush();
        }
    }

    /// Submits records to the disk. Other ready tasks run first, so that one sync serves all of
    /// them.
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
            // Publishing a snapshot deletes old segments, which may free enough space for other
            // workers that share the disk.
            self.network.look_for_room();
        }
        self.flush();
    }

    pub(crate) fn look_for_room(&self) {
        if let Some(log) = self.state.borrow().engine.log() {
            log.look_for_room();
        }
    }

    /// Completes when the site dies.
    pub(crate) async fn death(&self) {
        let mut alive = self.alive.subscribe();
        // The sender lives as long as the worker.
        let _ = alive.wait_for(|alive| !alive).await;
    }

    fn instant(&self, at: Monotonic) -> Instant {
        self.started + Duration::from_nanos(at.0).saturating_sub(self.suspended.get())
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
            occult: state.occult_status(),
            speculative: state.engine.machine().creek().map(SpeculativeStatus::of),
            ignored: state.engine.machine().ignored().to_vec(),
            serving: view.serving,
            progress: status.progress(),
            reads: state.counters.reads,
            bounds: state.engine.machine().reservations().map(Reservations::counts),
            // Reading the directory is too expensive for every status.
            journal: state
                .storage
                .as_ref()
                .zip(state.engine.log())
                .filter(|_| detailed)
                .map(|(storage, syncer)| storage.sample(syncer)),
        }
    }
}

/// Removes a request's waiter when dropped.
struct Forgotten<'a>(&'a Worker, RequestId);

impl Drop for Forgotten<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().waiting.forget(self.1);
    }
}

/// Runs a worker until it receives [`Control::Stop`]. Reports through `started` when it serves, or
/// the reason why it cannot.
#[expect(clippy::too_many_arguments, reason = "all that a thread takes with it")]
pub(crate) fn run(
    engine: Engine,
    storage: Option<Storage>,
    spec: Arc<ClusterSpec>,
    run: Run,
    network: Arc<Network>,
    mailbox: UnboundedReceiver<Envelope>,
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
    let suspended_before = network.clock().suspended();
    let worker = Rc::new(Worker {
        address,
        spec,
        cluster: run.cluster,
        network,
        state: RefCell::new(State {
            engine,
            scans: Scans::default(),
            finals: FinalExports::default(),
            storage,
            refuses: false,
            differing: 0,
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
                reads: ReadCounts::default(),
            },
            clients: 0,
        }),
        users: watch::Sender::new(users),
        guarded,
        attempts: Attempts::default(),
        serves: Cell::new(serving),
        tls: run.tls,
        wake: Notify::new(),
        written: Notify::new(),
        alive: watch::Sender::new(true),
        started: started_at,
        suspended_before,
        suspended: Cell::default(),
    });
    let local = tokio::task::LocalSet::new();
    runtime.block_on(local.run_until(async {
        let submitting = worker.clone();
        spawn_local(async move { submitting.submit_records().await });
        // Report before anyone can request whether the node is ready.
        worker.report_failure(&mut worker.state.borrow_mut());
        let listening = listen(&worker);
        let failed = listening.is_err();
        let _ = started.send(listening);
        if !failed {
            EventLoop::new(worker, mailbox).run().await;
        }
    }));
}

impl Worker {
    fn log_joining(&self, news: &News) {
        let Address { site, worker } = self.address;
        let name = |site: usize| self.site_name(SiteId(site as u8)).to_owned();
        let name_of_worker = format!("{} worker {worker}", self.site_name(site));
        let line = news.explain(&name_of_worker, name);
        info!(target: SITES, site = self.site_name(site), worker, "{line}");
    }
}
