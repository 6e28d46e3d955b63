//! Settings of the log: format, level, and levels of areas.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use solera_commands::similar;

/// Areas of the log. An event's area is its target in `tracing`.
pub mod areas {
    /// Start, stop and settings of the process.
    pub const SERVER: &str = "server";
    /// Connections with other nodes.
    pub const LINKS: &str = "links";
    /// Sites that leave and join, and nodes that other sites refuse.
    pub const SITES: &str = "sites";
    /// Journals: recovery, checkpoints and failures.
    pub const JOURNAL: &str = "journal";
    /// Logins and TLS handshakes of clients, over RESP and HTTP.
    pub const SESSIONS: &str = "sessions";
    /// Incomplete transactions of modules.
    pub const MODULES: &str = "modules";
    /// Memory and open files.
    pub const RESOURCES: &str = "resources";

    /// All areas.
    pub const ALL: [&str; 7] = [SERVER, LINKS, SITES, JOURNAL, SESSIONS, MODULES, RESOURCES];
}

/// Importance of an event. Events that are less important than the configured level are not logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// An operator must act.
    Error,
    /// An operator may have to act.
    Warn,
    /// A normal event.
    #[default]
    Info,
    /// Details, such as every attempt.
    Debug,
}

impl LogLevel {
    const ALL: [(LogLevel, &str); 4] = [
        (LogLevel::Error, "error"),
        (LogLevel::Warn, "warn"),
        (LogLevel::Info, "info"),
        (LogLevel::Debug, "debug"),
    ];
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LogLevel::ALL[*self as usize].1)
    }
}

impl FromStr for LogLevel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = LogLevel::ALL.iter().find(|(_, name)| *name == text).map(|(level, _)| *level);
        found.ok_or_else(|| {
            let near = similar(text, LogLevel::ALL.iter().map(|(_, name)| *name));
            let levels = "levels are error, warn, info and debug";
            match near {
                Some(near) => format!("did you mean '{near}'? The {levels}"),
                None => format!("the {levels}"),
            }
        })
    }
}

/// Form of a line of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// UTC time, level, event.
    #[default]
    Text,
    /// A JSON object with `timestamp`, `level`, `message` and `target`, which is the area, and with
    /// the fields of the event.
    Json,
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogFormat::Text => "text",
            LogFormat::Json => "json",
        })
    }
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err("the formats are text and json".to_owned()),
        }
    }
}

/// Settings of the log. A setting that is `None` or absent has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSpec {
    /// Format of the lines.
    pub format: Option<LogFormat>,
    /// Level of areas that have none of their own.
    pub level: Option<LogLevel>,
    /// Levels of areas, by names of [`areas`].
    pub areas: BTreeMap<&'static str, LogLevel>,
}

impl LogSpec {
    /// Returns these settings; those that are unset are taken from `other`.
    #[must_use]
    pub fn or(mut self, other: LogSpec) -> LogSpec {
        let mut areas = other.areas;
        areas.append(&mut self.areas);
        LogSpec { format: self.format.or(other.format), level: self.level.or(other.level), areas }
    }

    /// Returns descriptions of the changes in `new`.
    pub(crate) fn changes_to(&self, new: &LogSpec) -> Vec<String> {
        let mut changes = Vec::new();
        let mut compare = |setting: &str, old: Option<LogLevel>, new: Option<LogLevel>| {
            let name = |level: Option<LogLevel>| {
                level.map_or("the default".to_owned(), |level| level.to_string())
            };
            if old != new {
                changes.push(format!("{setting} is {} (was {})", name(new), name(old)));
            }
        };
        compare("log_level", self.level, new.level);
        for area in areas::ALL {
            let level = |spec: &LogSpec| spec.areas.get(area).copied();
            compare(&format!("log.areas.{area}"), level(self), level(new));
        }
        let [old, new] = [self, new].map(|spec| spec.format.unwrap_or_default());
        if old != new {
            changes.push(format!("log.format is {new} (was {old})"));
        }
        changes
    }
}

/// Returns the area with this name.
///
/// # Errors
/// There is none; the error lists the areas.
pub(crate) fn area(name: &str) -> Result<&'static str, String> {
    areas::ALL.into_iter().find(|area| *area == name).ok_or_else(|| {
        let reason = format!("there is no area '{name}' of the log");
        match similar(name, areas::ALL) {
            Some(near) => format!("{reason}; did you mean '{near}'?"),
            None => format!("{reason}; the areas are {}", areas::ALL.join(", ")),
        }
    })
}

/// Reads levels as an option or a setting: `info`, `links=debug` or `warn,links=debug,sites=info`.
impl FromStr for LogSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = |level: &str| {
            let read = level.parse::<LogLevel>();
            read.map_err(|reason| format!("there is no level '{level}': {reason}"))
        };
        let mut spec = LogSpec::default();
        for part in text.split(',') {
            match part.split_once('=') {
                Some((name, level)) => drop(spec.areas.insert(area(name)?, read(level)?)),
                None => spec.level = Some(read(part)?),
            }
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_named() {
        assert!(LogLevel::Error < LogLevel::Debug);
        assert_eq!("warn".parse(), Ok(LogLevel::Warn));
        assert!("loud".parse::<LogLevel>().unwrap_err().contains("debug"));
        for (place, (level, _)) in LogLevel::ALL.iter().enumerate() {
            assert_eq!(*level as usize, place);
        }
    }

    #[test]
    fn formats_have_their_names() {
        for format in [LogFormat::Text, LogFormat::Json] {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        assert!("xml".parse::<LogFormat>().unwrap_err().contains("text and json"));
    }

    #[test]
    fn an_option_names_a_level_and_levels_of_areas() {
        let spec: LogSpec = "warn,links=debug".parse().unwrap();
        assert_eq!((spec.level, spec.format), (Some(LogLevel::Warn), None));
        assert_eq!(spec.areas, [(areas::LINKS, LogLevel::Debug)].into());
        assert_eq!("modules=error".parse::<LogSpec>().unwrap().level, None);
        let error = "attic=info".parse::<LogSpec>().unwrap_err();
        assert!(error.contains("no area 'attic'") && error.contains("links, sites"), "{error}");
        for text in ["", "info,", "links=loud", "links="] {
            assert!(text.parse::<LogSpec>().unwrap_err().contains("the levels are"), "{text}");
        }
    }

    #[test]
    fn an_option_wins_over_the_file_area_by_area() {
        let file: LogSpec = "info,links=debug,sites=warn".parse().unwrap();
        let option: LogSpec = "links=error".parse().unwrap();
        assert_eq!(option.or(file), "info,links=error,sites=warn".parse().unwrap());
    }
}
