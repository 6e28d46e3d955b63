//! What one node knows of its connections with another.

use std::collections::BTreeSet;
use std::time::Duration;

use solera_machine::Lane;
use solera_time::Monotonic;

use crate::queue::Queue;

/// A link that broke so recently may be back before anybody notices.
const GRACE: Duration = Duration::from_secs(1);

/// The link to one other node, whose frames have bodies of type `B`.
#[derive(Debug)]
pub struct Link<B> {
    within_site: bool,
    queue: Queue<B>,
    /// The process that the peer was when it was last heard of.
    incarnation: Option<u64>,
    /// Those that it was before.
    former: BTreeSet<u64>,
    /// Since when our connection to the peer stands, and the peer's to us.
    outgoing: Option<Monotonic>,
    incoming: Option<Monotonic>,
    /// When both last stood.
    whole: Option<Monotonic>,
    /// The last frame that arrived from `incarnation`.
    received: u64,
    /// Counts the peer's connections; only the latest may deliver.
    accepted: u64,
    connected: u64,
}

/// Permission to queue messages for one process of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    incarnation: Option<u64>,
}

/// What was known of the peer when a handshake began. Handshakes take time, and meanwhile the
/// process that is met may have been replaced by one that is known already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    knew: Option<u64>,
}

impl<B: Clone> Link<B> {
    /// A link for which about `limit` bytes may wait. Within a site frames stay until they are
    /// acknowledged.
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

    /// Whether messages may be queued now. Between sites they are dropped while there is no
    /// connection, or too much waits. Within a site they are kept for the process that the peer
    /// last was. While there is a connection to it, all of them are: clients wait for what depends
    /// on them, and [`Self::is_reachable`] lets no more in.
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

    /// Queues the body of a frame, of so many bytes, behind what waits of its protocol and lane. It
    /// is dropped if the peer has become another process since the ticket was given, for which it
    /// is not meant.
    pub fn push(&mut self, ticket: Ticket, (lane, protocol): (Lane, u8), body: B, bytes: usize) {
        let connected = self.outgoing.is_some();
        if ticket.incarnation == self.incarnation && (self.within_site || connected) {
            self.queue.push(lane, protocol, body, bytes);
        }
    }

    /// The next frame to send over our connection: its number and body.
    pub fn next_frame(&mut self) -> Option<(u64, B)> {
        self.queue.next()
    }

    /// All frames up to this one have arrived at the peer.
    pub fn acknowledge(&mut self, number: u64) {
        self.queue.acknowledge(number);
    }

    /// To be asked for before the peer is called, and when the greeting of its call was read.
    pub fn handshake(&self) -> Handshake {
        Handshake { knew: self.incarnation }
    }

    /// Our connection stands. The peer has received all frames up to `received` of this process.
    /// Returns whether that is so: not if another process speaks as the peer, or has spoken since
    /// the handshake began.
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

    /// Our connection broke.
    pub fn closed(&mut self, now: Monotonic) {
        self.mark_whole(now);
        self.outgoing = None;
        self.queue.rewind();
    }

    /// The peer called. Returns the number of its connection, and the last frame that arrived from
    /// this incarnation; `None` if another process speaks as the peer, or has spoken since the
    /// handshake began.
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

    /// Whether a frame of the peer's connection is new and may be delivered. It counts as received
    /// then.
    pub fn takes(&mut self, connection: u64, number: u64) -> bool {
        let new = connection == self.accepted && number > self.received;
        if new {
            self.received = number;
        }
        new
    }

    /// The last frame that arrived; `None` if the peer has called again since.
    pub fn received(&self, connection: u64) -> Option<u64> {
        (connection == self.accepted).then_some(self.received)
    }

    /// The peer's connection broke. Returns whether it was the latest.
    pub fn hung_up(&mut self, now: Monotonic, connection: u64) -> bool {
        let latest = connection == self.accepted;
        if latest {
            self.mark_whole(now);
            self.incoming = None;
        }
        latest
    }

    /// The process that the peer was when it was last heard of.
    pub fn incarnation(&self) -> Option<u64> {
        self.incarnation
    }

    /// Whether our connection stands.
    pub fn is_connected(&self) -> bool {
        self.outgoing.is_some()
    }

    /// Since when messages reach the peer and its own come back, as far as is known.
    pub fn whole_since(&self) -> Option<Monotonic> {
        self.outgoing.zip(self.incoming).map(|(outgoing, incoming)| outgoing.max(incoming))
    }

    /// Whether messages reach the peer and its own come back, with patience for a link that has
    /// only just broken, and with none for one that has too much to send already.
    pub fn is_reachable(&self, now: Monotonic) -> bool {
        if self.queue.is_full() {
            return false;
        }
        self.whole_since().is_some() || self.whole.is_some_and(|whole| now.since(whole) < GRACE)
    }

    /// Bytes of what waits to be sent or acknowledged.
    pub fn queue_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// How many batches of messages were not queued because too much waited.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// How often our connection was made again.
    pub fn reconnects(&self) -> u64 {
        self.connected.saturating_sub(1)
    }

    /// The peer is this process. If it was another one before, what waited for that one is dropped.
    /// While a connection to that one stands, there are two who say they are the peer, and the
    /// later is not believed. Nor is one that has been replaced, before or since the handshake with
    /// it began: what has arrived from its successor counts.
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
