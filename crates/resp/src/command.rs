//! What is known about a command, and Redis' words when one is refused.

use std::fmt::Write;

pub use crate::commands::lookup;
pub use crate::introspection::answer;

/// Every command, in the order of [`CommandId`].
pub static COMMANDS: &[Command] = &crate::commands::ALL;

/// Names a command, to dispatch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the command of its name")]
pub enum CommandId {
    Ping,
    Echo,
    Hello,
    Select,
    Quit,
    Reset,
    Auth,
    Client,
    Wait,
    Command,
    Info,
    Time,
    Config,
    Dbsize,
    Acl,
    Del,
    Exists,
    Type,
    Get,
    Set,
    Mget,
    Mset,
    Incr,
    Decr,
    Incrby,
    Decrby,
    Setnx,
    Sadd,
    Srem,
    Smembers,
    Sismember,
    Scard,
    Hset,
    Hget,
    Hmget,
    Hgetall,
    Hdel,
    Hincrby,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    SoleraBegin,
    SoleraCommit,
    SoleraAbort,
    SoleraToken,
    SoleraAttach,
    SoleraBarrier,
    SoleraSite,
    SoleraSites,
    SoleraSpaces,
    SoleraLevel,
    SoleraAtRisk,
    SoleraExport,
    SoleraTxid,
    SoleraOutcome,
    SoleraLeaders,
    SoleraModule,
    SoleraCall,
    SoleraPhase,
}

/// A command as COMMAND describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// What to dispatch on.
    pub id: CommandId,
    /// The name, in lower case.
    pub name: &'static str,
    /// How many arguments it takes, the name included; if negative, at least so many.
    pub arity: i64,
    /// Redis' flags, separated by spaces.
    pub flags: &'static str,
    /// The index of the first key among the arguments; 0 if there is none.
    pub first_key: i64,
    /// The index of the last key; negative counts from the end.
    pub last_key: i64,
    /// The distance between keys.
    pub step: i64,
    /// What is done with the keys, in the words of Redis' key specifications, separated by spaces;
    /// empty if there are none.
    pub key_flags: &'static str,
    /// Redis' group, for documentation.
    pub group: &'static str,
    /// The version that brought it: of Redis, or of Solera for its own commands.
    pub since: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
}

impl Command {
    /// Whether the command takes this many arguments, the name included.
    pub fn takes(&self, arguments: usize) -> bool {
        let arguments = arguments as i64;
        if self.arity >= 0 { arguments == self.arity } else { arguments >= -self.arity }
    }

    /// Checks the number of arguments, the name included.
    ///
    /// # Errors
    /// The error reply, in Redis' words.
    pub fn check_arity(&self, arguments: usize) -> Result<(), String> {
        if self.takes(arguments) { Ok(()) } else { Err(self.wrong_arity()) }
    }

    /// Redis' words for a wrong number of arguments.
    pub fn wrong_arity(&self) -> String {
        format!("ERR wrong number of arguments for '{}' command", self.name)
    }

    /// Whether the command has this flag of Redis.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|own| own == flag)
    }

    /// Whether the command reads or changes keys.
    pub fn is_data(&self) -> bool {
        self.first_key > 0
    }

    /// The keys among a command's arguments, the name first.
    pub fn keys<'a, A>(&self, arguments: A) -> impl Iterator<Item = &'a [u8]> + use<'a, A>
    where
        A: ExactSizeIterator<Item = &'a [u8]>,
    {
        let end = match self.last_key {
            // Without keys both are zero.
            0 => 0,
            from_end if from_end < 0 => arguments.len() as i64 + from_end + 1,
            index => index + 1,
        };
        let (first, step) = (self.first_key as usize, self.step.max(1) as usize);
        arguments.take(end.max(0) as usize).skip(first).step_by(step)
    }
}

/// How much of a name, and of all arguments together, Redis repeats in an error, in bytes.
const REPEATED: usize = 128;

/// Redis' words for a command that does not exist: names and arguments end at a zero byte. Unlike
/// there, what is no UTF-8 is replaced.
pub fn unknown_command<'a>(name: &[u8], arguments: impl Iterator<Item = &'a [u8]>) -> String {
    let name = String::from_utf8_lossy(beginning(name, REPEATED));
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

/// Redis' words for a subcommand that does not exist; `command` in upper case.
pub fn unknown_subcommand(command: &str, subcommand: &[u8]) -> String {
    let subcommand = String::from_utf8_lossy(beginning(subcommand, REPEATED));
    format!("ERR unknown subcommand '{subcommand}'. Try {command} HELP.")
}

/// At most so many bytes, up to the first zero, where Redis' text ends.
fn beginning(bytes: &[u8], limit: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(limit)];
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arities_count_the_name() {
        let mset = lookup(b"MSET").unwrap();
        assert!(!mset.takes(2) && mset.takes(3) && mset.takes(5));
        let get = lookup(b"GET").unwrap();
        assert!(!get.takes(1) && get.takes(2) && !get.takes(3));
        assert_eq!(get.check_arity(2), Ok(()));
        let error = "ERR wrong number of arguments for 'get' command";
        assert_eq!(get.check_arity(3), Err(error.to_owned()));
    }

    #[test]
    fn keys_are_found_by_position() {
        let arguments: [&[u8]; 5] = [b"mset", b"a", b"1", b"b", b"2"];
        for (name, keys) in [
            ("mset", [b"a", b"b"].as_slice()),
            ("mget", &[b"a", b"1", b"b", b"2"]),
            ("get", &[b"a"]),
            ("solera.level", &[b"a"]),
            ("ping", &[]),
        ] {
            let found = lookup(name.as_bytes()).unwrap().keys(arguments.into_iter());
            assert_eq!(found.collect::<Vec<_>>(), keys, "{name}");
        }
        let set = lookup(b"set").unwrap();
        assert_eq!(set.keys([&b"set"[..]].into_iter()).count(), 0, "too few arguments");
        assert_eq!(lookup(b"del").unwrap().keys([].into_iter()).count(), 0);
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

    #[test]
    fn flags_are_found_whole() {
        let get = lookup(b"get").unwrap();
        assert!(get.has_flag("readonly") && get.has_flag("fast"));
        assert!(!get.has_flag("read") && !get.has_flag("write"));
    }
}
