//! The log on standard error: a subscriber of `tracing`, with the configured levels and format.
//!
//! A separate thread writes the lines. If the reader of standard error stops reading without
//! closing it, only this thread blocks. Lines that exceed the buffer are counted and dropped.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use solera_config::areas::SERVER;
use solera_config::{LogFormat, LogLevel, LogSpec};
use solera_node::utc;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::{self, FormatEvent, FormatFields, Json};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Registry, fmt as lines, reload};

use crate::backup::now_ms;

/// Number of lines that are buffered for a slow reader.
const LINES: usize = 1024;
/// Time that [`Log::flush`] waits for a slow reader.
const PATIENCE: Duration = Duration::from_secs(1);
/// Interval at which it checks for free space in the buffer.
const RETRY: Duration = Duration::from_millis(5);

/// The log of this process. Events are lost if standard error is closed.
pub(crate) struct Log {
    filter: reload::Handle<Targets, Registry>,
    json: Arc<AtomicBool>,
    writer: Arc<OnceLock<Writer>>,
}

impl Log {
    /// Makes this log the destination of all events of the process. Until it is configured, it
    /// contains only errors, because commands that are not servers may also run clusters.
    pub(crate) fn start() -> Log {
        let errors = LogSpec { level: Some(LogLevel::Error), ..LogSpec::default() };
        let (filter, handle) = reload::Layer::new(targets(&errors));
        let (json, writer) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
        let format = LineFormat::new(json.clone());
        let out = Out { writer: writer.clone(), json: json.clone() };
        let lines = lines::layer().event_format(format).with_writer(out);
        let subscriber = tracing_subscriber::registry().with(filter).with(lines);
        tracing::subscriber::set_global_default(subscriber).expect("the process has one log");
        Log { filter: handle, json, writer }
    }

    /// Changes format and levels.
    pub(crate) fn configure(&self, spec: &LogSpec) {
        let json = spec.format.unwrap_or_default() == LogFormat::Json;
        self.json.store(json, Ordering::Relaxed);
        // The call fails only if the subscriber is gone, and the subscriber lives as long as the
        // process.
        let _ = self.filter.reload(targets(spec));
    }

    /// Waits until all previous lines are written, or for a second. The process should call it
    /// before it ends.
    pub(crate) fn flush(&self) {
        if let Some(writer) = self.writer.get() {
            writer.note_lost_lines();
            writer.flush(PATIENCE);
        }
    }
}

/// Returns the filter with these levels.
fn targets(spec: &LogSpec) -> Targets {
    let filter = |level| match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let areas = spec.areas.iter().map(|(area, level)| (*area, filter(*level)));
    Targets::new().with_default(filter(spec.level.unwrap_or_default())).with_targets(areas)
}

/// The time of an event.
struct Utc;

impl FormatTime for Utc {
    fn format_time(&self, line: &mut format::Writer<'_>) -> fmt::Result {
        line.write_str(&utc(now_ms()))
    }
}

/// Formats an event as text or as JSON.
struct LineFormat {
    json: Arc<AtomicBool>,
    as_json: format::Format<Json, Utc>,
}

impl LineFormat {
    fn new(json: Arc<AtomicBool>) -> LineFormat {
        let as_json = format::format().with_timer(Utc).json().flatten_event(true);
        LineFormat { json, as_json: as_json.with_current_span(false).with_span_list(false) }
    }
}

impl<S, N> FormatEvent<S, N> for LineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut line: format::Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if self.json.load(Ordering::Relaxed) {
            return self.as_json.format_event(context, line, event);
        }
        let mut message = Message::default();
        event.record(&mut message);
        let Message(text) = message;
        // An event may contain text from other nodes or clients, which must not look like several
        // lines.
        let text = text.replace(|c: char| c.is_control(), " ");
        Utc.format_time(&mut line)?;
        writeln!(line, " {:<5} {text}", event.metadata().level().as_str())
    }
}

/// Message of an event. Its other fields are left out of texts, because the message contains them.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Sends lines to the writing thread, which the first line starts.
struct Out {
    writer: Arc<OnceLock<Writer>>,
    json: Arc<AtomicBool>,
}

impl<'a> MakeWriter<'a> for Out {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self.writer.get_or_init(|| Writer::start(io::stderr(), self.json.clone())))
    }
}

/// Takes one line, which is written at once.
struct Line<'a>(&'a Writer);

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.write(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Handle of the writing thread.
struct Writer {
    entries: SyncSender<Entry>,
    lost: AtomicU64,
    /// Whether lines are JSON.
    json: Arc<AtomicBool>,
}

enum Entry {
    Line(Vec<u8>),
    /// Dropped once all previous lines are written.
    Flush(SyncSender<()>),
}

impl Writer {
    fn start(out: impl Write + Send + 'static, json: Arc<AtomicBool>) -> Writer {
        let (entries, inbox) = sync_channel(LINES);
        // If the thread cannot be created, nothing is logged, and everything else works.
        let _ = std::thread::Builder::new().name("log".to_owned()).spawn(|| drain(inbox, out));
        Writer { entries, lost: AtomicU64::new(0), json }
    }

    /// Queues a line. Never blocks.
    fn write(&self, line: Vec<u8>) {
        self.note_lost_lines();
        if let Err(TrySendError::Full(_)) = self.entries.try_send(Entry::Line(line)) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Queues a line with the number of lines that were dropped, if any.
    fn note_lost_lines(&self) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost == 0 {
            return;
        }
        let (time, note) = (utc(now_ms()), format!("number of log lines dropped here: {lost}"));
        let mut note = match self.json.load(Ordering::Relaxed) {
            true => serde_json::json!({
                "timestamp": time, "level": "WARN", "message": note, "target": SERVER,
            })
            .to_string(),
            false => format!("{time} WARN  {note}"),
        };
        note.push('\n');
        if self.entries.try_send(Entry::Line(note.into_bytes())).is_err() {
            self.lost.fetch_add(lost, Ordering::Relaxed);
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
            // Writes the line in one call, so that lines do not mix with other output.
            Entry::Line(line) => drop(out.write_all(&line)),
            Entry::Flush(written) => drop(written),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use solera_config::areas::{LINKS, SITES};
    use tracing::{debug, info, warn};

    use super::*;

    /// A sink that blocks until the test permits it to continue.
    struct Stuck(Receiver<()>, Sender<String>);

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // After the test has dropped the sender, everything is read at once.
            let _ = self.0.recv();
            let _ = self.1.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines that `events` logs with these levels.
    fn logged(levels: &str, json: bool, events: impl FnOnce()) -> Vec<String> {
        let (sender, read) = channel();
        let writer = Arc::new(OnceLock::new());
        let json = Arc::new(AtomicBool::new(json));
        let _ = writer.set(Writer::start(Stuck(channel().1, sender), json.clone()));
        let format = LineFormat::new(json.clone());
        let lines = lines::layer().event_format(format).with_writer(Out { writer, json });
        let filter = targets(&levels.parse().unwrap());
        let subscriber = tracing_subscriber::registry().with(filter).with(lines);
        tracing::subscriber::with_default(subscriber, events);
        read.iter().collect()
    }

    #[test]
    fn a_slow_reader_of_the_log_blocks_nobody() {
        let (let_go, stuck) = channel();
        let (sender, read) = channel();
        let writer = Writer::start(Stuck(stuck, sender), Arc::default());
        let lines = 2 * LINES;
        (0..lines).for_each(|i| writer.write(format!("{i}\n").into()));
        writer.flush(Duration::ZERO);
        drop(let_go);
        writer.flush(Duration::from_secs(20));
        writer.write("last\n".into());
        drop(writer);
        let written: Vec<String> = read.iter().collect();
        assert_eq!(written[0], "0\n");
        assert_eq!(written.last().unwrap(), "last\n");
        let dropped = written.iter().filter_map(|line| {
            let (time, rest) = line.split_once(" WARN  ")?;
            assert!(time.ends_with('Z'), "{line}");
            rest.trim_end().strip_prefix("number of log lines dropped here: ")
        });
        let dropped: Vec<usize> = dropped.map(|count| count.parse().unwrap()).collect();
        let written = written.len() - dropped.len() - 1;
        assert!(written < lines && written + dropped.iter().sum::<usize>() == lines, "{dropped:?}");
    }

    #[test]
    fn lost_lines_are_noted_in_the_format_of_the_log() {
        let (sender, read) = channel();
        let json = Arc::new(AtomicBool::new(true));
        let writer = Writer::start(Stuck(channel().1, sender), json);
        writer.lost.store(3, Ordering::Relaxed);
        writer.note_lost_lines();
        drop(writer);
        let note: serde_json::Value = serde_json::from_str(&read.recv().unwrap()).unwrap();
        assert_eq!(note["message"], "number of log lines dropped here: 3");
        assert_eq!((&note["level"], &note["target"]), (&"WARN".into(), &"server".into()));
    }

    #[test]
    fn a_text_is_one_line_with_time_and_level() {
        let [line] = &logged("info", false, || {
            warn!(target: LINKS, "link to {} is down: {}", "eu-2", "a\nb\u{1b}[31mc");
        })[..] else {
            panic!("one event is one line")
        };
        let (time, event) = line.split_at("2026-01-31T23:59:59.999Z".len());
        assert!(time.ends_with('Z') && time.contains('T'), "{time}");
        assert!(event.starts_with(" WARN  link to eu-2 is down: a b"), "{event}");
        assert!(event.strip_suffix('\n').unwrap().chars().all(|c| !c.is_control()), "{event}");
    }

    #[test]
    fn an_event_is_a_json_object_with_its_area() {
        let lines = logged("info", true, || info!(target: SITES, "site 'eu' is a \"member\"\n"));
        let line: serde_json::Value = serde_json::from_str(&lines.concat()).unwrap();
        assert_eq!(line["message"], "site 'eu' is a \"member\"\n");
        assert_eq!((&line["level"], &line["target"]), (&"INFO".into(), &"sites".into()));
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
        assert_eq!(line.as_object().unwrap().len(), 4, "{line}");
    }

    #[test]
    fn fields_of_an_event_are_in_json_only() {
        let event = || info!(target: LINKS, site = "us", node = 2, "link to {} is up", "us");
        let line: serde_json::Value =
            serde_json::from_str(&logged("info", true, event).concat()).unwrap();
        assert_eq!((&line["site"], &line["node"]), (&"us".into(), &2.into()));
        assert!(logged("info", false, event).concat().ends_with(" INFO  link to us is up\n"));
    }

    #[test]
    fn an_area_has_its_own_level() {
        let events = || {
            debug!(target: LINKS, "a");
            debug!(target: SITES, "b");
            info!(target: SITES, "c");
            warn!(target: SITES, "d");
        };
        let count = |levels| logged(levels, false, events).len();
        assert_eq!([count("info"), count("debug"), count("error")], [2, 4, 0]);
        assert_eq!([count("warn,links=debug"), count("debug,sites=error")], [2, 1]);
    }
}
