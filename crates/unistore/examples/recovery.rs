//! Measures the time to rebuild a replica from a checkpoint of a million small keys, which was
//! written under load, and a million later records. Excludes the time to read the journal.
//!
//! `cargo run --release -p solera-unistore --example recovery [KEYS [RECORDS]]`

use std::sync::Arc;
use std::time::Instant;

use solera_data::{Op, Value};
use solera_levels::Level;
use solera_machine::{Address, Machine, Now, RequestId, Topology};
use solera_time::{Monotonic, Physical, SiteId};
use solera_unistore::{Checkpoint, Config, Output, Part, Pasts, Record, Recovery, Replica};

/// Content of a journal in memory.
struct Host {
    replica: Replica,
    keys: u64,
    lsn: u64,
    micros: u64,
    random: u64,
    parts: Vec<(u64, Vec<u8>)>,
    records: Vec<(u64, Vec<u8>)>,
}

impl Host {
    fn now(&self) -> Now {
        let physical = Physical(1_800_000_000_000_000 + self.micros);
        Now { monotonic: Monotonic(self.micros * 1000), physical }
    }

    fn set(&mut self, key: u64) {
        self.micros += 1;
        let (now, mut pasts) = (self.now(), Pasts::none(1));
        let op = Op::Set(Value::from("a value of 20 bytes."));
        let key = format!("key:{key:012}");
        let done =
            self.replica.execute(now, RequestId(0), &mut pasts, Level::Causal, key.as_bytes(), &op);
        assert!(matches!(done, Some(Ok(_))), "nothing blocks it");
        if self.micros.is_multiple_of(1000) {
            self.replica.on_deadline(now);
        }
        self.take_records();
    }

    fn set_some(&mut self, count: u64) {
        for _ in 0..count {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            self.set((self.random >> 33) % self.keys);
        }
    }

    fn take_records(&mut self) {
        while let Some(output) = self.replica.poll_output() {
            if let Output::Records(records) = output {
                for bytes in records.iter() {
                    self.lsn += 1;
                    self.records.push((self.lsn, bytes.to_vec()));
                }
            }
        }
    }

    fn checkpoint(&mut self) {
        self.records.clear();
        let mut checkpoint = Checkpoint::default();
        while let Some(part) = self.replica.next_part(&mut checkpoint, 64) {
            let mut bytes = Vec::new();
            part.encode(&mut bytes);
            self.parts.push((self.lsn, bytes));
            self.set_some(10);
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = || arguments.next().map(|text| text.parse().expect("it is a number"));
    let keys = number().unwrap_or(1_000_000);
    let records = number().unwrap_or(1_000_000);
    let topology = Arc::new(Topology { partitions: 64, workers: vec![1] });
    let mut config = Config::new(Address { site: SiteId(0), worker: 0 }, topology);
    config.journal = true;
    let replica = Replica::new(config.clone(), 1);
    let (parts, journal) = (Vec::new(), Vec::new());
    let mut host = Host { replica, keys, lsn: 0, micros: 0, random: 1, parts, records: journal };
    (0..keys).for_each(|key| host.set(key));
    host.checkpoint();
    host.set_some(records);
    let Host { replica, parts, records, .. } = host;
    drop(replica);

    let began = Instant::now();
    let mut recovery = Recovery::new(config, 1);
    for (lsn, part) in &parts {
        recovery.load(*lsn, Part::decode(part).expect("it was encoded")).expect("it is its own");
    }
    let loaded = began.elapsed();
    for (lsn, record) in &records {
        let record = Record::decode(record).expect("it was encoded");
        recovery.replay(*lsn, record).expect("it is its own");
    }
    let replica = recovery.finish();
    let all = began.elapsed();
    println!(
        "{keys} keys in {} parts: {:.3} s; {} records: {:.3} s; {} keys are there",
        parts.len(),
        loaded.as_secs_f64(),
        records.len(),
        (all - loaded).as_secs_f64(),
        replica.status().keys(),
    );
}
