//! Sending a partition's full state to a site that joins: the donor's side.
//!
//! The donor takes a snapshot, waits until it is uniform, and sends the state of every key in the
//! snapshot, and every update that is not causally stable. Meanwhile it folds nothing beyond the
//! snapshot, as for an open transaction. Later updates reach the joining site by replication: from
//! the time when it is let in, no member forgets updates that it may lack.
//!
//! The donor sends pieces without waiting for acknowledgements, within the window that the receiver
//! has announced. If pieces are lost, it sends them again from there.

use std::collections::VecDeque;
use std::time::Duration;

use solera_data::State;
use solera_machine::{Address, Now, PartitionId};
use solera_membership::SiteStatus;
use solera_time::{Monotonic, Vector};

use crate::config::Rule;
use crate::message::{Chunk, Fetch, Filling, Message, TransferPosition};
use crate::partition::{HandOver, Partition};
use crate::worker::Worker;

/// Approximate size of a piece in bytes, which takes less than a millisecond to make.
const CHUNK_BYTES: usize = 256 * 1024;
/// Number of updates in one piece.
const CHUNK_UPDATES: usize = 512;
/// Number of pieces that are made at once while clients wait. More follow with the receiver's next
/// message.
const CHUNKS_AT_ONCE: usize = 2;
/// Largest number of bytes of one partition in transit, whatever window the receiver announces.
const MAX_WINDOW: usize = 16 << 20;
/// Idle timeout of a receiver, whose snapshot is then released. A live receiver sends messages much
/// more often.
const PATIENCE: Duration = Duration::from_secs(60);

/// Partitions that this worker is sending.
#[derive(Debug, Default)]
pub(crate) struct Donor {
    pins: Vec<Pin>,
}

/// A snapshot of a partition that is being sent.
#[derive(Debug)]
struct Pin {
    to: Address,
    partition: PartitionId,
    attempt: u64,
    snapshot: Vector,
    /// Time of the last message of its receiver.
    heard: Monotonic,
    /// Data to send, once the snapshot is uniform.
    hand_over: Option<HandOver>,
    /// Position before which everything has arrived.
    arrived: TransferPosition,
    /// Position from which to send next.
    next: TransferPosition,
    /// Pieces between the two positions: the end and the size in bytes of each.
    under_way: VecDeque<(TransferPosition, usize)>,
    window: usize,
    /// Keys from `arrived` on that are too large for one piece. Their parts must stay the same when
    /// they are sent again, and the order of elements may change in the partition.
    large: VecDeque<Large>,
}

#[derive(Debug)]
struct Large {
    item: u64,
    parts: Vec<State>,
}

impl Donor {
    pub(crate) fn is_idle(&self) -> bool {
        self.pins.is_empty()
    }

    /// Returns the meet of `floor` with the snapshots that are being sent.
    pub(crate) fn floor(&self, mut floor: Vector) -> Vector {
        for pin in &self.pins {
            floor.meet(&pin.snapshot);
        }
        floor
    }
}

impl Donor {
    /// Handles a request of a joining site's worker for pieces. Pieces that are not available yet
    /// are sent later, without another request.
    pub(crate) fn on_fetch(&mut self, worker: &mut Worker, now: Now, from: Address, fetch: Fetch) {
        let members = &worker.dissemination.members;
        // While a site leaves, this worker may have more or less of that site's history than
        // members will keep.
        let leaving = members.which(SiteStatus::Leaving).next().is_some();
        // Until this site serves, its keys' bases are later than any snapshot that it could take.
        let serves = worker.dissemination.view.serving || !worker.config.keeps(Rule::DonorServes);
        if worker.index_of(fetch.partition).is_none()
            || members.status(from.site) != SiteStatus::Joining
            || !members.is_member(worker.me)
            || leaving
            || !serves
        {
            worker.ignored += 1;
            return;
        }
        let Fetch { partition, attempt, at, .. } = fetch;
        let of = |pin: &Pin| (pin.to, pin.partition) == (from, partition);
        match self.pins.iter().find(|pin| of(pin)) {
            Some(pin) if pin.attempt == attempt => {}
            _ if at == TransferPosition::START => self.pin(worker, now, from, fetch),
            _ => return worker.send(from, Message::NotKept { partition, attempt }),
        }
        let index = self.pins.iter().position(of).expect("it was found or added");
        let pin = &mut self.pins[index];
        pin.heard = now.monotonic;
        pin.on_progress(&fetch);
        if pin.is_complete() {
            self.pins.remove(index);
        } else {
            self.hand_over_to(worker, now, index);
        }
    }

    fn pin(&mut self, worker: &mut Worker, now: Now, to: Address, fetch: Fetch) {
        let Fetch { partition, attempt, .. } = fetch;
        self.pins.retain(|pin| (pin.to, pin.partition) != (to, partition));
        let snapshot = worker.start_snapshot(now, &Vector::zero(worker.config.topology.sites()));
        self.pins.push(Pin {
            to,
            partition,
            attempt,
            snapshot,
            heard: now.monotonic,
            hand_over: None,
            arrived: TransferPosition::START,
            next: TransferPosition::START,
            under_way: VecDeque::new(),
            window: 0,
            large: VecDeque::new(),
        });
    }

    /// Continues transfers that wait for something other than their receiver, and releases
    /// snapshots that are not needed any more.
    pub(crate) fn hand_over_more(&mut self, worker: &mut Worker, now: Now) {
        let members = &worker.dissemination.members;
        self.pins.retain(|pin| {
            members.status(pin.to.site) == SiteStatus::Joining
                && now.monotonic.since(pin.heard) < PATIENCE
        });
        for index in 0..self.pins.len() {
            if self.pins[index].under_way.is_empty() {
                self.hand_over_to(worker, now, index);
            }
        }
    }

    fn hand_over_to(&mut self, worker: &mut Worker, now: Now, pin: usize) {
        let uniform_vec = worker.dissemination.view.uniform_vec;
        let (partition, to) = (self.pins[pin].partition, self.pins[pin].to);
        // While the link is full, the transfer waits for a later tick.
        if worker.held_back.contains(&to) {
            return;
        }
        let index = worker.index_of(partition).expect("only its own partitions are pinned");
        let pin = &mut self.pins[pin];
        if pin.hand_over.is_none() && !uniform_vec.covers(&pin.snapshot) {
            // Other workers should learn soon what this transfer waits for.
            return worker.note_activity(now);
        }
        let partition = &worker.partitions[index];
        pin.hand_over.get_or_insert_with(|| partition.hand_over(pin.snapshot));
        let pieces: Vec<_> = (0..CHUNKS_AT_ONCE).map_while(|_| pin.next_piece(partition)).collect();
        for piece in pieces {
            worker.send(to, Message::Filling(piece));
        }
    }
}

impl Pin {
    /// Updates the window and the positions from a message of the receiver.
    fn on_progress(&mut self, fetch: &Fetch) {
        self.window = usize::try_from(fetch.window).map_or(MAX_WINDOW, |w| w.min(MAX_WINDOW));
        if fetch.at < self.arrived {
            return;
        }
        self.arrived = fetch.at;
        // Pieces that seemed to be lost may have arrived while they were being sent again.
        if fetch.again || fetch.at > self.next {
            self.next = fetch.at;
            self.under_way.clear();
        }
        while self.under_way.front().is_some_and(|(end, _)| *end <= fetch.at) {
            self.under_way.pop_front();
        }
        while self.large.front().is_some_and(|large| large.item < fetch.at.items) {
            self.large.pop_front();
        }
    }

    /// Returns whether the receiver has everything.
    fn is_complete(&self) -> bool {
        self.hand_over.as_ref().is_some_and(|begun| self.arrived.items == begun.begin.items)
    }

    /// Returns the next piece, if one may be sent now.
    fn next_piece(&mut self, partition: &Partition) -> Option<Filling> {
        let under_way: usize = self.under_way.iter().map(|(_, bytes)| bytes).sum();
        let room = self.window.saturating_sub(under_way);
        if room == 0 && !self.under_way.is_empty() {
            return None;
        }
        let at = self.next;
        let (chunk, next) = self.items(partition, room.min(CHUNK_BYTES))?;
        self.next = next;
        self.under_way.push_back((next, weight(&chunk)));
        let Pin { partition, attempt, .. } = *self;
        Some(Filling { partition, attempt, at, next, chunk })
    }

    /// Returns items of about `limit` bytes, at least one, and the position after them.
    fn items(&mut self, partition: &Partition, limit: usize) -> Option<(Chunk, TransferPosition)> {
        let HandOver { begin, updates, keys } = self.hand_over.as_ref()?;
        let Some(first) = self.next.items.checked_sub(1) else {
            return Some((Chunk::Begin(Box::new(*begin)), TransferPosition { items: 1, parts: 0 }));
        };
        let first = usize::try_from(first).ok()?;
        if first < updates.len() {
            let (mut bytes, mut items) = (0, Vec::new());
            for update in updates[first..].iter().take(CHUNK_UPDATES) {
                bytes += update.size() + ITEM_BYTES;
                items.push(update.clone());
                if bytes >= limit {
                    break;
                }
            }
            let items_before = self.next.items + items.len() as u64;
            return Some((
                Chunk::Updates(items),
                TransferPosition { items: items_before, parts: 0 },
            ));
        }
        let (mut bytes, mut items, mut place) = (0, Vec::new(), self.next);
        for key in keys.get(first - updates.len()..)? {
            let large = self.large.iter().position(|large| large.item == place.items);
            let large = large.or_else(|| {
                let state = partition.state_within(key, &self.snapshot);
                let size = state.size();
                if size > CHUNK_BYTES {
                    let parts = state.split(CHUNK_BYTES);
                    self.large.push_back(Large { item: place.items, parts });
                    return Some(self.large.len() - 1);
                }
                bytes += key.len() + size + ITEM_BYTES;
                items.push((key.clone(), state));
                None
            });
            let parts = large.map_or(&[][..], |large| &self.large[large].parts);
            for part in parts.iter().skip(place.parts as usize) {
                if bytes >= limit {
                    return Some((Chunk::Keys(items), place));
                }
                bytes += key.len() + part.size() + ITEM_BYTES;
                items.push((key.clone(), part.clone()));
                place.parts += 1;
            }
            place = TransferPosition { items: place.items + 1, parts: 0 };
            if bytes >= limit {
                break;
            }
        }
        (!items.is_empty()).then_some((Chunk::Keys(items), place))
    }
}

/// Approximate overhead of an item in bytes.
const ITEM_BYTES: usize = 32;

/// Returns the approximate size of a piece in bytes.
pub(crate) fn weight(chunk: &Chunk) -> usize {
    match chunk {
        Chunk::Begin(_) => ITEM_BYTES,
        Chunk::Updates(updates) => updates.iter().map(|update| update.size() + ITEM_BYTES).sum(),
        Chunk::Keys(keys) => {
            keys.iter().map(|(key, state)| key.len() + state.size() + ITEM_BYTES).sum()
        }
    }
}
