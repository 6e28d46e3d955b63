//! Runs the transactions of a worker's clients: reads, prepares and commits, and sends again what
//! has no answer.

mod committing;
mod reading;

use std::collections::BTreeMap;

use solera_data::{Key, Op};
use solera_machine::{Address, Now, RequestId};
use solera_time::{Monotonic, SiteId};

use self::committing::{Committing, Executing, Preparing};
use self::reading::Reading;
use crate::client::Transaction;
use crate::command::{AbortCause, Command, Response};
use crate::config::{Config, Rule};
use crate::message::{Body, ClientId, TransactionId};
use crate::outbox::Outbox;
use crate::shard::{Homes, ShardId};
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
}

/// An open transaction.
#[derive(Debug)]
struct Open {
    transaction: Transaction,
    stage: Stage,
    /// Whether it is a single operation, for which the client has not begun a transaction.
    single: bool,
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
    /// The workers that may have records of this client, and the `oldest` that was sent to each.
    informed: BTreeMap<Address, u64>,
}

/// The data that the gateway needs besides its own state.
pub(crate) struct Context<'a> {
    pub(crate) config: &'a Config,
    pub(crate) homes: &'a Homes,
    pub(crate) out: &'a mut Outbox,
    pub(crate) now: Now,
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

    /// Returns when a message that is sent now is sent again, if it gets no answer.
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
            next_read: 1,
            open: BTreeMap::new(),
            reads: BTreeMap::new(),
            informed: BTreeMap::new(),
        }
    }

    fn tid(&self, number: u64) -> TransactionId {
        TransactionId { client: self.id, number }
    }

    /// Executes a client's command.
    pub(crate) fn on_command(
        &mut self,
        context: &mut Context<'_>,
        request: RequestId,
        command: Command,
    ) {
        match command {
            Command::Begin { past } => {
                let number = self.begin(past, false);
                context.out.reply(request, Response::Begun(number));
            }
            Command::Execute { past, key, op } => {
                let number = self.begin(past, true);
                if op.is_update() {
                    self.execute(context, request, number, vec![(key, op)]);
                } else {
                    self.read(context, request, number, key, op);
                }
            }
            Command::Operate { transaction, key, op } => {
                self.operate(context, request, (transaction, key, op));
            }
            Command::Commit { transaction } => match self.is_idle(transaction) {
                true => self.commit(context, request, transaction),
                false => context.out.reply(request, Response::NoSuchTransaction),
            },
            Command::Abort { transaction } => {
                if self.is_idle(transaction) {
                    self.open.remove(&transaction);
                    context.out.reply(request, Response::Aborted(AbortCause::Given));
                } else {
                    context.out.reply(request, Response::NoSuchTransaction);
                }
            }
        }
    }

    fn begin(&mut self, past: CausalTimestamp, single: bool) -> u64 {
        let number = self.next;
        self.next += 1;
        let transaction = Transaction::new(past);
        self.open.insert(number, Open { transaction, stage: Stage::Idle, single });
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
    ) {
        if !self.is_idle(number) {
            return context.out.reply(request, Response::NoSuchTransaction);
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
            return context.out.reply(request, Response::Done(result));
        }
        self.read(context, request, number, key, op);
    }

    /// Ends a transaction.
    fn end(&mut self, context: &mut Context<'_>, number: u64, request: RequestId, reply: Response) {
        self.open.remove(&number);
        context.out.reply(request, reply);
    }

    /// Returns the past with which the session continues after a commit.
    fn next_past(context: &Context<'_>, of: CausalTimestamp) -> CausalTimestamp {
        match context.config.has(Rule::SessionOrder) {
            true => of,
            false => CausalTimestamp::new(of.scheme()),
        }
    }

    /// Returns the smallest number for which this client may still send messages to homes.
    fn oldest(&self) -> u64 {
        self.open.keys().next().copied().unwrap_or(self.next)
    }

    /// Sends a message to a home. Before, sends the number below which this client sends nothing
    /// more, if the home does not know it yet.
    fn send_to_home(&mut self, context: &mut Context<'_>, to: Address, body: Body) {
        let oldest = self.oldest();
        if self.informed.get(&to).is_none_or(|known| *known < oldest) {
            self.informed.insert(to, oldest);
            context.out.send(to, Body::Oldest(self.id, oldest));
        }
        context.out.send(to, body);
    }

    /// Sends again what has no answer, and gives up what has waited too long.
    pub(crate) fn on_tick(&mut self, context: &mut Context<'_>) {
        let numbers: Vec<u64> = self.open.keys().copied().collect();
        for number in numbers {
            match self.open.get(&number).map(|open| &open.stage) {
                Some(Stage::Reading(_)) => self.repeat_read(context, number),
                Some(Stage::Preparing(_)) => self.repeat_prepares(context, number),
                Some(Stage::Committing(_)) => self.repeat_commit(context, number),
                Some(Stage::Executing(_)) => self.repeat_execute(context, number),
                Some(Stage::Idle) | None => {}
            }
        }
        let oldest = self.oldest();
        let behind: Vec<Address> =
            self.informed.iter().filter(|(_, known)| **known < oldest).map(|(to, _)| *to).collect();
        for to in behind {
            self.informed.insert(to, oldest);
            context.out.send(to, Body::Oldest(self.id, oldest));
        }
    }
}
