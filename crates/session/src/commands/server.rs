//! COMMAND, INFO, TIME, CONFIG, DBSIZE: what clients ask about the server.

use std::fmt::Write;

use solera_commands::unknown_subcommand;
use solera_resp::Arguments;

use crate::context::{Context, Unreachable};
use crate::introspection::answer;
use crate::session::Session;

/// The version of Redis whose behaviour clients may expect.
pub(crate) const VERSION: &str = "7.0.15";

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
pub(super) const CONFIG_SUBCOMMANDS: [&str; 2] = ["get", "help"];

const CONFIG_HELP: [&str; 5] = [
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "HELP",
    "    Print this help.",
];

pub(crate) fn command<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    if let Err(error) = answer(&mut session.out, arguments) {
        session.fail(error);
    }
}

pub(crate) fn time<W: Context>(session: &mut Session<W>) {
    let micros = session.worker.now().physical.0;
    session.out.array(2);
    for part in [micros / 1_000_000, micros % 1_000_000] {
        session.out.bulk(part.to_string().as_bytes());
    }
}

pub(crate) fn config<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let subcommand = arguments.get(1);
    let is = |name: &&str| subcommand.eq_ignore_ascii_case(name.as_bytes());
    if !CONFIG_SUBCOMMANDS.iter().any(is) {
        let known = ["set", "resetstat", "rewrite"];
        match known.iter().find(|name| is(name)) {
            Some(name) => session.fail(format!(
                "ERR CONFIG {} is not served; settings are in solera.toml, CONFIG GET reads some",
                name.to_uppercase()
            )),
            None => session.fail(unknown_subcommand("CONFIG", subcommand)),
        }
    } else if is(&"help") && arguments.len() == 2 {
        super::client::help(session, &CONFIG_HELP);
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

/// The keys of the whole site.
pub(crate) async fn dbsize<W: Context>(session: &mut Session<W>) {
    match count_keys(session).await {
        (keys, None) => session.out.integer(keys as i64),
        (_, Some(missing)) => session.fail(missing.to_string()),
    }
}

/// How many keys the site's workers have that can be reached, and one that cannot.
pub(super) async fn count_keys<W: Context>(session: &Session<W>) -> (usize, Option<Unreachable>) {
    let worker = &session.worker;
    let (mut keys, mut missing) = (0, None);
    for other in worker.workers() {
        if other == worker.address() {
            let now = worker.now();
            keys += worker.with(|replica| replica.count_keys(now));
            continue;
        }
        match worker.count_keys(other).await {
            Some(more) => keys += more,
            None => {
                missing = Some(Unreachable(worker.node_name(other)));
                break;
            }
        }
    }
    (keys, missing)
}

pub(crate) async fn info<W: Context>(session: &mut Session<W>, arguments: &Arguments<'_>) {
    let wanted: Vec<String> =
        arguments.from(1).map(|name| String::from_utf8_lossy(name).to_lowercase()).collect();
    let everything = wanted.is_empty()
        || wanted.iter().any(|name| ["all", "default", "everything"].contains(&name.as_str()));
    let (keys, _) = count_keys(session).await;
    let spec = session.worker.spec().clone();
    let site = &spec.sites[session.worker.address().site.index()];
    let connections = session.worker.client_count();
    let commands = session.worker.commands_run();
    let worker = &session.worker;
    let (used, limit) = (worker.memory_used(), worker.settings().max_memory.unwrap_or(0));
    let sections = [
        (
            "Server",
            format!(
                "redis_version:{VERSION}\r\nredis_mode:standalone\r\nsolera_version:{}\r\n\
                 process_id:{}\r\ntcp_port:{}\r\n",
                env!("CARGO_PKG_VERSION"),
                std::process::id(),
                site.listen.map_or(0, |address| address.port())
            ),
        ),
        ("Clients", format!("connected_clients:{connections}\r\n")),
        (
            "Memory",
            format!("used_memory:{used}\r\nused_memory_rss:{used}\r\nmaxmemory:{limit}\r\n"),
        ),
        ("Stats", format!("total_commands_processed:{commands}\r\n")),
        ("Replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
        (
            "Solera",
            format!(
                "cluster:{}\r\nprotocol:{}\r\nsite:{}\r\nsites:{}\r\nf:{}\r\npartitions:{}\r\n\
                 workers:{}\r\n",
                spec.name,
                spec.protocol.name(),
                site.name,
                spec.sites.len(),
                spec.f,
                spec.partitions,
                spec.workers_of(session.worker.address().site.index())
            ),
        ),
        ("Keyspace", format!("db0:keys={keys},expires=0,avg_ttl=0\r\n")),
    ];
    let mut text = String::new();
    for (name, lines) in sections {
        if everything || wanted.contains(&name.to_lowercase()) {
            let separator = if text.is_empty() { "" } else { "\r\n" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{separator}# {name}\r\n{lines}");
        }
    }
    session.out.verbatim(*b"txt", &text);
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
