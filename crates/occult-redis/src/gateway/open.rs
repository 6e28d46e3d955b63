//! Transactions that a session keeps open: reads take place at once, writes at the commit.

use std::collections::BTreeMap;

use solera_occult::Transaction;
use solera_resp::Value;

use super::reading::Reading;
use super::updating::{Watches, Work, name_keys};
use super::{GatewaySession, Policy};
use crate::commands::{Access, Call};
use crate::error::Error;

/// An open transaction under PC-PSI.
#[derive(Clone, Debug)]
pub struct Open {
    reading: Reading,
    /// Strings that the transaction has written; `None` for removed ones.
    written: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    /// Replies to the reads so far, so that a repeated read returns the same.
    seen: Vec<(Call, Value)>,
}

impl GatewaySession {
    /// Begins a transaction.
    ///
    /// # Errors
    /// The outcome of the session's last write is not known.
    pub async fn begin(&mut self) -> Result<Open, Error> {
        self.settle_doubt().await?;
        let reading = Reading::new(&self.past);
        Ok(Open { reading, written: BTreeMap::new(), seen: Vec::new() })
    }

    /// Watches a key, for [`GatewaySession::exec`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn watch(&mut self, watches: &mut Watches, key: &[u8]) -> Result<(), Error> {
        if watches.0.iter().any(|(watched, _)| watched == key) {
            return Ok(());
        }
        let Some(call) = Call::new(&[b"TYPE", key]) else { return Ok(()) };
        self.settle_doubt().await?;
        let mut reading = Reading::new(&self.past);
        let look = self.read_in(&mut reading, &call).await?;
        // Later reads of the session are at least as recent as the watched version.
        self.adopt(reading.past());
        watches.0.push((key.to_vec(), look.stored));
        Ok(())
    }

    /// Reads a key in a transaction. It sees the transaction's own writes of strings.
    ///
    /// # Errors
    /// See [`Error`]; also fails if the transaction has written the key and the command is not GET,
    /// EXISTS or STRLEN.
    pub async fn read_open(&mut self, open: &mut Open, call: &Call) -> Result<Value, Error> {
        if let Some(written) = open.written.get(&call.key) {
            let length = written.as_ref().map_or(0, Vec::len) as i64;
            return match call.words[0].as_slice() {
                b"GET" => Ok(written.clone().map_or(Value::Null, Value::Bulk)),
                b"EXISTS" => Ok(Value::Integer(written.is_some().into())),
                b"STRLEN" => Ok(Value::Integer(length)),
                name => Err(Error::Refused(format!(
                    "{} cannot read a key that the open transaction has written",
                    String::from_utf8_lossy(name)
                ))),
            };
        }
        if let Some((_, reply)) = open.seen.iter().find(|(seen, _)| seen == call) {
            return Ok(reply.clone());
        }
        let reply = self.read_in(&mut open.reading, call).await?.reply;
        open.seen.push((call.clone(), reply.clone()));
        Ok(reply)
    }

    /// Commits a transaction.
    ///
    /// # Errors
    /// [`Error::Aborted`] if a validation fails; see [`Error`] for others.
    pub async fn commit_open(&mut self, open: Open) -> Result<(), Error> {
        let written = open.written.iter();
        let calls: Vec<Call> = written.filter_map(|(key, value)| write(key, value)).collect();
        self.commit_calls(open, &calls).await.map(drop)
    }

    /// Commits a transaction that writes by commands, and returns their replies.
    pub(crate) async fn commit_calls(
        &mut self,
        open: Open,
        calls: &[Call],
    ) -> Result<Vec<Value>, Error> {
        let valid = open.reading.transaction.validate_reads(&self.gateway.homes);
        if let (Err(slot), false) = (valid, self.policy == Policy::Accept) {
            return Err(Error::Aborted(format!(
                "it has read too old a copy of {}: another value that it has read depends on a \
                 later one",
                name_keys(slot, open.seen.iter().map(|(call, _)| call))
            )));
        }
        if calls.is_empty() {
            self.adopt(open.reading.past());
            return Ok(Vec::new());
        }
        let Reading { transaction, risk, changed } = &open.reading;
        self.run(&Work { transaction, risk, changed, watches: &[], calls, seen: &open.seen }).await
    }

    /// Executes commands as one transaction if no watched key has changed.
    ///
    /// # Errors
    /// [`Error::Changed`] if a watched key has changed; see [`Error`] for others.
    pub async fn exec(&mut self, watches: &Watches, calls: &[Call]) -> Result<Vec<Value>, Error> {
        self.settle_doubt().await?;
        let past = self.past.clone();
        let (transaction, risk) = (&Transaction::new(past.timestamp), &past.risk);
        self.run(&Work { transaction, risk, changed: &[], watches: &watches.0, calls, seen: &[] })
            .await
    }

    /// Returns whether commands only read, so that [`GatewaySession::read_all`] can run them.
    pub fn only_reads(calls: &[Call]) -> bool {
        calls.iter().all(|call| call.access == Access::Read)
    }
}

fn write(key: &[u8], value: &Option<Vec<u8>>) -> Option<Call> {
    match value {
        Some(value) => Call::new(&[b"SET", key, value]),
        None => Call::new(&[b"DEL", key]),
    }
}

impl Open {
    /// Buffers a string; `None` removes the key.
    pub fn write(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        self.written.insert(key.to_vec(), value);
    }
}
