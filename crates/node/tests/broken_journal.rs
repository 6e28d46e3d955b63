//! A journal that fails while a cluster runs: its worker answers no clients, the other workers
//! serve their data, and no client waits for ever.

use std::path::PathBuf;
use std::time::Duration;

use solera_config::{ClusterSpec, Overrides};
use solera_machine::PartitionId;
use solera_node::Cluster;
use solera_time::SiteId;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::time::timeout;

/// Far longer than anything here takes.
const HANGS: Duration = Duration::from_secs(60);

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let name = format!("solera-broken-journal-{}", std::process::id());
        Folder(std::env::temp_dir().join(name))
    }

    fn gone(&self) -> PathBuf {
        self.0.with_extension("gone")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        let _ = std::fs::remove_dir_all(self.gone());
    }
}

struct Client(BufReader<DuplexStream>);

impl Client {
    async fn send(&mut self, command: &[&[u8]]) {
        let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
        for part in command {
            bytes.extend(format!("${}\r\n", part.len()).bytes().chain(part.iter().copied()));
            bytes.extend(b"\r\n");
        }
        self.0.write_all(&bytes).await.unwrap();
    }

    /// Returns the first line of the reply, or the string that it announces; for an array, all
    /// elements.
    async fn reply(&mut self) -> String {
        let line = self.line().await;
        match line.split_at_checked(1) {
            Some(("*", items)) => {
                let mut all = Vec::new();
                for _ in 0..items.parse().unwrap() {
                    all.push(Box::pin(self.reply()).await);
                }
                all.join(" ")
            }
            Some(("$", length)) if length != "-1" => {
                let mut bytes = vec![0; length.parse::<usize>().unwrap() + 2];
                timeout(HANGS, self.0.read_exact(&mut bytes)).await.unwrap().unwrap();
                String::from_utf8(bytes).unwrap().trim_end().to_owned()
            }
            _ => line,
        }
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        timeout(HANGS, self.0.read_line(&mut line)).await.expect("it hangs").unwrap();
        line.trim_end().to_owned()
    }

    async fn ask(&mut self, line: &str) -> String {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.send(&words).await;
        self.reply().await
    }
}

async fn reads_in_transactions(client: &mut Client, key: &str) {
    let get = format!("GET {key}");
    let commands = [&get, "SOLERA.BEGIN", &get, "SOLERA.COMMIT", "MULTI", &get, "EXEC"];
    let replies = ["v", "+OK", "v", "+OK", "+OK", "+QUEUED", "v"];
    for (command, reply) in commands.into_iter().zip(replies) {
        assert_eq!(client.ask(command).await, reply, "{command}");
    }
}

#[tokio::test]
async fn its_worker_answers_nobody_and_nobody_waits_for_ever() {
    let folder = Folder::new();
    let over = Overrides {
        sites: Some(1),
        workers: Some(2),
        data: Some(folder.0.clone()),
        ..Overrides::default()
    };
    let spec = ClusterSpec::load(None, over).unwrap();
    let topology = spec.topology();
    let owner = |key: &str| {
        let partition = PartitionId::of(key.as_bytes(), topology.partitions);
        topology.owner(SiteId(0), partition).worker
    };
    let cluster = Cluster::start(spec, None).unwrap();
    // Two clients connect to each worker, in turn.
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(Client(BufReader::new(cluster.connect(0).unwrap())));
    }
    let keys: Vec<String> = (0..8).map(|i| format!("k{i}")).collect();
    for key in &keys {
        assert_eq!(clients[0].ask(&format!("SET {key} v")).await, "+OK");
    }
    let served: Vec<_> = keys.iter().filter(|key| owner(key) == 1).collect();
    assert!(cluster.is_ready());
    let far = keys.iter().find(|key| owner(key) == 0).unwrap();
    let [second, first, _, transaction, _, queued, _, exporting] = &mut clients[..] else {
        panic!("there are eight")
    };
    assert_eq!(exporting.ask("SOLERA.BEGIN").await, "+OK");
    for command in ["WATCH k0", "MULTI", &format!("SET {far} queued")] {
        assert!(queued.ask(command).await.starts_with('+'), "{command}");
    }
    assert_eq!(transaction.ask("SOLERA.BEGIN").await, "+OK");
    assert_eq!(transaction.ask(&format!("SET {far} buffered")).await, "+OK");

    // A value that needs a segment of its own finds no folder for it.
    std::fs::rename(&folder.0, folder.gone()).unwrap();
    let large = vec![b'x'; 65 << 20];
    first.send(&[b"SET", far.as_bytes(), &large]).await;
    let reply = first.reply().await;
    assert!(reply.starts_with("-MISCONF") && reply.contains("unknown"), "{reply}");
    // Data that this worker has only in memory is gone after a restart, so no client may see it.
    let reply = second.ask(&format!("GET {far}")).await;
    assert!(reply.ends_with("restart the node; nothing is answered until then"), "{reply}");
    assert_eq!(second.line().await, "", "the connection is closed");
    let reply = first.ask(&format!("GET {far}")).await;
    assert!(reply.starts_with("-TRYAGAIN"), "{reply}");
    // Its keys are not counted, shown or copied either. The first worker determines the sites.
    for question in ["DBSIZE", "SOLERA.AT-RISK", "SOLERA.SITES"] {
        let reply = first.ask(question).await;
        assert!(reply.starts_with("-TRYAGAIN"), "{question}: {reply}");
    }
    let partition = PartitionId::of(far.as_bytes(), topology.partitions).0;
    let reply = exporting.ask(&format!("SOLERA.EXPORT {partition} 0")).await;
    assert!(reply.starts_with("-TRYAGAIN"), "{reply}");
    assert_eq!(cluster.status(false).await.sites[0].keys, served.len());
    // The other worker has a journal of its own, but rejects writes too: they share a disk.
    for key in &served {
        assert_eq!(first.ask(&format!("GET {key}")).await, "v");
        let reply = first.ask(&format!("SET {key} w")).await;
        assert!(reply.starts_with("-MISCONF this node takes no writes"), "{reply}");
    }
    let reply = transaction.ask("SOLERA.COMMIT").await;
    assert!(reply.starts_with("-MISCONF this node takes no writes"), "{reply}");
    let reason = cluster.status(false).await.takes_no_writes.expect("it says why");
    assert!(reply.contains(&reason), "{reply}: {reason}");
    assert!(reason.starts_with("the journal has failed: cannot "), "{reason}");
    let reply = queued.ask("EXEC").await;
    assert!(reply.starts_with("-EXECABORT Transaction discarded because of: MISCONF"), "{reply}");
    // Both are over, and reading continues.
    let reply = exporting.ask("SOLERA.COMMIT").await;
    assert!(reply.starts_with("-EXECABORT") && reply.contains("TRYAGAIN"), "{reply}");
    for client in [transaction, queued, exporting] {
        reads_in_transactions(client, served[0]).await;
    }
    assert!(!cluster.is_ready(), "clients are better served by another node");
}
