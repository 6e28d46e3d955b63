//! Compares the generated sections of `docs/reference` with the code that they describe.
//!
//! A section is between `<!-- generated: NAME -->` and `<!-- end -->`. After a change of the code,
//! `REWRITE=1 cargo test -p solera-cli --bin solera reference` writes the sections again.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use clap::{Arg, ArgAction, Args, Command, CommandFactory};
use solera::Value;
use solera_commands::{
    CATEGORIES, COMMANDS, Command as Described, CommandId, InMulti, InTransaction, Unit,
};
use solera_config::{ClusterSpec, Overrides, Relation, SETTINGS, Setting, SettingDefault};
use solera_embedded::{Embedded, Fault};
use solera_levels::Level;
use solera_modules::Settings;
use solera_node::METRICS;

use crate::Cli;
use crate::connect::LoginArgs;

const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- end -->";

/// Checks that a page has exactly these sections, by name and text. With `REWRITE=1` in the
/// environment, writes them into the page instead.
fn check(page: &str, sections: &[(&str, String)]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
    let found = fs::read_to_string(&file).unwrap();
    let mut parts = found.split(BEGIN);
    let mut expected = parts.next().unwrap().to_owned();
    let mut names = Vec::new();
    for part in parts {
        let (name, rest) = part.split_once(" -->").unwrap();
        let (_, after) = rest.split_once(END).unwrap_or_else(|| panic!("{name} has no {END}"));
        let section = sections.iter().find(|(other, _)| *other == name);
        let (_, text) = section.unwrap_or_else(|| panic!("nothing generates '{name}' of {page}"));
        write!(expected, "{BEGIN}{name} -->\n{text}{END}{after}").unwrap();
        names.push(name);
    }
    let missing = sections.iter().find(|(name, _)| !names.contains(name));
    assert!(missing.is_none(), "{page} has no section for {missing:?}");
    if std::env::var_os("REWRITE").is_some() {
        fs::write(file, expected).unwrap();
        return;
    }
    let lines = expected.lines().zip(found.lines());
    let differs = lines.enumerate().find(|(_, (expected, found))| expected != found);
    assert!(
        found == expected,
        "{page} differs from the code, first here: {differs:?}\n(REWRITE=1 writes the sections)"
    );
}

/// Returns a Markdown table.
fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut text = format!("| {} |\n{}|\n", head.join(" | "), "|---".repeat(N));
    for row in rows {
        text.push('|');
        for cell in row {
            let space = if cell.is_empty() { "" } else { " " };
            write!(text, "{space}{} |", cell.replace('|', "\\|")).unwrap();
        }
        text.push('\n');
    }
    text
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

#[test]
fn the_reference_lists_the_commands() {
    let on_keys = on_keys();
    let subcommands = Unit::all().filter(|unit| unit.name().contains('|'));
    let subcommands = subcommands.map(|unit| {
        let categories = CATEGORIES.iter().filter(|category| unit.is_in(category));
        let categories: Vec<String> = categories.map(|name| format!("@{name}")).collect();
        [code(&unit.name()), code(&categories.join(" "))]
    });
    let subcommands = table(["subcommand", "categories"], subcommands);
    check(
        "commands.md",
        &[("commands", by_group()), ("subcommands", subcommands), ("commands on keys", on_keys)],
    );
}

/// Returns a table for each group of commands.
fn by_group() -> String {
    let mut text = String::new();
    for (group, title) in [
        ("connection", "Connection"),
        ("server", "Server"),
        ("generic", "Keys of any type"),
        ("string", "Strings and numbers"),
        ("set", "Sets"),
        ("hash", "Hashes"),
        ("transactions", "Transactions of queued commands"),
        ("solera", "Commands of Solera"),
    ] {
        let rows = COMMANDS.iter().filter(|command| command.group == group).map(|command| {
            let keys = match (command.is_data(), command.reads_keys(), command.writes_keys()) {
                (false, ..) => "",
                (true, true, true) => "read, write",
                (true, true, false) => "read",
                (true, false, true) => "write",
                (true, false, false) => "any",
            };
            let multi = match command.in_multi() {
                InMulti::Queued => "queued",
                InMulti::AtOnce => "at once",
                InMulti::Refused => "refused",
                InMulti::RefusedAlone => "refused alone",
            };
            let begin = match command.in_transaction() {
                InTransaction::Any => "yes",
                InTransaction::Strong => "strong",
                InTransaction::None => "no",
            };
            let name = command.name.to_uppercase();
            [
                code(format!("{name} {}", command.arguments).trim_end()),
                command.summary.trim_end_matches('.').to_owned(),
                keys.to_owned(),
                code(&command.categories().join(" ")),
                multi.to_owned(),
                begin.to_owned(),
            ]
        });
        let head = ["command", "effect", "keys", "categories", "MULTI", "BEGIN"];
        write!(text, "### {title}\n{}\n", table(head, rows)).unwrap();
    }
    text
}

/// Levels of spaces, in the order of the columns of the table of commands on keys.
const LEVELS: [Level; 6] = [
    Level::Linearizable,
    Level::Por,
    Level::PcPsi,
    Level::Causal,
    Level::Speculative,
    Level::Eventual,
];

/// Returns how a command is executed on a key in a space of a level, as the reference shows it;
/// `None` for commands that do not act on keys.
fn executed(command: &Described, level: Level) -> Option<&'static str> {
    let is_new = command.id == CommandId::Setnx;
    Some(match (Relation::of(level).is_strong(command.id)?, level) {
        (_, Level::PcPsi) if command.writes_keys() => "at the home",
        (_, Level::PcPsi) => "at the site",
        (_, Level::Speculative) => "weak",
        (true, _) => "strong",
        (false, Level::Eventual) if is_new => "refused",
        (false, _) if is_new => "only in strong transactions",
        (false, Level::Eventual) => "eventual",
        (false, _) => "causal",
    })
}

/// Returns the table of the commands on keys by the level of the key's space.
fn on_keys() -> String {
    let rows = COMMANDS.iter().filter_map(|command| {
        let name = match command.id {
            CommandId::Setnx => "`SETNX`, `SET … NX`".to_owned(),
            _ => code(&command.name.to_uppercase()),
        };
        let [a, b, c, d, e, f] = LEVELS.map(|level| executed(command, level));
        let [a, b, c, d, e, f] = [a?, b?, c?, d?, e?, f?].map(str::to_owned);
        Some([name, a, b, c, d, e, f])
    });
    let [a, b, c, d, e, f] = LEVELS.map(|level| code(level.name()));
    table(["command", &a, &b, &c, &d, &e, &f], rows)
}

/// Returns a request of a command that succeeds where the command is accepted; `None` if it cannot
/// be tried.
fn request(command: &Described) -> Option<Vec<&'static str>> {
    let arguments = match command.id {
        // AUTH requires a user, and QUIT closes the connection.
        CommandId::Auth | CommandId::Quit => return None,
        // They require a space of type pool.
        CommandId::SoleraTake | CommandId::SoleraGrow => return None,
        CommandId::Select => "0",
        CommandId::Client => "ID",
        CommandId::Wait => "0 0",
        CommandId::Config => "GET save",
        CommandId::Acl => "WHOAMI",
        CommandId::SoleraOutcome => "0.0.0.1",
        CommandId::SoleraAttach => "HORIZON",
        CommandId::SoleraModule => "LIST",
        // Without an argument, it requires a space of level pcpsi.
        CommandId::SoleraHome => "HELP",
        CommandId::SoleraCall => "INCOMPLETE",
        CommandId::SoleraPhase => "SETTLE 1 1",
        _ => {
            let key = command.is_data().then_some(command.group);
            let count = command.arity.unsigned_abs() as usize - 1;
            let others = std::iter::repeat("1");
            let arguments = key.into_iter().chain(others).take(count);
            return Some([command.name].into_iter().chain(arguments).collect());
        }
    };
    Some([command.name].into_iter().chain(arguments.split(' ')).collect())
}

#[tokio::test]
async fn listed_use_in_transactions_is_that_of_a_server() {
    let cluster = Embedded::with(ClusterSpec::local(3).unwrap()).unwrap();
    for command in COMMANDS {
        let Some(request) = request(command) else { continue };
        for (begin, strong) in [("CAUSAL", false), ("STRONG", true)] {
            let mut client = cluster.client(0).await.unwrap();
            client.command(&["SOLERA.BEGIN", begin]).await.unwrap();
            let accepted = match command.in_transaction() {
                InTransaction::Any => true,
                InTransaction::Strong => strong,
                InTransaction::None => false,
            };
            let reply = client.command(&request).await;
            assert_eq!(reply.is_ok(), accepted, "{request:?} in {begin}: {reply:?}");
        }
        let mut client = cluster.client(0).await.unwrap();
        client.command(&["MULTI"]).await.unwrap();
        let reply = client.command(&request).await;
        let is_queued = matches!(&reply, Ok(Value::Simple(text)) if text == "QUEUED");
        let then = client.command(&["EXEC"]).await;
        let found = match (is_queued, reply.is_ok(), then.is_ok()) {
            (true, ..) => InMulti::Queued,
            // The command has ended the queue of MULTI.
            (false, true, false) => InMulti::AtOnce,
            (false, false, false) => InMulti::Refused,
            (false, _, true) => InMulti::RefusedAlone,
        };
        assert_eq!(found, command.in_multi(), "{request:?}: {reply:?}, {then:?}");
    }
}

/// Configuration of two sites with a space of each level. The keys of level `pcpsi` have their home
/// at the second site.
fn of_all_levels() -> ClusterSpec {
    let mut text = "[[site]]\nname = 'eu'\n[[site]]\nname = 'us'\n".to_owned();
    for name in LEVELS.map(Level::name) {
        writeln!(text, "[[space]]\nname = '{name}'\nprefix = '{name}:'\nlevel = '{name}'").unwrap();
    }
    text = text.replace("level = 'pcpsi'", "level = 'pcpsi'\nhome = 'us'");
    ClusterSpec::parse("s.toml", &text, Overrides::default()).unwrap()
}

/// Returns the request of a command for a key in the space of a level.
fn request_at(command: &Described, level: Level) -> Option<Vec<String>> {
    executed(command, level)?;
    let mut words: Vec<String> = request(command)?.into_iter().map(str::to_owned).collect();
    words[1] = format!("{}:{}", level.name(), words[1]);
    Some(words)
}

/// Checks each cell of the table of commands on keys, outside and inside transactions.
#[tokio::test]
async fn listed_execution_on_keys_is_that_of_a_server() {
    let cluster = Embedded::with(of_all_levels()).unwrap();
    for (command, level) in COMMANDS.iter().flat_map(|command| LEVELS.map(|level| (command, level)))
    {
        let (Some(cell), Some(request)) = (executed(command, level), request_at(command, level))
        else {
            continue;
        };
        for begin in
            ["", "MULTI", "SOLERA.BEGIN CAUSAL", "SOLERA.BEGIN STRONG", "SOLERA.BEGIN PCPSI"]
        {
            let mut client = cluster.client(0).await.unwrap();
            if !begin.is_empty() {
                client.command(&begin.split(' ').collect::<Vec<_>>()).await.unwrap();
            }
            let mut reply = client.command(&request).await;
            if begin == "MULTI" && reply.is_ok() {
                reply = client.command(&["EXEC"]).await.map(|replies| match replies {
                    Value::Array(mut replies) => replies.remove(0),
                    other => other,
                });
            }
            let accepted = match (cell, begin) {
                ("at the home" | "at the site", "" | "MULTI" | "SOLERA.BEGIN PCPSI") => true,
                ("at the home" | "at the site", _) | (_, "SOLERA.BEGIN PCPSI") => false,
                ("weak", begin) => matches!(begin, "" | "MULTI"),
                ("strong", "" | "MULTI") => true,
                ("strong", begin) => begin == "SOLERA.BEGIN STRONG",
                ("only in strong transactions", begin) => begin == "SOLERA.BEGIN STRONG",
                ("refused", _) => false,
                ("eventual", "SOLERA.BEGIN STRONG") => !command.writes_keys(),
                _ => true,
            };
            let is_ok = reply.as_ref().is_ok_and(|reply| !matches!(reply, Value::Error(_)));
            assert_eq!(is_ok, accepted, "{request:?} in {begin}: {reply:?}");
        }
    }
}

/// While the home is cut off, the client's site answers what is executed there, and nothing else.
#[tokio::test]
async fn listed_places_of_execution_are_those_of_a_server() {
    let cluster = Embedded::with(of_all_levels()).unwrap();
    cluster.inject(Fault::Cut { a: "1".into(), b: "2".into() }).await.unwrap();
    let mut asked = tokio::task::JoinSet::new();
    for command in COMMANDS {
        let (Some(cell), Some(request)) =
            (executed(command, Level::PcPsi), request_at(command, Level::PcPsi))
        else {
            continue;
        };
        let mut client = cluster.client(0).await.unwrap();
        asked.spawn(async move { (cell, client.command(&request).await, request) });
    }
    for (cell, reply, request) in asked.join_all().await {
        assert_eq!(reply.is_ok(), cell == "at the site", "{request:?}: {reply:?}");
        if let Err(error) = reply {
            assert_eq!(error.code(), Some("UNKNOWN"), "{request:?}: {error}");
        }
    }
}

#[test]
fn the_reference_lists_the_settings() {
    let sections = SETTINGS.map(|section| {
        let rows = section.settings.iter().map(|setting: &Setting| {
            let default = match setting.default {
                SettingDefault::Required => "required".to_owned(),
                SettingDefault::Unset => "–".to_owned(),
                SettingDefault::Value(value) => code(value),
                SettingDefault::Rule(rule) => rule.to_owned(),
            };
            let name = [code(setting.table), code(setting.name)].join(" ");
            let reload = if setting.reloads { "yes" } else { "no" };
            [name.trim().to_owned(), default, reload.to_owned(), setting.meaning.to_owned()]
        });
        (section.name, table(["setting", "default", "reload", "meaning"], rows))
    });
    check("settings.md", &sections);
}

/// The configuration crate does not contain these defaults, so they are compared here.
#[test]
fn listed_defaults_of_modules_are_those_of_the_executor() {
    let mut text = "[modules]\n".to_owned();
    let settings = SETTINGS.iter().flat_map(|section| section.settings);
    for setting in settings.filter(|setting| setting.table == "[modules]") {
        let SettingDefault::Value(value) = setting.default else { panic!("{setting:?}") };
        writeln!(text, "{} = {value}", setting.name).unwrap();
    }
    let spec = ClusterSpec::parse("s.toml", &text, Overrides::default()).unwrap();
    assert_eq!(Settings::configured(&spec.modules).unwrap(), Settings::default());
}

#[test]
fn the_reference_lists_the_metrics() {
    let rows = METRICS.iter().map(|metric| {
        let name = match metric.labels {
            [] => metric.name.to_owned(),
            labels => format!("{}{{{}}}", metric.name, labels.join(",")),
        };
        [code(&name), metric.kind.to_owned(), metric.help.to_owned()]
    });
    check("http.md", &[("metrics", table(["metric", "kind", "meaning"], rows))]);
}

/// Checks the help of a command and of its subcommands. `path` is its name.
fn check_help(command: &mut Command, path: &str) {
    for text in [command.render_help(), command.render_long_help()] {
        let text = text.to_string();
        let long = text.lines().find(|line| line.chars().count() > 100);
        assert_eq!(long, None, "the help of {path}");
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    assert!(path == "solera" || after.starts_with("Example"), "the help of {path} has no example");
    // A wrapped example could not be copied.
    let long = after.lines().find(|line| line.chars().count() > 100);
    assert_eq!(long, None, "the examples of {path}");
    for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
        let path = format!("{path} {}", sub.get_name());
        check_help(sub, &path);
    }
}

#[test]
fn help_has_examples_and_short_lines() {
    let mut all = crate::with_negative_numbers(Cli::command());
    all.build();
    check_help(&mut all, "solera");
}

#[test]
fn the_reference_lists_the_options() {
    let login = LoginArgs::augment_args(Command::new("login"));
    let is_login = |arg: &Arg| login.get_arguments().any(|other| other.get_id() == arg.get_id());
    let head = ["argument", "default", "meaning"];
    let all = Cli::command();
    let mut names = Vec::new();
    let mut tables = Vec::new();
    for command in all.get_subcommands() {
        let mut rows = Vec::new();
        describe(command, "", &mut rows);
        // A separate section lists the options to log in.
        let logs_in = login
            .get_arguments()
            .all(|arg| command.get_arguments().any(|own| own.get_id() == arg.get_id()));
        let rows = rows.into_iter().filter(|(arg, _)| !(logs_in && arg.is_some_and(is_login)));
        names.push(format!("solera {}", command.get_name()));
        tables.push(table(head, rows.map(|(_, row)| row)));
    }
    let mut rows = Vec::new();
    describe(&login, "", &mut rows);
    names.push("login".to_owned());
    tables.push(table(head, rows.into_iter().map(|(_, row)| row)));
    let sections: Vec<_> = names.iter().map(String::as_str).zip(tables).collect();
    check("command-line.md", &sections);
}

/// A row of a command's table, with the argument that it describes; `None` for a subcommand.
type Row<'a> = (Option<&'a Arg>, [String; 3]);

/// Adds the rows of a command's subcommands and arguments. `path` is the command within the
/// described one.
fn describe<'a>(command: &'a Command, path: &str, rows: &mut Vec<Row<'a>>) {
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let invocation = [path, &invocation(arg)].join(" ");
        rows.push((Some(arg), [code(invocation.trim()), default_of(arg), help_of(arg)]));
    }
    for sub in command.get_subcommands() {
        let path = [path, sub.get_name()].join(" ").trim().to_owned();
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        rows.push((None, [code(&path), String::new(), about]));
        describe(sub, &path, rows);
    }
}

/// Returns an argument as users write it.
fn invocation(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let mut value = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(" ");
    let repeats = arg.is_positional() && matches!(arg.get_action(), ArgAction::Append);
    if repeats {
        value += "…";
    } else if arg.get_value_delimiter().is_some() && !value.ends_with('…') {
        value += ",…";
    }
    match arg.get_long() {
        None => value,
        Some(long) if arg.get_action().takes_values() => format!("--{long} {value}"),
        Some(long) => format!("--{long}"),
    }
}

fn default_of(arg: &Arg) -> String {
    if arg.is_required_set() {
        return "required".to_owned();
    }
    if !arg.get_action().takes_values() {
        return String::new();
    }
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    code(&defaults.collect::<Vec<_>>().join(" "))
}

fn help_of(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
    let help = help.unwrap_or_default();
    let mut text = String::new();
    for paragraph in help.split("\n\n") {
        // Clap removes the full stop of the first paragraph.
        if !text.is_empty() {
            text += if text.ends_with('.') { " " } else { ". " };
        }
        text += &paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    if arg.get_action().takes_values() {
        for value in arg.get_possible_values() {
            let help = value.get_help().map(|help| format!(" ({help})")).unwrap_or_default();
            write!(text, "; `{}`{help}", value.get_name()).unwrap();
        }
    }
    text
}
