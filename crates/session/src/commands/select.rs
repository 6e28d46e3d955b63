//! SELECT: there is database 0 alone.

use solera_resp::{Arguments, parse_integer};

use crate::context::Context;
use crate::session::Session;

pub(crate) fn select<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    match parse_integer(arguments.get(1)) {
        Some(0) => session.out.simple("OK"),
        Some(_) => session.fail("ERR DB index is out of range"),
        None => session.fail("ERR value is not an integer or out of range"),
    }
}
