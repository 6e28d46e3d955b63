//! Handling of SIGHUP: rereads `solera.toml` and applies the settings that can change at runtime.

use std::path::Path;
use std::sync::Arc;

use solera_config::Overrides;
use solera_config::areas::SERVER;
use solera_node::Cluster;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info};

use crate::log::Log;

/// Installs the handler of SIGHUP. Must be called before the process serves clients: without a
/// handler, the signal ends the process.
///
/// # Errors
/// Fails if the handler cannot be installed.
pub(crate) fn hangups() -> std::io::Result<Signal> {
    signal(SignalKind::hangup())
}

/// Rereads the file at each signal. An invalid file changes nothing. Without a file, returns at the
/// first signal.
pub(crate) async fn at_hangups(
    mut hangup: Signal,
    config: Option<&Path>,
    over: &Overrides,
    cluster: Arc<Cluster>,
    log: &Log,
) {
    let Some(config) = config else {
        // Without a file, the signal ends the process, as it would without a handler.
        hangup.recv().await;
        return;
    };
    let file = config.display();
    loop {
        hangup.recv().await;
        let read = cluster.settings().reload(config, over.clone());
        let changed = read.map_err(|error| error.to_string()).and_then(|spec| {
            let settings = spec.log.clone();
            let changes = cluster.reload(spec);
            changes.map(|changes| (settings, changes)).map_err(|error| format!("{file}: {error}"))
        });
        match changed {
            Ok((settings, changes)) => {
                let changes = match changes.as_slice() {
                    [] => "nothing has changed".to_owned(),
                    changes => changes.join("; "),
                };
                info!(target: SERVER, "read {file} again: {changes}");
                log.configure(&settings);
            }
            Err(error) => error!(target: SERVER, "the settings stay as they were: {error}"),
        }
    }
}
