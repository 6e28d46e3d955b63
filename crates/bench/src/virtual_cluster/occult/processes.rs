//! The server processes of the cluster, and their work.

/// Number of sites.
pub(crate) const SITES: usize = 2;
/// Server processes of a site.
pub(crate) const PROCESSES: usize = 40;

/// Work of a process within a window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// Time in nanoseconds.
    pub(crate) busy: u64,
    /// Part of the time for steps of the machine, in nanoseconds.
    pub(crate) steps: u64,
}
