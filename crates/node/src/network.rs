//! Message routing between workers: mailboxes in this process, with delays and cuts between sites,
//! and links to other nodes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use solera_config::ClusterSpec;
use solera_machine::Address;
use solera_membership::Change;
use solera_session::{
    Ask, AskBound, Batch, Bound, Delegation, FromSpeculative, Page, SitesReport, ToPrimary,
    ToSpeculative,
};
use solera_site::Message;
use solera_time::{Physical, SiteId, Timestamp, Vector};
use solera_unistore::AtRisk;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, watch};

use crate::clients::Clients;
use crate::clock::Clock;
use crate::control::{Control, Envelope};
use crate::link::Link;
use crate::membership::Membership;
use crate::memory::Memory;
use crate::modules::{Modules, Sessions};
use crate::questions::{Answer, Question};
use crate::status::WorkerSample;

/// Location of a worker.
pub(crate) enum Destination {
    /// In this process.
    Here(UnboundedSender<Envelope>),
    /// On another node.
    There(Arc<Link>),
}

/// Message routes between the workers of a cluster, and state that the workers of this process
/// share.
pub(crate) struct Network {
    workers: Vec<Vec<Destination>>,
    /// Clock of the workers.
    clock: Clock,
    /// One-way delays in microseconds.
    delays: Vec<Vec<AtomicU64>>,
    /// Delays added by fault injection, in microseconds.
    added: Vec<Vec<AtomicU64>>,
    cut: Vec<Vec<AtomicBool>>,
    /// Time by which fault injection has shifted the clocks of each site, in microseconds.
    skews: Vec<AtomicI64>,
    /// Shards whose writes fault injection delays, with the number of the site, and the delays in
    /// milliseconds.
    slow: Mutex<BTreeMap<(usize, u16), u64>>,
    alive: Vec<AtomicBool>,
    /// Workers whose journals reject writes, with the reason. While there are any, no worker of
    /// this process accepts writes, because workers of a process usually share a disk.
    refusing: Mutex<BTreeMap<Address, NoWrites>>,
    /// Whether `refusing` has entries.
    refuses: AtomicBool,
    /// Clients of each site in this process.
    clients: Vec<Arc<Clients>>,
    /// Current configuration, which holds the settings that can change while the process runs.
    settings: ArcSwap<ClusterSpec>,
    memory: Memory,
    /// Whether this process is shutting down.
    draining: watch::Sender<bool>,
    membership: Membership,
    /// Executor of modules; unset if modules are disabled.
    modules: OnceLock<Arc<dyn Modules>>,
    /// Number of workers of this process that do not serve yet because their site is joining.
    not_serving: AtomicUsize,
}

/// Reason why a worker rejects writes. The last variant is the worst.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NoWrites {
    /// The disk has too little space.
    Full(String),
    /// The journal has failed. It writes nothing until the node is restarted.
    Failed(String),
}

impl Network {
    /// Creates the routes. `spec.wan` holds the delays between sites of this process.
    pub(crate) fn new(
        workers: Vec<Vec<Destination>>,
        spec: &ClusterSpec,
        membership: Membership,
        clock: Clock,
    ) -> Self {
        let (sites, wan) = (workers.len(), &spec.wan);
        let here = |worker: &&Destination| matches!(worker, Destination::Here(_));
        let workers_here = workers.iter().flatten().filter(here).count();
        let matrix = |value: &dyn Fn(usize, usize) -> u64| {
            (0..sites).map(|a| (0..sites).map(|b| AtomicU64::new(value(a, b))).collect()).collect()
        };
        Network {
            workers,
            clock,
            delays: matrix(&|a, b| wan.one_way(a, b).as_micros() as u64),
            added: matrix(&|_, _| 0),
            cut: (0..sites).map(|_| (0..sites).map(|_| AtomicBool::new(false)).collect()).collect(),
            skews: (0..sites).map(|_| AtomicI64::new(0)).collect(),
            slow: Mutex::default(),
            alive: (0..sites).map(|_| AtomicBool::new(true)).collect(),
            refusing: Mutex::default(),
            refuses: AtomicBool::new(false),
            clients: (0..sites).map(|_| Arc::default()).collect(),
            settings: ArcSwap::from_pointee(spec.clone()),
            memory: Memory::default(),
            draining: watch::Sender::new(false),
            not_serving: AtomicUsize::new(if membership.generation == 0 {
                0
            } else {
                workers_here
            }),
            membership,
            modules: OnceLock::new(),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Returns the executor of modules.
    pub(crate) fn modules(&self) -> Option<&Arc<dyn Modules>> {
        self.modules.get()
    }

    /// Sets the executor of modules. Only the first call has an effect.
    pub(crate) fn run_modules(&self, modules: Arc<dyn Modules>) {
        let _ = self.modules.set(modules);
    }

    /// Returns the statuses of the sites as this process knows them.
    pub(crate) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Returns the current settings.
    pub(crate) fn settings(&self) -> Arc<ClusterSpec> {
        self.settings.load_full()
    }

    /// Replaces the settings. They may differ only where settings can change.
    pub(crate) fn change_settings(&self, spec: ClusterSpec) {
        self.settings.store(Arc::new(spec));
    }

    /// Returns the memory accounting of this process.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns whether all workers of this process know that their site has the data that it
    /// serves.
    pub(crate) fn serves(&self) -> bool {
        self.not_serving.load(Ordering::Relaxed) == 0
    }

    /// Notes that one more worker serves.
    pub(crate) fn note_serves(&self) {
        self.not_serving.fetch_sub(1, Ordering::Relaxed);
    }

    /// Stops accepting clients.
    pub(crate) fn start_draining(&self) {
        self.draining.send_replace(true);
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Completes when this process shuts down.
    pub(crate) fn draining(&self) -> impl Future<Output = ()> + use<> {
        let mut draining = self.draining.subscribe();
        async move {
            if draining.wait_for(|draining| *draining).await.is_err() {
                // The sender is gone, so no shutdown can follow.
                std::future::pending().await
            }
        }
    }

    /// Stops accepting writes in this process, because of one of its workers. Returns whether the
    /// process accepted them until now.
    pub(crate) fn refuse_writes(&self, worker: Address, why: NoWrites) -> bool {
        let mut refusing = self.refusing();
        refusing.insert(worker, why);
        !self.refuses.swap(true, Ordering::Relaxed)
    }

    /// Removes a worker's reason to reject writes. Returns whether this makes the process accept
    /// writes again.
    pub(crate) fn withdraw_refusal(&self, worker: Address) -> bool {
        if !self.refuses.load(Ordering::Relaxed) {
            return false;
        }
        let mut refusing = self.refusing();
        let ends = refusing.remove(&worker).is_some() && refusing.is_empty();
        if ends {
            self.refuses.store(false, Ordering::Relaxed);
        }
        ends
    }

    fn refusing(&self) -> MutexGuard<'_, BTreeMap<Address, NoWrites>> {
        self.refusing.lock().expect("nothing panics with the lock")
    }

    /// Notifies all workers that a journal has failed and pending requests may therefore never be
    /// answered.
    pub(crate) fn give_up_waiting(&self) {
        for worker in self.all_here() {
            self.control(worker, Control::GiveUpWaiting);
        }
    }

    /// Notifies all workers that space was freed on a disk that they may share.
    pub(crate) fn look_for_room(&self) {
        for worker in self.all_here() {
            self.control(worker, Control::LookForRoom);
        }
    }

    /// Returns whether this process rejects writes.
    pub(crate) fn refuses_writes(&self) -> bool {
        self.refuses.load(Ordering::Relaxed)
    }

    /// Returns the worst reason to reject writes as text; `None` if this process accepts them.
    pub(crate) fn why_no_writes(&self) -> Option<String> {
        self.no_writes().map(|why| match why {
            NoWrites::Full(reason) => reason,
            NoWrites::Failed(reason) => {
                format!("the journal has failed: {reason}; repair the cause, then restart the node")
            }
        })
    }

    /// Returns the worst reason to reject writes; `None` if this process accepts them.
    pub(crate) fn no_writes(&self) -> Option<NoWrites> {
        if !self.refuses_writes() {
            return None;
        }
        // A failure that only a restart repairs has priority.
        self.refusing().values().max().cloned()
    }

    /// Sends messages. Messages between sites take time, and are lost on a cut link or when the
    /// receiver is dead; the protocol recovers from that.
    pub(crate) fn send(&self, from: Address, to: Address, messages: Vec<Message>) {
        self.deliver(from, self.membership.generation, to, messages);
    }

    /// Sends messages on behalf of another node, whose site has the generation `generation`.
    pub(crate) fn deliver(
        &self,
        from: Address,
        generation: u32,
        to: Address,
        messages: Vec<Message>,
    ) {
        let mailbox = match self.destination(to) {
            Destination::Here(mailbox) => mailbox,
            Destination::There(link) => return link.send(from, to, messages),
        };
        let (a, b) = (from.site.index(), to.site.index());
        let mut due = self.clock.instant();
        if a != b && matches!(self.destination(from), Destination::Here(_)) {
            if self.is_cut(a, b) || !self.is_alive(a) || !self.is_alive(b) {
                return;
            }
            due += self.delay(a, b);
        }
        // A mailbox without a worker belongs to a cluster that is stopping.
        let _ = mailbox.send(Envelope::Messages { from, due, generation, messages });
    }

    /// Sends a control message to a worker of this process. Workers of other nodes get none.
    pub(crate) fn control(&self, to: Address, control: Control) {
        if let Destination::Here(mailbox) = self.destination(to) {
            let _ = mailbox.send(Envelope::Control(control));
        }
    }

    /// Returns a worker's sample, wherever it runs; `None` if it cannot be reached.
    pub(crate) async fn sample(&self, worker: Address, detailed: bool) -> Option<WorkerSample> {
        let order = |reply| Control::Sample(detailed, reply);
        let question = Question::Sample { worker: worker.worker, detailed };
        self.ask(worker, order, question, |answer| match answer {
            Answer::Sample(sample) => Some(*sample),
            _ => None,
        })
        .await
    }

    /// Returns the number of keys of a worker, wherever it runs; `None` if it cannot be reached.
    pub(crate) async fn count_keys(&self, worker: Address) -> Option<usize> {
        let question = Question::CountKeys { worker: worker.worker };
        self.ask(worker, Control::CountKeys, question, |answer| match answer {
            Answer::Keys(keys) => usize::try_from(keys).ok(),
            _ => None,
        })
        .await
    }

    /// Returns the transactions of a worker that the loss of sites could still undo, wherever it
    /// runs; `None` if it cannot be reached.
    pub(crate) async fn at_risk(&self, worker: Address, keys: usize) -> Option<AtRisk> {
        let order = |reply| Control::AtRisk(keys, reply);
        let question = Question::AtRisk { worker: worker.worker, keys: keys as u64 };
        self.ask(worker, order, question, |answer| match answer {
            Answer::AtRisk(at_risk) => Some(at_risk),
            _ => None,
        })
        .await
    }

    /// Returns the times that each worker of a site has sent to the workers of this process; see
    /// [`solera_unistore::Status::heard_of`].
    pub(crate) async fn heard_of(&self, site: SiteId) -> Vec<(Address, Timestamp)> {
        let mut heard = Vec::new();
        let me = self.all_here().filter(|worker| worker.site != site);
        for worker in me.collect::<Vec<_>>() {
            let (sender, receiver) = oneshot::channel();
            self.control(worker, Control::Heard(site, sender));
            heard.extend(receiver.await.unwrap_or_default());
        }
        heard
    }

    /// Returns the report of the root of a site's workers about the sites, after applying `change`;
    /// `None` if it cannot be reached.
    pub(crate) async fn sites(
        &self,
        site: SiteId,
        change: Option<(SiteId, Change)>,
    ) -> Option<SitesReport> {
        let root = Address { site, worker: 0 };
        let (order, question) = (|reply| Control::Sites(change, reply), Question::Sites { change });
        self.ask(root, order, question, |answer| match answer {
            Answer::Sites(report) => Some(*report),
            _ => None,
        })
        .await
    }

    /// Returns the next page of a partition of a worker, wherever it runs; `Some(None)` while the
    /// worker cannot read it yet, `None` if it cannot be reached.
    pub(crate) async fn scan(&self, worker: Address, ask: Ask) -> Option<Option<Page>> {
        let question = Question::Scan { worker: worker.worker, ask: Box::new(ask.clone()) };
        self.ask(
            worker,
            |reply| Control::Scan(ask, reply),
            question,
            |answer| match answer {
                Answer::Scan(page) if page.as_ref().is_none_or(Page::is_sound) => Some(page),
                _ => None,
            },
        )
        .await
    }

    /// Returns the reply of `primary` at a worker of this process' sites, wherever it runs; `None`
    /// if no reply comes.
    pub(crate) async fn ask_primary(
        &self,
        worker: Address,
        asked: ToPrimary,
    ) -> Option<solera_primary::Response> {
        let question = Question::Primary { worker: worker.worker, asked: Box::new(asked.clone()) };
        let order = |reply| Control::Primary(asked, reply);
        self.ask(worker, order, question, |answer| match answer {
            Answer::Primary(response) => Some(*response),
            _ => None,
        })
        .await
    }

    /// Sends a request to the machine of the speculative space at a worker of this process' sites,
    /// wherever it runs; returns `None` if no reply comes.
    pub(crate) async fn ask_speculative(
        &self,
        worker: Address,
        asked: ToSpeculative,
    ) -> Option<FromSpeculative> {
        let asked = Box::new(asked);
        let question = Question::Speculative { worker: worker.worker, asked: asked.clone() };
        let order = |reply| Control::Speculative(asked, reply);
        self.ask(worker, order, question, |answer| match answer {
            Answer::Speculative(answer) => Some(*answer),
            _ => None,
        })
        .await
    }

    /// Reads the interval or the holders of a counter at a worker of this process' sites, wherever
    /// it runs; `None` if no reply comes.
    pub(crate) async fn ask_bound(&self, worker: Address, asked: AskBound) -> Option<Bound> {
        let question = Question::Bound { worker: worker.worker, asked: Box::new(asked.clone()) };
        let order = |reply| Control::Bound(asked, reply);
        self.ask(worker, order, question, |answer| match answer {
            Answer::Bound(answer) => Some(*answer),
            _ => None,
        })
        .await
    }

    /// Returns the reply of Occult at a worker of this process' sites, wherever it runs; `None` if
    /// no reply comes.
    pub(crate) async fn ask_occult(
        &self,
        worker: Address,
        command: solera_occult::Command,
    ) -> Option<solera_occult::Response> {
        let asked = Box::new(command.clone());
        let question = Question::Occult { worker: worker.worker, command: asked };
        let order = |reply| Control::Occult(command, reply);
        self.ask(worker, order, question, |answer| match answer {
            Answer::Occult(response) => Some(*response),
            _ => None,
        })
        .await
    }

    /// Returns the number of the process that runs a worker. Numbers are not reused; 0 is this
    /// process. Returns `None` if no message of that process has arrived yet.
    pub(crate) fn process_of(&self, worker: Address) -> Option<u64> {
        self.link_to(worker).map_or(Some(0), Link::incarnation)
    }

    /// Asks a worker: by a control message in this process, or by a question over a link.
    async fn ask<R>(
        &self,
        worker: Address,
        order: impl FnOnce(oneshot::Sender<R>) -> Control,
        question: Question,
        read: impl FnOnce(Answer) -> Option<R>,
    ) -> Option<R> {
        match self.destination(worker) {
            Destination::Here(_) => {
                let (sender, receiver) = oneshot::channel();
                self.control(worker, order(sender));
                receiver.await.ok()
            }
            Destination::There(link) => read(link.ask(question).await?),
        }
    }

    /// Returns the clients of a site in this process.
    pub(crate) fn clients(&self, site: SiteId) -> &Arc<Clients> {
        &self.clients[site.index()]
    }

    /// Returns whether a vector has no entries beyond the cluster's sites.
    pub(crate) fn is_valid(&self, vector: &Vector) -> bool {
        vector.is_within(self.workers.len())
    }

    /// Returns whether the site exists.
    pub(crate) fn has_site(&self, site: SiteId) -> bool {
        site.index() < self.workers.len()
    }

    /// Returns every worker of a site.
    pub(crate) fn workers_of(&self, site: SiteId) -> impl Iterator<Item = Address> + use<> {
        let workers = self.workers[site.index()].len();
        (0..workers).map(move |worker| Address { site, worker: worker as u8 })
    }

    /// Returns the workers of a site that run in this process.
    pub(crate) fn workers_here(&self, site: SiteId) -> impl Iterator<Item = Address> + '_ {
        self.workers_of(site).filter(|worker| self.is_here(*worker))
    }

    /// Returns all workers that run in this process.
    pub(crate) fn all_here(&self) -> impl Iterator<Item = Address> + '_ {
        SiteId::all(self.workers.len()).flat_map(|site| self.workers_here(site))
    }

    /// Returns whether a worker runs in this process. A worker that does not exist runs nowhere.
    pub(crate) fn is_here(&self, worker: Address) -> bool {
        let site = self.workers.get(worker.site.index());
        let destination = site.and_then(|site| site.get(usize::from(worker.worker)));
        matches!(destination, Some(Destination::Here(_)))
    }

    /// Returns the link to a worker on another node; `None` if it runs here.
    pub(crate) fn link_to(&self, worker: Address) -> Option<&Link> {
        match self.destination(worker) {
            Destination::Here(_) => None,
            Destination::There(link) => Some(link),
        }
    }

    /// Returns the workers of other sites whose links have long queues.
    pub(crate) fn full_links(&self, from: Address) -> Vec<Address> {
        let sites = SiteId::all(self.workers.len()).filter(|site| *site != from.site);
        let is_full = |worker: &Address| self.link_to(*worker).is_some_and(Link::has_enough);
        sites.flat_map(|site| self.workers_of(site)).filter(is_full).collect()
    }

    fn destination(&self, worker: Address) -> &Destination {
        &self.workers[worker.site.index()][usize::from(worker.worker)]
    }

    pub(crate) fn delay(&self, a: usize, b: usize) -> Duration {
        let micros =
            self.delays[a][b].load(Ordering::Relaxed) + self.added[a][b].load(Ordering::Relaxed);
        Duration::from_micros(micros)
    }

    pub(crate) fn add_delay(&self, a: usize, b: usize, one_way: Duration) {
        for (a, b) in [(a, b), (b, a)] {
            self.added[a][b].store(one_way.as_micros() as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn set_cut(&self, a: usize, b: usize, cut: bool) {
        self.cut[a][b].store(cut, Ordering::Relaxed);
        self.cut[b][a].store(cut, Ordering::Relaxed);
    }

    pub(crate) fn is_cut(&self, a: usize, b: usize) -> bool {
        self.cut[a][b].load(Ordering::Relaxed)
    }

    /// Shifts the clocks that the workers of a site read; 0 ends that.
    pub(crate) fn set_skew(&self, site: usize, micros: i64) {
        self.skews[site].store(micros, Ordering::Relaxed);
    }

    /// Returns the time by which the clocks of a site are shifted, in microseconds.
    pub(crate) fn skew(&self, site: usize) -> i64 {
        self.skews[site].load(Ordering::Relaxed)
    }

    /// Notes that a site shows the writes of a shard this many milliseconds late; 0 ends that.
    pub(crate) fn note_slow(&self, site: usize, shard: u16, ms: u64) {
        let mut slow = self.slow.lock().expect("nothing panics with the lock");
        match ms {
            0 => slow.remove(&(site, shard)),
            _ => slow.insert((site, shard), ms),
        };
    }

    /// Returns the slow shards of a site, and their delays in milliseconds.
    pub(crate) fn slow_shards(&self, site: usize) -> BTreeMap<u16, u64> {
        let slow = self.slow.lock().expect("nothing panics with the lock");
        let here = slow.iter().filter(|((of, _), _)| *of == site);
        here.map(|((_, shard), ms)| (*shard, *ms)).collect()
    }

    /// Returns the time of the wall clock of a site's workers.
    pub(crate) fn wall_clock(&self, site: SiteId) -> Physical {
        let Physical(micros) = self.clock.physical();
        Physical(micros.saturating_add_signed(self.skew(site.index())))
    }

    pub(crate) fn set_alive(&self, site: usize, alive: bool) {
        self.alive[site].store(alive, Ordering::SeqCst);
    }

    pub(crate) fn is_alive(&self, site: usize) -> bool {
        self.alive[site].load(Ordering::SeqCst)
    }
}

impl Sessions for Network {
    fn settings(&self) -> Arc<ClusterSpec> {
        Network::settings(self)
    }

    fn open(&self, worker: Address, delegation: Delegation, batches: UnboundedReceiver<Batch>) {
        self.control(worker, Control::Open(delegation, batches));
    }
}

#[cfg(test)]
mod tests {
    use solera_links::NodeRole;
    use solera_membership::Members;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::peers::Peers;

    #[test]
    fn a_failed_journal_is_the_reason_before_a_full_disk() {
        let spec = ClusterSpec::local(1).unwrap();
        let role = NodeRole { site: Some(SiteId(0)), durable: true, generation: 0 };
        let membership = Membership::new(Members::new(1), role, Peers::default());
        let here = || Destination::Here(unbounded_channel().0);
        let network =
            Network::new(vec![vec![here(), here(), here()]], &spec, membership, Clock::system());
        let worker = |worker| Address { site: SiteId(0), worker };
        assert_eq!(network.why_no_writes(), None);
        // The order of the reasons is neither that of the workers nor that of their texts.
        assert!(network.refuse_writes(worker(0), NoWrites::Full("a full disk".to_owned())));
        assert!(!network.refuse_writes(worker(1), NoWrites::Failed("a broken disk".to_owned())));
        assert!(!network.refuse_writes(worker(2), NoWrites::Full("the disk is full".to_owned())));
        let failed =
            "the journal has failed: a broken disk; repair the cause, then restart the node";
        assert_eq!(network.why_no_writes().as_deref(), Some(failed));
        assert!(!network.withdraw_refusal(worker(1)), "the disk is full");
        assert_eq!(network.why_no_writes().as_deref(), Some("the disk is full"));
        assert!(!network.withdraw_refusal(worker(2)) && network.withdraw_refusal(worker(0)));
        assert_eq!(network.why_no_writes(), None);
    }
}
