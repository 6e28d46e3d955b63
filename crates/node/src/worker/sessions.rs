//! The worker as the context of its sessions.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use solera_commands::CommandId;
use solera_config::{ClusterSpec, Users};
use solera_data::{OpError, Outcome};
use solera_machine::{Address, Now, RequestId};
use solera_membership::{Change, SiteStatus};
use solera_occult::Occult;
use solera_resp::Value;
use solera_session::{
    Ask, AskBound, Bound, Client, Context, Delegation, FromSpeculative, Identity, Page,
    PeerTimeout, ReadCounts, Single, SitesReport, ToPrimary, ToSpeculative, Unreachable, verify,
};
use solera_site::Input;
use solera_time::SiteId;
use solera_unistore::{AtRisk, Command, Pasts, Replica, Response};
use tokio::sync::oneshot;

use super::Worker;
use super::open_request::OpenRequest;
use crate::membership::refused_by;
use crate::modules::{Local, Sessions};

/// Timeout of a request to another node of the site.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

impl Worker {
    /// Sends UniStore's machine a command, and returns the request for its reply.
    fn submit(&self, command: Command) -> RequestId {
        let (request, now) = (self.new_request(), self.now());
        let command = command.into();
        self.state.borrow_mut().engine.handle(now, Input::Client { request, command });
        request
    }
}

impl Context for Worker {
    fn address(&self) -> Address {
        self.address
    }

    fn spec(&self) -> &Arc<ClusterSpec> {
        &self.spec
    }

    fn settings(&self) -> Arc<ClusterSpec> {
        self.network.settings()
    }

    fn cluster(&self) -> u64 {
        self.cluster
    }

    fn now(&self) -> Now {
        Worker::now(self)
    }

    fn with<R>(&self, action: impl FnOnce(&mut Replica) -> R) -> R {
        Worker::with(self, action)
    }

    fn execute_at_once(
        &self,
        now: Now,
        pasts: &mut Pasts,
        single: Single<'_>,
    ) -> Option<Result<Outcome, OpError>> {
        let Single { level, key, op, command } = single;
        let mut state = self.state.borrow_mut();
        let result = state.engine.machine_mut().execute_at_once(now, pasts, level, key, op)?;
        state.counters.commands[command as usize] += 1;
        Some(result)
    }

    fn new_request(&self) -> RequestId {
        self.state.borrow_mut().next_request()
    }

    /// Waits for a reply, with a timeout because the reply may never come. The journal of `owner`
    /// may fail. Where a site has several nodes, the owner's node may die, or a transaction whose
    /// coordinator has died may block the key.
    async fn reply_about(
        &self,
        request: RequestId,
        owner: Address,
    ) -> Result<Option<Response>, PeerTimeout> {
        let mut open = OpenRequest { worker: self, request, answered: false };
        let reply = tokio::time::timeout(PEER_TIMEOUT, self.reply_to(request)).await;
        open.answered = true;
        reply.map_err(|_| match self.network.is_here(owner) && !self.refuses_writes() {
            true => PeerTimeout("the worker that decides a transaction on the key".to_owned()),
            false => PeerTimeout(self.node_name(owner)),
        })
    }

    async fn call(&self, command: Command) -> Option<Response> {
        self.reply_to(self.submit(command)).await
    }

    async fn ask(&self, command: Command) -> Option<Response> {
        let request = self.submit(command);
        let mut open = OpenRequest { worker: self, request, answered: false };
        let response = self.reply_to(request).await;
        open.answered = true;
        response
    }

    fn send(&self, command: Command) {
        self.submit(command);
        self.flush();
    }

    async fn ask_primary(
        &self,
        worker: Address,
        asked: ToPrimary,
    ) -> Option<solera_primary::Response> {
        self.ask_primary_at(worker, asked).await
    }

    fn with_occult<R>(&self, action: impl FnOnce(&mut Occult) -> R) -> Option<R> {
        self.with_occult_here(action)
    }

    async fn ask_occult(
        &self,
        worker: Address,
        command: solera_occult::Command,
    ) -> Option<solera_occult::Response> {
        self.ask_occult_at(worker, command).await
    }

    fn send_occult(&self, command: solera_occult::Command) {
        self.send_occult_here(command);
    }

    async fn ask_speculative(&self, asked: ToSpeculative) -> Option<FromSpeculative> {
        self.ask_speculative_at_site(asked).await
    }

    async fn ask_bound(&self, worker: Address, asked: AskBound) -> Option<Bound> {
        self.ask_bound_at(worker, asked).await
    }

    fn workers(&self) -> impl Iterator<Item = Address> {
        self.network.workers_of(self.address.site)
    }

    fn reach(&self, key: &[u8]) -> Result<Address, Unreachable> {
        let owner = self.with(|replica| replica.owner_of(key));
        match self.network.link_to(owner) {
            Some(link) if !link.is_reachable() => Err(Unreachable(self.node_name(owner))),
            _ => Ok(owner),
        }
    }

    fn unreachable_neighbour(&self) -> Option<String> {
        let is_lost = |worker: &Address| {
            self.network.link_to(*worker).is_some_and(|link| !link.is_reachable())
        };
        self.workers().find(is_lost).map(|worker| self.node_name(worker))
    }

    fn process_of(&self, worker: Address) -> Option<u64> {
        self.network.process_of(worker)
    }

    async fn count_keys(&self, worker: Address) -> Option<usize> {
        match worker == self.address {
            true => Some(self.count_keys_here()),
            false => self.network.count_keys(worker).await,
        }
    }

    async fn at_risk(&self, worker: Address, keys: usize) -> Option<AtRisk> {
        match worker == self.address {
            true => Some(self.at_risk_here(keys)),
            false => self.network.at_risk(worker, keys).await,
        }
    }

    async fn leaders_at(&self, worker: Address) -> Option<Vec<u64>> {
        self.network.sample(worker, false).await.map(|sample| sample.leads)
    }

    async fn scan(&self, worker: Address, ask: Ask) -> Option<Option<Page>> {
        match worker == self.address {
            true => Some(self.scan_here(&ask)),
            false => self.network.scan(worker, ask).await,
        }
    }

    async fn sites(&self, change: Option<(SiteId, Change)>) -> Option<SitesReport> {
        self.network.sites(self.address.site, change).await
    }

    fn answering_node(&self, site: SiteId) -> Option<String> {
        let network = &self.network;
        if !matches!(network.membership().status(site), SiteStatus::Member | SiteStatus::Joining) {
            return None;
        }
        let mut links = network.workers_of(site).filter_map(|other| network.link_to(other));
        links.find(|link| link.is_whole()).map(|link| link.name.clone())
    }

    fn node_without(&self, site: SiteId) -> Option<String> {
        let here = self.spec.node_of(self.address);
        let others = self.spec.nodes().map(|(node, _)| node).filter(|node| Some(*node) != here);
        let unready = self.network.membership().without(site, others);
        unready.first().map(|node| self.spec.name_of(*node))
    }

    fn serves(&self) -> bool {
        Worker::serves(self)
    }

    fn refuses_some(&self) -> bool {
        self.refuses_writes()
            || self.network.memory().is_full()
            || !self.serves()
            || self.network.membership().is_refused()
    }

    fn refuses(&self) -> Option<String> {
        self.why_no_writes()
    }

    fn takes_no_writes(&self) -> Option<String> {
        if let Some(reason) = self.why_no_writes() {
            return Some(format!("MISCONF this node takes no writes: {reason}"));
        }
        let reason = self.refused_by_others()?;
        Some(format!("REFUSED this node takes no writes: {reason}"))
    }

    fn refused_by_others(&self) -> Option<String> {
        let (node, reason) = self.network.membership().refusal()?;
        Some(refused_by(&self.spec, node, &reason))
    }

    fn memory_used(&self) -> u64 {
        self.network.memory().used()
    }

    fn is_memory_full(&self) -> bool {
        self.network.memory().is_full()
    }

    fn is_guarded(&self) -> bool {
        self.guarded.get()
    }

    fn users(&self) -> Arc<Users> {
        self.users.borrow().clone()
    }

    fn login(
        &self,
        identity: &Identity,
        name: &[u8],
        password: &[u8],
        from: Option<SocketAddr>,
    ) -> bool {
        let user = verify(&self.users.borrow(), name, password);
        if user.is_none() {
            self.count(|counters| counters.failed_logins += 1);
            self.attempts.log_failed_login(name, from);
        }
        user.map(|user| identity.become_user(user)).is_some()
    }

    fn clients(&self) -> Vec<Arc<Client>> {
        self.network.clients(self.address.site).all()
    }

    fn client_count(&self) -> usize {
        self.network.clients(self.address.site).count()
    }

    fn count_command(&self, command: CommandId) {
        self.count(|counters| counters.commands[command as usize] += 1);
    }

    fn count_error(&self) {
        self.count(|counters| counters.errors += 1);
    }

    fn count_reads(&self, action: impl FnOnce(&mut ReadCounts)) {
        self.count(|counters| action(&mut counters.reads));
    }

    fn commands_run(&self) -> u64 {
        self.state.borrow().counters.commands.iter().sum()
    }

    fn run_modules(
        &self,
        caller: Delegation,
        request: Vec<Vec<u8>>,
    ) -> Option<oneshot::Receiver<Value>> {
        let modules = self.network.modules()?;
        // A weak reference, because the network itself holds the modules.
        let network = Arc::downgrade(&self.network);
        let sessions: Weak<dyn Sessions> = network;
        let spec = self.spec.clone();
        let local = Local::new(sessions, self.address, spec, caller);
        Some(modules.run(local, request))
    }
}
