//! The checker of PC-PSI: histories with one violation each, legal ones, and random ones.

mod anomalies;
mod generated;
mod legal;
mod naive;
mod notation;
#[path = "../random/mod.rs"]
mod random;
