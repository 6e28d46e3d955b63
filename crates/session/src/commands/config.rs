//! CONFIG: settings that clients ask for when they connect.

use solera_commands::unknown_subcommand;
use solera_resp::Arguments;

use crate::context::Context;
use crate::session::Session;

/// Settings that clients ask for when they connect.
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

/// The subcommands of CONFIG that are served.
pub(super) const SUBCOMMANDS: [&str; 2] = ["get", "help"];

const CONFIG_HELP: [&str; 5] = [
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "HELP",
    "    Print this help.",
];

pub(crate) fn config<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let subcommand = arguments.get(1);
    let is = |name: &&str| subcommand.eq_ignore_ascii_case(name.as_bytes());
    if !SUBCOMMANDS.iter().any(is) {
        let known = ["set", "resetstat", "rewrite"];
        match known.iter().find(|name| is(name)) {
            Some(name) => session.fail(format!(
                "ERR CONFIG {} is not served; settings are in solera.toml, CONFIG GET reads some",
                name.to_uppercase()
            )),
            None => session.fail(unknown_subcommand("CONFIG", subcommand)),
        }
    } else if is(&"help") && arguments.len() == 2 {
        super::help::answer(session, &CONFIG_HELP);
    } else if is(&"help") {
        session.fail("ERR wrong number of arguments for 'config|help' command");
    } else if arguments.len() < 3 {
        session.fail("ERR wrong number of arguments for 'config|get' command");
    } else {
        let wanted: Vec<String> =
            arguments.from(2).map(|p| String::from_utf8_lossy(p).to_lowercase()).collect();
        let found: Vec<_> = SETTINGS
            .iter()
            .filter(|(name, _)| wanted.iter().any(|pattern| matches(pattern, name)))
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
}

/// Whether a name matches a pattern in which `*` stands for anything.
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
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        assert!(matches("*", "save") && matches("max*", "maxmemory") && matches("*ave", "save"));
        assert!(matches("save", "save") && matches("m*y", "maxmemory"));
        assert!(!matches("max*", "save") && !matches("sav", "save"));
    }
}
