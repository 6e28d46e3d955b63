//! A session with a cluster as mixed transactions use it.

use std::sync::Arc;
use std::time::Duration;

use solera_levels::Level;
use solera_mixt::drive::Clock;
use solera_mixt::outcome::IN_DOUBT_MS;
use solera_mixt::shipment::{Shipment, Shipped};
use solera_mixt::store::{
    Answer, Begin, BoxFuture, Commits, Connection, Fields, Horizon, List, Name, NameWrite,
    ObjectCall, StoreError,
};
use solera_program::keys::type_of;
use solera_resp::Value as Reply;
use tokio::time::Instant;

use super::cluster::Unfit;
use super::objects::{self, Words};
use super::{Connect, RESERVED, Sources, Space, System, failure, phases};
use crate::client::{Client, Token};
use crate::error::Error;
use crate::transaction::Outcome;

/// What begins the keys of named objects, after the prefix of their space.
const NAMES: &str = "mixt:";
/// The names that can be listed: those of recovery records.
const LISTED: &str = "r:";
/// How long a site is given to hear of what was committed elsewhere.
const SEES_TIMEOUT_MS: u64 = 1_000;
/// How long it is given to show what it has committed itself. Its clocks have to pass its own [horizon](Horizon).
const SEES_OVER_TIMEOUT_MS: u64 = 3_000;
/// How long a command may still run whose connection broke; longer than a server lets it.
const AFTER_BREAK: Duration = Duration::from_millis(IN_DOUBT_MS);

pub(super) struct Session {
    connect: Connect,
    /// As whom it acts, if not as the server.
    user: Option<Arc<str>>,
    spaces: Arc<[Space]>,
    /// Spaces that cannot be used.
    unfit: Arc<Unfit>,
    /// The sources of modules whose phases the server runs.
    pub(super) sources: Option<Sources>,
    /// None if the connection broke.
    client: Option<Client>,
    /// What the session has seen when it committed last, for another connection.
    pub(super) seen: Option<Token>,
    state: State,
    doubt: Option<Doubt>,
    /// Whether connections are in this process, and end with it.
    in_process: bool,
    /// The site of the last connection, if it has said so.
    site: Option<Arc<str>>,
}

/// The transaction.
enum State {
    Closed,
    /// It has begun for its user; the server is told with the first command.
    Due {
        strong: bool,
        /// Whether one command follows at most, which only reads.
        once: bool,
    },
    /// It has ended with its only command.
    Over,
    Open(Open),
    /// The server has given it up, and why.
    Spoiled(StoreError),
}

/// A transaction that the server has begun.
#[derive(Clone, Default)]
pub(super) struct Open {
    strong: bool,
    /// By which its outcome can be asked for, if it has a name.
    transaction: Option<String>,
    /// A named object that it writes.
    object: Option<Object>,
}

/// A named object.
#[derive(Clone)]
struct Object {
    key: Vec<u8>,
    /// Whether it is in a space where all that changes it conflicts.
    linearizable: bool,
}

/// A commit whose outcome is not known.
struct Doubt {
    of: Doubted,
    /// When no answer came.
    since: Instant,
    /// The site that was asked to commit.
    site: Option<Arc<str>>,
}

pub(super) enum Doubted {
    Commit(Open),
    /// Of phases that the server runs.
    Phases(phases::Lost),
}

impl Session {
    pub(super) fn new(
        connect: Connect,
        user: Option<Arc<str>>,
        (spaces, unfit): (Arc<[Space]>, Arc<Unfit>),
        sources: Option<Sources>,
    ) -> Session {
        let (client, seen, state, doubt) = (None, None, State::Closed, None);
        let (in_process, site) = (false, None);
        Session {
            connect,
            user,
            spaces,
            unfit,
            sources,
            client,
            seen,
            state,
            doubt,
            in_process,
            site,
        }
    }

    /// With connections in this process, or not.
    pub(super) fn in_process(self, in_process: bool) -> Session {
        Session { in_process, ..self }
    }

    /// With a connection that is open already.
    pub(super) fn over(self, client: Client) -> Session {
        let site = client.connected_site().map(Arc::from);
        Session { client: Some(client), site, ..self }
    }

    /// The connection; a new one goes on where the last one was.
    pub(super) async fn open(&mut self) -> Result<&mut Client, StoreError> {
        if self.client.is_none() {
            let unavailable = |error: Error| StoreError::Unavailable(error.to_string());
            let mut client = (self.connect)().await.map_err(|error| failure::of_connect(&error))?;
            if let Some(seen) = &self.seen {
                client.attach(seen).await.map_err(unavailable)?;
            }
            self.site = client.connected_site().map(Arc::from);
            self.client = Some(client);
        }
        Ok(self.client.as_mut().expect("it has just been opened"))
    }

    /// Sends commands at once. Errors of the server are among the replies.
    pub(super) async fn send(&mut self, commands: &[Words]) -> Result<Vec<Reply>, Error> {
        let Some(client) = &mut self.client else {
            return Err(Error::Connection(std::io::ErrorKind::NotConnected.into()));
        };
        let borrowed: Vec<Vec<&[u8]>> =
            commands.iter().map(|words| words.iter().map(Vec::as_slice).collect()).collect();
        let replies = client.pipeline(&borrowed).await;
        if replies.is_err() {
            self.client = None;
            self.state = State::Closed;
        }
        replies
    }

    /// Sends commands within the transaction, which they begin if that is due.
    async fn send_within(
        &mut self,
        commands: Vec<Words>,
        writes: bool,
    ) -> Result<Vec<Reply>, StoreError> {
        let (mut all, strong) = match &self.state {
            State::Closed | State::Over => {
                return Err(StoreError::Refused("no transaction is open".to_owned()));
            }
            State::Spoiled(error) => return Err(error.clone()),
            State::Due { strong, .. } => (self.begin_words(*strong), *strong),
            State::Open(open) => (Vec::new(), open.strong),
        };
        if writes && !all.is_empty() {
            // If it cannot begin, what follows would take effect without a transaction.
            let sent = self.send(&all).await;
            let replies = sent.map_err(|error| failure::of_command(&error))?;
            self.began(strong, replies)?;
            all.clear();
        }
        let begins = all.len();
        all.extend(commands);
        let sent = self.send(&all).await;
        let mut replies = sent.map_err(|error| failure::of_command(&error))?;
        if begins > 0 {
            self.began(strong, replies.drain(..begins))?;
        }
        Ok(replies)
    }

    /// Of a transaction that may write. If a connection may break while it commits, its outcome has to be asked for.
    fn begin_words(&self, strong: bool) -> Vec<Words> {
        let name = (strong && !self.in_process).then(|| words(b"SOLERA.TXID", []));
        [begin_command(strong)].into_iter().chain(name).collect()
    }

    /// What [`Self::begin_words`] were answered.
    fn began(
        &mut self,
        strong: bool,
        replies: impl IntoIterator<Item = Reply>,
    ) -> Result<(), StoreError> {
        let mut replies = replies.into_iter();
        if let Some(Reply::Error(text)) = replies.next() {
            self.state = State::Closed;
            return Err(failure::of_command(&Error::server(&text)));
        }
        // A user who may not ask for the name does without.
        let transaction = match replies.next() {
            Some(Reply::Bulk(name)) => String::from_utf8(name).ok(),
            _ => None,
        };
        self.state = State::Open(Open { strong, transaction, object: None });
        Ok(())
    }

    /// An error of a command within the transaction.
    async fn fail(&mut self, text: &str) -> StoreError {
        let error = failure::of_command(&Error::server(text));
        self.close().await;
        if matches!(error, StoreError::Refused(_) | StoreError::Denied(_)) {
            self.state = State::Spoiled(error.clone());
        }
        error
    }

    /// Ends the transaction without effect. One that the server cannot be told of ends with its connection.
    pub(super) async fn close(&mut self) {
        if let State::Open(_) = self.state {
            // Whatever it answers, nothing is open afterwards.
            let _ = self.send(&[vec![b"SOLERA.ABORT".to_vec()]]).await;
        }
        self.state = State::Closed;
    }

    /// Whether a space is what was said of it.
    pub(super) fn fits(&self, space: &str) -> Result<(), StoreError> {
        self.unfit.get(space).map_or(Ok(()), |why| Err(StoreError::Denied(why.clone())))
    }

    fn space(&self, name: &str) -> Result<&Space, StoreError> {
        self.fits(name)?;
        let found = self.spaces.iter().find(|space| *space.name == *name);
        found.ok_or_else(|| StoreError::Refused(format!("there is no space `{name}`")))
    }

    /// The key of a program's object.
    fn key(&self, space: &str, key: &str) -> Result<Vec<u8>, StoreError> {
        if key.starts_with(RESERVED) {
            let text = format!("keys beginning with `{RESERVED}` are reserved: `{key}`");
            return Err(StoreError::Refused(text));
        }
        self.place(space, key)
    }

    /// A key of a space, unless it belongs to another one whose prefix it has.
    fn place(&self, name: &str, key: &str) -> Result<Vec<u8>, StoreError> {
        let space = self.space(name)?;
        let whole = format!("{}{key}", space.prefix);
        let owner = self.spaces.iter().find(|space| whole.starts_with(&space.prefix));
        match owner {
            Some(owner) if owner.name != space.name => Err(StoreError::Refused(format!(
                "the key `{whole}` is not in the space `{name}`, but in `{}`",
                owner.name
            ))),
            _ => Ok(whole.into_bytes()),
        }
    }

    fn name(&self, name: &Name) -> Result<Vec<u8>, StoreError> {
        self.place(&name.space, &format!("{RESERVED}{NAMES}{}", name.key))
    }

    /// The key of the set that has the names of a space's recovery records. It is not in the space, but in the
    /// default one, so that records of strong spaces do not conflict with one another.
    fn index(space: &str) -> Vec<u8> {
        format!("{RESERVED}{NAMES}records:{space}").into_bytes()
    }

    fn is_strong(&self, space: &str) -> Result<bool, StoreError> {
        Ok(matches!(self.space(space)?.level, Level::Linearizable | Level::Por))
    }

    /// Whether names are in spaces whose commands are ordered against others.
    fn are_strong<'n>(
        &self,
        names: impl IntoIterator<Item = &'n Name>,
    ) -> Result<bool, StoreError> {
        let mut strong = false;
        for name in names {
            strong |= self.is_strong(&name.space)?;
        }
        Ok(strong)
    }

    /// It is not known whether this has committed.
    pub(super) fn doubts(&mut self, of: Doubted) {
        self.doubt = Some(Doubt { of, since: Instant::now(), site: self.site.clone() });
    }

    /// Returns once the last commit, if its outcome was not known, is seen by what follows, or is known never to take effect.
    pub(super) async fn resolve(&mut self) -> Result<(), StoreError> {
        let Some(Doubt { of, since, site }) = &self.doubt else { return Ok(()) };
        let (is_over, site) = (since.elapsed() >= AFTER_BREAK, site.clone());
        match of {
            Doubted::Phases(lost) => {
                let lost = *lost;
                self.settle(lost).await?;
                self.see_commits_at(site).await?;
            }
            Doubted::Commit(open) if open.strong => {
                let open = open.clone();
                self.resolve_strong(open, is_over).await?;
            }
            Doubted::Commit(_) if is_over => self.see_commits_at(site).await?,
            Doubted::Commit(_) => {
                return Err(unavailable(
                    "the connection broke while it committed, which may still be under way",
                ));
            }
        }
        self.doubt = None;
        Ok(())
    }

    async fn resolve_strong(&mut self, open: Open, is_over: bool) -> Result<(), StoreError> {
        let outcome = match &open.transaction {
            Some(transaction) => {
                let asked = self.open().await?.outcome(transaction).await;
                self.answer(asked)?
            }
            None => Outcome::Unknown,
        };
        match (outcome, open.object) {
            (Outcome::Aborted, _) | (Outcome::Committed, None) => Ok(()),
            (Outcome::Committed, Some(object)) => {
                let read = words(b"HGETALL", [object.key.clone()]);
                self.pass(object, [read]).await
            }
            (Outcome::Unknown, Some(object)) if is_over && object.linearizable => {
                // It conflicts with this, so that it comes before it or never. Perhaps nobody knows of it any more.
                let field = || u64::MAX.to_string().into_bytes();
                let add = words(b"HSET", [object.key.clone(), field(), Vec::new()]);
                let remove = words(b"HDEL", [object.key.clone(), field()]);
                self.pass(object, [add, remove]).await
            }
            (Outcome::Unknown, _) => {
                Err(unavailable("it is not decided yet whether the last transaction has committed"))
            }
        }
    }

    /// Commits a strong transaction on an object, of which no other one that conflicts is unseen then.
    async fn pass(
        &mut self,
        object: Object,
        commands: impl IntoIterator<Item = Words>,
    ) -> Result<(), StoreError> {
        let mut all = vec![begin_command(true), words(b"WATCH", [object.key])];
        all.extend(commands);
        all.extend(end_words());
        self.open().await?;
        let sent = self.send(&all).await;
        let replies = self.answer(sent)?;
        let refused = replies.iter().find_map(|reply| match reply {
            Reply::Error(text) => Some(failure::of_command(&Error::server(text))),
            _ => None,
        });
        match (refused, replies.last()) {
            (None, Some(Reply::Bulk(token))) => {
                self.seen = Some(Token(token.clone()));
                Ok(())
            }
            (Some(denied @ StoreError::Denied(_)), _) => Err(denied),
            (Some(error), _) => Err(unavailable(&format!(
                "the site does not show yet what the last transaction may have written: {error}"
            ))),
            (None, other) => Err(unavailable(&format!("it answers {other:?}"))),
        }
    }

    /// Waits until what follows sees all causal transactions that a site has committed by now.
    async fn see_commits_at(&mut self, site: Option<Arc<str>>) -> Result<(), StoreError> {
        let latest = self.horizon().await?.map(|horizon| horizon.latest);
        let until_ms = latest.unwrap_or_else(|| System.now_ms());
        let commits = Commits { until_ms, whence: Some(site.into_iter().collect()) };
        match self.attach_until(&commits, SEES_OVER_TIMEOUT_MS).await? {
            None => Ok(()),
            Some(error) => Err(match failure::of_command(&error) {
                denied @ StoreError::Denied(_) => denied,
                _ => unavailable(&format!("what it committed before is not seen yet: {error}")),
            }),
        }
    }

    /// What the server was asked about a commit.
    fn answer<T>(&mut self, asked: Result<T, Error>) -> Result<T, StoreError> {
        if let Err(Error::Connection(_)) = asked {
            self.client = None;
        }
        asked.map_err(|error| StoreError::Unavailable(error.to_string()))
    }

    async fn begin(&mut self, begin: &Begin) -> Result<Vec<Fields>, StoreError> {
        self.close().await;
        self.resolve().await?;
        self.open().await?;
        let strong = begin.strong || self.are_strong(&begin.names)?;
        self.state = State::Due { strong, once: begin.once };
        if begin.names.is_empty() {
            return Ok(Vec::new());
        }
        let keys = begin.names.iter().map(|name| Ok(words(b"HGETALL", [self.name(name)?])));
        let keys = keys.collect::<Result<_, StoreError>>()?;
        let replies = self.send_within(keys, false).await?;
        let mut found = Vec::with_capacity(replies.len());
        for reply in replies {
            match reply {
                Reply::Error(text) => return Err(self.fail(&text).await),
                reply => found.push(fields(reply)?),
            }
        }
        Ok(found)
    }

    async fn perform(&mut self, call: &ObjectCall) -> Result<Answer, StoreError> {
        let key = self.key(&call.space, &call.key)?;
        let request = objects::request(call, &key)?;
        let look = call.look.as_ref().map(|name| self.name(name)).transpose()?;
        let eventual = self.space(&call.space)?.level == Level::Eventual;
        // What is eventual takes effect at once, and waits for nothing.
        let at_once = eventual && matches!(self.state, State::Due { .. });
        let mut commands = Vec::new();
        if request.blind {
            commands.push(words(b"TYPE", [key.clone()]));
        }
        if at_once && request.blind {
            let reply = self.send(&commands).await.map_err(|error| failure::of_command(&error))?;
            commands.clear();
            check_type(call, reply.into_iter().next())?;
        }
        let typed = !commands.is_empty();
        commands.push(request.command);
        commands.extend(look.map(|name| words(b"HGETALL", [name])));
        let mut replies = match self.state {
            _ if at_once => {
                self.send(&commands).await.map_err(|error| failure::of_command(&error))?
            }
            State::Due { strong, once: true } => self.read_once(strong, commands).await?,
            _ => self.send_within(commands, call.op.mutates()).await?,
        }
        .into_iter();
        if typed && let Err(wrong) = check_type(call, replies.next()) {
            return Err(self.spoil(wrong).await);
        }
        let reply = replies.next().unwrap_or(Reply::Null);
        let seen = replies.next();
        if let Reply::Error(text) = reply {
            return Err(self.fail_call(call, &key, &text, at_once).await);
        }
        let seen = match seen {
            Some(Reply::Error(text)) => return Err(self.fail(&text).await),
            Some(reply) => fields(reply)?,
            None => Fields::new(),
        };
        match objects::answer(call, reply) {
            Ok(value) => Ok(Answer { value, seen }),
            Err(wrong) if at_once => Err(wrong),
            Err(wrong) => Err(self.spoil(wrong).await),
        }
    }

    /// What a command on an object was answered with an error.
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
                true => failure::of_command(&Error::server(text)),
                false => self.fail(text).await,
            };
            let named = |why: String| match &self.user {
                Some(user) => why.replacen("this user", &format!("user '{user}'"), 1),
                None => why,
            };
            return match error {
                StoreError::Denied(why) => {
                    let key = key.escape_ascii();
                    StoreError::Denied(format!("{} (the key is `{key}`)", named(why)))
                }
                other => other,
            };
        }
        if !at_once {
            self.close().await;
        }
        let wrong = if overflow {
            StoreError::Refused(format!("the counter `{}` would not fit 64 bits", call.key))
        } else {
            let found = match self.send(&[words(b"TYPE", [key.to_vec()])]).await.as_deref() {
                _ if number => "a string that is no number".to_owned(),
                Ok([Reply::Simple(found)]) => format!("a {found}"),
                _ => "something else".to_owned(),
            };
            let wanted = objects::told(call.object()).to_owned();
            StoreError::WrongData { key: Arc::clone(&call.key), found, wanted }
        };
        if !at_once {
            self.state = State::Spoiled(wrong.clone());
        }
        wrong
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
        if let State::Due { strong, .. } = &mut self.state {
            if writes.is_empty() {
                self.state = State::Closed;
                return Ok(());
            }
            let before = *strong;
            let names = writes.iter().map(|write| match write {
                NameWrite::Set { name, .. } | NameWrite::Remove { name, .. } => name,
            });
            self.state = State::Due { strong: self.are_strong(names)? || before, once: false };
        }
        if !writes.is_empty() {
            self.write(writes).await?;
        }
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Open(open) => {
                let sent = self.send(&end_words()).await;
                self.committed(open, sent)
            }
            State::Spoiled(error) => {
                self.state = State::Spoiled(error.clone());
                Err(error)
            }
            _ => Err(StoreError::Refused("no transaction is open".to_owned())),
        }
    }

    /// What the end of a transaction was answered.
    fn committed(&mut self, open: Open, sent: Result<Vec<Reply>, Error>) -> Result<(), StoreError> {
        match sent.as_deref() {
            Ok([Reply::Error(text), ..]) => Err(self.failed_commit(open, &Error::server(text))),
            Ok([_, Reply::Bulk(token)]) => {
                self.seen = Some(Token(token.clone()));
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed_commit(open, error)),
        }
    }

    /// A whole transaction that only reads, in one round trip: what its commands were answered.
    async fn read_once(
        &mut self,
        strong: bool,
        commands: Vec<Words>,
    ) -> Result<Vec<Reply>, StoreError> {
        let mut all = vec![begin_command(strong)];
        all.extend(commands);
        all.extend(end_words());
        // It changes nothing, so that it does not matter whether it has committed if no answer comes.
        let sent = self.send(&all).await;
        let mut replies = sent.map_err(|error| failure::of_command(&error))?;
        self.state = State::Closed;
        let end = replies.split_off(replies.len() - end_words().len());
        self.began(strong, [replies.remove(0)])?;
        self.state = State::Over;
        // What a command was answered tells more than that the transaction was then given up.
        if !replies.iter().any(|reply| matches!(reply, Reply::Error(_))) {
            self.committed(Open::default(), Ok(end))?;
        }
        Ok(replies)
    }

    fn failed_commit(&mut self, mut open: Open, error: &Error) -> StoreError {
        let failed = failure::of_commit(error);
        if let StoreError::OutcomeUnknown(_) = failed {
            if let Error::Unavailable { transaction: Some(name), .. } = error {
                open.transaction = Some(name.clone());
            }
            self.doubts(Doubted::Commit(open));
        }
        failed
    }

    /// Writes names within the transaction.
    async fn write(&mut self, writes: &[NameWrite]) -> Result<(), StoreError> {
        let mut commands = Vec::new();
        let mut new = Vec::new();
        let mut object = None;
        for write in writes {
            let (NameWrite::Set { name, .. } | NameWrite::Remove { name, .. }) = write;
            if object.is_none() && self.is_strong(&name.space)? {
                let linearizable = self.space(&name.space)?.level == Level::Linearizable;
                object = Some(Object { key: self.name(name)?, linearizable });
            }
            let (name, listed) = match write {
                NameWrite::Set { name, field, value, new: is_new } => {
                    if *is_new {
                        new.push(commands.len());
                    }
                    let field = field.to_string().into_bytes();
                    commands.push(words(b"HSET", [self.name(name)?, field, value.to_vec()]));
                    (name, b"SADD")
                }
                NameWrite::Remove { name, field } => {
                    let field = field.to_string().into_bytes();
                    commands.push(words(b"HDEL", [self.name(name)?, field]));
                    (name, b"SREM")
                }
            };
            // All values of a record are removed together.
            if name.key.starts_with(LISTED) {
                let key = name.key.as_bytes().to_vec();
                commands.push(words(listed, [Session::index(&name.space), key]));
            }
        }
        let replies = self.send_within(commands, true).await?;
        for (place, reply) in replies.into_iter().enumerate() {
            match reply {
                Reply::Error(text) => return Err(self.fail(&text).await),
                Reply::Integer(0) if new.contains(&place) => {
                    self.close().await;
                    return Err(StoreError::Conflict);
                }
                _ => {}
            }
        }
        if let State::Open(open) = &mut self.state {
            open.object = object;
        }
        Ok(())
    }

    async fn sees(&mut self, commits: &Commits) -> Result<bool, StoreError> {
        self.attach_until(commits, SEES_TIMEOUT_MS).await.map(|refused| refused.is_none())
    }

    /// Has what follows see what was committed until a time. Returns why it cannot, if the server says so.
    async fn attach_until(
        &mut self,
        commits: &Commits,
        timeout_ms: u64,
    ) -> Result<Option<Error>, StoreError> {
        let numbers = [commits.until_ms, timeout_ms].map(|number| number.to_string().into_bytes());
        let sites = commits.whence.iter().flatten().map(|site| site.as_bytes().to_vec());
        let rest = [b"UNTIL".to_vec()].into_iter().chain(numbers).chain(sites);
        self.open().await?;
        let sent = self.send(&[words(b"SOLERA.ATTACH", rest), words(b"SOLERA.TOKEN", [])]).await;
        let replies = sent.map_err(|error| failure::of_command(&error))?;
        Ok(match &replies[..] {
            [Reply::Error(text), ..] => Some(Error::server(text)),
            [_, Reply::Bulk(token)] => {
                // So that it is seen over another connection, too.
                self.seen = Some(Token(token.clone()));
                None
            }
            _ => None,
        })
    }

    async fn horizon(&mut self) -> Result<Option<Horizon>, StoreError> {
        match self.open().await?.call(&[b"SOLERA.ATTACH", b"HORIZON"]).await {
            Ok(Reply::Array(times)) => match times[..] {
                [Reply::Integer(latest), Reply::Integer(stable)] => {
                    let ms = |time: i64| u64::try_from(time).unwrap_or(0);
                    Ok(Some(Horizon { latest: ms(latest), stable: ms(stable) }))
                }
                _ => Err(StoreError::Refused(format!("it answers {times:?}"))),
            },
            Ok(other) => Err(StoreError::Refused(format!("it answers {other:?}"))),
            // An earlier version, or one that does not tell this user.
            Err(Error::Server { .. }) => Ok(None),
            Err(error) => {
                self.client = None;
                Err(failure::of_command(&error))
            }
        }
    }

    async fn list(&mut self, list: &List) -> Result<Vec<Arc<str>>, StoreError> {
        self.space(&list.space)?;
        if !list.prefix.starts_with(LISTED) {
            let text = format!("only names that begin with `{LISTED}` can be listed");
            return Err(StoreError::Refused(text));
        }
        let index = Session::index(&list.space);
        let found = self.open().await?.call(&[b"SMEMBERS", &index]).await;
        let members = match found {
            Ok(Reply::Set(members) | Reply::Array(members)) => members,
            Ok(other) => return Err(StoreError::Refused(format!("it answers {other:?}"))),
            Err(error) => {
                if let Error::Connection(_) = error {
                    self.client = None;
                }
                return Err(failure::of_command(&error));
            }
        };
        let texts = members.into_iter().filter_map(|member| match member {
            Reply::Bulk(bytes) => String::from_utf8(bytes).ok(),
            _ => None,
        });
        let mut names: Vec<Arc<str>> = texts
            .filter(|text| text.starts_with(&*list.prefix) && **text > *list.after)
            .map(Arc::from)
            .collect();
        names.sort();
        names.truncate(list.limit);
        Ok(names)
    }
}

/// Whether what a command would replace is what the program takes it for.
fn check_type(call: &ObjectCall, reply: Option<Reply>) -> Result<(), StoreError> {
    match reply {
        Some(Reply::Simple(found)) if found != "none" && found != type_of(call.object()).name() => {
            let wanted = objects::told(call.object()).to_owned();
            let (key, found) = (Arc::clone(&call.key), format!("a {found}"));
            Err(StoreError::WrongData { key, found, wanted })
        }
        // An error is an error of the command after it, too.
        _ => Ok(()),
    }
}

fn begin_command(strong: bool) -> Words {
    words(b"SOLERA.BEGIN", [if strong { b"STRONG".to_vec() } else { b"CAUSAL".to_vec() }])
}

fn end_words() -> [Words; 2] {
    [words(b"SOLERA.COMMIT", []), words(b"SOLERA.TOKEN", [])]
}

pub(super) fn words(name: &[u8], rest: impl IntoIterator<Item = Vec<u8>>) -> Words {
    [name.to_vec()].into_iter().chain(rest).collect()
}

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(why.to_owned())
}

/// The values of a named object.
fn fields(reply: Reply) -> Result<Fields, StoreError> {
    let wrong = |what: &dyn std::fmt::Debug| {
        StoreError::Refused(format!("a record of transactions is damaged: {what:?}"))
    };
    let Reply::Map(pairs) = reply else { return Err(wrong(&reply)) };
    let one = |(field, value)| match (field, value) {
        (Reply::Bulk(field), Reply::Bulk(value)) => {
            let number = std::str::from_utf8(&field).ok().and_then(|text| text.parse().ok());
            let number = number.ok_or_else(|| wrong(&field))?;
            Ok((number, Arc::from(value)))
        }
        other => Err(wrong(&other)),
    };
    pairs.into_iter().map(one).collect()
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

    fn commit<'a>(&'a mut self, writes: &'a [NameWrite]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(Session::commit(self, writes))
    }

    fn execute<'a>(
        &'a mut self,
        shipment: &'a Shipment,
    ) -> BoxFuture<'a, Result<Shipped, StoreError>> {
        Box::pin(Session::execute(self, shipment))
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

    fn sees<'a>(&'a mut self, commits: &'a Commits) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(Session::sees(self, commits))
    }

    fn horizon(&mut self) -> BoxFuture<'_, Result<Option<Horizon>, StoreError>> {
        Box::pin(Session::horizon(self))
    }

    fn reusable(&mut self) -> bool {
        let open = matches!(self.state, State::Open(_)) || self.doubt.is_some();
        !open && self.client.as_mut().is_some_and(Client::is_quiet)
    }
}
