//! Sessions of mixed transactions.

use std::collections::BTreeMap;
use std::sync::Arc;

use solera_mixt::store::{
    Answer, Begin, Connection, Fields, Horizon, List, Name, NameWrite, ObjectCall, StoreError,
};
use solera_mixt::{boxed, connection_methods};
use solera_program::operation::ObjectOp;
use solera_program::types::Object;
use solera_redis::{Reply, error_of_reply, objects};
use solera_resp::Value;

use super::value::{Held, Wrong, read_all};
use super::written::Written;
use super::{Shared, failure, names};
use crate::commands::Call;
use crate::error::Error;
use crate::gateway::{GatewaySession, Open};
use crate::slot;

pub(super) struct StoreSession {
    shared: Arc<Shared>,
    session: GatewaySession,
    open: Option<Transaction>,
}

/// An open transaction.
struct Transaction {
    open: Open,
    /// Its writes, by key.
    written: BTreeMap<String, Written>,
}

impl StoreSession {
    pub(super) fn new(shared: Arc<Shared>, session: GatewaySession) -> StoreSession {
        StoreSession { shared, session, open: None }
    }

    /// Handles an error of the cluster, which ends the transaction.
    fn failed(&mut self, error: Error) -> StoreError {
        self.open = None;
        if let Error::Lost { .. } = error {
            // Otherwise every later transaction of this process would depend on the lost writes.
            *self.shared.seen() = None;
        }
        failure::of(error)
    }

    /// Shares the dependencies of this session with later sessions.
    fn share(&self) {
        let mut seen = self.shared.seen();
        match &mut *seen {
            Some(seen) => self.session.add_to(seen),
            None => *seen = Some(self.session.past()),
        }
    }

    fn transaction(&mut self) -> Result<&mut Transaction, StoreError> {
        let closed = || StoreError::Refused("no transaction is open".to_owned());
        self.open.as_mut().ok_or_else(closed)
    }

    /// Reads in the transaction. Error replies of Redis are values.
    async fn read(&mut self, key: &str, words: &[&[u8]]) -> Result<Value, StoreError> {
        let call = command(key, words)?;
        self.transaction()?;
        let Some(Transaction { open, .. }) = &mut self.open else { return Ok(Value::Null) };
        match self.session.read_open(open, &call).await {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failed(error)),
        }
    }

    async fn begin(&mut self, begin: &Begin) -> Result<Vec<Fields>, StoreError> {
        self.open = None;
        let open = match self.session.begin().await {
            Ok(open) => open,
            Err(error) => {
                let _ = self.failed(error.clone());
                return Err(failure::of_begin(error));
            }
        };
        self.open = Some(Transaction { open, written: BTreeMap::new() });
        let mut found = Vec::new();
        for name in &begin.names {
            found.push(self.fields(name).await?);
        }
        Ok(found)
    }

    async fn fields(&mut self, name: &Name) -> Result<Fields, StoreError> {
        let key = names::key(self.shared.prefix(&name.space)?, &name.key);
        let wrong = |found: &Value| {
            StoreError::Denied(format!("`{key}`, a record of transactions, is damaged: {found:?}"))
        };
        let reply = self.read(&key, &[b"HGETALL"]).await?;
        let Value::Array(values) = &reply else { return Err(wrong(&reply)) };
        let pairs = values.chunks(2).map(|pair| match pair {
            [Value::Bulk(field), Value::Bulk(value)] => {
                let number = std::str::from_utf8(field).ok().and_then(|text| text.parse().ok());
                Ok((number.ok_or_else(|| wrong(&reply))?, value[..].into()))
            }
            _ => Err(wrong(&reply)),
        });
        pairs.collect()
    }

    async fn perform(&mut self, call: &ObjectCall) -> Result<Answer, StoreError> {
        let key = format!("{}{}", self.shared.prefix(&call.space)?, call.key);
        // A prefix and a handle together can form the key of a slot record.
        if call.key.starts_with(names::RESERVED) || key.as_bytes().starts_with(slot::RESERVED) {
            return Err(StoreError::Refused(format!("`{key}` is a reserved key")));
        }
        self.transaction()?;
        let seen = match &call.look {
            Some(name) => self.fields(name).await?,
            None => Fields::new(),
        };
        let (name, rest) = objects::words(call)?;
        let words: Vec<Vec<u8>> = [vec![name.as_bytes().to_vec()], rest].concat();
        let reply = self.execute(call, &key, words).await?;
        Ok(Answer { value: objects::answer(call, reply_of(reply))?, seen })
    }

    /// Executes a command that reads; keeps a command that writes until the commit.
    async fn execute(
        &mut self,
        call: &ObjectCall,
        key: &str,
        words: Vec<Vec<u8>>,
    ) -> Result<Value, StoreError> {
        let writes = call.op.mutates();
        let kind = objects::type_of(call.object());
        let mut written = match self.transaction()?.written.get(key) {
            Some(written) => written.clone(),
            None if writes => self.first_write(call, key, kind).await?,
            None => {
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                return match self.read(key, &words).await? {
                    Value::Error(text) => Err(self.refused(call, key, &text).await?),
                    value => Ok(value),
                };
            }
        };
        if written.kind != kind {
            return Err(wrong_data(call, format!("a {}", written.kind)));
        }
        if written.must_load(writes) {
            let before = self.load(call, key, kind).await?;
            written.load(before).map_err(|why| wrong(call, why))?;
        }
        let reply = written.run(words, writes).map_err(|why| wrong(call, why))?;
        self.transaction()?.written.insert(key.to_owned(), written);
        Ok(reply)
    }

    /// Checks that a key that is to be written for the first time has the type that the program
    /// expects.
    async fn first_write(
        &mut self,
        call: &ObjectCall,
        key: &str,
        kind: &'static str,
    ) -> Result<Written, StoreError> {
        if let (Object::Counter, ObjectOp::Increment) = (call.object(), call.op) {
            let before = self.load(call, key, kind).await?;
            return Ok(Written::new(kind, Some(before)));
        }
        let found = self.type_of(key).await?;
        if found != kind && found != "none" {
            return Err(wrong_data(call, format!("a {found}")));
        }
        Ok(Written::new(kind, (found == "none").then_some(Held::Absent)))
    }

    async fn load(&mut self, call: &ObjectCall, key: &str, kind: &str) -> Result<Held, StoreError> {
        match self.read(key, read_all(kind)).await? {
            Value::Error(text) => Err(self.refused(call, key, &text).await?),
            reply => {
                let text = format!("the reply for `{key}` is unexpected: {reply:?}");
                Held::read(kind, reply).ok_or(StoreError::Refused(text))
            }
        }
    }

    async fn type_of(&mut self, key: &str) -> Result<String, StoreError> {
        match self.read(key, &[b"TYPE"]).await? {
            Value::Simple(found) => Ok(found),
            Value::Error(text) => Err(error_of_reply(&text)),
            other => Ok(format!("{other:?}")),
        }
    }

    /// Returns the error for an error reply to a read. The transaction stays open.
    async fn refused(
        &mut self,
        call: &ObjectCall,
        key: &str,
        text: &str,
    ) -> Result<StoreError, StoreError> {
        if !text.starts_with("WRONGTYPE") {
            return Ok(error_of_reply(text));
        }
        let found = self.type_of(key).await?;
        Ok(wrong_data(call, format!("a {found}")))
    }

    async fn commit(&mut self, writes: &[NameWrite]) -> Result<(), StoreError> {
        self.transaction()?;
        let mut calls = Vec::new();
        for write in writes {
            if let NameWrite::Set { name, field, new: true, .. } = write
                && self.fields(name).await?.contains_key(field)
            {
                self.open = None;
                return Err(StoreError::Conflict);
            }
            calls.extend(self.of_name(write)?);
        }
        let Some(Transaction { open, written }) = self.open.take() else { return Ok(()) };
        for (key, written) in &written {
            for words in &written.commands {
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                calls.push(command(key, &words)?);
            }
        }
        let committed = self.session.commit_calls(open, &calls).await;
        let replies = match committed {
            Ok(replies) => replies,
            // The replies of the commands are not needed.
            Err(Error::RepliesLost(_)) => Vec::new(),
            Err(error) => return Err(self.failed(error)),
        };
        self.share();
        let failed = replies.iter().zip(&calls).find_map(|(reply, call)| match reply {
            Value::Error(text) => Some((text, String::from_utf8_lossy(&call.key))),
            _ => None,
        });
        match failed {
            None => Ok(()),
            Some((text, key)) => Err(StoreError::Refused(format!(
                "another program has changed `{key}` during the transaction, which has committed \
                 without its write there: {text}"
            ))),
        }
    }

    /// Returns the commands that change a named object.
    fn of_name(&self, write: &NameWrite) -> Result<Vec<Call>, StoreError> {
        let Name { space, key: name } = write.name();
        let prefix = self.shared.prefix(space)?;
        let key = names::key(prefix, name);
        let (on_key, on_index): (_, &[u8]) = match write {
            NameWrite::Set { field, value, .. } => {
                (command(&key, &[b"HSET", field.to_string().as_bytes(), value])?, b"SADD")
            }
            NameWrite::Remove { field, .. } => {
                (command(&key, &[b"HDEL", field.to_string().as_bytes()])?, b"SREM")
            }
        };
        // All values of a record are removed together.
        let listed = name.starts_with(names::LISTED);
        let index = names::index(prefix, name);
        let on_index = listed.then(|| command(&index, &[on_index, name.as_bytes()])).transpose()?;
        Ok(std::iter::once(on_key).chain(on_index).collect())
    }

    async fn certify(&mut self) -> Result<(), StoreError> {
        self.transaction()?;
        let Some(Transaction { open, .. }) = self.open.take() else { return Ok(()) };
        let certified = self.session.commit_calls(open, &[]).await;
        certified.map_err(|error| self.failed(error))?;
        self.share();
        Ok(())
    }

    async fn abort(&mut self) -> Result<(), StoreError> {
        self.open = None;
        Ok(())
    }

    async fn list(&mut self, list: &List) -> Result<Vec<Arc<str>>, StoreError> {
        let prefix = self.shared.prefix(&list.space)?.to_owned();
        if !list.prefix.starts_with(names::LISTED) {
            let text = format!("only names that begin with `{}` can be listed", names::LISTED);
            return Err(StoreError::Refused(text));
        }
        let calls = names::indexes(&prefix).map(|key| command(&key, &[b"SMEMBERS"]));
        let calls = calls.collect::<Result<Vec<_>, _>>()?;
        let replies = match self.session.read_all(&calls).await {
            Ok(replies) => replies,
            Err(error) => {
                let _ = self.failed(error.clone());
                return Err(failure::of_begin(error));
            }
        };
        let mut found: Vec<Arc<str>> = Vec::new();
        for reply in replies {
            let Value::Array(members) = reply else {
                let text = format!("a list of records of transactions is damaged: {reply:?}");
                return Err(StoreError::Denied(text));
            };
            for member in members {
                if let Value::Bulk(bytes) = member
                    && let Ok(text) = String::from_utf8(bytes)
                    && text.starts_with(&*list.prefix)
                    && *text > *list.after
                {
                    found.push(text.into());
                }
            }
        }
        found.sort();
        found.truncate(list.limit);
        Ok(found)
    }

    async fn horizon(&mut self) -> Result<Option<Horizon>, StoreError> {
        let (latest, stable) = self.session.horizon();
        Ok(Some(Horizon { latest, stable }))
    }
}

fn command(key: &str, words: &[&[u8]]) -> Result<Call, StoreError> {
    let (name, rest) = words.split_at(words.len().min(1));
    let call = Call::new(&[name, &[key.as_bytes()], rest].concat());
    call.ok_or_else(|| {
        let name = String::from_utf8_lossy(&name.concat()).into_owned();
        StoreError::Refused(format!("{name} is no command on one key"))
    })
}

fn wrong_data(call: &ObjectCall, found: String) -> StoreError {
    let wanted = objects::describe(call.object()).to_owned();
    StoreError::WrongData { key: Arc::clone(&call.key), found, wanted }
}

fn wrong(call: &ObjectCall, why: Wrong) -> StoreError {
    match why {
        Wrong::Type => wrong_data(call, "another type".to_owned()),
        Wrong::NotAnInteger => wrong_data(call, "a string that is not a number".to_owned()),
        Wrong::Overflow => {
            StoreError::Refused(format!("the counter `{}` would not fit 64 bits", call.key))
        }
        Wrong::Command => call.impossible(),
    }
}

/// Converts a reply to the type with which replies are decoded.
fn reply_of(value: Value) -> Reply {
    match value {
        Value::Bulk(bytes) => Reply::BulkString(bytes),
        Value::Integer(number) => Reply::Int(number),
        Value::Simple(text) => Reply::SimpleString(text),
        Value::Array(values) | Value::Set(values) => {
            Reply::Array(values.into_iter().map(reply_of).collect())
        }
        _ => Reply::Nil,
    }
}

impl Connection for StoreSession {
    connection_methods!(boxed: begin perform commit certify abort list horizon);

    fn reusable(&mut self) -> bool {
        self.open.is_none() && !self.session.is_in_doubt()
    }
}
