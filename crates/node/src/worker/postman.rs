//! What reaches a worker: messages of other workers and orders of the host, and time.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use solera_machine::Address;
use solera_session::Ends;
use solera_site::{Input, Message};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::spawn_local;

use super::Worker;
use super::callers::serve_caller;
use super::connection::serve;
use super::listening::listen;
use crate::control::{Control, Parcel};
use crate::joining::Joining;

/// After how long what inputs lead to leaves, and clients have their turn. Where a protocol has
/// more to do than the worker can, other clients wait for about half of it
/// (`solera papers calibrate --turns`).
const TURN: Duration = Duration::from_micros(25);
/// What inputs may cost before the clock is read again.
const QUANTUM: u64 = 16;

/// Empties the worker's mailbox, delivers what is due, and keeps the machine's deadlines.
pub(super) struct Postman {
    worker: Rc<Worker>,
    mailbox: UnboundedReceiver<Parcel>,
    /// Messages under way, per sender, in order.
    under_way: BTreeMap<Address, VecDeque<(Instant, u32, Vec<Message>)>>,
    stopping: bool,
    /// What the log says of it if its site joins.
    joining: Joining,
}

impl Postman {
    pub(super) fn new(worker: Rc<Worker>, mailbox: UnboundedReceiver<Parcel>) -> Self {
        let joining = Joining::new(worker.with(|replica| replica.status().progress()));
        Postman { worker, mailbox, under_way: BTreeMap::new(), stopping: false, joining }
    }

    pub(super) async fn run(mut self) {
        let mut more = false;
        while !self.stopping {
            if more {
                // Timers are too coarse to wait for what is due now.
                tokio::task::yield_now().await;
                while let Ok(parcel) = self.mailbox.try_recv() {
                    self.take(parcel);
                }
                more = self.deliver();
                continue;
            }
            let next = self.arm();
            tokio::select! {
                biased;
                parcel = self.mailbox.recv() => match parcel {
                    Some(parcel) => self.take(parcel),
                    None => return,
                },
                () = self.worker.wake.notified() => {}
                () = self.worker.network.clock().sleep_until(next) => {}
            }
            while let Ok(parcel) = self.mailbox.try_recv() {
                self.take(parcel);
            }
            more = self.deliver();
        }
        self.worker.alive.send_replace(false);
    }

    fn is_alive(&self) -> bool {
        *self.worker.alive.borrow()
    }

    /// When the next message or deadline is due.
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

    fn take(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::Messages { from, due, life, messages } => {
                self.under_way.entry(from).or_default().push_back((due, life, messages));
            }
            Parcel::Control(control) => self.obey(control),
        }
    }

    fn obey(&mut self, control: Control) {
        // What is in memory and in no journal nobody may see; who asks is told that none answers.
        if control.asks_about_data() && !self.worker.answers() {
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
            // What is there in part is not counted: whoever asked is told that there is no answer.
            Control::CountKeys(_) if !self.worker.serves() => {}
            Control::CountKeys(reply) => {
                let now = self.worker.now();
                let _ = reply.send(self.worker.with(|replica| replica.count_keys(now)));
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
                    if let Some(told) = worker.change_sites(change).await {
                        let _ = reply.send(told);
                    }
                });
            }
            Control::Primary(asked, reply) => {
                let worker = self.worker.clone();
                spawn_local(async move { worker.answer_primary(asked, reply).await });
            }
            Control::Scan(ask, reply) => {
                let _ = reply.send(self.worker.scan_here(&ask));
            }
            Control::Run(task) => task(),
            Control::Configure(spec) => self.worker.configure(&spec),
            Control::Kill(done) => {
                // What has arrived was received before.
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

    /// Delivers what is due, for one turn. Returns whether more waits.
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
                let Some((_, life, messages)) = link.pop_front() else { break };
                let there = from.site.index();
                // What was under way when the link was cut is lost.
                if there != here && network.is_cut(there, here) {
                    continue;
                }
                for message in messages {
                    state.engine.take(now, Input::Message { from: *from, life, message });
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
            if let Some(news) = news {
                self.worker.tell_of_joining(&news);
            }
        }
        state.scans.forget_idle(now.monotonic);
        drop(state);
        self.worker.flush();
        self.worker.save();
        more
    }
}
