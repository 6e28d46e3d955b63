//! CONFIG: reports settings that clients read when they connect.

use solera_commands::unknown_subcommand;
use solera_config::ClusterSpec;
use solera_resp::Arguments;

use super::help;
use super::request::Request;
use crate::context::Context;
use crate::session::ClientSession;

/// Settings that clients read when they connect.
const SETTINGS: [(&str, &str); 8] = [
    ("appendonly", "no"),
    ("databases", "1"),
    ("maxclients", "10000"),
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("proto-max-bulk-len", "536870912"),
    ("save", ""),
    ("timeout", "0"),
];

/// Supported subcommands of CONFIG.
pub(super) const SUBCOMMANDS: [&str; 2] = ["get", "help"];

const CONFIG_HELP: [&str; 5] = [
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "HELP",
    "    Print this help.",
];

/// A supported subcommand of CONFIG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Config {
    /// `GET pattern …`: the patterns, in lower case.
    Get(Vec<String>),
    Help,
}

impl Request for Config {
    fn parse(arguments: &Arguments<'_>, _: &ClusterSpec) -> Result<Config, String> {
        let subcommand = arguments.get(1);
        let is = |name: &&str| subcommand.eq_ignore_ascii_case(name.as_bytes());
        if !SUBCOMMANDS.iter().any(is) {
            return Err(match ["set", "resetstat", "rewrite"].iter().find(|name| is(name)) {
                Some(name) => format!(
                    "ERR CONFIG {} is not supported; settings are in solera.toml, CONFIG GET reads some",
                    name.to_uppercase()
                ),
                None => unknown_subcommand("CONFIG", subcommand),
            });
        }
        match (is(&"help"), arguments.len()) {
            (true, 2) => Ok(Config::Help),
            (true, _) => Err("ERR wrong number of arguments for 'config|help' command".to_owned()),
            (false, ..3) => {
                Err("ERR wrong number of arguments for 'config|get' command".to_owned())
            }
            (false, _) => {
                let patterns = arguments.from(2).map(String::from_utf8_lossy);
                Ok(Config::Get(patterns.map(|pattern| pattern.to_lowercase()).collect()))
            }
        }
    }

    async fn reply<W: Context>(self, session: &mut ClientSession<W>) {
        match self {
            Config::Get(patterns) => get(session, &patterns),
            Config::Help => help::answer(session, &CONFIG_HELP),
        }
    }
}

fn get<W: Context>(session: &mut ClientSession<W>, patterns: &[String]) {
    let found: Vec<_> = SETTINGS
        .iter()
        .filter(|(name, _)| patterns.iter().any(|pattern| matches(pattern, name)))
        .collect();
    let settings = session.worker.settings();
    let clients = settings.max_connections.to_string();
    let memory = settings.max_memory.unwrap_or(0).to_string();
    session.out.map(found.len());
    for (name, value) in found {
        let value = match *name {
            "maxclients" => &clients,
            "maxmemory" => &memory,
            _ => *value,
        };
        session.out.bulk(name.as_bytes());
        session.out.bulk(value.as_bytes());
    }
}

/// Returns whether a name matches a pattern in which `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => name.strip_prefix(head).is_some_and(|name| {
            (0..=name.len()).any(|at| name.is_char_boundary(at) && matches(rest, &name[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::request::testing::{parse, rejects};
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        assert!(matches("*", "save") && matches("max*", "maxmemory") && matches("*ave", "save"));
        assert!(matches("save", "save") && matches("m*y", "maxmemory"));
        assert!(!matches("max*", "save") && !matches("sav", "save"));
    }

    #[test]
    fn get_and_help_are_parsed() {
        let patterns = vec!["max*".to_owned(), "save".to_owned()];
        assert_eq!(parse("CONFIG GET MAX* save"), Ok(Config::Get(patterns)));
        assert_eq!(parse("CONFIG Help"), Ok(Config::Help));
        rejects::<Config>(&[
            ("CONFIG FOO", "ERR unknown subcommand 'FOO'. Try CONFIG HELP."),
            (
                "CONFIG SET save x",
                "ERR CONFIG SET is not supported; settings are in solera.toml, CONFIG GET reads some",
            ),
            ("CONFIG GET", "ERR wrong number of arguments for 'config|get' command"),
            ("CONFIG HELP x", "ERR wrong number of arguments for 'config|help' command"),
        ]);
    }
}
