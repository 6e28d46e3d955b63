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

/// Most identifiers that one SOLERA.TAKE takes: its reply contains all of them.
const MOST_TAKEN: u32 = 10_000;

/// Returns the number of identifiers that SOLERA.TAKE takes.
///
/// # Errors
/// The error reply.
pub(super) fn taken(arguments: &Arguments<'_>) -> Result<u32, String> {
    if arguments.len() > 3 {
        return Err("ERR wrong number of arguments for 'solera.take' command".to_owned());
    }
    let count = if arguments.len() < 3 { 1 } else { integer(arguments.get(2))? };
    let count = u32::try_from(count).ok().filter(|count| (1..=MOST_TAKEN).contains(count));
    count.ok_or_else(|| format!("ERR the number of identifiers is from 1 to {MOST_TAKEN}"))
}

/// Returns the number of identifiers that SOLERA.GROW adds.
///
/// # Errors
/// The error reply.
pub(super) fn grown(arguments: &Arguments<'_>) -> Result<i64, String> {
    let count = integer(arguments.get(2))?;
    match count > 0 {
        true => Ok(count),
        false => Err("ERR the number of identifiers to add is at least 1".to_owned()),
    }
}

/// Parses an integer.
///
/// # Errors
/// The error reply.
pub(super) fn integer(bytes: &[u8]) -> Result<i64, String> {
    parse_integer(bytes).ok_or_else(|| "ERR value is not an integer or out of range".to_owned())
}
