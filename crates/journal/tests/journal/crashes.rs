//! Crashes at every step: persisted records survive, and recovery returns only what was written.

use std::collections::BTreeMap;

use proptest::prelude::*;
use solera_journal::{Error, Journal, Lsn, SimDisk, SnapshotWriter, WrittenSnapshot};

use crate::{Content, open};

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    WriteOut,
    Sync,
    Prepare,
    BeginSnapshot(u64),
    AddToSnapshot(usize),
    FinishSnapshot,
    Publish,
    Close,
    Kill,
    Crash,
}

/// A journal and the expected results of recovery.
struct Model {
    disk: SimDisk,
    journal: Option<Journal<SimDisk>>,
    writer: Option<(Vec<Vec<u8>>, SnapshotWriter<SimDisk>)>,
    written: Option<(Vec<Vec<u8>>, WrittenSnapshot)>,
    /// All appended records, by number; the newest if several had the same number.
    records: BTreeMap<u64, Vec<u8>>,
    /// All snapshots that recovery may return, by LSN.
    snapshots: Vec<(u64, Vec<Vec<u8>>)>,
    /// LSN of the oldest snapshot that recovery may return.
    in_force: u64,
    persisted: u64,
    /// Counter that makes each appended record unique.
    serial: u64,
}

impl Model {
    fn new(seed: u64) -> Model {
        let disk = SimDisk::new(seed);
        let mut model = Model {
            disk,
            journal: None,
            writer: None,
            written: None,
            records: BTreeMap::new(),
            snapshots: vec![(0, Vec::new())],
            in_force: 0,
            persisted: 0,
            serial: 0,
        };
        model.reopen();
        model
    }

    /// Opens the journal, and compares its content. Opening may fail only if the power fails
    /// meanwhile.
    fn reopen(&mut self) {
        let (journal, content) = loop {
            match open(&self.disk) {
                Ok((journal, _, content)) => break (journal, content),
                Err(_) if self.disk.power_failed() => self.disk.crash(),
                Err(error) => panic!("{error}"),
            }
        };
        self.compare(&content, journal.snapshot_lsn().unwrap_or_default().0);
        let last = journal.last_lsn().0;
        assert_eq!(journal.persisted_lsn().0, last);
        assert!(last >= self.persisted, "{last} of {} came back", self.persisted);
        self.persisted = last;
        self.records.split_off(&(last + 1));
        self.journal = Some(journal);
    }

    fn compare(&mut self, content: &Content, snapshot: u64) {
        assert!(snapshot >= self.in_force, "an old snapshot came back");
        let known = self.snapshots.contains(&(snapshot, content.snapshot.clone()));
        assert!(known, "an unknown snapshot came back");
        self.in_force = snapshot;
        for (expected, (lsn, payload)) in (snapshot + 1..).zip(&content.records) {
            assert_eq!(*lsn, expected);
            assert_eq!(self.records.get(lsn), Some(payload), "record {lsn}");
        }
    }

    /// Executes a step, and opens the journal again if the step ends it. Only a power failure may
    /// cause an error.
    fn step(&mut self, step: &Step) {
        let done = self.try_step(step);
        let failed = done.is_err();
        if let Err(error) = done {
            let refused = matches!(error, Error::SnapshotOutOfOrder { .. });
            assert!(refused || self.disk.power_failed(), "{error}");
            if refused {
                return;
            }
        }
        if failed || matches!(step, Step::Close | Step::Kill | Step::Crash) {
            let journal = self.journal.take();
            // Records that were acknowledged before the failure must survive.
            let persisted = journal.as_ref().map_or(0, |journal| journal.persisted_lsn().0);
            self.persisted = self.persisted.max(persisted);
            drop((journal, self.writer.take(), self.written.take()));
            match step {
                Step::Kill if !failed => self.disk.kill(),
                Step::Close if !failed => {}
                _ => self.disk.crash(),
            }
            self.reopen();
        }
    }

    fn try_step(&mut self, step: &Step) -> Result<(), Error> {
        let journal = self.journal.as_mut().expect("it was opened");
        match *step {
            Step::Append(bytes) => {
                self.serial += 1;
                let payload: Vec<u8> =
                    self.serial.to_le_bytes().into_iter().cycle().take(bytes + 8).collect();
                let lsn = journal.append(&payload)?;
                self.records.insert(lsn.0, payload);
            }
            Step::WriteOut => journal.write_out()?,
            Step::Sync => self.persisted = journal.sync()?.0,
            Step::Prepare => drop(journal.prepare()?),
            Step::BeginSnapshot(back) => {
                let lsn = journal.last_lsn().0.saturating_sub(back).max(self.in_force);
                self.writer = None;
                self.writer = Some((Vec::new(), journal.begin_snapshot(Lsn(lsn))?));
                self.snapshots.push((lsn, Vec::new()));
            }
            Step::AddToSnapshot(bytes) => {
                let Some((content, writer)) = &mut self.writer else { return Ok(()) };
                self.serial += 1;
                let payload: Vec<u8> =
                    self.serial.to_le_bytes().into_iter().cycle().take(bytes + 8).collect();
                content.push(payload.clone());
                self.snapshots.last_mut().expect("it was begun").1.push(payload.clone());
                writer.add(&payload)?;
            }
            Step::FinishSnapshot => {
                let Some((content, writer)) = self.writer.take() else { return Ok(()) };
                self.written = Some((content, writer.finish()?));
            }
            Step::Publish => {
                let Some((_, written)) = self.written.take() else { return Ok(()) };
                let lsn = written.lsn().0;
                journal.publish(written)?;
                self.in_force = lsn;
                self.persisted = journal.persisted_lsn().0;
            }
            Step::Close => {
                let last = journal.last_lsn().0;
                self.journal.take().expect("it was opened").close()?;
                self.persisted = last;
            }
            Step::Kill | Step::Crash => {}
        }
        Ok(())
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => prop_oneof![4 => 0..200usize, 2 => 200..2000usize, 1 => 2000..9000usize]
            .prop_map(Step::Append),
        6 => Just(Step::WriteOut),
        4 => Just(Step::Sync),
        2 => Just(Step::Prepare),
        1 => (0..6u64).prop_map(Step::BeginSnapshot),
        3 => prop_oneof![0..500usize, 100_000..300_000usize].prop_map(Step::AddToSnapshot),
        1 => Just(Step::FinishSnapshot),
        1 => Just(Step::Publish),
        1 => Just(Step::Close),
        1 => Just(Step::Kill),
        1 => Just(Step::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn persisted_records_survive_any_crash(
        seed: u64,
        steps in prop::collection::vec((step(), prop::option::weighted(0.1, 1..6u64)), 1..120),
    ) {
        let mut model = Model::new(seed);
        for (step, power) in &steps {
            if let Some(calls) = power {
                model.disk.fail_power_after(*calls);
            }
            model.step(step);
        }
        model.step(&Step::Crash);
        model.step(&Step::Close);
    }
}

/// Returns steps of every kind.
fn script() -> Vec<Step> {
    use Step::{
        AddToSnapshot, Append, BeginSnapshot, FinishSnapshot, Prepare, Publish, Sync, WriteOut,
    };
    let mut steps = Vec::new();
    for round in 0..3 {
        for size in [10, 700, 3000, 40, 1500] {
            steps.extend([Append(size), WriteOut, Append(5), WriteOut, Sync, Prepare]);
        }
        steps.extend([BeginSnapshot(round), Append(100), AddToSnapshot(1000), WriteOut]);
        steps.extend([AddToSnapshot(300_000), FinishSnapshot, Append(20), Publish]);
    }
    steps
}

#[test]
fn a_crash_at_any_call_loses_no_persisted_record() {
    let steps = script();
    let calls = {
        let mut model = Model::new(0);
        let before = model.disk.changes();
        steps.iter().for_each(|step| model.step(step));
        assert!(model.in_force > 0);
        model.disk.changes() - before
    };
    assert!(calls > 100);
    for call in 1..=calls {
        for seed in 0..12 {
            let mut model = Model::new(seed);
            model.disk.fail_power_after(call);
            steps.iter().for_each(|step| model.step(step));
            model.step(&Step::Crash);
        }
    }
}

#[test]
fn opening_may_be_interrupted() {
    for seed in 0..300 {
        let mut model = Model::new(seed);
        script().iter().take(40).for_each(|step| model.step(step));
        model.step(&Step::Append(3000));
        model.step(&Step::WriteOut);
        model.journal = None;
        model.disk.crash();
        model.disk.fail_power_after(1 + seed % 8);
        model.reopen();
        model.step(&Step::Crash);
    }
}

/// If the first opening of a new journal is interrupted at any call, one of the next two openings
/// succeeds.
#[test]
fn the_first_opening_may_be_interrupted() {
    for end in [SimDisk::kill, SimDisk::crash] {
        for seed in 0..20 {
            let mut call = 0;
            let interrupted = loop {
                call += 1;
                let disk = SimDisk::new(seed);
                disk.fail_power_after(call);
                if open(&disk).is_ok() {
                    break call - 1;
                }
                end(&disk);
                // The second opening may be interrupted as well.
                disk.fail_power_after(1 + seed % 8);
                let again = open(&disk).map(drop);
                assert!(
                    again.is_ok() || disk.power_failed(),
                    "seed {seed}, call {call}: {again:?}"
                );
                end(&disk);
                let opened = open(&disk).map(|(journal, _, _)| journal.last_lsn());
                assert_eq!(opened, Ok(Lsn(0)), "seed {seed}, call {call}");
            };
            assert!(interrupted > 4, "an opening is some calls, and not {interrupted}");
        }
    }
}
