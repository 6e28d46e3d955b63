//! Operations that sessions invoke, and their counterparts in the checker's model.

use solera_checker::speculative::{Failure, KeyCommand, Outcome, Procedure, Value};
use solera_data::{Key, Op, OpError, Outcome as Answer, Value as Bytes};
use solera_procedures::{KeyResult, Procedure as Operation, Returned};

use crate::random::Random;

/// Keys that usually hold numbers, texts and sets.
const NUMBERS: [&str; 2] = ["n0", "n1"];
const TEXTS: [&str; 1] = ["t0"];
const SETS: [&str; 2] = ["s0", "s1"];
const ELEMENTS: [&str; 4] = ["a", "b", "c", "d"];

/// Draws an operation.
pub(super) fn operation(random: &mut Random) -> Operation {
    let length = random.weighted(&[(55, 1), (25, 2), (10, 3), (10, 5)]);
    let reads = random.chance(15);
    Operation::of_steps((0..length).map(|_| command(random, reads)).collect())
}

fn command(random: &mut Random, reads: bool) -> (Key, Op) {
    let mut some = |of: &[&'static str]| of[random.below(of.len())];
    let (number, text, set) = (some(&NUMBERS), some(&TEXTS), some(&SETS));
    let other = [number, text, set];
    let other = some(&other);
    let elements = [some(&ELEMENTS), some(&ELEMENTS)];
    let count = if elements[0] == elements[1] { 1 } else { 2 };
    let elements: Vec<Bytes> = elements[..count].iter().map(|it| bytes(it)).collect();
    let by = random.within(0, 20) as i64 - 5;
    let content = random.within(0, 100).to_string();
    let (key, op) = match random.below(if reads { 3 } else { 14 }) {
        0 => (set, Op::SetMembers),
        1 => (text, Op::Get),
        2 => (number, Op::Get),
        3 | 4 => (text, Op::Set(bytes(&format!("x{content}")))),
        5 => (number, Op::Set(bytes(&content))),
        6..9 => (number, Op::IncrBy(by)),
        9 | 10 => (set, Op::SetAdd(elements)),
        11 => (set, Op::SetRemove(elements)),
        12 => (other, Op::Delete),
        // Fails, unless it comes after a deletion.
        _ => (other, random.weighted(&[(1, Kind::Number), (1, Kind::Set)]).op(by, elements)),
    };
    (Key::from(key.as_bytes()), op)
}

#[derive(Clone, Copy)]
enum Kind {
    Number,
    Set,
}

impl Kind {
    fn op(self, by: i64, elements: Vec<Bytes>) -> Op {
        match self {
            Kind::Number => Op::IncrBy(by),
            Kind::Set => Op::SetAdd(elements),
        }
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::from(text.as_bytes())
}

/// Returns operations that together read all keys.
pub(super) fn reads() -> impl Iterator<Item = Operation> {
    [Op::Get, Op::SetMembers].into_iter().map(|op| {
        let keys = NUMBERS.iter().chain(&TEXTS).chain(&SETS);
        Operation::of_steps(keys.map(|key| (Key::from(key.as_bytes()), op.clone())).collect())
    })
}

/// Returns the procedure of the checker's model.
pub(super) fn procedure(operation: &Operation) -> Procedure {
    let command = |(key, op): &(Key, Op)| (key.to_string(), key_command(op));
    let Operation::Keys { steps, .. } = operation else {
        unreachable!("sessions invoke no {operation:?}")
    };
    Procedure::Commands(steps.iter().map(command).collect())
}

fn key_command(op: &Op) -> KeyCommand {
    match op {
        Op::Get => KeyCommand::Get,
        Op::Set(value) => KeyCommand::Set(text(value)),
        Op::IncrBy(by) => KeyCommand::IncrBy(*by),
        Op::SetAdd(elements) => KeyCommand::SetAdd(texts(elements)),
        Op::SetRemove(elements) => KeyCommand::SetRemove(texts(elements)),
        Op::SetMembers => KeyCommand::SetMembers,
        Op::Delete => KeyCommand::Delete,
        other => unreachable!("sessions do not invoke {other:?}"),
    }
}

/// Returns the results of an operation as the checker's model states them.
pub(super) fn results(returned: &Returned) -> Outcome {
    match returned {
        Returned::Outcomes(results) => Outcome::Each(results.iter().map(result).collect()),
        other => unreachable!("no operation of a session returns {other:?}"),
    }
}

fn result(result: &KeyResult) -> Outcome {
    let failure = match result {
        Ok(Answer::Ok) => return Outcome::Done,
        Ok(Answer::Nil) => return Outcome::Value(None),
        Ok(Answer::Int(number)) => return Outcome::Value(Some(Value::Int(*number))),
        Ok(Answer::Bulk(value)) => return Outcome::Value(Some(Value::Text(text(value)))),
        Ok(Answer::Members(elements)) => return Outcome::Value(Some(Value::List(texts(elements)))),
        Ok(other) => unreachable!("no operation of a session answers {other:?}"),
        Err(OpError::WrongType) => Failure::WrongType,
        Err(OpError::NotAnInteger) => Failure::NotANumber,
        Err(OpError::Overflow) => Failure::Overflow,
        Err(other) => unreachable!("no operation of a session fails with {other:?}"),
    };
    Outcome::Failed(failure)
}

fn text(value: &Bytes) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

fn texts(values: &[Bytes]) -> Vec<String> {
    values.iter().map(text).collect()
}
