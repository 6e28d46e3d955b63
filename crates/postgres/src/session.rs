//! Sessions of mixed transactions.

mod call;

use std::sync::Arc;

use solera_mixt::lazy::State;
use solera_mixt::store::{
    Answer, Begin, BoxFuture, Connection, Fields, List, NameWrite, ObjectCall, StoreError,
};
use solera_mixt::{boxed, connection_methods};
use solera_program::operation::ObjectOp;

use tokio_postgres::types::FromSql;

use crate::failure::RequestError;
use crate::link::Link;
use crate::names::{self, Wanted, Writes};
use crate::objects::{Request, check_name};
use crate::shared::Shared;
use crate::statement::{Params, Rows, get};

const BEGIN: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE";
const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY";
/// Writes after this savepoint can be undone without ending the transaction. Reads before and after
/// the savepoint belong to the transaction in any case.
const MARK: &str = "SAVEPOINT before_writes";
/// Undoes the writes.
const UNDO: &str = "ROLLBACK TO SAVEPOINT before_writes";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";
/// Returns the number of the transaction, and assigns one if it has none.
const NUMBER: &str = "SELECT pg_current_xact_id()::text";
/// Returns the outcome of a transaction. If it is committed, every later transaction sees it.
const STATUS: &str = "SELECT pg_xact_status($1::text::xid8)";
/// Ends the session that still runs a transaction, and waits up to a second for its end.
const END_RUNNING: &str = "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE backend_xid = $1::text::xid8::xid";
pub(crate) struct PostgresSession {
    shared: Arc<Shared>,
    /// `None` if the connection broke.
    link: Option<Link>,
    state: State<Due, Open>,
    /// Number of a transaction whose connection is gone. It may have committed, or still be open on
    /// the server and hold its locks.
    doubt: Option<String>,
}

/// A transaction that its first operation begins at the server.
#[derive(Clone, Copy)]
struct Due {
    read_only: bool,
    /// Whether it ends with its first operation.
    once: bool,
}

/// A transaction that the server has begun.
struct Open {
    /// Its number; `None` if it is read-only.
    number: Option<String>,
}

impl PostgresSession {
    pub(crate) fn new(shared: Arc<Shared>, link: Link) -> PostgresSession {
        PostgresSession { shared, link: Some(link), state: State::Closed, doubt: None }
    }

    /// Returns the connection, and whether it is new. Opens one if the last one is gone.
    async fn link(&mut self) -> Result<(&mut Link, bool), StoreError> {
        let gone = self.link.as_ref().is_none_or(Link::is_closed);
        if gone {
            // A new connection has no open transaction.
            self.lose();
            self.link = Some(Link::open(&self.shared).await?);
        }
        Ok((self.link.as_mut().expect("a missing connection was opened"), gone))
    }

    fn open_link(&mut self) -> Result<&mut Link, StoreError> {
        match (&self.state, &mut self.link) {
            (State::Open(_), Some(link)) => Ok(link),
            (state, _) => Err(state.not_open()),
        }
    }

    /// Checks that an operation may follow.
    fn check_open(&mut self) -> Result<(), StoreError> {
        match self.state {
            State::Due(_) => Ok(()),
            _ => self.open_link().map(|_| ()),
        }
    }

    /// Closes a connection that can no longer be used.
    fn lose(&mut self) {
        if let State::Open(Open { number: Some(number) }) =
            std::mem::replace(&mut self.state, State::Closed)
        {
            self.doubt = Some(number);
        }
        if let Some(link) = self.link.take() {
            link.cut();
        }
    }

    /// Aborts the transaction.
    async fn close(&mut self) {
        // The state stays `Open` until the server has ended the transaction, even if this future is
        // dropped.
        if let (State::Open(_), Some(link)) = (&self.state, &mut self.link)
            && link.send(vec![(ROLLBACK, vec![])]).await.is_err()
        {
            // The server ends the transaction with the connection.
            self.lose();
        }
        self.state = State::Closed;
    }

    /// Aborts the transaction after an error in it.
    async fn fail(&mut self, failure: &RequestError) -> StoreError {
        let error = failure.to_store_error();
        if failure.lost() {
            self.lose();
        } else {
            self.spoil(&error).await;
        }
        error
    }

    /// Aborts the transaction. After a permanent error, its later operations fail with the same
    /// error.
    async fn spoil(&mut self, error: &StoreError) {
        self.close().await;
        self.state.fail(error);
    }

    /// Determines the outcome of a transaction whose connection is gone, and ends it if it is open.
    async fn resolve(&mut self) -> Result<(), StoreError> {
        let Some(number) = self.doubt.clone() else { return Ok(()) };
        for attempt in 0..2 {
            let status = match self.ask(STATUS, vec![&number]).await {
                Ok(answer) => first::<Option<String>>(&answer)?,
                // This server has replaced another one, of which it lacks the last transactions.
                // This transaction is lost with them.
                Err(failure) if failure.is_unknown_number() => Some("aborted".to_owned()),
                Err(failure) => return Err(StoreError::Unavailable(failure.to_string())),
            };
            match status.as_deref() {
                Some("committed" | "aborted") => {
                    self.doubt = None;
                    return Ok(());
                }
                // A server may need hours to detect that the client is gone, so this ends the
                // session.
                Some("in progress") if attempt == 0 => {
                    let asked = self.ask(END_RUNNING, vec![&number]).await;
                    asked.map_err(|failure| StoreError::Unavailable(failure.to_string()))?;
                }
                Some(_) => break,
                None => {
                    let text = format!(
                        "the server no longer knows the outcome of transaction {number}, whose answer was lost"
                    );
                    return Err(StoreError::Unavailable(text));
                }
            }
        }
        let text = format!("transaction {number}, whose answer was lost, is still in progress");
        Err(StoreError::Unavailable(text))
    }

    /// Executes a statement outside transactions.
    async fn ask(&mut self, sql: &str, params: Params<'_>) -> Result<Rows, RequestError> {
        let link = match self.link().await {
            Ok((link, _)) => link,
            Err(error) => return Err(RequestError::Unreachable(error)),
        };
        match link.send(vec![(sql, params)]).await {
            Ok(mut answers) => Ok(answers.remove(0)),
            Err((_, failure)) => {
                if failure.lost() {
                    self.lose();
                }
                Err(failure)
            }
        }
    }

    async fn begin(&mut self, begin: &Begin) -> Result<Vec<Fields>, StoreError> {
        self.close().await;
        self.resolve().await?;
        begin.names.iter().try_for_each(|name| check_name(&name.key))?;
        // With names to read there is no round trip to save, and their values may end the
        // transaction.
        let once = begin.once && begin.read_only && begin.names.is_empty();
        self.state = State::Due(Due { read_only: begin.read_only, once });
        let wanted = Wanted::new(&begin.names);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let shared = Arc::clone(&self.shared);
        match self.send(vec![(&shared.sql.read_names, wanted.params())]).await {
            Ok(answers) => wanted.read(&answers[0].rows),
            Err((_, failure)) => Err(self.fail(&failure).await),
        }
    }

    /// Begins the transaction at the server, if that is still due.
    async fn start(&mut self) -> Result<(), StoreError> {
        if let State::Due(Due { once, .. }) = &mut self.state {
            *once = false;
            if let Err((_, failure)) = self.send(Vec::new()).await {
                return Err(self.fail(&failure).await);
            }
        }
        Ok(())
    }

    /// Sends statements within the transaction, in one round trip with its beginning if that is
    /// due, and with its end if no other operation follows.
    async fn send(
        &mut self,
        statements: Vec<(&str, Params<'_>)>,
    ) -> Result<Vec<Rows>, (usize, RequestError)> {
        let State::Due(Due { read_only, once }) = self.state else {
            let link = self.open_link().map_err(|error| (0, RequestError::Unreachable(error)))?;
            return link.send(statements).await;
        };
        let mut all = match read_only {
            true => vec![(BEGIN_READING, vec![])],
            false => vec![(BEGIN, vec![]), (NUMBER, vec![]), (MARK, vec![])],
        };
        let before = all.len();
        all.extend(statements);
        if once {
            all.push((COMMIT, vec![]));
        }
        loop {
            let (link, new) =
                self.link().await.map_err(|error| (0, RequestError::Unreachable(error)))?;
            let sent = link.send(all.clone()).await;
            // Whatever the answer, the transaction is open and may have to be aborted.
            self.state = State::Open(Open { number: None });
            let mut answers = match sent {
                Ok(answers) => answers,
                // The connection broke while it was idle, for example because the server restarted.
                Err((_, failure)) if failure.lost() && !new => {
                    self.lose();
                    continue;
                }
                Err((at, failure)) => return Err((at.saturating_sub(before), failure)),
            };
            if !read_only {
                let number = first(&answers[1]);
                let number = number.map_err(|error| (0, RequestError::Unreachable(error)))?;
                self.state = State::Open(Open { number: Some(number) });
            }
            if once {
                answers.pop();
                self.state = State::Over;
            }
            return Ok(answers.split_off(before));
        }
    }

    async fn perform(&mut self, call: &ObjectCall) -> Result<Answer, StoreError> {
        self.check_open()?;
        self.check_space(&call.space)?;
        let request = Request::new(call)?;
        let looks = Wanted::new(&call.look);
        let shared = Arc::clone(&self.shared);
        let mut statements = request.statements(&shared.sql)?;
        if !looks.is_empty() {
            statements.push((&shared.sql.read_names, looks.params()));
        }
        let answers = match self.send(statements).await {
            Ok(answers) => answers,
            Err((_, failure)) => {
                if failure.is_overflow() && call.op == ObjectOp::Increment {
                    let text = format!("the counter `{}` would not fit 64 bits", call.key);
                    let error = StoreError::Refused(text);
                    self.spoil(&error).await;
                    return Err(error);
                }
                return Err(self.fail(&failure).await);
            }
        };
        let value = answers.first().map_or(Ok(None), |first| request.answer(first))?;
        Ok(Answer { value, seen: seen(&looks, &answers)? })
    }

    fn check_space(&self, space: &str) -> Result<(), StoreError> {
        match self.shared.spaces.contains_key(space) {
            true => Ok(()),
            false => Err(StoreError::Refused(format!("there is no space `{space}`"))),
        }
    }

    async fn commit(&mut self, names: &[NameWrite]) -> Result<(), StoreError> {
        if matches!(self.state, State::Due(_) | State::Over) {
            if names.is_empty() {
                self.state = State::Closed;
                return Ok(());
            }
            // The transaction has read nothing, or has ended, so the writes form a transaction of
            // their own.
            self.state = State::Due(Due { read_only: false, once: false });
            self.start().await?;
        }
        self.open_link()?;
        let writes = match Writes::new(names) {
            Ok(writes) => writes,
            Err(error) => {
                self.close().await;
                return Err(error);
            }
        };
        if matches!(self.state, State::Open(Open { number: None })) && !names.is_empty() {
            // The transaction is read-only, so the writes form a second transaction after it. The
            // effect is that of one transaction, because the first has changed nothing.
            self.end(&Writes::default()).await?;
            self.begin(&Begin::default()).await?;
            self.start().await?;
        }
        self.end(&writes).await
    }

    /// Writes names and commits, in one round trip.
    async fn end(&mut self, writes: &Writes<'_>) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.shared);
        let link = self.open_link()?;
        let mut prepared = Vec::new();
        let mut statements = writes.statements(&shared.sql);
        statements.push((COMMIT, vec![]));
        for (sql, params) in statements {
            match link.statement(sql).await {
                Ok(statement) => prepared.push((statement, params)),
                // Nothing was sent that could commit.
                Err(failure) => return Err(self.fail(&failure).await),
            }
        }
        let last = prepared.len() - 1;
        let Err((at, failure)) = link.pipeline(prepared).await else {
            self.state = State::Closed;
            return Ok(());
        };
        if failure.lost() {
            self.lose();
            // If the transaction has changed nothing, it does not matter whether it has committed.
            return Err(match self.doubt {
                None => StoreError::Unavailable(failure.to_string()),
                Some(_) => StoreError::OutcomeUnknown(failure.to_string()),
            });
        }
        self.state = State::Closed;
        // A commit after an error rolls back, and so does one that fails.
        if at < last && failure.is_duplicate() {
            return Err(StoreError::Conflict);
        }
        Err(failure.to_store_error())
    }

    /// Undoes the writes, and commits: PostgreSQL guarantees the reads of a serializable
    /// transaction only if it commits.
    async fn certify(&mut self) -> Result<(), StoreError> {
        self.state.check_certifiable()?;
        let undo = match &self.state {
            State::Due(_) | State::Over => {
                self.state = State::Closed;
                return Ok(());
            }
            State::Open(Open { number: Some(_) }) => Some((UNDO, vec![])),
            _ => None,
        };
        let link = self.open_link()?;
        let statements = undo.into_iter().chain([(COMMIT, vec![])]).collect();
        let Err((_, failure)) = link.send(statements).await else {
            self.state = State::Closed;
            return Ok(());
        };
        if failure.lost() {
            // The outcome does not matter, because the writes are undone, but the locks must be
            // released.
            self.lose();
            return Err(StoreError::Unavailable(failure.to_string()));
        }
        self.close().await;
        Err(failure.to_store_error())
    }

    async fn list(&mut self, list: &List) -> Result<Vec<Arc<str>>, StoreError> {
        self.check_space(&list.space)?;
        let shared = Arc::clone(&self.shared);
        let (space, prefix, after) = (&*list.space, &*list.prefix, &*list.after);
        let limit = names::limit(list);
        let params: Params<'_> = vec![&space, &prefix, &after, &limit];
        let answer = self.ask(&shared.sql.list_names, params).await;
        names::listed(&answer.map_err(|failure| failure.to_store_error())?.rows)
    }
}

/// Decodes the names that the last statement has read.
fn seen(looks: &Wanted<'_>, answers: &[Rows]) -> Result<Fields, StoreError> {
    match answers.last() {
        Some(answer) if !looks.is_empty() => {
            Ok(looks.read(&answer.rows)?.into_iter().flatten().collect())
        }
        _ => Ok(Fields::new()),
    }
}

/// Returns the only value in an answer.
fn first<'r, T: FromSql<'r>>(answer: &'r Rows) -> Result<T, StoreError> {
    let none =
        || StoreError::Refused("PostgreSQL returned no row where one is expected".to_owned());
    get(answer.rows.first().ok_or_else(none)?, 0)
}

impl Connection for PostgresSession {
    connection_methods!(boxed: begin perform custom commit certify list);

    fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            self.close().await;
            Ok(())
        })
    }

    fn reusable(&mut self) -> bool {
        let open = matches!(self.state, State::Open(_)) || self.doubt.is_some();
        !open && self.link.as_ref().is_some_and(|link| !link.is_closed())
    }
}
