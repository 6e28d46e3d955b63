//! A partition's full state for a site that joins: the donor's side.
//!
//! The donor takes a snapshot, waits until it is uniform, and hands over every key as the snapshot sees
//! it, and every update that is not causally stable. Meanwhile it folds nothing beyond the snapshot, as
//! for an open transaction. What came later, the joining site gets by replication like everybody else:
//! from when it was let in, nobody forgets what it may lack.

use std::time::Duration;

use solera_data::{Key, State};
use solera_machine::Now;
use solera_time::{Monotonic, Vector};

use crate::config::{Address, Rule};
use crate::membership::Standing;
use crate::message::{Chunk, Fetch, Filling, Message};
use crate::partition::HandOver;
use crate::replica::Replica;

/// About how many bytes of keys are in one piece: some milliseconds of work.
const CHUNK_BYTES: usize = 512 * 1024;
/// How many updates are in one piece.
const CHUNK_UPDATES: usize = 512;
/// A worker that does not ask for more in this time does not need its snapshot any more.
const PATIENCE: Duration = Duration::from_secs(5);

/// What this worker is handing over; one partition at a time to each joining worker.
#[derive(Debug, Default)]
pub(crate) struct Donor {
    pins: Vec<Pin>,
}

/// A snapshot that is being handed over.
#[derive(Debug)]
struct Pin {
    to: Address,
    fetch: Fetch,
    snapshot: Vector,
    asked: Monotonic,
    /// From when the snapshot is uniform.
    hand_over: Option<HandOver>,
}

impl Donor {
    pub(crate) fn is_idle(&self) -> bool {
        self.pins.is_empty()
    }

    /// The meet of the snapshots that are being handed over with `floor`.
    pub(crate) fn floor(&self, mut floor: Vector) -> Vector {
        for pin in &self.pins {
            floor.meet(&pin.snapshot);
        }
        floor
    }
}

impl Replica {
    /// A joining site's worker asks for a piece. If it cannot be had yet, it will ask again.
    pub(crate) fn on_fetch(&mut self, now: Now, from: Address, fetch: Fetch) {
        let Some(index) = self.index_of(fetch.partition) else { return };
        let members = &self.dissemination.members;
        // While a site leaves, this worker may have more or less of it than will be kept.
        let leaving = members.which(Standing::Leaving).next().is_some();
        if members.standing(from.site) != Standing::Joining
            || !members.is_member(self.me)
            || leaving
        {
            return;
        }
        if fetch.position == 0 {
            self.pin(now, from, fetch);
        }
        let uniform_vec = self.dissemination.view.uniform_vec;
        let Some(pin) = self.donor.pins.iter_mut().find(|pin| pin.to == from) else { return };
        if (pin.fetch.partition, pin.fetch.attempt) != (fetch.partition, fetch.attempt) {
            return;
        }
        pin.asked = now.monotonic;
        let partition = &self.partitions[index];
        if pin.hand_over.is_none() && uniform_vec.covers(&pin.snapshot) {
            pin.hand_over = Some(partition.hand_over(pin.snapshot));
        }
        let Some(hand_over) = &pin.hand_over else {
            // Others should hear soon of what it waits for.
            self.be_active(now);
            return;
        };
        let Some((chunk, next)) =
            piece(hand_over, fetch.position, |key| partition.state_within(key, &pin.snapshot))
        else {
            return;
        };
        self.send(from, Message::Filling(Filling { fetch, next, chunk }));
    }

    fn pin(&mut self, now: Now, to: Address, fetch: Fetch) {
        let pins = &mut self.donor.pins;
        if pins.iter().any(|pin| pin.to == to && pin.fetch.attempt == fetch.attempt) {
            return;
        }
        pins.retain(|pin| pin.to != to);
        let snapshot = self.start_snapshot(now, &Vector::zero(self.config.topology.sites()));
        let pin = Pin { to, fetch, snapshot, asked: now.monotonic, hand_over: None };
        self.donor.pins.push(pin);
    }

    /// Lets go of snapshots that nobody needs any more.
    pub(crate) fn release_pins(&mut self, now: Now) {
        let members = &self.dissemination.members;
        self.donor.pins.retain(|pin| {
            members.standing(pin.to.site) == Standing::Joining
                && now.monotonic.since(pin.asked) < PATIENCE
        });
    }

    /// The meet of the snapshots of all that is under way with `future`.
    pub(crate) fn floor(&self, future: Vector) -> Vector {
        let floor = self.coordinator.floor(future);
        if self.config.keeps(Rule::DonorHoldsSnapshot) { self.donor.floor(floor) } else { floor }
    }
}

/// The items from a position on, and the position after them.
fn piece(
    hand_over: &HandOver,
    position: u64,
    state_of: impl Fn(&Key) -> State,
) -> Option<(Chunk, u64)> {
    let Some(at) = position.checked_sub(1) else {
        return Some((Chunk::Begin(Box::new(hand_over.begin)), 1));
    };
    let at = usize::try_from(at).ok()?;
    let HandOver { updates, keys, .. } = hand_over;
    if at < updates.len() {
        let (mut bytes, mut items) = (0, Vec::new());
        for update in updates[at..].iter().take(CHUNK_UPDATES) {
            if bytes >= CHUNK_BYTES {
                break;
            }
            bytes += update.size();
            items.push(update.clone());
        }
        let next = position + items.len() as u64;
        return Some((Chunk::Updates(items), next));
    }
    let (mut bytes, mut items) = (0, Vec::new());
    for key in keys.get(at - updates.len()..)? {
        if bytes >= CHUNK_BYTES {
            break;
        }
        let state = state_of(key);
        bytes += key.len() + state.size() + ITEM_BYTES;
        items.push((key.clone(), state));
    }
    let next = position + items.len() as u64;
    Some((Chunk::Keys(items), next))
}

/// About what an item takes beside its content.
const ITEM_BYTES: usize = 32;

/// About how many bytes a piece has.
pub(crate) fn weight(chunk: &Chunk) -> usize {
    match chunk {
        Chunk::Begin(_) => ITEM_BYTES,
        Chunk::Updates(updates) => updates.iter().map(|update| update.size() + ITEM_BYTES).sum(),
        Chunk::Keys(keys) => {
            keys.iter().map(|(key, state)| key.len() + state.size() + ITEM_BYTES).sum()
        }
    }
}
