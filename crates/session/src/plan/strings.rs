//! Arguments of SET and MSET.

use smallvec::SmallVec;
use solera_data::{Op, Value};
use solera_resp::Arguments;

use super::{KeyOp, come_in_pairs};

/// Returns whether SET has the option NX and no other.
pub(super) fn is_new(arguments: &Arguments<'_>) -> bool {
    let mut options = arguments.from(3);
    options.next().is_some_and(|option| option.eq_ignore_ascii_case(b"nx"))
        && options.next().is_none()
}

/// Parses SET without NX. Other options are not supported, alone or with NX.
///
/// # Errors
/// The error reply.
pub(super) fn set(arguments: &Arguments<'_>) -> Result<Op, String> {
    const OPTIONS: [&str; 7] = ["EX", "PX", "EXAT", "PXAT", "XX", "KEEPTTL", "GET"];
    let options = || arguments.from(3);
    if options().next().is_none() {
        return Ok(Op::Set(Value::from(arguments.get(2))));
    }
    let other = options().find(|option| !option.eq_ignore_ascii_case(b"nx")).unwrap_or(b"");
    let known = OPTIONS.iter().find(|name| other.eq_ignore_ascii_case(name.as_bytes()));
    Err(match known {
        Some(name) => format!("ERR Solera does not support SET {name} yet"),
        None => "ERR syntax error".to_owned(),
    })
}

/// Parses MSET.
///
/// # Errors
/// The error reply.
pub(super) fn set_many<'a>(arguments: &Arguments<'a>) -> Result<SmallVec<[KeyOp<'a>; 1]>, String> {
    come_in_pairs(arguments, "mset", 1)?;
    let op = |at: usize| Op::Set(Value::from(arguments.get(at + 1)));
    let ops = (1..arguments.len()).step_by(2).map(|at| KeyOp::new(arguments.get(at), op(at)));
    Ok(ops.collect())
}
