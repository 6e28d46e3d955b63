//! Checks which frames are delivered, and in which order: everything that a worker queues for
//! another of its site arrives there once, and in order within its protocol and lane, as long as
//! both processes run. Between sites frames may be lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use solera_machine::{Address, Lane};

/// A worker, and its incarnation.
pub(super) type Process = (Address, u64);
pub(super) type Body = Arc<Vec<u8>>;

/// Sender and receiver.
type Way = (Process, Process);

/// A lane, and the number of a protocol.
type Class = (Lane, u8);

/// Judges deliveries by the queued bodies; it does not use the links' state.
#[derive(Default)]
pub(super) struct FrameLedger {
    /// Bodies that are queued or under way between workers of a site.
    queued: BTreeMap<Way, BTreeMap<Class, VecDeque<Body>>>,
    /// Number of the last frame that was delivered.
    delivered: BTreeMap<Way, u64>,
}

impl FrameLedger {
    /// Records that a worker queues a body for a process of its site.
    pub(super) fn queued(&mut self, from: Process, to: Process, class: Class, body: Body) {
        let of_way = self.queued.entry((from, to)).or_default();
        of_way.entry(class).or_default().push_back(body);
    }

    /// Records that a frame is delivered.
    ///
    /// # Errors
    /// The frame must not be delivered, or not yet.
    pub(super) fn delivered(
        &mut self,
        from: Process,
        to: Process,
        number: u64,
        body: &Body,
    ) -> Result<(), String> {
        let way = (from, to);
        if self.delivered.insert(way, number).is_some_and(|last| last >= number) {
            return Err(format!("frame {number} from {from:?} to {to:?} was delivered again"));
        }
        let is_within_site = from.0.site == to.0.site;
        let mut classes = self.queued.get_mut(&way).into_iter().flat_map(BTreeMap::values_mut);
        let is_it = |next: Option<&Body>| next.is_some_and(|next| Arc::ptr_eq(next, body));
        let its_class = classes.find(|class| is_it(class.front()));
        let is_next = its_class.and_then(VecDeque::pop_front).is_some();
        if is_within_site && !is_next {
            return Err(format!(
                "frame {number} from {from:?} to {to:?} is not the next of its protocol and lane"
            ));
        }
        Ok(())
    }

    /// Drops the bodies that are queued for a worker whose process has ended. Bodies that it has
    /// sent may still arrive.
    pub(super) fn end(&mut self, worker: Address) {
        self.queued.retain(|(_, (to, _)), _| *to != worker);
        self.delivered.retain(|(_, (to, _)), _| *to != worker);
    }
}
