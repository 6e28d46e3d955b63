//! A version of a key, with its causal timestamp in its short form.

use solera_data::{Context, Dot, Effect, State};
use solera_time::{SiteId, Timestamp, Vector};

use crate::shard::Stamp;
use crate::timestamp::{CausalTimestamp, Scheme};

/// Encoded causal timestamp, as stored beside a value; empty if the value depends on nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dependencies(Box<[u8]>);

impl Dependencies {
    pub(crate) fn of(timestamp: &CausalTimestamp) -> Dependencies {
        if timestamp.is_empty() {
            return Dependencies::default();
        }
        let mut bytes = Vec::new();
        timestamp.encode(&mut bytes);
        Dependencies(bytes.into_boxed_slice())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the timestamp. An empty one has the scheme `scheme`.
    pub(crate) fn timestamp(&self, scheme: Scheme) -> CausalTimestamp {
        if self.is_empty() {
            return CausalTimestamp::new(scheme);
        }
        let decoded = CausalTimestamp::decode(&self.0, u16::MAX);
        decoded.expect("these bytes were encoded here").0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.len()
    }
}

/// A version of a key.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) state: State,
    pub(crate) dependencies: Dependencies,
    pub(crate) stamp: Stamp,
}

impl Version {
    /// Returns the version of a key that was never written.
    pub(crate) fn absent() -> Version {
        Version { state: State::new(), dependencies: Dependencies::default(), stamp: Stamp::ZERO }
    }

    /// Applies a write.
    pub(crate) fn apply(&mut self, effect: &Effect, stamp: Stamp, dependencies: Dependencies) {
        let dot = Dot::of(SiteId(0), Timestamp(stamp.0));
        // Writes of a key are totally ordered, so each one has observed all that precede it.
        let observed = Vector::zero(1).with(SiteId(0), dot.ts.just_below());
        self.state.apply(effect, Context { dot, observed: &observed });
        self.state.settle(effect, dot);
        self.stamp = stamp;
        self.dependencies = dependencies;
    }

    /// Returns the approximate size in bytes, without the key.
    pub(crate) fn bytes(&self) -> usize {
        self.state.size() + self.dependencies.bytes()
    }
}
