//! Arguments of commands on numbers.

use solera_data::Op;
use solera_resp::{Arguments, parse_integer};

/// Parses DECRBY.
///
/// # Errors
/// The error reply.
pub(super) fn decrement(arguments: &Arguments<'_>) -> Result<Op, String> {
    let by = integer(arguments.get(2))?;
    Ok(Op::IncrBy(by.checked_neg().ok_or("ERR decrement would overflow")?))
}

/// Parses an integer.
///
/// # Errors
/// The error reply.
pub(super) fn integer(bytes: &[u8]) -> Result<i64, String> {
    parse_integer(bytes).ok_or_else(|| "ERR value is not an integer or out of range".to_owned())
}
