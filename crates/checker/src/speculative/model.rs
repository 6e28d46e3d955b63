//! Sequential specification of the procedures.

use std::collections::{BTreeMap, BTreeSet};

use super::history::{Failure, KeyCommand, Outcome, Procedure, Swap, Value};

/// A state, with the changes that can be undone.
#[derive(Default)]
pub(super) struct State<'a> {
    values: BTreeMap<&'a str, Value>,
    changes: Vec<Change<'a>>,
}

/// A change of a key, as what undoes it.
enum Change<'a> {
    /// The key had this value.
    Had(&'a str, Option<Value>),
    /// The last element of the list at the key is new.
    Appended(&'a str),
}

type Result<T> = std::result::Result<T, Failure>;

impl<'a> State<'a> {
    /// Returns a mark for [`State::undo`].
    pub(super) fn mark(&self) -> usize {
        self.changes.len()
    }

    /// Undoes all changes since a mark.
    pub(super) fn undo(&mut self, mark: usize) {
        while self.changes.len() > mark {
            match self.changes.pop() {
                Some(Change::Had(key, Some(value))) => drop(self.values.insert(key, value)),
                Some(Change::Had(key, None)) => drop(self.values.remove(key)),
                Some(Change::Appended(key)) => {
                    if let Some(Value::List(list)) = self.values.get_mut(key) {
                        list.pop();
                    }
                }
                None => {}
            }
        }
    }

    /// Makes all changes permanent.
    pub(super) fn keep(&mut self) {
        self.changes.clear();
    }

    /// Runs a procedure.
    pub(super) fn run(&mut self, procedure: &'a Procedure) -> Outcome {
        self.attempt(procedure).unwrap_or_else(Outcome::Failed)
    }

    fn attempt(&mut self, procedure: &'a Procedure) -> Result<Outcome> {
        match procedure {
            Procedure::Nothing => Ok(Outcome::Done),
            Procedure::Read(key) => Ok(Outcome::Value(self.get(key).cloned())),
            Procedure::ReadMany(keys) => {
                Ok(Outcome::Values(keys.iter().map(|key| self.get(key).cloned()).collect()))
            }
            Procedure::Write(key, value) => {
                self.put(key, value.clone());
                Ok(Outcome::Done)
            }
            Procedure::Add(key, by) => {
                let sum = self.number(key)?.checked_add(*by).ok_or(Failure::Overflow)?;
                self.put(key, Some(Value::Int(sum)));
                Ok(Outcome::Value(Some(Value::Int(sum))))
            }
            Procedure::Append(key, element) => self.append(key, element),
            Procedure::PutIfAbsent(key, value) => {
                let found = self.get(key).cloned();
                if found.is_none() {
                    self.put(key, Some(value.clone()));
                }
                Ok(Outcome::Value(found))
            }
            Procedure::CompareAndSet(swaps) => self.compare_and_set(swaps),
            Procedure::Transfer { from, to, amount } => self.transfer(from, to, *amount),
            Procedure::Commands(commands) => {
                let each = commands.iter().map(|(key, command)| {
                    self.command(key, command).unwrap_or_else(Outcome::Failed)
                });
                Ok(Outcome::Each(each.collect()))
            }
        }
    }

    fn command(&mut self, key: &'a str, command: &KeyCommand) -> Result<Outcome> {
        let number = |number: i64| Ok(Outcome::Value(Some(Value::Int(number))));
        match command {
            KeyCommand::Get => match self.get(key) {
                Some(Value::List(_)) => Err(Failure::WrongType),
                Some(Value::Int(number)) => {
                    Ok(Outcome::Value(Some(Value::Text(number.to_string()))))
                }
                text => Ok(Outcome::Value(text.cloned())),
            },
            KeyCommand::Set(text) => {
                self.put(key, Some(Value::Text(text.clone())));
                Ok(Outcome::Done)
            }
            KeyCommand::IncrBy(by) => {
                let before = match self.get(key) {
                    Some(Value::Text(text)) => text.parse().map_err(|_| Failure::NotANumber)?,
                    _ => self.number(key)?,
                };
                let sum = before.checked_add(*by).ok_or(Failure::Overflow)?;
                self.put(key, Some(Value::Int(sum)));
                number(sum)
            }
            KeyCommand::SetAdd(elements) => {
                let mut set = self.set(key)?;
                let before = set.len();
                set.extend(elements.iter().cloned());
                let added = set.len() - before;
                self.put(key, Some(Value::List(set.into_iter().collect())));
                number(added as i64)
            }
            KeyCommand::SetRemove(elements) => {
                let mut set = self.set(key)?;
                let removed = elements.iter().filter(|element| set.remove(*element)).count();
                let rest: Vec<String> = set.into_iter().collect();
                self.put(key, Some(rest).filter(|rest| !rest.is_empty()).map(Value::List));
                number(removed as i64)
            }
            KeyCommand::SetMembers => {
                let set = self.set(key)?.into_iter().collect();
                Ok(Outcome::Value(Some(Value::List(set))))
            }
            KeyCommand::Delete => {
                let existed = self.get(key).is_some();
                self.put(key, None);
                number(i64::from(existed))
            }
        }
    }

    fn set(&self, key: &str) -> Result<BTreeSet<String>> {
        match self.get(key) {
            None => Ok(BTreeSet::new()),
            Some(Value::List(elements)) => Ok(elements.iter().cloned().collect()),
            Some(_) => Err(Failure::WrongType),
        }
    }

    fn append(&mut self, key: &'a str, element: &str) -> Result<Outcome> {
        let length = match self.values.get_mut(key) {
            None => {
                self.put(key, Some(Value::List(vec![element.to_owned()])));
                1
            }
            Some(Value::List(list)) => {
                list.push(element.to_owned());
                let length = list.len();
                self.changes.push(Change::Appended(key));
                length
            }
            Some(_) => return Err(Failure::WrongType),
        };
        Ok(Outcome::Value(Some(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))))
    }

    fn compare_and_set(&mut self, swaps: &'a [Swap; 2]) -> Result<Outcome> {
        if let Some(other) = swaps.iter().find(|swap| self.get(&swap.key) != swap.expected.as_ref())
        {
            return Err(Failure::Differs(other.key.clone()));
        }
        for swap in swaps {
            self.put(&swap.key, swap.new.clone());
        }
        Ok(Outcome::Done)
    }

    fn transfer(&mut self, from: &'a str, to: &'a str, amount: u32) -> Result<Outcome> {
        let amount = i64::from(amount);
        let (source, target) = (self.number(from)?, self.number(to)?);
        if source < amount {
            return Err(Failure::TooLittle);
        }
        let both = if from == to {
            [source, source]
        } else {
            [source - amount, target.checked_add(amount).ok_or(Failure::Overflow)?]
        };
        self.put(from, Some(Value::Int(both[0])));
        self.put(to, Some(Value::Int(both[1])));
        Ok(Outcome::Values(both.map(|value| Some(Value::Int(value))).to_vec()))
    }

    fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    fn number(&self, key: &str) -> Result<i64> {
        match self.get(key) {
            None => Ok(0),
            Some(Value::Int(number)) => Ok(*number),
            Some(_) => Err(Failure::WrongType),
        }
    }

    fn put(&mut self, key: &'a str, value: Option<Value>) {
        let before = match value {
            Some(value) => self.values.insert(key, value),
            None => self.values.remove(key),
        };
        self.changes.push(Change::Had(key, before));
    }
}
