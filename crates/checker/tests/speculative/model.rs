//! Model of the procedures that the simulated space executes: their specification once more,
//! written for shortness instead of speed.

use std::collections::BTreeMap;

use solera_checker::speculative::{Failure, Outcome, Procedure, Value};

use crate::random::Random;

pub(crate) type State = BTreeMap<String, Value>;

/// Runs a procedure.
pub(crate) fn run(state: &mut State, procedure: &Procedure) -> Outcome {
    let mut next = state.clone();
    match attempt(&mut next, procedure) {
        Ok(outcome) => {
            *state = next;
            outcome
        }
        Err(failure) => Outcome::Failed(failure),
    }
}

fn attempt(state: &mut State, procedure: &Procedure) -> Result<Outcome, Failure> {
    let set = |state: &mut State, key: &String, value: &Option<Value>| match value {
        Some(value) => drop(state.insert(key.clone(), value.clone())),
        None => drop(state.remove(key)),
    };
    let number = |state: &State, key: &String| match state.get(key) {
        None => Ok(0_i64),
        Some(Value::Int(number)) => Ok(*number),
        Some(_) => Err(Failure::WrongType),
    };
    let int = |number: i64| Some(Value::Int(number));
    Ok(match procedure {
        Procedure::Commands(_) => unreachable!("the simulated space has no commands"),
        Procedure::Nothing => Outcome::Done,
        Procedure::Read(key) => Outcome::Value(state.get(key).cloned()),
        Procedure::ReadMany(keys) => {
            Outcome::Values(keys.iter().map(|key| state.get(key).cloned()).collect())
        }
        Procedure::Write(key, value) => {
            set(state, key, value);
            Outcome::Done
        }
        Procedure::Add(key, by) => {
            let sum = number(state, key)?.checked_add(*by).ok_or(Failure::Overflow)?;
            set(state, key, &int(sum));
            Outcome::Value(int(sum))
        }
        Procedure::Append(key, element) => {
            let mut list = match state.get(key) {
                None => Vec::new(),
                Some(Value::List(list)) => list.clone(),
                Some(_) => return Err(Failure::WrongType),
            };
            list.push(element.clone());
            let length = list.len() as i64;
            set(state, key, &Some(Value::List(list)));
            Outcome::Value(int(length))
        }
        Procedure::PutIfAbsent(key, value) => {
            let before = state.get(key).cloned();
            if before.is_none() {
                set(state, key, &Some(value.clone()));
            }
            Outcome::Value(before)
        }
        Procedure::CompareAndSet(swaps) => {
            for swap in swaps {
                if state.get(&swap.key) != swap.expected.as_ref() {
                    return Err(Failure::Differs(swap.key.clone()));
                }
            }
            swaps.iter().for_each(|swap| set(state, &swap.key, &swap.new));
            Outcome::Done
        }
        Procedure::Transfer { from, to, amount } => {
            let amount = i64::from(*amount);
            let (_, _) = (number(state, from)?, number(state, to)?);
            if number(state, from)? < amount {
                return Err(Failure::TooLittle);
            }
            let rest = number(state, from)? - amount;
            set(state, from, &int(rest));
            let sum = number(state, to)?.checked_add(amount).ok_or(Failure::Overflow)?;
            set(state, to, &int(sum));
            Outcome::Values(vec![int(number(state, from)?), int(number(state, to)?)])
        }
    })
}

/// Returns a random procedure. `unique` is a text that no other procedure has.
pub(crate) fn procedure(random: &mut Random, reads: bool, unique: u64) -> Procedure {
    let number = |random: &mut Random| ["a", "b", "c"][random.below(3)].to_owned();
    let list = |random: &mut Random| ["l", "m"][random.below(2)].to_owned();
    let any = |random: &mut Random| ["a", "b", "c", "l", "m"][random.below(5)].to_owned();
    let small =
        |random: &mut Random| (random.below(4) > 0).then(|| Value::Int(random.below(3) as i64));
    if reads {
        return match random.below(2) {
            0 => Procedure::Read(any(random)),
            _ => Procedure::ReadMany(vec![list(random), number(random), number(random)]),
        };
    }
    match random.below(16) {
        0 => Procedure::Write(any(random), small(random)),
        1..=3 => Procedure::Add(number(random), random.below(9) as i64 - 3),
        4..=8 => Procedure::Append(list(random), unique.to_string()),
        9 => Procedure::PutIfAbsent(any(random), Value::Text(unique.to_string())),
        10..=11 => Procedure::CompareAndSet([(); 2].map(|()| solera_checker::speculative::Swap {
            key: number(random),
            expected: small(random),
            new: small(random),
        })),
        12..=13 => Procedure::Transfer {
            from: number(random),
            to: number(random),
            amount: random.below(4) as u32,
        },
        _ => procedure(random, true, unique),
    }
}
