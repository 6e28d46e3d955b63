//! The judge of speculative spaces: one bad history for each rule, and histories of a simulated
//! space, as they are and with one thing changed.

mod generated;
mod large;
mod model;
mod mutations;
mod notation;
mod procedures;
#[path = "../random/mod.rs"]
mod random;
mod rules;
mod space;
mod text;
