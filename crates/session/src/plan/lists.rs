//! Arguments of commands on lists.

use solera_data::{Op, Value};
use solera_resp::{Arguments, parse_integer};
use uuid::Uuid;

/// Parses SOLERA.PUSH, and gives each element a stamp of this process' clock.
pub(super) fn push(arguments: &Arguments<'_>) -> Op {
    let stamped = |element: &[u8]| {
        let (_, random) = Uuid::new_v4().as_u64_pair();
        (solera_stamps::next(random), Value::from(element))
    };
    Op::HashSet(arguments.from(2).map(stamped).collect())
}

/// Parses SOLERA.NEWEST.
///
/// # Errors
/// The error reply.
pub(super) fn newest(arguments: &Arguments<'_>) -> Result<Op, String> {
    let number = parse_integer(arguments.get(2)).and_then(|number| u64::try_from(number).ok());
    match number.filter(|number| *number > 0) {
        Some(number) => Ok(Op::HashNewest(number)),
        None => Err("ERR SOLERA.NEWEST takes a number of elements, which is at least 1".to_owned()),
    }
}
