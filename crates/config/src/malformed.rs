//! Errors of files that are not TOML, or contain settings that do not exist.

use std::ops::Range;

use solera_commands::similar;

/// Explanation of the form of amounts of bytes.
pub(crate) const AMOUNTS: &str = "amounts are as \"512 MiB\", \"4 GiB\", \"4 GB\"";

/// Returns the line of a position in a text, from 1.
pub(crate) fn line_of(text: &str, position: usize) -> usize {
    text.as_bytes()[..position.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// Returns the reason for which the parser rejects a text, in one line and without the position.
pub(crate) fn reason(text: &str, error: &toml::de::Error) -> String {
    let message = error.message();
    let at = error.span().unwrap_or(text.len()..text.len());
    if let Some(hint) = hint(text, message, at.clone()) {
        return hint;
    }
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if let (Some(name), true) = (names.first(), message.starts_with("unknown field")) {
        return unknown(name, &names[1..]);
    }
    if let (Some(name), true) = (names.first(), message.starts_with("missing field")) {
        return format!("the setting '{name}' is missing");
    }
    let found = text.get(at.clone()).unwrap_or("");
    if message == "duplicate key" {
        return format!("'{found}' is set twice");
    }
    let of = setting_at(text, at.start).map_or_else(String::new, |name| format!("{name}: "));
    if message.contains("untagged enum Amount") {
        return format!("{of}{found} is not an amount of bytes; {AMOUNTS}");
    }
    let wrong = message.strip_prefix("invalid type: ").or(message.strip_prefix("invalid value: "));
    if let Some((found, expected)) = wrong.and_then(|wrong| wrong.split_once(", expected ")) {
        let expected = match expected {
            "u8" => "a whole number from 0 to 255",
            "u16" => "a whole number from 0 to 65535",
            "u32" | "u64" | "usize" => "a whole number that is not negative",
            "i64" => "a whole number",
            other => other,
        };
        return format!("{of}expected {expected}, found {found}");
    }
    let lines: Vec<&str> = message.lines().map(str::trim).collect();
    format!("this is not TOML: {}", lines.join("; "))
}

/// Describes a name that is not the name of a setting at its place. `known` lists the names there.
fn unknown(name: &str, known: &[&str]) -> String {
    match similar(name, known.iter().copied()) {
        Some(near) => format!("there is no setting '{name}' here; did you mean '{near}'?"),
        None if known.is_empty() => format!("there is no setting '{name}' here"),
        None => format!("there is no setting '{name}' here; there are {}", known.join(", ")),
    }
}

/// Returns the name of the setting whose value contains a position.
fn setting_at(text: &str, position: usize) -> Option<&str> {
    let mut lines = text.get(..position)?.rsplit('\n');
    let name = lines.find_map(|line| Some(line.split_once('=')?.0.trim()))?;
    // An earlier line may be a comment.
    name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c)).then_some(name)
}

/// Returns advice, for mistakes that are frequent.
fn hint(text: &str, message: &str, at: Range<usize>) -> Option<String> {
    let found = text.get(at.clone())?;
    if message.contains("must be quoted") {
        return Some(format!("texts need quotes: \"{found}\""));
    }
    if !message.contains("expected a sequence") {
        return None;
    }
    if let Some(path) = table_at(text, at.start) {
        let (_, name) = path.rsplit_once('.').unwrap_or(("", &path));
        return Some(format!("each {name} is a table: [[{path}]]"));
    }
    let mut lines = text.get(..at.start)?.rsplit('\n');
    let setting = match found {
        // `found` is the first part of a key with dots.
        "site" | "space" | "store" | "user" => found,
        _ => lines.find_map(|line| Some(line.split_once('=')?.0.trim()))?,
    };
    Some(match setting {
        "site" | "space" | "store" | "user" if !found.starts_with('{') => {
            format!("each {setting} is a table: [[{setting}]]")
        }
        "conflicts" => "conflicts is a list of pairs: [[\"DECRBY\", \"SET\"]]".to_owned(),
        setting => format!("{setting} is a list: [{found}]"),
    })
}

/// Returns the table whose header, `[table]`, begins at this position.
fn table_at(text: &str, start: usize) -> Option<String> {
    let before = text.get(..start)?.rsplit('\n').next()?;
    let header = text.get(start..)?.lines().next()?.strip_prefix('[')?;
    let path = header.split_once(']').filter(|_| before.trim().is_empty())?.0;
    let names = path.split('.').map(|name| name.trim().trim_matches(['"', '\'']));
    Some(names.collect::<Vec<_>>().join("."))
}
