//! Interface of the workloads of a virtual cluster.

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
    /// Level of the key's space.
    pub(crate) level: Level,
    /// Its conflicts, if the transaction is strong.
    pub(crate) kind: Kind,
}

/// A transaction, as consecutive batches of operations.
#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    pub(crate) class: Class,
    pub(crate) rounds: Vec<Vec<Step>>,
}

/// A workload.
pub(crate) trait Source {
    /// Returns the initial data.
    fn load(&self) -> Vec<(Key, Op)>;

    /// Returns the next transaction of a client.
    fn next(&mut self, random: &mut Random) -> Transaction;
}
