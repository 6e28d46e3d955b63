//! COMMAND: describes the commands of the table.

use solera_commands::{
    Argument, ArgumentKind, COMMANDS, Command as Described, CommandId, lookup, unknown_subcommand,
};
use solera_config::ClusterSpec;
use solera_resp::{Arguments, Writer};

use super::call::How;
use super::help;
use super::request::Request;
use crate::context::Context;
use crate::plan;
use crate::session::ClientSession;

/// The reply to COMMAND HELP, in Redis' words.
const HELP: [&str; 19] = [
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    Return details about all Solera commands.",
    "COUNT",
    "    Return the total number of commands in this Solera server.",
    "LIST",
    "    Return a list of all commands in this Solera server.",
    "INFO [<command-name> ...]",
    "    Return details about multiple Solera commands.",
    "    If no command names are given, details for all commands are returned.",
    "DOCS [<command-name> ...]",
    "    Return documentation details about multiple Solera commands.",
    "    If no command names are given, details for all commands are returned.",
    "GETKEYS <full-command>",
    "    Return the keys from a full Solera command.",
    "GETKEYSANDFLAGS <full-command>",
    "    Return the keys and the access flags from a full Solera command.",
    "HELP",
    "    Prints this help.",
];

/// COMMAND and its subcommands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// COMMAND, or INFO without names.
    All,
    Count,
    /// INFO with names; `None` for a command that does not exist.
    Info(Vec<Option<&'static Described>>),
    Docs(Vec<&'static Described>),
    GetKeys(Vec<Vec<u8>>),
    GetKeysAndFlags(&'static Described, Vec<Vec<u8>>),
    Help,
    List,
}

impl Request for Command {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Command, String> {
        let (subcommand, count) = (arguments.get(1).to_ascii_lowercase(), arguments.len());
        Ok(match subcommand.as_slice() {
            b"" if count == 1 => Command::All,
            b"count" if count == 2 => Command::Count,
            b"count" => return Err(wrong_arity("count")),
            b"list" if count == 2 => Command::List,
            b"list" => return Err("ERR syntax error".to_owned()),
            b"info" if count == 2 => Command::All,
            b"info" => Command::Info(arguments.from(2).map(lookup).collect()),
            b"docs" if count == 2 => Command::Docs(COMMANDS.iter().collect()),
            b"docs" => Command::Docs(arguments.from(2).filter_map(lookup).collect()),
            // Redis also requires an argument of the inner command.
            b"getkeys" if count < 4 => return Err(wrong_arity("getkeys")),
            b"getkeys" => Command::GetKeys(keys(arguments)?.1),
            b"getkeysandflags" if count < 4 => return Err(wrong_arity("getkeysandflags")),
            b"getkeysandflags" => {
                let (command, keys) = keys(arguments)?;
                Command::GetKeysAndFlags(command, keys)
            }
            b"help" if count == 2 => Command::Help,
            b"help" => return Err(wrong_arity("help")),
            _ => return Err(unknown_subcommand("COMMAND", arguments.get(1))),
        })
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        self.write(&mut session.out);
    }
}

impl Command {
    /// Appends the reply.
    fn write(&self, out: &mut Writer) {
        match self {
            Command::All => {
                out.array(COMMANDS.len());
                COMMANDS.iter().for_each(|command| describe(command, out));
            }
            Command::Count => out.integer(COMMANDS.len() as i64),
            Command::Info(commands) => {
                out.array(commands.len());
                for command in commands {
                    match command {
                        Some(command) => describe(command, out),
                        None => out.null(),
                    }
                }
            }
            Command::Docs(commands) => {
                out.map(commands.len());
                commands.iter().for_each(|command| document(command, out));
            }
            Command::GetKeys(keys) => {
                out.array(keys.len());
                keys.iter().for_each(|key| out.bulk(key));
            }
            Command::GetKeysAndFlags(command, keys) => {
                out.array(keys.len());
                for key in keys {
                    out.array(2);
                    out.bulk(key);
                    simple_set(out, command.key_flags.split_whitespace());
                }
            }
            Command::Help => help::write(out, &HELP),
            Command::List => {
                out.array(COMMANDS.len());
                COMMANDS.iter().for_each(|command| out.bulk(command.name.as_bytes()));
            }
        }
    }
}

fn wrong_arity(subcommand: &str) -> String {
    format!("ERR wrong number of arguments for 'command|{subcommand}' command")
}

/// Returns the command that the arguments contain, and its keys. If SOLERA.CALL runs a command,
/// that is the command.
fn keys(arguments: &Arguments<'_>) -> Result<(&'static Described, Vec<Vec<u8>>), String> {
    let mut inner = arguments.without(2);
    let is_call = |it: &Described| it.id == CommandId::SoleraCall;
    if lookup(inner.get(0)).is_some_and(is_call)
        && let Ok((_, first)) = How::parse(&inner)
        && lookup(inner.get(first)).is_some_and(plan::is_on_keys)
    {
        inner = inner.without(first);
    }
    let inner = inner.from(0);
    let error = match inner.clone().next().and_then(lookup) {
        None => "ERR Invalid command specified",
        Some(command) if !command.is_data() => "ERR The command has no key arguments",
        Some(command) if !command.takes(inner.len()) => {
            "ERR Invalid number of arguments specified for command"
        }
        Some(command) => {
            return Ok((command, command.keys(inner).map(<[u8]>::to_vec).collect()));
        }
    };
    Err(error.to_owned())
}

/// Appends the description of a command, as COMMAND INFO does.
pub fn describe(command: &Described, out: &mut Writer) {
    out.array(10);
    out.bulk(command.name.as_bytes());
    out.integer(command.arity);
    simple_set(out, command.flags.split_whitespace());
    for number in [command.first_key, command.last_key, command.step] {
        out.integer(number);
    }
    simple_set(out, command.categories().into_iter());
    // Solera gives no hints for cluster proxies.
    out.set(0);
    describe_keys(command, out);
    // Subcommands have no descriptions of their own.
    out.set(0);
}

/// Appends the documentation of a command, as COMMAND DOCS does: its name and a map.
fn document(command: &Described, out: &mut Writer) {
    let arguments = command.syntax();
    out.bulk(command.name.as_bytes());
    out.map(if arguments.is_empty() { 3 } else { 4 });
    let fields = [("summary", command.summary), ("since", command.since), ("group", command.group)];
    strings(out, &fields);
    if !arguments.is_empty() {
        out.bulk(b"arguments");
        document_arguments(&arguments, out);
    }
}

/// Appends the documentation of arguments, from which clients derive hints.
fn document_arguments(arguments: &[Argument], out: &mut Writer) {
    out.array(arguments.len());
    for argument in arguments {
        let flags: Vec<&str> = [("optional", argument.optional), ("multiple", argument.multiple)]
            .into_iter()
            .filter_map(|(flag, holds)| holds.then_some(flag))
            .collect();
        // Clients show a token as it is, and a value by its name for display.
        let (kind, words, inner): (_, &[(&str, &str)], _) = match &argument.kind {
            ArgumentKind::Token(word) => ("pure-token", &[("name", *word), ("token", *word)], None),
            ArgumentKind::Value(word) => {
                ("string", &[("name", *word), ("display_text", *word)], None)
            }
            ArgumentKind::Block(inner) => ("block", &[("name", "block")], Some(inner)),
        };
        let fields = [words, &[("type", kind)]].concat();
        out.map(fields.len() + usize::from(!flags.is_empty()) + usize::from(inner.is_some()));
        strings(out, &fields);
        if !flags.is_empty() {
            out.bulk(b"flags");
            simple_set(out, flags.into_iter());
        }
        if let Some(inner) = inner {
            out.bulk(b"arguments");
            document_arguments(inner, out);
        }
    }
}

/// Appends the fields of a map.
fn strings(out: &mut Writer, fields: &[(&str, &str)]) {
    for (field, text) in fields {
        out.bulk(field.as_bytes());
        out.bulk(text.as_bytes());
    }
}

/// Appends the positions of the keys in the newer form that Redis calls key specifications.
fn describe_keys(command: &Described, out: &mut Writer) {
    if !command.is_data() {
        out.set(0);
        return;
    }
    // In this form the last key counts from the first key, unless it counts from the end.
    let last =
        if command.last_key < 0 { command.last_key } else { command.last_key - command.first_key };
    out.set(1);
    out.map(3);
    out.bulk(b"flags");
    simple_set(out, command.key_flags.split_whitespace());
    search(out, "begin_search", "index", &[("index", command.first_key)]);
    let range = [("lastkey", last), ("keystep", command.step), ("limit", 0)];
    search(out, "find_keys", "range", &range);
}

fn simple_set<'a>(out: &mut Writer, items: impl Iterator<Item = &'a str> + Clone) {
    out.set(items.clone().count());
    items.for_each(|item| out.simple(item));
}

fn search(out: &mut Writer, name: &str, kind: &str, numbers: &[(&str, i64)]) {
    out.bulk(name.as_bytes());
    out.map(2);
    out.bulk(b"type");
    out.bulk(kind.as_bytes());
    out.bulk(b"spec");
    out.map(numbers.len());
    for (name, number) in numbers {
        out.bulk(name.as_bytes());
        out.integer(*number);
    }
}

#[cfg(test)]
mod tests {
    use solera_resp::{Protocol, Value, parse_value};

    use super::super::request::testing::parse;
    use super::*;

    fn ask(protocol: Protocol, line: &str) -> Result<String, String> {
        let mut out = Writer::new(protocol);
        parse::<Command>(line)?.write(&mut out);
        Ok(String::from_utf8(out.bytes).unwrap())
    }

    #[test]
    fn get_is_described_as_by_redis_7() {
        let recorded = "*1\r\n*10\r\n$3\r\nget\r\n:2\r\n~2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n\
            ~3\r\n+@read\r\n+@string\r\n+@fast\r\n~0\r\n~1\r\n%3\r\n$5\r\nflags\r\n~2\r\n+RO\r\n+access\r\n\
            $12\r\nbegin_search\r\n%2\r\n$4\r\ntype\r\n$5\r\nindex\r\n$4\r\nspec\r\n%1\r\n$5\r\nindex\r\n:1\r\n\
            $9\r\nfind_keys\r\n%2\r\n$4\r\ntype\r\n$5\r\nrange\r\n$4\r\nspec\r\n%3\r\n$7\r\nlastkey\r\n:0\r\n\
            $7\r\nkeystep\r\n:1\r\n$5\r\nlimit\r\n:0\r\n~0\r\n";
        assert_eq!(ask(Protocol::Resp3, "COMMAND INFO get").as_deref(), Ok(recorded));
    }

    #[test]
    fn getkeys_returns_the_keys() {
        let keys = ask(Protocol::Resp2, "command getkeys mset a 1 b 2");
        assert_eq!(keys.as_deref(), Ok("*2\r\n$1\r\na\r\n$1\r\nb\r\n"));
        for call in ["solera.call", "SOLERA.CALL WEAK", "solera.call track strong"] {
            let of_call = ask(Protocol::Resp2, &format!("COMMAND GETKEYS {call} MSET a 1 b 2"));
            assert_eq!(of_call, keys);
        }
        let flags = ask(Protocol::Resp2, "command getkeysandflags mset a 1 b 2");
        let recorded = "*2\r\n*2\r\n$1\r\na\r\n*2\r\n+OW\r\n+update\r\n\
            *2\r\n$1\r\nb\r\n*2\r\n+OW\r\n+update\r\n";
        assert_eq!(flags.as_deref(), Ok(recorded));
    }

    #[test]
    fn docs_describe_the_named_commands() {
        let docs = ask(Protocol::Resp3, "COMMAND DOCS foo solera.site");
        let expected = "%1\r\n$11\r\nsolera.site\r\n%3\r\n$7\r\nsummary\r\n$29\r\nReturns the name of the site.\r\n\
            $5\r\nsince\r\n$5\r\n0.1.0\r\n$5\r\ngroup\r\n$6\r\nsolera\r\n";
        assert_eq!(docs.as_deref(), Ok(expected));
    }

    #[test]
    fn every_reply_is_one_whole_value() {
        for line in ["COMMAND", "COMMAND INFO", "COMMAND DOCS", "COMMAND LIST", "COMMAND HELP"] {
            for protocol in [Protocol::Resp2, Protocol::Resp3] {
                let reply = ask(protocol, line).unwrap();
                let (value, used) = parse_value(reply.as_bytes()).unwrap().unwrap();
                assert_eq!(used, reply.len(), "{line}");
                assert!(matches!(value, Value::Array(_) | Value::Map(_)), "{line}");
            }
        }
        let count = format!(":{}\r\n", COMMANDS.len());
        assert_eq!(ask(Protocol::Resp2, "COMMAND COUNT"), Ok(count));
        assert_eq!(ask(Protocol::Resp2, "COMMAND INFO foo").as_deref(), Ok("*1\r\n$-1\r\n"));
    }

    #[test]
    fn errors_use_the_words_of_redis() {
        for (line, error) in [
            ("COMMAND FOO", "unknown subcommand 'FOO'. Try COMMAND HELP."),
            ("COMMAND \"\"", "unknown subcommand ''. Try COMMAND HELP."),
            ("COMMAND COUNT 1", "wrong number of arguments for 'command|count' command"),
            ("COMMAND GETKEYS get", "wrong number of arguments for 'command|getkeys' command"),
            ("COMMAND HELP x", "wrong number of arguments for 'command|help' command"),
            (
                "COMMAND GETKEYSANDFLAGS get",
                "wrong number of arguments for 'command|getkeysandflags' command",
            ),
            ("COMMAND GETKEYSANDFLAGS ping a", "The command has no key arguments"),
            ("COMMAND LIST x", "syntax error"),
            ("COMMAND GETKEYS foo a", "Invalid command specified"),
            ("COMMAND GETKEYS get a b", "Invalid number of arguments specified for command"),
            ("COMMAND GETKEYS echo a", "The command has no key arguments"),
            ("COMMAND GETKEYS solera.call m.t a", "The command has no key arguments"),
            ("COMMAND GETKEYS solera.call weak ping", "The command has no key arguments"),
            (
                "COMMAND GETKEYS solera.call weak get",
                "Invalid number of arguments specified for command",
            ),
        ] {
            assert_eq!(ask(Protocol::Resp2, line), Err(format!("ERR {error}")), "{line}");
        }
    }
}
