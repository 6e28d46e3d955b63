//! Errors for commands and subcommands that do not exist.

use std::fmt::Write;

use crate::missing::{is_missing, is_missing_subcommand};
use crate::similar::similar;
use crate::table::COMMANDS;

/// Prefix of the names of Solera's own commands, in lower case.
const OWN: &str = "solera.";

/// Number of bytes after which Redis cuts off a command's name in an error. All its arguments
/// together have the same limit.
const REPEATED: usize = 128;

/// Returns the error for a command that does not exist here. For a command of Redis it reports that
/// Solera does not support it. For a name similar to a command of Solera's own, it suggests this
/// command. For others it is Redis' text, in which names and arguments end at a zero byte. Invalid
/// UTF-8 is replaced.
///
/// All three begin with `ERR unknown command`, by which clients detect which commands a server has.
pub fn unknown_command<'a>(name: &[u8], arguments: impl Iterator<Item = &'a [u8]>) -> String {
    let name = String::from_utf8_lossy(beginning(name, REPEATED));
    if is_missing(name.as_bytes()) {
        return format!(
            "ERR unknown command '{name}': Solera does not support this command of Redis yet"
        );
    }
    if let Some(meant) = own_command(&name) {
        return format!("ERR unknown command '{name}'; did you mean {meant}?");
    }
    let mut text = format!("ERR unknown command '{name}', with args beginning with: ");
    let mut repeated = 0;
    for argument in arguments {
        if repeated >= REPEATED {
            break;
        }
        let argument = beginning(argument, REPEATED - repeated);
        // Writing to a string cannot fail.
        let _ = write!(text, "'{}' ", String::from_utf8_lossy(argument));
        // Quotes and the space count.
        repeated += argument.len() + 3;
    }
    text
}

/// Returns the command of Solera's own that may be meant by a misspelt name that begins with
/// `solera.`.
fn own_command(name: &str) -> Option<String> {
    let has_prefix =
        |name: &str| name.get(..OWN.len()).is_some_and(|it| it.eq_ignore_ascii_case(OWN));
    let own = COMMANDS.iter().map(|command| command.name).filter(|name| has_prefix(name));
    let rests = own.map(|name| &name[OWN.len()..]);
    // The common prefix must not count: it would make all names similar.
    let meant = similar(name.get(OWN.len()..).filter(|_| has_prefix(name))?, rests)?;
    Some(format!("{OWN}{meant}").to_ascii_uppercase())
}

/// Returns the error for a subcommand that does not exist here; `command` is in upper case. For a
/// subcommand of Redis it reports that Solera does not support it; for others it is Redis' text.
/// Both begin with `ERR unknown subcommand`.
pub fn unknown_subcommand(command: &str, subcommand: &[u8]) -> String {
    let subcommand = String::from_utf8_lossy(beginning(subcommand, REPEATED));
    if is_missing_subcommand(command, &subcommand) {
        return format!(
            "ERR unknown subcommand '{subcommand}': Solera does not support this subcommand of \
             Redis yet. Try {command} HELP."
        );
    }
    format!("ERR unknown subcommand '{subcommand}'. Try {command} HELP.")
}

/// Returns at most `limit` bytes, up to the first zero, where Redis' text ends.
fn beginning(bytes: &[u8], limit: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(limit)];
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_subcommands_of_redis_are_distinguished_from_unknown_ones() {
        let text = "ERR unknown subcommand 'Pause': Solera does not support this subcommand of \
                    Redis yet. Try CLIENT HELP.";
        assert_eq!(unknown_subcommand("CLIENT", b"Pause"), text);
        let text = "ERR unknown subcommand 'paws'. Try CLIENT HELP.";
        assert_eq!(unknown_subcommand("CLIENT", b"paws"), text);
    }

    #[test]
    fn a_misspelt_command_of_solera_is_suggested() {
        let error = |name: &[u8]| unknown_command(name, std::iter::empty());
        assert_eq!(
            error(b"Solera.Tokn"),
            "ERR unknown command 'Solera.Tokn'; did you mean SOLERA.TOKEN?"
        );
        for name in [&b"SOLERA.XYZ"[..], b"SOLERA.", b"TOKEN"] {
            assert!(!error(name).contains("did you mean"), "{}", error(name));
        }
    }

    #[test]
    fn unknown_commands_are_named_in_the_words_of_redis() {
        let unknown = |name: &[u8], arguments: &[&[u8]]| {
            let text = unknown_command(name, arguments.iter().copied());
            text.strip_prefix("ERR unknown command ").unwrap().to_owned()
        };
        let with = ", with args beginning with: ";
        let (x, y) = ([b'x'; 100], [b'y'; 200]);
        let (xs, y25, y128) = ("x".repeat(100), "y".repeat(25), "y".repeat(128));
        assert_eq!(unknown(b"foo", &[]), format!("'foo'{with}"));
        assert_eq!(unknown(b"foo", &[b"a", b"b"]), format!("'foo'{with}'a' 'b' "));
        assert_eq!(unknown(b"foo", &[&x, &y, b"z"]), format!("'foo'{with}'{xs}' '{y25}' "));
        assert_eq!(unknown(b"foo", &[&y, b"z"]), format!("'foo'{with}'{y128}' "));
        assert_eq!(unknown(&y, &[]), format!("'{y128}'{with}"));
        assert_eq!(unknown(b"f\0oo", &[b"a\0b", &y]), format!("'f'{with}'a' '{}' ", &y128[4..]));
        assert_eq!(unknown(b"\xff", &[]), format!("'\u{fffd}'{with}"));
    }
}
