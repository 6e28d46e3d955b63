//! Counts of handshakes and frames of other nodes that this node has refused.

use std::collections::BTreeMap;
use std::sync::Mutex;

use solera_links::{Refusal, WireError};
use solera_time::SiteId;

/// Counts by the other node's site, if it is known, and by reason.
pub(crate) type Counts = BTreeMap<(Option<SiteId>, &'static str), u64>;

/// Numbers of refused handshakes and frames since the start.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    handshakes: Mutex<Counts>,
    frames: Mutex<Counts>,
}

impl Refused {
    /// Counts a handshake that this node or the other one refused.
    pub(crate) fn count_handshake(&self, site: Option<SiteId>, refusal: &Refusal) {
        count(&self.handshakes, site, refusal.label());
    }

    /// Counts a frame that no correct node of this version sends.
    pub(crate) fn count_frame(&self, site: SiteId, error: WireError) {
        count(&self.frames, Some(site), error.label());
    }

    /// Counts a frame of a node that this node no longer accepts.
    pub(crate) fn count_late_frame(&self, site: SiteId, refusal: &Refusal) {
        count(&self.frames, Some(site), refusal.label());
    }

    /// Returns the counts of refused handshakes, and those of refused frames.
    pub(crate) fn counts(&self) -> [Counts; 2] {
        [&self.handshakes, &self.frames]
            .map(|counts| counts.lock().expect("nothing panics with the lock").clone())
    }
}

fn count(counts: &Mutex<Counts>, site: Option<SiteId>, reason: &'static str) {
    *counts.lock().expect("nothing panics with the lock").entry((site, reason)).or_default() += 1;
}
