//! One node's state of its connections to another node.

use std::collections::BTreeSet;
use std::time::Duration;

use solera_machine::Lane;
use solera_time::Monotonic;

use crate::queue::Queue;

/// Time for which a link that broke still counts as reachable, because it may soon be restored.
const GRACE: Duration = Duration::from_secs(1);

/// The link to one other node, whose frames have bodies of type `B`.
#[derive(Debug)]
pub struct Link<B> {
    within_site: bool,
    queue: Queue<B>,
    /// Incarnation of the peer according to its last greeting.
    incarnation: Option<u64>,
    /// Earlier incarnations.
    former: BTreeSet<u64>,
    /// Time when this node's connection to the peer was opened. `incoming` is the time for the
    /// peer's connection.
    outgoing: Option<Monotonic>,
    incoming: Option<Monotonic>,
    /// Last time when both connections were open.
    whole: Option<Monotonic>,
    /// Last frame that arrived from `incarnation`.
    received: u64,
    /// Number of connections that the peer has opened. Only frames of the latest one are delivered.
    accepted: u64,
    connected: u64,
}

/// Permission to queue messages for one process of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    incarnation: Option<u64>,
}

/// State of the link when a handshake began. During a handshake, the peer's process may be replaced
/// by another one that this node knows already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    knew: Option<u64>,
}

impl<B: Clone> Link<B> {
    /// Creates a link with a queue of about `limit` bytes. Within a site, the queue keeps frames
    /// until they are acknowledged.
    pub fn new(limit: usize, within_site: bool) -> Link<B> {
        Link {
            within_site,
            queue: Queue::new(limit, within_site),
            incarnation: None,
            former: BTreeSet::new(),
            outgoing: None,
            incoming: None,
            whole: None,
            received: 0,
            accepted: 0,
            connected: 0,
        }
    }

    /// Returns a ticket if messages may be queued now. Between sites, messages are dropped while
    /// there is no connection, or while the queue is full. Within a site, messages are queued for
    /// the peer's last known process. While the link to that process is up, all of them are queued
    /// even if the queue is full, because clients wait for them; [`Self::is_reachable`] then makes
    /// clients retry.
    pub fn admit(&mut self) -> Option<Ticket> {
        let connected = self.outgoing.is_some();
        let takes = if self.within_site { self.incarnation.is_some() } else { connected };
        if !takes {
            return None;
        }
        if self.queue.is_full() && !(self.within_site && connected) {
            self.queue.count_dropped();
            return None;
        }
        Some(Ticket { incarnation: self.incarnation })
    }

    /// Queues the body of a frame, of `bytes` bytes, behind the waiting bodies of its protocol and
    /// lane. Drops it if the peer's process has changed since the ticket was issued.
    pub fn push(&mut self, ticket: Ticket, (lane, protocol): (Lane, u8), body: B, bytes: usize) {
        let connected = self.outgoing.is_some();
        if ticket.incarnation == self.incarnation && (self.within_site || connected) {
            self.queue.push(lane, protocol, body, bytes);
        }
    }

    /// Returns the number and body of the next frame to send over this node's connection.
    pub fn next_frame(&mut self) -> Option<(u64, B)> {
        self.queue.next()
    }

    /// Notes that all frames up to `number` have arrived at the peer.
    pub fn acknowledge(&mut self, number: u64) {
        self.queue.acknowledge(number);
    }

    /// Returns the state for a handshake. Must be called before this node calls the peer, and after
    /// it has read the greeting of the peer's call.
    pub fn handshake(&self) -> Handshake {
        Handshake { knew: self.incarnation }
    }

    /// Notes that this node's connection is open, and that the peer has received all frames up to
    /// `received` of this process. Returns `false`, and changes nothing, if another process is
    /// connected as the peer, or has been since the handshake began.
    pub fn opened(
        &mut self,
        now: Monotonic,
        handshake: Handshake,
        incarnation: u64,
        received: u64,
    ) -> bool {
        if !self.meet(handshake, incarnation) {
            return false;
        }
        self.queue.acknowledge(received);
        self.outgoing = Some(now);
        self.connected += 1;
        true
    }

    /// Notes that this node's connection broke.
    pub fn closed(&mut self, now: Monotonic) {
        self.mark_whole(now);
        self.outgoing = None;
        self.queue.rewind();
    }

    /// Notes that the peer has called. Returns the number of its connection, and the last frame
    /// that arrived from this incarnation. Returns `None` if another process is connected as the
    /// peer, or has been since the handshake began.
    pub fn accepted(
        &mut self,
        now: Monotonic,
        handshake: Handshake,
        incarnation: u64,
    ) -> Option<(u64, u64)> {
        if !self.meet(handshake, incarnation) {
            return None;
        }
        self.incoming = Some(now);
        self.accepted += 1;
        Some((self.accepted, self.received))
    }

    /// Returns whether a frame of the peer's connection is new and may be delivered, and then marks
    /// it as received.
    pub fn takes(&mut self, connection: u64, number: u64) -> bool {
        let new = connection == self.accepted && number > self.received;
        if new {
            self.received = number;
        }
        new
    }

    /// Returns the number of the last frame that arrived; `None` if the peer has called again
    /// since.
    pub fn received(&self, connection: u64) -> Option<u64> {
        (connection == self.accepted).then_some(self.received)
    }

    /// Notes that the peer's connection broke. Returns whether it was the peer's latest connection.
    pub fn hung_up(&mut self, now: Monotonic, connection: u64) -> bool {
        let latest = connection == self.accepted;
        if latest {
            self.mark_whole(now);
            self.incoming = None;
        }
        latest
    }

    /// Returns the incarnation of the peer according to its last greeting.
    pub fn incarnation(&self) -> Option<u64> {
        self.incarnation
    }

    /// Returns whether this node's connection is open.
    pub fn is_connected(&self) -> bool {
        self.outgoing.is_some()
    }

    /// Returns the time since which messages have travelled in both directions, as far as this node
    /// knows.
    pub fn whole_since(&self) -> Option<Monotonic> {
        self.outgoing.zip(self.incoming).map(|(outgoing, incoming)| outgoing.max(incoming))
    }

    /// Returns whether messages travel in both directions. A link that broke a moment ago still
    /// counts, and a link with a full queue does not.
    pub fn is_reachable(&self, now: Monotonic) -> bool {
        if self.queue.is_full() {
            return false;
        }
        self.whole_since().is_some() || self.whole.is_some_and(|whole| now.since(whole) < GRACE)
    }

    /// Returns the bytes that wait to be sent or acknowledged.
    pub fn queue_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Returns the number of batches of messages that were dropped because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// Returns the number of reconnects.
    pub fn reconnects(&self) -> u64 {
        self.connected.saturating_sub(1)
    }

    /// Changes the peer's process to `incarnation`, and drops frames for the previous process.
    /// Returns `false` while a connection to the previous process is open: then two processes claim
    /// to be the peer, and the later claim is rejected. Also returns `false` for a process that was
    /// replaced before the handshake or since, because frames of its successor have already been
    /// counted.
    fn meet(&mut self, handshake: Handshake, incarnation: u64) -> bool {
        if self.incarnation == Some(incarnation) {
            return true;
        }
        let stands = self.outgoing.is_some() || self.incoming.is_some();
        let replaced = handshake.knew != self.incarnation || self.former.contains(&incarnation);
        if stands || replaced {
            return false;
        }
        self.former.extend(self.incarnation.replace(incarnation));
        self.received = 0;
        self.queue.clear();
        true
    }

    fn mark_whole(&mut self, now: Monotonic) {
        if self.whole_since().is_some() {
            self.whole = Some(now);
        }
    }
}
