//! Data on disk, as a user meets it: processes killed under load, damaged files, wrong directories.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use solera::{Client, Value};

const SOLERA: &str = env!("CARGO_BIN_EXE_solera");

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A directory of this test's own, removed at its end.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Dir {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("solera-durable-{}-{number}", std::process::id());
        Dir(std::env::temp_dir().join(name))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running `solera up` with data.
struct Up {
    child: Child,
    port: u16,
}

impl Up {
    fn start(dir: &Path, arguments: &[&str]) -> Up {
        for _ in 0..20 {
            let offset = NEXT.fetch_add(1, Ordering::Relaxed) * 10;
            let port = 10_000 + (std::process::id() % 900) as u16 * 10 + offset % 1000;
            let mut child = command(dir, port, arguments)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let mut ready = lines.map_while(Result::ok).skip_while(|line| !line.contains("Ctrl-C"));
            if ready.next().is_some() {
                return Up { child, port };
            }
            child.wait().unwrap();
        }
        panic!("it does not start");
    }

    async fn client(&self, site: u16) -> Client {
        Client::connect(SocketAddr::from(([127, 0, 0, 1], self.port + site))).await.unwrap()
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(dir: &Path, port: u16, arguments: &[&str]) -> Command {
    let mut command = Command::new(SOLERA);
    command.args(["up", "--port", &port.to_string(), "--data"]).arg(dir).args(arguments);
    command
}

fn journal(arguments: &[&str], dir: &Path) -> Output {
    Command::new(SOLERA).arg("journal").args(arguments).arg(dir).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Clients at every site write until the process is killed in the midst; then everything that was
/// acknowledged must be there, at the site that acknowledged it at once and everywhere in the end.
async fn killed_under_load(arguments: &[&str], sites: u16, rounds: u32) {
    let dir = Dir::new();
    let mut acknowledged: Vec<Vec<u64>> = vec![vec![0; 4]; usize::from(sites)];
    for round in 0..rounds {
        let up = Up::start(&dir.0, arguments);
        let stop = Arc::new(AtomicBool::new(false));
        let total = Arc::new(AtomicU64::new(0));
        let mut writers = Vec::new();
        for site in 1..=sites {
            for writer in 0..4u64 {
                let mut client = up.client(site).await;
                let (stop, total) = (stop.clone(), total.clone());
                let mut last = acknowledged[usize::from(site) - 1][writer as usize];
                writers.push(tokio::spawn(async move {
                    while !stop.load(Ordering::Relaxed) {
                        let (next, name) = (last + 1, format!("{site}:{writer}"));
                        let done = client
                            .transaction(async |tx| {
                                tx.set(&format!("last:{name}"), next.to_string()).await?;
                                tx.sadd(&format!("all:{name}"), &next.to_string()).await?;
                                tx.incr_by("sum", 1).await
                            })
                            .await;
                        if done.is_err() {
                            break;
                        }
                        last = next;
                        total.fetch_add(1, Ordering::Relaxed);
                    }
                    last
                }));
            }
        }
        // Enough for the kill to come in the midst of writing, and differently each time.
        let wanted = 200 * u64::from(round + 1);
        let began = Instant::now();
        while total.load(Ordering::Relaxed) < wanted && began.elapsed() < Duration::from_secs(20) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        up.kill();
        stop.store(true, Ordering::Relaxed);
        for (index, writer) in writers.into_iter().enumerate() {
            acknowledged[index / 4][index % 4] = writer.await.unwrap();
        }
        let up = Up::start(&dir.0, arguments);
        let mut sum = 0;
        for site in 1..=sites {
            let mut client = up.client(site).await;
            for (writer, told) in acknowledged[usize::from(site) - 1].iter_mut().enumerate() {
                let name = format!("{site}:{writer}");
                let last = client.get(&format!("last:{name}")).await.unwrap();
                let last: u64 = last.as_deref().unwrap_or("0").parse().unwrap();
                let all = client.smembers(&format!("all:{name}")).await.unwrap().len() as u64;
                // What was under way may have been done, in whole.
                assert!(last == *told || last == *told + 1, "{name}: {told} told, {last} found");
                assert_eq!(last, all, "{name} is torn");
                *told = last;
                sum += last;
            }
        }
        for site in 1..=sites {
            let mut client = up.client(site).await;
            let began = Instant::now();
            loop {
                let found = client.get("sum").await.unwrap().unwrap_or_default();
                if found == sum.to_string() {
                    break;
                }
                assert!(began.elapsed() < Duration::from_secs(20), "site {site}: {found} of {sum}");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_by_a_kill() {
    killed_under_load(&["--sites", "1"], 1, 4).await;
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_all_sites_are_killed() {
    killed_under_load(&["--sites", "3", "--wan", "lan", "--workers", "2"], 3, 3).await;
}

#[tokio::test]
async fn damage_is_named_and_repaired_only_on_request() {
    let dir = Dir::new();
    let up = Up::start(&dir.0, &["--sites", "1"]);
    let mut client = up.client(1).await;
    for i in 0..200 {
        client.set(&format!("k{i}"), "some value that is long enough to be found").await.unwrap();
    }
    up.kill();
    let well = journal(&["check"], &dir.0);
    assert!(well.status.success(), "{}", text(&well.stdout));
    let folder = dir.0.join("virginia").join("worker-0");
    let segment = folder.join("0000000001.segment");
    let mut bytes = fs::read(&segment).unwrap();
    let found = |(_, window): &(usize, &[u8])| *window == b"some value";
    let (at, _) = bytes.windows(10).enumerate().filter(found).nth(100).unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();

    let refused = command(&dir.0, 1999, &["--sites", "1"]).output().unwrap();
    assert!(!refused.status.success());
    let error = text(&refused.stderr);
    assert!(error.contains("0000000001.segment") && error.contains("worker-0"), "{error}");
    let checked = journal(&["check"], &dir.0);
    assert_eq!(checked.status.code(), Some(1));
    assert!(text(&checked.stdout).contains("DAMAGED"), "{}", text(&checked.stdout));
    let repaired = journal(&["repair"], &folder);
    assert!(repaired.status.success(), "{}", text(&repaired.stderr));
    assert!(
        text(&repaired.stdout).contains("what came after record"),
        "{}",
        text(&repaired.stdout)
    );
    assert!(folder.with_extension("backup-1").join("0000000001.segment").is_file());
    let up = Up::start(&dir.0, &["--sites", "1"]);
    // What is before the damage is there.
    let mut client = up.client(1).await;
    assert_eq!(client.command(&["DBSIZE"]).await.unwrap(), Value::Integer(100));
}

#[tokio::test]
async fn data_of_others_is_refused() {
    let dir = Dir::new();
    let up = Up::start(&dir.0, &["--sites", "2"]);
    let dumped = journal(&["check"], &dir.0);
    assert_eq!(dumped.status.code(), Some(2), "a running node's journal is looked into");
    let twice = command(&dir.0, up.port + 3, &["--sites", "2"]).output().unwrap();
    assert!(text(&twice.stderr).contains("another process uses it"), "{}", text(&twice.stderr));
    up.kill();
    for (arguments, reason) in [
        (&["--sites", "3"][..], "written with sites virginia, california, and"),
        (&["--sites", "2", "--partitions", "8"], "written with partitions = 16, and"),
        (&["--sites", "2", "--workers", "2"], "written with workers per site [1, 1], and"),
    ] {
        let refused = command(&dir.0, 1999, arguments).output().unwrap();
        assert!(!refused.status.success());
        assert!(text(&refused.stderr).contains(reason), "{}", text(&refused.stderr));
    }
    let other = Dir::new();
    fs::create_dir(&other.0).unwrap();
    fs::write(other.0.join("letters.txt"), "dear").unwrap();
    let refused = command(&other.0, 1999, &[]).output().unwrap();
    assert!(text(&refused.stderr).contains("it holds other files"), "{}", text(&refused.stderr));
}
