//! Log lines about failed logins and failed TLS handshakes.

use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use solera_config::areas::SESSIONS;
use tracing::warn;

/// Minimum time between two log lines, so that failed attempts cannot fill a disk.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// Length at which a logged user name is cut off, in bytes.
const LOGGED_NAME: usize = 64;

/// Logs failed attempts, limited in rate.
#[derive(Default)]
pub(crate) struct Attempts {
    logged: Cell<Option<Instant>>,
    suppressed: Cell<u64>,
}

impl Attempts {
    /// Logs a login with a wrong password or an unknown user.
    pub(crate) fn log_failed_login(&self, name: &[u8], from: Option<SocketAddr>) {
        let name = &name[..name.len().min(LOGGED_NAME)];
        let from = from.map_or_else(|| "this process".to_owned(), |from| from.ip().to_string());
        let what = format!("{from} failed to authenticate as '{}'", name.escape_ascii());
        self.log_limited(format_args!("{what}"));
    }

    /// Logs a failed TLS handshake.
    pub(crate) fn log_failed_handshake(&self, reason: &str, from: SocketAddr) {
        self.log_limited(format_args!("no TLS with the client {}: {reason}", from.ip()));
    }

    fn log_limited(&self, what: fmt::Arguments<'_>) {
        if self.logged.get().is_some_and(|logged| logged.elapsed() < LOG_INTERVAL) {
            self.suppressed.set(self.suppressed.get() + 1);
            return;
        }
        self.logged.set(Some(Instant::now()));
        match self.suppressed.take() {
            0 => warn!(target: SESSIONS, "{what}"),
            more => warn!(
                target: SESSIONS,
                "{what}; {more} more failed attempts before were not logged"
            ),
        }
    }
}
