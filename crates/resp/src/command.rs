//! The commands that are served.

use std::fmt::Write;

use crate::writer::Writer;

macro_rules! commands {
    ($($id:ident $name:literal $arity:literal $flags:literal $first:literal $last:literal $step:literal $group:literal $summary:literal;)*) => {
        /// Names a command, to dispatch on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "each is the command of its name")]
        pub enum CommandId { $($id),* }

        /// Every command, in the order of [`CommandId`].
        pub static COMMANDS: &[Command] = &[$(Command {
            id: CommandId::$id, name: $name, arity: $arity, flags: $flags,
            first_key: $first, last_key: $last, step: $step, group: $group, summary: $summary,
        }),*];
    };
}

/// A command as COMMAND describes it.
#[derive(Debug, PartialEq, Eq)]
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
    /// Redis' group, for documentation.
    pub group: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
}

commands! {
    Ping "ping" -1 "fast" 0 0 0 "connection" "Answers PONG, or its argument.";
    Echo "echo" 2 "fast" 0 0 0 "connection" "Answers its argument.";
    Hello "hello" -1 "noscript loading stale fast" 0 0 0 "connection" "Chooses the protocol and tells about the server.";
    Select "select" 2 "loading stale fast" 0 0 0 "connection" "Chooses database 0, the only one.";
    Quit "quit" -1 "noscript loading stale fast" 0 0 0 "connection" "Closes the connection.";
    Reset "reset" 1 "noscript loading stale fast" 0 0 0 "connection" "Returns the connection to its first state.";
    Client "client" -2 "noscript" 0 0 0 "connection" "Tells and changes what the server knows of the client.";
    Command "command" -1 "loading stale" 0 0 0 "server" "Describes commands.";
    Info "info" -1 "loading stale" 0 0 0 "server" "Tells about the server.";
    Time "time" 1 "loading stale fast" 0 0 0 "server" "Tells the server's wall clock.";
    Config "config" -2 "admin noscript loading stale" 0 0 0 "server" "Reads settings.";
    Dbsize "dbsize" 1 "readonly fast" 0 0 0 "server" "Counts the keys at this site.";
    Get "get" 2 "readonly fast" 1 1 1 "string" "Reads a string.";
    Set "set" 3 "write denyoom" 1 1 1 "string" "Replaces a key by a string.";
    Mget "mget" -2 "readonly fast" 1 -1 1 "string" "Reads several strings from one snapshot.";
    Mset "mset" -3 "write denyoom" 1 -1 2 "string" "Replaces several keys at once.";
    Del "del" -2 "write" 1 -1 1 "generic" "Removes keys.";
    Exists "exists" -2 "readonly fast" 1 -1 1 "generic" "Counts the keys that exist.";
    Type "type" 2 "readonly fast" 1 1 1 "generic" "Tells the type of a key.";
    Incr "incr" 2 "write denyoom fast" 1 1 1 "string" "Adds one to a number.";
    Decr "decr" 2 "write denyoom fast" 1 1 1 "string" "Takes one from a number.";
    Incrby "incrby" 3 "write denyoom fast" 1 1 1 "string" "Adds to a number.";
    Decrby "decrby" 3 "write denyoom fast" 1 1 1 "string" "Takes from a number.";
    Sadd "sadd" -3 "write denyoom fast" 1 1 1 "set" "Adds elements to a set.";
    Srem "srem" -3 "write fast" 1 1 1 "set" "Removes elements from a set.";
    Smembers "smembers" 2 "readonly" 1 1 1 "set" "Reads a set.";
    Sismember "sismember" 3 "readonly fast" 1 1 1 "set" "Tells whether a set has an element.";
    Scard "scard" 2 "readonly fast" 1 1 1 "set" "Counts the elements of a set.";
    Hset "hset" -4 "write denyoom fast" 1 1 1 "hash" "Assigns fields of a hash.";
    Hget "hget" 3 "readonly fast" 1 1 1 "hash" "Reads a field of a hash.";
    Hmget "hmget" -3 "readonly fast" 1 1 1 "hash" "Reads several fields of a hash.";
    Hgetall "hgetall" 2 "readonly" 1 1 1 "hash" "Reads a hash.";
    Hdel "hdel" -3 "write fast" 1 1 1 "hash" "Removes fields of a hash.";
    Hincrby "hincrby" 4 "write denyoom fast" 1 1 1 "hash" "Adds to a field of a hash.";
    Multi "multi" 1 "noscript loading stale fast" 0 0 0 "transactions" "Starts to queue commands.";
    Exec "exec" 1 "noscript loading stale" 0 0 0 "transactions" "Runs the queued commands as one transaction.";
    Discard "discard" 1 "noscript loading stale fast" 0 0 0 "transactions" "Drops the queued commands.";
    SoleraBegin "solera.begin" -1 "noscript fast" 0 0 0 "solera" "Opens an interactive transaction.";
    SoleraCommit "solera.commit" 1 "noscript fast" 0 0 0 "solera" "Commits the open transaction.";
    SoleraAbort "solera.abort" 1 "noscript fast" 0 0 0 "solera" "Drops the open transaction.";
    SoleraToken "solera.token" 1 "fast" 0 0 0 "solera" "Tells the session's causal past.";
    SoleraAttach "solera.attach" 2 "noscript" 0 0 0 "solera" "Waits until this site holds a token's past.";
    SoleraBarrier "solera.barrier" -1 "noscript" 0 0 0 "solera" "Waits until the session's past is durable.";
    SoleraSite "solera.site" 1 "fast" 0 0 0 "solera" "Names the site.";
    SoleraSpaces "solera.spaces" 1 "fast" 0 0 0 "solera" "Lists the spaces and their levels.";
    SoleraLevel "solera.level" 2 "fast" 0 0 0 "solera" "Tells the level of a key.";
}

const LONGEST: usize = 16;

/// Finds a command by its name, in any case.
pub fn lookup(name: &[u8]) -> Option<&'static Command> {
    if name.len() > LONGEST {
        return None;
    }
    let mut lower = [0u8; LONGEST];
    lower[..name.len()].copy_from_slice(name);
    lower.make_ascii_lowercase();
    // The hottest first; the rest by search.
    match &lower[..name.len()] {
        b"get" => Some(&COMMANDS[CommandId::Get as usize]),
        b"set" => Some(&COMMANDS[CommandId::Set as usize]),
        b"incr" => Some(&COMMANDS[CommandId::Incr as usize]),
        other => COMMANDS.iter().find(|command| command.name.as_bytes() == other),
    }
}

impl Command {
    /// Whether the command takes this many arguments, the name included.
    pub fn takes(&self, arguments: usize) -> bool {
        let arguments = arguments as i64;
        if self.arity >= 0 { arguments == self.arity } else { arguments >= -self.arity }
    }

    /// Redis' words for a wrong number of arguments.
    pub fn wrong_arity(&self) -> String {
        format!("ERR wrong number of arguments for '{}' command", self.name)
    }

    /// Whether the command reads or changes keys.
    pub fn is_data(&self) -> bool {
        self.first_key > 0
    }

    /// Whether the command reads or changes one key.
    pub fn is_single_key(&self) -> bool {
        self.first_key == 1 && self.last_key == 1 && self.group != "solera"
    }

    /// Describes the command as COMMAND does.
    pub fn describe(&self, out: &mut Writer) {
        out.array(10);
        out.bulk(self.name.as_bytes());
        out.integer(self.arity);
        let flags: Vec<_> = self.flags.split_whitespace().collect();
        out.set(flags.len());
        flags.iter().for_each(|flag| out.simple(flag));
        for number in [self.first_key, self.last_key, self.step] {
            out.integer(number);
        }
        out.set(1);
        out.simple(&format!("@{}", self.group));
        for _ in 0..3 {
            out.array(0);
        }
    }

    /// Documents the command as COMMAND DOCS does.
    pub fn document(&self, out: &mut Writer) {
        out.bulk(self.name.as_bytes());
        out.map(3);
        for (key, value) in [("summary", self.summary), ("since", "0.1.0"), ("group", self.group)] {
            out.bulk(key.as_bytes());
            out.bulk(value.as_bytes());
        }
    }

    /// The keys among a command's arguments, for COMMAND GETKEYS.
    pub fn keys<'a>(&self, arguments: &'a [&'a [u8]]) -> Vec<&'a [u8]> {
        if self.first_key == 0 {
            return Vec::new();
        }
        let last =
            if self.last_key < 0 { arguments.len() as i64 + self.last_key } else { self.last_key };
        let indices = (self.first_key..=last).step_by(self.step.max(1) as usize);
        indices.filter_map(|index| arguments.get(index as usize).copied()).collect()
    }
}

/// Redis' words for a command that does not exist.
pub fn unknown_command<'a>(name: &[u8], arguments: impl Iterator<Item = &'a [u8]>) -> String {
    let shorten =
        |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(128)]).into_owned();
    let mut text = format!("ERR unknown command '{}', with args beginning with: ", shorten(name));
    for argument in arguments {
        if text.len() > 256 {
            break;
        }
        // Writing to a string cannot fail.
        let _ = write!(text, "'{}' ", shorten(argument));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        for (index, command) in COMMANDS.iter().enumerate() {
            assert_eq!(command.id as usize, index);
            assert!(command.name.len() <= LONGEST);
            assert_eq!(lookup(command.name.to_uppercase().as_bytes()), Some(command));
        }
        assert_eq!(lookup(b"getx"), None);
        assert_eq!(lookup(&[b'x'; 100]), None);
    }

    #[test]
    fn arities_count_the_name() {
        let mset = lookup(b"MSET").unwrap();
        assert!(!mset.takes(2) && mset.takes(3) && mset.takes(5));
        let get = lookup(b"GET").unwrap();
        assert!(!get.takes(1) && get.takes(2) && !get.takes(3));
    }

    #[test]
    fn keys_are_found_by_position() {
        let mset = lookup(b"mset").unwrap();
        let arguments: [&[u8]; 5] = [b"mset", b"a", b"1", b"b", b"2"];
        assert_eq!(mset.keys(&arguments), [b"a", b"b"]);
    }

    #[test]
    fn unknown_commands_are_named_in_the_words_of_redis() {
        let arguments: [&[u8]; 2] = [b"a", b"b"];
        assert_eq!(
            unknown_command(b"foo", arguments.into_iter()),
            "ERR unknown command 'foo', with args beginning with: 'a' 'b' "
        );
    }
}
