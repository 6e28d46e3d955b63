//! The machine of one worker: homes, replicas, and the transactions of its clients.

use solera_machine::{Address, Now, RequestId};
use solera_time::{Monotonic, Physical};

use crate::command::{Command, Response};
use crate::config::Config;
use crate::gateway::{self, Gateway};
use crate::home::{self, Home};
use crate::message::{Body, Read};
use crate::outbox::{Out, Outbox};
use crate::record::Record;
use crate::replica::Replica;
use crate::shard::Homes;
use crate::store::Store;

/// An output of a worker.
#[derive(Debug)]
pub enum Output {
    /// A record for the journal. What follows must not leave before it is durable.
    Record(Box<Record>),
    /// A message to another worker.
    Send {
        /// The receiver.
        to: Address,
        /// The message.
        body: Body,
    },
    /// The reply to a command.
    Reply {
        /// The command's request.
        request: RequestId,
        /// The reply.
        response: Response,
    },
}

/// The machine of one worker.
#[derive(Debug)]
pub struct Occult {
    config: Config,
    homes: Homes,
    store: Store,
    home: Home,
    replica: Replica,
    gateway: Gateway,
    out: Outbox,
}

impl Occult {
    /// Creates the machine of a worker that stores nothing.
    pub fn new(config: Config, homes: Homes) -> Occult {
        Occult {
            store: Store::new(config.scheme),
            home: Home::new(config.incarnation),
            replica: Replica::default(),
            gateway: Gateway::new(&config),
            out: Outbox::default(),
            config,
            homes,
        }
    }

    /// Rebuilds a worker from its records. Open transactions of its clients are gone. The
    /// configuration has a greater incarnation than before.
    pub fn recover(
        config: Config,
        homes: Homes,
        records: impl IntoIterator<Item = Record>,
    ) -> Occult {
        let mut worker = Occult::new(config, homes);
        let now = Now { monotonic: Monotonic(0), physical: Physical(0) };
        for record in records {
            match record {
                Record::Batch(from, batch) => {
                    worker.replica.recover_batch(&mut worker.store, from, batch);
                }
                Record::Copies { from, start, position, copies } => {
                    let at = (start, position);
                    worker.replica.on_copies(&mut worker.store, from, at, copies);
                }
                record => worker.with_home(now, |home, context| home.recover(context, record)),
            }
        }
        // What these steps sent was sent before the restart, or its sender repeats it.
        worker.out = Outbox::default();
        worker.with_home(now, |home, context| home.recovered(context));
        worker
    }

    /// Handles a message. Links are FIFO and may lose messages.
    pub fn on_message(&mut self, now: Now, from: Address, body: Body) {
        self.dispatch(now, from, body);
        self.finish(now);
    }

    /// Handles a command of a client.
    pub fn on_command(&mut self, now: Now, request: RequestId, command: Command) {
        self.with_gateway(now, |it, context| it.on_command(context, request, command));
        self.finish(now);
    }

    /// Sends messages again that have no answer, ends transactions that have expired, and publishes
    /// how far shards are shown. Must be called about every millisecond.
    pub fn on_tick(&mut self, now: Now) {
        self.with_home(now, |home, context| home.on_tick(context));
        self.with_gateway(now, |it, context| it.on_tick(context));
        self.finish(now);
    }

    /// Returns the next output.
    pub fn poll_output(&mut self) -> Option<Output> {
        Some(match self.out.pop()? {
            Out::Record(record) => Output::Record(record),
            Out::Send(to, body) => Output::Send { to, body },
            Out::Reply(request, response) => Output::Reply { request, response },
        })
    }

    /// Returns the number of prepared transactions, of records of ended ones, and of writes that
    /// are committed but not shown yet.
    pub fn unfinished(&self) -> (usize, usize, usize) {
        let (prepared, records) = self.home.unfinished();
        (prepared, records, self.store.hidden())
    }

    /// Sends new entries to replicas, and handles this worker's messages to itself.
    fn finish(&mut self, now: Now) {
        let mut others = Outbox::default();
        loop {
            self.with_home(now, |home, context| home.stream(context));
            let mut own = Vec::new();
            while let Some(out) = self.out.pop() {
                match out {
                    Out::Record(record) => others.record(*record),
                    Out::Send(to, body) if to == self.config.address => own.push(body),
                    Out::Send(to, body) => others.send(to, body),
                    Out::Reply(request, response) => others.reply(request, response),
                }
            }
            if own.is_empty() {
                break;
            }
            for body in own {
                self.dispatch(now, self.config.address, body);
            }
        }
        self.out = others;
    }

    fn with_home(&mut self, now: Now, action: impl FnOnce(&mut Home, &mut home::Context<'_>)) {
        let mut context = home::Context {
            config: &self.config,
            homes: &self.homes,
            store: &mut self.store,
            out: &mut self.out,
            now,
        };
        action(&mut self.home, &mut context);
    }

    fn with_gateway(
        &mut self,
        now: Now,
        action: impl FnOnce(&mut Gateway, &mut gateway::Context<'_>),
    ) {
        let mut context =
            gateway::Context { config: &self.config, homes: &self.homes, out: &mut self.out, now };
        action(&mut self.gateway, &mut context);
    }

    fn dispatch(&mut self, now: Now, from: Address, body: Body) {
        match body {
            Body::Read(read) => self.on_read(now, from, read),
            Body::ReadAnswer(answer) => {
                self.with_gateway(now, |it, context| it.on_read_answer(context, answer));
            }
            Body::Prepare(prepare) => {
                self.with_home(now, |it, context| it.on_prepare(context, from, prepare));
            }
            Body::Prepared(tid, assigned, overwritten) => self.with_gateway(now, |it, context| {
                it.on_prepared(context, from, tid, (assigned, overwritten));
            }),
            Body::Locked(tid, key) => {
                self.with_gateway(now, |it, context| it.on_locked(context, from, tid, key));
            }
            Body::Abort(tid) => self.with_home(now, |it, context| it.on_abort(context, tid)),
            Body::Commit(tid, commit, participants) => self.with_home(now, |it, context| {
                it.on_commit(context, from, (tid, commit), participants);
            }),
            Body::Outcome(tid, committed) => {
                self.with_gateway(now, |it, context| it.on_outcome(context, tid, committed));
            }
            Body::Decided(tid, decision) => {
                self.with_home(now, |it, context| it.on_decided(context, from, tid, &decision));
            }
            Body::Applied(tid) => {
                self.with_home(now, |it, context| it.on_applied(context, from, tid));
            }
            Body::Query(tid) => {
                self.with_home(now, |it, context| it.on_query(context, from, tid));
            }
            Body::Resolve(tid) => {
                self.with_home(now, |it, context| it.on_resolve(context, from, tid));
            }
            Body::Execute(execute) => {
                self.with_home(now, |it, context| it.on_execute(context, from, execute));
            }
            Body::Executed(tid, executed) => {
                self.with_gateway(now, |it, context| it.on_executed(context, tid, executed));
            }
            Body::Oldest(client, oldest) => self.home.on_oldest(client, oldest),
            Body::Batch(batch) => {
                let with = (&self.config, now.monotonic);
                self.replica.on_batch(with, &mut self.store, &mut self.out, from, batch);
            }
            Body::Ask(start, position, shown) => self.with_home(now, |it, context| {
                it.on_ask(context, from, (start, position), shown);
            }),
            Body::Copies { start, position, copies } => {
                let record = Record::Copies { from, start, position, copies: copies.clone() };
                self.out.record(record);
                self.replica.on_copies(&mut self.store, from, (start, position), copies);
            }
        }
    }

    fn on_read(&mut self, now: Now, from: Address, read: Read) {
        let shard = self.config.shard_of(&read.key);
        let site = self.homes.home(shard);
        if site == self.config.address.site {
            return self.with_home(now, |it, context| it.on_read(context, from, read));
        }
        let home = self.config.owner(site, shard);
        self.replica.on_read(&self.config, &self.store, &mut self.out, (from, home), &read);
    }
}
