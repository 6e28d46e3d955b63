//! A client's session: its pasts, its transaction, and the way of each command.

mod operations;
mod queue;
mod rights;
mod strong;
mod told;
mod transaction;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use solera_commands::{Command as Described, CommandId, lookup};
use solera_config::{Baseline, User};
use solera_data::Op;
use solera_levels::Level;
use solera_machine::Now;
use solera_resp::{Arguments, Protocol, Writer};
use solera_time::Vector;
use solera_unistore::{Command, CommandError, Pasts, TxId};

use self::queue::Queue;
use self::strong::Watched;
use self::transaction::GivenUp;
use crate::auth::Identity;
use crate::clients::{Client, Clients};
use crate::commands;
use crate::lent::Lent;
use crate::membership::refused_by;
use crate::worker::Worker;

/// What becomes of the connection after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Stay,
    Close,
}

/// Whether the client wants replies (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// The next command's is left out; this one has none.
    SkipNext,
    /// This command's is left out.
    Skip,
}

/// One connection's state. Its operations see one another, and all that it has seen before.
pub(crate) struct Session {
    pub(crate) worker: Rc<Worker>,
    pub(crate) out: Writer,
    /// The time of the current batch.
    pub(crate) now: Now,
    /// The session's causal past, which its operations see, and its durability past.
    pub(crate) pasts: Pasts,
    /// The client, as others see it.
    pub(crate) client: Arc<Client>,
    pub(crate) name: String,
    /// The client library's name and version.
    pub(crate) library: (String, String),
    pub(crate) last_command: &'static str,
    pub(crate) replies: Replies,
    /// Which user the client is.
    pub(crate) identity: Rc<Identity>,
    /// What it has of the session for which it acts, if it does.
    lent: Option<Lent>,
    /// Where the client is, if not in this process.
    pub(crate) from: Option<SocketAddr>,
    queue: Option<Queue>,
    /// The open transaction.
    tx: Option<TxId>,
    /// Whether it will be certified.
    tx_is_strong: bool,
    /// Whether a command in it may write.
    tx_writes: bool,
    /// The keys that the next EXEC or SOLERA.BEGIN STRONG depends on.
    watched: Vec<Watched>,
    /// What the session's last strong transaction has come to, if it aborted.
    conflict: Option<strong::Conflict>,
    /// Who began the interactive transaction, with the rules that held then.
    began_as: Option<Arc<User>>,
    /// Why the interactive transaction was given up: the first error in it. What the client sends until
    /// it ends the transaction must not run outside.
    given_up: Option<GivenUp>,
    /// Why EXEC gave its transaction up.
    exec_failed: Option<String>,
    /// Which process ran each worker of the site when the transaction's snapshot was first scanned.
    pub(crate) scanned: Option<(TxId, Vec<Option<u64>>)>,
}

impl Session {
    pub(crate) fn new(worker: Rc<Worker>, client: Arc<Client>, from: Option<SocketAddr>) -> Self {
        Session {
            out: Writer::default(),
            now: worker.now(),
            pasts: Pasts::none(worker.spec.sites.len()),
            client,
            name: String::new(),
            library: Default::default(),
            last_command: "NULL",
            replies: Replies::On,
            identity: Rc::new(Identity::new(&worker.users())),
            lent: None,
            from,
            queue: None,
            tx: None,
            tx_is_strong: false,
            tx_writes: false,
            watched: Vec::new(),
            conflict: None,
            began_as: None,
            given_up: None,
            exec_failed: None,
            scanned: None,
            worker,
        }
    }

    /// The client is gone: its open transaction has no effect.
    pub(crate) fn close(&mut self) {
        if let Some(tx) = self.tx.take() {
            self.worker.tell(Command::Abort { tx });
        }
    }

    /// RESET: as if the client had connected anew, both pasts included.
    pub(crate) fn reset(&mut self) {
        self.close();
        self.given_up = None;
        self.queue = None;
        self.watched.clear();
        self.conflict = None;
        self.name.clear();
        self.identity.reset(&self.worker.users());
        self.replies = Replies::On;
        self.out.protocol = Protocol::Resp2;
        self.pasts = Pasts::none(self.worker.spec.sites.len());
    }

    /// The clients of the site in this process.
    pub(crate) fn clients(&self) -> &Arc<Clients> {
        self.worker.network.clients(self.worker.address.site)
    }

    /// Tells others how the session is now.
    pub(crate) fn tell(&self) {
        if let Some(lent) = &self.lent {
            lent.note(&self.pasts);
        }
        self.client.tell(|told| {
            told.name.clone_from(&self.name);
            told.user = self.identity.name();
            told.library.clone_from(&self.library.0);
            told.library_version.clone_from(&self.library.1);
            told.command = self.last_command;
            told.queued = self.queue.as_ref().map(|queue| queue.commands.len());
            told.in_transaction = self.in_transaction();
            told.protocol = if self.out.protocol == Protocol::Resp3 { 3 } else { 2 };
            told.active = Instant::now();
        });
    }

    /// Takes back the reply of the last command, which begins at `start`, if the client wants none.
    pub(crate) fn hush(&mut self, start: usize) {
        if self.replies == Replies::On {
            return;
        }
        self.out.bytes.truncate(start);
        self.replies = match self.replies {
            Replies::SkipNext => Replies::Skip,
            Replies::Skip => Replies::On,
            Replies::On | Replies::Off => return,
        };
    }

    /// Whether MULTI or SOLERA.BEGIN is open.
    pub(crate) fn in_transaction(&self) -> bool {
        self.tx.is_some() || self.given_up.is_some() || self.queue.is_some()
    }

    /// The open transaction, and its snapshot to be scanned. Without, appends the error.
    pub(crate) fn snapshot(&mut self) -> Option<(TxId, Vector)> {
        let Some(tx) = self.tx else {
            self.fail("ERR this is for an open transaction; SOLERA.BEGIN it first");
            return None;
        };
        let now = self.worker.now();
        if let Some(snapshot) = self.worker.with(|replica| replica.snapshot_of(now, tx)) {
            return Some((tx, snapshot));
        }
        self.tx = None;
        self.fail_command(&CommandError::NoSuchTransaction);
        None
    }

    /// Runs a command on one key of this worker and appends its reply: the hot path, without any
    /// waiting. Returns whether that was possible; if not, nothing has happened yet.
    pub(crate) fn run_at_once(&mut self, arguments: &Arguments<'_>) -> bool {
        if self.in_transaction() {
            return false;
        }
        let Some(command) = lookup(arguments.get(0)) else { return false };
        if !command.takes(arguments.len()) || self.worker.refuses_some() {
            return false;
        }
        if self.may(command, arguments).is_err() {
            return false;
        }
        let Ok(Some(op)) = commands::single(command.id, arguments) else { return false };
        let key = arguments.get(1);
        let level = self.worker.spec.spaces.level_of(key);
        let certified = matches!(level, Level::Linearizable | Level::Por)
            || self.worker.spec.protocol == Baseline::Strong;
        if certified || matches!(op, Op::SetNew(_)) {
            return false;
        }
        let (now, pasts) = (self.now, &mut self.pasts);
        let Some(result) = self.worker.execute_at_once(now, pasts, level, key, &op, command.id)
        else {
            return false;
        };
        self.last_command = command.name;
        if !commands::write_single(&mut self.out, &result) {
            self.worker.count(|counters| counters.errors += 1);
        }
        true
    }

    /// Runs one command and appends its reply. If that is an error, an open transaction has no effect: it
    /// would not be what its client meant. SOLERA.COMMIT and SOLERA.ABORT end it also by an error; any other
    /// command, RESET among them, then leaves it given up, so that nothing after it runs outside.
    pub(crate) async fn run(&mut self, arguments: &Arguments<'_>) -> Next {
        let (was_open, start) = (self.tx.is_some(), self.out.bytes.len());
        let next = self.run_command(arguments).await;
        let reply = self.out.bytes.get(start..);
        let Some(error) = reply.and_then(|reply| reply.strip_prefix(b"-")) else { return next };
        let ends = lookup(arguments.get(0)).is_some_and(|command| {
            matches!(command.id, CommandId::SoleraCommit | CommandId::SoleraAbort)
        });
        if was_open || ends {
            let error = String::from_utf8_lossy(error.trim_ascii_end()).into_owned();
            if let Some(tx) = self.tx.take() {
                self.worker.tell(Command::Abort { tx });
            }
            self.given_up = (!ends).then_some(GivenUp(error));
        }
        next
    }

    async fn run_command(&mut self, arguments: &Arguments<'_>) -> Next {
        let Some(command) = lookup(arguments.get(0)) else {
            if [&b"post"[..], b"host:"]
                .iter()
                .any(|name| arguments.get(0).eq_ignore_ascii_case(name))
            {
                // A browser that a web page made send commands, or a lost HTTP client: as Redis,
                // take nothing more from it.
                return Next::Close;
            }
            let rest = arguments.from(1);
            self.spoil(&solera_commands::unknown_command(arguments.get(0), rest));
            return Next::Stay;
        };
        self.worker.count(|counters| counters.commands[command.id as usize] += 1);
        self.last_command = command.name;
        if let Err(error) = self.check(command, arguments) {
            self.refuse(command.id, &error);
            return Next::Stay;
        }
        if self.queue.is_some() && !ends_queue(command.id) {
            self.enqueue(command, arguments);
            return Next::Stay;
        }
        if let Some(given_up) = self.given_up.as_ref().filter(|_| !ends_transaction(command.id)) {
            self.fail(given_up.before_the_end());
            return Next::Stay;
        }
        self.tx_writes |= self.tx.is_some() && command.has_flag("write");
        self.dispatch(command, arguments).await
    }

    /// Whether a command may be run now, or queued.
    ///
    /// # Errors
    /// Why not, as the client is told.
    fn check(&self, command: &'static Described, arguments: &Arguments<'_>) -> Result<(), String> {
        if !command.takes(arguments.len()) {
            return Err(command.wrong_arity());
        }
        self.may(command, arguments).map_err(|refused| refused.to_string())?;
        if !self.worker.serves() && needs_data(command) {
            let site = self.worker.site_name(self.worker.address.site);
            return Err(match self.worker.network.membership().refusal() {
                Some((node, reason)) => {
                    let reason = refused_by(&self.worker.spec, node, &reason);
                    format!("LOADING site {site} does not get its data: {reason}")
                }
                None => format!("LOADING site {site} is getting its data from the other sites"),
            });
        }
        if (command.has_flag("write") || self.commits_writes(command.id))
            && let Some(reason) = self.worker.takes_no_writes()
        {
            return Err(reason);
        }
        if self.worker.network.memory().is_full() && command.has_flag("denyoom") {
            return Err("OOM command not allowed when used memory > 'maxmemory'.".to_owned());
        }
        Ok(())
    }

    /// Whether a command ends a transaction that may write.
    fn commits_writes(&self, command: CommandId) -> bool {
        match command {
            CommandId::Exec => self.queue.as_ref().is_some_and(|queue| queue.writes),
            CommandId::SoleraCommit => self.tx.is_some() && self.tx_writes,
            _ => false,
        }
    }

    async fn dispatch(&mut self, command: &Described, arguments: &Arguments<'_>) -> Next {
        if command.is_data() && !matches!(command.id, CommandId::SoleraLevel | CommandId::Watch) {
            match commands::plan(command.id, arguments) {
                Ok(plan) => self.run_plan(&plan).await,
                Err(error) => self.fail(error),
            }
            return Next::Stay;
        }
        match command.id {
            CommandId::Multi if self.tx.is_some() => {
                self.fail("ERR MULTI is not allowed between SOLERA.BEGIN and SOLERA.COMMIT");
            }
            CommandId::Multi if self.queue.is_some() => {
                self.fail("ERR MULTI calls can not be nested");
            }
            CommandId::Multi => {
                self.queue = Some(Queue::default());
                self.out.simple("OK");
            }
            CommandId::Exec => self.exec().await,
            CommandId::Discard => match self.queue.take() {
                Some(_) => {
                    self.watched.clear();
                    self.out.simple("OK");
                }
                None => self.fail("ERR DISCARD without MULTI"),
            },
            CommandId::Watch => self.watch(arguments).await,
            CommandId::Unwatch => {
                self.watched.clear();
                self.out.simple("OK");
            }
            CommandId::SoleraBegin => self.begin(arguments).await,
            CommandId::SoleraCommit => match self.tx.take() {
                None if self.given_up.is_some() => {
                    let error = self.given_up.take().map(|given_up| given_up.at_commit());
                    self.fail(error.unwrap_or_default());
                }
                Some(tx) => match self.may_commit() {
                    Ok(()) => {
                        if self.commit(tx, self.tx_writes).await {
                            self.out.simple("OK");
                        }
                    }
                    Err(reason) => {
                        self.worker.tell(Command::Abort { tx });
                        self.fail(format!("NOPERM {reason}; nothing of the transaction was done"));
                    }
                },
                None => self.fail("ERR SOLERA.COMMIT without SOLERA.BEGIN"),
            },
            CommandId::SoleraAbort if self.given_up.take().is_some() => self.out.simple("OK"),
            CommandId::SoleraAbort => match self.tx.take() {
                Some(tx) => {
                    self.worker.tell(Command::Abort { tx });
                    self.out.simple("OK");
                }
                None => self.fail("ERR SOLERA.ABORT without SOLERA.BEGIN"),
            },
            _ => return commands::run_other(self, command.id, arguments).await,
        }
        Next::Stay
    }

    /// Appends an error reply.
    pub(crate) fn fail(&mut self, error: impl AsRef<str>) {
        self.worker.count(|counters| counters.errors += 1);
        self.out.error(error.as_ref());
    }

    /// The worker gave the current command up without an answer.
    pub(crate) fn fail_unanswered(&mut self) {
        match self.worker.refuses() {
            Some(reason) => {
                self.fail(format!("MISCONF {reason}; whether the command was done is unknown"))
            }
            None => self.fail("ERR the server is stopping"),
        }
    }

    /// A command is refused. EXEC ends its transaction all the same, as in Redis.
    fn refuse(&mut self, command: CommandId, error: &str) {
        if command == CommandId::Exec && self.queue.take().is_some() {
            self.watched.clear();
            return self.fail(format!("EXECABORT Transaction discarded because of: {error}"));
        }
        self.spoil(error);
    }

    /// An error before execution also spoils a queue.
    fn spoil(&mut self, error: &str) {
        if let Some(queue) = &mut self.queue {
            queue.broken = true;
        }
        self.fail(error);
    }
}

/// Whether a command is about data, its own or that of a past.
fn needs_data(command: &Described) -> bool {
    command.is_data()
        || matches!(
            command.id,
            CommandId::Exec
                | CommandId::SoleraBegin
                | CommandId::SoleraAttach
                | CommandId::SoleraBarrier
                | CommandId::SoleraAtRisk
                | CommandId::SoleraExport
                | CommandId::Dbsize
                | CommandId::SoleraModule
                | CommandId::SoleraCall
                | CommandId::SoleraPhase
                | CommandId::Wait
        )
}

/// What a client may send after its transaction was given up.
fn ends_transaction(command: CommandId) -> bool {
    matches!(
        command,
        CommandId::SoleraCommit | CommandId::SoleraAbort | CommandId::Quit | CommandId::Reset
    )
}

/// Commands that are run at once even while commands are queued.
fn ends_queue(command: CommandId) -> bool {
    matches!(
        command,
        CommandId::Exec
            | CommandId::Discard
            | CommandId::Multi
            | CommandId::Quit
            | CommandId::Reset
    )
}
