//! Modes of a session: idle, queueing, or within a transaction.

use std::sync::Arc;

use solera_commands::CommandId;
use solera_config::User;
use solera_unistore::TxId;

use super::queue::Queue;

/// Mode of a session: the queue or transaction to which its next command belongs.
///
/// MULTI leads from `Idle` to `Queueing`, and EXEC or DISCARD back. SOLERA.BEGIN leads to `Open`,
/// and SOLERA.COMMIT or SOLERA.ABORT back. An error in `Open` leads to `GivenUp`. Commands that
/// begin a transaction of their own are `Executing` while they run. RESET leads to `Idle` from
/// anywhere.
#[derive(Default)]
pub(crate) enum Mode<W> {
    /// Each command stands alone.
    #[default]
    Idle,
    /// MULTI was received. Commands are queued until EXEC or DISCARD.
    Queueing(Queue<W>),
    /// The current command runs in a transaction that it began itself: EXEC, a command on several
    /// keys, or SOLERA.BEGIN STRONG while it reads the watched keys. The transaction is aborted if
    /// the connection ends meanwhile.
    Executing(Current),
    /// SOLERA.BEGIN has opened a transaction.
    Open(Open),
    /// The transaction of SOLERA.BEGIN was given up, and the client has not ended it yet.
    GivenUp(GivenUp),
}

/// Kind of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransactionKind {
    /// Causal.
    #[default]
    Causal,
    /// Strong: it will be certified.
    Strong,
    /// Transaction of level `pcpsi`, on keys that Occult holds.
    PcPsi,
}

/// The transaction in which a session's commands run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Current {
    /// A transaction of UniStore.
    UniStore(Transaction),
    /// A transaction of Occult.
    Occult(OccultTransaction),
}

/// A transaction of Occult that this session has begun: its number at the session's worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OccultTransaction(pub(crate) u64);

/// A transaction of UniStore that this session has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) id: TxId,
    /// Whether it will be certified.
    pub(crate) strong: bool,
}

/// An interactive transaction.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) transaction: Current,
    /// Whether a command in it may write.
    pub(crate) writes: bool,
    /// The user who sent SOLERA.BEGIN, with the rules that held then.
    pub(crate) began_as: Option<Arc<User>>,
    /// Process of each worker of the site at the first scan of the snapshot; `None` for a worker of
    /// which no message had arrived. Empty before the first scan.
    pub(crate) scanned: Vec<Option<u64>>,
}

/// The first error in an interactive transaction. Later commands must not run outside the
/// transaction, so they are rejected until the client ends it.
#[derive(Debug)]
pub(crate) struct GivenUp(String);

/// State that SOLERA.COMMIT or SOLERA.ABORT has ended.
pub(crate) enum Ended {
    Open(Open),
    GivenUp(GivenUp),
    /// No interactive transaction was begun.
    Nothing,
}

impl<W> Mode<W> {
    /// Returns whether the session is between MULTI and EXEC, or between the begin and the end of a
    /// transaction.
    pub(crate) fn is_in_transaction(&self) -> bool {
        !matches!(self, Mode::Idle)
    }

    /// Returns the queue between MULTI and EXEC.
    pub(crate) fn queue(&self) -> Option<&Queue<W>> {
        match self {
            Mode::Queueing(queue) => Some(queue),
            _ => None,
        }
    }

    /// Returns the queue between MULTI and EXEC.
    pub(crate) fn queue_mut(&mut self) -> Option<&mut Queue<W>> {
        match self {
            Mode::Queueing(queue) => Some(queue),
            _ => None,
        }
    }

    /// Returns the transaction that commands run in.
    pub(crate) fn current(&self) -> Option<Current> {
        match self {
            Mode::Executing(transaction) | Mode::Open(Open { transaction, .. }) => {
                Some(*transaction)
            }
            Mode::Idle | Mode::Queueing(_) | Mode::GivenUp(_) => None,
        }
    }

    /// Returns the transaction of UniStore that commands run in.
    pub(crate) fn transaction(&self) -> Option<Transaction> {
        match self.current() {
            Some(Current::UniStore(transaction)) => Some(transaction),
            Some(Current::Occult(_)) | None => None,
        }
    }

    /// Returns the transaction of Occult that commands run in.
    pub(crate) fn occult(&self) -> Option<OccultTransaction> {
        match self.current() {
            Some(Current::Occult(transaction)) => Some(transaction),
            Some(Current::UniStore(_)) | None => None,
        }
    }

    /// Returns the interactive transaction.
    pub(crate) fn open_mut(&mut self) -> Option<&mut Open> {
        match self {
            Mode::Open(open) => Some(open),
            _ => None,
        }
    }

    /// Checks that no given-up transaction forbids a command.
    ///
    /// # Errors
    /// The error reply, if the client must end the transaction first.
    pub(crate) fn admits(&self, command: CommandId) -> Result<(), String> {
        match self {
            Mode::GivenUp(given_up) if !ends_given_up(command) => {
                Err(given_up.before_the_end().to_owned())
            }
            _ => Ok(()),
        }
    }

    /// MULTI: begins a queue.
    ///
    /// # Errors
    /// The error reply, if the session already queues or is in a transaction.
    pub(crate) fn begin_queue(&mut self) -> Result<(), String> {
        match self {
            Mode::Idle => {
                *self = Mode::Queueing(Queue::default());
                Ok(())
            }
            Mode::Queueing(_) => Err("ERR MULTI calls can not be nested".to_owned()),
            Mode::Executing(_) | Mode::Open(_) => {
                Err("ERR MULTI is not allowed between SOLERA.BEGIN and SOLERA.COMMIT".to_owned())
            }
            Mode::GivenUp(given_up) => Err(given_up.before_the_end().to_owned()),
        }
    }

    /// EXEC and DISCARD: ends the queue and returns it. Without MULTI, changes nothing and returns
    /// `None`.
    pub(crate) fn end_queue(&mut self) -> Option<Queue<W>> {
        match std::mem::take(self) {
            Mode::Queueing(queue) => Some(queue),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Puts the current command into a transaction of its own, until [`Mode::finish`].
    ///
    /// # Panics
    /// If the session is not idle.
    pub(crate) fn execute(&mut self, transaction: Current) {
        assert!(matches!(self, Mode::Idle), "a command's own transaction is not nested");
        *self = Mode::Executing(transaction);
    }

    /// Ends the current command's own transaction, which has finished or is about to commit.
    ///
    /// # Panics
    /// If the command runs in no transaction of its own.
    pub(crate) fn finish(&mut self) {
        assert!(matches!(self, Mode::Executing(_)), "only a command's own transaction can finish");
        *self = Mode::Idle;
    }

    /// SOLERA.BEGIN: opens a transaction for the commands that follow.
    ///
    /// # Panics
    /// If the session is in a transaction.
    pub(crate) fn open(&mut self, transaction: Current, began_as: Option<Arc<User>>) {
        assert!(matches!(self, Mode::Idle), "an interactive transaction is not nested");
        let scanned = Vec::new();
        *self = Mode::Open(Open { transaction, writes: false, began_as, scanned });
    }

    /// Gives the open transaction up because of an error. Returns it, for its worker to abort it.
    /// The session then rejects commands until the client ends the transaction. Changes nothing if
    /// no transaction is open.
    pub(crate) fn give_up(&mut self, error: String) -> Option<Current> {
        match self {
            Mode::Open(open) => {
                let transaction = open.transaction;
                *self = Mode::GivenUp(GivenUp(error));
                Some(transaction)
            }
            _ => None,
        }
    }

    /// SOLERA.COMMIT and SOLERA.ABORT: ends the interactive transaction, which may be given up.
    /// Changes nothing else.
    pub(crate) fn end(&mut self) -> Ended {
        match std::mem::take(self) {
            Mode::Open(open) => Ended::Open(open),
            Mode::GivenUp(given_up) => Ended::GivenUp(given_up),
            other => {
                *self = other;
                Ended::Nothing
            }
        }
    }

    /// Returns to `Idle` after RESET or at the end of the connection. Returns the transaction that
    /// its worker must abort.
    pub(crate) fn reset(&mut self) -> Option<Current> {
        let transaction = self.current();
        *self = Mode::Idle;
        transaction
    }
}

impl GivenUp {
    /// Returns whether the transaction expired, so that no command caused the error.
    fn is_expired(&self) -> bool {
        self.0.starts_with("NOTX ")
    }

    /// Returns the error reply to the transaction's commit.
    pub(crate) fn at_commit(self) -> String {
        match self.is_expired() {
            true => self.0,
            // Redis' text for EXEC after a rejected command.
            false => format!(
                "EXECABORT Transaction discarded because of previous errors, first: {}",
                self.0
            ),
        }
    }

    /// Returns the error reply to a command within the transaction.
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

/// Returns whether a command ends a given-up transaction, or the whole session.
fn ends_given_up(command: CommandId) -> bool {
    matches!(
        command,
        CommandId::SoleraCommit | CommandId::SoleraAbort | CommandId::Quit | CommandId::Reset
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_UNISTORE: Transaction =
        Transaction { id: TxId { coordinator: 1, sequence: 7 }, strong: true };
    const TRANSACTION: Current = Current::UniStore(OF_UNISTORE);

    const IDLE: Mode<()> = Mode::Idle;

    fn open() -> Mode<()> {
        let mut mode = IDLE;
        mode.open(TRANSACTION, None);
        mode
    }

    #[test]
    fn multi_and_exec_lead_to_a_queue_and_back() {
        let mut mode = IDLE;
        assert!(mode.end_queue().is_none(), "EXEC without MULTI");
        assert_eq!(mode.begin_queue(), Ok(()));
        assert!(mode.queue().is_some() && mode.is_in_transaction());
        assert!(mode.begin_queue().unwrap_err().contains("nested"));
        // A rejected SOLERA.COMMIT leaves the queue.
        assert!(matches!(mode.end(), Ended::Nothing) && mode.queue().is_some());
        assert!(mode.end_queue().is_some() && !mode.is_in_transaction());
    }

    #[test]
    fn an_open_transaction_is_ended_once() {
        let mut mode = open();
        assert_eq!(mode.transaction(), Some(OF_UNISTORE));
        assert!(mode.begin_queue().unwrap_err().contains("SOLERA.BEGIN"));
        assert!(mode.end_queue().is_none() && mode.open_mut().is_some(), "EXEC changes nothing");
        assert!(matches!(mode.end(), Ended::Open(open) if open.transaction == TRANSACTION));
        assert!(matches!(mode.end(), Ended::Nothing) && !mode.is_in_transaction());
    }

    #[test]
    fn a_given_up_transaction_rejects_commands_until_it_is_ended() {
        let mut mode = open();
        assert_eq!(mode.give_up("ERR first".to_owned()), Some(TRANSACTION));
        assert_eq!(mode.give_up("ERR second".to_owned()), None);
        assert!(mode.transaction().is_none() && mode.is_in_transaction());
        assert!(mode.admits(CommandId::Get).unwrap_err().starts_with("EXECABORT "));
        for ends in [CommandId::SoleraCommit, CommandId::SoleraAbort, CommandId::Reset] {
            assert_eq!(mode.admits(ends), Ok(()));
        }
        let Ended::GivenUp(given_up) = mode.end() else { panic!("it was given up") };
        assert!(given_up.at_commit().ends_with("first: ERR first"));
        assert_eq!(mode.admits(CommandId::Get), Ok(()));
    }

    #[test]
    fn an_expired_transaction_answers_with_its_own_error() {
        let mut mode = open();
        mode.give_up("NOTX it is over".to_owned());
        assert!(mode.admits(CommandId::Get).unwrap_err().starts_with("NOTX "));
        let Ended::GivenUp(given_up) = mode.end() else { panic!("it was given up") };
        assert_eq!(given_up.at_commit(), "NOTX it is over");
    }

    #[test]
    fn reset_leaves_every_mode_and_returns_what_to_abort() {
        let (mut idle, mut executing) = (IDLE, IDLE);
        assert_eq!(idle.reset(), None);
        executing.execute(TRANSACTION);
        for mut mode in [executing, open()] {
            assert_eq!(mode.reset(), Some(TRANSACTION));
            assert!(!mode.is_in_transaction());
        }
        let mut given_up = open();
        given_up.give_up("ERR".to_owned());
        assert_eq!(given_up.reset(), None);
        assert!(!given_up.is_in_transaction());
    }

    #[test]
    #[should_panic(expected = "not nested")]
    fn a_command_begins_no_transaction_within_another() {
        open().execute(TRANSACTION);
    }
}
