//! Progress of long commands, on standard error.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time until the first line, and between later ones.
const PAUSES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(5)];
/// Time between two updates on a terminal.
const REDRAW: Duration = Duration::from_millis(200);

/// Shows progress until it is dropped: on a terminal in one line that changes, elsewhere in a new
/// line every few seconds.
pub(crate) struct Progress {
    reporter: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Shows the text that `text` returns, and the time since the beginning.
    pub(crate) fn begin(text: impl Fn() -> String + Send + 'static) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress::in_lines(text);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_style(
            ProgressStyle::with_template("{spinner} {msg}").expect("the template is well-formed"),
        );
        let start = Instant::now();
        Progress::each([PAUSES[0], REDRAW], move |news| match news {
            true => {
                if bar.is_hidden() {
                    bar.set_draw_target(ProgressDrawTarget::stderr());
                }
                bar.set_message(with_time(&text(), start));
                bar.tick();
            }
            false => bar.finish_and_clear(),
        })
    }

    /// Prints lines if standard error is not a terminal.
    pub(crate) fn unless_on_terminal(text: impl Fn() -> String + Send + 'static) -> Progress {
        match std::io::stderr().is_terminal() {
            true => Progress { reporter: None },
            false => Progress::in_lines(text),
        }
    }

    fn in_lines(text: impl Fn() -> String + Send + 'static) -> Progress {
        Progress::lines_to(std::io::stderr(), PAUSES, text)
    }

    fn lines_to(
        mut sink: impl Write + Send + 'static,
        pauses: [Duration; 2],
        text: impl Fn() -> String + Send + 'static,
    ) -> Progress {
        let start = Instant::now();
        Progress::each(pauses, move |news| {
            if news {
                // A reader that closes the pipe needs no more lines.
                let _ = writeln!(sink, "{}", with_time(&text(), start));
            }
        })
    }

    /// Calls `show(true)` after the first of `pauses`, then repeatedly after the second of them,
    /// and `show(false)` at the end.
    fn each(pauses: [Duration; 2], mut show: impl FnMut(bool) + Send + 'static) -> Progress {
        let (end, ended) = channel();
        let reporter = std::thread::spawn(move || {
            let [mut pause, later] = pauses;
            while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(pause) {
                show(true);
                pause = later;
            }
            show(false);
        });
        Progress { reporter: Some((end, reporter)) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((end, reporter)) = self.reporter.take() {
            drop(end);
            // The thread panics only if `text` does, and the command's result does not depend on
            // the thread.
            let _ = reporter.join();
        }
    }
}

fn with_time(text: &str, start: Instant) -> String {
    format!("{text}, {} s so far", start.elapsed().as_secs())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    struct Sink(Sender<String>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_follow_until_the_end() {
        let (sent, lines) = channel();
        let count = AtomicU64::new(0);
        let progress = Progress::lines_to(Sink(sent), [Duration::from_millis(1); 2], move || {
            format!("{} of 9 seeds", count.fetch_add(1, Ordering::Relaxed))
        });
        let mut printed = String::new();
        while !printed.contains("1 of 9 seeds, 0 s so far\n") {
            printed += &lines.recv().unwrap();
        }
        assert!(printed.starts_with("0 of 9 seeds, 0 s so far\n"), "{printed}");
        drop(progress);
        // The iteration ends because the thread has ended and dropped the sink.
        lines.iter().for_each(drop);
    }
}
