//! A client's connection.

use std::sync::Arc;

use solera_commands::{is_missing, lookup};
use solera_resp::{Protocol, RequestParser, Value, Writer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::buffered;
use super::plan::{Plan, wrong_number};
use super::replies::{bulk, ok, write};
use crate::commands::{Access, Call, TABLE, find};
use crate::error::Error;
use crate::gateway::{GatewaySession, Open, Policy, Watches};

/// Largest buffer that is kept for further replies, in bytes.
const KEPT: usize = 64 * 1024;

/// Mode of the connection.
enum Mode {
    Single,
    /// Between MULTI and EXEC. A command has failed if `broken`.
    Queueing {
        plans: Vec<Plan>,
        broken: bool,
    },
    /// Between SOLERA.BEGIN and SOLERA.COMMIT. The first command that failed makes the commit fail.
    Open {
        open: Box<Open>,
        failed: Option<String>,
    },
}

struct Connection {
    session: GatewaySession,
    writer: Writer,
    mode: Mode,
    watches: Watches,
    number: u64,
    name: Vec<u8>,
    site: Arc<str>,
    ended: bool,
}

/// Serves a client until it closes the connection.
pub(super) async fn serve(
    mut stream: TcpStream,
    session: GatewaySession,
    number: u64,
    site: Arc<str>,
) {
    let _ = stream.set_nodelay(true);
    let mut connection = Connection {
        session,
        writer: Writer::new(Protocol::Resp2),
        mode: Mode::Single,
        watches: Watches::default(),
        number,
        name: Vec::new(),
        site,
        ended: false,
    };
    let mut parser = RequestParser::new();
    let mut buffer = Vec::with_capacity(16 * 1024);
    while !connection.ended {
        match stream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let mut start = 0;
        while !connection.ended {
            let words: Vec<Vec<u8>> = match parser.next(&buffer[start..]) {
                Ok(None) => break,
                Ok(Some((arguments, length))) => {
                    start += length;
                    arguments.from(0).map(<[u8]>::to_vec).collect()
                }
                Err(error) => {
                    connection.writer.error(&format!("ERR Protocol error: {error}"));
                    connection.ended = true;
                    break;
                }
            };
            if !words.is_empty() {
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                connection.command(&words).await;
            }
        }
        buffer.drain(..start);
        if stream.write_all(&connection.writer.bytes).await.is_err() {
            return;
        }
        connection.writer.bytes.clear();
        connection.writer.bytes.shrink_to(KEPT);
    }
}

impl Connection {
    async fn command(&mut self, words: &[&[u8]]) {
        let reply = match self.run(words).await {
            Ok(Some(reply)) => reply,
            // EXEC, if a watched key has changed.
            Ok(None) => return self.writer.null_array(),
            Err(error) => {
                if let Mode::Queueing { broken, .. } = &mut self.mode {
                    *broken = true;
                }
                Value::Error(error.to_string())
            }
        };
        if let (Value::Error(error), Mode::Open { failed, .. }) = (&reply, &mut self.mode) {
            failed.get_or_insert_with(|| error.clone());
        }
        write(&mut self.writer, &reply);
    }

    async fn run(&mut self, words: &[&[u8]]) -> Result<Option<Value>, Error> {
        let name = String::from_utf8_lossy(words[0]).to_uppercase();
        if let Some(reply) = self.control(&name, words).await {
            return reply;
        }
        if let Some(plan) = Plan::new(words)? {
            return self.on_data(plan).await.map(Some);
        }
        if let Some(reply) = self.about_connection(&name, words) {
            return reply.map(Some);
        }
        Err(match name.as_str() {
            "PING" | "ECHO" | "SELECT" | "CLIENT" => wrong_number(&name),
            _ if lookup(words[0]).is_some() || is_missing(words[0]) => {
                Error::Refused(format!("{name} is not supported by solera occult"))
            }
            _ => {
                let name = String::from_utf8_lossy(words[0]);
                Error::Refused(format!("unknown command '{name}'"))
            }
        })
    }

    /// Runs a command of transactions and sessions; `None` if it is not one.
    async fn control(
        &mut self,
        name: &str,
        words: &[&[u8]],
    ) -> Option<Result<Option<Value>, Error>> {
        let arguments = &words[1..];
        let one = |reply: Result<Value, Error>| Some(reply.map(Some));
        match (name, arguments) {
            ("MULTI", []) => one(self.multi()),
            ("EXEC", []) => Some(self.exec().await),
            ("DISCARD", []) => one(self.discard()),
            ("WATCH", [_, ..]) => one(self.watch(arguments).await),
            ("UNWATCH", []) => {
                self.watches = Watches::default();
                one(Ok(ok()))
            }
            ("SOLERA.BEGIN", _) => one(self.begin(arguments).await),
            ("SOLERA.COMMIT", []) => one(self.commit().await),
            ("SOLERA.ABORT", []) => one(self.abort()),
            ("SOLERA.TOKEN", []) => {
                one(self.outside("SOLERA.TOKEN").map(|()| bulk(self.session.token())))
            }
            ("SOLERA.ATTACH", [] | [_]) => one(self.attach(arguments.first().copied())),
            ("SOLERA.STALE", [] | [_]) => one(self.stale(arguments.first().copied())),
            ("QUIT", _) => {
                self.ended = true;
                one(Ok(ok()))
            }
            ("RESET", []) => one(self.reset()),
            (
                "MULTI" | "EXEC" | "DISCARD" | "WATCH" | "UNWATCH" | "SOLERA.COMMIT"
                | "SOLERA.ABORT" | "SOLERA.TOKEN" | "SOLERA.ATTACH" | "SOLERA.STALE" | "RESET",
                _,
            ) => one(Err(wrong_number(name))),
            _ => None,
        }
    }

    /// Fails within a transaction.
    fn outside(&self, name: &str) -> Result<(), Error> {
        match self.mode {
            Mode::Single => Ok(()),
            _ => Err(Error::Refused(format!("{name} cannot be used within a transaction"))),
        }
    }

    async fn on_data(&mut self, plan: Plan) -> Result<Value, Error> {
        let protocol = self.writer.protocol;
        if let Mode::Queueing { plans, .. } = &mut self.mode {
            plans.push(plan);
            return Ok(Value::Simple("QUEUED".to_owned()));
        }
        if let Mode::Open { .. } = &self.mode {
            return self.on_data_in_open(&plan).await;
        }
        let replies = match &plan.calls[..] {
            [call] if call.access == Access::Read => vec![self.session.read(call).await?],
            calls if GatewaySession::only_reads(calls) => self.session.read_all(calls).await?,
            calls => self.session.update_all(calls.to_vec()).await?,
        };
        Ok(plan.reply(replies, protocol))
    }

    async fn on_data_in_open(&mut self, plan: &Plan) -> Result<Value, Error> {
        let Mode::Open { open, .. } = &mut self.mode else { return Ok(Value::Null) };
        let mut replies = Vec::new();
        for call in &plan.calls {
            if call.access == Access::Read {
                replies.push(self.session.read_open(open, call).await?);
                continue;
            }
            // The command is checked before the type of the key. A blind write needs no read.
            let mut effect = buffered::execute(call, None)?;
            if let (false, Some(read)) = (call.blind, Call::new(&[b"GET", &call.key])) {
                match self.session.read_open(open, &read).await? {
                    // A value of any type can be removed.
                    Value::Error(text) if call.removes() && text.starts_with("WRONGTYPE") => {
                        effect = (Value::Integer(1), Some(None));
                    }
                    Value::Error(text) => return Ok(Value::Error(text)),
                    Value::Bulk(value) => effect = buffered::execute(call, Some(value))?,
                    _ => {}
                }
            }
            let (reply, value) = effect;
            if let Some(value) = value {
                open.write(&call.key, value);
            }
            replies.push(reply);
        }
        Ok(plan.reply(replies, self.writer.protocol))
    }

    fn multi(&mut self) -> Result<Value, Error> {
        match self.mode {
            Mode::Queueing { .. } => {
                Err(Error::Refused("MULTI calls can not be nested".to_owned()))
            }
            Mode::Open { .. } => self.outside("MULTI").map(|()| Value::Null),
            Mode::Single => {
                self.mode = Mode::Queueing { plans: Vec::new(), broken: false };
                Ok(ok())
            }
        }
    }

    async fn exec(&mut self) -> Result<Option<Value>, Error> {
        let (plans, broken) = match std::mem::replace(&mut self.mode, Mode::Single) {
            Mode::Queueing { plans, broken } => (plans, broken),
            other => {
                self.mode = other;
                return Err(Error::Refused("EXEC without MULTI".to_owned()));
            }
        };
        let watches = std::mem::take(&mut self.watches);
        if broken {
            let text = "EXECABORT Transaction discarded because of previous errors.";
            return Err(Error::Reply(text.to_owned()));
        }
        let calls: Vec<Call> = plans.iter().flat_map(|plan| plan.calls.clone()).collect();
        let replies = if watches.is_empty() && GatewaySession::only_reads(&calls) {
            self.session.read_all(&calls).await
        } else {
            self.session.exec(&watches, &calls).await
        };
        let mut replies = match replies {
            Ok(replies) => replies.into_iter(),
            Err(Error::Changed) => return Ok(None),
            Err(error) => return Err(error),
        };
        let each = plans.iter().map(|plan| {
            let own = replies.by_ref().take(plan.calls.len()).collect();
            plan.reply(own, self.writer.protocol)
        });
        Ok(Some(Value::Array(each.collect())))
    }

    fn discard(&mut self) -> Result<Value, Error> {
        if !matches!(self.mode, Mode::Queueing { .. }) {
            return Err(Error::Refused("DISCARD without MULTI".to_owned()));
        }
        (self.mode, self.watches) = (Mode::Single, Watches::default());
        Ok(ok())
    }

    async fn watch(&mut self, keys: &[&[u8]]) -> Result<Value, Error> {
        if let Mode::Queueing { .. } = self.mode {
            return Err(Error::Refused("WATCH inside MULTI is not allowed".to_owned()));
        }
        self.outside("WATCH")?;
        for key in keys {
            self.session.watch(&mut self.watches, key).await?;
        }
        Ok(ok())
    }

    async fn begin(&mut self, arguments: &[&[u8]]) -> Result<Value, Error> {
        self.outside("SOLERA.BEGIN")?;
        match arguments {
            [] => {}
            [level] if level.eq_ignore_ascii_case(b"PCPSI") => {}
            [level] => {
                let level = String::from_utf8_lossy(level).to_uppercase();
                let text = format!("there are no {level} transactions here: SOLERA.BEGIN PCPSI");
                return Err(Error::Refused(text));
            }
            _ => return Err(Error::Refused("syntax error".to_owned())),
        }
        let open = Box::new(self.session.begin().await?);
        self.mode = Mode::Open { open, failed: None };
        Ok(ok())
    }

    async fn commit(&mut self) -> Result<Value, Error> {
        let Some((open, failed)) = self.take_open() else {
            return Err(Error::Refused("SOLERA.COMMIT without SOLERA.BEGIN".to_owned()));
        };
        if let Some(first) = failed {
            let because = "Transaction discarded because of previous errors";
            return Err(Error::Reply(format!("EXECABORT {because}, first: {first}")));
        }
        self.session.commit_open(*open).await.map(|()| ok())
    }

    fn abort(&mut self) -> Result<Value, Error> {
        let without = || Error::Refused("SOLERA.ABORT without SOLERA.BEGIN".to_owned());
        self.take_open().map(|_| ok()).ok_or_else(without)
    }

    fn take_open(&mut self) -> Option<(Box<Open>, Option<String>)> {
        match std::mem::replace(&mut self.mode, Mode::Single) {
            Mode::Open { open, failed } => Some((open, failed)),
            other => {
                self.mode = other;
                None
            }
        }
    }

    fn attach(&mut self, token: Option<&[u8]>) -> Result<Value, Error> {
        self.outside("SOLERA.ATTACH")?;
        let token = String::from_utf8_lossy(token.unwrap_or_default());
        self.session.attach(&token).map(|()| ok())
    }

    fn stale(&mut self, policy: Option<&[u8]>) -> Result<Value, Error> {
        let policies = [("HOME", Policy::Home), ("ACCEPT", Policy::Accept), ("FAIL", Policy::Fail)];
        if let Some(wanted) = policy {
            let wanted = String::from_utf8_lossy(wanted).to_uppercase();
            let found = policies.iter().find(|(name, _)| *name == wanted);
            let none = || Error::Refused("the policies are HOME, ACCEPT and FAIL".to_owned());
            self.session.set_policy(found.ok_or_else(none)?.1);
        }
        let policy = policies.iter().find(|(_, policy)| *policy == self.session.policy());
        let counters = self.session.counters();
        let pairs = [
            ("policy", bulk(policy.map_or("", |(name, _)| name))),
            ("replica_reads", Value::Integer(counters.replica.cast_signed())),
            ("home_reads", Value::Integer(counters.home.cast_signed())),
            ("stale_attempts", Value::Integer(counters.stale.cast_signed())),
            ("stale_accepted", Value::Integer(counters.accepted.cast_signed())),
        ];
        Ok(self.map(pairs.map(|(name, value)| (bulk(name), value)).to_vec()))
    }

    fn reset(&mut self) -> Result<Value, Error> {
        (self.mode, self.watches) = (Mode::Single, Watches::default());
        self.session.attach("")?;
        self.session.set_policy(Policy::default());
        self.writer.protocol = Protocol::Resp2;
        self.name.clear();
        Ok(Value::Simple("RESET".to_owned()))
    }

    /// Returns a map in the protocol of the connection.
    fn map(&self, pairs: Vec<(Value, Value)>) -> Value {
        match self.writer.protocol {
            Protocol::Resp3 => Value::Map(pairs),
            Protocol::Resp2 => {
                Value::Array(pairs.into_iter().flat_map(|(key, value)| [key, value]).collect())
            }
        }
    }

    /// Runs a command that concerns only the connection; `None` if it is not one.
    fn about_connection(&mut self, name: &str, words: &[&[u8]]) -> Option<Result<Value, Error>> {
        Some(match (name, &words[1..]) {
            ("PING", []) => Ok(Value::Simple("PONG".to_owned())),
            ("PING" | "ECHO", [text]) => Ok(bulk(*text)),
            ("SELECT", [b"0"]) => Ok(ok()),
            ("SELECT", [_]) => Err(Error::Refused("a cluster has only database 0".to_owned())),
            ("HELLO", arguments) => self.hello(arguments),
            ("CLIENT", [subcommand, arguments @ ..]) => self.client(subcommand, arguments),
            ("COMMAND", arguments) => Ok(commands(arguments)),
            ("INFO", _) => Ok(bulk(self.info())),
            ("AUTH", _) => Err(Error::Refused(
                "AUTH is not needed: solera occult has no users of its own".to_owned(),
            )),
            _ => return None,
        })
    }

    fn hello(&mut self, arguments: &[&[u8]]) -> Result<Value, Error> {
        let mut arguments = arguments.iter();
        match arguments.next() {
            None => {}
            Some(version) if *version == b"2" => self.writer.protocol = Protocol::Resp2,
            Some(version) if *version == b"3" => self.writer.protocol = Protocol::Resp3,
            Some(_) => {
                return Err(Error::Reply("NOPROTO unsupported protocol version".to_owned()));
            }
        }
        while let Some(option) = arguments.next() {
            match option.to_ascii_uppercase().as_slice() {
                b"SETNAME" => self.name = arguments.next().map_or(Vec::new(), |name| name.to_vec()),
                _ => {
                    let option = String::from_utf8_lossy(option);
                    return Err(Error::Refused(format!("syntax error in HELLO option '{option}'")));
                }
            }
        }
        let proto = if self.writer.protocol == Protocol::Resp3 { 3 } else { 2 };
        Ok(self.map(vec![
            (bulk("server"), bulk("solera")),
            (bulk("version"), bulk(env!("CARGO_PKG_VERSION"))),
            (bulk("proto"), Value::Integer(proto)),
            (bulk("id"), Value::Integer(self.number.cast_signed())),
            (bulk("mode"), bulk("standalone")),
            (bulk("role"), bulk("master")),
            (bulk("modules"), Value::Array(Vec::new())),
        ]))
    }

    fn client(&mut self, subcommand: &[u8], arguments: &[&[u8]]) -> Result<Value, Error> {
        let subcommand = String::from_utf8_lossy(subcommand).to_uppercase();
        match (subcommand.as_str(), arguments) {
            ("SETNAME", [name]) => {
                self.name = name.to_vec();
                Ok(ok())
            }
            ("GETNAME", []) => Ok(bulk(self.name.clone())),
            ("ID", []) => Ok(Value::Integer(self.number.cast_signed())),
            ("SETINFO", [_, _]) | ("NO-EVICT" | "NO-TOUCH", [_]) => Ok(ok()),
            _ => Err(Error::Refused(format!(
                "CLIENT {subcommand} is not supported by solera occult"
            ))),
        }
    }

    fn info(&self) -> String {
        let counters = self.session.counters();
        format!(
            "# Server\r\nsolera_version:{}\r\nredis_mode:standalone\r\nsite:{}\r\n\
             # Session\r\nreplica_reads:{}\r\nhome_reads:{}\r\nstale_attempts:{}\r\n\
             stale_accepted:{}\r\n",
            env!("CARGO_PKG_VERSION"),
            self.site,
            counters.replica,
            counters.home,
            counters.stale,
            counters.accepted
        )
    }
}

/// Answers COMMAND.
fn commands(arguments: &[&[u8]]) -> Value {
    let describe = |name: &str| {
        let known = find(name)?;
        let flag = if known.access == Access::Read { "readonly" } else { "write" };
        Some(Value::Array(vec![
            bulk(known.name.to_lowercase()),
            Value::Integer(known.arity.into()),
            Value::Array(vec![Value::Simple(flag.to_owned())]),
            Value::Integer(1),
            Value::Integer(1),
            Value::Integer(1),
        ]))
    };
    match arguments {
        [] => Value::Array(TABLE.iter().filter_map(|known| describe(known.name)).collect()),
        [subcommand] if subcommand.eq_ignore_ascii_case(b"COUNT") => {
            Value::Integer(TABLE.len() as i64)
        }
        [subcommand, names @ ..] if subcommand.eq_ignore_ascii_case(b"INFO") => {
            let known = names.iter().map(|name| describe(&String::from_utf8_lossy(name)));
            Value::Array(known.map(|known| known.unwrap_or(Value::Null)).collect())
        }
        // COMMAND DOCS, which redis-cli asks for help texts.
        _ => Value::Array(Vec::new()),
    }
}
