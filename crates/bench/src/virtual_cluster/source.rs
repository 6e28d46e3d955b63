//! What clients of a virtual cluster do.

use solera_data::{Key, Op};
use solera_levels::Level;
use solera_unistore::Kind;

use crate::random::Random;
use crate::tally::Class;

/// One operation on one key.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) key: Key,
    pub(crate) op: Op,
    /// The level of the key's space.
    pub(crate) level: Level,
    /// What it conflicts with, if the transaction is strong.
    pub(crate) kind: Kind,
}

/// A transaction: what is sent together, and waited for, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) class: Class,
    pub(crate) rounds: Vec<Vec<Step>>,
}

/// A workload.
pub(crate) trait Source {
    /// What is there before clients come.
    fn load(&self) -> Vec<(Key, Op)>;

    /// What a client does next.
    fn next(&mut self, random: &mut Random) -> Transaction;
}
