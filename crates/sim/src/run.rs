//! One run: load under faults, healing, settling, and checks.

mod outage;

use std::collections::BTreeMap;
use std::fmt;

use solera_checker::properties::{Access, Broken, Ledger, Vectors};
use solera_checker::{FinalRead, History, Origin, Violation as Anomaly};
use solera_data::{Key, Op, OpError, Outcome};
use solera_levels::Level;
use solera_machine::{Address, PartitionId, RequestId};
use solera_membership::{Gap, SiteStatus};
use solera_time::{SiteId, Timestamp, Vector};
use solera_unistore::{Cause, Command, Event, Response, TransactionId};

use crate::bounds::BoundsSessions;
use crate::client::Clients;
use crate::complete::CompleteReaders;
use crate::guarded::GuardedSessions;
use crate::history::{Places, answer, entries, history, origin};
use crate::last_round::LastRound;
use crate::occult::OccultSessions;
use crate::outage::Outage;
use crate::outcomes::{NewOutcome, Outcomes, Submission};
use crate::primary::PrimarySessions;
use crate::promises::Promises;
use crate::queue::MS;
use crate::recorded::{Recorded, Status};
use crate::scenario::Scenario;
use crate::speculative::SpeculativeSessions;
use crate::tally::Tally;
use crate::trace::Trace;
use crate::trial::TrialSessions;
use crate::world::{SiteState, World, WorldEvent};

/// Result of a run.
#[derive(Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Transactions that clients ran.
    pub transactions: usize,
    /// Number of events of the simulated world.
    pub steps: u64,
    /// Virtual time, in milliseconds.
    pub virtual_ms: u64,
    /// Violations of guarantees; empty if all is well.
    pub violations: Vec<Violation>,
    /// Violations in an outage that the cluster is known not to tolerate yet.
    pub known_failures: Vec<Violation>,
    /// Counts of the faults of workers and disks that took effect.
    pub tally: Tally,
    /// Observations of the clients, with the positions that the protocol claims.
    pub history: History,
    /// Trace of the run.
    pub trace: Trace,
}

/// A violation of a guarantee.
#[derive(Debug)]
pub enum Violation {
    /// One of UniStore's Properties 1–7 did not hold at some time (in virtual milliseconds).
    Property(u64, Broken),
    /// The history is less consistent than its levels require.
    Anomaly(Anomaly),
    /// A report of a strong transaction's outcome contradicts an earlier one.
    Contradiction(String),
    /// A client waits for an answer that does not arrive.
    Stuck(String),
    /// A surviving site lacks a write that was promised to survive.
    Promise(String),
    /// The protocol interface violates a guarantee that `trial` relies on.
    Trial(String),
    /// A guard's promise or refusal contradicts the outcome of a transaction.
    Guarded(String),
    /// `primary` broke one of its guarantees.
    Primary(String),
    /// Occult broke one of its guarantees.
    Occult(String),
    /// The bounds of a counter were wrong.
    Bounds(String),
    /// A speculative space broke one of its guarantees.
    Speculative(String),
    /// Complete reads and updates of a counter have no linearizable order.
    CompleteRead(String),
    /// Durable data is missing after a restart.
    Lost(String),
    /// A site did not commit on a group in time, while other sites or parts of them were down.
    TimedOut(String),
    /// A strong command was given up because of conflicts, although there were no faults.
    Starved(String),
    /// A replica did not settle: transactions stay prepared, open or unsettled.
    Unrest(String),
    /// A worker's data takes more or less memory than the worker reports.
    Miscounted(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Property(at, broken) => write!(f, "at {at} ms: {broken}"),
            Violation::Anomaly(anomaly) => anomaly.fmt(f),
            Violation::Contradiction(what) => write!(f, "contradiction: {what}"),
            Violation::Stuck(client) => write!(f, "a client is stuck: {client}"),
            Violation::Promise(what) => write!(f, "a broken promise: {what}"),
            Violation::Primary(what) => write!(f, "primary: {what}"),
            Violation::Occult(what) => write!(f, "occult: {what}"),
            Violation::Bounds(what) => write!(f, "bounds: {what}"),
            Violation::Speculative(what) => write!(f, "creek: {what}"),
            Violation::CompleteRead(what) => write!(f, "complete reads: {what}"),
            Violation::Trial(what) => write!(f, "trial: {what}"),
            Violation::Guarded(what) => write!(f, "guarded: {what}"),
            Violation::Lost(what) => write!(f, "lost: {what}"),
            Violation::TimedOut(what) => write!(f, "not in time: {what}"),
            Violation::Starved(who) => write!(f, "conflicts aborted every attempt of {who}"),
            Violation::Unrest(what) => write!(f, "did not settle: {what}"),
            Violation::Miscounted(what) => write!(f, "miscounted: {what}"),
        }
    }
}

/// Virtual time that clients get to finish once all faults have ended.
const PATIENCE: u64 = 60_000 * MS;
/// Time for which the world settles before it is checked.
const REST: u64 = 2_500 * MS;
/// Greatest further time for settling where workers restart: until clocks are past all times at
/// which transactions may still commit. Without restarts, the difference between clocks is enough.
const GRACE: u64 = 30_000 * MS;
/// Greatest further time for settling where workers run `creek`.
const CATCH_UP: u64 = 10_000 * MS;
/// Steps between two checks of the properties.
const CHECK_EVERY: u64 = 64;

/// Runs a scenario to its end and checks it.
pub fn run(scenario: &Scenario, trace: Trace) -> Report {
    let mut run = Run::new(scenario, trace);
    match &scenario.outage {
        Some(outage) => run.through(outage),
        None => run.load(scenario.faults_end),
    }
    run.world.heal();
    run.load_until_done();
    run.last_round();
    run.rest();
    run.judge()
}

struct Run<'a> {
    scenario: &'a Scenario,
    world: World,
    clients: Clients,
    promises: Promises,
    primary: PrimarySessions,
    occult: OccultSessions,
    trial: TrialSessions,
    guarded: GuardedSessions,
    bounds: BoundsSessions,
    complete: CompleteReaders,
    speculative: SpeculativeSessions,
    places: Places,
    outcomes: Outcomes,
    ledger: Ledger,
    violations: Vec<Violation>,
    /// Answers to the final reads, by request.
    finals: Vec<(RequestId, Option<Result<Outcome, OpError>>)>,
    last_round: LastRound,
}

impl<'a> Run<'a> {
    fn new(scenario: &'a Scenario, trace: Trace) -> Self {
        let mut world = World::new(scenario, trace);
        let clients = Clients::new(scenario, &mut world);
        let promises = Promises::new(scenario, &mut world);
        let primary = PrimarySessions::new(scenario, &mut world);
        let occult = OccultSessions::new(scenario, &mut world);
        let trial = TrialSessions::new(scenario, &mut world);
        let guarded = GuardedSessions::new(scenario, &mut world);
        let bounds = BoundsSessions::new(scenario, &mut world);
        let complete = CompleteReaders::new(scenario, &mut world);
        let speculative = SpeculativeSessions::new(scenario, &mut world);
        Run {
            scenario,
            clients,
            promises,
            primary,
            occult,
            trial,
            guarded,
            bounds,
            complete,
            speculative,
            world,
            places: Places::default(),
            outcomes: Outcomes::default(),
            ledger: Ledger::new(scenario.topology.sites(), scenario.f),
            violations: Vec::new(),
            finals: Vec::new(),
            last_round: LastRound::default(),
        }
    }

    fn load(&mut self, until: u64) {
        while let Some(events) = self.world.step(until) {
            self.observe(events);
            if self.world.steps.is_multiple_of(CHECK_EVERY) {
                self.check_properties();
            }
        }
    }

    fn load_until_done(&mut self) {
        let end = self.world.now + PATIENCE;
        while (!self.clients.all_done()
            || !self.promises.all_done()
            || !self.primary.all_done()
            || !self.occult.all_done()
            || !self.trial.all_done()
            || !self.guarded.all_done()
            || !self.bounds.all_done()
            || !self.complete.all_done()
            || !self.speculative.all_done()
            || self.world.unfinished().is_some())
            && self.world.now < end
        {
            let until = self.world.now + 100 * MS;
            self.load(until);
        }
        if let Some(what) = self.world.unfinished() {
            self.violations.push(Violation::Unrest(what));
        }
        for client in self
            .clients
            .stuck()
            .into_iter()
            .chain(self.promises.stuck())
            .chain(self.primary.stuck())
            .chain(self.occult.stuck())
            .chain(self.trial.stuck())
            .chain(self.guarded.stuck())
            .chain(self.bounds.stuck())
            .chain(self.complete.stuck())
            .chain(self.speculative.stuck())
        {
            self.violations.push(Violation::Stuck(client));
        }
    }

    /// Checks that, without faults, strong transactions of every site commit on every group in
    /// bounded time.
    fn last_round(&mut self) {
        if !self.world.has_quorum() {
            return;
        }
        let sites = self.scenario.topology.sites();
        let end = self.world.now + PATIENCE;
        for site in 0..sites {
            if self.world.state(site) != SiteState::Up {
                continue;
            }
            self.last_round.begin(&self.scenario.topology, site);
            self.last_turn(end);
        }
        let up: Vec<usize> =
            (0..sites).filter(|site| self.world.state(*site) == SiteState::Up).collect();
        self.last_round.begin_contest(&self.scenario.topology, &up);
        self.last_turn(self.world.now + PATIENCE);
        let starved = std::mem::take(&mut self.last_round.starved);
        self.violations.extend(starved.into_iter().map(Violation::Starved));
    }

    /// Runs a turn of the last round.
    fn last_turn(&mut self, end: u64) {
        let missing = self.turn(end);
        self.violations.extend(missing.into_iter().map(Violation::Unrest));
    }

    /// Submits due transactions until they commit, and returns those that have not committed by
    /// `end`.
    fn turn(&mut self, end: u64) -> Vec<String> {
        loop {
            self.last_round.submit(&mut self.world);
            let events = self.world.take_events();
            self.observe(events);
            if self.last_round.is_done() || self.world.now >= end {
                break;
            }
            let until = self.world.now + if self.last_round.is_contest() { MS } else { 20 * MS };
            self.load(until);
        }
        self.last_round.take_missing()
    }

    /// Lets everything settle, and checks that nothing is left over.
    fn rest(&mut self) {
        self.load(self.world.now + REST);
        let end =
            self.world.now + if self.scenario.durable { GRACE } else { self.world.clock_spread() };
        // Readers renew their rights for some time after the last request.
        let active = self.scenario.bounds.as_ref().map(|it| it.timing.keep + it.timing.exclusion);
        let end = end + active.map_or(0, |active| active.as_nanos() as u64);
        // A site that was away may fetch a few operations in each round trip.
        let end = end + if self.scenario.speculative.is_some() { CATCH_UP } else { 0 };
        let mut left = self.left();
        while !left.is_empty() && self.world.now < end {
            self.load(self.world.now + REST / 5);
            left = self.left();
        }
        self.violations.extend(left.into_iter().map(Violation::Unrest));
    }

    /// Describes everything that has not finished yet.
    fn left(&self) -> Vec<String> {
        let missed = |site| !matches!(self.world.site_status(site), Some((SiteStatus::Gone, _)));
        let destroyed = self.destroyed().into_iter().any(missed);
        let quorum = self.world.has_quorum();
        // While a dead site may have tokens, others may wait for it, and renew their rights.
        let renews = destroyed && self.scenario.bounds.is_some();
        let mut texts = self.primary.left(&self.world);
        texts.extend(self.occult.left(&self.world));
        texts.extend(self.speculative.left(&self.world));
        for (address, replica) in self.world.replicas() {
            if self.world.state(address.site.index()) != SiteState::Up {
                continue;
            }
            let status = replica.status();
            let left = [
                ("open", status.open_transactions()),
                ("prepared", status.prepared_transactions()),
                ("unconfirmed", status.unconfirmed_decisions()),
                ("guarded", status.guarded_transactions()),
                ("undecided", if quorum && !renews { status.undecided_transactions() } else { 0 }),
                // Updates that a destroyed site may still lack are kept for it.
                ("unsettled", if destroyed { 0 } else { status.unsettled_updates() }),
            ];
            for (what, count) in left.into_iter().filter(|(_, count)| *count > 0) {
                let view = status.view();
                texts.push(format!("{count} {what} transactions at {address:?}: {view:?}"));
            }
        }
        texts
    }

    /// Lets final reads be answered.
    fn finish_reads(&mut self) {
        let events = self.world.take_events();
        self.observe(events);
        self.load(self.world.now + 500 * MS);
    }

    fn judge_promises(&mut self) {
        if !self.scenario.promises {
            return;
        }
        self.promises.final_reads(&mut self.world);
        self.finish_reads();
        let broken = self.promises.broken().into_iter().map(Violation::Promise);
        self.violations.extend(broken);
    }

    fn judge_guards(&mut self) {
        if !self.scenario.trial {
            return;
        }
        self.guarded.final_reads(&mut self.world);
        self.finish_reads();
        let problems = self.guarded.judge(&self.world);
        self.violations.extend(problems.into_iter().map(Violation::Guarded));
    }

    fn judge_occult(&mut self) {
        if self.scenario.occult.is_none() {
            return;
        }
        self.occult.final_reads(&mut self.world);
        self.finish_reads();
        let problems = self.occult.judge(&self.world);
        self.violations.extend(problems.into_iter().map(Violation::Occult));
    }

    fn judge_bounds(&mut self) {
        if self.scenario.bounds.is_none() {
            return;
        }
        self.bounds.final_reads(&mut self.world);
        self.finish_reads();
        self.load(self.world.now + 2_000 * MS);
        let problems = self.bounds.judge(&mut self.world);
        self.violations.extend(problems.into_iter().map(Violation::Bounds));
    }

    fn judge_speculation(&mut self) {
        if self.scenario.speculative.is_none() {
            return;
        }
        let end = self.speculative.last_round(&mut self.world);
        self.finish_reads();
        while !self.speculative.left(&self.world).is_empty() && self.world.now < end {
            self.load(self.world.now + 100 * MS);
        }
        let left = self.speculative.left(&self.world);
        self.violations.extend(left.into_iter().map(Violation::Unrest));
        self.speculative.final_reads(&mut self.world);
        self.finish_reads();
        let problems = self.speculative.judge(&self.world);
        self.violations.extend(problems.into_iter().map(Violation::Speculative));
    }

    fn judge_complete_reads(&mut self) {
        if !self.scenario.complete_reads {
            return;
        }
        let problems = self.complete.judge(&mut self.world);
        self.violations.extend(problems.into_iter().map(Violation::CompleteRead));
    }

    fn judge_bytes(&mut self) {
        for (address, replica) in self.world.replicas() {
            let status = replica.status();
            let (said, (_, counted)) = (status.bytes(), status.versions_and_bytes());
            if said != counted {
                let what = format!("{address:?} reports {said} bytes, but has {counted}");
                self.violations.push(Violation::Miscounted(what));
            }
        }
    }

    fn judge(mut self) -> Report {
        let finals = self.final_reads();
        self.judge_promises();
        self.judge_guards();
        self.judge_occult();
        self.judge_bounds();
        self.judge_complete_reads();
        self.judge_speculation();
        let of_primary = self.primary.judge(&self.world);
        self.violations.extend(of_primary.into_iter().map(Violation::Primary));
        self.violations.extend(self.trial.judge().into_iter().map(Violation::Trial));
        let mut recorded = std::mem::take(&mut self.clients.recorded);
        recorded.append(&mut self.last_round.recorded);
        self.judge_outcomes(&recorded);
        self.judge_bytes();
        let sites = self.scenario.topology.sites();
        let uniform: Vec<Vec<u64>> = self
            .world
            .replicas()
            .filter(|(address, _)| self.world.state(address.site.index()) == SiteState::Up)
            .map(|(_, replica)| entries(&replica.status().view().uniform_vec))
            .collect();
        let removed: BTreeMap<usize, Vec<Gap>> = self.world.removed().collect();
        let destroyed = self.destroyed();
        let mut history = history(&recorded, &self.places, sites, destroyed, &removed, &uniform);
        history.finals = finals;
        let anomalies = solera_checker::check(&history).into_iter().map(Violation::Anomaly);
        self.violations.extend(anomalies);
        let is_known = self.scenario.outage.as_ref().is_some_and(Outage::is_known_to_fail);
        let (known_failures, violations) = self
            .violations
            .into_iter()
            .partition(|violation| is_known && matches!(violation, Violation::TimedOut(_)));
        Report {
            seed: self.scenario.seed,
            transactions: recorded.len(),
            steps: self.world.steps,
            virtual_ms: self.world.now / MS,
            violations,
            known_failures,
            tally: self.world.tally,
            history,
            trace: self.world.trace,
        }
    }

    fn observe(&mut self, events: Vec<WorldEvent>) {
        for world_event in events {
            let Some(world_event) = self.show_sessions(world_event) else { continue };
            match world_event {
                WorldEvent::Bounds(..)
                | WorldEvent::Speculative(..)
                | WorldEvent::SpeculativeStep(..)
                | WorldEvent::SpeculativeStart(..) => {}
                WorldEvent::Wake(client) => {
                    if !self.trial.wake(&mut self.world, client)
                        && !self.primary.wake(&mut self.world, client)
                        && !self.promises.wake(&mut self.world, client)
                        && !self.occult.wake(&mut self.world, client)
                    {
                        self.clients.wake(&mut self.world, client);
                    }
                }
                WorldEvent::Undone(worker, event) => self.undo(worker, &event),
                WorldEvent::SiteDown(site) => {
                    self.clients.site_down(&mut self.world, site);
                    self.promises.site_down(&mut self.world, site);
                    self.primary.site_down(&mut self.world, site);
                    self.occult.site_down(&mut self.world, site);
                    self.trial.site_down(&mut self.world, site);
                }
                WorldEvent::Replaced(site, cut) => self.ledger.closed(site, cut.0),
                WorldEvent::WorkerDown(worker) => {
                    self.clients.worker_down(&mut self.world, worker);
                    self.promises.worker_down(&mut self.world, worker);
                    self.primary.worker_down(&mut self.world, worker);
                    self.occult.worker_down(&mut self.world, worker);
                    self.trial.worker_down(&mut self.world, worker);
                }
                WorldEvent::Refused(from, request) => {
                    if !self.promises.unanswered(&mut self.world, from, request) {
                        self.clients.refused(&mut self.world, from, request);
                    }
                }
                WorldEvent::Unanswered(from, request) => {
                    if !self.promises.unanswered(&mut self.world, from, request) {
                        self.clients.unanswered(&mut self.world, from, request);
                    }
                }
                WorldEvent::Lost(what) => self.violations.push(Violation::Lost(what)),
                WorldEvent::Primary(from, request, response, last) => {
                    self.primary.reply(&mut self.world, (from, request), &response, last);
                }
                WorldEvent::Occult(from, request, response) => {
                    self.occult.reply(&mut self.world, (from, request), response);
                }
                WorldEvent::Shown(entry) => self.occult.shown(&entry),
                WorldEvent::Trial(from, request, response, last) => {
                    self.trial.reply(&mut self.world, (from, request), &response, last);
                }
                WorldEvent::TrialEvent(at, event) => {
                    self.trial.reported(&mut self.world, at, event)
                }
                WorldEvent::Gone { site, generation, members } => {
                    self.trial.gone(&mut self.world, (site, generation), &members);
                }
                WorldEvent::Event(address, event) => self.note(address, &event),
                WorldEvent::Reply(from, request, response) => {
                    self.on_reply(from, request, response);
                }
            }
        }
        let more = self.world.take_events();
        if !more.is_empty() {
            self.observe(more);
        }
    }

    /// Shows an event to sessions that take those which concern only them, and returns the others.
    fn show_sessions(&mut self, event: WorldEvent) -> Option<WorldEvent> {
        let world = &mut self.world;
        let event = self.bounds.observe(world, event)?;
        let event = self.complete.observe(world, event)?;
        let event = self.guarded.observe(world, event)?;
        match self.scenario.speculative {
            Some(_) => self.speculative.observe(world, event),
            None => Some(event),
        }
    }

    /// Gives a reply to the part of the run that waits for it.
    fn on_reply(&mut self, from: Address, request: RequestId, response: Response) {
        if let Some((_, slot)) = self.finals.iter_mut().find(|(other, _)| *other == request) {
            if let Response::Executed { outcome, .. } = response {
                *slot = Some(outcome);
            }
        } else if let Some(response) = self.last_round.reply(self.world.now, request, response)
            && let Some(response) = self.promises.reply(&mut self.world, from, request, response)
        {
            self.clients.reply(&mut self.world, from, request, response);
        }
    }

    fn note(&mut self, address: Address, event: &Event) {
        self.places.note(self.world.generation(address.site.index()), event);
        match event {
            Event::Committed { dot, snap_vec, partitions, .. } => {
                let vector = entries(&snap_vec.with(dot.origin, dot.ts));
                let partitions = numbers(partitions);
                self.ledger.committed(origin(dot.origin), dot.ts.0, vector, &partitions);
            }
            Event::Submitted { cause, tid, snap_vec, partitions, accesses } => {
                let (cause, snap_vec) = (*cause, *snap_vec);
                let (partitions, accesses) = (partitions.clone(), accesses.clone());
                let submission =
                    Submission { cause, snap_vec, partitions, accesses, step: self.world.steps };
                self.outcomes.submit(*tid, submission);
            }
            Event::Certified { tid, ts } => {
                match self.outcomes.report(address, *tid, *ts) {
                    NewOutcome::Committed(ts) => self.note_certified(*tid, ts),
                    NewOutcome::Contradiction(what) => {
                        self.violations.push(Violation::Contradiction(what));
                    }
                    NewOutcome::Aborted | NewOutcome::Nothing => {}
                };
            }
            Event::Stored { partition, dot } => {
                let partition = usize::from(partition.0);
                let site = address.site.index();
                self.ledger.stored(site, partition, origin(dot.origin), dot.ts.0);
            }
            Event::Lacks { .. } => {
                let what = format!("{address:?} lacks what a sibling requests: {event:?}");
                self.violations.push(Violation::Lost(what));
            }
            Event::Filled { partition, known_vec } => {
                let (site, partition) = (address.site.index(), usize::from(partition.0));
                self.ledger.filled(site, partition, &entries(known_vec));
                self.ledger.filled_strong(site, partition, known_vec.strong.0);
            }
            Event::Closed { site, gap } => {
                self.ledger.closed(site.index(), gap.cut.0);
            }
            Event::Ahead { .. } => self.world.tally.count("strong transactions delivered ahead"),
            Event::Reached(path) => self.world.tally.reach(*path),
            Event::Snapshot { .. } => {}
        }
    }

    fn note_certified(&mut self, tid: TransactionId, ts: Timestamp) {
        let Some(Submission { cause, snap_vec, partitions, accesses, .. }) =
            self.outcomes.submission(tid)
        else {
            let what = format!("{tid} committed and was never submitted");
            return self.violations.push(Violation::Contradiction(what));
        };
        let witness = self.places.certify(*cause, snap_vec, ts);
        let (vector, partitions) = (entries(snap_vec), numbers(partitions));
        self.ledger.committed(Origin::Strong, ts.0, vector, &partitions);
        let accesses = accesses.iter().map(|access| Access {
            key: String::from_utf8_lossy(access.key.as_bytes()).into_owned(),
            update: access.update,
            kind: access.kind.number,
            conflicts: access.kind.conflicts,
        });
        if let Err(broken) = self.ledger.certified(witness, accesses.collect()) {
            self.violations.push(Violation::Property(self.world.now / MS, broken));
        }
    }

    fn undo(&mut self, worker: Address, event: &Event) {
        self.places.undo(event);
        match event {
            Event::Committed { dot, .. } => self.ledger.undone(origin(dot.origin), dot.ts.0),
            Event::Certified { tid, .. } => {
                if let Some(ts) = self.outcomes.retract(worker, event)
                    && let Some(submission) = self.outcomes.submission(*tid)
                {
                    self.places.undo_strong(submission.cause, &submission.snap_vec);
                    self.ledger.undone(Origin::Strong, ts.0);
                }
            }
            _ => {}
        }
    }

    /// Checks that clients received the correct outcomes of strong transactions.
    fn judge_outcomes(&mut self, recorded: &[Recorded]) {
        let mut contradictions = Vec::new();
        for recorded in recorded {
            let Some(cause) = recorded.cause else { continue };
            match self.outcomes.has_committed(cause) {
                true => {
                    let what = match recorded.status {
                        Status::Committed => "strong transactions that committed",
                        Status::Unknown => "strong transactions that committed unknown to clients",
                        Status::Aborted => {
                            contradictions
                                .push(format!("reported as aborted, but committed: {recorded:?}"));
                            continue;
                        }
                    };
                    self.world.tally.count(what);
                }
                false if self.outcomes.was_submitted(cause) => match recorded.status {
                    Status::Committed => {
                        contradictions.push(format!("no worker committed {recorded:?}"));
                    }
                    _ => self.world.tally.count("strong transactions that did not commit"),
                },
                false => {}
            }
        }
        let mut reported = std::mem::take(&mut self.clients.outcomes);
        contradictions.extend(self.names_given_twice());
        reported.extend(self.outcomes_of_names());
        for (tid, reported) in reported {
            self.world.tally.count("outcomes asked for");
            let truth = self.outcomes.committed(tid).unwrap_or(false);
            if reported.is_some_and(|reported| reported != truth) {
                contradictions
                    .push(format!("the outcome of {tid} was reported to be {reported:?}"));
            }
        }
        self.violations.extend(contradictions.into_iter().map(Violation::Contradiction));
    }

    /// Returns the final report of each site about the transactions whose names clients know, as
    /// [`Command::Outcome`](solera_unistore::Command::Outcome) does: from all of its workers and
    /// the coordinator's.
    fn outcomes_of_names(&self) -> Vec<(TransactionId, Option<bool>)> {
        let sites = SiteId::all(self.scenario.topology.sites());
        let up = sites.filter(|site| self.world.state(site.index()) == SiteState::Up);
        // A transaction whose accesses need no order commits without certification. An earlier run
        // of the worker may have submitted another transaction under the same name, if its records
        // were not durable; no client has received that name.
        let is_certified = |(tid, cause, _): &&(TransactionId, Cause, u64)| {
            self.outcomes.submission(*tid).is_some_and(|submission| submission.cause == *cause)
        };
        let certified = self.clients.names.iter().filter(is_certified);
        let names: Vec<TransactionId> = certified.map(|(tid, ..)| *tid).collect();
        let mut reported = Vec::new();
        for site in up {
            for tid in &names {
                let asked = self
                    .world
                    .replicas()
                    .filter(|(address, _)| address.site == site || **address == tid.coordinator);
                let outcomes = asked.map(|(_, replica)| replica.status().outcome(*tid));
                reported.push((*tid, outcomes.max().flatten()));
            }
        }
        reported
    }

    /// Returns names that clients received, and that were later given to other transactions.
    fn names_given_twice(&self) -> Vec<String> {
        let given_twice = |(tid, cause, sent): &(TransactionId, Cause, u64)| {
            let submission = self.outcomes.submission(*tid)?;
            let is_later = submission.cause != *cause && submission.step > *sent;
            is_later.then(|| format!("{tid} is {cause:?} and then {:?}", submission.cause))
        };
        self.clients.names.iter().filter_map(given_twice).collect()
    }

    fn check_properties(&mut self) {
        let sites = self.scenario.topology.sites();
        let partitions = usize::from(self.scenario.topology.partitions);
        let mut vectors = Vectors {
            known_vec: vec![vec![Vec::new(); partitions]; sites],
            stable_vec: vec![Vec::new(); sites],
            uniform_vec: vec![Vec::new(); sites],
            known_strong: vec![vec![0; partitions]; sites],
            stable_strong: vec![Vec::new(); sites],
        };
        for site in SiteId::all(sites) {
            for partition in 0..self.scenario.topology.partitions {
                let owner = self.scenario.topology.owner(site, PartitionId(partition));
                let claims = self.world.claims(owner);
                vectors.known_vec[site.index()][usize::from(partition)] = entries(&claims);
                vectors.known_strong[site.index()][usize::from(partition)] = claims.strong.0;
            }
        }
        for (address, replica) in self.world.replicas() {
            let site = address.site.index();
            // A joining site makes claims about its data only once it serves.
            if self.world.is_joining(site) {
                continue;
            }
            let status = replica.status();
            for (partition, known_vec) in status.known_vecs() {
                let known = &mut vectors.known_vec[site][usize::from(partition.0)];
                known.resize(sites, 0);
                let now = entries(&known_vec);
                known.iter_mut().zip(now).for_each(|(known, now)| *known = now.max(*known));
                let known = &mut vectors.known_strong[site][usize::from(partition.0)];
                *known = known_vec.strong.0.max(*known);
            }
            vectors.stable_vec[site].push(entries(&status.view().stable_vec));
            vectors.stable_strong[site].push(status.view().stable_vec.strong.0);
            vectors.uniform_vec[site].push(entries(&status.view().uniform_vec));
        }
        if let Err(broken) = self.ledger.check(&vectors)
            && !matches!(self.violations.last(), Some(Violation::Property(_, last)) if *last == broken)
        {
            self.violations.push(Violation::Property(self.world.now / MS, broken));
        }
    }

    fn destroyed(&self) -> Vec<usize> {
        (0..self.scenario.topology.sites())
            .filter(|site| self.world.state(*site) == SiteState::Destroyed)
            .collect()
    }

    /// Reads every key in every way at every surviving site.
    fn final_reads(&mut self) -> Vec<FinalRead> {
        let sites = self.scenario.topology.sites();
        let mut asked: Vec<(usize, Key)> = Vec::new();
        for site in (0..sites).filter(|site| self.world.state(*site) == SiteState::Up) {
            for key in self.clients.keys() {
                asked.push((site, key));
            }
        }
        let ops = [Op::Get, Op::SetMembers, Op::HashGetAll];
        for (number, (site, key)) in asked.iter().enumerate() {
            for (part, op) in ops.iter().enumerate() {
                let request = RequestId(u64::MAX - (number * ops.len() + part) as u64);
                self.finals.push((request, None));
                let level = if key.starts_with(b"e") { Level::Eventual } else { Level::Causal };
                let (key, op, past) = (key.clone(), op.clone(), Vector::zero(sites));
                let to = Address { site: SiteId(*site as u8), worker: 0 };
                self.world.command(to, request, Command::Execute { past, level, key, op });
                let events = self.world.take_events();
                self.observe(events);
            }
        }
        self.load(self.world.now + 500 * MS);
        let answers: Vec<_> = self.finals.iter().map(|(_, answer)| answer.clone()).collect();
        asked
            .into_iter()
            .zip(answers.chunks(ops.len()))
            .filter_map(|((site, key), answers)| {
                let [get, members, pairs] = answers else { return None };
                let answers =
                    [answer(get.as_ref()?), answer(members.as_ref()?), answer(pairs.as_ref()?)];
                Some(FinalRead { site, key: key.to_string(), answers })
            })
            .collect()
    }
}

fn numbers(partitions: &[PartitionId]) -> Vec<usize> {
    partitions.iter().map(|partition| usize::from(partition.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        for seed in [1, 2, 3] {
            let scenario = Scenario::from_seed(seed);
            let first = run(&scenario, Trace::on());
            let second = run(&scenario, Trace::on());
            assert!(!first.trace.bytes().is_empty());
            assert!(first.trace.bytes() == second.trace.bytes(), "seed {seed}");
        }
    }

    #[test]
    fn a_few_seeds_are_clean() {
        for seed in 0..12 {
            let report = run(&Scenario::from_seed(seed), Trace::off());
            assert!(report.violations.is_empty(), "seed {seed}: {}", report.violations[0]);
        }
    }
}
