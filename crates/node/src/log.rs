//! The log: one line per event on standard error, with UTC time and level.
//!
//! A thread writes the lines. A reader of standard error may stop reading without closing it, and
//! only that thread may then block; lines beyond the buffer are counted and dropped.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use solera_config::LogLevel;

/// Number of lines that are buffered for a slow reader.
const LINES: usize = 1024;
/// Time that [`Log::flush`] waits for a slow reader.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval at which it checks for free space in the buffer.
const RETRY: Duration = Duration::from_millis(5);

/// Logs events up to a level that all clones share. Events are lost if standard error is closed.
#[derive(Clone, Debug)]
pub struct Log {
    /// Level, with [`LogLevel`]'s number.
    level: Arc<AtomicUsize>,
}

impl Log {
    /// Creates a log of events up to this level.
    pub fn new(level: LogLevel) -> Log {
        Log { level: Arc::new(AtomicUsize::new(level as usize)) }
    }

    /// Changes the level.
    pub fn set_level(&self, level: LogLevel) {
        self.level.store(level as usize, Ordering::Relaxed);
    }

    /// Logs an event of [`LogLevel::Error`].
    pub fn error(&self, event: fmt::Arguments<'_>) {
        self.write(LogLevel::Error, event);
    }

    /// Logs an event of [`LogLevel::Warn`].
    pub fn warn(&self, event: fmt::Arguments<'_>) {
        self.write(LogLevel::Warn, event);
    }

    /// Logs an event of [`LogLevel::Info`].
    pub fn info(&self, event: fmt::Arguments<'_>) {
        self.write(LogLevel::Info, event);
    }

    /// Logs an event of [`LogLevel::Debug`].
    pub fn debug(&self, event: fmt::Arguments<'_>) {
        self.write(LogLevel::Debug, event);
    }

    /// Waits until all previous lines are written, or for a second. The process should call it
    /// before it ends.
    pub fn flush(&self) {
        if let Some(writer) = WRITER.get() {
            writer.flush(PATIENCE);
        }
    }

    fn write(&self, level: LogLevel, event: fmt::Arguments<'_>) {
        if level as usize > self.level.load(Ordering::Relaxed) {
            return;
        }
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // An event may contain text from other nodes or clients, which must not look like several
        // lines.
        let event = event.to_string().replace(|c: char| c.is_control(), " ");
        let line = format!(
            "{} {:<5} {event}\n",
            utc(since_epoch.as_millis() as u64),
            level.to_string().to_uppercase()
        );
        WRITER.get_or_init(|| Writer::start(std::io::stderr())).write(line);
    }
}

static WRITER: OnceLock<Writer> = OnceLock::new();

/// Handle of the writing thread.
struct Writer {
    entries: SyncSender<Entry>,
    lost: AtomicU64,
}

enum Entry {
    Line(String),
    /// Dropped once all previous lines are written.
    Flush(SyncSender<()>),
}

impl Writer {
    fn start(out: impl Write + Send + 'static) -> Writer {
        let (entries, inbox) = sync_channel(LINES);
        // If the thread cannot be created, nothing is logged, and everything else works.
        let _ = std::thread::Builder::new().name("log".to_owned()).spawn(|| drain(inbox, out));
        Writer { entries, lost: AtomicU64::new(0) }
    }

    /// Queues a line. Never blocks.
    fn write(&self, line: String) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let note = format!("({lost} lines of the log were dropped here)\n");
            if self.entries.try_send(Entry::Line(note)).is_err() {
                self.lost.fetch_add(lost, Ordering::Relaxed);
            }
        }
        if let Err(TrySendError::Full(_)) = self.entries.try_send(Entry::Line(line)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn flush(&self, patience: Duration) {
        let began = Instant::now();
        let (written, wait) = sync_channel(1);
        let mut entry = Entry::Flush(written);
        while let Err(error) = self.entries.try_send(entry) {
            entry = match error {
                TrySendError::Full(entry) if began.elapsed() < patience => entry,
                _ => return,
            };
            std::thread::sleep(RETRY);
        }
        let _ = wait.recv_timeout(patience.saturating_sub(began.elapsed()));
    }
}

fn drain(inbox: Receiver<Entry>, mut out: impl Write) {
    for entry in inbox {
        match entry {
            // In one write, so that lines do not mix with other output.
            Entry::Line(line) => drop(out.write_all(line.as_bytes())),
            Entry::Flush(written) => drop(written),
        }
    }
}

/// Formats milliseconds since 1970 as `2026-01-31T23:59:59.999Z`.
pub fn utc(ms: u64) -> String {
    let (days, in_day) = (ms / 86_400_000, ms % 86_400_000);
    // Years begin in March here, so that the leap day is their last. There are 719468 days from
    // March of the year 0 to 1970, and 146097 days in 400 years.
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

    /// A reader that reads nothing until the test permits it.
    struct Stuck(Receiver<()>, std::sync::mpsc::Sender<String>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // After the test has dropped the sender, everything is read at once.
            let _ = self.0.recv();
            let _ = self.1.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_reader_of_the_log_blocks_nobody() {
        let (let_go, stuck) = std::sync::mpsc::channel();
        let (sender, read) = std::sync::mpsc::channel();
        let writer = Writer::start(Stuck(stuck, sender));
        let lines = 2 * LINES;
        (0..lines).for_each(|i| writer.write(format!("{i}\n")));
        writer.flush(Duration::ZERO);
        drop(let_go);
        writer.flush(Duration::from_secs(20));
        writer.write("last\n".to_owned());
        drop(writer);
        let written: Vec<String> = read.iter().collect();
        assert_eq!(written[0], "0\n");
        assert_eq!(written.last().unwrap(), "last\n");
        let dropped = written.iter().filter_map(|line| line.strip_prefix('(')?.split(' ').next());
        let dropped: Vec<usize> = dropped.map(|count| count.parse().unwrap()).collect();
        let written = written.len() - dropped.len() - 1;
        assert!(written < lines && written + dropped.iter().sum::<usize>() == lines, "{dropped:?}");
    }

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
}
