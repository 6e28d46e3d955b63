//! The log: one line per event on standard error, with UTC time and level.

use std::fmt;
use std::io::Write;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// How much an event matters; what matters less than asked for is not written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Something that a person must mend.
    Error,
    /// Something that a person may have to mend.
    Warn,
    /// What happens.
    #[default]
    Info,
    /// Every attempt.
    Debug,
}

impl Level {
    const ALL: [(Level, &str); 4] = [
        (Level::Error, "error"),
        (Level::Warn, "warn"),
        (Level::Info, "info"),
        (Level::Debug, "debug"),
    ];
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Level::ALL[*self as usize].1)
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Level::ALL.iter().find(|(_, name)| *name == text).map(|(level, _)| *level);
        found.ok_or_else(|| "the levels are error, warn, info and debug".to_owned())
    }
}

/// Writes events up to its level, which all clones share. Where standard error is closed, they are
/// lost.
#[derive(Clone, Debug)]
pub struct Log {
    /// Its place in [`Level::ALL`].
    level: Arc<AtomicUsize>,
}

impl Log {
    /// Writes events up to this level.
    pub fn new(level: Level) -> Log {
        Log { level: Arc::new(AtomicUsize::new(level as usize)) }
    }

    /// Writes events up to this level from now on.
    pub fn set_level(&self, level: Level) {
        self.level.store(level as usize, Ordering::Relaxed);
    }

    /// Writes an [`Level::Error`].
    pub fn error(&self, event: fmt::Arguments<'_>) {
        self.write(Level::Error, event);
    }

    /// Writes a [`Level::Warn`].
    pub fn warn(&self, event: fmt::Arguments<'_>) {
        self.write(Level::Warn, event);
    }

    /// Writes a [`Level::Info`].
    pub fn info(&self, event: fmt::Arguments<'_>) {
        self.write(Level::Info, event);
    }

    /// Writes a [`Level::Debug`].
    pub fn debug(&self, event: fmt::Arguments<'_>) {
        self.write(Level::Debug, event);
    }

    fn write(&self, level: Level, event: fmt::Arguments<'_>) {
        if level as usize > self.level.load(Ordering::Relaxed) {
            return;
        }
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (_, name) = Level::ALL[level as usize];
        // What others sent us may be in an event; it must not look like several.
        let event = event.to_string().replace(|c: char| c.is_control(), " ");
        let line =
            format!("{} {:<5} {event}\n", utc(since_epoch.as_millis() as u64), name.to_uppercase());
        // In one piece, so that lines of several threads do not mix.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// Milliseconds since 1970 as `2026-01-31T23:59:59.999Z`.
pub fn utc(ms: u64) -> String {
    let (days, in_day) = (ms / 86_400_000, ms % 86_400_000);
    // Years begin in March here, so that the leap day is their last; 719468 days are from March of
    // the year 0 to 1970, and 146097 are in 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (seconds, millis) = (in_day / 1000, in_day % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!(
        "{year:04}-{month:02}-{day_of_month:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_735_689_599_001, "2024-12-31T23:59:59.001Z"),
            (1_767_225_600_000, "2026-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(ms), text);
        }
    }

    #[test]
    fn levels_are_ordered_and_named() {
        assert!(Level::Error < Level::Debug);
        assert_eq!("warn".parse(), Ok(Level::Warn));
        assert!("loud".parse::<Level>().unwrap_err().contains("debug"));
        for (place, (level, _)) in Level::ALL.iter().enumerate() {
            assert_eq!(*level as usize, place);
        }
    }
}
