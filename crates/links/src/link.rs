//! One node's state of its connections with another.

use std::collections::BTreeSet;
use std::time::Duration;

use solera_machine::Lane;
use solera_time::Monotonic;

use crate::queue::Queue;

/// Time during which a link that broke still counts as reachable, because it may soon be back.
const GRACE: Duration = Duration::from_secs(1);

/// The link to one other node, whose frames have bodies of type `B`.
#[derive(Debug)]
pub struct Link<B> {
    within_site: bool,
    queue: Queue<B>,
    /// Incarnation of the peer as last heard.
    incarnation: Option<u64>,
    /// Earlier incarnations.
    former: BTreeSet<u64>,
    /// Time at which the own connection to the peer opened, and the peer's connection to this node.
    outgoing: Option<Monotonic>,
    incoming: Option<Monotonic>,
    /// Last time at which both were open.
    whole: Option<Monotonic>,
    /// Last frame that arrived from `incarnation`.
    received: u64,
    /// Number of the peer's connections; only the latest may deliver.
    accepted: u64,
    connected: u64,
}

/// Permission to queue messages for one process of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    incarnation: Option<u64>,
}

/// State of the link when a handshake began. Handshakes take time, and meanwhile the process at the
/// other end may have been replaced by another one that is already known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    knew: Option<u64>,
}

impl<B: Clone> Link<B> {
    /// Creates a link with a queue of about `limit` bytes. Within a site frames are kept until they
    /// are acknowledged.
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

    /// Returns a ticket if messages may be queued now. Between sites messages are dropped while
    /// there is no connection, or while the queue is full. Within a site they are kept for the
    /// peer's last known process. While the link to that process is up, all of them are kept even
    /// if the queue is full, because clients wait for them; [`Self::is_reachable`] then makes
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

    /// Returns the number and body of the next frame to send over the own connection.
    pub fn next_frame(&mut self) -> Option<(u64, B)> {
        self.queue.next()
    }

    /// Notes that all frames up to `number` have arrived at the peer.
    pub fn acknowledge(&mut self, number: u64) {
        self.queue.acknowledge(number);
    }

    /// Returns the state for a handshake. Must be called before calling the peer, and after reading
    /// the greeting of its call.
    pub fn handshake(&self) -> Handshake {
        Handshake { knew: self.incarnation }
    }

    /// Notes that the own connection is open, and that the peer has received all frames up to
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

    /// Notes that the own connection broke.
    pub fn closed(&mut self, now: Monotonic) {
        self.mark_whole(now);
        self.outgoing = None;
        self.queue.rewind();
    }

    /// Notes that the peer called. Returns the number of its connection, and the last frame that
    /// arrived from this incarnation; `None` if another process is connected as the peer, or has
    /// been since the handshake began.
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

    /// Returns the last frame that arrived; `None` if the peer has called again since.
    pub fn received(&self, connection: u64) -> Option<u64> {
        (connection == self.accepted).then_some(self.received)
    }

    /// Notes that the peer's connection broke. Returns whether it was the latest.
    pub fn hung_up(&mut self, now: Monotonic, connection: u64) -> bool {
        let latest = connection == self.accepted;
        if latest {
            self.mark_whole(now);
            self.incoming = None;
        }
        latest
    }

    /// Returns the incarnation of the peer as last heard.
    pub fn incarnation(&self) -> Option<u64> {
        self.incarnation
    }

    /// Whether the own connection is open.
    pub fn is_connected(&self) -> bool {
        self.outgoing.is_some()
    }

    /// Returns the time since which messages travel in both directions, as far as is known.
    pub fn whole_since(&self) -> Option<Monotonic> {
        self.outgoing.zip(self.incoming).map(|(outgoing, incoming)| outgoing.max(incoming))
    }

    /// Whether messages travel in both directions. A link that has just broken still counts, and a
    /// link whose queue is full does not.
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
    /// Returns `false` while a connection to the previous process is open, because then two
    /// processes claim to be the peer, and the later claim is rejected. Also returns `false` for a
    /// process that was replaced before the handshake or since, because frames of its successor
    /// have already been counted.
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
