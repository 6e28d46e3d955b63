//! Event loop of a worker: messages of other workers, control messages of the host, and deadlines.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use solera_machine::Address;
use solera_session::Ends;
use solera_site::speculative::Speculative;
use solera_site::{Input, Message};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::spawn_local;

use super::Worker;
use super::callers::serve_caller;
use super::connection::serve;
use super::listening::listen;
use crate::control::{Control, Envelope};
use crate::joining::{Fetching, Joining};

/// Time after which outputs are sent and clients run. When a protocol has more work than the worker
/// can do, clients of other protocols wait for about half a turn (`solera papers calibrate
/// --turns`).
const TURN: Duration = Duration::from_micros(25);
/// Cost of inputs after which the clock is read again.
const QUANTUM: u64 = 16;

/// Receives from the worker's mailbox, delivers due messages, and serves the machine's deadlines.
pub(super) struct EventLoop {
    worker: Rc<Worker>,
    mailbox: UnboundedReceiver<Envelope>,
    /// Messages under way, per sender, in order.
    under_way: BTreeMap<Address, VecDeque<(Instant, u32, Vec<Message>)>>,
    stopping: bool,
    /// Log lines about the progress of a joining site.
    joining: Joining,
    fetching: Fetching,
}

impl EventLoop {
    pub(super) fn new(worker: Rc<Worker>, mailbox: UnboundedReceiver<Envelope>) -> Self {
        let joining = Joining::new(worker.with(|replica| replica.status().progress()));
        let (under_way, fetching) = (BTreeMap::new(), Fetching::Idle);
        EventLoop { worker, mailbox, under_way, stopping: false, joining, fetching }
    }

    pub(super) async fn run(mut self) {
        let mut more = false;
        while !self.stopping {
            if more {
                // Timers are too coarse for work that is due now.
                tokio::task::yield_now().await;
                while let Ok(envelope) = self.mailbox.try_recv() {
                    self.take(envelope);
                }
                more = self.deliver();
                continue;
            }
            let next = self.arm();
            tokio::select! {
                biased;
                envelope = self.mailbox.recv() => match envelope {
                    Some(envelope) => self.take(envelope),
                    None => return,
                },
                () = self.worker.wake.notified() => {}
                () = self.worker.network.clock().sleep_until(next) => {}
            }
            while let Ok(envelope) = self.mailbox.try_recv() {
                self.take(envelope);
            }
            more = self.deliver();
        }
        self.worker.alive.send_replace(false);
    }

    fn is_alive(&self) -> bool {
        *self.worker.alive.borrow()
    }

    /// Returns the time at which the next message or deadline is due, and records the machine's
    /// deadline.
    fn arm(&self) -> Instant {
        let far = self.worker.network.clock().instant() + Duration::from_secs(1);
        if !self.is_alive() {
            return far;
        }
        let mut state = self.worker.state.borrow_mut();
        let deadline = state.engine.next_deadline();
        state.armed = deadline;
        let deadline = deadline.map_or(far, |deadline| self.worker.instant(deadline));
        let messages = self.under_way.values().filter_map(|link| Some(link.front()?.0));
        messages.fold(deadline.min(far), Instant::min)
    }

    fn take(&mut self, envelope: Envelope) {
        match envelope {
            Envelope::Messages { from, due, generation, messages } => {
                self.under_way.entry(from).or_default().push_back((due, generation, messages));
            }
            Envelope::Control(control) => self.handle_control(control),
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per request")]
    fn handle_control(&mut self, control: Control) {
        // Data that is in memory and in no journal must not be visible. The caller gets no answer.
        if control.reads_data() && !self.worker.answers() {
            return;
        }
        match control {
            Control::Connect(stream) => {
                spawn_local(serve(stream, self.worker.clone(), Ends::embedded(), None));
            }
            Control::Open(delegation, batches) => {
                spawn_local(serve_caller(self.worker.clone(), delegation, batches));
            }
            Control::Sample(detailed, reply) => {
                let _ = reply.send(self.worker.sample(detailed));
            }
            Control::Held(reply) => {
                let _ = reply.send(self.worker.take_held());
            }
            // The keys of a partly filled partition are not counted. The caller gets no answer.
            Control::CountKeys(_) if !self.worker.serves() => {}
            Control::CountKeys(reply) => {
                let _ = reply.send(self.worker.count_keys_here());
            }
            Control::AtRisk(keys, reply) => {
                let _ = reply.send(self.worker.at_risk_here(keys));
            }
            Control::Heard(site, reply) => {
                let heard = self.worker.with(|replica| replica.status().heard_of(site).collect());
                let _ = reply.send(heard);
            }
            Control::Sites(change, reply) => {
                let worker = self.worker.clone();
                spawn_local(async move {
                    if let Some(info) = worker.change_sites(change).await {
                        let _ = reply.send(info);
                    }
                });
            }
            Control::Occult(command, reply) => {
                let worker = self.worker.clone();
                spawn_local(async move { worker.answer_occult(command, reply).await });
            }
            Control::Bound(asked, reply) => {
                let worker = self.worker.clone();
                spawn_local(async move { worker.answer_bound(asked, reply).await });
            }
            Control::Primary(asked, reply) => {
                let worker = self.worker.clone();
                spawn_local(async move { worker.answer_primary(asked, reply).await });
            }
            Control::Speculative(asked, reply) => {
                let worker = self.worker.clone();
                spawn_local(async move { worker.answer_speculative(*asked, reply).await });
            }
            Control::Scan(ask, reply) => {
                let _ = reply.send(self.worker.scan_here(&ask));
            }
            Control::Run(task) => task(),
            Control::Configure(spec) => self.worker.configure(&spec),
            Control::Kill(done) => {
                // Messages that have arrived count as received before the site died.
                let now = self.worker.now();
                self.worker.state.borrow_mut().engine.work(now, u64::MAX);
                self.worker.alive.send_replace(false);
                self.under_way.retain(|from, _| from.site == self.worker.address.site);
                let _ = done.send(());
            }
            Control::Restart(done) => {
                self.worker.alive.send_replace(true);
                let _ = done.send(listen(&self.worker));
            }
            Control::Done(job, result) => {
                let (now, mut state) = (self.worker.now(), self.worker.state.borrow_mut());
                state.engine.take(now, Input::Done { job, result });
            }
            Control::Journal(event) => self.worker.on_journal(event),
            Control::LookForRoom => self.worker.look_for_room(),
            Control::GiveUpWaiting => self.worker.state.borrow_mut().waiting.clear(),
            Control::Stop => self.stopping = true,
        }
    }

    /// Delivers due messages, for one turn. Returns whether more work waits.
    fn deliver(&mut self) -> bool {
        if !self.is_alive() {
            self.under_way.retain(|from, _| from.site == self.worker.address.site);
            return false;
        }
        let now = self.worker.now();
        let network = &self.worker.network;
        let instant = network.clock().instant();
        let here = self.worker.address.site.index();
        let mut state = self.worker.state.borrow_mut();
        state.engine.work(now, QUANTUM);
        for (from, link) in &mut self.under_way {
            while link.front().is_some_and(|(due, ..)| *due <= instant) {
                let Some((_, generation, messages)) = link.pop_front() else { break };
                let there = from.site.index();
                // Messages that were under way when the link was cut are lost.
                if there != here && network.is_cut(there, here) {
                    continue;
                }
                for message in messages {
                    state.engine.take(now, Input::Message { from: *from, generation, message });
                }
            }
        }
        while state.engine.has_inputs()
            && network.clock().instant().saturating_duration_since(instant) < TURN
        {
            state.engine.work(now, QUANTUM);
        }
        let more = state.engine.has_inputs();
        if state.engine.on_deadline(now, || network.full_links(self.worker.address)) {
            let lacking = state.engine.machine_mut().take_lacking();
            let lacking = lacking.into_iter().filter_map(|it| self.worker.spec.node_of(it));
            lacking.for_each(|node| network.membership().note_lacking(node));
            let site = state.engine.machine();
            self.worker.note_members(site.members());
            network.membership().note_clock(site.clock());
            let serving = site.serves();
            if serving && !self.worker.serves.replace(true) {
                network.note_serves();
            }
            let news = self.joining.news(instant, site.unistore().status().progress(), serving);
            let fetched = site.creek().and_then(Speculative::fetched);
            for news in news.into_iter().chain(self.fetching.news(instant, fetched)) {
                self.worker.log_joining(&news);
            }
        }
        state.scans.forget_idle(now.monotonic);
        state.finals.expire(now.monotonic);
        drop(state);
        self.worker.flush();
        self.worker.save();
        more
    }
}
