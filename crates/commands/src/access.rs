//! Units of access control, as in Redis: commands, some subcommands, and categories of both.

use crate::command::{Command, CommandId};
use crate::table::{COMMANDS, lookup};

/// Redis' categories, including those without supported commands, so that Redis' rules work here.
pub const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// A subcommand that has access rights apart from its command.
#[derive(Debug, PartialEq, Eq)]
struct Subcommand {
    parent: CommandId,
    name: &'static str,
    categories: &'static [&'static str],
}

const HARMLESS: &[&str] = &["@slow"];
const CONNECTION: &[&str] = &["@slow", "@connection"];
const ADMIN: &[&str] = &["@admin", "@slow", "@dangerous"];
const ADMIN_CONNECTION: &[&str] = &["@admin", "@slow", "@dangerous", "@connection"];

const fn sub(
    parent: CommandId,
    name: &'static str,
    categories: &'static [&'static str],
) -> Subcommand {
    Subcommand { parent, name, categories }
}

static SUBCOMMANDS: [Subcommand; 26] = [
    sub(CommandId::Client, "id", CONNECTION),
    sub(CommandId::Client, "getname", CONNECTION),
    sub(CommandId::Client, "setname", CONNECTION),
    sub(CommandId::Client, "setinfo", CONNECTION),
    sub(CommandId::Client, "info", CONNECTION),
    sub(CommandId::Client, "no-touch", CONNECTION),
    sub(CommandId::Client, "no-evict", ADMIN_CONNECTION),
    sub(CommandId::Client, "list", ADMIN_CONNECTION),
    sub(CommandId::Client, "kill", ADMIN_CONNECTION),
    sub(CommandId::Client, "reply", CONNECTION),
    sub(CommandId::Client, "help", CONNECTION),
    sub(CommandId::Config, "get", ADMIN),
    sub(CommandId::Config, "help", HARMLESS),
    sub(CommandId::Acl, "whoami", HARMLESS),
    sub(CommandId::Acl, "cat", HARMLESS),
    sub(CommandId::Acl, "genpass", HARMLESS),
    sub(CommandId::Acl, "help", HARMLESS),
    sub(CommandId::Acl, "list", ADMIN),
    sub(CommandId::Acl, "users", ADMIN),
    sub(CommandId::Acl, "getuser", ADMIN),
    sub(CommandId::SoleraModule, "load", ADMIN),
    sub(CommandId::SoleraModule, "drop", ADMIN),
    sub(CommandId::SoleraModule, "list", HARMLESS),
    sub(CommandId::SoleraModule, "source", HARMLESS),
    sub(CommandId::SoleraModule, "check", HARMLESS),
    sub(CommandId::SoleraModule, "help", HARMLESS),
];

/// A unit of access control: a command, or a subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    command: &'static Command,
    /// Index in [`SUBCOMMANDS`].
    subcommand: Option<usize>,
}

impl Unit {
    /// Returns all units, in the order of [`Unit::index`].
    pub fn all() -> impl Iterator<Item = Unit> {
        let commands = COMMANDS.iter().map(|command| Unit { command, subcommand: None });
        let subcommands = (0..).zip(&SUBCOMMANDS).map(|(at, subcommand)| Unit {
            command: &COMMANDS[subcommand.parent as usize],
            subcommand: Some(at),
        });
        commands.chain(subcommands)
    }

    /// Returns the unit that a request needs whose first argument is `first`. A subcommand that
    /// does not exist needs its command with [all its subcommands](Unit::parts).
    pub fn of(command: &'static Command, first: Option<&[u8]>) -> Unit {
        let is_asked = |subcommand: &Subcommand| {
            let name = subcommand.name.as_bytes();
            subcommand.parent == command.id
                && first.is_some_and(|first| first.eq_ignore_ascii_case(name))
        };
        Unit { command, subcommand: SUBCOMMANDS.iter().position(is_asked) }
    }

    /// Returns the unit with a name as in rules: `get`, `client|list`, in any case.
    pub fn find(name: &str) -> Option<Unit> {
        let Some((command, name)) = name.split_once('|') else {
            return Some(Unit { command: lookup(name.as_bytes())?, subcommand: None });
        };
        let command = lookup(command.as_bytes())?;
        let named =
            |sub: &Subcommand| sub.parent == command.id && sub.name.eq_ignore_ascii_case(name);
        Some(Unit { command, subcommand: Some(SUBCOMMANDS.iter().position(named)?) })
    }

    /// Returns the command, or the command of the subcommand.
    pub fn command(self) -> &'static Command {
        self.command
    }

    /// Returns the index in [`Unit::all`].
    pub fn index(self) -> usize {
        self.subcommand.map_or(self.command.id as usize, |at| COMMANDS.len() + at)
    }

    /// Returns the name as in rules and in Redis' errors.
    pub fn name(self) -> String {
        match self.subcommand {
            Some(at) => format!("{}|{}", self.command.name, SUBCOMMANDS[at].name),
            None => self.command.name.to_owned(),
        }
    }

    /// Returns whether it is in a category, whose name is without `@`.
    pub fn is_in(self, category: &str) -> bool {
        let is = |own: &&str| own.strip_prefix('@') == Some(category);
        match self.subcommand {
            Some(at) => SUBCOMMANDS[at].categories.iter().any(is),
            None => self.command.categories().iter().any(is),
        }
    }

    /// Returns whether it is a command with subcommands that have access rights of their own.
    pub fn has_parts(self) -> bool {
        let own = |sub: &Subcommand| sub.parent == self.command.id;
        self.subcommand.is_none() && SUBCOMMANDS.iter().any(own)
    }

    /// Returns the units that a user must be allowed for a request of this unit: the unit itself
    /// and, for a command, its subcommands. A subcommand that is not listed here thus requires the
    /// right to the whole command.
    pub fn parts(self) -> impl Iterator<Item = Unit> {
        Unit::all().filter(move |unit| self.contains(*unit))
    }

    /// Returns whether the right to `self` includes `other`: they are equal, or `other` is a
    /// subcommand.
    pub fn contains(self, other: Unit) -> bool {
        self.command.id == other.command.id
            && (self.subcommand.is_none() || self.subcommand == other.subcommand)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_found_by_name_and_know_their_place() {
        for (index, unit) in Unit::all().enumerate() {
            assert_eq!(unit.index(), index);
            assert_eq!(Unit::find(&unit.name().to_uppercase()), Some(unit));
        }
        for name in ["", "foo", "client|foo", "get|x", "foo|list", "client|"] {
            assert_eq!(Unit::find(name), None, "{name}");
        }
    }

    #[test]
    fn requests_need_the_subcommand_where_there_is_one() {
        for (line, name) in [
            ("CLIENT LIST", "client|list"),
            ("client foo", "client"),
            ("command list", "command"),
            ("get list", "get"),
            ("command", "command"),
        ] {
            let mut words = line.split(' ').map(str::as_bytes);
            let command = words.next().and_then(lookup).unwrap();
            assert_eq!(Unit::of(command, words.next()).name(), name);
        }
    }

    #[test]
    fn categories_are_those_of_redis() {
        let all = Unit::all().collect::<Vec<_>>();
        let of = |category| {
            let names = all.iter().filter(|unit| unit.is_in(category)).map(|unit| unit.name());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            of("dangerous"),
            "info config solera.sites solera.home solera.at-risk solera.export solera.leaders solera.log solera.phase client|no-evict \
             client|list client|kill config|get acl|list acl|users acl|getuser solera.module|load solera.module|drop"
        );
        assert!(of("connection").ends_with(
            " client|id client|getname client|setname client|setinfo client|info client|no-touch \
             client|no-evict client|list client|kill client|reply client|help"
        ));
        assert_eq!(of("hash"), "hset hget hmget hgetall hdel hincrby solera.push solera.newest");
        assert_eq!(of("@hash"), "");
        for command in COMMANDS {
            for category in command.categories() {
                assert!(CATEGORIES.contains(&&category[1..]), "{category}");
            }
        }
    }

    #[test]
    fn use_of_keys_follows_from_their_flags() {
        for (name, reads, writes) in [
            ("get", true, false),
            ("set", false, true),
            ("incr", true, true),
            ("del", false, true),
            ("exists", false, false),
            ("ping", false, false),
        ] {
            let command = lookup(name.as_bytes()).unwrap();
            assert_eq!((command.reads_keys(), command.writes_keys()), (reads, writes), "{name}");
        }
    }
}
