//! State of the link between this process and one other node.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use solera_config::HostPort;
use solera_config::areas::LINKS;
use solera_links::{Frame, Handshake, Kind, Sizes, encode_batch, write_frame};
use solera_machine::{Address, NodeId};
use solera_site::Message;
use solera_time::Monotonic;
use tokio::sync::{Notify, oneshot};
use tracing::warn;

use crate::questions::{Answer, Question};
use crate::status::PeerStatus;

/// Limit of bytes queued for one node.
const QUEUE_LIMIT: usize = 64 << 20;
/// Queued bytes above which creating more updates to replicate would only cost memory.
const ENOUGH: usize = QUEUE_LIMIT / 4;
/// Approximate size of a write, into which frames are gathered.
const WRITE_SIZE: usize = 256 * 1024;

/// The link to one other node. Each of the two nodes calls the other, and sends over the connection
/// that it opened; acknowledgements and answers return on the same connection. No method waits for
/// the network.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) peer: NodeId,
    /// Name of the peer for messages.
    pub(crate) name: String,
    pub(crate) address: HostPort,
    /// Origin of the machine's clock.
    begun: Instant,
    state: Mutex<State>,
    /// Notified when there is something to send.
    pub(crate) wake: Notify,
    /// Notified when the peer has called, which shows that it can be reached.
    pub(crate) called: Notify,
}

/// A question whose answer the caller waits for.
struct Asked<'a> {
    link: &'a Link,
    number: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.link.withdraw(self.number);
    }
}

#[derive(Debug)]
struct State {
    machine: solera_links::Link<Arc<Vec<u8>>>,
    /// Whether a message was dropped since the queue was last empty.
    overflows: bool,
    problem: Option<String>,
    /// Questions that were not sent yet.
    questions: VecDeque<(u64, Vec<u8>)>,
    /// Questions that were sent and whose caller no longer waits. The peer is not notified yet.
    withdrawn: Vec<u64>,
    waiting: BTreeMap<u64, oneshot::Sender<Answer>>,
    asked: u64,
}

impl Link {
    pub(crate) fn new(peer: NodeId, name: String, address: HostPort, within_site: bool) -> Link {
        let state = State {
            machine: solera_links::Link::new(QUEUE_LIMIT, within_site),
            overflows: false,
            problem: None,
            questions: VecDeque::new(),
            withdrawn: Vec::new(),
            waiting: BTreeMap::new(),
            asked: 0,
        };
        let (state, wake, called) = (Mutex::new(state), Notify::new(), Notify::new());
        Link { peer, name, address, begun: Instant::now(), state, wake, called }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics with the lock")
    }

    fn now(&self) -> Monotonic {
        Monotonic(0).after(self.begun.elapsed())
    }

    /// Queues messages from one worker to another, in order, if [`solera_links::Link::admit`]
    /// permits it.
    pub(crate) fn send(&self, from: Address, to: Address, messages: Vec<Message>) {
        let mut state = self.state();
        let dropped = state.machine.dropped();
        if let Some(ticket) = state.machine.admit() {
            // Other workers can send while this one encodes.
            drop(state);
            let bodies = encode_batch(Sizes::default(), from, to, messages);
            state = self.state();
            for body in bodies {
                let (of, bytes) = ((body.lane, body.protocol), body.bytes.len());
                state.machine.push(ticket, of, Arc::new(body.bytes), bytes);
            }
            drop(state);
            self.wake.notify_one();
            return;
        }
        let overflows = state.machine.dropped() > dropped;
        let news = overflows && !std::mem::replace(&mut state.overflows, true);
        drop(state);
        if news {
            warn!(
                target: LINKS,
                "{} takes messages too slowly: {} MiB wait for it, and some were dropped",
                self.name,
                QUEUE_LIMIT >> 20
            );
        }
    }

    /// Returns whether the queue is so long that more updates would only cost memory.
    pub(crate) fn has_enough(&self) -> bool {
        self.state().machine.queue_bytes() >= ENOUGH
    }

    /// Sends a question to the peer, and returns its answer; `None` if the link breaks first. If
    /// the future is dropped before the answer, the question is withdrawn.
    pub(crate) async fn ask(&self, question: Question) -> Option<Answer> {
        let body = postcard::to_stdvec(&question).expect("questions have a serialised form");
        let (sender, receiver) = oneshot::channel();
        let number = {
            let mut state = self.state();
            if !state.machine.is_connected() {
                return None;
            }
            state.asked += 1;
            let number = state.asked;
            state.questions.push_back((number, body));
            state.waiting.insert(number, sender);
            number
        };
        self.wake.notify_one();
        let _asked = Asked { link: self, number };
        tokio::time::timeout(question.patience(), receiver).await.ok()?.ok()
    }

    /// Withdraws a question.
    fn withdraw(&self, number: u64) {
        let mut state = self.state();
        if state.waiting.remove(&number).is_none() {
            // The answer has arrived, or the connection broke.
            return;
        }
        let unsent = state.questions.len();
        state.questions.retain(|(other, _)| *other != number);
        if state.questions.len() == unsent {
            state.withdrawn.push(number);
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Returns the peer's incarnation, as last received.
    pub(crate) fn incarnation(&self) -> Option<u64> {
        self.state().machine.incarnation()
    }

    /// Returns whether messages travel in both directions, as far as is known.
    pub(crate) fn is_whole(&self) -> bool {
        self.state().machine.whole_since().is_some()
    }

    /// See [`solera_links::Link::is_reachable`].
    pub(crate) fn is_reachable(&self) -> bool {
        let now = self.now();
        self.state().machine.is_reachable(now)
    }

    pub(crate) fn status(&self) -> PeerStatus {
        let (now, state) = (self.now(), self.state());
        let since = state.machine.whole_since();
        PeerStatus {
            node: u16::from(self.peer.node) + 1,
            address: self.address.to_string(),
            up: since.is_some(),
            up_ms: since.map_or(0, |since| now.since(since).as_millis() as u64),
            queue_bytes: state.machine.queue_bytes(),
            dropped_batches: state.machine.dropped(),
            reconnects: state.machine.reconnects(),
            problem: state.problem.clone(),
        }
    }

    /// See [`solera_links::Link::handshake`].
    pub(crate) fn handshake(&self) -> Handshake {
        self.state().machine.handshake()
    }

    /// Notes that this node's connection is open. See [`solera_links::Link::opened`].
    pub(crate) fn opened(&self, handshake: Handshake, incarnation: u64, received: u64) -> bool {
        let (now, mut state) = (self.now(), self.state());
        let opened = state.machine.opened(now, handshake, incarnation, received);
        if opened {
            state.problem = None;
        }
        opened
    }

    /// Notes that this node's connection broke.
    pub(crate) fn closed(&self, problem: String) {
        let (now, mut state) = (self.now(), self.state());
        state.machine.closed(now);
        state.questions.clear();
        state.withdrawn.clear();
        state.waiting.clear();
        state.problem = Some(problem);
    }

    /// Notes that a call failed. Returns whether the reason is new.
    pub(crate) fn failed(&self, problem: String) -> bool {
        let mut state = self.state();
        let problem = Some(problem);
        let news = state.problem != problem;
        state.problem = problem;
        news
    }

    /// Notes that the peer called. See [`solera_links::Link::accepted`].
    pub(crate) fn accepted(&self, handshake: Handshake, incarnation: u64) -> Option<(u64, u64)> {
        let now = self.now();
        let accepted = self.state().machine.accepted(now, handshake, incarnation)?;
        self.called.notify_one();
        Some(accepted)
    }

    /// Returns whether a numbered frame of the peer's connection is new and may be delivered.
    pub(crate) fn takes(&self, connection: u64, number: u64) -> bool {
        self.state().machine.takes(connection, number)
    }

    /// Returns the number of the last frame that arrived; `None` if the peer has called again in
    /// the meantime.
    pub(crate) fn received(&self, connection: u64) -> Option<u64> {
        self.state().machine.received(connection)
    }

    /// Notes that the peer's connection broke. Returns whether it was the latest.
    pub(crate) fn hung_up(&self, connection: u64) -> bool {
        let now = self.now();
        self.state().machine.hung_up(now, connection)
    }

    /// Appends frames to send, up to about [`WRITE_SIZE`] bytes.
    pub(crate) fn gather(&self, out: &mut Vec<u8>) {
        let mut state = self.state();
        while let Some((number, body)) = state.questions.pop_front() {
            write_frame(out, Frame { kind: Kind::Ask, number, body: &body });
        }
        for number in state.withdrawn.drain(..) {
            write_frame(out, Frame { kind: Kind::Withdraw, number, body: &[] });
        }
        let mut frames: Vec<(u64, Arc<Vec<u8>>)> = Vec::new();
        let mut size = 0;
        while size < WRITE_SIZE
            && let Some(frame) = state.machine.next_frame()
        {
            size += frame.1.len();
            frames.push(frame);
        }
        if state.machine.queue_bytes() == 0 {
            state.overflows = false;
        }
        // Workers should not wait for copying and checksums.
        drop(state);
        for (number, body) in frames {
            write_frame(out, Frame { kind: Kind::Messages, number, body: &body });
        }
    }

    /// Notes that all frames up to `number` have arrived at the peer.
    pub(crate) fn acknowledged(&self, number: u64) {
        self.state().machine.acknowledge(number);
    }

    /// Passes the peer's answer to the caller of the question.
    pub(crate) fn answered(&self, number: u64, answer: Answer) {
        if let Some(waiting) = self.state().waiting.remove(&number) {
            // The caller may have stopped waiting.
            let _ = waiting.send(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use solera_links::read_frame;
    use solera_time::SiteId;
    use solera_unistore::TxId;

    use super::*;

    fn link(within_site: bool) -> Link {
        let peer = NodeId { site: SiteId(0), node: 1 };
        Link::new(peer, "it".into(), "h:1".parse().unwrap(), within_site)
    }

    fn say(link: &Link, sequence: u64) {
        let at = |worker| Address { site: SiteId(0), worker };
        let tx = TxId { coordinator: 0, sequence };
        link.send(at(0), at(1), vec![solera_unistore::Message::Abort { tx }.into()]);
    }

    /// Returns the kinds and numbers of the frames to send.
    fn frames(link: &Link) -> Vec<(Kind, u64)> {
        let mut bytes = Vec::new();
        link.gather(&mut bytes);
        let mut rest = bytes.as_slice();
        let mut frames = Vec::new();
        while let Some((frame, length)) = read_frame(rest).unwrap() {
            frames.push((frame.kind, frame.number));
            rest = &rest[length..];
        }
        frames
    }

    fn gathered(link: &Link) -> Vec<u64> {
        frames(link).into_iter().map(|(_, number)| number).collect()
    }

    #[tokio::test]
    async fn a_question_that_nobody_waits_for_is_withdrawn() {
        let link = link(true);
        assert!(link.opened(link.handshake(), 7, 0));
        let question = || Question::CountKeys { worker: 0 };
        let answer = async {
            assert_eq!(frames(&link), [(Kind::Ask, 1)]);
            link.answered(1, Answer::Keys(5));
        };
        let (found, ()) = tokio::join!(link.ask(question()), answer);
        assert_eq!(found, Some(Answer::Keys(5)));
        assert_eq!(frames(&link), [], "the question is answered");
        tokio::select! {
            biased;
            _ = link.ask(question()) => unreachable!("nobody answers"),
            () = async { assert_eq!(frames(&link), [(Kind::Ask, 2)]) } => {}
        }
        assert_eq!(frames(&link), [(Kind::Withdraw, 2)]);
        tokio::select! {
            biased;
            _ = link.ask(question()) => unreachable!("nobody answers"),
            () = async {} => {}
        }
        assert_eq!(frames(&link), [], "the question was never sent");
    }

    #[test]
    fn within_a_site_a_reconnect_loses_nothing_and_repeats_nothing() {
        let (ours, theirs) = (link(true), link(true));
        say(&ours, 0);
        assert!(ours.opened(ours.handshake(), 7, 0));
        assert_eq!(gathered(&ours), [0; 0], "the peer was not known to be reachable then");
        (1..=3).for_each(|i| say(&ours, i));
        assert_eq!(gathered(&ours), [1, 2, 3]);
        let (first, _) = theirs.accepted(theirs.handshake(), 5).unwrap();
        assert!(theirs.takes(first, 1) && theirs.takes(first, 2));
        ours.closed("cut".into());
        say(&ours, 4);
        // The peer still has the old connection open when this node calls again.
        let (second, received) = theirs.accepted(theirs.handshake(), 5).unwrap();
        assert!(!theirs.takes(first, 3) && theirs.received(first).is_none());
        assert!(ours.opened(ours.handshake(), 7, received));
        assert_eq!(gathered(&ours), [3, 4]);
        assert!(!theirs.takes(second, 2) && theirs.takes(second, 3) && theirs.takes(second, 4));
        assert!(!theirs.hung_up(first) && theirs.hung_up(second));
    }

    #[test]
    fn frames_for_an_earlier_process_are_dropped() {
        let link = link(true);
        assert!(link.opened(link.handshake(), 7, 0));
        (1..=2).for_each(|i| say(&link, i));
        link.closed("killed".into());
        say(&link, 3);
        // The result is the same if the peer calls first.
        let (connection, _) = link.accepted(link.handshake(), 8).unwrap();
        assert!(link.opened(link.handshake(), 8, 0));
        say(&link, 4);
        assert_eq!(gathered(&link), [1], "only the last is sent, which gives it its number");
        assert!(
            link.accepted(link.handshake(), 9).is_none() && !link.opened(link.handshake(), 9, 0),
            "two cannot be the same node"
        );
        link.hung_up(connection);
        link.closed("killed".into());
        let (connection, received) = link.accepted(link.handshake(), 9).unwrap();
        assert_eq!(received, 0);
        assert!(link.takes(connection, 1), "a new process counts anew");
    }

    #[test]
    fn between_sites_nothing_waits_without_a_connection() {
        let link = link(false);
        link.accepted(link.handshake(), 7).unwrap();
        say(&link, 1);
        assert!(link.opened(link.handshake(), 7, 0));
        say(&link, 2);
        link.closed("cut".into());
        say(&link, 3);
        assert_eq!(link.status().queue_bytes, 0);
        assert!(link.opened(link.handshake(), 7, 0));
        say(&link, 4);
        assert_eq!(gathered(&link), [1], "only the last is sent, which gives it its number");
        assert_eq!((link.status().reconnects, link.status().up), (1, true));
    }

    /// Sends a message of about `size` bytes.
    fn say_much(link: &Link, size: usize) {
        let message = solera_unistore::Message::Execute {
            request: solera_machine::RequestId(1),
            past: solera_time::Vector::zero(1),
            level: solera_levels::Level::Causal,
            key: solera_data::Key::from("k"),
            op: solera_data::Op::Set(solera_data::Value::from(vec![b'x'; size])),
        };
        let at = |worker| Address { site: SiteId(0), worker };
        link.send(at(0), at(1), vec![message.into()]);
    }

    #[test]
    fn a_link_between_sites_says_when_it_has_enough_and_drops_the_rest() {
        let link = link(false);
        assert!(link.opened(link.handshake(), 7, 0));
        for _ in 0..6 {
            say_much(&link, ENOUGH);
            assert!(link.has_enough());
        }
        assert_eq!((link.status().dropped_batches, gathered(&link)), (2, vec![1]));
        (2..=4).for_each(|number| assert_eq!(gathered(&link), [number]));
        assert!(!link.has_enough());
    }

    #[test]
    fn a_link_within_a_site_keeps_all_while_it_stands_and_lets_no_more_in() {
        let link = link(true);
        link.accepted(link.handshake(), 7).unwrap();
        assert!(link.opened(link.handshake(), 7, 0) && link.is_reachable());
        (0..6).for_each(|_| say_much(&link, ENOUGH));
        assert!(!link.is_reachable(), "clients get TRYAGAIN");
        assert_eq!(link.status().dropped_batches, 0);
        // Sending all six messages numbers them.
        while !gathered(&link).is_empty() {}
        link.closed("cut".into());
        say_much(&link, 1);
        assert_eq!(link.status().dropped_batches, 1);
        assert!(link.opened(link.handshake(), 7, 6));
        assert!(link.is_reachable());
        assert_eq!(gathered(&link), [0; 0]);
    }
}
