//! PING: answers PONG, or its argument.

use solera_resp::Arguments;

use crate::context::Context;
use crate::session::Session;

pub(crate) fn ping<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    match arguments.len() {
        1 => session.out.simple("PONG"),
        2 => session.out.bulk(arguments.get(1)),
        _ => session.fail("ERR wrong number of arguments for 'ping' command"),
    }
}
