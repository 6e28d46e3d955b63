//! Runs phases: deterministic, metered, without I/O.
