//! Measures the speed of a journal on this machine:
//! `cargo run --release -p solera-journal --example throughput [FOLDER]`.
//!
//! Appends 150-byte records and syncs after each batch, through the plain journal and through its
//! thread. Then replays a million records. The folder should be on the disk to be measured.

use std::error::Error;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use solera_journal::{Event, Identity, Journal, Lsn, Options, RealDisk, SyncPolicy, Syncer};

const RECORD: [u8; 150] = [7; 150];
const MEASURE: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let default = || std::env::temp_dir().join(format!("solera-throughput-{}", std::process::id()));
    let folder = std::env::args_os().nth(1).map_or_else(default, PathBuf::from);
    let measured = measure(&folder);
    std::fs::remove_dir_all(&folder)?;
    measured
}

fn measure(folder: &std::path::Path) -> Result<(), Box<dyn Error>> {
    println!("{:>8}  {:>12}  {:>10}  {:>10}  {:>10}", "batch", "records/s", "median", "p99", "max");
    for batch in [1, 16, 256] {
        direct(&RealDisk::new(folder.join(format!("direct-{batch}"))), batch)?;
    }
    for waiting in [1, 16, 256] {
        threaded(&RealDisk::new(folder.join(format!("threaded-{waiting}"))), waiting)?;
    }
    replay(&RealDisk::new(folder.join("replay")))
}

fn options() -> Result<Options, Box<dyn Error>> {
    Ok(Options::new(Identity::new(b"throughput")?))
}

/// Writes and syncs batches, one after another.
fn direct(disk: &RealDisk, batch: u64) -> Result<(), Box<dyn Error>> {
    let (mut journal, _) = Journal::open(disk.clone(), &options()?, |_| Ok(()))?;
    let mut times = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < MEASURE {
        let before = Instant::now();
        for _ in 0..batch {
            journal.append(&RECORD)?;
        }
        journal.commit()?;
        times.push(before.elapsed());
        journal.prepare()?;
    }
    print(&batch.to_string(), journal.persisted_lsn().0, begun.elapsed(), times);
    Ok(())
}

/// Measures as a worker uses the journal: a number of clients, each of which waits until its record
/// is persisted.
fn threaded(disk: &RealDisk, waiting: u64) -> Result<(), Box<dyn Error>> {
    let (journal, _) = Journal::open(disk.clone(), &options()?, |_| Ok(()))?;
    let (sender, events) = channel();
    let mut syncer = Syncer::start(journal, SyncPolicy::Always, move |event| {
        let _ = sender.send((event, Instant::now()));
    })?;
    let mut times = Vec::new();
    let mut sent = std::collections::VecDeque::new();
    let begun = Instant::now();
    let mut persisted = Lsn(0);
    while begun.elapsed() < MEASURE {
        while (sent.len() as u64) < waiting {
            syncer.append(&RECORD)?;
            sent.push_back(Instant::now());
        }
        syncer.submit()?;
        match events.recv()? {
            (Event::Persisted(lsn), at) => {
                let acknowledged = sent.drain(..(lsn.0 - persisted.0) as usize);
                times.extend(acknowledged.map(|sent: Instant| at.duration_since(sent)));
                persisted = lsn;
            }
            (other, _) => return Err(format!("{other:?}").into()),
        }
    }
    print(&format!("{waiting} wait"), persisted.0, begun.elapsed(), times);
    Ok(syncer.close()?)
}

fn replay(disk: &RealDisk) -> Result<(), Box<dyn Error>> {
    let (mut journal, _) = Journal::open(disk.clone(), &options()?, |_| Ok(()))?;
    let begun = Instant::now();
    for _ in 0..1000 {
        for _ in 0..1000 {
            journal.append(&RECORD)?;
        }
        journal.write_out()?;
    }
    journal.close()?;
    println!("a million records written and synced once in {:?}", begun.elapsed());
    let begun = Instant::now();
    let mut bytes = 0;
    let (_, recovered) = Journal::open(disk.clone(), &options()?, |entry| {
        if let solera_journal::Entry::Record { payload, .. } = entry {
            bytes += payload.len();
        }
        Ok(())
    })?;
    println!("{} records, {bytes} bytes, replayed in {:?}", recovered.records, begun.elapsed());
    Ok(())
}

fn print(name: &str, records: u64, elapsed: Duration, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| format!("{:.0?}", times[(times.len() - 1) * part / 100]);
    let rate = records as f64 / elapsed.as_secs_f64();
    println!("{name:>8}  {rate:>12.0}  {:>10}  {:>10}  {:>10}", at(50), at(99), at(100));
}
