//! Procedures over few keys, as the sites execute them.

use serde::{Deserialize, Serialize};
use solera_creek::{Access, Procedures};
use solera_random::Random;

pub(crate) type Key = u8;
pub(crate) const KEYS: Key = 4;

/// An operation of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Operation {
    Read(Key),
    /// Reads all keys.
    ReadAll,
    Write(Key, i64),
    /// Adds to the last number of a list.
    Add(Key, i64),
    /// Appends to a list, of which it keeps the last numbers.
    Append(Key, i64),
    /// Writes both keys if the sums of their numbers are the expected ones.
    CompareAndSet {
        expected: [(Key, i64); 2],
        new: [i64; 2],
    },
    /// Moves a number from the first key to the second if the sum of the first suffices.
    Transfer(Key, Key, i64),
}

/// Response to an operation: whether it took effect, and what it read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Response {
    pub(crate) effective: bool,
    pub(crate) read: Vec<Option<Vec<i64>>>,
}

pub(crate) const MOST: usize = 6;

impl Operation {
    pub(crate) fn random(random: &mut Random) -> Operation {
        let key = random.below(KEYS.into()) as Key;
        let other = (key + 1 + random.below(u64::from(KEYS) - 1) as Key) % KEYS;
        let number = random.below(20) as i64;
        match random.below(10) {
            0 => Operation::Read(key),
            1 => Operation::ReadAll,
            2 => Operation::Write(key, number),
            3 | 4 => Operation::Add(key, number - 8),
            5 | 6 => Operation::Append(key, number),
            7 => {
                let expected = [(key, random.below(12) as i64), (other, random.below(3) as i64)];
                Operation::CompareAndSet { expected, new: [number, -number] }
            }
            _ => Operation::Transfer(key, other, number / 2),
        }
    }
}

/// Executes operations on registers.
pub(crate) struct Lists;

fn sum(list: Option<&Vec<i64>>) -> i64 {
    list.map_or(0, |list| list.iter().sum())
}

impl Procedures for Lists {
    type Operation = Operation;
    type Value = Vec<i64>;
    type Response = Response;

    fn execute(&self, operation: &Operation, registers: &mut dyn Access<Vec<i64>>) -> Response {
        let mut effective = true;
        let mut read = Vec::new();
        match operation {
            Operation::Read(key) => read.push(registers.read(&[*key])),
            Operation::ReadAll => read.extend((0..KEYS).map(|key| registers.read(&[key]))),
            Operation::Write(key, number) => registers.write(&[*key], Some(vec![*number])),
            Operation::Add(key, number) => {
                let mut list = registers.read(&[*key]).unwrap_or_default();
                match list.last_mut() {
                    Some(last) => *last += number,
                    None => list.push(*number),
                }
                registers.write(&[*key], Some(list.clone()));
                read.push(Some(list));
            }
            Operation::Append(key, number) => {
                let mut list = registers.read(&[*key]).unwrap_or_default();
                list.push(*number);
                let surplus = list.len().saturating_sub(MOST);
                registers.write(&[*key], Some(list.split_off(surplus)));
                read.push(registers.read(&[*key]));
            }
            Operation::CompareAndSet { expected: [(a, x), (b, y)], new } => {
                let values = [registers.read(&[*a]), registers.read(&[*b])];
                effective = sum(values[0].as_ref()) == *x && sum(values[1].as_ref()) == *y;
                if effective {
                    registers.write(&[*a], Some(vec![new[0]]));
                    registers.write(&[*b], Some(vec![new[1]]));
                }
                read.extend(values);
            }
            Operation::Transfer(from, to, number) => {
                let source = registers.read(&[*from]);
                effective = sum(source.as_ref()) >= *number;
                if effective {
                    let rest = sum(source.as_ref()) - number;
                    registers.write(&[*from], (rest != 0).then(|| vec![rest]));
                    let target = sum(registers.read(&[*to]).as_ref());
                    registers.write(&[*to], Some(vec![target + number]));
                }
                read.push(source);
            }
        }
        Response { effective, read }
    }

    fn is_read_only(&self, operation: &Operation) -> bool {
        matches!(operation, Operation::Read(_) | Operation::ReadAll)
    }

    fn classes(&self, operation: &Operation) -> Vec<u64> {
        match operation {
            Operation::Add(key, _) | Operation::Transfer(_, key, _) => vec![u64::from(*key)],
            _ => Vec::new(),
        }
    }

    fn is_short(&self, operation: &Operation) -> bool {
        matches!(operation, Operation::Read(_) | Operation::Write(..) | Operation::Append(..))
    }
}
