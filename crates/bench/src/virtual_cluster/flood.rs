//! Clients that saturate a space of `primary`.

use solera_data::Key;
use solera_machine::{Address, PartitionId, RequestId, Topology};
use solera_primary::{Command, Update};

use crate::random::Random;

/// First request id of floods; ids of probes follow.
pub(crate) const FIRST: u64 = 1 << 61;
const KEYS: u64 = 1000;

/// Clients of one worker. Each updates one key after the other, without pause.
pub(crate) struct Flood {
    /// Keys that the worker owns.
    keys: Vec<Key>,
    random: Random,
    begun: u64,
    /// Number of updates that ended during the measurement.
    pub(crate) ended: u64,
}

impl Flood {
    pub(crate) fn new(at: Address, topology: &Topology) -> Flood {
        let owner = |key: &Key| {
            topology.owner(at.site, PartitionId::of(key.as_bytes(), topology.partitions))
        };
        let keys = (0..KEYS).map(|number| Key::from(format!("flood:{number}").as_bytes()));
        let keys = keys.filter(|key| owner(key) == at).collect();
        let random = Random::new(u64::from(at.site.0) << 8 | u64::from(at.worker));
        Flood { keys, random, begun: 0, ended: 0 }
    }

    /// Returns the next update.
    pub(crate) fn next(&mut self) -> (RequestId, Command) {
        self.begun += 1;
        let key = self.keys[self.random.below(self.keys.len() as u64) as usize].clone();
        let update = Update::Set(vec![b'v'; 100].as_slice().into());
        (RequestId(FIRST + self.begun), Command::Update { key, update })
    }
}
