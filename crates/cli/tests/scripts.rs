//! Runs the scripts in `testdata`: commands at the sites of a cluster, and their replies.
//!
//! With `REWRITE=1` in the environment, the test writes differing replies into the scripts instead;
//! read the difference before committing it. A script consists of these lines:
//!
//! ```text
//! # a comment; below the first command also an empty line
//! config sites = 2              a line of solera.toml, before the first command
//! 1> GET k                      a command at site 1, in the session called 1
//! "v"                           what redis-cli would show for its reply (RESP3)
//! 1b> GET k                     another session at site 1
//! eventually 2> GET k           repeated until the reply is what is expected
//! token = 1> SOLERA.TOKEN       keeps the reply; $token stands for it later
//! solera-3-…                    a line that ends with … stands for all that begin so
//! fault cut 1 2                 as `solera fault`: cut, heal, kill, restart
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use solera::{Client, Error, Value};
use solera_embedded::{ClusterSpec, Embedded, Fault, Overrides};

/// A line of a script, or a command with its reply.
enum Part {
    /// A comment or an empty line.
    Silent(String),
    Config(String),
    Fault(String),
    Command(Command),
}

struct Command {
    line: String,
    /// The variable that keeps the reply.
    keep: Option<String>,
    eventually: bool,
    session: String,
    words: Vec<String>,
    expected: Vec<String>,
}

#[tokio::test]
async fn replies_match_the_scripts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    let mut differences = String::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        let mut parts = read(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = run(&mut parts).await;
        if std::env::var_os("REWRITE").is_some() {
            std::fs::write(&file, write(&parts)).unwrap();
        } else {
            found.iter().for_each(|difference| differences += &format!("\n{name}: {difference}"));
        }
    }
    assert!(
        differences.is_empty(),
        "{differences}\n(REWRITE=1 writes the replies into the scripts)"
    );
}

/// Runs a script, and replaces expected replies with actual ones where they differ.
async fn run(parts: &mut [Part]) -> Vec<String> {
    let config: String = parts
        .iter()
        .filter_map(|part| if let Part::Config(line) = part { Some(line) } else { None })
        .map(|line| format!("{line}\n"))
        .collect();
    let spec = ClusterSpec::parse("config", &config, Overrides::default()).unwrap();
    let cluster = Embedded::with(spec).unwrap();
    let mut stage = Stage { cluster, sessions: BTreeMap::new(), kept: BTreeMap::new() };
    let mut differences = Vec::new();
    for part in parts {
        match part {
            Part::Silent(_) | Part::Config(_) => {}
            Part::Fault(line) => stage.cluster.inject(fault(line)).await.unwrap(),
            Part::Command(command) => {
                let got = stage.reply(command).await;
                if !matches(&command.expected, &got) {
                    let (line, got_text) = (&command.line, got.join("\n"));
                    let expected = command.expected.join("\n");
                    differences.push(format!("{line}\nexpected\n{expected}\nbut got\n{got_text}"));
                    command.expected = got;
                }
            }
        }
    }
    differences
}

struct Stage {
    cluster: Embedded,
    sessions: BTreeMap<String, Client>,
    kept: BTreeMap<String, String>,
}

impl Stage {
    async fn reply(&mut self, command: &Command) -> Vec<String> {
        let started = Instant::now();
        loop {
            let got = self.run(command).await;
            let patient = command.eventually && started.elapsed() < Duration::from_secs(20);
            if !patient || matches(&command.expected, &got) {
                return got;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn run(&mut self, command: &Command) -> Vec<String> {
        let words: Vec<String> = command
            .words
            .iter()
            .map(|word| match word.strip_prefix('$') {
                Some(name) => self.kept[name].clone(),
                None => word.clone(),
            })
            .collect();
        let value = match self.call(&command.session, &words).await {
            Ok(value) => value,
            Err(Error::Aborted { key, .. }) => Value::Error(format!(
                "ABORTED conflict on '{key}'; nothing was changed, run the transaction again"
            )),
            Err(error) if error.code().is_some() => Value::Error(error.to_string()),
            Err(_) => {
                // The next command starts a new session.
                self.sessions.remove(&command.session);
                return vec!["(no connection)".to_owned()];
            }
        };
        if let (Some(name), Value::Bulk(bytes)) = (&command.keep, &value) {
            self.kept.insert(name.clone(), String::from_utf8(bytes.clone()).unwrap());
        }
        let mut text = String::new();
        show(&value, 0, &mut text);
        text.lines().map(str::to_owned).collect()
    }

    async fn call(&mut self, session: &str, words: &[String]) -> Result<Value, Error> {
        if !self.sessions.contains_key(session) {
            let site: usize =
                session.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
            let client = self.cluster.client(site - 1).await?;
            self.sessions.insert(session.to_owned(), client);
        }
        let client = self.sessions.get_mut(session).unwrap();
        client.command(words).await
    }
}

/// Returns whether a reply matches the expected one, whose lines may end with `…`.
fn matches(expected: &[String], got: &[String]) -> bool {
    let line = |(expected, got): (&String, &String)| match expected.strip_suffix('…') {
        Some(start) => got.trim_start_matches('"').starts_with(start.trim_start_matches('"')),
        None => expected == got,
    };
    expected.len() == got.len() && expected.iter().zip(got).all(line)
}

/// Formats a reply like redis-cli.
fn show(value: &Value, indent: usize, text: &mut String) {
    let several = |mark: char, values: &[Value], text: &mut String| {
        let width = values.len().to_string().len();
        for (i, value) in values.iter().enumerate() {
            let before = if i == 0 { 0 } else { indent };
            let _ = write!(text, "{:before$}{:width$}{mark} ", "", i + 1);
            show(value, indent + width + 2, text);
        }
    };
    let _ = match value {
        Value::Null => writeln!(text, "(nil)"),
        Value::Simple(simple) => writeln!(text, "{simple}"),
        Value::Error(error) => writeln!(text, "(error) {error}"),
        Value::Integer(number) => writeln!(text, "(integer) {number}"),
        Value::Bulk(bytes) => writeln!(text, "\"{}\"", bytes.escape_ascii()),
        Value::Verbatim { text: verbatim, .. } if verbatim.is_empty() => {
            writeln!(text, "(empty text)")
        }
        Value::Verbatim { text: verbatim, .. } => writeln!(text, "{verbatim}"),
        Value::Double(number) => writeln!(text, "(double) {number}"),
        Value::Boolean(truth) => writeln!(text, "({truth})"),
        Value::BigNumber(digits) => writeln!(text, "{digits}"),
        Value::Array(values) if values.is_empty() => writeln!(text, "(empty array)"),
        Value::Set(values) if values.is_empty() => writeln!(text, "(empty set)"),
        Value::Map(pairs) if pairs.is_empty() => writeln!(text, "(empty hash)"),
        Value::Array(values) | Value::Push(values) => return several(')', values, text),
        Value::Set(values) => return several('~', values, text),
        Value::Map(pairs) => {
            for (i, (key, value)) in pairs.iter().enumerate() {
                let before = if i == 0 { 0 } else { indent };
                let _ = write!(text, "{:before$}{}# ", "", i + 1);
                let mut shown = String::new();
                show(key, 0, &mut shown);
                let _ = write!(text, "{} => ", shown.trim_end());
                show(value, indent + 3, text);
            }
            return;
        }
    };
}

fn fault(line: &str) -> Fault {
    let words: Vec<&str> = line.split(' ').collect();
    match words.as_slice() {
        ["cut", a, b] => Fault::Cut { a: (*a).into(), b: (*b).into() },
        ["heal"] => Fault::Heal {},
        ["kill", site] => Fault::Kill { site: (*site).into() },
        ["restart", site] => Fault::Restart { site: (*site).into() },
        _ => panic!("no fault: {line}"),
    }
}

fn read(text: &str) -> Result<Vec<Part>, String> {
    let mut parts: Vec<Part> = Vec::new();
    for line in text.lines() {
        if line.is_empty() || line.starts_with("# ") {
            parts.push(Part::Silent(line.to_owned()));
        } else if let Some(config) = line.strip_prefix("config ") {
            parts.push(Part::Config(config.to_owned()));
        } else if let Some(fault) = line.strip_prefix("fault ") {
            parts.push(Part::Fault(fault.to_owned()));
        } else if let Some(command) = read_command(line) {
            parts.push(Part::Command(command));
        } else if let Some(Part::Command(command)) = parts.last_mut() {
            command.expected.push(line.to_owned());
        } else {
            return Err(format!("this line makes no sense: {line}"));
        }
    }
    Ok(parts)
}

fn read_command(line: &str) -> Option<Command> {
    let (head, command) = line.split_once("> ")?;
    let (keep, head) = match head.split_once(" = ") {
        Some((name, head)) => (Some(name.to_owned()), head),
        None => (None, head),
    };
    let (eventually, session) = match head.strip_prefix("eventually ") {
        Some(session) => (true, session),
        None => (false, head),
    };
    let is_session = session.starts_with(|c: char| c.is_ascii_digit())
        && session.chars().all(|c| c.is_ascii_alphanumeric());
    is_session.then(|| Command {
        line: line.to_owned(),
        keep,
        eventually,
        session: session.to_owned(),
        words: words_of(command),
        expected: Vec::new(),
    })
}

/// Splits a command at spaces; quoted words may contain spaces.
fn words_of(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, piece) in command.split('"').enumerate() {
        match i % 2 {
            0 => words.extend(piece.split(' ').filter(|word| !word.is_empty()).map(str::to_owned)),
            _ => words.push(piece.to_owned()),
        }
    }
    words
}

fn write(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        let _ = match part {
            Part::Silent(line) => writeln!(text, "{line}"),
            Part::Config(line) => writeln!(text, "config {line}"),
            Part::Fault(line) => writeln!(text, "fault {line}"),
            Part::Command(command) => {
                let _ = writeln!(text, "{}", command.line);
                command.expected.iter().try_for_each(|line| writeln!(text, "{line}"))
            }
        };
    }
    text
}
