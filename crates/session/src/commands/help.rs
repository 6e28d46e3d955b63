//! HELP of commands that have subcommands, in the manner of Redis.

use solera_resp::{Arguments, Writer};

use crate::session::Session;

/// Whether HELP is the only argument.
pub(super) fn is_asked(arguments: &Arguments<'_>) -> bool {
    arguments.len() == 2 && arguments.get(1).eq_ignore_ascii_case(b"help")
}

/// Answers HELP as Redis does.
pub(super) fn answer<W>(session: &mut Session<W>, lines: &[&str]) {
    write(&mut session.out, lines);
}

/// Appends lines as Redis answers HELP.
pub(super) fn write(out: &mut Writer, lines: &[&str]) {
    out.array(lines.len());
    lines.iter().for_each(|line| out.simple(line));
}
