//! SIGHUP: reading `solera.toml` again, for what can change while a process runs.

use std::path::Path;
use std::sync::Arc;

use solera_node::{Cluster, ClusterSpec, Log, Overrides};
use tokio::signal::unix::{SignalKind, signal};

/// Reads the file whenever the process is told to. A file that cannot be used changes nothing.
///
/// # Errors
/// The signal cannot be waited for. There is no other end.
pub(crate) async fn on_hangup(
    config: Option<&Path>,
    over: &Overrides,
    cluster: Arc<Cluster>,
    log: Log,
) -> std::io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let Some(config) = config else {
        // As without a handler; there is no file to read.
        hangup.recv().await;
        return Ok(());
    };
    loop {
        hangup.recv().await;
        let file = config.display();
        let changed = ClusterSpec::load(Some(config), over.clone())
            .map_err(|error| error.to_string())
            .and_then(|spec| {
                cluster.set_users(spec.users).map_err(|error| format!("{file}: {error}"))
            });
        match changed {
            Ok(()) => log.info(format_args!("read {file} again: users are as it says")),
            Err(error) => log.error(format_args!("users stay as they were: {error}")),
        }
    }
}
