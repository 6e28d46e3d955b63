//! Operations on keys, as commands and `MULTI` of Redis are.

use solera_creek::Access;
use solera_data::{Key, Op, OpError};

use crate::module::is_key;
use crate::procedure::Returned;
use crate::value::{KeyResult, KeyValue};

/// Executes operations one after another, unless an expected key has changed. An operation that
/// fails changes nothing, and the later ones are executed nevertheless, as in Redis.
pub(crate) fn execute(
    expects: &[(Key, KeyResult)],
    steps: &[(Key, Op)],
    registers: &mut dyn Access<KeyValue>,
) -> Returned {
    let is_unchanged =
        |(key, digest): &(Key, KeyResult)| step(key, &Op::Digest, registers) == *digest;
    if !expects.iter().all(is_unchanged) {
        return Returned::Changed;
    }
    Returned::Outcomes(steps.iter().map(|(key, op)| step(key, op, registers)).collect())
}

/// Executes one operation. Modules are no keys.
fn step(key: &Key, op: &Op, registers: &mut dyn Access<KeyValue>) -> KeyResult {
    if !is_key(key) {
        return Err(OpError::WrongType);
    }
    let mut value = registers.read(key).unwrap_or_default();
    if !op.is_update() {
        return value.read(op);
    }
    let changes = value.changes();
    let outcome = value.execute(op)?;
    if value.changes() != changes {
        registers.write(key, value.into_register());
    }
    Ok(outcome)
}
