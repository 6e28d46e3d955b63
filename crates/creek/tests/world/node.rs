//! A site's process: its clocks, journal, checkpoints and crashes.

use std::collections::{BTreeMap, VecDeque};

use solera_creek::{
    Checkpoint, Config, Creek, Done, Executor, Job, Output, Past, Recovery, Response, Tentative,
};
use solera_machine::{Input, Job as _, JobId, Machine, Now};
use solera_membership::{Members, Participant};
use solera_random::Random;
use solera_time::{Monotonic, Physical};

use super::procedures::Lists;

/// A checkpoint: number of the first record that is not before its beginning, and its parts.
type Written = (usize, Vec<Vec<u8>>);

pub(crate) struct Node {
    pub(crate) machine: Creek<Lists>,
    config: Config,
    /// Durable records.
    journal: Vec<Vec<u8>>,
    checkpoint: Option<Written>,
    /// A checkpoint that is being written.
    writing: Option<(Written, Checkpoint<Lists>)>,
    /// Outputs that have not been carried out. A crash loses them.
    pub(crate) pending: VecDeque<Output<Lists>>,
    /// For each reply among them, what the machine had delivered.
    pub(crate) pasts: VecDeque<Past>,
    /// Jobs, by the times at which they end.
    jobs: BTreeMap<(u64, JobId), Job<Lists>>,
    /// Number of records in `pending`.
    undurable: usize,
    pub(crate) down_until: u64,
    /// The process never starts again.
    pub(crate) is_dead: bool,
    pub(crate) is_up: bool,
    /// Start of the monotonic clock, and difference of the wall clock, in milliseconds.
    offset: u64,
    pub(crate) skew: u64,
    pub(crate) restarts: usize,
    /// The last list of sites that the site knows, if it has changed.
    list: Option<Members>,
}

impl Node {
    pub(crate) fn new(config: Config, random: &mut Random) -> Node {
        Node {
            machine: Creek::new(config.clone(), Lists),
            config,
            journal: Vec::new(),
            checkpoint: None,
            writing: None,
            pending: VecDeque::new(),
            pasts: VecDeque::new(),
            jobs: BTreeMap::new(),
            undurable: 0,
            down_until: 0,
            is_dead: false,
            is_up: true,
            offset: random.below(1_000_000),
            skew: random.below(10_000),
            restarts: 0,
            list: None,
        }
    }

    /// Returns the configuration of the next generation of the site.
    pub(crate) fn next_generation(&self, generation: u32) -> Config {
        Config { generation, ..self.config.clone() }
    }

    pub(crate) fn generation(&self) -> u32 {
        self.config.generation
    }

    /// Passes a list of sites to the machine. The list is durable.
    pub(crate) fn set_members(&mut self, now: u64, list: Members) {
        self.machine.set_members(self.reading(now), &list);
        self.list = Some(list);
        self.collect();
    }

    /// Reads the clocks at a time in milliseconds.
    fn reading(&self, now: u64) -> Now {
        Now {
            monotonic: Monotonic((self.offset + now) * 1_000_000),
            physical: Physical((now + self.skew) * 1_000),
        }
    }

    pub(crate) fn handle(
        &mut self,
        now: u64,
        input: Input<
            solera_creek::Message<super::procedures::Operation>,
            super::clients::Command,
            Done<Lists>,
        >,
    ) {
        self.machine.handle(self.reading(now), input);
        self.collect();
    }

    /// Begins a job that ends at a time.
    pub(crate) fn begin_job(&mut self, end: u64, job: JobId, work: Job<Lists>) {
        self.jobs.insert((end, job), work);
    }

    pub(crate) fn tick(&mut self, now: u64) {
        while let Some(entry) = self.jobs.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, job), work) = entry.remove_entry();
            self.handle(now, Input::Done { job, result: work.run() });
        }
        let reading = self.reading(now);
        if self.machine.next_deadline().is_some_and(|at| at <= reading.monotonic) {
            self.machine.on_deadline(reading);
            self.collect();
        }
    }

    fn collect(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            if let Output::<Lists>::Records(records) = &output {
                self.undurable += records.iter().count();
            }
            if let Output::<Lists>::Reply { response, .. } = &output {
                let past = self.machine.past();
                self.check_past(&past, response);
                let is_whole = self.config.without.rule().is_none();
                assert!(!is_whole || self.machine.divergence().is_none(), "sites differ");
                self.pasts.push_back(past);
            }
            self.pending.push_back(output);
        }
    }

    /// Checks that a past contains the tentative operations that a response shows. Servers do not
    /// use the sequential executor, whose steps may end between an operation and an earlier one of
    /// its site.
    fn check_past(&self, past: &Past, response: &Response<super::procedures::Response>) {
        let (Response::Tentative(Tentative { claim: Some(claim), .. })
        | Response::Revised(Tentative { claim: Some(claim), .. })) = response
        else {
            return;
        };
        let is_whole = self.config.without.rule().is_none();
        if self.config.executor == Executor::Multiversion && is_whole {
            let lacks = claim.tentative.iter().find(|id| !past.contains(**id));
            assert_eq!(lacks, None, "{:?} shows what its past lacks", self.config.address);
        }
    }

    /// Returns whether all records are durable. Hosts report nothing about the machine before.
    pub(crate) fn is_durable(&self) -> bool {
        self.undurable == 0
    }

    /// Makes records durable.
    pub(crate) fn store(&mut self, records: &solera_machine::Records) {
        self.journal.extend(records.iter().map(<[u8]>::to_vec));
        self.undurable -= records.iter().count();
    }

    /// Writes the next parts of a checkpoint.
    pub(crate) fn write_checkpoint(&mut self, random: &mut Random) {
        self.collect();
        let beginning = self.journal.len() + self.undurable;
        let ((_, parts), progress) =
            self.writing.get_or_insert_with(|| ((beginning, Vec::new()), Checkpoint::default()));
        if let Some(part) = self.machine.next_part(progress, 1 + random.index(5)) {
            let mut bytes = Vec::new();
            Creek::<Lists>::encode_part(&part, &mut bytes);
            parts.push(bytes);
        }
        // All records whose effects the parts contain are durable, and all events are reported.
        if Creek::<Lists>::is_complete(progress) && self.pending.is_empty() {
            self.checkpoint = self.writing.take().map(|(written, _)| written);
        }
    }

    pub(crate) fn crash(&mut self, until: u64) {
        self.pending.clear();
        self.pasts.clear();
        self.jobs.clear();
        self.undurable = 0;
        self.writing = None;
        self.is_up = false;
        self.down_until = until;
    }

    /// Starts the process again if its time has come. Returns whether it did.
    pub(crate) fn restart(&mut self, now: u64, random: &mut Random) -> bool {
        if self.is_up || self.is_dead || now < self.down_until {
            return false;
        }
        let mut recovery = Recovery::new(self.config.clone(), Lists);
        let from = self.checkpoint.as_ref().map_or(0, |(from, _)| *from);
        let parts = self.checkpoint.iter().flat_map(|(_, parts)| parts);
        parts.for_each(|part| recovery.take_part(part).unwrap());
        for record in &self.journal[from..] {
            recovery.take_record(record).unwrap();
        }
        self.machine = recovery.into_machine();
        self.is_up = true;
        self.offset = random.below(1_000_000);
        self.restarts += 1;
        if let Some(list) = &self.list {
            self.machine.set_members(self.reading(now), list);
        }
        self.collect();
        true
    }
}
