//! Arguments of HSET.

use solera_data::{Op, Value};
use solera_resp::Arguments;

use super::come_in_pairs;

/// Parses HSET.
///
/// # Errors
/// The error reply.
pub(super) fn set(arguments: &Arguments<'_>) -> Result<Op, String> {
    come_in_pairs(arguments, "hset", 2)?;
    let value = |at: usize| Value::from(arguments.get(at));
    let pairs = (2..arguments.len()).step_by(2).map(|at| (value(at), value(at + 1)));
    Ok(Op::HashSet(pairs.collect()))
}
