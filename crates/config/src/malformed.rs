//! Errors of files that are not TOML, or contain settings that do not exist.

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
    let found = error.span().and_then(|at| text.get(at)).unwrap_or("");
    if message.contains("must be quoted") {
        return format!("texts need quotes: \"{found}\"");
    }
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if let (Some(name), true) = (names.first(), message.starts_with("unknown field")) {
        return unknown(name, &names[1..]);
    }
    if let (Some(name), true) = (names.first(), message.starts_with("missing field")) {
        return format!("the setting '{name}' is missing");
    }
    if message == "duplicate key" {
        return format!("'{found}' is set twice");
    }
    let path = path(error);
    if message.contains("untagged enum Amount") {
        return format!("{path}: {} is not an amount of bytes; {AMOUNTS}", source(found));
    }
    let wrong = message.strip_prefix("invalid type: ").or(message.strip_prefix("invalid value: "));
    if let Some((value, expected)) = wrong.and_then(|wrong| wrong.split_once(", expected ")) {
        if matches!(expected, "a sequence" | "an array of length 2") {
            return not_a_list(&path, found);
        }
        if value.ends_with("as i128") || value.ends_with("as u128") {
            return format!("{path}: the number {} is out of range", source(found));
        }
        let (expected, value) = (expected_kind(expected), found_value(value, found));
        return format!("{path}: expected {expected}, found {value}");
    }
    if let Some(wrong) = message.strip_prefix("invalid length ") {
        let (_, expected) = wrong.split_once(", expected ").unwrap_or(("", wrong));
        return match expected.starts_with("struct") {
            true => format!("{path}: expected a table, found a list"),
            false => not_a_list(&path, found),
        };
    }
    let lines: Vec<&str> = message.lines().map(str::trim).collect();
    format!("this is not TOML: {}", lines.join("; "))
}

/// Returns the name of the setting whose value is wrong, with the names of its tables before dots.
fn path(error: &toml::de::Error) -> String {
    // The parser shows the path only of an error that has no input to show.
    let mut error = error.clone();
    error.set_input(None);
    let shown = error.to_string();
    let path =
        shown.strip_prefix(error.message()).and_then(|rest| rest.trim().strip_prefix("in `"));
    path.map_or("a value", |path| path.trim_end_matches('`')).to_owned()
}

/// Describes a name that is not the name of a setting at its place. `known` lists the names there.
fn unknown(name: &str, known: &[&str]) -> String {
    match similar(name, known.iter().copied()) {
        Some(near) => format!("there is no setting '{name}' here; did you mean '{near}'?"),
        None if known.is_empty() => format!("there is no setting '{name}' here"),
        None => format!("there is no setting '{name}' here; there are {}", known.join(", ")),
    }
}

/// Describes the values that a setting accepts, from the parser's name of a Rust type.
fn expected_kind(expected: &str) -> &str {
    match expected {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" | "u64" | "usize" => "a whole number that is not negative",
        "i64" => "a whole number",
        "f32" | "f64" => "a number",
        "a string" | "path string" => "a text in quotes",
        "a boolean" => "true or false",
        "a map" => "a table",
        other if other.starts_with("struct ") => "a table",
        other => other,
    }
}

/// Describes the value of a setting. `value` is the parser's description, and `found` the value in
/// the file, or a part of it.
fn found_value(value: &str, found: &str) -> String {
    let number = value.strip_prefix("integer ").or(value.strip_prefix("floating point "));
    if let Some(number) = number {
        return format!("the number {}", number.trim_matches('`'));
    }
    if let Some(truth) = value.strip_prefix("boolean ") {
        return truth.trim_matches('`').to_owned();
    }
    match (value, value.strip_prefix("string ")) {
        (_, Some(text)) => format!("the text {text}"),
        ("sequence", _) => "a list".to_owned(),
        // The parser describes a date as a map, too.
        ("map", _) if found.starts_with(|c: char| c.is_ascii_digit()) => {
            format!("the date or time {found}")
        }
        ("map", _) => "a table".to_owned(),
        (other, _) => other.to_owned(),
    }
}

/// Describes how to write the list `path`. `found` is its value in the file, or a part of it.
fn not_a_list(path: &str, found: &str) -> String {
    let name = path.rsplit_once('.').map_or(path, |(_, name)| name);
    match name {
        "conflicts" => "conflicts is a list of pairs: [[\"DECRBY\", \"SET\"]]".to_owned(),
        "rtt_ms" => "rtt_ms is a list of rows: [[0, 61], [61, 0]]".to_owned(),
        "site" | "node" | "space" | "store" | "user" if !found.starts_with('{') => {
            format!("each {name} is a table: [[{path}]]")
        }
        _ => format!("{name} is a list: [{}]", source(found)),
    }
}

/// Returns the value in the file in one line.
fn source(found: &str) -> String {
    found.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use crate::spec::{ClusterSpec, Overrides};

    #[test]
    fn a_value_of_the_wrong_type_is_described_with_its_setting() {
        for (text, reason) in [
            ("f = 1\n[wan]", "line 2: wan: expected a text in quotes, found a table"),
            ("wan = 1979-05-27", "wan: expected a text in quotes, found the date or time 1979-"),
            ("wan = ['aws']", "line 1: wan: expected a text in quotes, found a list"),
            ("wan = true", "line 1: wan: expected a text in quotes, found true"),
            ("log = \"info\"", "line 1: log: expected a table, found the text \"info\""),
            ("log = []", "line 1: log: expected a table, found a list"),
            ("[log]\nareas = 3", "line 2: log.areas: expected a table, found the number 3"),
            (
                "sites = -1",
                "line 1: sites: expected a whole number that is not negative, found the",
            ),
            (
                "[[space]]\nlease_ms = 99999999999999999999",
                "line 2: space.lease_ms: the number 99999999999999999999 is out of range",
            ),
            ("sites = -99999999999999999999", "line 1: sites: the number -99999999999999999999 is"),
            ("f = 1\n[max_memory]\na = 1", "line 2: max_memory: [max_memory] is not an amount of"),
            ("development.examples = 1", "development.examples: expected true or false, found the"),
            (
                "[[space]]\nconflicts = [[1]]",
                "line 2: space.conflicts: expected a text in quotes, found",
            ),
        ] {
            let error = ClusterSpec::parse("s.toml", text, Overrides::default()).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(reason), "{text}: {error}");
            assert!(error.starts_with("s.toml, line ") && !error.contains('\n'), "{error}");
        }
    }
}
