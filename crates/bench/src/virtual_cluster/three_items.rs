//! The micro-benchmark of UniStore §8.2 and §8.3, as [`Micro`] runs it on real clusters.

use solera_data::{Key, Op};
use solera_levels::Level;
use solera_machine::PartitionId;
use solera_unistore::Kind;

use super::source::{Source, Step, Transaction};
use crate::micro::Micro;
use crate::random::Random;
use crate::tally::Class;

/// Source of transactions of three items.
pub(crate) struct ThreeItems {
    micro: Micro,
    /// Whether the items are loaded initially.
    loaded: bool,
    /// Keys of the designated partition.
    hot: Vec<Key>,
}

/// A SET of the space of strong items conflicts with every SET.
const SET: Kind = Kind { number: 1, conflicts: 1 << 1 };
const GET: Kind = Kind { number: 0, conflicts: 0 };

impl ThreeItems {
    pub(crate) fn new(micro: Micro, partitions: u16, loaded: bool) -> ThreeItems {
        let enough = (micro.keys / u64::from(partitions)).max(1) as usize;
        let is_hot = |key: &Key| PartitionId::of(key.as_bytes(), partitions) == PartitionId(0);
        let wanted = if micro.hot == 0 { 0 } else { enough };
        let hot = (0..).map(|n| key("hot", n)).filter(is_hot).take(wanted).collect();
        ThreeItems { micro, loaded, hot }
    }

    fn keys_of(&self, strong: bool, random: &mut Random) -> Vec<Key> {
        let mut keys = Vec::with_capacity(3);
        if strong && random.chance(self.micro.hot) {
            keys.push(self.hot[random.below(self.hot.len() as u64) as usize].clone());
        }
        let prefix = if strong { "micro:s" } else { "micro:c" };
        while keys.len() < 3 {
            let key = key(prefix, random.below(self.micro.keys));
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }
}

fn key(prefix: &str, n: u64) -> Key {
    format!("{prefix}:{n}").as_bytes().into()
}

impl Source for ThreeItems {
    fn load(&self) -> Vec<(Key, Op)> {
        let mut random = Random::new(self.micro.seed);
        let mut set =
            |n| (key("micro:c", n), Op::Set(random.text(self.micro.value_bytes).as_bytes().into()));
        (0..self.micro.keys).filter(|_| self.loaded).map(&mut set).collect()
    }

    fn next(&mut self, random: &mut Random) -> Transaction {
        let update = random.chance(self.micro.updates);
        let strong = random.chance(self.micro.strong);
        let value = random.text(self.micro.value_bytes);
        let step = |key| {
            let op = if update { Op::Set(value.as_bytes().into()) } else { Op::Get };
            let level = if strong { Level::Por } else { Level::Causal };
            Step { key, op, level, kind: if update { SET } else { GET } }
        };
        let class = match (strong, update) {
            (true, _) => Class::Strong,
            (false, true) => Class::Causal,
            (false, false) => Class::Read,
        };
        let steps = self.keys_of(strong, random).into_iter().map(step).collect();
        Transaction { class, rounds: vec![steps] }
    }
}
