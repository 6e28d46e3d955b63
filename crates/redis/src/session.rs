//! Sessions of mixed transactions.

use std::sync::Arc;

use redis::{FromRedisValue, Value as Reply, cmd, from_redis_value};
use solera_mixt::store::{
    Answer, Begin, BoxFuture, Connection, Fields, List, Name, NameWrite, ObjectCall, StoreError,
};
use solera_mixt::{boxed, connection_methods};
use solera_program::operation::ObjectOp;
use solera_program::types::Object;

use crate::failure::Failure;
use crate::server::Server;
use crate::{Spaces, names, objects};

pub(crate) struct RedisSession {
    server: Arc<Server>,
    spaces: Arc<Spaces>,
    open: bool,
    /// Writes whose outcome is unknown. They are idempotent, so the session repeats them to make
    /// them certain.
    doubtful: Vec<NameWrite>,
}

impl RedisSession {
    pub(crate) fn new(server: Arc<Server>, spaces: Arc<Spaces>) -> RedisSession {
        RedisSession { server, spaces, open: false, doubtful: Vec::new() }
    }

    /// Returns the prefix of the keys of a space.
    fn prefix(&self, space: &str) -> Result<Arc<str>, StoreError> {
        let found = self.spaces.get(space).cloned();
        found.ok_or_else(|| StoreError::Refused(format!("there is no space `{space}`")))
    }

    fn require_open(&self) -> Result<(), StoreError> {
        let closed = || StoreError::Refused("no transaction is open".to_owned());
        self.open.then_some(()).ok_or_else(closed)
    }

    async fn begin(&mut self, begin: &Begin) -> Result<Vec<Fields>, StoreError> {
        self.open = false;
        if !self.doubtful.is_empty() {
            let written = self.write(&self.doubtful).await;
            written.map_err(Failure::into_store_error)?;
            self.doubtful.clear();
        }
        let mut found = Vec::new();
        for name in &begin.names {
            found.push(self.fields(name).await?);
        }
        self.open = true;
        Ok(found)
    }

    async fn fields(&self, name: &Name) -> Result<Fields, StoreError> {
        let command = names::read(&self.prefix(&name.space)?, &name.space, &name.key);
        let reply = self.server.ask(&command).await.map_err(Failure::into_store_error)?;
        let pairs: Vec<(u64, Vec<u8>)> = parsed(reply)?;
        Ok(pairs.into_iter().map(|(field, value)| (field, value.into())).collect())
    }

    async fn perform(&mut self, call: &ObjectCall) -> Result<Answer, StoreError> {
        self.require_open()?;
        if call.key.starts_with(&names::reserved(&call.space)) {
            return Err(StoreError::Refused(format!("`{}` is a reserved key", call.key)));
        }
        let key = format!("{}{}", self.prefix(&call.space)?, call.key);
        let seen = match &call.look {
            Some(name) => self.fields(name).await.inspect_err(|_| self.open = false)?,
            None => Fields::new(),
        };
        let value = match self.server.ask(&objects::request(call, &key)?).await {
            Ok(reply) => objects::answer(call, reply)?,
            Err(failure) => return Err(self.failed(call, &key, failure).await),
        };
        Ok(Answer { value, seen })
    }

    /// Returns the error for an operation that failed. If the key holds data of other clients, the
    /// transaction stays open.
    async fn failed(&mut self, call: &ObjectCall, key: &str, failure: Failure) -> StoreError {
        let wrong = |found: String| StoreError::WrongData {
            key: Arc::clone(&call.key),
            found,
            wanted: objects::describe(call.object()).to_owned(),
        };
        if let Failure::ErrorReply { code, text } = &failure {
            if code == "WRONGTYPE" {
                let reply = self.server.ask(cmd("TYPE").arg(key)).await;
                let found = reply.ok().and_then(|reply| from_redis_value::<String>(reply).ok());
                return wrong(
                    found.map_or("another type".to_owned(), |found| format!("a {found}")),
                );
            }
            if (call.object(), call.op) == (&Object::Counter, ObjectOp::Increment) {
                if text.contains("overflow") {
                    let text = format!("the counter `{}` would not fit 64 bits", call.key);
                    return StoreError::Refused(text);
                }
                if text.contains("not an integer") {
                    return wrong("a string that is not a number".to_owned());
                }
            }
        }
        let error = failure.into_store_error();
        self.open &= matches!(error, StoreError::Refused(_) | StoreError::Denied(_));
        error
    }

    async fn commit(&mut self, writes: &[NameWrite]) -> Result<(), StoreError> {
        self.require_open()?;
        self.open = false;
        match self.write(writes).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(StoreError::Conflict),
            Err(Failure::Lost(text)) => {
                // A repeated write cannot determine whether the field was new at the first attempt.
                let is_new = |write: &NameWrite| matches!(write, NameWrite::Set { new: true, .. });
                self.doubtful = writes.iter().filter(|write| !is_new(write)).cloned().collect();
                Err(StoreError::OutcomeUnknown(text))
            }
            Err(failure) => Err(failure.into_store_error()),
        }
    }

    /// Writes named objects. Returns `false` if a field exists that must be new.
    async fn write(&self, writes: &[NameWrite]) -> Result<bool, Failure> {
        for (space, writes) in names::by_space(writes) {
            let prefix = self.prefix(&space).map_err(|error| Failure::Denied(error.to_string()))?;
            let reply = self.server.ask(&names::write(&prefix, &space, &writes)).await?;
            if reply == Reply::Int(0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn list(&self, list: &List) -> Result<Vec<Arc<str>>, StoreError> {
        let command = names::list(&self.prefix(&list.space)?, list);
        let reply = self.server.ask(&command).await.map_err(Failure::into_store_error)?;
        let found: Vec<String> = parsed(reply)?;
        Ok(found.into_iter().map(Arc::from).collect())
    }
}

/// Decodes a reply of the type that the command has.
fn parsed<T: FromRedisValue>(reply: Reply) -> Result<T, StoreError> {
    from_redis_value(reply)
        .map_err(|error| StoreError::Refused(format!("its reply is unexpected: {error}")))
}

impl Connection for RedisSession {
    connection_methods!(boxed: begin perform commit list);

    fn certify(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        // The store promises no order of transactions, so it has nothing to certify.
        let open = self.require_open();
        self.open = false;
        Box::pin(std::future::ready(open))
    }

    fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.open = false;
        Box::pin(std::future::ready(Ok(())))
    }
}
