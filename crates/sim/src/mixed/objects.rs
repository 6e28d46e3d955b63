//! Objects of programs as keys of replicas: counters are text, sets of numbers are sets, and named objects hashes.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use solera_data::{Op, Outcome, Value as Bytes};
use solera_mixt::store::{Fields, ObjectCall, StoreError};
use solera_program::operation::ObjectOp;
use solera_program::value::Value;

/// The operation of a replica that a call is.
pub(super) fn operation(call: &ObjectCall) -> Op {
    match (call.op, &call.args[..]) {
        (ObjectOp::Insert, [Value::Int(number)]) => Op::SetAdd(vec![text(number)]),
        (ObjectOp::Elements, _) => Op::SetMembers,
        (ObjectOp::Increment, [Value::Int(by)]) => Op::IncrBy(*by),
        (ObjectOp::Value, _) => Op::Get,
        other => panic!("the programs of this world do not use {other:?}"),
    }
}

/// What its outcome means to the program.
pub(super) fn answer(call: &ObjectCall, outcome: Outcome) -> Result<Value, StoreError> {
    match (call.op, outcome) {
        (ObjectOp::Insert | ObjectOp::Increment, Outcome::Int(_)) => Ok(Value::Unit),
        (ObjectOp::Value, Outcome::Nil) => Ok(Value::Int(0)),
        (ObjectOp::Value, Outcome::Bulk(bytes)) => number(&bytes).map(Value::Int),
        (ObjectOp::Elements, Outcome::Members(members)) => {
            let numbers = members.iter().map(|member| number(member).map(Value::Int));
            Ok(Value::Set(Arc::new(numbers.collect::<Result<BTreeSet<_>, _>>()?)))
        }
        (_, outcome) => Err(StoreError::Refused(format!("it answers {outcome:?}"))),
    }
}

/// The values of a named object.
pub(super) fn fields(outcome: Outcome) -> Result<Fields, StoreError> {
    let Outcome::Pairs(pairs) = outcome else {
        return Err(StoreError::Refused(format!("it answers {outcome:?}")));
    };
    let pairs =
        pairs.iter().map(|(field, value)| Ok((number(field)?, Arc::from(value.as_bytes()))));
    pairs.collect()
}

/// A number as it is kept.
pub(super) fn text(number: impl ToString) -> Bytes {
    Bytes::from(number.to_string().as_str())
}

fn number<N: FromStr>(bytes: &Bytes) -> Result<N, StoreError> {
    let text = std::str::from_utf8(bytes.as_bytes()).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| StoreError::Refused(format!("{bytes:?} is no number")))
}
