//! Emulated delays between clients and servers.

use std::net::SocketAddr;
use std::time::Duration;

use solera_wan::{Delays, Proxy};

use crate::error::BenchError;

/// Proxies that emulate delays, on a separate thread. Dropping it stops them.
pub(crate) struct Network {
    handle: tokio::runtime::Handle,
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Network {
    pub(crate) fn new() -> Result<Network, BenchError> {
        let runtime = crate::runtime()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let work = move || {
            // Dropping the sender is the signal to stop.
            let _ = runtime.block_on(stopped);
        };
        std::thread::Builder::new().name("wan".into()).spawn(work).map_err(BenchError::Threads)?;
        Ok(Network { handle, _stop: stop })
    }

    /// Starts a proxy to a server at `HOST:PORT` with a delay; returns its address.
    pub(crate) fn at(
        &self,
        server: &str,
        (rtt, jitter): (Duration, Duration),
    ) -> Result<SocketAddr, BenchError> {
        let delays = Delays::new(rtt, jitter).expect("the paper's distances are on earth");
        let server = server.to_owned();
        let (sender, receiver) = std::sync::mpsc::channel();
        self.handle.spawn(async move {
            let bound = Proxy::bind("127.0.0.1:0", &server, delays, 1).await;
            let address = bound
                .as_ref()
                .map_err(ToString::to_string)
                .and_then(|proxy| proxy.address().map_err(|error| error.to_string()));
            let _ = sender.send(address);
            if let Ok(proxy) = bound {
                proxy.serve().await;
            }
        });
        let address = receiver.recv().map_err(|error| BenchError::Start(error.to_string()))?;
        address.map_err(BenchError::Start)
    }
}
