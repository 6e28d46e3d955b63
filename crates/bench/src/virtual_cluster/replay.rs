//! RUBiS in a virtual cluster: clients do what those of the real workload were recorded doing.

use std::sync::Arc;

use solera::ClusterSpec;
use solera_data::{Key, Op};
use solera_node::Class as Certified;
use solera_resp::lookup;
use solera_unistore::Kind;

use super::recording::{RUN, Recorded, Recording, Words};
use super::source::{Source, Step, Transaction};
use crate::random::Random;
use crate::tally::Class;

/// Transactions of a recording, drawn at random. What they name anew gets another name each time, so that
/// they conflict as rarely as they did when they were recorded.
pub(crate) struct Replay {
    recording: Arc<Recording>,
    spaces: Arc<ClusterSpec>,
    replayed: u64,
}

impl Replay {
    /// `spaces` say what conflicts.
    pub(crate) fn new(recording: Arc<Recording>, spaces: Arc<ClusterSpec>) -> Replay {
        Replay { recording, spaces, replayed: 0 }
    }

    fn steps(&self, words: &Words, name: &str) -> Vec<Step> {
        let words: Vec<Vec<u8>> = words.iter().map(|word| rename(word, name)).collect();
        let of_command = operations(&words).into_iter().map(|(key, op)| {
            let command = lookup(&words[0]).expect("only commands are recorded").id;
            let spaces = &self.spaces.spaces;
            let Certified { kind, conflicts, .. } = spaces.class_of(key.as_bytes(), command, &op);
            let level = spaces.level_of(key.as_bytes());
            Step { key, op, level, kind: Kind { number: kind, conflicts } }
        });
        of_command.collect()
    }
}

impl Source for Replay {
    fn load(&self) -> Vec<(Key, Op)> {
        self.recording.load.iter().flat_map(|words| operations(words)).collect()
    }

    fn next(&mut self, random: &mut Random) -> Transaction {
        let transactions = &self.recording.transactions;
        let at = random.below(transactions.len() as u64) as usize;
        self.replayed += 1;
        let name = format!("r{:x}", self.replayed);
        let Recorded { strong, rounds } = &transactions[at];
        let round = |round: &Vec<Words>| {
            round.iter().flat_map(|words| self.steps(words, &name)).collect::<Vec<Step>>()
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

/// What a command of RUBiS does to its keys; nothing if it is none of those.
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
