//! Clusters of a process of their own, with emulated delays between sites.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::place::Place;

/// A running `solera up --wan aws` of three sites. Dropping it stops it.
pub(crate) struct Process {
    child: Child,
    config: PathBuf,
    ports: Vec<u16>,
}

/// How long a cluster may take until it answers.
const PATIENCE: Duration = Duration::from_secs(30);

impl Process {
    /// Starts this very program again, as a cluster with such a configuration.
    ///
    /// # Errors
    /// It cannot be started, or does not answer.
    pub(crate) fn up(config: &str) -> Result<Process, BenchError> {
        let start = |error: std::io::Error| BenchError::Start(error.to_string());
        let base = free_ports(SITES).map_err(start)?;
        let file =
            std::env::temp_dir().join(format!("solera-papers-{}-{base}.toml", std::process::id()));
        std::fs::write(&file, config).map_err(start)?;
        let program = std::env::current_exe().map_err(start)?;
        let port = base.to_string();
        let spawned = Command::new(program)
            .args(["up", "--wan", "aws", "--port", &port, "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let child = match spawned {
            Ok(child) => child,
            Err(error) => {
                // What cannot be removed is in a folder for what may be lost.
                let _ = std::fs::remove_file(&file);
                return Err(start(error));
            }
        };
        let ports = (1..=SITES).map(|site| base + site).collect();
        Ok(Process { child, config: file, ports })
    }

    /// Where clients go, as soon as the cluster answers.
    pub(crate) fn place(&mut self, runtime: &tokio::runtime::Runtime) -> Result<Place, BenchError> {
        let endpoint = |port: &u16| {
            let address = format!("127.0.0.1:{port}");
            address
                .parse::<solera::Endpoint>()
                .map_err(|error| BenchError::Start(error.to_string()))
        };
        let endpoints: Vec<_> = self.ports.iter().map(endpoint).collect::<Result<_, _>>()?;
        let begin = Instant::now();
        loop {
            match runtime.block_on(Place::at(endpoints.clone())) {
                Ok(place) => return Ok(place),
                Err(error) if begin.elapsed() >= PATIENCE => return Err(error),
                Err(_) => {}
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(BenchError::Start(format!(
                    "a cluster that was started ended: {status}"
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It keeps nothing, and may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.config);
    }
}

const SITES: u16 = 3;

/// A port such that it and so many after it were free a moment ago.
fn free_ports(after: u16) -> std::io::Result<u16> {
    let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    // Below those that the system gives to outgoing connections.
    let first = 20_000 + (std::process::id() % 1000) as u16 * 10;
    let bases = (0..1000).map(|n| 20_000 + (first - 20_000 + n * 10) % 10_000);
    let mut bases = bases.filter(|base| (*base..=base + after).all(free));
    bases.next().ok_or_else(|| std::io::Error::other("no ports are free on 127.0.0.1"))
}
