//! Runs the transactions of a worker's clients: reads, prepares and commits, and repeats unanswered
//! requests.

mod committing;
mod ended;
mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_data::{Effect, Key, Op};
use solera_machine::{Address, Latest, Now, RequestId};
use solera_time::{Monotonic, SiteId};

use self::committing::{Committing, Executing, Preparing};
use self::reading::Reading;
use crate::client::Transaction;
use crate::command::{AbortCause, Command, OnStale, ReadCounts, Response};
use crate::config::{Config, Rule};
use crate::message::{Body, ClientId, TransactionId};
use crate::outbox::Outbox;
use crate::passed::{NO_LIMIT, Passed};
use crate::shard::{Homes, ShardId, Stamp};
use crate::snapshot::{Peaks, raise};
use crate::timestamp::CausalTimestamp;

/// The event for which a transaction waits.
#[derive(Debug)]
enum Stage {
    /// The client's next command.
    Idle,
    Reading(Reading),
    Preparing(Preparing),
    Committing(Committing),
    Executing(Executing),
    /// No event: the outcome arrived after the client had stopped waiting.
    Ended(Response),
}

/// An open transaction.
#[derive(Debug)]
struct Open {
    transaction: Transaction,
    stage: Stage,
    /// Whether it is a single operation, for which the client has not begun a transaction.
    single: bool,
    on_stale: OnStale,
    /// Number of the attempt to commit it; 0 before the first one. Homes know the transaction by
    /// this number.
    attempt: u64,
    /// Time of its last command, or when its outcome arrived.
    used: Monotonic,
}

/// Returns the number of a process's first read. A copy may answer a read of an earlier process of
/// the worker, so the numbers of different starts lie far apart.
fn first_read(incarnation: u64) -> u64 {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    incarnation.wrapping_mul(SPREAD) >> 8
}

/// The open transactions of a worker's clients.
#[derive(Debug)]
pub(crate) struct Gateway {
    id: ClientId,
    /// Number of the next transaction.
    next: u64,
    /// Number of the next read.
    next_read: u64,
    open: BTreeMap<u64, Open>,
    /// The transaction of each read that has no answer yet.
    reads: BTreeMap<u64, u64>,
    /// The transactions that wait for an answer.
    active: BTreeSet<u64>,
    /// Number of the next attempt to commit a transaction.
    next_attempt: u64,
    /// The transaction of each attempt that has not ended.
    attempts: BTreeMap<u64, u64>,
    /// The workers that may have records of this client, and the `oldest` that was sent to each.
    informed: BTreeMap<Address, u64>,
    /// Time until which reads of a shard go straight to its home, because its replica was too slow.
    slow: BTreeMap<ShardId, Monotonic>,
    /// The greatest stamps on which committed writes of its clients depend, and the stamps of these
    /// writes.
    written: Peaks,
    /// Whether each of the latest transactions that have ended has committed, by its number.
    ended: Latest<u64, bool>,
}

/// The data that the gateway needs besides its own state.
pub(crate) struct Context<'a> {
    pub(crate) config: &'a Config,
    pub(crate) homes: &'a Homes,
    pub(crate) out: &'a mut Outbox,
    pub(crate) now: Now,
    pub(crate) passed: &'a Passed,
}

impl Context<'_> {
    fn home_of(&self, key: &Key) -> (ShardId, SiteId, Address) {
        let shard = self.config.shard_of(key);
        let site = self.homes.home(shard);
        (shard, site, self.config.owner(site, shard))
    }

    fn has_timed_out(&self, since: Monotonic) -> bool {
        self.now.monotonic.since(since) >= self.config.timing.timeout
    }

    /// Returns the time at which a message that is sent now is repeated if it gets no answer.
    fn retry_at(&self) -> Monotonic {
        self.now.monotonic.after(self.config.timing.retry)
    }

    fn is_due(&self, next: Monotonic) -> bool {
        self.now.monotonic >= next
    }
}

impl Gateway {
    pub(crate) fn new(config: &Config) -> Gateway {
        Gateway {
            id: ClientId { address: config.address, incarnation: config.incarnation },
            next: 1,
            next_read: first_read(config.incarnation),
            open: BTreeMap::new(),
            reads: BTreeMap::new(),
            active: BTreeSet::new(),
            next_attempt: 1,
            attempts: BTreeMap::new(),
            informed: BTreeMap::new(),
            slow: BTreeMap::new(),
            written: Peaks::new(),
            ended: Latest::new(ended::KEPT),
        }
    }

    /// Returns the identifier by which homes know the present attempt of a transaction.
    fn tid(&self, number: u64) -> TransactionId {
        let attempt = self.open.get(&number).map_or(0, |open| open.attempt);
        TransactionId { client: self.id, number: attempt }
    }

    /// Begins an attempt to commit a transaction. A transaction that merely stays open has no
    /// attempt, so that homes need not keep outcomes because of it.
    fn begin_attempt(&mut self, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        open.attempt = self.next_attempt;
        self.attempts.insert(open.attempt, number);
        self.next_attempt += 1;
    }

    /// Executes a client's command.
    pub(crate) fn on_command(
        &mut self,
        context: &mut Context<'_>,
        request: RequestId,
        command: Command,
    ) {
        match command {
            Command::Begin { past, on_stale } => {
                let number = self.begin(past, (false, on_stale), context.now.monotonic);
                context.out.reply(request, Response::Begun(number));
            }
            Command::Execute { past, key, op, on_stale } => {
                let number = self.begin(past, (true, on_stale), context.now.monotonic);
                if op.is_update() {
                    self.execute(context, request, number, vec![(key, op)]);
                } else {
                    self.read(context, request, number, (key, op));
                }
            }
            Command::Operate { transaction, key, op, validates } => {
                self.operate(context, request, (transaction, key, op), validates);
            }
            Command::Commit { transaction } => match self.is_idle(transaction) {
                true => self.commit(context, request, transaction),
                false => context.out.reply(request, Response::NoSuchTransaction),
            },
            Command::Certify { transaction } => match self.is_idle(transaction) {
                true => self.certify(context, request, transaction),
                false => context.out.reply(request, Response::NoSuchTransaction),
            },
            Command::Await { transaction } => self.await_outcome(context, request, transaction),
            Command::Abort { transaction } => self.abandon(context, request, transaction),
            // The machine answers these itself.
            Command::Barrier { .. }
            | Command::Unstored { .. }
            | Command::Horizon
            | Command::Move(_)
            | Command::Moves
            | Command::Outcome { .. }
            | Command::Slow { .. }
            | Command::Snapshot(_) => {}
        }
    }

    /// Replies with the outcome of a transaction once it is known.
    fn await_outcome(&mut self, context: &mut Context<'_>, request: RequestId, number: u64) {
        let now = context.now.monotonic;
        match self.open.get_mut(&number).map(|open| &mut open.stage) {
            Some(Stage::Executing(executing)) => {
                (executing.request, executing.since) = (Some(request), now);
            }
            Some(Stage::Ended(reply)) => {
                let reply = reply.clone();
                self.end(context, number, request, reply);
            }
            _ => context.out.reply(request, Response::NoSuchTransaction),
        }
    }

    /// Aborts a transaction, or stops waiting for its outcome.
    fn abandon(&mut self, context: &mut Context<'_>, request: RequestId, number: u64) {
        match self.open.get_mut(&number).map(|open| &mut open.stage) {
            Some(Stage::Idle | Stage::Ended(_)) => {
                self.end(context, number, request, Response::Aborted(AbortCause::Given));
            }
            Some(Stage::Reading(reading)) => {
                let read = reading.number();
                self.reads.remove(&read);
                self.end(context, number, request, Response::Aborted(AbortCause::Given));
            }
            Some(Stage::Executing(executing)) => {
                (executing.request, executing.abandoned) = (None, true);
                context.out.reply(request, Response::Aborted(AbortCause::Given));
            }
            _ => context.out.reply(request, Response::NoSuchTransaction),
        }
    }

    fn begin(
        &mut self,
        past: CausalTimestamp,
        (single, on_stale): (bool, OnStale),
        used: Monotonic,
    ) -> u64 {
        let number = self.next;
        self.next += 1;
        let transaction = Transaction::new(past);
        self.open.insert(
            number,
            Open { transaction, stage: Stage::Idle, single, on_stale, attempt: 0, used },
        );
        number
    }

    fn is_idle(&self, number: u64) -> bool {
        self.open.get(&number).is_some_and(|open| matches!(open.stage, Stage::Idle))
    }

    /// Executes an operation in a transaction. An assignment requires no read.
    fn operate(
        &mut self,
        context: &mut Context<'_>,
        request: RequestId,
        (number, key, op): (u64, Key, Op),
        validates: bool,
    ) {
        if !self.is_idle(number) {
            return context.out.reply(request, Response::NoSuchTransaction);
        }
        if let Some(open) = self.open.get_mut(&number) {
            open.used = context.now.monotonic;
            if validates {
                open.transaction.add_write(key.clone(), Effect::default());
            }
        }
        if matches!(op, Op::Set(_)) {
            let open = self.open.get_mut(&number).expect("it is open");
            let absent = solera_data::State::new();
            let view = solera_data::View::new(&absent).own(open.transaction.own(&key));
            let executed = solera_data::execute(&op, &view);
            let result = executed.map(|(outcome, effect)| {
                if let Some(effect) = effect {
                    open.transaction.add_write(key, effect);
                }
                outcome
            });
            return context.out.reply(request, Response::Done(result, ReadCounts::default()));
        }
        self.read(context, request, number, (key, op));
    }

    /// Ends a transaction.
    fn end(&mut self, context: &mut Context<'_>, number: u64, request: RequestId, reply: Response) {
        self.note_end(number, &reply);
        self.remove(number);
        context.out.reply(request, reply);
    }

    fn remove(&mut self, number: u64) {
        if let Some(open) = self.open.remove(&number) {
            self.attempts.remove(&open.attempt);
        }
        self.active.remove(&number);
    }

    /// Aborts transactions that their clients have not used for `timeout`, and forgets outcomes for
    /// which no client has asked within that time.
    pub(crate) fn end_idle(&mut self, now: Monotonic, timeout: Duration) {
        let is_idle = |open: &Open| matches!(open.stage, Stage::Idle | Stage::Ended(_));
        self.open.retain(|_, open| !is_idle(open) || now.since(open.used) < timeout);
    }

    /// Puts a transaction into a stage in which it waits for answers.
    fn wait(&mut self, number: u64, stage: Stage) {
        if let Some(open) = self.open.get_mut(&number) {
            open.stage = stage;
            self.active.insert(number);
        }
    }

    /// Ends a request whose client does not wait for the reply any more. A transaction that may
    /// have written continues without the client.
    pub(crate) fn cancel(&mut self, request: RequestId) {
        let is_reading = |open: &Open| matches!(&open.stage, Stage::Reading(reading) if reading.request() == request);
        let found = self.active.iter().find(|number| self.open.get(number).is_some_and(is_reading));
        if let Some(number) = found.copied() {
            self.open.remove(&number);
            self.active.remove(&number);
        }
    }

    /// Returns the least shardstamp that an open transaction has read in a shard with this home.
    pub(crate) fn least_read(&self, site: SiteId, homes: &Homes) -> Stamp {
        let reads = self.open.values().flat_map(|open| open.transaction.reads());
        let here = reads.filter(|(shard, _)| homes.home(*shard) == site);
        here.map(|(_, shown)| shown).min().unwrap_or(NO_LIMIT)
    }

    /// Returns whether transactions wait for answers.
    pub(crate) fn waits(&self) -> bool {
        !self.active.is_empty()
    }

    /// Returns the number of open transactions.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Returns the past with which the session continues after a commit.
    fn next_past(context: &Context<'_>, of: CausalTimestamp) -> CausalTimestamp {
        match context.config.has(Rule::SessionOrder) {
            true => of,
            false => CausalTimestamp::new(of.scheme()),
        }
    }

    /// Notes the timestamp of a committed write.
    fn note_written(&mut self, timestamp: &CausalTimestamp) {
        raise(&mut self.written, timestamp.peaks());
    }

    /// Returns the greatest stamps on which committed writes of this worker's clients depend.
    pub(crate) fn written(&self) -> &Peaks {
        &self.written
    }

    /// Returns the smallest number for which this client may still send messages to homes.
    fn oldest(&self) -> u64 {
        self.attempts.keys().next().copied().unwrap_or(self.next_attempt)
    }

    /// Sends a message to a home, and notes that the home has learned `oldest` from it.
    fn send_to_home(&mut self, context: &mut Context<'_>, to: Address, message: Body) {
        if matches!(message, Body::Execute(_) | Body::Prepare(_)) {
            self.informed.insert(to, self.oldest());
        }
        context.out.send(to, message);
    }

    /// Repeats requests without an answer, and gives up those that have waited too long.
    pub(crate) fn on_tick(&mut self, context: &mut Context<'_>) {
        let numbers: Vec<u64> = self.active.iter().copied().collect();
        for number in numbers {
            match self.open.get(&number).map(|open| &open.stage) {
                Some(Stage::Reading(_)) => self.repeat_read(context, number),
                Some(Stage::Preparing(_)) => self.repeat_prepares(context, number),
                Some(Stage::Committing(_)) => self.repeat_commit(context, number),
                Some(Stage::Executing(_)) => self.repeat_execute(context, number),
                Some(Stage::Idle | Stage::Ended(_)) | None => {}
            }
        }
    }

    /// Sends `oldest` to homes that have not received its present value.
    pub(crate) fn send_oldest(&mut self, context: &mut Context<'_>) {
        let oldest = self.oldest();
        let behind: Vec<Address> =
            self.informed.iter().filter(|(_, known)| **known < oldest).map(|(to, _)| *to).collect();
        for to in behind {
            self.informed.insert(to, oldest);
            context.out.send(to, Body::Oldest(self.id, oldest));
        }
    }
}
