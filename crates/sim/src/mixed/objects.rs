//! Objects of programs as keys of replicas, and named objects as hashes.

use std::str::FromStr;
use std::sync::Arc;

use solera_data::{Op, Outcome, Value as Bytes};
use solera_mixt::store::{Fields, ObjectCall, StoreError};
use solera_program::value::Value;

/// Returns the operation of a replica for a call.
pub(super) fn operation(call: &ObjectCall) -> Op {
    let op = call.on_object().on_key(|| panic!("the programs of this world append nothing"));
    op.expect("the compiler lets no other call through")
}

/// Converts the operation's outcome to a value of the program.
pub(super) fn answer(call: &ObjectCall, outcome: Outcome) -> Result<Value, StoreError> {
    let answer = call.on_object().answer(outcome).map_err(|error| call.failed(error, "a key"))?;
    Ok(answer.expect("the programs of this world load nothing that may be missing"))
}

/// Returns the values of a named object.
pub(super) fn fields(outcome: Outcome) -> Result<Fields, StoreError> {
    let Outcome::Pairs(pairs) = outcome else {
        return Err(StoreError::Refused(format!("it answers {outcome:?}")));
    };
    let pairs =
        pairs.iter().map(|(field, value)| Ok((number(field)?, Arc::from(value.as_bytes()))));
    pairs.collect()
}

/// Formats a number as it is stored.
pub(super) fn text(number: impl ToString) -> Bytes {
    Bytes::from(number.to_string().as_str())
}

fn number<N: FromStr>(bytes: &Bytes) -> Result<N, StoreError> {
    let text = std::str::from_utf8(bytes.as_bytes()).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| StoreError::Refused(format!("{bytes:?} is no number")))
}
