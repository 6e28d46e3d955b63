//! A session, as mixed transactions use it.

mod call;

use std::sync::Arc;

use solera_mixt::store::{
    Answer, Begin, BoxFuture, Connection, CustomCall, Fields, List, NameWrite, ObjectCall,
    StoreError,
};
use solera_program::operation::ObjectOp;

use tokio_postgres::types::FromSql;

use crate::failure::Trouble;
use crate::link::Link;
use crate::names::{self, Wanted, Writes};
use crate::objects::{Request, check_name};
use crate::shared::Shared;
use crate::statement::{Params, Rows, get};

const BEGIN: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE";
const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY";
/// What is written after this can be undone without the transaction: reads before and after count
/// as its own either way.
const MARK: &str = "SAVEPOINT before_writes";
/// Undoes what was written.
const UNDO: &str = "ROLLBACK TO SAVEPOINT before_writes";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";
/// The number of the transaction. It gets one, if it has none.
const NUMBER: &str = "SELECT pg_current_xact_id()::text";
/// What became of a transaction. One that has committed is seen by every transaction that begins
/// later.
const STATUS: &str = "SELECT pg_xact_status($1::text::xid8)";
/// Ends the session that still runs a transaction, and waits for that a second.
const END_RUNNING: &str = "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE backend_xid = $1::text::xid8::xid";
pub(crate) struct Session {
    shared: Arc<Shared>,
    /// None if the connection broke.
    link: Option<Link>,
    state: State,
    /// The number of a transaction whose connection is gone. It may have committed, or still be
    /// open there and hold its locks.
    doubt: Option<String>,
}

/// The transaction.
enum State {
    Closed,
    /// It has begun for its user; the server is told with the first operation.
    Due {
        read_only: bool,
        /// Whether it ends with its first operation.
        once: bool,
    },
    /// It has ended with its only operation.
    Over,
    Open {
        /// Its number, unless it only reads.
        number: Option<String>,
    },
    /// It was given up as an operation was refused, and why.
    Spoiled(StoreError),
}

impl Session {
    pub(crate) fn new(shared: Arc<Shared>, link: Link) -> Session {
        Session { shared, link: Some(link), state: State::Closed, doubt: None }
    }

    /// The connection, a new one if the last one is gone, and whether it is new.
    async fn link(&mut self) -> Result<(&mut Link, bool), StoreError> {
        let gone = self.link.as_ref().is_none_or(Link::is_closed);
        if gone {
            // What was open there is not open on a new one.
            self.lose();
            self.link = Some(Link::open(&self.shared).await?);
        }
        Ok((self.link.as_mut().expect("it was opened if it was gone"), gone))
    }

    fn open_link(&mut self) -> Result<&mut Link, StoreError> {
        match (&self.state, &mut self.link) {
            (State::Spoiled(error), _) => Err(error.clone()),
            (State::Open { .. }, Some(link)) => Ok(link),
            _ => Err(StoreError::Refused("no transaction is open".to_owned())),
        }
    }

    /// That an operation may follow.
    fn check_open(&mut self) -> Result<(), StoreError> {
        match self.state {
            State::Due { .. } => Ok(()),
            _ => self.open_link().map(|_| ()),
        }
    }

    /// Gives up a connection that can no longer be used.
    fn lose(&mut self) {
        if let State::Open { number: Some(number) } =
            std::mem::replace(&mut self.state, State::Closed)
        {
            self.doubt = Some(number);
        }
        if let Some(link) = self.link.take() {
            link.cut();
        }
    }

    /// Ends the transaction without effect.
    async fn close(&mut self) {
        // It stays open until the server has ended it, also if nobody waits for that.
        if let (State::Open { .. }, Some(link)) = (&self.state, &mut self.link)
            && link.send(vec![(ROLLBACK, vec![])]).await.is_err()
        {
            // The server ends it with the connection.
            self.lose();
        }
        self.state = State::Closed;
    }

    /// Something went wrong within the transaction, which is given up.
    async fn fail(&mut self, trouble: &Trouble) -> StoreError {
        let error = trouble.told();
        if trouble.lost() {
            self.lose();
        } else {
            self.spoil(&error).await;
        }
        error
    }

    /// Gives the transaction up; what was refused for good stays refused.
    async fn spoil(&mut self, error: &StoreError) {
        self.close().await;
        if let StoreError::Denied(_) | StoreError::Refused(_) | StoreError::WrongData { .. } = error
        {
            self.state = State::Spoiled(error.clone());
        }
    }

    /// Finds out what became of a transaction whose connection is gone, and ends it if it is open.
    async fn resolve(&mut self) -> Result<(), StoreError> {
        let Some(number) = self.doubt.clone() else { return Ok(()) };
        for attempt in 0..2 {
            let status = match self.ask(STATUS, vec![&number]).await {
                Ok(answer) => first::<Option<String>>(&answer)?,
                // It has come less far than the one it stands for, whose last transactions are
                // lost.
                Err(trouble) if trouble.is_unknown_number() => Some("aborted".to_owned()),
                Err(trouble) => return Err(StoreError::Unavailable(trouble.to_string())),
            };
            match status.as_deref() {
                Some("committed" | "aborted") => {
                    self.doubt = None;
                    return Ok(());
                }
                // A server may take hours to notice that nobody will send the commit.
                Some("in progress") if attempt == 0 => {
                    let asked = self.ask(END_RUNNING, vec![&number]).await;
                    asked.map_err(|trouble| StoreError::Unavailable(trouble.to_string()))?;
                }
                Some(_) => break,
                None => {
                    let text = format!(
                        "the server has forgotten what became of transaction {number}, whose answer was lost"
                    );
                    return Err(StoreError::Unavailable(text));
                }
            }
        }
        let text = format!("transaction {number}, whose answer was lost, is still under way");
        Err(StoreError::Unavailable(text))
    }

    /// Asks outside of transactions.
    async fn ask(&mut self, sql: &str, params: Params<'_>) -> Result<Rows, Trouble> {
        let link = match self.link().await {
            Ok((link, _)) => link,
            Err(error) => return Err(Trouble::Unreachable(error)),
        };
        match link.send(vec![(sql, params)]).await {
            Ok(mut answers) => Ok(answers.remove(0)),
            Err((_, trouble)) => {
                if trouble.lost() {
                    self.lose();
                }
                Err(trouble)
            }
        }
    }

    async fn begin(&mut self, begin: &Begin) -> Result<Vec<Fields>, StoreError> {
        self.close().await;
        self.resolve().await?;
        begin.names.iter().try_for_each(|name| check_name(&name.key))?;
        // With names to read there is no round trip to save, and what they say may end it.
        let once = begin.once && begin.read_only && begin.names.is_empty();
        self.state = State::Due { read_only: begin.read_only, once };
        let wanted = Wanted::new(&begin.names);
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let shared = Arc::clone(&self.shared);
        match self.send(vec![(&shared.sql.read_names, wanted.params())]).await {
            Ok(answers) => wanted.read(&answers[0].rows),
            Err((_, trouble)) => Err(self.fail(&trouble).await),
        }
    }

    /// Tells the server that a transaction begins, if it does not know yet.
    async fn start(&mut self) -> Result<(), StoreError> {
        if let State::Due { once, .. } = &mut self.state {
            *once = false;
            if let Err((_, trouble)) = self.send(Vec::new()).await {
                return Err(self.fail(&trouble).await);
            }
        }
        Ok(())
    }

    /// Sends statements within the transaction, in one round trip with its beginning if that is
    /// due, and with its end if they are all there is.
    async fn send(
        &mut self,
        statements: Vec<(&str, Params<'_>)>,
    ) -> Result<Vec<Rows>, (usize, Trouble)> {
        let State::Due { read_only, once } = self.state else {
            let link = self.open_link().map_err(|error| (0, Trouble::Unreachable(error)))?;
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
                self.link().await.map_err(|error| (0, Trouble::Unreachable(error)))?;
            let sent = link.send(all.clone()).await;
            // Whatever went wrong, it is to be given up.
            self.state = State::Open { number: None };
            let mut answers = match sent {
                Ok(answers) => answers,
                // It broke while nobody used it, say because the server was started anew.
                Err((_, trouble)) if trouble.lost() && !new => {
                    self.lose();
                    continue;
                }
                Err((at, trouble)) => return Err((at.saturating_sub(before), trouble)),
            };
            if !read_only {
                let number = first(&answers[1]);
                let number = number.map_err(|error| (0, Trouble::Unreachable(error)))?;
                self.state = State::Open { number: Some(number) };
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
            Err((_, trouble)) => {
                if trouble.is_overflow() && call.op == ObjectOp::Increment {
                    let text = format!("the counter `{}` would not fit 64 bits", call.key);
                    let error = StoreError::Refused(text);
                    self.spoil(&error).await;
                    return Err(error);
                }
                return Err(self.fail(&trouble).await);
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
        if matches!(self.state, State::Due { .. } | State::Over) {
            if names.is_empty() {
                self.state = State::Closed;
                return Ok(());
            }
            // It has read nothing, or is over: what it is told to write is a transaction of its
            // own.
            self.state = State::Due { read_only: false, once: false };
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
        if matches!(self.state, State::Open { number: None }) && !names.is_empty() {
            // It only reads: what it is told to write is a transaction after it, which nobody can
            // tell from one together with it, as it has changed nothing.
            self.end(&Writes::default()).await?;
            self.begin(&Begin::default()).await?;
            self.start().await?;
        }
        self.end(&writes).await
    }

    /// Writes names and commits in one round trip.
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
                Err(trouble) => return Err(self.fail(&trouble).await),
            }
        }
        let last = prepared.len() - 1;
        let Err((at, trouble)) = link.pipeline(prepared).await else {
            self.state = State::Closed;
            return Ok(());
        };
        if trouble.lost() {
            self.lose();
            // Where nothing was changed, nothing depends on whether it has committed.
            return Err(match self.doubt {
                None => StoreError::Unavailable(trouble.to_string()),
                Some(_) => StoreError::OutcomeUnknown(trouble.to_string()),
            });
        }
        self.state = State::Closed;
        // A commit after an error has rolled back; one that fails has, too.
        if at < last && trouble.is_duplicate() {
            return Err(StoreError::Conflict);
        }
        Err(trouble.told())
    }

    /// Undoes what was written, and commits: PostgreSQL promises of what a serializable transaction
    /// has read only if it commits that it was so.
    async fn certify(&mut self) -> Result<(), StoreError> {
        let undo = match &self.state {
            State::Due { .. } | State::Over => {
                self.state = State::Closed;
                return Ok(());
            }
            State::Spoiled(_) => {
                self.state = State::Closed;
                let text = "the transaction has ended with the operation that was refused";
                return Err(StoreError::Refused(text.to_owned()));
            }
            State::Closed | State::Open { number: None } => None,
            State::Open { number: Some(_) } => Some((UNDO, vec![])),
        };
        let link = self.open_link()?;
        let statements = undo.into_iter().chain([(COMMIT, vec![])]).collect();
        let Err((_, trouble)) = link.send(statements).await else {
            self.state = State::Closed;
            return Ok(());
        };
        if trouble.lost() {
            // Whether it has committed makes no difference, but its locks do.
            self.lose();
            return Err(StoreError::Unavailable(trouble.to_string()));
        }
        self.close().await;
        Err(trouble.told())
    }

    async fn list(&mut self, list: &List) -> Result<Vec<Arc<str>>, StoreError> {
        self.check_space(&list.space)?;
        let shared = Arc::clone(&self.shared);
        let (space, prefix, after) = (&*list.space, &*list.prefix, &*list.after);
        let limit = names::limit(list);
        let params: Params<'_> = vec![&space, &prefix, &after, &limit];
        let answer = self.ask(&shared.sql.list_names, params).await;
        names::listed(&answer.map_err(|trouble| trouble.told())?.rows)
    }
}

/// What the last of the statements has read of names.
fn seen(looks: &Wanted<'_>, answers: &[Rows]) -> Result<Fields, StoreError> {
    match answers.last() {
        Some(answer) if !looks.is_empty() => {
            Ok(looks.read(&answer.rows)?.into_iter().flatten().collect())
        }
        _ => Ok(Fields::new()),
    }
}

/// The only value that a statement answers.
fn first<'r, T: FromSql<'r>>(answer: &'r Rows) -> Result<T, StoreError> {
    let none = || StoreError::Refused("PostgreSQL answers nothing where it must".to_owned());
    get(answer.rows.first().ok_or_else(none)?, 0)
}

impl Connection for Session {
    fn begin<'a>(&'a mut self, begin: &'a Begin) -> BoxFuture<'a, Result<Vec<Fields>, StoreError>> {
        Box::pin(Session::begin(self, begin))
    }

    fn perform<'a>(
        &'a mut self,
        call: &'a ObjectCall,
    ) -> BoxFuture<'a, Result<Answer, StoreError>> {
        Box::pin(Session::perform(self, call))
    }

    fn custom<'a>(&'a mut self, call: &'a CustomCall) -> BoxFuture<'a, Result<Answer, StoreError>> {
        Box::pin(Session::custom(self, call))
    }

    fn commit<'a>(&'a mut self, writes: &'a [NameWrite]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(Session::commit(self, writes))
    }

    fn certify(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(Session::certify(self))
    }

    fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            self.close().await;
            Ok(())
        })
    }

    fn list<'a>(&'a mut self, list: &'a List) -> BoxFuture<'a, Result<Vec<Arc<str>>, StoreError>> {
        Box::pin(Session::list(self, list))
    }

    fn reusable(&mut self) -> bool {
        let open = matches!(self.state, State::Open { .. }) || self.doubt.is_some();
        !open && self.link.as_ref().is_some_and(|link| !link.is_closed())
    }
}
