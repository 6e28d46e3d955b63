//! COMMAND: what the table of commands says.

use solera_resp::Arguments;

use crate::context::Context;
use crate::introspection::answer;
use crate::session::Session;

pub(crate) fn command<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    if let Err(error) = answer(&mut session.out, arguments) {
        session.fail(error);
    }
}
