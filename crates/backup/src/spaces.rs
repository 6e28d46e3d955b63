//! Spaces of a backup and of a cluster, and their differences.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use solera::{Client, Value};

use crate::scan::{ScanError, UNISTORE, text};

/// Number of Occult, whose keys snapshots contain as well.
const OCCULT: u8 = 3;
/// Number of Creek, whose keys snapshots contain since its exports exist.
const CREEK: u8 = 5;
/// Name of the type of counters.
const COUNTERS: [&str; 3] = ["counter", "bounded-counter", "pool"];

/// A space, as a cluster describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceInfo {
    /// Name of the space.
    pub name: String,
    /// Prefix of its keys. A key belongs to the space with the longest matching prefix.
    pub prefix: String,
    /// Level of the space.
    pub level: String,
    /// Name of the protocol that runs it.
    pub protocol: String,
    /// Number of that protocol, which is never reused.
    pub protocol_number: u8,
    /// Strong commands; empty unless the level is `por` or `speculative`.
    pub strong: Vec<String>,
    /// Pairs of strong commands that conflict; empty unless the level is `por`.
    pub conflicts: Vec<[String; 2]>,
    /// Event after which updates are answered; `None` if the protocol has no choice, and in backups
    /// of older builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Home of its keys: `hash`, or a site; `None` unless the level is `pcpsi`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    /// Type of its keys; `None` if they may have any, and in backups of older builds.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub of_type: Option<String>,
    /// Error bound of its counters, such as `5%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Lease of its error bound, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// Weakest level at which its keys may be read, if it sets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<String>,
}

impl SpaceInfo {
    /// Whether the configuration declares which commands are strong.
    pub fn declares(&self) -> bool {
        self.level == "por"
    }

    /// Returns whether snapshots contain its keys.
    pub fn is_held(&self) -> bool {
        self.protocol_number == UNISTORE || self.is_of_occult() || self.is_speculative()
    }

    /// Returns whether Creek runs it, that is, whether its level is `speculative`.
    pub fn is_speculative(&self) -> bool {
        self.protocol_number == CREEK
    }

    /// Returns whether Occult runs it, that is, whether its level is `pcpsi`.
    pub(crate) fn is_of_occult(&self) -> bool {
        self.protocol_number == OCCULT
    }

    /// Returns the name and the number of the protocol. A protocol of another version may have
    /// any name, so control characters are escaped.
    pub fn shown_protocol(&self) -> String {
        format!("{} ({})", self.protocol.escape_debug(), self.protocol_number)
    }

    /// Returns whether its keys are counters, which only increments and decrements change.
    pub(crate) fn has_counters(&self) -> bool {
        self.of_type.as_deref().is_some_and(|of_type| COUNTERS.contains(&of_type))
    }

    fn strong(&self) -> BTreeSet<&str> {
        self.strong.iter().map(String::as_str).collect()
    }

    /// Returns the pairs in a canonical order, each of them sorted.
    fn conflicts(&self) -> BTreeSet<(&str, &str)> {
        let pairs = self.conflicts.iter().map(|[one, other]| (one.as_str(), other.as_str()));
        pairs.map(|(one, other)| (one.min(other), one.max(other))).collect()
    }
}

/// A difference between the spaces of a backup and those of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Prefix of the affected keys.
    pub prefix: String,
    /// The setting that differs: `space`, `level`, `protocol`, `type`, `error`, a command, or two
    /// commands joined by `+`.
    pub what: String,
    /// Value in the backup.
    pub backup: String,
    /// Value in the cluster.
    pub cluster: String,
}

/// Returns the differences between the spaces of a backup and those of a cluster, ordered by
/// prefix.
///
/// Two spaces are the same if their prefixes, levels, protocols, types, error bounds, strong
/// commands and conflicting pairs are; names and orders do not matter. A pair is left out if one of
/// its commands is strong on one side only, because that is a difference by itself.
pub fn differences(backup: &[SpaceInfo], cluster: &[SpaceInfo]) -> Vec<Difference> {
    let prefixes: BTreeSet<&str> =
        backup.iter().chain(cluster).map(|space| space.prefix.as_str()).collect();
    let mut found = Vec::new();
    for prefix in prefixes {
        let mut add = |what: &str, backup: &str, cluster: &str| {
            found.push(Difference {
                prefix: prefix.to_owned(),
                what: what.to_owned(),
                backup: backup.to_owned(),
                cluster: cluster.to_owned(),
            });
        };
        let is_of = |space: &&SpaceInfo| space.prefix == prefix;
        match (backup.iter().find(is_of), cluster.iter().find(is_of)) {
            (Some(one), Some(other)) if one.level == other.level => {
                if one.protocol_number != other.protocol_number {
                    add("protocol", &one.shown_protocol(), &other.shown_protocol());
                }
                for (what, ours, theirs) in
                    [("type", &one.of_type, &other.of_type), ("error", &one.error, &other.error)]
                {
                    let side = |setting: &Option<String>| {
                        setting.clone().unwrap_or_else(|| "none".to_owned())
                    };
                    if ours != theirs {
                        add(what, &side(ours), &side(theirs));
                    }
                }
                let (ours, theirs) = (one.strong(), other.strong());
                for name in ours.symmetric_difference(&theirs) {
                    let side = |strong: bool| if strong { "strong" } else { "not strong" };
                    add(name, side(ours.contains(name)), side(theirs.contains(name)));
                }
                let (pairs, others) = (one.conflicts(), other.conflicts());
                let on_one_side = |name: &str| ours.contains(name) != theirs.contains(name);
                for pair in pairs.symmetric_difference(&others) {
                    if !on_one_side(pair.0) && !on_one_side(pair.1) {
                        let side = |there: bool| if there { "conflict" } else { "no conflict" };
                        let what = format!("{}+{}", pair.0, pair.1);
                        add(&what, side(pairs.contains(pair)), side(others.contains(pair)));
                    }
                }
            }
            (Some(one), Some(other)) => add("level", &one.level, &other.level),
            (one, other) => {
                let side = |space: Option<&SpaceInfo>, all| {
                    space.map_or_else(|| instead(all, prefix), |space| space.level.clone())
                };
                add("space", &side(one, backup), &side(other, cluster));
            }
        }
    }
    found
}

/// Returns the space of a key: the one with the longest matching prefix.
pub(crate) fn space_of<'a>(spaces: &'a [SpaceInfo], key: &[u8]) -> Option<&'a SpaceInfo> {
    let matches = |space: &&SpaceInfo| key.starts_with(space.prefix.as_bytes());
    spaces.iter().filter(matches).max_by_key(|space| space.prefix.len())
}

/// Describes the space that contains the keys with a prefix, where no space has exactly this
/// prefix.
fn instead(spaces: &[SpaceInfo], prefix: &str) -> String {
    match space_of(spaces, prefix.as_bytes()) {
        Some(space) => format!("none; in space '{}', {}", space.name, space.level),
        None => "none".to_owned(),
    }
}

/// Reads the spaces of a cluster.
pub(crate) async fn spaces(client: &mut Client) -> Result<Vec<SpaceInfo>, ScanError> {
    items(client.command(&["SOLERA.SPACES"]).await?, space)
}

fn space(value: Value) -> Result<SpaceInfo, ScanError> {
    let Value::Map(settings) = value else { return Err(WHAT) };
    let mut info = SpaceInfo::default();
    let (mut strong, mut conflicts) = (None, None);
    for (setting, value) in settings {
        match text(setting)?.as_str() {
            "name" => info.name = text(value)?,
            "prefix" => info.prefix = text(value)?,
            "level" => info.level = text(value)?,
            "protocol" => info.protocol = text(value)?,
            "protocol-number" => info.protocol_number = number(value)?,
            "answer" => info.answer = Some(text(value)?),
            "home" => info.home = Some(text(value)?),
            "type" => info.of_type = Some(text(value)?),
            "error" => info.error = Some(text(value)?),
            "lease-ms" => info.lease_ms = Some(milliseconds(value)?),
            "at-least" => info.at_least = Some(text(value)?),
            "strong" => strong = Some(items(value, text)?),
            "conflicts" => conflicts = Some(items(value, pair)?),
            // A later version may describe more.
            _ => {}
        }
    }
    match (strong, conflicts) {
        (Some(strong), Some(conflicts)) => Ok(SpaceInfo { strong, conflicts, ..info }),
        _ if info.declares() => {
            Err(ScanError::Answer("a space of level por without its strong commands and conflicts"))
        }
        (strong, _) => Ok(SpaceInfo { strong: strong.unwrap_or_default(), ..info }),
    }
}

fn number(value: Value) -> Result<u8, ScanError> {
    let Value::Integer(number) = value else { return Err(WHAT) };
    u8::try_from(number).map_err(|_| ScanError::Answer("a protocol's number above 255"))
}

fn milliseconds(value: Value) -> Result<u64, ScanError> {
    let Value::Integer(ms) = value else { return Err(WHAT) };
    u64::try_from(ms).map_err(|_| ScanError::Answer("a negative lease"))
}

fn pair(value: Value) -> Result<[String; 2], ScanError> {
    items(value, text)?.try_into().map_err(|_| ScanError::Answer("no pair of commands"))
}

const WHAT: ScanError = ScanError::Answer("no spaces");

fn items<T>(
    value: Value,
    item: impl Fn(Value) -> Result<T, ScanError>,
) -> Result<Vec<T>, ScanError> {
    let Value::Array(values) = value else { return Err(WHAT) };
    values.into_iter().map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(prefix: &str, level: &str, strong: &[&str], conflicts: &[[&str; 2]]) -> SpaceInfo {
        SpaceInfo {
            name: if prefix.is_empty() { "default" } else { prefix.trim_end_matches(':') }.into(),
            prefix: prefix.into(),
            level: level.into(),
            protocol: "unistore".into(),
            protocol_number: UNISTORE,
            strong: strong.iter().map(|name| (*name).into()).collect(),
            conflicts: conflicts.iter().map(|pair| pair.map(str::to_owned)).collect(),
            ..SpaceInfo::default()
        }
    }

    fn rest() -> SpaceInfo {
        space("", "causal", &[], &[])
    }

    /// Returns the differences, one per line.
    fn lines(backup: &[SpaceInfo], cluster: &[SpaceInfo]) -> Vec<String> {
        let line = |difference: Difference| {
            let Difference { prefix, what, backup, cluster } = difference;
            format!("{prefix} {what}: {backup} | {cluster}")
        };
        differences(backup, cluster).into_iter().map(line).collect()
    }

    #[test]
    fn a_space_of_one_side_differs_and_the_other_side_names_the_space_of_its_keys() {
        let log = space("log:", "eventual", &[], &[]);
        let audit = space("log:audit:", "eventual", &[], &[]);
        let both = [audit, log.clone(), rest()];
        assert_eq!(
            lines(&both, &[rest()]),
            [
                "log: space: eventual | none; in space 'default', causal",
                "log:audit: space: eventual | none; in space 'default', causal",
            ]
        );
        assert_eq!(
            lines(&[log, rest()], &both),
            ["log:audit: space: none; in space 'log', eventual | eventual"]
        );
    }

    #[test]
    fn a_prefix_of_another_level_differs() {
        let por = space("stock:", "por", &["DECRBY"], &[["DECRBY", "DECRBY"]]);
        let causal = space("stock:", "causal", &[], &[]);
        assert_eq!(lines(&[por, rest()], &[causal, rest()]), ["stock: level: por | causal"]);
    }

    #[test]
    fn a_space_that_another_protocol_runs_differs() {
        let ours = space("s:", "causal", &[], &[]);
        let theirs = SpaceInfo { protocol: "later".into(), protocol_number: 9, ..ours.clone() };
        assert_eq!(
            lines(&[theirs.clone(), rest()], &[ours.clone(), rest()]),
            ["s: protocol: later (9) | unistore (1)"]
        );
        assert!(ours.is_held() && !theirs.is_held());
        let hostile = SpaceInfo { protocol: "\x1b[2J\n".into(), ..theirs };
        assert_eq!(hostile.shown_protocol(), "\\u{1b}[2J\\n (9)");
    }

    #[test]
    fn a_type_or_an_error_bound_of_one_side_differs() {
        let plain = space("v:", "causal", &[], &[]);
        let counter = SpaceInfo { of_type: Some("counter".into()), ..plain.clone() };
        let bounded =
            SpaceInfo { error: Some("5%".into()), lease_ms: Some(5000), ..counter.clone() };
        let wider = SpaceInfo { error: Some("6%".into()), ..bounded.clone() };
        let with = |space: &SpaceInfo| [space.clone(), rest()];
        assert_eq!(lines(&with(&plain), &with(&counter)), ["v: type: none | counter"]);
        assert_eq!(lines(&with(&bounded), &with(&counter)), ["v: error: 5% | none"]);
        assert_eq!(lines(&with(&bounded), &with(&wider)), ["v: error: 5% | 6%"]);
        let longer = SpaceInfo { lease_ms: Some(6000), ..bounded.clone() };
        assert!(lines(&with(&bounded), &with(&longer)).is_empty());
        assert!(bounded.has_counters() && !plain.has_counters());
        let text = serde_json::to_string(&bounded).unwrap();
        assert!(text.contains(r#""type":"counter","error":"5%","lease_ms":5000"#), "{text}");
        assert_eq!(serde_json::from_str::<SpaceInfo>(&text).unwrap(), bounded);
    }

    #[test]
    fn a_description_of_an_older_build_has_no_answer_and_no_home() {
        let old = r#"{"name":"n","prefix":"n:","level":"primary","protocol":"primary",
            "protocol_number":2,"strong":[],"conflicts":[]}"#;
        let mut space: SpaceInfo = serde_json::from_str(old).unwrap();
        assert_eq!(space.answer, None);
        let written = serde_json::to_string(&space).unwrap();
        assert!(!["answer", "home", "type", "error"].iter().any(|name| written.contains(name)));
        (space.answer, space.home) = (Some("accepted".into()), Some("eu".into()));
        let text = serde_json::to_string(&space).unwrap();
        assert_eq!(serde_json::from_str::<SpaceInfo>(&text).unwrap(), space);
    }

    #[test]
    fn strong_commands_of_one_side_differ_and_their_pairs_are_not_repeated() {
        let one = space("s:", "por", &["DECRBY"], &[["DECRBY", "DECRBY"]]);
        let other = space("s:", "por", &["SADD"], &[["SADD", "SADD"]]);
        assert_eq!(
            lines(&[one, rest()], &[other, rest()]),
            ["s: DECRBY: strong | not strong", "s: SADD: not strong | strong"]
        );
    }

    #[test]
    fn pairs_of_one_side_differ() {
        let with = |pairs: &[[&str; 2]]| [space("s:", "por", &["INCRBY", "DECRBY"], pairs), rest()];
        let narrow = with(&[["DECRBY", "DECRBY"], ["INCRBY", "INCRBY"]]);
        let wide = with(&[["DECRBY", "DECRBY"], ["INCRBY", "DECRBY"]]);
        assert_eq!(
            lines(&narrow, &wide),
            [
                "s: DECRBY+INCRBY: no conflict | conflict",
                "s: INCRBY+INCRBY: conflict | no conflict"
            ]
        );
    }

    #[test]
    fn a_space_of_level_speculative_has_strong_commands_and_is_in_snapshots() {
        let bulk = |text: &str| Value::Bulk(text.into());
        let described = |strong: &[&str]| {
            let strong = Value::Array(strong.iter().map(|name| bulk(name)).collect());
            let texts = [("name", "o"), ("prefix", "o:"), ("level", "speculative")];
            let texts = texts.map(|(name, text)| (bulk(name), bulk(text)));
            let others = [(bulk("protocol-number"), Value::Integer(5)), (bulk("strong"), strong)];
            super::space(Value::Map(texts.into_iter().chain(others).collect())).unwrap()
        };
        let one = described(&["SET", "INCRBY"]);
        assert_eq!(one.strong, ["SET", "INCRBY"]);
        assert!(one.is_held() && one.is_speculative());
        let other = described(&["SET"]);
        assert_eq!(lines(&[one, rest()], &[other, rest()]), ["o: INCRBY: strong | not strong"]);
    }

    #[test]
    fn names_and_orders_do_not_matter() {
        let pairs = [["DECRBY", "INCRBY"], ["DECRBY", "DECRBY"]];
        let turned = [["DECRBY", "DECRBY"], ["INCRBY", "DECRBY"]];
        let one = space("s:", "por", &["INCRBY", "DECRBY"], &pairs);
        let other = space("s:", "por", &["DECRBY", "INCRBY"], &turned);
        let other = SpaceInfo { name: "another".into(), ..other };
        assert_eq!(lines(&[one, rest()], &[rest(), other]), Vec::<String>::new());
    }
}
