//! The settings of `solera.toml`, as the reference lists them. Tests hold the list against the
//! reader.

/// A setting of `solera.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Header of its table, such as `[[site]]`; empty at the top of the file.
    pub table: &'static str,
    /// Name within the table.
    pub name: &'static str,
    /// Default.
    pub default: SettingDefault,
    /// Whether a running process accepts a change.
    pub reloads: bool,
    /// Meaning, unit and permitted values, in Markdown. Links start at `docs/reference`.
    pub meaning: &'static str,
}

/// Default of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingDefault {
    /// The table must have the setting.
    Required,
    /// The setting may be left out and then has no value.
    Unset,
    /// This value, as the file writes it.
    Value(&'static str),
    /// A rule, in Markdown.
    Rule(&'static str),
}

use SettingDefault::{Required, Rule, Unset, Value};

/// Settings of one subject.
#[derive(Clone, Copy, Debug)]
pub struct SettingSection {
    /// Name of the section in the reference.
    pub name: &'static str,
    /// Settings, in the order of the reference.
    pub settings: &'static [Setting],
}

/// All settings, by subject.
pub const SETTINGS: [SettingSection; 9] = [
    SettingSection { name: "settings", settings: &CLUSTER },
    SettingSection { name: "settings of sites", settings: &SITES },
    SettingSection { name: "settings of spaces", settings: &SPACES },
    SettingSection { name: "settings of users", settings: &USERS },
    SettingSection { name: "settings of TLS", settings: &TLS },
    SettingSection { name: "settings of modules", settings: &MODULES },
    SettingSection { name: "settings of stores", settings: &STORES },
    SettingSection { name: "settings of the log", settings: &LOG },
    SettingSection { name: "settings for development", settings: &DEVELOPMENT },
];

/// Returns a setting that a running process accepts.
const fn live(
    table: &'static str,
    name: &'static str,
    default: SettingDefault,
    meaning: &'static str,
) -> Setting {
    Setting { table, name, default, reloads: true, meaning }
}

/// Returns a setting that is fixed while the process runs.
const fn fixed(
    table: &'static str,
    name: &'static str,
    default: SettingDefault,
    meaning: &'static str,
) -> Setting {
    Setting { table, name, default, reloads: false, meaning }
}

const CLUSTER: [Setting; 20] = [
    fixed(
        "",
        "cluster",
        Value("\"solera\""),
        "name of the cluster. Tokens are bound to it and to the name of the first site. Other clusters use it as \
         the name of this one when it is their [store](#stores)",
    ),
    fixed("", "sites", Rule("3, or the number of `[[site]]` tables"), "number of sites, 1 to 7"),
    fixed("", "partitions", Value("16"), "number of logical partitions, 1 to 4096"),
    fixed(
        "",
        "workers",
        Value("1"),
        "number of threads per site, or per node where nodes are listed",
    ),
    fixed(
        "",
        "f",
        Rule("(sites − 1) / 2"),
        "number of sites that may fail; more than the default works, with a warning",
    ),
    fixed(
        "",
        "wan",
        Value("\"none\""),
        "only for `up`: `aws`, `lan`, `none`, or [a file](#delays)",
    ),
    fixed(
        "",
        "leader",
        Rule("the first site"),
        "site that leads strong transactions at first; `SOLERA.LEADERS MOVE` changes that",
    ),
    fixed(
        "",
        "protocol",
        Value("\"unistore\""),
        "for comparisons only, without `data`: `strong` (every transaction is certified), `redblue` (one group \
         certifies all strong transactions), `causal` (no transaction is certified), `uniform` (the same, without \
         the costs of certification), `cureft` (the same, and remote writes are visible before they are uniform). \
         A protocol other than `unistore` is reported at the start, and always in `/status` and `INFO`. A process \
         without data has lost everything when it ends; its site [joins \
         again](../guide/add-and-remove-sites.md)",
    ),
    live(
        "",
        "strong_max_bytes",
        Value("\"16 MiB\""),
        "size of the writes of a [strong transaction](transactions.md#limits), with the keys that it accesses, 1 KiB \
         to 512 MiB; more than the default delays other transactions",
    ),
    live(
        "",
        "strong_max_operations",
        Value("100000"),
        "number of operations of a strong transaction, 1 to 10,000,000. Each command at the site counts, so an \
         operation of a [module](modules.md) may count twice: before an operation that writes without reading, such \
         as `s.add(i)`, the module requests the type of its key",
    ),
    live(
        "",
        "transaction_timeout_ms",
        Value("60000"),
        "idle time of a client after which its open transaction is aborted",
    ),
    live(
        "",
        "transaction_max_age_ms",
        Value("600000"),
        "age at which an open transaction is aborted, because its snapshot keeps old versions at every site",
    ),
    live(
        "",
        "max_connections",
        Value("10000"),
        "number of client connections per site and process: per site of `solera up`, per node of `solera serve`, \
         including those whose TLS handshake has begun. The number is lower, with a warning, if the process may not \
         open as many files after it has raised its own limit as far as it may (`ulimit -Hn`)",
    ),
    live(
        "",
        "max_clock_skew_ms",
        Value("60000"),
        "difference of clocks above which nodes reject one another, at least 1000; above a second they log a warning",
    ),
    fixed(
        "",
        "data",
        Unset,
        "data directory; without it, data is in memory. `--data` overrides it. `serve` uses the part `SITE/node-K` of \
         this directory, but the whole directory of `--data`",
    ),
    fixed(
        "",
        "durability",
        Rule("`\"always\"` with `data`, otherwise `\"memory\"`"),
        "time at which an acknowledged write is on the disk: `always` before it is acknowledged, `interval` at most \
         `sync_interval_ms` later, `memory` never",
    ),
    live(
        "",
        "sync_interval_ms",
        Value("100"),
        "with `interval`: longest time that a write waits for the disk, 1 to 60000",
    ),
    live(
        "",
        "max_memory",
        Unset,
        "memory of the process in bytes, or as `\"4 GiB\"` or `\"4 GB\"`, at least 32 MiB. Above it, writes are \
         [rejected](#memory)",
    ),
    live(
        "",
        "drain_ms",
        Value("5000"),
        "time that the process may take to [stop](command-line.md#solera-serve), at most an hour",
    ),
    live(
        "",
        "log_level",
        Rule("`\"info\"`"),
        "another name of `level` in [`[log]`](#log); a file contains one of them",
    ),
];

const SITE: &str = "[[site]]";
const NODE: &str = "[[site.node]]";

const SITES: [Setting; 6] = [
    fixed(
        SITE,
        "name",
        Rule("names of regions, if there is no `[[site]]`"),
        "name of the site; the tables are in the order of the sites. A name is not a number, and names must differ in \
         more than upper and lower case",
    ),
    fixed(
        NODE,
        "resp",
        Unset,
        "address at which the node serves clients, as `\"host:port\"`. An IPv6 address is in brackets. Names are \
         resolved whenever they are used. A node has `resp`, `resp_tls` or both",
    ),
    fixed(NODE, "resp_tls", Unset, "address at which the node serves clients over TLS"),
    fixed(
        NODE,
        "peer",
        Required,
        "address at which other nodes reach this one. `0.0.0.0` is therefore rejected; use `--bind` for it",
    ),
    fixed(NODE, "admin", Required, "address of [HTTP](http.md)"),
    fixed(
        NODE,
        "workers",
        Rule("`workers`"),
        "number of threads of the node. All nodes of a site have at most 32, and at most `partitions`",
    ),
];

const SPACE: &str = "[[space]]";

const SPACES: [Setting; 6] = [
    fixed(SPACE, "name", Required, "name of the space"),
    fixed(SPACE, "prefix", Required, "prefix of its keys; the longest prefix wins"),
    fixed(SPACE, "level", Required, "`linearizable`, `por`, `causal` or `eventual`"),
    fixed(
        SPACE,
        "strong",
        Rule("every command that changes its key"),
        "with level `por`: the commands that are [strong](spaces.md#strong-commands)",
    ),
    fixed(
        SPACE,
        "conflicts",
        Rule("[all pairs with an update](spaces.md#strong-commands)"),
        "with level `por`: pairs of strong commands that conflict",
    ),
    fixed(
        SPACE,
        "answer",
        Value("\"applied\""),
        "with level [`primary`](../guide/primary.md): an update is answered when the client's site has `applied` it, \
         or when the home of the key has `accepted` it",
    ),
];

const USER: &str = "[[user]]";

const USERS: [Setting; 6] = [
    live(USER, "name", Required, "name of the user, without spaces"),
    live(
        USER,
        "password_sha256",
        Value("[]"),
        "[hashes](users-and-tls.md#passwords-and-failed-attempts) of the passwords; each password is accepted",
    ),
    live(USER, "nopass", Value("false"), "whether any password is accepted"),
    live(USER, "commands", Value("[]"), "[rules](users-and-tls.md#rules-of-commands) for commands"),
    live(USER, "keys", Value("[]"), "[patterns](users-and-tls.md#patterns-of-keys) of keys"),
    live(USER, "enabled", Value("true"), "whether the user can log in"),
];

const CLIENT_TLS: &str = "[tls]";
const PEER_TLS: &str = "[peer_tls]";

const TLS: [Setting; 8] = [
    live(CLIENT_TLS, "cert", Required, "file with the certificate, and those up to the authority"),
    live(CLIENT_TLS, "key", Required, "file with the private key of the certificate"),
    live(
        CLIENT_TLS,
        "client_ca",
        Unset,
        "file with the authority that signs certificates of clients; with it, clients need one",
    ),
    fixed(
        CLIENT_TLS,
        "port",
        Unset,
        "only for `up`: site *i*, from 1, serves TLS on this port + *i*",
    ),
    fixed(CLIENT_TLS, "admin", Value("false"), "whether HTTP uses TLS, too"),
    live(
        PEER_TLS,
        "cert",
        Required,
        "file with the certificate of the node. Nodes with and without `[peer_tls]` reject one another, so the table \
         cannot be added or removed while the process runs",
    ),
    live(PEER_TLS, "key", Required, "file with the private key of the certificate"),
    live(PEER_TLS, "ca", Required, "file with the authority that signs the nodes' certificates"),
];

const MODULE: &str = "[modules]";

const MODULES: [Setting; 15] = [
    fixed(MODULE, "max_source", Value("\"256 KiB\""), "size of a module's source, 1 KiB to 16 MiB"),
    fixed(
        MODULE,
        "max_steps",
        Value("1000000"),
        "number of steps of a phase, 1000 to 10,000,000,000. A computation takes about 10 ns for each step, and work \
         on large values counts as several steps. A request to a store is one step as well, and takes as long as the \
         store does: `run_ms` limits that",
    ),
    fixed(MODULE, "max_depth", Value("200"), "depth of nested function calls, 1 to 10000"),
    fixed(
        MODULE,
        "max_value",
        Value("\"16 MiB\""),
        "size of a value with everything in it, 1 KiB to 512 MiB",
    ),
    fixed(
        MODULE,
        "max_held",
        Value("\"64 MiB\""),
        "total size of the variables and intermediate results of a phase at a time, 1 KiB to 4096 MiB, at least \
         `max_value`. Each counts with the size of its value, even if several share it. The size is checked \
         whenever steps have created at most a sixteenth of it, so it may be exceeded by that much and one value for \
         a moment",
    ),
    fixed(
        MODULE,
        "max_handed_on",
        Value("\"16 MiB\""),
        "total size of the values that the phases of a transaction hand on, 1 KiB to 512 MiB",
    ),
    fixed(MODULE, "threads", Value("2"), "number of threads that run calls, 1 to 64"),
    fixed(
        MODULE,
        "max_calls",
        Value("1024"),
        "number of calls that a process runs at once, including phases for coordinators elsewhere, 1 to 1000000. A \
         further call waits for at most 5 seconds and is then answered with `TRYAGAIN`",
    ),
    fixed(
        MODULE,
        "run_ms",
        Value("30000"),
        "time for which a call may send operations to its stores before anything has committed, including waits for \
         others and retries, 1 to 86400000. After that it answers `TIMEOUT` and has changed nothing. Once something \
         has committed the transaction must be completed, and only `max_steps` ends a loop",
    ),
    fixed(
        MODULE,
        "attempts",
        Value("20"),
        "number of attempts of a transaction of which nothing has committed, 1 to 1000",
    ),
    fixed(
        MODULE,
        "finish_ms",
        Value("8000"),
        "time for which a call tries to complete a transaction of which something has committed, before it answers \
         `INCOMPLETE`",
    ),
    fixed(
        MODULE,
        "orphan_ms",
        Value("22000"),
        "time after its first commit, or after another process took it over, from which any process may complete \
         such a transaction",
    ),
    fixed(
        MODULE,
        "blocked_ms",
        Value("32000"),
        "time for which a call waits for another transaction of which it has seen a part",
    ),
    fixed(
        MODULE,
        "keep_ms",
        Value("60000"),
        "time for which the objects that a transaction keeps besides data remain after its end; longer while a site \
         that may read them is cut off",
    ),
    fixed(
        MODULE,
        "upkeep_ms",
        Value("5000"),
        "interval in which a process searches for transactions to complete and objects to remove, 10 to 86400000",
    ),
];

const STORE: &str = "[[store]]";
const STORE_SPACE: &str = "[[store.space]]";

const STORES: [Setting; 15] = [
    fixed(
        STORE,
        "name",
        Required,
        "name before the `/` in `BIND`, the same at all nodes; not the name of this cluster. For `solera`, the other \
         cluster's `cluster`",
    ),
    fixed(STORE, "kind", Required, "`postgres`, `redis` or `solera`"),
    fixed(STORE, "url", Required, "address; [its form](../guide/stores.md) depends on the kind"),
    fixed(
        STORE,
        "password_file",
        Unset,
        "file with the password. It is read at the start, and overrides a password in the URL. A relative path begins \
         at the folder of the configuration",
    ),
    fixed(
        STORE,
        "password_env",
        Unset,
        "instead of `password_file`: environment variable with the password",
    ),
    fixed(
        STORE,
        "ca",
        Unset,
        "file with the authority that signs the server's certificate, in PEM, for connections [with \
         TLS](../guide/stores.md#with-tls). `ca`, `cert` and `key` are read at the start. A relative path begins at \
         the folder of the configuration",
    ),
    fixed(
        STORE,
        "cert",
        Unset,
        "with `ca`: file with the client certificate, where the server requires one",
    ),
    fixed(STORE, "key", Unset, "file with the private key of `cert`"),
    fixed(
        STORE,
        "schema",
        Value("\"solera\""),
        "`postgres`: schema for [the objects that Solera creates](../guide/postgres.md#what-is-created) in the database. \
         Each cluster that uses the database needs a schema of its own",
    ),
    fixed(
        STORE,
        "timeout_ms",
        Rule("5000; 30000 for `postgres` and `solera`"),
        "time for a reply, 1 to 600000. A call waits for a connection for the same time, or for 5000 if the setting is \
         left out",
    ),
    fixed(
        STORE,
        "max_connections",
        Value("16"),
        "`postgres`, `solera`: number of connections of a process, 1 to 10000; they are kept for later calls",
    ),
    fixed(
        STORE_SPACE,
        "name",
        Required,
        "name after the `/` in `BIND`; a store has at least one space",
    ),
    fixed(
        STORE_SPACE,
        "prefix",
        Rule("the name and a colon"),
        "`redis`: prefix of its keys; no prefix may begin with that of another space of the store",
    ),
    fixed(
        STORE_SPACE,
        "level",
        Rule("the level of the kind"),
        "`linearizable` for `postgres`, `eventual` for `redis`; required for `solera`, and the same as in the other \
         cluster",
    ),
    fixed(
        "[store.space.operations]",
        "",
        Unset,
        "`postgres`: [statement](../guide/postgres.md#operations-are-statements) of each operation by its name, for the \
         `[[store.space]]` above",
    ),
];

const LOG_TABLE: &str = "[log]";

const LOG: [Setting; 3] = [
    live(
        LOG_TABLE,
        "format",
        Rule("`\"text\"`"),
        "`text`: UTC time, level and event; or `json`: an object per line with `timestamp`, `level`, `message` and \
         `target`, the area of the event",
    ),
    live(LOG_TABLE, "level", Rule("`\"info\"`"), "`error`, `warn`, `info` or `debug`"),
    live(
        LOG_TABLE,
        "areas",
        Rule("none"),
        "table with levels of single areas, as in `areas = { links = \"debug\" }`",
    ),
];

const DEVELOPMENT: [Setting; 1] = [live(
    "[development]",
    "examples",
    Value("false"),
    "whether spaces may have the level `primary`, an [example of a protocol](../guide/primary.md) that is not for data \
     that matters",
)];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::spec::{ClusterSpec, Overrides};

    fn parse(text: &str) -> Result<ClusterSpec, String> {
        ClusterSpec::parse("s.toml", text, Overrides::default()).map_err(|error| error.to_string())
    }

    fn all() -> impl Iterator<Item = &'static Setting> {
        SETTINGS.iter().flat_map(|section| section.settings)
    }

    /// Returns the names that a table may have, which the error for an unknown name lists.
    fn accepted(table: &str) -> BTreeSet<String> {
        let text = match table {
            "[[site.node]]" => "[[site]]\nname = 'x'\n[[site.node]]\ncolour = 1",
            "[[store.space]]" => {
                "[[store]]\nname = 'x'\nkind = 'redis'\nurl = 'u'\n[[store.space]]\ncolour = 1"
            }
            _ => &format!("{table}\ncolour = 1"),
        };
        let error = parse(text).unwrap_err();
        let (_, known) = error.split_once("no setting 'colour' here; there are ").unwrap();
        known.split(", ").map(str::to_owned).collect()
    }

    /// Returns the name of a table within its parent.
    fn last(table: &str) -> Option<&str> {
        table.trim_matches(['[', ']']).rsplit('.').next().filter(|name| !name.is_empty())
    }

    #[test]
    fn the_list_has_every_setting_and_no_other() {
        let tables: BTreeSet<&str> = all().map(|setting| setting.table).collect();
        let parent = |table: &str| {
            let (parent, _) = table.trim_matches(['[', ']']).rsplit_once('.')?;
            tables.iter().find(|other| other.trim_matches(['[', ']']) == parent).copied()
        };
        for table in tables.iter().filter(|table| **table != "[store.space.operations]") {
            let own = all().filter(|setting| setting.table == *table).map(|setting| setting.name);
            let within = tables.iter().filter(|other| match parent(other) {
                Some(parent) => parent == *table,
                None => table.is_empty(),
            });
            let within = within.filter_map(|other| last(other));
            let listed: BTreeSet<String> = own.chain(within).map(str::to_owned).collect();
            assert_eq!(listed, accepted(table), "{table}");
        }
    }

    #[test]
    fn settings_that_a_reload_rejects_are_fixed() {
        let fixed = all().filter(|setting| !setting.reloads);
        let names = fixed.map(|setting| match setting.table {
            "" => setting.name,
            table => table.trim_matches(['[', ']']).split('.').next().unwrap_or(table),
        });
        let mut names: BTreeSet<&str> = names.collect();
        // The table as a whole cannot be added or removed.
        names.insert("peer_tls");
        let spec = parse("").unwrap();
        let rejected = spec.fixed_settings(&spec).map(|(name, _)| name);
        assert_eq!(names, rejected.into_iter().collect());
    }

    /// The settings of modules have their defaults in another crate.
    #[test]
    fn the_defaults_are_those_of_the_reader() {
        let needed = "data = 'd'\ndurability = 'interval'\n";
        let user = "[[user]]\nname = 'x'\nnopass = true\n";
        for (start, table) in [(needed, ""), (user, USER)] {
            let own = all().filter(|setting| setting.table == table && setting.name != "nopass");
            let lines = own.filter_map(|setting| match setting.default {
                Value(value) => Some(format!("{} = {value}\n", setting.name)),
                _ => None,
            });
            let text: String = lines.collect();
            assert_eq!(parse(&format!("{start}{text}")), parse(start), "{text}");
        }
    }
}
