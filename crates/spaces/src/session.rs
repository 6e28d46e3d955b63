//! A session with a cluster, as mixed transactions use it.

mod certify;
mod doubt;
mod phases;

use std::sync::Arc;

use solera_data::{Op, Outcome};
use solera_levels::Level;
use solera_mixt::lazy::State;
use solera_mixt::store::{
    self, Begin, BoxFuture, Commits, Connection, Fields, Horizon, List, NameWrite, ObjectCall,
    StoreError,
};
use solera_mixt::{boxed, connection_methods};
use solera_program::keys::{describe, type_of};

use self::doubt::{Doubt, Doubted, Object};
use crate::failure;
use crate::layout::Layout;
use crate::objects;
use crate::port::{Answer, Broken, Command, Kind, Port, Reply};

/// Prefix of the names that can be listed: those of recovery records.
const LISTED: &str = "r:";
/// Maximal time to wait until a site sees commits of other sites.
const SEES_TIMEOUT_MS: u64 = 1_000;

/// A connection of mixed transactions with the spaces of a cluster.
#[derive(Debug)]
pub struct SpacesSession<P> {
    port: P,
    /// User that the session acts as; `None` for the server.
    user: Option<Arc<str>>,
    layout: Layout,
    state: State<Due, Open>,
    doubt: Option<Doubt>,
}

/// A transaction that is not begun at the server yet: the first command sends the begin with it.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// Whether it uses a strong space.
    strong: bool,
    /// Whether at most one command follows, which only reads.
    once: bool,
}

/// A transaction that was begun at the server.
#[derive(Clone, Debug, Default)]
struct Open {
    kind: Kind,
    /// Name to ask for its outcome, if it has one.
    transaction: Option<String>,
    /// A key that the transaction writes, of a named object if it is strong.
    object: Option<Object>,
}

impl<P: Port> SpacesSession<P> {
    /// Creates a session that acts as a user, or as the server.
    pub fn new(port: P, user: Option<Arc<str>>, layout: Layout) -> SpacesSession<P> {
        SpacesSession { port, user, layout, state: State::Closed, doubt: None }
    }

    /// Opens the port if it is closed. Without this call, the first transaction opens it.
    ///
    /// # Errors
    /// As [`Port::open`].
    pub async fn open(&mut self) -> Result<(), StoreError> {
        self.port.open().await
    }

    /// Runs commands. Errors of the server are among the answers.
    async fn send(&mut self, commands: Vec<Command>) -> Result<Vec<Answer>, Broken> {
        let answers = self.port.run(commands).await;
        if answers.is_err() {
            self.state = State::Closed;
        }
        answers
    }

    /// Runs a command.
    async fn ask(&mut self, command: Command) -> Result<Answer, Broken> {
        let answers = self.send(vec![command]).await?;
        Ok(answers.into_iter().next().unwrap_or_else(|| Ok(Reply::Other("nothing".to_owned()))))
    }

    /// Runs commands on keys of a space within the transaction, and begins it first if necessary.
    async fn send_within(
        &mut self,
        space: &str,
        commands: Vec<Command>,
        writes: bool,
    ) -> Result<Vec<Answer>, StoreError> {
        let (mut all, kind) = match &self.state {
            State::Closed | State::Over | State::Spoiled(_) => return Err(self.state.not_open()),
            State::Due(Due { strong, .. }) => {
                let kind = self.layout.kind(*strong, space)?;
                (self.begin_commands(kind), kind)
            }
            State::Open(open) => (Vec::new(), open.kind),
        };
        if writes && !all.is_empty() {
            // If the begin failed, later commands would take effect outside a transaction.
            let answers = self.send(all).await.map_err(failure::of_break)?;
            self.began(kind, answers)?;
            all = Vec::new();
        }
        let begins = all.len();
        all.extend(commands);
        let mut answers = self.send(all).await.map_err(failure::of_break)?;
        if begins > 0 {
            self.began(kind, answers.drain(..begins))?;
        }
        Ok(answers)
    }

    /// Returns the commands that begin a transaction that may write. If a session may end while it
    /// commits, the transaction needs a name to ask for its outcome.
    fn begin_commands(&self, kind: Kind) -> Vec<Command> {
        let name = (kind == Kind::Strong && !self.port.is_local()).then_some(Command::Name);
        [Command::Begin { kind }].into_iter().chain(name).collect()
    }

    /// Handles the answers to [`Self::begin_commands`].
    fn began(
        &mut self,
        kind: Kind,
        answers: impl IntoIterator<Item = Answer>,
    ) -> Result<(), StoreError> {
        let mut answers = answers.into_iter();
        if let Some(Err(text)) = answers.next() {
            self.state = State::Closed;
            return Err(failure::of_command(&text));
        }
        // A user without the right to ask for the name continues without it.
        let transaction = match answers.next() {
            Some(Ok(Reply::Name(name))) => Some(name),
            _ => None,
        };
        self.state = State::Open(Open { kind, transaction, object: None });
        Ok(())
    }

    /// Handles an error of a command within the transaction.
    async fn fail(&mut self, text: &str) -> StoreError {
        let error = failure::of_command(text);
        self.close().await;
        self.state.fail(&error);
        error
    }

    /// Ends the transaction without effect. If the server cannot be reached, the transaction ends
    /// with its session.
    async fn close(&mut self) {
        if let State::Open(_) = self.state {
            // Whatever the answer is, no transaction is open afterwards.
            let _ = self.ask(Command::Abort).await;
        }
        self.state = State::Closed;
    }

    async fn begin(&mut self, begin: &Begin) -> Result<Vec<Fields>, StoreError> {
        self.close().await;
        self.resolve().await?;
        self.open().await?;
        let strong = begin.strong || self.layout.are_strong(&begin.names)?;
        self.state = State::Due(Due { strong, once: begin.once });
        let Some(first) = begin.names.first() else { return Ok(Vec::new()) };
        let reads = begin.names.iter().map(|name| Ok(read_all(self.layout.name(name)?)));
        let reads = reads.collect::<Result<_, StoreError>>()?;
        let answers = self.send_within(&first.space, reads, false).await?;
        let mut found = Vec::with_capacity(answers.len());
        for answer in answers {
            match answer {
                Err(text) => return Err(self.fail(&text).await),
                Ok(reply) => found.push(fields(reply)?),
            }
        }
        Ok(found)
    }

    async fn perform(&mut self, call: &ObjectCall) -> Result<store::Answer, StoreError> {
        let key = self.layout.key(&call.space, &call.key)?;
        let (op, blind) = objects::request(call)?;
        let look = call.look.as_ref().map(|name| self.layout.name(name)).transpose()?;
        let eventual = self.layout.space(&call.space)?.level == Level::Eventual;
        // An eventual write takes effect at once and waits for nothing.
        let at_once = eventual && matches!(self.state, State::Due(_));
        let mut commands = Vec::new();
        if blind {
            commands.push(Command::OnKey { key: key.clone(), op: Op::Type });
        }
        if at_once && blind {
            let answers = self.send(std::mem::take(&mut commands)).await;
            check_type(call, answers.map_err(failure::of_break)?.into_iter().next())?;
        }
        let typed = !commands.is_empty();
        commands.push(Command::OnKey { key: key.clone(), op });
        commands.extend(look.map(read_all));
        let mut answers = match self.state {
            _ if at_once => self.send(commands).await.map_err(failure::of_break)?,
            State::Due(Due { strong, once: true }) => {
                let kind = self.layout.kind(strong, &call.space)?;
                self.read_once(kind, commands).await?
            }
            _ => self.send_within(&call.space, commands, call.op.mutates()).await?,
        }
        .into_iter();
        if let State::Open(open) = &mut self.state
            && open.kind == Kind::PcPsi
            && call.op.mutates()
        {
            open.object.get_or_insert_with(|| Object { key: key.clone(), exclusive: true });
        }
        if typed && let Err(wrong) = check_type(call, answers.next()) {
            return Err(self.spoil(wrong).await);
        }
        let (answer, seen) = (answers.next(), answers.next());
        let reply = match answer {
            Some(Ok(reply)) => reply,
            Some(Err(text)) => return Err(self.fail_call(call, &key, &text, at_once).await),
            None => Reply::Other("nothing".to_owned()),
        };
        let seen = match seen {
            Some(Err(text)) => return Err(self.fail(&text).await),
            Some(Ok(reply)) => fields(reply)?,
            None => Fields::new(),
        };
        match objects::answer(call, reply) {
            Ok(value) => Ok(store::Answer { value, seen }),
            Err(wrong) if at_once => Err(wrong),
            Err(wrong) => Err(self.spoil(wrong).await),
        }
    }

    /// Handles an error of a command on an object.
    async fn fail_call(
        &mut self,
        call: &ObjectCall,
        key: &[u8],
        text: &str,
        at_once: bool,
    ) -> StoreError {
        let number = text == "ERR value is not an integer or out of range";
        let overflow = text == "ERR increment or decrement would overflow";
        if !text.starts_with("WRONGTYPE") && !number && !overflow {
            let error = match at_once {
                true => failure::of_command(text),
                false => self.fail(text).await,
            };
            return self.with_names(error, key);
        }
        if !at_once {
            self.close().await;
        }
        let wrong = if overflow {
            StoreError::Refused(format!("the counter `{}` would not fit 64 bits", call.key))
        } else {
            let look = Command::OnKey { key: key.to_vec(), op: Op::Type };
            let found = match self.ask(look).await {
                _ if number => "a string that is not a number".to_owned(),
                Ok(Ok(Reply::Key(Outcome::Type(Some(found))))) => format!("a {}", found.name()),
                Ok(Ok(Reply::Other(found))) => format!("a {found}"),
                _ => "something else".to_owned(),
            };
            let wanted = describe(call.object()).to_owned();
            StoreError::WrongData { key: Arc::clone(&call.key), found, wanted }
        };
        if !at_once {
            self.state = State::Spoiled(wrong.clone());
        }
        wrong
    }

    /// Adds the user and the key to an error about a missing right.
    fn with_names(&self, error: StoreError, key: &[u8]) -> StoreError {
        let StoreError::Denied(why) = error else { return error };
        let why = match &self.user {
            Some(user) => why.replacen("this user", &format!("user '{user}'"), 1),
            None => why,
        };
        StoreError::Denied(format!("{why} (the key is `{}`)", key.escape_ascii()))
    }

    async fn spoil(&mut self, wrong: StoreError) -> StoreError {
        self.close().await;
        self.state = State::Spoiled(wrong.clone());
        wrong
    }

    async fn commit(&mut self, writes: &[NameWrite]) -> Result<(), StoreError> {
        if let (State::Over, []) = (&self.state, writes) {
            self.state = State::Closed;
            return Ok(());
        }
        if let State::Due(Due { strong, .. }) = &self.state {
            if writes.is_empty() {
                self.state = State::Closed;
                return Ok(());
            }
            let before = *strong;
            let strong = self.layout.are_strong(writes.iter().map(NameWrite::name))? || before;
            self.state = State::Due(Due { strong, once: false });
        }
        if !writes.is_empty() {
            self.write(writes).await?;
        }
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Open(open) => {
                let answer = self.ask(Command::Commit).await;
                self.committed(open, answer)
            }
            spoiled @ State::Spoiled(_) => {
                self.state = spoiled;
                Err(self.state.not_open())
            }
            other => Err(other.not_open()),
        }
    }

    /// Handles the answer to the end of a transaction.
    fn committed(
        &mut self,
        mut open: Open,
        answer: Result<Answer, Broken>,
    ) -> Result<(), StoreError> {
        let failed = match answer {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(text)) => {
                let named = failure::transaction_to_ask_for(&text);
                open.transaction = named.map(str::to_owned).or(open.transaction);
                failure::of_commit(&text)
            }
            Err(Broken(why)) => StoreError::OutcomeUnknown(why),
        };
        if let StoreError::OutcomeUnknown(_) = failed {
            self.set_doubt(Doubted::Commit(open));
        }
        Err(failed)
    }

    /// Runs a whole transaction that only reads, in one round trip. Returns the answers to its
    /// commands.
    async fn read_once(
        &mut self,
        kind: Kind,
        commands: Vec<Command>,
    ) -> Result<Vec<Answer>, StoreError> {
        let mut all = vec![Command::Begin { kind }];
        all.extend(commands);
        all.push(Command::Commit);
        // The transaction changes nothing, so its outcome does not matter if no answer arrives.
        let mut answers = self.send(all).await.map_err(failure::of_break)?;
        self.state = State::Closed;
        let end = answers.pop();
        self.began(kind, [answers.remove(0)])?;
        self.state = State::Over;
        // The error of a command is more specific than the error of the end that follows it.
        if let Some(end) = end
            && answers.iter().all(Result::is_ok)
        {
            self.committed(Open::default(), Ok(end))?;
        }
        Ok(answers)
    }

    /// Writes names within the transaction.
    async fn write(&mut self, writes: &[NameWrite]) -> Result<(), StoreError> {
        let mut commands = Vec::new();
        let mut new = Vec::new();
        let mut object = None;
        for write in writes {
            let name = write.name();
            let key = self.layout.name(name)?;
            let level = self.layout.space(&name.space)?.level;
            let conflicts = matches!(level, Level::Linearizable | Level::Por | Level::PcPsi);
            if object.is_none() && conflicts {
                let exclusive = level != Level::Por;
                object = Some(Object { key: key.clone(), exclusive });
            }
            let listed = vec![name.key.as_bytes().into()];
            let (op, listed) = match write {
                NameWrite::Set { field, value, new: is_new, .. } => {
                    if *is_new {
                        new.push(commands.len());
                    }
                    (Op::HashSet(vec![(number(*field), (&**value).into())]), Op::SetAdd(listed))
                }
                NameWrite::Remove { field, .. } => {
                    (Op::HashDelete(vec![number(*field)]), Op::SetRemove(listed))
                }
            };
            commands.push(Command::OnKey { key, op });
            // All values of a record are removed together.
            if name.key.starts_with(LISTED) {
                commands.push(Command::OnKey { key: self.layout.index(name)?, op: listed });
            }
        }
        let space = writes.first().map_or("", |write| &write.name().space);
        let answers = self.send_within(space, commands, true).await?;
        for (place, answer) in answers.into_iter().enumerate() {
            match answer {
                Err(text) => return Err(self.fail(&text).await),
                Ok(Reply::Key(Outcome::Int(0))) if new.contains(&place) => {
                    self.close().await;
                    return Err(StoreError::Conflict);
                }
                Ok(_) => {}
            }
        }
        if let State::Open(open) = &mut self.state {
            open.object = object.or(open.object.take());
        }
        Ok(())
    }

    /// Makes later commands see the commits up to a time. Returns the reason if the server reports
    /// that this is impossible now.
    async fn attach_until(
        &mut self,
        commits: &Commits,
        timeout_ms: u64,
    ) -> Result<Option<String>, StoreError> {
        let sites = commits.replicas.iter().flatten().cloned().collect();
        self.open().await?;
        let attach = Command::AttachUntil { until_ms: commits.until_ms, timeout_ms, sites };
        Ok(self.ask(attach).await.map_err(failure::of_break)?.err())
    }

    async fn horizon(&mut self) -> Result<Option<Horizon>, StoreError> {
        self.open().await?;
        match self.ask(Command::Horizon).await.map_err(failure::of_break)? {
            Ok(Reply::Horizon(horizon)) => Ok(Some(horizon)),
            Ok(other) => Err(failure::unexpected(&other)),
            // The server has an earlier version, or the user has no right.
            Err(_) => Ok(None),
        }
    }

    async fn list(&mut self, list: &List) -> Result<Vec<Arc<str>>, StoreError> {
        self.layout.space(&list.space)?;
        if !list.prefix.starts_with(LISTED) {
            let text = format!("only names that begin with `{LISTED}` can be listed");
            return Err(StoreError::Refused(text));
        }
        self.open().await?;
        let indexes = self.layout.indexes(&list.space)?.into_iter();
        let reads = indexes.map(|key| Command::OnKey { key, op: Op::SetMembers });
        let mut members = Vec::new();
        for answer in self.send(reads.collect()).await.map_err(failure::of_break)? {
            match answer.map_err(|text| failure::of_command(&text))? {
                Reply::Key(Outcome::Members(found)) => members.extend(found),
                other => return Err(failure::unexpected(&other)),
            }
        }
        let texts = members.iter().filter_map(|name| std::str::from_utf8(name.as_bytes()).ok());
        let mut names: Vec<Arc<str>> = texts
            .filter(|text| text.starts_with(&*list.prefix) && **text > *list.after)
            .map(Arc::from)
            .collect();
        names.sort();
        names.truncate(list.limit);
        Ok(names)
    }
}

/// Checks that a command does not replace a key of another type than the program expects.
fn check_type(call: &ObjectCall, answer: Option<Answer>) -> Result<(), StoreError> {
    let wanted = type_of(call.object());
    let found = match answer {
        Some(Ok(Reply::Key(Outcome::Type(Some(found))))) if found != wanted => found.name(),
        Some(Ok(Reply::Other(ref found))) => found,
        // An error of reading the type also occurs in the command after it, which reports it.
        _ => return Ok(()),
    };
    let (key, found) = (Arc::clone(&call.key), format!("a {found}"));
    Err(StoreError::WrongData { key, found, wanted: describe(call.object()).to_owned() })
}

/// Returns the command that reads all values of a named object.
fn read_all(key: Vec<u8>) -> Command {
    Command::OnKey { key, op: Op::HashGetAll }
}

/// Returns the hash field for a value of a named object.
fn number(field: u64) -> solera_data::Value {
    field.to_string().into_bytes().into()
}

/// Decodes the values of a named object.
fn fields(reply: Reply) -> Result<Fields, StoreError> {
    let wrong = |what: &dyn std::fmt::Debug| {
        StoreError::Refused(format!("a record of transactions is damaged: {what:?}"))
    };
    let Reply::Key(Outcome::Pairs(pairs)) = reply else { return Err(wrong(&reply)) };
    let one = |(field, value): (solera_data::Value, solera_data::Value)| {
        let number = std::str::from_utf8(field.as_bytes()).ok().and_then(|text| text.parse().ok());
        let number = number.ok_or_else(|| wrong(&field))?;
        Ok((number, Arc::from(value.as_bytes())))
    };
    pairs.into_iter().map(one).collect()
}

impl<P: Port> Connection for SpacesSession<P> {
    connection_methods!(boxed: begin perform commit execute certify list horizon);

    fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            self.close().await;
            Ok(())
        })
    }

    fn sees<'a>(&'a mut self, commits: &'a Commits) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async {
            let refused = self.attach_until(commits, SEES_TIMEOUT_MS).await?;
            Ok(refused.is_none())
        })
    }

    fn reusable(&mut self) -> bool {
        let open = matches!(self.state, State::Open(_)) || self.doubt.is_some();
        !open && self.port.is_quiet()
    }
}
