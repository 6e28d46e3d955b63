//! Compares the table of commands with Redis' own, as recorded in `data/redis_commands.txt`.

use std::collections::BTreeMap;

use solera_commands::{COMMANDS, Command};
use solera_resp::{Protocol, Value, Writer, parse_value};
use solera_session::describe;

/// Lines in which Solera differs from Redis on purpose.
const DIFFERENT: [&str; 4] = [
    // Solera rejects the options of SET, so SET never reads the old value.
    "set -3 denyoom,write 1 1 1 @slow,@string,@write OW,update",
    // Redis describes the subcommands separately and gives the flags there.
    "client -2 noscript 0 0 0 @connection,@slow -",
    "acl -2 loading,noscript,stale 0 0 0 @slow -",
    "config -2 admin,loading,noscript,stale 0 0 0 @admin,@dangerous,@slow -",
];

/// Formats a command as a line of the recorded file, from the answer of COMMAND INFO.
fn line(command: &Command) -> String {
    let mut writer = Writer::new(Protocol::Resp3);
    describe(command, &mut writer);
    let (value, used) = parse_value(&writer.bytes).unwrap().unwrap();
    assert_eq!(used, writer.bytes.len());
    let Value::Array(parts) = value else { panic!("{value:?}") };
    let key_flags = match &parts[8] {
        Value::Set(specifications) if specifications.is_empty() => "-".to_owned(),
        Value::Set(specifications) => match &specifications[0] {
            Value::Map(pairs) => field(&pairs[0].1),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let parts: Vec<String> = parts[..7].iter().map(field).chain([key_flags]).collect();
    parts.join(" ")
}

fn field(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        Value::Simple(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Set(items) if items.is_empty() => "-".to_owned(),
        Value::Set(items) => {
            let mut items: Vec<String> = items.iter().map(field).collect();
            items.sort();
            items.join(",")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn commands_are_described_as_by_redis() {
    let name = |line: &'static str| (line.split(' ').next().unwrap_or(line), line);
    let recorded = include_str!("data/redis_commands.txt").lines().skip(1).map(name);
    let mut expected: BTreeMap<&str, &str> = recorded.collect();
    for different in DIFFERENT {
        let (name, line) = name(different);
        let redis = expected.insert(name, line).expect("only what Redis has can differ from it");
        assert_ne!(redis, line, "{name} does not differ");
    }
    for command in COMMANDS.iter().filter(|command| command.group != "solera") {
        let expected = expected.remove(command.name);
        assert_eq!(Some(line(command).as_str()), expected, "{}", command.name);
    }
    assert!(expected.is_empty(), "recorded, but not served: {expected:?}");
}

#[test]
fn some_commands_of_solera_touch_keys() {
    for command in COMMANDS.iter().filter(|command| command.group == "solera") {
        assert!(command.name.starts_with("solera."));
        let on_keys = ["level", "read", "interval", "rights", "take", "grow", "push", "newest"];
        let touches = on_keys.iter().any(|name| command.name == format!("solera.{name}"));
        assert_eq!(command.is_data(), touches, "{}", command.name);
    }
}
