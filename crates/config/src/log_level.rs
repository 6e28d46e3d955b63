//! Levels of the log.

use std::fmt;
use std::str::FromStr;

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
        found.ok_or_else(|| "the levels are error, warn, info and debug".to_owned())
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
}
