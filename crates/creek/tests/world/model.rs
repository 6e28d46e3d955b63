//! The judge's model of the procedures: a sequential state. Shares no code with what the sites
//! execute.

use std::collections::BTreeMap;

use crate::world::procedures::{KEYS, Key, MOST, Operation, Response};

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model(pub(crate) BTreeMap<Key, Vec<i64>>);

impl Model {
    fn total(&self, key: Key) -> i64 {
        self.0.get(&key).into_iter().flatten().sum()
    }

    pub(crate) fn apply(&mut self, operation: &Operation) -> Response {
        let of = |model: &Model, keys: &[Key]| -> Vec<Option<Vec<i64>>> {
            keys.iter().map(|key| model.0.get(key).cloned()).collect()
        };
        match *operation {
            Operation::Read(key) => Response { effective: true, read: of(self, &[key]) },
            Operation::ReadAll => {
                let all: Vec<Key> = (0..KEYS).collect();
                Response { effective: true, read: of(self, &all) }
            }
            Operation::Write(key, number) => {
                self.0.insert(key, vec![number]);
                Response { effective: true, read: Vec::new() }
            }
            Operation::Add(key, number) => {
                let list = self.0.entry(key).or_default();
                let last = list.pop().unwrap_or(0);
                list.push(last + number);
                Response { effective: true, read: of(self, &[key]) }
            }
            Operation::Append(key, number) => {
                let list = self.0.entry(key).or_default();
                list.push(number);
                while list.len() > MOST {
                    list.remove(0);
                }
                Response { effective: true, read: of(self, &[key]) }
            }
            Operation::CompareAndSet { expected: [(a, x), (b, y)], new: [p, q] } => {
                let read = of(self, &[a, b]);
                let effective = (self.total(a), self.total(b)) == (x, y);
                if effective {
                    self.0.extend([(a, vec![p]), (b, vec![q])]);
                }
                Response { effective, read }
            }
            Operation::Transfer(from, to, number) => {
                let read = of(self, &[from]);
                let (source, target) = (self.total(from), self.total(to));
                if source < number {
                    return Response { effective: false, read };
                }
                self.0.insert(from, vec![source - number]);
                if source == number {
                    self.0.remove(&from);
                }
                self.0.insert(to, vec![target + number]);
                Response { effective: true, read }
            }
        }
    }
}
