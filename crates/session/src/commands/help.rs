//! HELP of commands that have subcommands, in Redis' format.

use solera_resp::{Arguments, Writer};

use crate::session::ClientSession;

/// Returns whether HELP is the only argument.
pub(super) fn is_asked(arguments: &Arguments<'_>) -> bool {
    arguments.len() == 2 && arguments.get(1).eq_ignore_ascii_case(b"help")
}

/// Appends the lines of a HELP reply to the session's output.
pub(super) fn answer<W>(session: &mut ClientSession<W>, lines: &[&str]) {
    write(&mut session.out, lines);
}

/// Appends lines in the format of Redis' HELP replies.
pub(super) fn write(out: &mut Writer, lines: &[&str]) {
    out.array(lines.len());
    lines.iter().for_each(|line| out.simple(line));
}
