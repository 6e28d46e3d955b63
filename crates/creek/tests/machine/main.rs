//! Machines with every message under the test's control.

mod cluster;
mod protocol;
mod waits;
