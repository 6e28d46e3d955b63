//! Memory usage of the process, and whether it exceeds the limit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Memory usage of the process, as last measured.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    used: AtomicU64,
    full: AtomicBool,
}

impl Memory {
    /// Returns the bytes that the process uses; 0 if unknown.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Returns whether the process uses more than its limit.
    pub(crate) fn is_full(&self) -> bool {
        self.full.load(Relaxed)
    }

    /// Notes a measurement. Returns whether the memory is full, if that has changed.
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
    fn only_changes_are_reported() {
        let memory = Memory::default();
        let changes =
            [(1, None), (9, Some(9)), (10, Some(9)), (11, Some(9)), (9, Some(9)), (9, None)]
                .map(|(used, limit)| memory.measured(used, limit));
        assert_eq!(changes, [None, None, Some(true), None, Some(false), None]);
        assert_eq!((memory.used(), memory.is_full()), (9, false));
    }
}
