//! Tests of the driver with a machine that counts, over a journal on a simulated disk.

use std::convert::Infallible;

use solera_host::{Driver, NoLog, Options, Rule, VirtualLog};
use solera_journal::{Error, Event, Identity, SimDisk};
use solera_machine::{
    Address, Input, Lane, Machine, Now, Output, OutputOf, Records, Recovery, RequestId, Share,
};
use solera_time::{Monotonic, Physical, SiteId};

/// Adds the amounts that it receives, records each sum, replies with it, and sends it to another
/// machine. Zero requests the sum, and is answered with a hundred more. A deadline makes it write a
/// record of [`LONG`] bytes; the next one is due at `due`.
#[derive(Debug, Default)]
struct Sum {
    sum: u64,
    due: Monotonic,
    held_back: Vec<Address>,
    outputs: std::collections::VecDeque<OutputOf<Sum>>,
}

impl Machine for Sum {
    type Message = u64;
    type Command = u64;
    type Response = u64;
    type Event = u64;
    type Part = u64;
    type Job = Infallible;
    type Question = Infallible;
    type Answer = Infallible;
    type Checkpoint = u8;

    /// Each thousand of a command's amount is another protocol; the rest of the amount is the cost.
    fn share(input: &Input<u64, u64>) -> Share {
        let amount = if let Input::Client { command, .. } = input { *command } else { 0 };
        Share { lane: Lane::USUAL, protocol: (amount / 1000) as u8, cost: amount % 1000 }
    }

    fn handle(&mut self, _: Now, input: Input<u64, u64>) {
        let Input::Client { request, command } = input else { return };
        if command == 0 {
            self.outputs.push_back(Output::Reply { request, response: self.sum + 100, last: true });
            return;
        }
        self.sum += command;
        let mut records = Records::default();
        records.push_with(|bytes| bytes.extend_from_slice(&self.sum.to_le_bytes()));
        let to = Address { site: SiteId(1), worker: 0 };
        self.outputs.extend([
            Output::Records(records),
            Output::Trace(self.sum),
            Output::Reply { request, response: self.sum, last: true },
            Output::Send { to, message: self.sum },
        ]);
    }

    fn hold_back(&mut self, full: Vec<Address>) {
        self.held_back = full;
    }

    fn on_deadline(&mut self, _: Now) {
        let mut records = Records::default();
        records.push_with(|bytes| bytes.resize(bytes.len() + LONG, 0));
        self.outputs.push_back(Output::Records(records));
    }

    fn poll_output(&mut self) -> Option<OutputOf<Sum>> {
        self.outputs.pop_front()
    }

    fn next_deadline(&self) -> Option<Monotonic> {
        Some(self.due)
    }

    /// Returns two parts, each with the current sum.
    fn next_part(&self, parts: &mut u8, _: usize) -> Option<u64> {
        *parts += 1;
        (*parts <= 2).then_some(self.sum)
    }

    fn is_complete(parts: &u8) -> bool {
        *parts > 2
    }

    fn encode_part(part: &u64, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&part.to_le_bytes());
    }
}

/// Rebuilds a [`Sum`].
#[derive(Default)]
struct Rebuild {
    sum: u64,
    parts: usize,
}

impl Recovery for Rebuild {
    type Machine = Sum;

    fn take_part(&mut self, _: u64, part: &[u8]) -> Result<(), String> {
        self.parts += 1;
        self.take_record(0, part)
    }

    fn take_record(&mut self, _: u64, record: &[u8]) -> Result<(), String> {
        let bytes = record.try_into().map_err(|_| "it has not eight bytes".to_owned())?;
        self.sum = self.sum.max(u64::from_le_bytes(bytes));
        Ok(())
    }

    fn into_machine(self) -> Sum {
        Sum { sum: self.sum, ..Sum::default() }
    }
}

const LONG: usize = 8 << 20;
/// Bytes after which a checkpoint is due.
const DUE: usize = 64 << 20;
const NOW: Now = Now { monotonic: Monotonic(0), physical: Physical(0) };

type Tested = Driver<Sum, VirtualLog<SimDisk>, &'static str>;

fn open_with(disk: &SimDisk, options: Options) -> Tested {
    let identity = Identity::new(b"sum").unwrap();
    let journal = solera_journal::Options::new(identity);
    let (journal, found, sum) =
        solera_host::open(disk.clone(), &journal, Rebuild::default(), |_| ()).unwrap();
    Driver::with_log(sum, VirtualLog::new(journal), found.last, options)
}

fn open(disk: &SimDisk) -> Tested {
    open_with(disk, Options { waits: true, without: None.into() })
}

fn add(driver: &mut Tested, amount: u64) {
    driver.handle(NOW, Input::Client { request: RequestId(amount), command: amount });
}

/// Returns the sums of the replies and messages that leave now, in order.
fn leaves(driver: &mut Tested) -> Vec<u64> {
    let outputs = std::iter::from_fn(|| driver.poll());
    let sum = |output| match output {
        Output::Send { message: sum, .. } | Output::Reply { response: sum, .. } => Some(sum),
        _ => None,
    };
    outputs.filter_map(sum).collect()
}

fn sync(driver: &mut Tested) {
    assert!(driver.wants_submit());
    driver.submit();
    end_sync(driver);
}

/// Returns a driver whose machine has one record, which is durable.
fn with_one_record(disk: &SimDisk) -> Tested {
    let mut driver = open(disk);
    add(&mut driver, 1);
    assert_eq!(leaves(&mut driver), []);
    sync(&mut driver);
    assert_eq!(leaves(&mut driver), [1, 1]);
    driver
}

/// Writes `bytes` bytes of long records and makes them durable.
fn write_long(driver: &mut Tested, bytes: usize) {
    for _ in 0..bytes / LONG {
        driver.on_deadline(NOW, Vec::new);
        assert_eq!(leaves(driver), []);
        sync(driver);
    }
}

fn end_sync(driver: &mut Tested) {
    let log = driver.log_mut().unwrap();
    let events = log.end_sync();
    let failed = log.failure();
    events.into_iter().chain(failed).for_each(|event| driver.on_log_event(event));
}

/// Returns the amounts that a turn of the driver has added, and whether inputs still wait.
fn turn(driver: &mut Driver<Sum, NoLog>, quantum: u64) -> (Vec<u64>, bool) {
    let before = driver.machine().sum;
    driver.work(NOW, quantum);
    let more = driver.has_inputs();
    let outputs = std::iter::from_fn(|| driver.poll());
    let sums = outputs.filter_map(|it| if let Output::Trace(sum) = it { Some(sum) } else { None });
    let mut last = before;
    (sums.map(|sum| sum - std::mem::replace(&mut last, sum)).collect(), more)
}

#[test]
fn waiting_inputs_are_handled_turn_by_turn_and_protocols_alternate() {
    let mut driver: Driver<Sum, NoLog> = Driver::in_memory(Sum::default());
    let ask = |driver: &mut Driver<Sum, NoLog>, amount| {
        driver.take(NOW, Input::Client { request: RequestId(amount), command: amount });
    };
    for amount in [1010, 1011, 1012, 1013] {
        ask(&mut driver, amount);
    }
    ask(&mut driver, 2010);
    assert!(driver.has_inputs());
    assert_eq!(turn(&mut driver, 20), (vec![1010, 2010], true));
    // It came later than all waiting inputs of protocol 1.
    ask(&mut driver, 2011);
    assert_eq!(turn(&mut driver, 20), (vec![1011, 2011], true));
    assert_eq!(turn(&mut driver, 100), (vec![1012, 1013], false));
    assert!(!driver.has_inputs());
    // 75 are left of the turn's quantum: inputs are handled at once until they are spent.
    let before = driver.machine().sum;
    for amount in [1050, 2050, 2050] {
        ask(&mut driver, amount);
    }
    assert_eq!(driver.machine().sum - before, 3100);
    assert!(driver.has_inputs());
}

#[test]
fn a_command_that_is_cancelled_while_it_waits_is_not_executed() {
    let mut driver: Driver<Sum, NoLog> = Driver::in_memory(Sum::default());
    for amount in [1, 2, 3] {
        driver.take(NOW, Input::Client { request: RequestId(amount), command: amount });
    }
    driver.cancel(NOW, RequestId(2));
    assert_eq!(turn(&mut driver, u64::MAX), (vec![1, 3], false));
}

#[test]
fn outputs_wait_for_the_records_before_them() {
    let mut driver = open(&SimDisk::new(1));
    add(&mut driver, 1);
    let first = driver.poll();
    assert!(matches!(first, Some(Output::Records(_))), "whoever looks sees them: {first:?}");
    assert_eq!(driver.poll(), Some(Output::Trace(1)), "what happened has happened");
    assert_eq!(leaves(&mut driver), []);
    assert!(driver.must_wait());
    driver.submit();
    // Records that come in during a sync wait for the next one.
    add(&mut driver, 2);
    assert_eq!(leaves(&mut driver), []);
    assert!(!driver.wants_submit());
    end_sync(&mut driver);
    assert_eq!(leaves(&mut driver), [1, 1]);
    sync(&mut driver);
    assert_eq!(leaves(&mut driver), [3, 3]);
    assert!(!driver.must_wait());
}

#[test]
fn clients_of_direct_calls_wait_for_all_earlier_records() {
    let disk = SimDisk::new(1);
    let mut driver = open(&disk);
    assert_eq!(driver.hold("early"), Some("early"), "nothing is written");
    add(&mut driver, 1);
    leaves(&mut driver);
    assert_eq!(driver.hold("first"), None);
    driver.submit();
    add(&mut driver, 2);
    leaves(&mut driver);
    assert_eq!((driver.hold("second"), driver.take_durable()), (None, None));
    end_sync(&mut driver);
    assert_eq!(driver.take_durable(), Some("first"));
    assert_eq!(driver.take_durable(), None, "its record is on no disk");
    disk.fail_power_after(0);
    sync(&mut driver);
    assert!(driver.has_stopped());
    assert_eq!((driver.take_durable(), driver.hold("late")), (None, None));
}

#[test]
fn clients_of_direct_calls_go_on_where_replies_do_not_wait() {
    let disk = SimDisk::new(1);
    let mut driver = open_with(&disk, Options { waits: false, without: None.into() });
    add(&mut driver, 1);
    leaves(&mut driver);
    assert_eq!(driver.hold("first"), Some("first"));
    disk.fail_power_after(0);
    driver.submit();
    assert_eq!((driver.has_stopped(), driver.hold("late")), (true, Some("late")));
}

#[test]
fn released_outputs_leave_before_later_ones() {
    let mut driver = open(&SimDisk::new(1));
    add(&mut driver, 1);
    assert_eq!(leaves(&mut driver), []);
    add(&mut driver, 0);
    assert_eq!(leaves(&mut driver), [], "who asks sees a sum that a crash may undo");
    sync(&mut driver);
    add(&mut driver, 0);
    assert_eq!(leaves(&mut driver), [1, 1, 101, 101]);
}

#[test]
fn no_output_waits_where_replies_do_not_wait() {
    let mut driver = open_with(&SimDisk::new(1), Options { waits: false, without: None.into() });
    add(&mut driver, 1);
    assert_eq!(leaves(&mut driver), [1, 1]);
    assert!(!driver.must_wait() && !driver.wants_submit() && driver.has_undurable());
    driver.on_deadline(NOW, Vec::new);
    leaves(&mut driver);
    assert!(driver.wants_submit(), "so much is not left to whoever writes now and then");
}

#[test]
fn no_output_leaves_whose_record_a_failed_log_may_have_lost() {
    let disk = SimDisk::new(1);
    let mut driver = open(&disk);
    add(&mut driver, 1);
    assert_eq!(leaves(&mut driver), []);
    driver.begin_checkpoint();
    assert!(driver.is_saving());
    disk.fail_power_after(0);
    driver.submit();
    assert!(driver.has_just_stopped() && !driver.has_just_stopped() && driver.has_stopped());
    assert!(driver.refuses().is_some() && !driver.answers());
    add(&mut driver, 2);
    assert_eq!(leaves(&mut driver), []);
    assert!(!driver.wants_submit() && !driver.is_saving());
    driver.begin_checkpoint();
    assert!(!driver.is_saving() && driver.save(1).is_none());
}

#[test]
fn a_failed_log_does_not_stop_reads_where_replies_do_not_wait() {
    let disk = SimDisk::new(1);
    let mut driver = open_with(&disk, Options { waits: false, without: None.into() });
    disk.fail_power_after(0);
    add(&mut driver, 1);
    leaves(&mut driver);
    driver.submit();
    assert!(driver.has_stopped() && driver.answers());
    add(&mut driver, 2);
    assert_eq!(leaves(&mut driver), [3], "a reply, and nothing to other machines");
}

#[test]
fn a_nearly_full_disk_rejects_writes_until_it_has_space() {
    let mut driver = open(&SimDisk::new(1));
    driver.on_log_event(Event::SpaceLow(Error::Stopped));
    assert!(driver.refuses().is_some() && !driver.has_stopped() && driver.answers());
    add(&mut driver, 1);
    assert_eq!(leaves(&mut driver), []);
    sync(&mut driver);
    assert_eq!(leaves(&mut driver), [1, 1], "what was begun is completed");
    driver.on_log_event(Event::SpaceRegained);
    assert!(driver.refuses().is_none() && !driver.wants_checkpoint());
}

#[test]
fn the_error_that_ends_a_log_replaces_that_of_a_full_disk() {
    let mut driver = open(&SimDisk::new(1));
    driver.on_log_event(Event::SpaceLow(Error::Locked));
    driver.on_log_event(Event::Failed(Error::Stopped));
    assert_eq!(driver.refuses(), Some(&Error::Stopped));
}

#[test]
fn a_nearly_full_disk_makes_a_checkpoint_due_once() {
    let disk = SimDisk::new(1);
    let mut driver = open(&disk);
    assert!(!driver.wants_checkpoint());
    driver.on_log_event(Event::SpaceLow(Error::Stopped));
    assert!(driver.wants_checkpoint());
    driver.begin_checkpoint();
    assert!(driver.is_saving() && !driver.wants_checkpoint());
    driver.on_log_event(Event::SnapshotFailed(Error::Stopped));
    assert!(!driver.wants_checkpoint(), "there was no room for one");
}

#[test]
fn a_failed_log_stays_failed_when_space_is_regained() {
    let mut driver = open(&SimDisk::new(1));
    driver.on_log_event(Event::SpaceLow(Error::Stopped));
    driver.on_log_event(Event::Failed(Error::Stopped));
    driver.on_log_event(Event::SpaceRegained);
    assert!(driver.refuses().is_some() && driver.has_stopped());
}

#[test]
fn a_checkpoint_is_due_after_enough_bytes_since_the_begin_of_the_last() {
    let disk = SimDisk::new(1);
    let mut driver = open(&disk);
    write_long(&mut driver, DUE - LONG);
    assert!(!driver.wants_checkpoint());
    write_long(&mut driver, LONG);
    assert!(driver.wants_checkpoint());
    driver.begin_checkpoint();
    assert!(!driver.wants_checkpoint() && driver.is_saving());
    write_long(&mut driver, LONG);
    driver.on_log_event(Event::SnapshotFailed(Error::Stopped));
    assert!(!driver.wants_checkpoint(), "a disk that takes no part is not asked at once");
    write_long(&mut driver, DUE - LONG);
    assert!(!driver.wants_checkpoint());
    write_long(&mut driver, LONG);
    assert!(driver.wants_checkpoint());
}

#[test]
fn a_checkpoint_is_published_once_its_records_are_durable() {
    let disk = SimDisk::new(1);
    let mut driver = with_one_record(&disk);
    assert_eq!(driver.save(1), None, "none was begun");
    driver.begin_checkpoint();
    assert_eq!(driver.save(1).map(|(lsn, part)| (lsn.0, part)), Some((1, 1)));
    add(&mut driver, 2);
    leaves(&mut driver);
    assert_eq!(driver.save(1).map(|(lsn, part)| (lsn.0, part)), Some((2, 3)));
    assert_eq!(driver.save(1), None);
    assert!(driver.is_saving(), "its second part knows of a record that a crash may undo");
    sync(&mut driver);
    assert!(!driver.is_saving());
    drop(driver);
    let mut parts = 0;
    let journal = solera_journal::Options::new(Identity::new(b"sum").unwrap());
    let (_, found, sum) =
        solera_host::open(disk, &journal, Rebuild::default(), |_| parts += 1).unwrap();
    assert_eq!((found.snapshot_records, found.records, parts, sum.sum), (2, 1, 3, 3));
}

#[test]
fn a_failed_checkpoint_is_reported_once_and_not_restarted() {
    let disk = SimDisk::new(1);
    let mut driver = with_one_record(&disk);
    driver.begin_checkpoint();
    assert!(driver.save(1).is_some() && driver.take_problem().is_none());
    driver.on_log_event(Event::SnapshotFailed(Error::Stopped));
    assert_eq!((driver.take_problem(), driver.take_problem()), (Some(Error::Stopped), None));
    assert_eq!(driver.save(1), None);
    assert!(!driver.is_saving());
    driver.begin_checkpoint();
    assert!(driver.save(1).is_some() && driver.is_saving());
}

#[test]
fn disabled_rules_have_their_effect() {
    let open =
        |disk: &SimDisk, rule| open_with(disk, Options { waits: true, without: Some(rule).into() });
    let mut driver = open(&SimDisk::new(1), Rule::SyncFirst);
    add(&mut driver, 1);
    assert_eq!(leaves(&mut driver), [1, 1]);
    assert_eq!(driver.hold("client"), Some("client"));

    let mut driver = open(&SimDisk::new(1), Rule::HoldClients);
    add(&mut driver, 1);
    assert_eq!((leaves(&mut driver), driver.hold("client")), (vec![], Some("client")));

    let disk = SimDisk::new(1);
    let mut driver = open(&disk, Rule::LogToAnswer);
    add(&mut driver, 1);
    leaves(&mut driver);
    disk.fail_power_after(0);
    driver.submit();
    add(&mut driver, 1);
    assert_eq!(leaves(&mut driver), [2]);
}

#[test]
fn deadlines_run_when_due_after_the_machine_gets_the_full_links() {
    let mut driver = Driver::<Sum, NoLog>::in_memory(Sum { due: Monotonic(7), ..Sum::default() });
    let full = Address { site: SiteId(1), worker: 0 };
    let at = |time| Now { monotonic: Monotonic(time), ..NOW };
    assert!(!driver.on_deadline(at(6), || unreachable!("nobody is asked before something is due")));
    assert!(driver.machine().held_back.is_empty() && driver.poll().is_none());
    assert!(driver.on_deadline(at(7), || vec![full]));
    assert_eq!(driver.machine().held_back, [full]);
    assert!(matches!(driver.poll(), Some(Output::Records(_))));
}
