//! RUBiS in a virtual cluster: clients replay a recording of the real workload.
//!
//! The rate of conflicts depends on the number of items. The virtual cluster has more items than
//! the recording: copies of each item, and of the pages of items in each category and region. Every
//! transaction is moved to a random copy.

use std::sync::Arc;

use solera_commands::lookup;
use solera_config::{Baseline, Class as Certified, ClusterSpec};
use solera_data::{Key, Op};
use solera_unistore::Kind;

use super::recording::{RUN, Recorded, Recording, Words};
use super::source::{Source, Step, Transaction};
use crate::random::Random;
use crate::tally::Class;

/// Number of copies of the recorded items: with the scale `small`, there are as many items as in
/// the paper.
pub(crate) const COPIES: u64 = 100;

/// Source of random transactions of a recording. Names that they create are different each time, so
/// that they conflict as rarely as in the recording.
pub(crate) struct Replay {
    recording: Arc<Recording>,
    spaces: Arc<ClusterSpec>,
    variant: Baseline,
    replayed: u64,
}

impl Replay {
    /// Creates a replay. `spaces` and the protocol determine the conflicts.
    pub(crate) fn new(
        recording: Arc<Recording>,
        spaces: Arc<ClusterSpec>,
        variant: Baseline,
    ) -> Replay {
        Replay { recording, spaces, variant, replayed: 0 }
    }

    fn steps(&self, words: &Words, name: &str, offset: u64) -> Vec<Step> {
        let mut words: Vec<Vec<u8>> = words.iter().map(|word| rename(word, name)).collect();
        if let Some(key) = words.get_mut(1) {
            *key = moved(key, offset, self.recording.items).unwrap_or_else(|| std::mem::take(key));
        }
        let of_command = operations(&words).into_iter().map(|(key, op)| {
            let command = lookup(&words[0]).expect("only commands are recorded").id;
            let spaces = &self.spaces.spaces;
            let Certified { kind, conflicts, .. } =
                self.variant.class_of(spaces, key.as_bytes(), command, &op);
            let level = spaces.level_of(key.as_bytes());
            Step { key, op, level, kind: Kind { number: kind, conflicts } }
        });
        of_command.collect()
    }
}

impl Source for Replay {
    fn load(&self) -> Vec<(Key, Op)> {
        let Recording { items, load, .. } = &*self.recording;
        let copies = |words: &Words| -> Vec<(Key, Op)> {
            let operations = operations(words);
            let copy = |copy: u64| {
                operations.iter().filter_map(move |(key, op)| {
                    let key = moved(key.as_bytes(), copy * items, *items)?;
                    Some((Key::from(key.as_slice()), op.clone()))
                })
            };
            let copied = (1..COPIES).flat_map(copy).collect::<Vec<_>>();
            operations.iter().cloned().chain(copied).collect()
        };
        load.iter().flat_map(copies).collect()
    }

    fn next(&mut self, random: &mut Random) -> Transaction {
        let transactions = &self.recording.transactions;
        let at = random.below(transactions.len() as u64) as usize;
        self.replayed += 1;
        let name = format!("r{:x}", self.replayed);
        let offset = random.below(self.recording.items * COPIES);
        let Recorded { strong, rounds } = &transactions[at];
        let round = |round: &Vec<Words>| {
            round.iter().flat_map(|words| self.steps(words, &name, offset)).collect::<Vec<Step>>()
        };
        let rounds: Vec<Vec<Step>> = rounds.iter().map(round).filter(|it| !it.is_empty()).collect();
        let updates = rounds.iter().flatten().any(|step| step.op.is_update());
        let class = match (strong, updates) {
            (true, _) => Class::Strong,
            (false, true) => Class::Causal,
            (false, false) => Class::Read,
        };
        Transaction { class, rounds }
    }
}

fn rename(word: &[u8], name: &str) -> Vec<u8> {
    match word.windows(RUN.len()).position(|part| part == RUN.as_bytes()) {
        Some(at) => [&word[..at], name.as_bytes(), &word[at + RUN.len()..]].concat(),
        None => word.to_vec(),
    }
}

/// Returns the key with `offset` added to the number of its item. For a page of a category or
/// region, returns the key of the same page in the copy to which `offset` leads. Returns `None` for
/// keys without copies.
fn moved(key: &[u8], offset: u64, items: u64) -> Option<Vec<u8>> {
    let key = std::str::from_utf8(key).ok()?;
    let (table, number) = key.rsplit_once(':')?;
    let number: u64 = number.parse().ok()?;
    let number = match table.strip_prefix("rubis:")?.split(':').next()? {
        "item" | "stock" | "buys" | "auction" | "bids" => (number + offset) % (items * COPIES),
        // No copy has more pages than items.
        "category" | "region" => number + offset / items * items,
        _ => return None,
    };
    Some(format!("{table}:{number}").into_bytes())
}

/// Returns the operations of a RUBiS command on its keys; empty for other commands.
fn operations(words: &[Vec<u8>]) -> Vec<(Key, Op)> {
    let value = |at: usize| words.get(at).map(Vec::as_slice).unwrap_or_default().into();
    let values = || words.iter().skip(2).map(|word| word.as_slice().into()).collect::<Vec<_>>();
    let pairs = || {
        let pair = |pair: &[Vec<u8>]| (pair[0].as_slice().into(), pair[1].as_slice().into());
        words.get(2..).unwrap_or_default().chunks_exact(2).map(pair).collect::<Vec<_>>()
    };
    let number = |at: usize| {
        let text = words.get(at).and_then(|word| std::str::from_utf8(word).ok());
        text.and_then(|text| text.parse::<i64>().ok()).unwrap_or_default()
    };
    let name = words.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
    let op = match name.as_slice() {
        b"GET" => Op::Get,
        b"SET" => Op::Set(value(2)),
        b"EXISTS" => Op::Exists,
        b"INCRBY" => Op::IncrBy(number(2)),
        b"DECRBY" => Op::IncrBy(-number(2)),
        b"SADD" => Op::SetAdd(values()),
        b"SMEMBERS" => Op::SetMembers,
        b"HSET" => Op::HashSet(pairs()),
        b"HGET" => Op::HashGet(value(2)),
        b"HMGET" => Op::HashGetMany(values()),
        b"HGETALL" => Op::HashGetAll,
        b"HINCRBY" => Op::HashIncrBy(value(2), number(3)),
        _ => return Vec::new(),
    };
    let key = words.get(1).map(Vec::as_slice).unwrap_or_default();
    vec![(key.into(), op)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_and_their_pages_are_copied_and_users_are_not() {
        let moved = |key: &str, offset| {
            moved(key.as_bytes(), offset, 330).map(|key| String::from_utf8(key).unwrap())
        };
        assert_eq!(moved("rubis:item:7", 330).as_deref(), Some("rubis:item:337"));
        assert_eq!(moved("rubis:auction:329", 32_999).as_deref(), Some("rubis:auction:328"));
        assert_eq!(moved("rubis:category:3:2", 331).as_deref(), Some("rubis:category:3:332"));
        assert_eq!(moved("rubis:region:9:3:2", 329).as_deref(), Some("rubis:region:9:3:2"));
        for key in ["rubis:user:7", "rubis:nick:user7", "rubis:item:r1-2", "rubis:categories", "x"]
        {
            assert_eq!(moved(key, 330), None, "{key}");
        }
    }

    #[test]
    fn all_keys_of_transactions_are_loaded() {
        let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let load = vec![words("SET rubis:stock:1 5"), words("SADD rubis:category:0:0 1")];
        let rounds = vec![vec![words("GET rubis:stock:1"), words("SMEMBERS rubis:category:0:0")]];
        let transactions = vec![Recorded { strong: false, rounds }];
        let recording = Arc::new(Recording { items: 1, load, transactions });
        let spaces = Arc::new(ClusterSpec::local(1).unwrap());
        let mut replay = Replay::new(recording, spaces, Baseline::UniStore);
        let loaded: Vec<Key> = replay.load().into_iter().map(|(key, _)| key).collect();
        assert_eq!(loaded.len(), 2 * COPIES as usize);
        let mut random = Random::new(1);
        let mut met = std::collections::BTreeSet::new();
        for _ in 0..50 {
            for step in replay.next(&mut random).rounds.concat() {
                assert!(loaded.contains(&step.key), "{}", step.key);
                met.insert(step.key);
            }
        }
        assert!(met.len() > 20, "{met:?}");
    }
}
