//! Handling of Ctrl-C and SIGTERM.

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Exit status of a process that received a second signal.
const SIGNALLED_TWICE: i32 = 130;

/// Waits for SIGINT or SIGTERM from its creation on. A second signal ends the process at once.
pub(crate) struct Stop {
    requested: oneshot::Receiver<()>,
}

impl Stop {
    /// Installs the signal handlers and starts the thread that waits for signals.
    ///
    /// # Errors
    /// Fails if the signal handlers cannot be installed or the thread cannot be started.
    pub(crate) fn new() -> std::io::Result<Stop> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let signals = {
            let _context = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let (sender, requested) = oneshot::channel();
        // A separate thread, because the main thread may be joining other threads at the end.
        let name = "signals".to_owned();
        std::thread::Builder::new().name(name).spawn(move || watch(&runtime, signals, sender))?;
        Ok(Stop { requested })
    }

    /// Waits for the first signal.
    pub(crate) async fn requested(self) {
        // The thread drops the sender only after it has sent.
        let _ = self.requested.await;
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a user who sends a second signal does not want to wait for destructors"
)]
fn watch(runtime: &Runtime, mut signals: (Signal, Signal), requested: oneshot::Sender<()>) {
    let mut next = || {
        runtime.block_on(async {
            tokio::select! {
                _ = signals.0.recv() => {}
                _ = signals.1.recv() => {}
            }
        });
    };
    next();
    let _ = requested.send(());
    next();
    std::process::exit(SIGNALLED_TWICE);
}
