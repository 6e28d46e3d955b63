//! The settings of `solera.toml`, as the reference lists them. Tests compare the list with the
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
pub const SETTINGS: [SettingSection; 10] = [
    SettingSection { name: "settings", settings: &CLUSTER },
    SettingSection { name: "settings of sites", settings: &SITES },
    SettingSection { name: "settings of spaces", settings: &SPACES },
    SettingSection { name: "settings of the speculative space", settings: &SPECULATIVE },
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

const CLUSTER: [Setting; 22] = [
    fixed(
        "",
        "cluster",
        Value("\"solera\""),
        "name of the cluster. Tokens are bound to it and to the name of the first site. Another cluster that uses \
         this one as a [store](#stores) refers to it by this name",
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
        "number of sites that may fail without loss. A number above the default is accepted with a warning",
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
        "pcpsi_timestamps",
        Value("\"per-site\""),
        "timestamps of spaces of level [`pcpsi`](spaces.md#pcpsi): `exact` (a stamp for each shard on which a session \
         or a value depends), `structural` (shards share stamps by their numbers), `temporal` (stamps of the shards \
         that changed last, and one for all others), or `per-site` (as `temporal`, separately for the homes at each \
         site). Fewer stamps take less space, and let more reads go to the home",
    ),
    fixed(
        "",
        "pcpsi_stamps",
        Value("2"),
        "number of stamps of these timestamps, 1 to 64; with `per-site` for each site. Not with `exact`",
    ),
    fixed(
        "",
        "protocol",
        Value("\"unistore\""),
        "for comparisons only, without `data`: `strong` (every transaction is certified), `redblue` (one group \
         certifies all strong transactions), `causal` (no transaction is certified), `uniform` (as `causal`, without \
         the costs of certification), `cureft` (as `uniform`, and remote writes are visible before they are \
         uniform). A protocol other than `unistore` is reported at the start, and always in `/status` and `INFO`. \
         Such a process has no data directory, so its data is lost when it ends, and its site must [join \
         again](../guide/add-and-remove-sites.md)",
    ),
    live(
        "",
        "strong_max_bytes",
        Value("\"16 MiB\""),
        "size of the writes of a [strong transaction](transactions.md#limits) and of the keys that it accesses, 1 \
         KiB to 512 MiB. Transactions larger than the default delay others",
    ),
    live(
        "",
        "strong_max_operations",
        Value("100000"),
        "number of operations of a strong transaction, 1 to 10,000,000. Each command at the site counts. An \
         operation of a [module](modules.md) that writes without reading, such as `s.add(i)`, counts twice, because \
         the module first requests the type of the key",
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
        "number of client connections of each site of `solera up`, or of each node of `solera serve`, including \
         connections whose TLS handshake has begun. The process raises its limit of open files up to the hard limit \
         (`ulimit -Hn`). If that is too low for this number of connections, it accepts fewer. It logs a warning if the \
         setting is not the default, or if it accepts fewer than 1000",
    ),
    live(
        "",
        "max_clock_skew_ms",
        Value("60000"),
        "difference of clocks above which nodes reject one another, at least 1000. Nodes log a warning if their \
         clocks differ by more than a second",
    ),
    fixed(
        "",
        "data",
        Unset,
        "data directory; without it, data is in memory. `serve` uses the folder `SITE/node-K` in this directory. \
         `--data` overrides the setting, and `serve` uses that directory itself",
    ),
    fixed(
        "",
        "durability",
        Rule("`\"always\"` with `data`, otherwise `\"memory\"`"),
        "when a write is on the disk: with `always` before it is acknowledged, with `interval` at most \
         `sync_interval_ms` after that, with `memory` never",
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
        "another name of `level` in [`[log]`](#log); a file may contain only one of the two",
    ),
];

const SITE: &str = "[[site]]";
const NODE: &str = "[[site.node]]";

const SITES: [Setting; 6] = [
    fixed(
        SITE,
        "name",
        Rule("names of regions, if there is no `[[site]]`"),
        "name of the site. The order of the tables is the order of the sites. A name must not be a number, and two \
         names must differ in more than upper and lower case",
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

const SPACES: [Setting; 12] = [
    fixed(SPACE, "name", Required, "name of the space"),
    fixed(SPACE, "prefix", Required, "prefix of its keys; the longest prefix wins"),
    fixed(
        SPACE,
        "level",
        Required,
        "[level](spaces.md) of its keys: `linearizable`, `por`, `pcpsi`, `causal`, `speculative` (experimental) or \
         `eventual`; or `primary`, an [example of a protocol](../guide/primary.md) that requires `examples` in \
         [`[development]`](#development)",
    ),
    fixed(
        SPACE,
        "strong",
        Rule("`por`: every command that changes its key; `speculative`: none"),
        "with level `por`: the commands that are [strong](spaces.md#strong-commands). With level `speculative`: those \
         that are [strong unless a call says otherwise](spaces.md#speculative)",
    ),
    fixed(
        SPACE,
        "conflicts",
        Rule("[all pairs with an update](spaces.md#strong-commands)"),
        "with level `por`: pairs of strong commands that conflict",
    ),
    fixed(
        SPACE,
        "home",
        Value("\"hash\""),
        "with level `pcpsi`: the [home](spaces.md#homes) of its keys, the site that orders their updates. `hash` \
         spreads the keys over the sites; or the name of a site",
    ),
    fixed(
        SPACE,
        "answer",
        Value("\"applied\""),
        "with level [`primary`](../guide/primary.md): an update is answered when the client's site has `applied` it, \
         or when the home of the key has `accepted` it",
    ),
    fixed(
        SPACE,
        "type",
        Unset,
        "with level `causal`: the [type](spaces.md#types-and-bounds) of its keys, `counter`, `bounded-counter`, `pool`, \
         `set` or `list`; with `por` and `linearizable`: `counter`, `set` or `list` (experimental)",
    ),
    fixed(
        SPACE,
        "error",
        Unset,
        "with type `counter` or `set`: the [error bound](spaces.md#types-and-bounds), the greatest width of an interval in \
         percent, such as `5%`; a multiple of `0.0001%`, at most `100%` (experimental)",
    ),
    fixed(
        SPACE,
        "lease_ms",
        Value("5000"),
        "with `error`: time after which a site that no longer updates a counter or set gives up its tokens, so that \
         intervals become exact, from 100 to 600000 ms",
    ),
    fixed(
        SPACE,
        "at_least",
        Unset,
        "weakest level at which [`SOLERA.READ`](spaces.md#the-weakest-level-of-reads) may read its keys: `causal` or \
         `eventual`, or the strongest level of reads of the space; not with `pcpsi`, `speculative` and `primary` \
         (experimental)",
    ),
    fixed(
        SPACE,
        "acyclic",
        Value("false"),
        "with level `speculative`: whether results [show no strong operation before it is \
         committed](spaces.md#acyclic-spaces) (experimental)",
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
    live(
        CLIENT_TLS,
        "cert",
        Required,
        "file with the certificate, followed by the certificates between it and the authority",
    ),
    live(CLIENT_TLS, "key", Required, "file with the private key of the certificate"),
    live(
        CLIENT_TLS,
        "client_ca",
        Unset,
        "file with the authority that signs certificates of clients. If it is set, each client must present such a \
         certificate",
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
        "number of steps of a phase, 1000 to 10,000,000,000. A step of a computation takes about 10 ns, and work on \
         large values counts as several steps. A request to a store counts as one step, however long the store \
         takes; `run_ms` limits the time of requests",
    ),
    fixed(MODULE, "max_depth", Value("200"), "depth of nested function calls, 1 to 10000"),
    fixed(
        MODULE,
        "max_value",
        Value("\"16 MiB\""),
        "size of a value, including the values that it contains, 1 KiB to 512 MiB",
    ),
    fixed(
        MODULE,
        "max_held",
        Value("\"64 MiB\""),
        "total size of the variables and intermediate results that a phase has at one time, 1 KiB to 4096 MiB, at \
         least `max_value`. A value that several variables share counts once for each of them. The size is not \
         checked after every step, but after steps that have created up to a sixteenth of the limit. A phase may \
         therefore exceed the limit for a moment, by a sixteenth and one value",
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
        "number of calls that a process runs at once, including phases that it runs for coordinators in other \
         processes, 1 to 1000000. A further call waits for at most 5 seconds and is then answered with `TRYAGAIN`",
    ),
    fixed(
        MODULE,
        "run_ms",
        Value("30000"),
        "time limit of a call until its first phase commits, including retries and waits for other transactions, 1 \
         to 86400000. A call that reaches the limit answers `TIMEOUT` and has changed nothing. After the first \
         commit the limit no longer applies, because the transaction must be completed; only `max_steps` then ends a \
         loop",
    ),
    fixed(
        MODULE,
        "attempts",
        Value("20"),
        "number of attempts of a transaction until its first phase commits, 1 to 1000",
    ),
    fixed(
        MODULE,
        "finish_ms",
        Value("8000"),
        "time for which a call tries to complete its transaction after the first phase has committed. Then it \
         answers `INCOMPLETE`",
    ),
    fixed(
        MODULE,
        "orphan_ms",
        Value("22000"),
        "time after which any process may complete an incomplete transaction. It begins with the transaction's first \
         commit, and begins again whenever a process takes the transaction over",
    ),
    fixed(
        MODULE,
        "blocked_ms",
        Value("32000"),
        "time for which a call that has seen a part of another transaction waits for the rest of it",
    ),
    fixed(
        MODULE,
        "keep_ms",
        Value("60000"),
        "time for which the objects that a transaction stores besides data, such as witnesses and records, remain \
         after its end. They remain longer while a site that may read them is cut off",
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

const STORES: [Setting; 16] = [
    fixed(
        STORE,
        "name",
        Required,
        "name of the store, which `BIND` contains before the `/`. It must be the same at all nodes, and not be the \
         name of this cluster. For kind `solera`, it is the setting `cluster` of the other cluster",
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
        "layout",
        Value("\"plain\""),
        "`redis`, with spaces of level `pcpsi`: [how strings are stored](../guide/occult-redis.md#layouts), `plain` or \
         `envelope`. All gateways and stores of a cluster need the same layout",
    ),
    fixed(
        STORE,
        "timeout_ms",
        Rule("5000; 30000 for `postgres` and `solera`"),
        "time limit of a reply, 1 to 600000; for spaces of level `pcpsi` in a Redis Cluster at most 6000. It is also the \
         time for which a call waits for a free connection; if the setting is left out, that time is 5000",
    ),
    fixed(
        STORE,
        "max_connections",
        Value("16"),
        "`postgres`, `solera`: maximum number of connections of a process, 1 to 10000. The process keeps connections \
         for later calls",
    ),
    fixed(
        STORE_SPACE,
        "name",
        Required,
        "name of the space, which `BIND` contains after the `/`. A store has at least one space",
    ),
    fixed(
        STORE_SPACE,
        "prefix",
        Rule("the name and a colon"),
        "`redis`: prefix of the space's keys. It must not begin with the prefix of another space of the store",
    ),
    fixed(
        STORE_SPACE,
        "level",
        Rule("the level of the kind"),
        "level of the space. For `postgres` it is `linearizable`. For `redis` it is `eventual`; in a Redis \
         Cluster, all spaces of a store can be of level \
         [`pcpsi`](../guide/occult-redis.md#use-it-in-modules). For `solera` it is required, and must be the level that \
         the space has in the other cluster",
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
         `target`, the area of the event. Events about links, sites and recovery also have fields such as `site`, \
         `node`, `worker`, `address` and `reason`",
    ),
    live(
        LOG_TABLE,
        "level",
        Rule("`\"info\"`"),
        "`error`, `warn`, `info` or `debug`; levels of areas may follow as for `--log-level`, as in \
         `\"warn,links=debug\"`",
    ),
    live(
        LOG_TABLE,
        "areas",
        Rule("none"),
        "table with levels of single areas, as in `areas = { links = \"debug\" }`",
    ),
];

const SPECULATIVE: [Setting; 2] = [
    fixed(
        "[speculative]",
        "threads",
        Rule("the number of processors"),
        "number of procedures of the [speculative space](../guide/speculative.md) that threads of their own execute \
         at a time, 0 to 256. The worker executes commands with one key itself, and with 0 all",
    ),
    fixed(
        "[speculative]",
        "max_tentative",
        Value("1000000"),
        "number of operations of the speculative space that may be tentative at a site, 100 to 10000000. With as \
         many, the site answers `BUSY` to commands that change something, for example while it is cut off",
    ),
];

const DEVELOPMENT: [Setting; 1] = [live(
    "[development]",
    "examples",
    Value("false"),
    "whether spaces may have the level `primary`. It is an [example of a protocol](../guide/primary.md), and not \
     meant for data that matters",
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
