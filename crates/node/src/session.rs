//! A client's session: its causal past, its transaction, and the way of each command.

mod strong;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use solera_data::{Op, OpError, Outcome};
use solera_levels::Level;
use solera_machine::{Machine, Now};
use solera_resp::{Arguments, Command as Described, CommandId, Protocol, Writer, lookup};
use solera_time::{SiteId, Vector};
use solera_unistore::{Command, CommandError, Input, Kind, Response, StrongLimit, TxId};

use self::strong::Watched;
use crate::acl::{Denied, User};
use crate::auth::{Identity, Refused};
use crate::clients::{Client, Clients};
use crate::commands::{self, KeyOp, Plan};
use crate::config::Baseline;
use crate::modules::{Lent, is_reserved};
use crate::node::refused_by;
use crate::worker::{Silent, Unreachable, Worker};

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

/// Why an operation of a transaction could not be done.
enum Failure {
    Command(CommandError),
    Unreachable(Unreachable),
    /// See [`Session::fail_unanswered`].
    Unanswered,
}

/// Why a transaction that its client has not ended has no effect: the error that the client was told.
#[derive(Debug)]
struct GivenUp(String);

impl GivenUp {
    /// Whether it ended by itself, and no command was at fault.
    fn is_expired(&self) -> bool {
        self.0.starts_with("NOTX ")
    }

    /// The answer to its commit.
    fn at_commit(self) -> String {
        match self.is_expired() {
            true => self.0,
            // The words of Redis, where EXEC follows a command that was refused.
            false => format!(
                "EXECABORT Transaction discarded because of previous errors, first: {}",
                self.0
            ),
        }
    }

    /// The answer to a command that belongs to it.
    fn before_the_end(&self) -> &'static str {
        match self.is_expired() {
            true => "NOTX the transaction was given up; SOLERA.ABORT it, then start again",
            false => {
                "EXECABORT the transaction was given up, because a command in it failed; SOLERA.ABORT it, \
                 then start again"
            }
        }
    }
}

/// What the commands between MULTI and EXEC may take together, in bytes.
const QUEUE_BYTES: usize = 64 << 20;
/// What an argument takes beside its own bytes.
const ARGUMENT_BYTES: usize = 32;

/// A queue between MULTI and EXEC.
#[derive(Debug, Default)]
struct Queue {
    commands: Vec<Vec<Vec<u8>>>,
    bytes: usize,
    broken: bool,
    /// Whether one of the commands needs agreement.
    strong: bool,
}

impl Queue {
    /// Whether there was room for the command. If there was not, the queue is of no use any more.
    fn push(&mut self, arguments: &Arguments<'_>) -> bool {
        let bytes = arguments.from(0).map(|argument| argument.len() + ARGUMENT_BYTES);
        self.bytes += ARGUMENT_BYTES + bytes.sum::<usize>();
        if self.bytes > QUEUE_BYTES {
            self.commands = Vec::new();
        } else if !self.broken {
            self.commands.push(arguments.from(0).map(<[u8]>::to_vec).collect());
        }
        self.bytes <= QUEUE_BYTES
    }
}

/// One connection's state. Its operations see one another, and all that it has seen before.
pub(crate) struct Session {
    pub(crate) worker: Rc<Worker>,
    pub(crate) out: Writer,
    /// The time of the current batch.
    pub(crate) now: Now,
    /// The session's causal past (`pastVec`, UniStore §5.1).
    pub(crate) past: Vector,
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
            past: Vector::zero(worker.spec.sites.len()),
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
            watched: Vec::new(),
            conflict: None,
            began_as: None,
            given_up: None,
            exec_failed: None,
            scanned: None,
            worker,
        }
    }

    /// Acts for another session from the beginning.
    pub(crate) fn act_for(&mut self, lent: Lent) {
        self.past.join(&lent.past());
        if let Some(user) = &lent.user {
            self.identity.become_user(user.clone());
        }
        self.lent = Some(lent);
    }

    /// Whether it acts for another session.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent.is_some()
    }

    /// Whether the client may send a request. Its number of arguments has been checked.
    fn may(&self, command: &'static Described, arguments: &Arguments<'_>) -> Result<(), Refused> {
        if !self.worker.is_guarded() {
            return Ok(());
        }
        let spaces = &self.worker.spec.spaces;
        let keys = || command.keys(arguments.from(0));
        if self.lent.as_ref().is_some_and(|lent| lent.may(command.id, keys(), spaces)) {
            return Ok(());
        }
        self.identity.may(command, arguments)?;
        // What transactions and modules keep is believed by those that complete them, with the rights of a server.
        if keys().any(|key| is_reserved(spaces, key)) && !self.identity.may_coordinate() {
            return Err(Refused::Denied(Denied::Key));
        }
        Ok(())
    }

    /// The client is gone: its open transaction has no effect.
    pub(crate) fn close(&mut self) {
        if let Some(tx) = self.tx.take() {
            self.worker.tell(Command::Abort { tx });
        }
    }

    /// RESET: as if the client had connected anew, causal past included.
    pub(crate) fn reset(&mut self) {
        self.close();
        self.given_up = None;
        self.queue = None;
        self.watched.clear();
        self.name.clear();
        self.identity.reset(&self.worker.users());
        self.replies = Replies::On;
        self.out.protocol = Protocol::Resp2;
        self.past = Vector::zero(self.worker.spec.sites.len());
    }

    /// The clients of the site in this process.
    pub(crate) fn clients(&self) -> &Arc<Clients> {
        self.worker.network.clients(self.worker.address.site)
    }

    /// Tells others how the session is now.
    pub(crate) fn tell(&self) {
        if let Some(lent) = &self.lent {
            lent.note(&self.past);
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

    /// Whether the client must say who it is, and has not.
    pub(crate) fn is_unknown(&self) -> bool {
        self.worker.is_guarded() && !self.identity.is_known() && !self.is_lent()
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
        let (now, past) = (self.now, &mut self.past);
        let Some(result) = self.worker.execute_at_once(now, past, level, key, &op, command.id)
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
    /// would not be what its client meant.
    pub(crate) async fn run(&mut self, arguments: &Arguments<'_>) -> Next {
        let (was_open, start) = (self.tx.is_some(), self.out.bytes.len());
        let next = self.run_command(arguments).await;
        let reply = self.out.bytes.get(start..).filter(|_| was_open);
        let error = reply.and_then(|reply| reply.strip_prefix(b"-"));
        if let Some(error) = error {
            let error = String::from_utf8_lossy(error.trim_ascii_end()).into_owned();
            let ended =
                lookup(arguments.get(0)).is_some_and(|command| ends_transaction(command.id));
            match self.tx.take() {
                Some(tx) => self.worker.tell(Command::Abort { tx }),
                None if ended => return next,
                None => {}
            }
            self.given_up = Some(GivenUp(error));
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
            self.refuse(&solera_resp::command::unknown_command(arguments.get(0), rest));
            return Next::Stay;
        };
        self.worker.count(|counters| counters.commands[command.id as usize] += 1);
        self.last_command = command.name;
        if !command.takes(arguments.len()) {
            self.refuse(&command.wrong_arity());
            return Next::Stay;
        }
        if let Err(refused) = self.may(command, arguments) {
            self.refuse(&refused.to_string());
            return Next::Stay;
        }
        if !self.worker.serves() && needs_data(command) {
            let site = self.worker.site_name(self.worker.address.site);
            self.refuse(&match self.worker.network.membership().refusal() {
                Some((node, reason)) => {
                    let reason = refused_by(&self.worker.spec, node, &reason);
                    format!("LOADING site {site} does not get its data: {reason}")
                }
                None => format!("LOADING site {site} is getting its data from the other sites"),
            });
            return Next::Stay;
        }
        if self.worker.refuses_writes()
            && (command.has_flag("write") || commits(command.id))
            && let Some(reason) = self.worker.refuses()
        {
            self.refuse(&format!("MISCONF this node takes no writes: {reason}"));
            return Next::Stay;
        }
        if (command.has_flag("write") || commits(command.id))
            && let Some((node, reason)) = self.worker.network.membership().refusal()
        {
            let reason = refused_by(&self.worker.spec, node, &reason);
            self.refuse(&format!("REFUSED this node takes no writes: {reason}"));
            return Next::Stay;
        }
        if self.worker.network.memory().is_full() && command.has_flag("denyoom") {
            self.refuse("OOM command not allowed when used memory > 'maxmemory'.");
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
        self.dispatch(command, arguments).await
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
                        if self.commit(tx, true).await {
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

    /// Whether what the open transaction has buffered is still allowed: each command was when it came,
    /// to who the client was then.
    fn may_commit(&mut self) -> Result<(), String> {
        let (then, now) = (self.began_as.take(), self.identity.user());
        if then == now {
            return Ok(());
        }
        let name =
            |user: Option<Arc<User>>| user.map_or_else(String::new, |user| user.name.clone());
        let (then, now) = (name(then), name(now));
        Err(if then == now {
            format!("the rules of user '{now}' have changed since SOLERA.BEGIN")
        } else {
            format!("user '{then}' sent SOLERA.BEGIN, and the connection is user '{now}' by now")
        })
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

    /// An error before execution also spoils a queue.
    fn refuse(&mut self, error: &str) {
        if let Some(queue) = &mut self.queue {
            queue.broken = true;
        }
        self.fail(error);
    }

    fn enqueue(&mut self, command: &Described, arguments: &Arguments<'_>) {
        let inside = command.is_data() || commands::is_allowed_in_exec(command.id);
        // What makes no sense is told when it is run, as Redis does.
        let plan = command.is_data().then(|| commands::plan(command.id, arguments).ok()).flatten();
        let strong = plan.is_some_and(|plan| self.is_strong(&plan));
        if command.id == CommandId::Watch {
            self.fail("ERR WATCH inside MULTI is not allowed");
        } else if !inside {
            let name = command.name;
            self.refuse(&format!("ERR Command not allowed inside a transaction: '{name}'"));
        } else if self.queue.as_mut().is_some_and(|queue| queue.push(arguments)) {
            if let Some(queue) = &mut self.queue {
                queue.strong |= strong;
            }
            self.out.simple("QUEUED");
        } else {
            self.refuse(&format!(
                "ERR the commands since MULTI take more than {} MiB together; nothing will be done",
                QUEUE_BYTES >> 20
            ));
        }
    }

    /// EXEC: all queued commands in one transaction, which is certified if a key is watched or a command
    /// needs agreement, and causal else.
    async fn exec(&mut self) {
        let Some(queue) = self.queue.take() else {
            self.fail("ERR EXEC without MULTI");
            return;
        };
        if queue.broken {
            self.watched.clear();
            self.fail("EXECABORT Transaction discarded because of previous errors.");
            return;
        }
        if self.worker.spec.protocol.certifies(queue.strong || !self.watched.is_empty()) {
            return self.exec_strong(&queue).await;
        }
        let Some(Response::Begun(tx)) =
            self.worker.call(Command::Begin { past: self.past, strong: false }).await
        else {
            return self.fail_unanswered();
        };
        let before = std::mem::take(&mut self.out.bytes);
        (self.tx, self.tx_is_strong) = (Some(tx), false);
        self.run_queued(&queue).await;
        self.tx = None;
        let replies = std::mem::replace(&mut self.out.bytes, before);
        if let Some(error) = self.exec_failed.take() {
            self.fail(error);
        } else if self.commit(tx, true).await {
            self.out.bytes.extend_from_slice(&replies);
        }
    }

    /// Runs the queued commands in the open transaction.
    async fn run_queued(&mut self, queue: &Queue) {
        self.out.array(queue.commands.len());
        self.exec_failed = None;
        for command in &queue.commands {
            // The server has given the transaction up: nothing of it may run outside. Its commit
            // below tells the client.
            if self.tx.is_none() {
                break;
            }
            let mut bytes = Vec::new();
            solera_resp::encode_command(&mut bytes, command);
            let mut parser = solera_resp::RequestParser::new();
            if let Ok(Some((arguments, _))) = parser.next(&bytes)
                && let Some(command) = lookup(arguments.get(0))
            {
                // Users may have changed since it was queued.
                if let Err(refused) = self.may(command, &arguments) {
                    self.fail(refused.in_exec());
                    continue;
                }
                Box::pin(self.dispatch(command, &arguments)).await;
            }
        }
    }

    async fn begin(&mut self, arguments: &Arguments<'_>) {
        if self.in_transaction() {
            return self
                .fail("ERR a transaction is already open; SOLERA.COMMIT or SOLERA.ABORT it first");
        }
        if arguments.len() > 2 {
            return self.fail("ERR syntax error");
        }
        let strong = match arguments.from(1).next() {
            None => false,
            Some(level) if level.eq_ignore_ascii_case(b"causal") => false,
            Some(level) if level.eq_ignore_ascii_case(b"strong") => true,
            Some(level) => {
                let level = String::from_utf8_lossy(level).to_uppercase();
                return self.fail(format!(
                    "ERR there are no {level} transactions: SOLERA.BEGIN CAUSAL or SOLERA.BEGIN STRONG"
                ));
            }
        };
        if self.worker.spec.protocol.certifies(strong) {
            self.wait_for_conflict().await;
            return self.begin_strong().await;
        }
        if let Some(Response::Begun(tx)) =
            self.worker.call(Command::Begin { past: self.past, strong: false }).await
        {
            (self.tx, self.tx_is_strong) = (Some(tx), false);
            self.began_as = self.identity.user();
            self.out.simple("OK");
        } else {
            self.fail_unanswered();
        }
    }

    /// Commits a transaction that may have `writes`; on failure appends the error.
    async fn commit(&mut self, tx: TxId, writes: bool) -> bool {
        match self.try_commit(tx, writes).await {
            Ok(()) => true,
            Err(error) => {
                self.fail_commit(error);
                false
            }
        }
    }

    /// Appends why a transaction was not committed; without an error, that was done.
    fn fail_commit(&mut self, error: Option<CommandError>) {
        match error {
            Some(error) => self.fail_command(&error),
            None => match self.worker.refuses() {
                Some(reason) => self.fail(format!("MISCONF this node takes no writes: {reason}")),
                None => self.fail_unanswered(),
            },
        }
    }

    /// Commits a transaction that may have `writes`.
    ///
    /// # Errors
    /// Why it was not, or nothing if the worker does not say.
    async fn try_commit(&mut self, tx: TxId, writes: bool) -> Result<(), Option<CommandError>> {
        // What came before the commit may have taken its time.
        if writes && self.worker.refuses().is_some() {
            self.worker.tell(Command::Abort { tx });
            return Err(None);
        }
        let claim = self.conflict.as_ref().map(strong::Conflict::claim);
        match self.worker.call(Command::Commit { tx, claim }).await {
            Some(Response::Committed { past }) => {
                self.past.join(&past);
                self.conflict = None;
                Ok(())
            }
            Some(Response::Failed(error)) => {
                if let CommandError::Aborted { claim, lacks, .. } = &error {
                    self.conflict = Some(strong::Conflict::new(*claim, lacks.as_deref().copied()));
                }
                Err(Some(error))
            }
            _ => Err(None),
        }
    }

    pub(crate) fn fail_command(&mut self, error: &CommandError) {
        let text = self.told(error);
        self.fail(text);
    }

    /// An error of the machine, as clients are told.
    fn told(&self, error: &CommandError) -> String {
        match error {
            CommandError::NoSuchTransaction => format!("NOTX {error}"),
            CommandError::OperationsOutstanding | CommandError::NoStrong => format!("ERR {error}"),
            CommandError::TooLarge => format!("TOOLARGE {error}"),
            CommandError::StrongTooLarge(limit) => {
                let setting = match limit {
                    StrongLimit::Bytes(_) => "strong_max_bytes",
                    StrongLimit::Operations(_) => "strong_max_operations",
                };
                format!("TOOLARGE {error} ({setting} in solera.toml)")
            }
            CommandError::PartitionSlow => format!("TRYAGAIN {error}"),
            CommandError::TooFewSites { .. } => format!("TOOFEW {error}"),
            CommandError::Aborted { .. } => format!("ABORTED {error}"),
            CommandError::Unavailable { .. } | CommandError::NotHereYet => {
                format!("UNAVAILABLE {error}")
            }
            CommandError::TimedOut { site, behind } if *site == self.worker.address.site => {
                let ms = behind.as_millis().max(1);
                let sites = self.worker.spec.f + 1;
                format!(
                    "TIMEOUT the last writes of this site, made within {ms} ms, are not yet at {sites} \
                     sites; others may be cut off, try again"
                )
            }
            CommandError::TimedOut { site: SiteId::STRONG, behind } => format!(
                "TIMEOUT still {} ms behind the strong transactions that the token has seen; too few \
                 sites may be reached, try again",
                behind.as_millis().max(1)
            ),
            CommandError::TimedOut { site, behind } => format!(
                "TIMEOUT still {} ms behind site {}; it may be cut off, try again",
                behind.as_millis().max(1),
                self.worker.site_name(*site)
            ),
            CommandError::Lost { site, missing } => format!(
                "LOST site {} failed or is cut off, and the last {} ms of its writes that the \
                 token has seen are at no other site; go on without the token, or attach again \
                 when the site is back",
                self.worker.site_name(*site),
                missing.as_millis().max(1)
            ),
        }
    }

    /// Runs a command on keys: in the open transaction, or as one of its own.
    async fn run_plan(&mut self, plan: &Plan<'_>) {
        if let Some(tx) = self.tx {
            match self.may_run(plan, self.tx_is_strong) {
                Ok(()) => self.run_in(tx, plan).await,
                Err(error) => self.fail(error),
            }
            return;
        }
        let strong = self.is_strong(plan);
        if let Err(error) = self.may_run(plan, strong) {
            return self.fail(error);
        }
        if let [single] = plan.ops.as_slice() {
            let result = match strong {
                true => self.execute_strong(plan, single).await,
                false => {
                    let level = self.worker.spec.spaces.level_of(single.key);
                    self.execute_causal(single, level).await
                }
            };
            if let Some(result) = result {
                self.answer(plan, &[result]);
            }
        } else if strong {
            self.run_as_strong_transaction(plan).await;
        } else {
            self.run_as_transaction(plan).await;
        }
    }

    async fn run_in(&mut self, tx: TxId, plan: &Plan<'_>) {
        if let Some(results) = self.operate_all(tx, plan).await {
            self.answer(plan, &results);
        }
    }

    /// MGET, MSET, and others on several keys: one atomic causal transaction.
    async fn run_as_transaction(&mut self, plan: &Plan<'_>) {
        let Some(Response::Begun(tx)) =
            self.worker.call(Command::Begin { past: self.past, strong: false }).await
        else {
            return self.fail_unanswered();
        };
        // If the connection ends meanwhile, the transaction ends with it.
        (self.tx, self.tx_is_strong) = (Some(tx), false);
        let results = self.operate_all(tx, plan).await;
        self.tx = None;
        if let Some(results) = results
            && self.commit(tx, plan.ops.iter().any(|op| op.op.is_update())).await
        {
            self.answer(plan, &results);
        }
    }

    /// Runs a command's operations in a transaction. If the server has given the transaction up,
    /// appends the error and leaves the transaction.
    async fn operate_all(
        &mut self,
        tx: TxId,
        plan: &Plan<'_>,
    ) -> Option<Vec<Result<Outcome, OpError>>> {
        let mut results = Vec::with_capacity(plan.ops.len());
        for op in &plan.ops {
            let kind = self.class_of(plan, op).as_kind();
            match self.operate(tx, op, kind).await {
                Ok(result) => results.push(result),
                Err(failure) => {
                    self.tx = None;
                    match failure {
                        Failure::Command(error) => {
                            self.worker.tell(Command::Abort { tx });
                            let text = self.told(&error);
                            self.fail(&text);
                            self.exec_failed = Some(text);
                        }
                        Failure::Unreachable(error) => {
                            // Nothing of a transaction is done before it commits.
                            self.worker.tell(Command::Abort { tx });
                            self.fail(error.to_string());
                            self.exec_failed = Some(error.to_string());
                        }
                        Failure::Unanswered => {
                            self.worker.tell(Command::Abort { tx });
                            self.fail_unanswered();
                        }
                    }
                    return None;
                }
            }
        }
        Some(results)
    }

    async fn operate(
        &mut self,
        tx: TxId,
        op: &KeyOp<'_>,
        kind: Kind,
    ) -> Result<Result<Outcome, OpError>, Failure> {
        let owner = self.worker.reach(op.key).map_err(Failure::Unreachable)?;
        let command = Command::Operate {
            tx,
            level: self.worker.spec.spaces.level_of(op.key),
            key: op.key.into(),
            op: op.op.clone(),
            kind,
        };
        let request = self.worker.new_request();
        let now = self.worker.now();
        self.worker.with(|replica| replica.handle(now, Input::Client { request, command }));
        match self.worker.reply_about(request, owner).await {
            Ok(Some(Response::Operated(result))) => Ok(result),
            Ok(Some(Response::Failed(error))) => Err(Failure::Command(error)),
            Ok(_) => Err(Failure::Unanswered),
            Err(Silent(node)) => Err(Failure::Unreachable(Unreachable(node))),
        }
    }

    /// A transaction of one operation: the hot path. A key of this worker costs no more than the call.
    async fn execute_causal(
        &mut self,
        op: &KeyOp<'_>,
        level: Level,
    ) -> Option<Result<Outcome, OpError>> {
        let owner = match self.worker.reach(op.key) {
            Ok(owner) => owner,
            Err(error) => {
                self.fail(error.to_string());
                return None;
            }
        };
        let request = self.worker.new_request();
        let (now, past) = (self.now, &mut self.past);
        let executed =
            self.worker.with(|replica| replica.execute(now, request, past, level, op.key, &op.op));
        if executed.is_some() {
            return executed;
        }
        match self.worker.reply_about(request, owner).await {
            Ok(Some(Response::Executed { outcome, past })) => {
                self.past.join(&past);
                return Some(outcome);
            }
            Ok(Some(Response::Failed(error))) => self.fail_command(&error),
            Ok(_) => self.fail_unanswered(),
            Err(Silent(node)) if op.op.is_update() => {
                self.fail(format!(
                    "UNKNOWN {node} does not answer; the command may have been done"
                ));
            }
            Err(Silent(node)) => self.fail(Unreachable(node).to_string()),
        }
        None
    }

    fn answer(&mut self, plan: &Plan<'_>, results: &[Result<Outcome, OpError>]) {
        if !commands::write_results(&mut self.out, plan, results) {
            self.worker.count(|counters| counters.errors += 1);
        }
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

/// What may bring writes about that were buffered before.
fn commits(command: CommandId) -> bool {
    matches!(command, CommandId::Exec | CommandId::SoleraCommit)
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
