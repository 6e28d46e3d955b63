//! The micro-benchmark of UniStore §8.2 and §8.3: transactions of three items.
//!
//! A given share of the transactions update items; independently, a given share are strong. Each
//! transaction accesses three distinct items, drawn uniformly. A share of the strong transactions
//! take their first item from one designated partition.
//!
//! | key | content | space |
//! |---|---|---|
//! | `micro:c:N` | items of causal transactions | causal |
//! | `micro:s:N` | items of strong transactions | `por`: a `SET` conflicts with every `SET` |
//! | `micro:s:{hot}:N` | items of strong transactions, all in one partition | the same |
//!
//! Causal and strong transactions have separate keys, because a space makes a command either strong
//! or causal.

use std::collections::BTreeSet;
use std::rc::Rc;

use solera::{Client, Error};

use crate::batch::Batch;
use crate::closed_loop::Workload;
use crate::load::{Part, Writing};
use crate::random::Random;
use crate::session::{BenchSession, BenchSessions};
use crate::tally::{Class, Done, Kind};

/// Spaces of a cluster on which the transactions are strong, in the format of `solera.toml`.
pub(crate) const SPACES: &str = r#"[[space]]
name = "micro-strong"
prefix = "micro:s:"
level = "por"
strong = ["SET"]
conflicts = [["SET", "SET"]]
"#;

/// Settings of the micro-benchmark.
#[derive(Clone, Debug)]
pub struct Micro {
    /// Number of items for causal transactions, and the same number of other items for strong ones.
    pub keys: u64,
    /// Share of transactions that update, in percent.
    pub updates: u8,
    /// Share of transactions that are strong, in percent.
    pub strong: u8,
    /// Share of strong transactions that access the designated partition, in percent.
    pub hot: u8,
    /// Size of an item in bytes.
    pub value_bytes: u64,
    /// Seed of the random numbers.
    pub seed: u64,
}

const ITEMS: usize = 3;

const KINDS: [Kind; 4] = [
    Kind { name: "read", class: Class::Read },
    Kind { name: "update", class: Class::Causal },
    Kind { name: "strong read", class: Class::Strong },
    Kind { name: "strong update", class: Class::Strong },
];

pub(crate) struct Visitor {
    random: Random,
}

impl Micro {
    /// Returns one partition's share of the keys, for the default number of partitions.
    fn hot_keys(&self) -> u64 {
        (self.keys / 16).max(1)
    }

    /// Returns the initial data of a run.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let part = |count, prefix: &'static str, writing| {
            let (bytes, seed) = (self.value_bytes, self.seed);
            let write = move |n: u64, batch: &mut Batch| {
                batch.add(&["SET", &format!("{prefix}{n}"), &Random::new(seed ^ n).text(bytes)]);
            };
            Part { count, writing, write: Rc::new(write) }
        };
        vec![
            part(self.keys, "micro:c:", Writing::Causal),
            part(self.keys, "micro:s:", Writing::Strong),
            part(self.hot_keys(), "micro:s:{hot}:", Writing::Strong),
        ]
    }

    /// Chooses the items of a transaction.
    fn keys_of(&self, class: Class, random: &mut Random) -> Vec<String> {
        let strong = class == Class::Strong;
        let prefix = if strong { "micro:s:" } else { "micro:c:" };
        let mut keys = BTreeSet::new();
        if strong && random.chance(self.hot) {
            keys.insert(format!("micro:s:{{hot}}:{}", random.below(self.hot_keys())));
        }
        while keys.len() < ITEMS {
            keys.insert(format!("{prefix}{}", random.below(self.keys)));
        }
        keys.into_iter().collect()
    }
}

impl Workload for Micro {
    type Sessions = BenchSessions;
    type Visitor = Visitor;

    fn kinds(&self) -> Vec<Kind> {
        KINDS.to_vec()
    }

    fn visitor(&self, client: usize) -> Visitor {
        Visitor { random: Random::new(self.seed ^ ((client as u64) << 32)) }
    }

    fn next(&self, visitor: &mut Visitor) -> usize {
        let update = visitor.random.chance(self.updates);
        let strong = visitor.random.chance(self.strong);
        2 * usize::from(strong) + usize::from(update)
    }

    async fn run(
        &self,
        kind: usize,
        visitor: &mut Visitor,
        session: &mut BenchSession,
    ) -> Result<Done, Error> {
        let class = KINDS[kind].class;
        let updates = kind % 2 == 1;
        let mut batch = Batch::default();
        let value = visitor.random.text(self.value_bytes);
        for key in self.keys_of(class, &mut visitor.random) {
            match updates {
                true => batch.add(&["SET", &key, &value]),
                false => batch.add(&["GET", &key]),
            }
        }
        let body = async |tx: &mut Client| batch.send(tx).await.map(drop);
        match class {
            Class::Strong => session.strong(body).await?,
            _ => session.causal(body).await?,
        }
        Ok(Done::Well)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micro() -> Micro {
        Micro { keys: 1000, updates: 60, strong: 20, hot: 30, value_bytes: 8, seed: 1 }
    }

    #[test]
    fn the_shares_match_the_settings() {
        let micro = micro();
        let mut visitor = micro.visitor(0);
        let mut drawn = [0_u32; 4];
        for _ in 0..100_000 {
            drawn[micro.next(&mut visitor)] += 1;
        }
        for (kind, expected) in drawn.iter().zip([32_000, 48_000, 8000, 12_000]) {
            assert!(kind.abs_diff(expected) < expected / 20, "{drawn:?}");
        }
    }

    #[test]
    fn a_transaction_has_three_items_and_strong_ones_some_in_the_hot_partition() {
        let micro = micro();
        let mut random = Random::new(3);
        let mut hot = 0;
        for _ in 0..10_000 {
            let keys = micro.keys_of(Class::Strong, &mut random);
            assert_eq!(keys.len(), 3);
            assert!(keys.iter().all(|key| key.starts_with("micro:s:")));
            hot += u32::from(keys.iter().any(|key| key.contains("{hot}")));
            let keys = micro.keys_of(Class::Causal, &mut random);
            assert!(keys.len() == 3 && keys.iter().all(|key| key.starts_with("micro:c:")));
        }
        assert!(hot.abs_diff(3000) < 150, "{hot}");
    }

    #[test]
    fn a_transaction_ends_even_with_few_keys() {
        let micro = Micro { keys: 3, hot: 0, ..micro() };
        let keys = micro.keys_of(Class::Causal, &mut Random::new(1));
        assert_eq!(keys, ["micro:c:0", "micro:c:1", "micro:c:2"]);
    }
}
