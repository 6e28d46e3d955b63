//! Ctrl-C and SIGTERM.

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// The exit status of a process that was asked twice.
const ASKED_TWICE: i32 = 130;

/// Notices that the process is asked to stop, from its creation on. Asked a second time, the
/// process ends at once, whatever it does.
pub(crate) struct Stop {
    asked: oneshot::Receiver<()>,
}

impl Stop {
    /// # Errors
    /// Signals cannot be received, or no thread can be started.
    pub(crate) fn new() -> std::io::Result<Stop> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _context = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let (sender, asked) = oneshot::channel();
        // A thread of its own, because the main one may be waiting for others at the end.
        let name = "signals".to_owned();
        std::thread::Builder::new().name(name).spawn(move || watch(&runtime, signals, sender))?;
        Ok(Stop { asked })
    }

    /// Returns when the process is asked to stop.
    pub(crate) async fn asked(self) {
        // The sender lives as long as the process.
        let _ = self.asked.await;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "who asks twice does not want to wait for destructors"
)]
fn watch(runtime: &Runtime, mut signals: (Signal, Signal), asked: oneshot::Sender<()>) {
    let mut next = || {
        runtime.block_on(async {
            tokio::select! {
                _ = signals.0.recv() => {}
                _ = signals.1.recv() => {}
            }
        });
    };
    next();
    let _ = asked.send(());
    next();
    std::process::exit(ASKED_TWICE);
}
