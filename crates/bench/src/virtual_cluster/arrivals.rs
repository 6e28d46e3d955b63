//! Updates that have arrived at the workers of a site and are not visible there, while one of the
//! workers is too slow (Occult §2, Fig. 2).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use solera_time::Vector;
use solera_unistore::{Message, Update};

/// The updates at the workers of a site.
pub(crate) struct Arrivals {
    /// Number of the site's first core.
    first: usize,
    /// Core that is too slow, and the time that an update takes there.
    slow: (usize, Duration),
    /// For each worker, the updates that are not visible.
    waiting: Vec<VecDeque<Arc<Update>>>,
    /// Number of updates that have arrived.
    pub(crate) arrived: usize,
}

impl Arrivals {
    /// Observes `workers` workers from the core `first` on. `slow` is the number of a worker.
    pub(crate) fn new(first: usize, workers: usize, slow: (usize, Duration)) -> Arrivals {
        let waiting = vec![VecDeque::new(); workers];
        Arrivals { first, slow: (first + slow.0, slow.1), waiting, arrived: 0 }
    }

    /// Returns the updates of a message.
    fn updates(message: &solera_site::Message) -> impl Iterator<Item = &Arc<Update>> {
        let ranges = match message {
            solera_site::Message::UniStore(Message::Replicate(ranges)) => &ranges[..],
            _ => &[],
        };
        ranges.iter().flat_map(|range| &range.updates)
    }

    /// Notes that a message arrives at a core.
    pub(crate) fn arrive(&mut self, core: usize, message: &solera_site::Message) {
        let worker = core.checked_sub(self.first).and_then(|at| self.waiting.get_mut(at));
        if let Some(waiting) = worker {
            let before = waiting.len();
            waiting.extend(Arrivals::updates(message).cloned());
            self.arrived += waiting.len() - before;
        }
    }

    /// Returns the time that a message takes at a core because the core is too slow.
    pub(crate) fn time(&self, core: usize, message: &solera_site::Message) -> Duration {
        match core == self.slow.0 {
            true => self.slow.1 * Arrivals::updates(message).count() as u32,
            false => Duration::ZERO,
        }
    }

    /// Returns the average number of updates that wait at the workers that are not slow. `visible`
    /// returns the vector of transactions that are visible at a core.
    pub(crate) fn mean_of_others(&mut self, visible: impl Fn(usize) -> Vector) -> f64 {
        let (first, slow) = (self.first, self.slow.0);
        let mut sum = 0;
        for (at, waiting) in self.waiting.iter_mut().enumerate() {
            let vector = visible(first + at);
            waiting.retain(|update| !update.within(&vector));
            sum += if first + at == slow { 0 } else { waiting.len() };
        }
        sum as f64 / (self.waiting.len() - 1) as f64
    }
}
