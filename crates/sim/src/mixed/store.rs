//! Replicas as stores of mixed transactions: the same as `solera::mixed` does over sockets, with
//! commands of replicas.

use std::sync::Arc;
use std::time::Duration;

use solera_data::{Key, Op, Outcome};
use solera_levels::Level;
use solera_machine::Address;
use solera_mixt::rights::{Access, Denial};
use solera_mixt::store::{
    Answer, Begin, BoxFuture, Commits, Connection, Database, Fields, Horizon, List, Name,
    NameWrite, ObjectCall, StoreError,
};
use solera_mixt::{boxed, connection_methods};
use solera_program::operation::ObjectOp;
use solera_program::value::Value;
use solera_time::{Physical, SiteId, Timestamp, Vector};
use solera_unistore::{Claim, Command, CommandError, Kind, Pasts, Response, TransactionId, TxId};

use super::exchange::Exchange;
use super::objects;
use super::users::Users;
use crate::queue::MS;

/// Number of sites.
pub(super) const SITES: usize = 3;
/// Time for which a commit whose connection broke may still take effect, in nanoseconds: longer
/// than a command runs.
const IN_DOUBT: u64 = 1_500 * MS;
/// Time that a site gets to receive transactions that were committed elsewhere.
const PATIENCE: Duration = Duration::from_millis(1_000);
/// Kind of operations that conflict with nothing.
const FREE: Kind = Kind { number: 61, conflicts: 0 };
/// Prefix of the names that can be listed: those of recovery records.
const LISTED: &str = "r:";

/// A rule that a test takes out of stores or hosts, to prove that the checks detect its absence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// A host that takes over a transaction first sees the commits at the site of the previous
    /// host.
    Sees,
    /// Readers find witnesses.
    Witnesses,
    /// A host that continues a transaction acts in the name of its user.
    Names,
    /// After a commit whose answer was lost, the session begins nothing until the outcome is known.
    Doubt,
    /// The reads of a failed transaction are certified.
    Certify,
}

/// The keys of one level in a cluster as a database, used at one site.
#[derive(Clone)]
pub(super) struct Spaces {
    pub(super) exchange: Exchange,
    pub(super) users: Users,
    pub(super) name: &'static str,
    pub(super) level: Level,
    pub(super) site: SiteId,
    /// The user of the sessions; `None` for the host, which has all rights.
    pub(super) user: Option<Arc<str>>,
    pub(super) without: Option<Rule>,
}

impl Database for Spaces {
    fn name(&self) -> Arc<str> {
        self.name.into()
    }

    fn spans(&self, _one: &str, _other: &str) -> bool {
        true
    }

    fn level(&self, space: &str) -> Option<Level> {
        (space == "all").then_some(self.level)
    }

    fn user(&self) -> Option<Arc<str>> {
        self.user.clone()
    }

    fn distinguishes_users(&self) -> bool {
        true
    }

    fn permits(&self, user: Option<&str>, _accesses: &[Access]) -> Option<Denial> {
        let found = self.users.check(Some(user.unwrap_or_default()), self.name);
        found.err().map(|error| Denial { phase: None, reason: error.to_string() })
    }

    fn commit_replica(&self) -> Option<Arc<str>> {
        Some(self.site.0.to_string().into())
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async {
            let mut session = StoreSession {
                of: self.clone(),
                line: None,
                pasts: Pasts::none(SITES),
                tx: None,
                written: Vec::new(),
                claim: None,
                lacks: None,
                doubt: None,
            };
            session.open().await?;
            Ok(Box::new(session) as Box<dyn Connection>)
        })
    }

    fn connect_as<'a>(
        &'a self,
        user: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, StoreError>> {
        let user = user.filter(|_| self.without != Some(Rule::Names)).map(Arc::from);
        let named = Spaces { user, ..self.clone() };
        Box::pin(async move { named.connect().await })
    }
}

/// A commit whose outcome is not known.
struct Doubt {
    of: Lost,
    /// A value that the commit has created, if any.
    created: Option<(Name, u64)>,
}

#[derive(Clone, Copy)]
enum Lost {
    /// The transaction's site knows the outcome under this name.
    Named(TransactionId),
    /// The connection broke at this time; the outcome is known some time later.
    Broken(u64),
    /// The transaction has committed, and the session does not see it yet.
    Unseen,
}

struct StoreSession {
    of: Spaces,
    /// The worker, and how often it had stopped when the connection was opened. `None` if the
    /// connection broke.
    line: Option<(Address, u64)>,
    /// Pasts of the session.
    pasts: Pasts,
    tx: Option<Tx>,
    /// Numbers that the open transaction writes.
    written: Vec<i64>,
    claim: Option<Claim>,
    /// Snapshot of the conflicting transactions that the last strong transaction lacked.
    lacks: Option<Vector>,
    doubt: Option<Doubt>,
}

#[derive(Clone, Copy)]
struct Tx {
    id: TxId,
    strong: bool,
}

impl Drop for StoreSession {
    fn drop(&mut self) {
        self.close();
    }
}

impl StoreSession {
    /// Returns the worker. A new connection attaches the session's past.
    async fn open(&mut self) -> Result<Address, StoreError> {
        if let Some(line) = self.line.filter(|line| self.of.exchange.is_open(*line)) {
            return Ok(line.0);
        }
        self.line = None;
        let found = self.of.exchange.some_worker(self.of.site);
        let line = found.ok_or_else(|| unavailable("no worker of the site answers"))?;
        if self.pasts != Pasts::none(SITES) {
            let command = Command::Attach { pasts: self.pasts, timeout: Some(PATIENCE) };
            match self.of.exchange.ask(line.0, command).await {
                Some(Response::Attached) => {}
                other => return Err(unavailable(&format!("what was seen is not here: {other:?}"))),
            }
        }
        self.line = Some(line);
        Ok(line.0)
    }

    /// Sends a command to the worker that the session is connected with.
    async fn ask(&mut self, command: Command) -> Result<Response, StoreError> {
        let line = self.line.filter(|line| self.of.exchange.is_open(*line));
        let answer = match line {
            Some((worker, _)) => self.of.exchange.ask(worker, command).await,
            None => None,
        };
        answer.ok_or_else(|| {
            self.line = None;
            self.tx = None;
            unavailable("the connection broke")
        })
    }

    /// Aborts the open transaction.
    fn close(&mut self) {
        self.written.clear();
        if let (Some(tx), Some((worker, _))) = (self.tx.take(), self.line) {
            self.of.exchange.send_only(worker, Command::Abort { tx: tx.id });
        }
    }

    fn is_strong(&self) -> bool {
        self.of.level == Level::Linearizable
    }

    fn key(&self, key: &str) -> Key {
        Key::from(format!("{}:{key}", self.of.name).as_str())
    }

    fn name(&self, name: &Name) -> Key {
        self.key(&format!("!{}", name.key))
    }

    /// Returns the set of the names of all records. It is causal, so that records do not conflict
    /// with one another.
    fn index(&self) -> Key {
        Key::from(format!("records:{}", self.of.name).as_str())
    }

    /// Executes an operation within the open transaction.
    async fn operate(&mut self, level: Level, key: Key, op: Op) -> Result<Outcome, StoreError> {
        let Some(Tx { id: tx, strong }) = self.tx else {
            return Err(StoreError::Refused("no transaction is open".to_owned()));
        };
        let kind = match level {
            Level::Linearizable if strong && op.is_update() => Kind::UPDATE,
            Level::Linearizable if strong => Kind::READ,
            _ => FREE,
        };
        match self.ask(Command::Operate { tx, level, key, op, kind }).await? {
            Response::Operated(Ok(outcome)) => Ok(outcome),
            Response::Operated(Err(error)) => Err(StoreError::Refused(error.to_string())),
            Response::Failed(error) => {
                self.close();
                Err(failure(&error))
            }
            other => unreachable!("{other:?} is no answer to an operation"),
        }
    }

    async fn look(&mut self, name: &Name) -> Result<Fields, StoreError> {
        objects::fields(self.operate(self.of.level, self.name(name), Op::HashGetAll).await?)
    }

    /// Determines the outcome of the last commit.
    async fn settle(&mut self) -> Result<(), StoreError> {
        let Some(doubt) = self.doubt.as_ref().map(|doubt| doubt.of) else { return Ok(()) };
        if self.of.without == Some(Rule::Doubt) {
            self.doubt = None;
            return Ok(());
        }
        let committed = match doubt {
            Lost::Unseen => true,
            Lost::Broken(since) if self.of.exchange.lock().now - since < IN_DOUBT => {
                return Err(unavailable("the last commit may be under way"));
            }
            // The commit may also have had no effect.
            Lost::Broken(_) => false,
            Lost::Named(tid) => {
                self.open().await?;
                let Response::Outcome(Some(committed)) = self.ask(Command::Outcome { tid }).await?
                else {
                    return Err(unavailable("it is not decided whether the last one committed"));
                };
                committed
            }
        };
        self.doubt = self.doubt.take().filter(|doubt| committed && doubt.created.is_some());
        if let Some(doubt) = &mut self.doubt {
            doubt.of = Lost::Unseen;
        }
        Ok(())
    }

    /// Checks that the open transaction sees the last commit, if that is known to have taken
    /// effect: the site may know the outcome before its snapshots contain it.
    async fn see_own(&mut self) -> Result<(), StoreError> {
        let created = self.doubt.as_ref().and_then(|doubt| doubt.created.clone());
        let Some((name, field)) = created else { return Ok(()) };
        if !self.look(&name).await?.contains_key(&field) {
            self.close();
            return Err(unavailable("the last commit is not seen yet"));
        }
        self.doubt = None;
        Ok(())
    }

    async fn begin(&mut self, begin: &Begin) -> Result<Vec<Fields>, StoreError> {
        self.close();
        self.settle().await?;
        self.open().await?;
        if let Some(past) = self.lacks.take() {
            // If the commit does not arrive in time, the attempt fails once more.
            let (pasts, timeout) = (Pasts::causal(past), Some(PATIENCE));
            self.ask(Command::Attach { pasts, timeout }).await?;
        }
        let strong = begin.strong || self.is_strong();
        let past = self.pasts.causal;
        self.tx = match self.ask(Command::Begin { past, strong }).await? {
            Response::Begun(id) => Some(Tx { id, strong }),
            Response::Failed(error) => return Err(failure(&error)),
            other => unreachable!("{other:?} is no answer to a beginning"),
        };
        self.see_own().await?;
        let mut found = Vec::new();
        for name in &begin.names {
            found.push(self.look(name).await?);
        }
        Ok(found)
    }

    async fn perform(&mut self, call: &ObjectCall) -> Result<Answer, StoreError> {
        self.of.users.check(self.of.user.as_deref(), self.of.name)?;
        let op = objects::operation(call);
        let outcome = self.operate(self.of.level, self.key(&call.key), op).await?;
        if let (ObjectOp::Insert, [Value::Int(number)]) = (call.op, &call.args[..]) {
            self.written.push(*number);
        }
        let mut seen = Fields::new();
        if let Some(name) = call.look.as_ref() {
            seen = self.look(name).await?;
        }
        if self.of.without == Some(Rule::Witnesses) {
            seen.clear();
        }
        Ok(Answer { value: Some(objects::answer(call, outcome)?), seen })
    }

    async fn write(&mut self, write: &NameWrite) -> Result<(), StoreError> {
        let level = self.of.level;
        let name = match write {
            NameWrite::Set { name, field, value, new } => {
                let op = Op::HashSet(vec![(objects::text(field), (&**value).into())]);
                let added = self.operate(level, self.name(name), op).await?;
                if *new && added == Outcome::Int(0) {
                    self.close();
                    return Err(StoreError::Conflict);
                }
                name
            }
            NameWrite::Remove { name, field } => {
                let op = Op::HashDelete(vec![objects::text(field)]);
                self.operate(level, self.name(name), op).await?;
                name
            }
        };
        if name.key.starts_with(LISTED) {
            let key = vec![(&*name.key).into()];
            let sets = matches!(write, NameWrite::Set { .. });
            let op = if sets { Op::SetAdd(key) } else { Op::SetRemove(key) };
            self.operate(Level::Causal, self.index(), op).await?;
        }
        Ok(())
    }

    async fn commit(&mut self, writes: &[NameWrite]) -> Result<(), StoreError> {
        for write in writes {
            self.write(write).await?;
        }
        if !self.written.is_empty()
            && let Err(denied) = self.of.users.check(self.of.user.as_deref(), self.of.name)
        {
            self.close();
            return Err(denied);
        }
        let Some(Tx { id: tx, strong }) = self.tx.take() else {
            return Err(StoreError::Refused("no transaction is open".to_owned()));
        };
        for number in std::mem::take(&mut self.written) {
            self.of.users.judge(number, self.of.name);
        }
        let claim = self.claim.take().filter(|_| strong);
        let created = writes.iter().find_map(|write| match write {
            NameWrite::Set { name, field, new: true, .. } => Some((name.clone(), *field)),
            _ => None,
        });
        let Ok(answer) = self.ask(Command::Commit { tx, claim }).await else {
            let of = Lost::Broken(self.of.exchange.lock().now);
            self.doubt = Some(Doubt { of, created });
            return Err(StoreError::OutcomeUnknown("the connection broke".to_owned()));
        };
        match answer {
            Response::Committed { pasts } => {
                self.pasts.join(&pasts);
                Ok(())
            }
            Response::Failed(CommandError::Unavailable { tid: Some(tid), .. }) => {
                self.doubt = Some(Doubt { of: Lost::Named(tid), created });
                Err(StoreError::OutcomeUnknown(format!("{tid} is not decided")))
            }
            Response::Failed(error) => Err(self.aborted(&error)),
            other => unreachable!("{other:?} is no answer to a commit"),
        }
    }

    /// Records the claim of a transaction that was not committed or certified.
    fn aborted(&mut self, error: &CommandError) -> StoreError {
        if let CommandError::Aborted { claim, lacks, .. } = error {
            self.claim = Some(*claim);
            self.lacks = lacks.as_deref().copied();
        }
        failure(error)
    }

    async fn certify(&mut self) -> Result<(), StoreError> {
        let certified = self.tx.filter(|tx| tx.strong && self.of.without != Some(Rule::Certify));
        let Some(Tx { id: tx, .. }) = certified else {
            self.close();
            return Ok(());
        };
        self.written.clear();
        self.tx = None;
        let claim = self.claim.take();
        match self.ask(Command::Certify { tx, claim }).await? {
            Response::Committed { pasts } => {
                self.pasts.join(&pasts);
                Ok(())
            }
            Response::Failed(error) => Err(self.aborted(&error)),
            other => unreachable!("{other:?} is no answer to a certification"),
        }
    }

    async fn sees(&mut self, commits: &Commits) -> Result<bool, StoreError> {
        if self.of.without == Some(Rule::Sees) {
            return Ok(true);
        }
        self.open().await?;
        let until = Timestamp::from_physical(Physical(commits.until_ms * 1000));
        let wanted = |site: &SiteId| {
            let named = commits.replicas.as_ref();
            named.is_none_or(|named| named.contains(&*site.0.to_string()))
        };
        let sites = SiteId::all(SITES).filter(wanted);
        let past = sites.fold(Vector::zero(SITES), |past, site| past.with(site, until));
        let pasts = Pasts::causal(past);
        let attached = self.ask(Command::Attach { pasts, timeout: Some(PATIENCE) }).await?;
        let sees = attached == Response::Attached;
        if sees {
            self.pasts.join(&pasts);
        }
        Ok(sees)
    }

    async fn list(&mut self, list: &List) -> Result<Vec<Arc<str>>, StoreError> {
        self.open().await?;
        let (past, level, key) = (self.pasts.causal, Level::Causal, self.index());
        let command = Command::Execute { past, level, key, op: Op::SetMembers };
        let members = match self.ask(command).await? {
            Response::Executed { outcome: Ok(Outcome::Members(members)), pasts } => {
                self.pasts.join(&pasts);
                members
            }
            other => return Err(unavailable(&format!("it answers {other:?}"))),
        };
        let texts = members.iter().filter_map(|key| std::str::from_utf8(key.as_bytes()).ok());
        let names = texts.filter(|key| key.starts_with(&*list.prefix) && **key > *list.after);
        Ok(names.take(list.limit).map(Arc::from).collect())
    }
}

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(why.to_owned())
}

/// Converts a replica's error, which means that nothing was done.
fn failure(error: &CommandError) -> StoreError {
    match error {
        CommandError::Aborted { .. } | CommandError::NoSuchTransaction => StoreError::Conflict,
        error => StoreError::Unavailable(error.to_string()),
    }
}

impl Connection for StoreSession {
    connection_methods!(boxed: begin perform commit certify list sees);

    fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.close();
        Box::pin(std::future::ready(Ok(())))
    }

    fn horizon(&mut self) -> BoxFuture<'_, Result<Option<Horizon>, StoreError>> {
        let horizon = self.of.exchange.lock().horizons.get(&self.of.site).copied();
        let answer = horizon.map(Some).ok_or_else(|| unavailable("no worker of the site answers"));
        Box::pin(std::future::ready(answer))
    }
}
