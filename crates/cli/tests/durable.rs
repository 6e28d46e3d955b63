//! Tests data on disk: processes that are killed under load, damaged files, wrong directories.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Folder, SOLERA, Up, eventually, free_ports, text};
use solera::Value;
use solera_journal::{Identity, Journal, Options, RealDisk};

/// A running `solera up` with data.
fn start(dir: &Path, arguments: &[&str]) -> Up {
    Up::start(&[&["--data", dir.to_str().unwrap()], arguments].concat())
}

fn command(dir: &Path, port: u16, arguments: &[&str]) -> Command {
    let mut command = Command::new(SOLERA);
    command.args(["up", "--port", &port.to_string(), "--data"]).arg(dir).args(arguments);
    command
}

fn journal(arguments: &[&str], dir: &Path) -> Output {
    Command::new(SOLERA).arg("journal").args(arguments).arg(dir).output().unwrap()
}

/// Clients at every site write until the process is killed. After a restart, all acknowledged
/// writes must be visible at the site that acknowledged them at once, and finally at all sites.
async fn killed_under_load(arguments: &[&str], sites: u16, rounds: u32) {
    let dir = Folder::new();
    let mut acknowledged: Vec<Vec<u64>> = vec![vec![0; 4]; usize::from(sites)];
    for round in 0..rounds {
        let mut up = start(&dir, arguments);
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
        // Enough writes that the process is killed while it writes; the number differs in each
        // round.
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
        let up = start(&dir, arguments);
        let mut sum = 0;
        for site in 1..=sites {
            let mut client = up.client(site).await;
            for (writer, count) in acknowledged[usize::from(site) - 1].iter_mut().enumerate() {
                let name = format!("{site}:{writer}");
                let last = client.get(&format!("last:{name}")).await.unwrap();
                let last: u64 = last.as_deref().unwrap_or("0").parse().unwrap();
                let all = client.smembers(&format!("all:{name}")).await.unwrap().len() as u64;
                // A transaction in progress may have committed, but only as a whole.
                assert!(
                    last == *count || last == *count + 1,
                    "{name}: {count} count, {last} found"
                );
                assert_eq!(last, all, "{name} is torn");
                *count = last;
                sum += last;
            }
        }
        for site in 1..=sites {
            let mut client = up.client(site).await;
            eventually(format_args!("site {site} has all {sum}"), async || {
                client.get("sum").await.unwrap() == Some(sum.to_string())
            })
            .await;
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
async fn damage_is_reported_and_repaired_only_on_request() {
    let dir = Folder::new();
    let mut up = start(&dir, &["--sites", "1"]);
    let mut client = up.client(1).await;
    for i in 0..200 {
        client.set(&format!("k{i}"), "some value that is long enough to be found").await.unwrap();
    }
    up.kill();
    let well = journal(&["check"], &dir);
    assert!(well.status.success(), "{}", text(&well.stdout));
    let folder = dir.at("virginia").join("worker-0");
    let segment = folder.join("0000000001.segment");
    let mut bytes = fs::read(&segment).unwrap();
    let found = |(_, window): &(usize, &[u8])| *window == b"some value";
    let (at, _) = bytes.windows(10).enumerate().filter(found).nth(100).unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();

    let refused = command(&dir, free_ports(&["127.0.0.1"]), &["--sites", "1"]).output().unwrap();
    assert!(!refused.status.success());
    let error = text(&refused.stderr);
    assert!(error.contains("0000000001.segment") && error.contains("worker-0"), "{error}");
    let checked = journal(&["check"], &dir);
    assert_eq!(checked.status.code(), Some(1));
    assert!(text(&checked.stdout).contains("DAMAGED"), "{}", text(&checked.stdout));
    let repaired = journal(&["repair"], &folder);
    assert!(repaired.status.success(), "{}", text(&repaired.stderr));
    assert!(text(&repaired.stdout).contains("unreadable records"), "{}", text(&repaired.stdout));
    assert!(folder.with_extension("backup-1").join("0000000001.segment").is_file());
    let checked = journal(&["check"], &dir);
    let output = text(&checked.stdout);
    let copy = "worker-0.backup-1\n  not checked: a copy of what a repair has changed\n";
    assert!(checked.status.success() && output.contains(copy), "{output}");
    let up = start(&dir, &["--sites", "1"]);
    // The records before the damage are recovered.
    let mut client = up.client(1).await;
    assert_eq!(client.command(&["DBSIZE"]).await.unwrap(), Value::Integer(100));
}

/// Everything that prevents a node from starting counts as damage, even if all remaining journals
/// are sound.
#[tokio::test]
async fn missing_parts_of_a_data_directory_are_reported_as_damage() {
    let dir = Folder::new();
    let arguments = ["--sites", "1", "--workers", "2"];
    let mut up = start(&dir, &arguments);
    up.kill();
    let description = dir.at("solera-data.toml");
    let whole = fs::read(&description).unwrap();
    let site = dir.at("virginia");
    let (worker, away) = (site.join("worker-1"), dir.at("away"));
    let segment = worker.join("0000000001.segment");
    let sound = |code: i32| {
        let checked = journal(&["check"], &dir);
        assert_eq!(checked.status.code(), Some(code), "{}", text(&checked.stderr));
        text(&checked.stdout)
    };
    sound(0);

    let refused = |expected: &str| {
        let started = command(&dir, free_ports(&["127.0.0.1"]), &arguments).output().unwrap();
        assert!(!started.status.success(), "{expected}: it starts");
        let checked = sound(1);
        assert!(checked.contains(expected) && checked.contains("solera site remove"), "{checked}");
    };
    fs::write(&description, "").unwrap();
    refused("solera-data.toml is damaged");
    fs::write(&description, [0xff, 0, b'=']).unwrap();
    refused("solera-data.toml is damaged");
    fs::remove_file(&description).unwrap();
    refused("solera-data.toml is missing");
    fs::write(&description, &whole).unwrap();
    sound(0);

    fs::rename(&segment, &away).unwrap();
    refused("worker-1 holds no journal");
    let repaired = journal(&["repair"], &worker);
    assert_eq!(repaired.status.code(), Some(1), "{}", text(&repaired.stdout));
    assert!(text(&repaired.stdout).contains("cannot repair"), "{}", text(&repaired.stdout));
    // The other journal is sound.
    let other = journal(&["check"], &site.join("worker-0"));
    assert!(other.status.success(), "{}", text(&other.stdout));
    fs::rename(&away, &segment).unwrap();
    fs::rename(&worker, &away).unwrap();
    refused("worker-1 is missing");
    // The directories of all workers are missing.
    fs::rename(&site, away.join("site")).unwrap();
    refused("worker-0 is missing");
    fs::rename(away.join("site"), &site).unwrap();
    fs::rename(&away, &worker).unwrap();
    sound(0);
}

#[test]
fn an_irreparable_journal_is_not_changed_and_the_next_steps_are_named() {
    let dir = Folder::new();
    let worker = dir.at("worker-0");
    let options = Options::new(Identity::new(b"of a test").unwrap());
    let (mut journal_there, _) =
        Journal::open(RealDisk::new(&worker), &options, |_| Ok(())).unwrap();
    let lsn = journal_there.append(b"a record").unwrap();
    let mut snapshot = journal_there.begin_snapshot(lsn).unwrap();
    snapshot.add(b"what it stands for").unwrap();
    journal_there.publish(snapshot.finish().unwrap()).unwrap();
    journal_there.close().unwrap();
    // The records would suffice without the snapshot, but they are missing as well.
    fs::remove_file(worker.join("0000000001.segment")).unwrap();
    let snapshot = worker.join("00000000000000000001.snapshot");
    let mut bytes = fs::read(&snapshot).unwrap();
    bytes[530] ^= 1;
    fs::write(&snapshot, &bytes).unwrap();

    let repaired = journal(&["repair"], &worker);
    let output = text(&repaired.stdout);
    assert_eq!(repaired.status.code(), Some(1), "{output}");
    for part in ["00000000000000000001.snapshot is damaged", "solera site remove", "a backup"] {
        assert!(output.contains(part), "{output}");
    }
    assert_eq!(fs::read(&snapshot).unwrap(), bytes);
    assert!(!worker.with_extension("backup-1").exists());
}

#[tokio::test]
async fn data_of_another_cluster_or_in_use_is_rejected() {
    let dir = Folder::new();
    let mut up = start(&dir, &["--sites", "2"]);
    let dumped = journal(&["check"], &dir);
    assert_eq!(dumped.status.code(), Some(2), "a running node's journal is looked into");
    let twice = command(&dir, up.port + 3, &["--sites", "2"]).output().unwrap();
    assert!(text(&twice.stderr).contains("another process uses it"), "{}", text(&twice.stderr));
    up.kill();
    for (arguments, reason) in [
        (&["--sites", "3"][..], "written with sites virginia, california, and"),
        (&["--sites", "2", "--partitions", "8"], "written with partitions = 16, and"),
        (&["--sites", "2", "--workers", "2"], "written with workers per site [1, 1], and"),
    ] {
        let refused = command(&dir, up.port, arguments).output().unwrap();
        assert!(!refused.status.success());
        assert!(text(&refused.stderr).contains(reason), "{}", text(&refused.stderr));
    }
    let other = Folder::new();
    other.file("letters.txt", "dear");
    let refused = command(&other, up.port, &[]).output().unwrap();
    assert!(text(&refused.stderr).contains("it holds other files"), "{}", text(&refused.stderr));
}
