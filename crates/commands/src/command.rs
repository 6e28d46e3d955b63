//! Description of a command, which determines its arity, keys and categories.

use crate::syntax::{self, Argument};

/// Identifier of a command, for dispatch.
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
    SoleraRead,
    SoleraInterval,
    SoleraRights,
    SoleraTake,
    SoleraGrow,
    SoleraPush,
    SoleraNewest,
    SoleraStale,
    SoleraHome,
    SoleraAtRisk,
    SoleraExport,
    SoleraTxid,
    SoleraOutcome,
    SoleraLeaders,
    SoleraStable,
    SoleraState,
    SoleraLog,
    SoleraModule,
    SoleraCall,
    SoleraPhase,
}

/// A command as COMMAND describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Identifier, for dispatch.
    pub id: CommandId,
    /// Name, in lower case.
    pub name: &'static str,
    /// Syntax of the arguments, for documentation.
    pub arguments: &'static str,
    /// Number of arguments, including the name; a negative arity is a minimum.
    pub arity: i64,
    /// Redis' flags, separated by spaces.
    pub flags: &'static str,
    /// Index of the first key among the arguments; 0 if there is none.
    pub first_key: i64,
    /// Index of the last key; a negative index counts from the end.
    pub last_key: i64,
    /// Distance between keys.
    pub step: i64,
    /// Use of the keys, in the terms of Redis' key specifications, separated by spaces; empty
    /// without keys.
    pub key_flags: &'static str,
    /// Redis' group, for documentation.
    pub group: &'static str,
    /// The version that introduced it: of Redis, or of Solera for its own commands.
    pub since: &'static str,
    /// Purpose of the command, in a sentence.
    pub summary: &'static str,
}

impl Command {
    /// Returns the arguments that the syntax describes.
    pub fn syntax(&self) -> Vec<Argument> {
        syntax::arguments(self.arguments)
    }

    /// Returns whether the command accepts this number of arguments, including the name.
    pub fn takes(&self, arguments: usize) -> bool {
        let arguments = arguments as i64;
        if self.arity >= 0 { arguments == self.arity } else { arguments >= -self.arity }
    }

    /// Checks the number of arguments, including the name.
    ///
    /// # Errors
    /// The error reply, with Redis' text.
    pub fn check_arity(&self, arguments: usize) -> Result<(), String> {
        if self.takes(arguments) { Ok(()) } else { Err(self.wrong_arity()) }
    }

    /// Returns Redis' error for a wrong number of arguments.
    pub fn wrong_arity(&self) -> String {
        format!("ERR wrong number of arguments for '{}' command", self.name)
    }

    /// Returns whether the command has this flag of Redis.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.flags.split(' ').any(|own| own == flag)
    }

    /// Returns whether the command reads or changes keys.
    pub fn is_data(&self) -> bool {
        self.first_key > 0
    }

    /// Returns the keys among a command's arguments, which begin with the name.
    pub fn keys<'a, A>(&self, arguments: A) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a, A>
    where
        A: ExactSizeIterator<Item = &'a [u8]> + Clone,
    {
        let end = match self.last_key {
            // Commands without keys have zero for both.
            0 => 0,
            from_end if from_end < 0 => arguments.len() as i64 + from_end + 1,
            index => index + 1,
        };
        let (first, step) = (self.first_key as usize, self.step.max(1) as usize);
        arguments.take(end.max(0) as usize).skip(first).step_by(step)
    }

    /// Returns Redis' categories for access control. Flags and group determine them, with a few
    /// exceptions.
    pub fn categories(&self) -> Vec<&'static str> {
        let by_flag = [
            ("write", "@write"),
            ("readonly", "@read"),
            ("admin", "@admin"),
            ("admin", "@dangerous"),
        ];
        let by_group = match self.group {
            "connection" => Some("@connection"),
            "generic" => Some("@keyspace"),
            "string" => Some("@string"),
            "set" => Some("@set"),
            "hash" => Some("@hash"),
            "transactions" => Some("@transaction"),
            _ => None,
        };
        let by_itself = match self.id {
            CommandId::Command => Some("@connection"),
            CommandId::Info => Some("@dangerous"),
            CommandId::Dbsize => Some("@keyspace"),
            CommandId::SoleraBegin | CommandId::SoleraCommit | CommandId::SoleraAbort => {
                Some("@transaction")
            }
            CommandId::SoleraPush | CommandId::SoleraNewest => Some("@hash"),
            _ => None,
        };
        let flags = by_flag.into_iter().filter(|(flag, _)| self.has_flag(flag));
        let speed = if self.has_flag("fast") { "@fast" } else { "@slow" };
        flags
            .map(|(_, category)| category)
            .chain(by_group)
            .chain(by_itself)
            .chain([speed])
            .collect()
    }

    /// Returns whether the command returns the contents of its keys.
    pub fn reads_keys(&self) -> bool {
        self.key_flags.split(' ').any(|flag| flag == "access")
    }

    /// Returns whether the command changes the contents of its keys.
    pub fn writes_keys(&self) -> bool {
        self.key_flags.split(' ').any(|flag| ["insert", "delete", "update"].contains(&flag))
    }
}

#[cfg(test)]
mod tests {
    use crate::lookup;

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
    fn flags_are_found_whole() {
        let get = lookup(b"get").unwrap();
        assert!(get.has_flag("readonly") && get.has_flag("fast"));
        assert!(!get.has_flag("read") && !get.has_flag("write"));
    }
}
