//! How much memory the process takes, and whether that is more than it may.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The process' memory, as it was measured last.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    used: AtomicU64,
    full: AtomicBool,
}

impl Memory {
    /// Bytes that the process uses; 0 where that is not known.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Whether it uses more than it may.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    /// Returns whether it is full now, if it was not so before or is not any more.
    pub(crate) fn measured(&self, used: u64, limit: Option<u64>) -> Option<bool> {
        self.used.store(used, Relaxed);
        let full = limit.is_some_and(|limit| used > limit);
        (self.full.swap(full, Relaxed) != full).then_some(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_told() {
        let memory = Memory::default();
        let told = [(1, None), (9, Some(9)), (10, Some(9)), (11, Some(9)), (9, Some(9)), (9, None)]
            .map(|(used, limit)| memory.measured(used, limit));
        assert_eq!(told, [None, None, Some(true), None, Some(false), None]);
        assert_eq!((memory.used(), memory.is_full()), (9, false));
    }
}
