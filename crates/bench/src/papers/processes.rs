//! Clusters in separate processes, with emulated delays between sites.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::BenchError;
use crate::place::TargetCluster;
use crate::ports::free_ports;

/// A running `solera up`. Dropping it stops it.
pub(crate) struct Process {
    child: Child,
    files: Vec<PathBuf>,
    ports: Vec<u16>,
}

/// Delays between sites.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wan {
    /// Name of predefined delays, as for `solera up --wan`.
    Named(&'static str),
    /// Round-trip times in milliseconds, in the format of a file for `solera up`.
    Rtt(&'static str),
}

/// Timeout for a cluster to answer after its start.
const PATIENCE: Duration = Duration::from_secs(30);

impl Process {
    /// Starts this program in a child process, as a cluster with this number of sites and this
    /// configuration.
    ///
    /// # Errors
    /// Fails if the cluster cannot be started.
    pub(crate) fn up(config: &str, sites: u16, wan: Wan) -> Result<Process, BenchError> {
        let start = |error: std::io::Error| BenchError::Start(error.to_string());
        let base = free_ports(sites).map_err(start)?;
        let name = format!("solera-papers-{}-{base}", std::process::id());
        let path = |suffix: &str| std::env::temp_dir().join(format!("{name}{suffix}"));
        let (file, distances) = (path(".toml"), path("-wan.toml"));
        std::fs::write(&file, config).map_err(start)?;
        let mut files = vec![file.clone()];
        let mut command = Command::new(std::env::current_exe().map_err(start)?);
        command.args(["up", "--sites", &sites.to_string(), "--port", &base.to_string()]);
        command.arg("--config").arg(&file).arg("--wan");
        match wan {
            Wan::Named(name) => command.arg(name),
            Wan::Rtt(rtt) => {
                std::fs::write(&distances, format!("rtt_ms = {rtt}\n")).map_err(start)?;
                files.push(distances.clone());
                command.arg(&distances)
            }
        };
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let ports = (1..=sites).map(|site| base + site).collect();
        match spawned {
            Ok(child) => Ok(Process { child, files, ports }),
            Err(error) => {
                remove(&files);
                Err(start(error))
            }
        }
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the sites answer, and returns their addresses.
    ///
    /// # Errors
    /// Fails if the cluster does not answer.
    pub(crate) fn wait(&mut self) -> Result<Vec<SocketAddr>, BenchError> {
        self.place(&crate::runtime()?)?;
        Ok(self.ports.iter().map(|port| SocketAddr::from(([127, 0, 0, 1], *port))).collect())
    }

    /// Waits until the cluster answers, and connects to it.
    ///
    /// # Errors
    /// Fails if the cluster does not answer.
    pub(crate) fn place(
        &mut self,
        runtime: &tokio::runtime::Runtime,
    ) -> Result<TargetCluster, BenchError> {
        let endpoint = |port: &u16| {
            let address = format!("127.0.0.1:{port}");
            address
                .parse::<solera::Endpoint>()
                .map_err(|error| BenchError::Start(error.to_string()))
        };
        let endpoints: Vec<_> = self.ports.iter().map(endpoint).collect::<Result<_, _>>()?;
        let begin = Instant::now();
        loop {
            match runtime.block_on(TargetCluster::at(endpoints.clone())) {
                Ok(place) => return Ok(place),
                Err(error) if begin.elapsed() >= PATIENCE => return Err(error),
                Err(_) => {}
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(BenchError::Start(format!(
                    "the process of the cluster exited: {status}"
                )));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process has no durable data, and may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        remove(&self.files);
    }
}

/// Files that cannot be removed remain in the temporary directory.
fn remove(files: &[PathBuf]) {
    for file in files {
        let _ = std::fs::remove_file(file);
    }
}
