//! Machines with every message under the test's control.

mod baselines;
mod causes;
mod cluster;
mod divergence;
mod jobs;
mod members;
mod protocol;
mod waits;
