//! How workers reach one another: mailboxes in this process, with delays and cuts between sites,
//! and links to other nodes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use solera_config::ClusterSpec;
use solera_machine::Address;
use solera_membership::Change;
use solera_session::{Ask, Batch, Delegation, Page, SitesReport, ToPrimary};
use solera_site::Message;
use solera_time::{SiteId, Timestamp, Vector};
use solera_unistore::AtRisk;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{oneshot, watch};

use crate::clients::Clients;
use crate::clock::Clock;
use crate::control::{Control, Parcel};
use crate::current::Current;
use crate::link::Link;
use crate::membership::Membership;
use crate::memory::Memory;
use crate::modules::{Modules, Sessions};
use crate::questions::{Answer, Question};
use crate::status::WorkerSample;

/// Where a worker is.
pub(crate) enum Destination {
    /// In this process.
    Here(UnboundedSender<Parcel>),
    /// On another node.
    There(Arc<Link>),
}

/// How a cluster's workers reach one another.
pub(crate) struct Network {
    workers: Vec<Vec<Destination>>,
    /// What the workers read the time from.
    clock: Clock,
    /// One-way delays in microseconds.
    delays: Vec<Vec<AtomicU64>>,
    /// Delays added by faults, in microseconds.
    added: Vec<Vec<AtomicU64>>,
    cut: Vec<Vec<AtomicBool>>,
    alive: Vec<AtomicBool>,
    /// Workers whose journals take no writes, and why. Then none of this process takes any: they
    /// share its disks, more often than not.
    refusing: Mutex<BTreeMap<Address, NoWrites>>,
    /// Whether there are any.
    refuses: AtomicBool,
    /// The clients of each site in this process.
    clients: Vec<Arc<Clients>>,
    /// The configuration as of now: what can change while the process runs is read here.
    settings: Current<ClusterSpec>,
    memory: Memory,
    /// Whether this process is about to leave.
    draining: watch::Sender<bool>,
    membership: Membership,
    /// What runs modules, if anything does.
    modules: OnceLock<Arc<dyn Modules>>,
    /// How many workers of this process do not serve yet, because their site joins.
    not_serving: AtomicUsize,
}

/// Why a worker takes no writes. The last is the worst.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NoWrites {
    /// Its disk has too little room.
    Full(String),
    /// Its journal has failed: it writes nothing until the node starts again.
    Failed(String),
}

impl Network {
    /// Its `wan` is how long messages take between sites of this process.
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
            alive: (0..sites).map(|_| AtomicBool::new(true)).collect(),
            refusing: Mutex::default(),
            refuses: AtomicBool::new(false),
            clients: (0..sites).map(|_| Arc::default()).collect(),
            settings: Current::new(spec.clone()),
            memory: Memory::default(),
            draining: watch::Sender::new(false),
            not_serving: AtomicUsize::new(if membership.life == 0 { 0 } else { workers_here }),
            membership,
            modules: OnceLock::new(),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What runs modules.
    pub(crate) fn modules(&self) -> Option<&Arc<dyn Modules>> {
        self.modules.get()
    }

    /// Has modules run from now on. Only the first call counts.
    pub(crate) fn run_modules(&self, modules: Arc<dyn Modules>) {
        let _ = self.modules.set(modules);
    }

    /// What is known of the sites' standings.
    pub(crate) fn membership(&self) -> &Membership {
        &self.membership
    }

    /// The settings as of now.
    pub(crate) fn settings(&self) -> Arc<ClusterSpec> {
        self.settings.get()
    }

    /// These are the settings from now on. They differ only in what can change.
    pub(crate) fn change_settings(&self, spec: ClusterSpec) {
        self.settings.set(spec);
    }

    /// What this process takes of the machine's memory.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whether all workers of this process know that their site has the data that it serves.
    pub(crate) fn serves(&self) -> bool {
        self.not_serving.load(Ordering::Relaxed) == 0
    }

    /// One more knows.
    pub(crate) fn note_serves(&self) {
        self.not_serving.fetch_sub(1, Ordering::Relaxed);
    }

    /// From now on this process takes no clients.
    pub(crate) fn start_draining(&self) {
        self.draining.send_replace(true);
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Ends when this process is about to leave.
    pub(crate) fn draining(&self) -> impl Future<Output = ()> + use<> {
        let mut draining = self.draining.subscribe();
        async move {
            if draining.wait_for(|draining| *draining).await.is_err() {
                // Nobody will ever say so.
                std::future::pending().await
            }
        }
    }

    /// From now on this process takes no writes, for a reason of one of its workers. Returns
    /// whether it took them until now.
    pub(crate) fn refuse_writes(&self, worker: Address, why: NoWrites) -> bool {
        let mut refusing = self.refusing();
        refusing.insert(worker, why);
        !self.refuses.swap(true, Ordering::Relaxed)
    }

    /// A worker has no reason any more to take no writes. Returns whether this process takes them
    /// from now on, and did not until now.
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

    /// The journal of a worker has failed, and what others have asked of it may never be answered.
    pub(crate) fn give_up_waiting(&self) {
        for worker in self.all_here() {
            self.control(worker, Control::GiveUpWaiting);
        }
    }

    /// Something has gone from a disk that workers of this process may share.
    pub(crate) fn look_for_room(&self) {
        for worker in self.all_here() {
            self.control(worker, Control::LookForRoom);
        }
    }

    /// Whether this process takes no writes.
    pub(crate) fn refuses_writes(&self) -> bool {
        self.refuses.load(Ordering::Relaxed)
    }

    /// Why it does not, in words: the worst reason of its workers.
    pub(crate) fn why_no_writes(&self) -> Option<String> {
        self.no_writes().map(|why| match why {
            NoWrites::Full(reason) => reason,
            NoWrites::Failed(reason) => {
                format!("the journal has failed: {reason}; mend that, then start the node again")
            }
        })
    }

    /// Why this process takes no writes, if it does not: the worst reason of its workers.
    pub(crate) fn no_writes(&self) -> Option<NoWrites> {
        if !self.refuses_writes() {
            return None;
        }
        // What only a restart helps against comes first.
        self.refusing().values().max().cloned()
    }

    /// Hands messages over. Between sites they take their time, and are lost on a cut link or when
    /// the receiver is dead: the protocol recovers by itself.
    pub(crate) fn send(&self, from: Address, to: Address, messages: Vec<Message>) {
        self.deliver(from, self.membership.life, to, messages);
    }

    /// The same for what comes from a node of that life of its site.
    pub(crate) fn deliver(&self, from: Address, life: u32, to: Address, messages: Vec<Message>) {
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
        let _ = mailbox.send(Parcel::Messages { from, due, life, messages });
    }

    /// Gives a worker of this process an order. Workers of other nodes take none.
    pub(crate) fn control(&self, to: Address, control: Control) {
        if let Destination::Here(mailbox) = self.destination(to) {
            let _ = mailbox.send(Parcel::Control(control));
        }
    }

    /// What a worker tells about itself, wherever it is. `None` if it cannot be reached.
    pub(crate) async fn sample(&self, worker: Address, detailed: bool) -> Option<WorkerSample> {
        let order = |reply| Control::Sample(detailed, reply);
        let question = Question::Sample { worker: worker.worker, detailed };
        self.ask(worker, order, question, |answer| match answer {
            Answer::Sample(sample) => Some(*sample),
            _ => None,
        })
        .await
    }

    /// How many keys a worker has, wherever it is. `None` if it cannot be reached.
    pub(crate) async fn count_keys(&self, worker: Address) -> Option<usize> {
        let question = Question::CountKeys { worker: worker.worker };
        self.ask(worker, Control::CountKeys, question, |answer| match answer {
            Answer::Keys(keys) => usize::try_from(keys).ok(),
            _ => None,
        })
        .await
    }

    /// What the loss of sites could still undo at a worker, wherever it is. `None` if it cannot be
    /// reached.
    pub(crate) async fn at_risk(&self, worker: Address, keys: usize) -> Option<AtRisk> {
        let order = |reply| Control::AtRisk(keys, reply);
        let question = Question::AtRisk { worker: worker.worker, keys: keys as u64 };
        self.ask(worker, order, question, |answer| match answer {
            Answer::AtRisk(at_risk) => Some(at_risk),
            _ => None,
        })
        .await
    }

    /// What each worker of a site has told those of this process; see
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

    /// What the root of a site's workers knows of the sites, after it has changed what is asked
    /// for. `None` if it cannot be reached.
    pub(crate) async fn sites(
        &self,
        site: SiteId,
        change: Option<(SiteId, Change)>,
    ) -> Option<SitesReport> {
        let root = Address { site, worker: 0 };
        let (order, question) = (|reply| Control::Sites(change, reply), Question::Sites { change });
        self.ask(root, order, question, |answer| match answer {
            Answer::Sites(told) => Some(*told),
            _ => None,
        })
        .await
    }

    /// The next page of a partition that a worker has, wherever it is; `Some(None)` while it cannot
    /// tell yet. `None` if it cannot be reached.
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

    /// What `primary` replies at a worker of this process' sites, wherever it is. `None` if there
    /// is no reply.
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

    /// Which process runs a worker, as a number that is not used again; 0 for this one. `None` if
    /// it was never heard of.
    pub(crate) fn process_of(&self, worker: Address) -> Option<u64> {
        self.link_to(worker).map_or(Some(0), Link::incarnation)
    }

    /// Asks a worker: by an order in this process, or by a question over a link.
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

    /// The clients of a site in this process.
    pub(crate) fn clients(&self, site: SiteId) -> &Arc<Clients> {
        &self.clients[site.index()]
    }

    /// Whether a vector is about these sites.
    pub(crate) fn fits(&self, vector: &Vector) -> bool {
        vector.is_within(self.workers.len())
    }

    /// Whether there is such a site.
    pub(crate) fn has_site(&self, site: SiteId) -> bool {
        site.index() < self.workers.len()
    }

    /// Every worker of a site.
    pub(crate) fn workers_of(&self, site: SiteId) -> impl Iterator<Item = Address> + use<> {
        let workers = self.workers[site.index()].len();
        (0..workers).map(move |worker| Address { site, worker: worker as u8 })
    }

    /// The workers of a site that run in this process.
    pub(crate) fn workers_here(&self, site: SiteId) -> impl Iterator<Item = Address> + '_ {
        self.workers_of(site).filter(|worker| self.is_here(*worker))
    }

    /// All workers that run in this process.
    pub(crate) fn all_here(&self) -> impl Iterator<Item = Address> + '_ {
        SiteId::all(self.workers.len()).flat_map(|site| self.workers_here(site))
    }

    /// Whether a worker runs in this process. One that does not exist runs nowhere.
    pub(crate) fn is_here(&self, worker: Address) -> bool {
        let site = self.workers.get(worker.site.index());
        let destination = site.and_then(|site| site.get(usize::from(worker.worker)));
        matches!(destination, Some(Destination::Here(_)))
    }

    /// The link that leads to a worker on another node.
    pub(crate) fn link_to(&self, worker: Address) -> Option<&Link> {
        match self.destination(worker) {
            Destination::Here(_) => None,
            Destination::There(link) => Some(link),
        }
    }

    /// The workers of other sites to which enough is under way over their links.
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
    use solera_links::Place;
    use solera_membership::Members;
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::peers::Peers;

    #[test]
    fn a_failed_journal_is_the_reason_before_a_full_disk() {
        let spec = ClusterSpec::local(1).unwrap();
        let place = Place { site: Some(SiteId(0)), durable: true, life: 0 };
        let membership = Membership::new(Members::new(1), place, Peers::default());
        let here = || Destination::Here(unbounded_channel().0);
        let network =
            Network::new(vec![vec![here(), here(), here()]], &spec, membership, Clock::system());
        let worker = |worker| Address { site: SiteId(0), worker };
        assert_eq!(network.why_no_writes(), None);
        // The order of the reasons is neither that of the workers nor that of their words.
        assert!(network.refuse_writes(worker(0), NoWrites::Full("a full disk".to_owned())));
        assert!(!network.refuse_writes(worker(1), NoWrites::Failed("a broken disk".to_owned())));
        assert!(!network.refuse_writes(worker(2), NoWrites::Full("the disk is full".to_owned())));
        let failed = "the journal has failed: a broken disk; mend that, then start the node again";
        assert_eq!(network.why_no_writes().as_deref(), Some(failed));
        assert!(!network.withdraw_refusal(worker(1)), "the disk is full");
        assert_eq!(network.why_no_writes().as_deref(), Some("the disk is full"));
        assert!(!network.withdraw_refusal(worker(2)) && network.withdraw_refusal(worker(0)));
        assert_eq!(network.why_no_writes(), None);
    }
}
