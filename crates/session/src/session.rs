//! A client's session: its pasts, its transaction, and the execution of its commands.

mod conflict;
mod errors;
mod exec;
mod followed;
mod intervals;
mod mode;
mod occult;
mod operations;
mod pcpsi_lost;
mod pcpsi_outcome;
mod pcpsi_snapshot;
mod pcpsi_unknown;
mod primary;
mod queue;
mod reading;
mod rights;
mod runner;
mod speculative;
mod speculative_export;
mod strong;
mod transaction;
mod typed_keys;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use solera_commands::Command as Described;
use solera_machine::Now;
use solera_resp::{Protocol, Writer};
use solera_time::Vector;
use solera_unistore::{Command, CommandError, Pasts};

use self::conflict::Conflict;
pub(crate) use self::mode::Mode;
pub use self::mode::TransactionKind;
use self::mode::{Current, OccultTransaction, Transaction};
pub(crate) use self::occult::OccultSession;
pub use self::occult::scheme;
pub(crate) use self::operations::Stopped;
pub(crate) use self::pcpsi_outcome::PcpsiName;
pub(crate) use self::primary::Wait;
pub(crate) use self::queue::{Later, Work};
use self::reading::Monitors;
pub(crate) use self::reading::Wanted;
pub(crate) use self::speculative::{SpeculativeSession, Until};
use self::strong::Watched;
pub(crate) use self::typed_keys::permits;
use crate::client::Client;
use crate::context::Context;
use crate::delegation::Delegation;
use crate::identity::Identity;

/// State of the connection after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It stays open.
    Stay,
    /// It is closed once the reply is written.
    Close,
}

/// Whether the client gets replies (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    On,
    Off,
    /// Neither this command nor the next one gets a reply.
    SkipNext,
    /// This command gets no reply.
    Skip,
}

/// State of one connection. Each operation sees the session's earlier operations, and everything
/// that the session has seen before.
pub struct ClientSession<W> {
    /// The worker at which the session is open.
    pub worker: Rc<W>,
    /// Replies that are not written yet.
    pub out: Writer,
    /// Time of the current batch of commands.
    pub now: Now,
    /// The session's causal past, which its operations see, and its durability past.
    pub(crate) pasts: Pasts,
    /// Past of the session on keys that `primary` holds.
    pub(crate) primary: solera_primary::Past,
    /// State of the session for keys that Occult holds.
    pub(crate) occult: OccultSession,
    /// State of the session for keys of the speculative space.
    pub(crate) speculative: SpeculativeSession,
    /// The client, as other clients see it.
    pub(crate) client: Arc<Client>,
    pub(crate) name: String,
    /// The client library's name and version.
    pub(crate) library: (String, String),
    pub(crate) last_command: &'static str,
    pub(crate) replies: Replies,
    /// User of the client.
    pub identity: Rc<Identity>,
    /// Delegation from the session for which this one acts, if any.
    pub(crate) delegation: Option<Delegation>,
    /// Address of the client, if it is not in this process.
    pub(crate) from: Option<SocketAddr>,
    /// The queue or transaction that commands belong to.
    pub(crate) mode: Mode<W>,
    /// Keys that the next EXEC or SOLERA.BEGIN STRONG depends on. They stay watched in any mode; a
    /// causal transaction in between does not clear them.
    pub(crate) watched: Vec<Watched>,
    /// Abort of the session's last strong transaction, if it aborted.
    conflict: Option<Conflict>,
    monitors: Monitors,
}

impl<W: Context> ClientSession<W> {
    /// Creates a session of a client at a worker.
    pub fn new(worker: Rc<W>, client: Arc<Client>, from: Option<SocketAddr>) -> Self {
        ClientSession {
            out: Writer::default(),
            now: worker.now(),
            pasts: Pasts::none(worker.spec().sites.len()),
            primary: solera_primary::Past::default(),
            occult: OccultSession::new(worker.spec()),
            speculative: SpeculativeSession::default(),
            client,
            name: String::new(),
            library: Default::default(),
            last_command: "NULL",
            replies: Replies::On,
            identity: Rc::new(Identity::new(&worker.users())),
            delegation: None,
            from,
            mode: Mode::Idle,
            watched: Vec::new(),
            conflict: None,
            monitors: Monitors::default(),
            worker,
        }
    }

    /// Aborts the open transaction, because the client has disconnected.
    pub fn close(&mut self) {
        if let Some(transaction) = self.mode.reset() {
            self.abort(transaction);
        }
        self.drop_snapshots();
        self.abandon_pending();
    }

    /// Makes the worker abort a transaction of this session.
    pub(crate) fn abort(&self, transaction: Current) {
        match transaction {
            Current::UniStore(Transaction { id: tx, .. }) => {
                self.worker.send(Command::Abort { tx });
            }
            Current::Occult(OccultTransaction(transaction)) => {
                self.worker.send_occult(solera_occult::Command::Abort { transaction });
            }
        }
    }

    /// RESET: returns to the state of a new connection; also clears the pasts.
    pub(crate) fn reset(&mut self) {
        self.close();
        self.watched.clear();
        self.conflict = None;
        self.name.clear();
        self.identity.reset(&self.worker.users());
        self.replies = Replies::On;
        self.out.protocol = Protocol::Resp2;
        self.pasts = Pasts::none(self.worker.spec().sites.len());
        self.primary = solera_primary::Past::default();
        self.occult = OccultSession::new(self.worker.spec());
        self.speculative = SpeculativeSession::default();
    }

    /// Waits until the loss of f sites can undo nothing that the session has seen and written in
    /// protocols other than UniStore, at most for `timeout` since `began`.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn wait_beside_unistore(
        &mut self,
        began: Instant,
        timeout: Option<Duration>,
    ) -> Result<(), String> {
        let left = || timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
        self.wait_for_primary(&self.primary, Wait::Stored, left()).await?;
        self.wait_for_occult(left()).await?;
        let past = self.speculative.past.clone();
        self.wait_for_speculative(&past, Until::Final, left()).await
    }

    /// Publishes the session's state for other clients and for the session that it acts for.
    pub fn publish(&self) {
        if let Some(delegation) = &self.delegation {
            delegation.note(&self.pasts);
            delegation.note_speculative(&self.speculative.past);
            delegation.note_occult(|shared| {
                self.worker.with_occult(|occult| self.occult.share(occult, shared));
            });
        }
        self.client.update_info(|info| {
            info.name.clone_from(&self.name);
            info.user = self.identity.name();
            info.library.clone_from(&self.library.0);
            info.library_version.clone_from(&self.library.1);
            info.command = self.last_command;
            info.queued = self.mode.queue().map(|queue| queue.commands.len());
            info.in_transaction = self.in_transaction();
            info.protocol = if self.out.protocol == Protocol::Resp3 { 3 } else { 2 };
            info.active = Instant::now();
        });
    }

    /// Discards the reply of the last command, which begins at `start`, when CLIENT REPLY is OFF or
    /// SKIP.
    pub fn hush(&mut self, start: usize) {
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

    /// Returns whether MULTI or SOLERA.BEGIN is open.
    pub fn in_transaction(&self) -> bool {
        self.mode.is_in_transaction()
    }

    /// Records in the open transaction, if there is one, whether a command may write.
    pub(crate) fn note_writes(&mut self, command: &Described) {
        if let Some(open) = self.mode.open_mut() {
            open.writes |= command.has_flag("write");
        }
    }

    /// Gives the open transaction up because of an error. Its worker aborts it.
    pub(crate) fn give_up(&mut self, error: String) {
        if let Some(transaction) = self.mode.give_up(error) {
            self.abort(transaction);
        }
    }

    /// Appends `OK` or an error reply.
    pub(crate) fn answer_ok(&mut self, result: Result<(), String>) {
        match result {
            Ok(()) => self.out.simple("OK"),
            Err(error) => self.fail(error),
        }
    }

    /// Returns the open transaction's snapshot, for a scan.
    ///
    /// # Errors
    /// The error reply, if no transaction is open or it has expired.
    pub(crate) fn snapshot(&mut self) -> Result<Vector, String> {
        let Some(Transaction { id, .. }) = self.mode.transaction() else {
            return Err(
                "ERR this command needs an open transaction; send SOLERA.BEGIN first".to_owned()
            );
        };
        let now = self.worker.now();
        if let Some(snapshot) = self.worker.with(|replica| replica.snapshot_of(now, id)) {
            return Ok(snapshot);
        }
        let error = self.error_reply(&CommandError::NoSuchTransaction);
        // The worker no longer knows the transaction, so there is nothing to abort.
        self.mode.give_up(error.clone());
        Err(error)
    }

    /// Appends an error reply.
    pub(crate) fn fail(&mut self, error: impl AsRef<str>) {
        self.worker.count_error();
        self.out.error(error.as_ref());
    }

    /// Appends the error reply to a command that the worker did not answer.
    pub(crate) fn fail_unanswered(&mut self) {
        let text = self.unanswered();
        self.fail(text);
    }

    /// Returns the error reply to a command that the worker did not answer.
    pub(crate) fn unanswered(&self) -> String {
        match self.worker.refuses() {
            Some(reason) => format!("MISCONF {reason}; whether the command was done is unknown"),
            None => "ERR the server is stopping".to_owned(),
        }
    }
}
