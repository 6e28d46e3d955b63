//! Figures 15 and 16: counters, each of which exists in the linearizable store and in the causal
//! one.

use std::sync::Arc;

use super::load::{Call, Script, handle};
use crate::random::{Random, Zipf};

pub(super) const SOURCE: &str = include_str!("counters.mixt");

/// Number of counters in the paper.
pub(super) const COUNTERS: usize = 400_000;

/// Behaviour of a client of the benchmark.
#[derive(Clone)]
pub(super) struct Counting {
    /// Percentage of causal transactions.
    pub(super) causal: u8,
    /// Percentage of read-only transactions.
    pub(super) reads: u8,
    /// Whether the first transaction after a change of mode uses both stores.
    pub(super) bridging: bool,
    /// Distribution of the counters that are read.
    pub(super) popular: Arc<Zipf>,
    /// Mode of the client; `None` before the first transaction.
    pub(super) weak: Option<bool>,
}

/// Percentage of transactions before which a client chooses its mode again.
const RESTLESS: u8 = 10;

/// Kinds under which transactions are counted.
pub(super) const READ_WEAK: &str = "causal read";
pub(super) const ADD_WEAK: &str = "causal write";
pub(super) const READ_STRONG: &str = "linearizable read";
pub(super) const ADD_STRONG: &str = "linearizable write";
pub(super) const READ_BOTH: &str = "mixed read";
pub(super) const ADD_BOTH: &str = "mixed write";

impl Script for Counting {
    fn next(&mut self, random: &mut Random) -> Call {
        let weak = match self.weak {
            Some(weak) if !random.chance(RESTLESS) => weak,
            _ => random.chance(self.causal),
        };
        let changed = self.bridging && self.weak.is_some_and(|before| before != weak);
        self.weak = Some(weak);
        let read = random.chance(self.reads);
        let number = match read {
            true => self.popular.draw(random),
            false => random.below(COUNTERS as u64) as usize,
        };
        let key: Arc<str> = number.to_string().into();
        let (strong, causal) = (handle("strong", Arc::clone(&key)), handle("weak", key));
        let (kind, transaction, args) = match (changed, weak, read) {
            (true, _, true) => (READ_BOTH, "read_both", vec![strong, causal]),
            (true, _, false) => (ADD_BOTH, "add_both", vec![strong, causal]),
            (false, true, true) => (READ_WEAK, "read_weak", vec![causal]),
            (false, true, false) => (ADD_WEAK, "add_weak", vec![causal]),
            (false, false, true) => (READ_STRONG, "read_strong", vec![strong]),
            (false, false, false) => (ADD_STRONG, "add_strong", vec![strong]),
        };
        Call { kind, transaction, args }
    }
}
