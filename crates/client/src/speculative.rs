//! Operations of a speculative space, with tentative, revised and final results. **Experimental.**
//!
//! A strong operation has a tentative result at once and a final one later. Its [`Operation`] waits
//! for the final one. Any client of the cluster can wait for it with the operation's [`Ticket`].
//!
//! ```no_run
//! use std::time::Duration;
//!
//! # async fn example(mut client: solera::Client) -> Result<(), solera::Error> {
//! let mut sale = client.call_strong(&["DECRBY", "stock:42", "1"]).await?;
//! println!("{:?} are probably left", sale.tentative()?);
//! let left = sale.stable(&mut client, Some(Duration::from_secs(10))).await?;
//! println!("{left:?} are left");
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use solera_resp::Value;

use crate::client::Client;
use crate::error::Error;
use crate::pushes::Inbox;
pub use crate::ticket::Ticket;

/// Time without a push after which the site is asked whether an operation is final.
const PROBE: Duration = Duration::from_secs(2);

/// Longest time for which one request to a site waits.
const ROUND: Duration = Duration::from_secs(10);

/// An operation that was called, with its tentative result.
///
/// Dropping it ends nothing: the operation goes on, and the connection discards its later results.
#[derive(Debug)]
pub struct Operation {
    /// `None` for a weak operation that only reads.
    ticket: Option<Ticket>,
    tentative: Value,
    inbox: Arc<Inbox>,
}

/// A result of an operation that differs from the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    result: Value,
    cause: Option<Ticket>,
}

impl Revision {
    /// Returns the result. It is as tentative as the first one.
    ///
    /// # Errors
    /// The error that the operation returns now, such as `FAILED`.
    pub fn result(&self) -> Result<Value, Error> {
        result(self.result.clone())
    }

    /// Returns the operation because of which the result differs: its place, or its own repetition,
    /// has changed what this operation reads. `None` if the site does not know it.
    pub fn cause(&self) -> Option<&Ticket> {
        self.cause.as_ref()
    }
}

/// Calls of operations of a speculative space. The first word of an operation is a Redis command on
/// keys of the space, or `module.transaction`; the arguments follow.
///
/// # Errors
/// All calls return the errors of [`Client::command`]. If the connection breaks during a call, the
/// operation may have been done, and its ticket is unknown.
impl Client {
    /// Calls a weak operation. Returns the result of its first execution.
    ///
    /// # Errors
    /// Also the error that the operation returns, such as `FAILED`.
    pub async fn call_weak<A: AsRef<[u8]>>(&mut self, operation: &[A]) -> Result<Value, Error> {
        self.call_as(&[b"WEAK"], operation).await
    }

    /// Calls a strong operation. It returns after the first execution.
    ///
    /// # Errors
    /// Also `BUSY` if too many operations are not final. An error of the operation is its
    /// [tentative result](Operation::tentative).
    pub async fn call_strong<A: AsRef<[u8]>>(
        &mut self,
        operation: &[A],
    ) -> Result<Operation, Error> {
        self.operate(&[b"STRONG"], operation).await
    }

    /// Calls a strong operation like [`Client::call_strong`], and subscribes to its
    /// [revisions](Operation::next_revision).
    ///
    /// # Errors
    /// See [`Client::call_strong`].
    pub async fn track_strong<A: AsRef<[u8]>>(
        &mut self,
        operation: &[A],
    ) -> Result<Operation, Error> {
        self.operate(&[b"TRACK", b"STRONG"], operation).await
    }

    /// Calls a weak operation, and subscribes to its [revisions](Operation::next_revision) and its
    /// final result.
    ///
    /// # Errors
    /// See [`Client::call_strong`].
    pub async fn track_weak<A: AsRef<[u8]>>(
        &mut self,
        operation: &[A],
    ) -> Result<Operation, Error> {
        self.operate(&[b"TRACK", b"WEAK"], operation).await
    }

    /// Waits for the final result of an operation that any client of the cluster has called. If the
    /// client has the [`Operation`], [`Operation::stable`] is better. Without a timeout, waits
    /// without a limit.
    ///
    /// # Errors
    /// - The error that the operation returns at its final place, such as `FAILED`.
    /// - `TIMEOUT`: the operation is not final yet, or nobody has called it.
    /// - `DIVERGED`: this site gives no results; other sites do.
    /// - `NOPERM`: the user may not read the keys of the operation.
    /// - `ERR`: the site keeps the result no longer.
    /// - [`Error::Interrupted`]: the connection broke. The ticket stays valid.
    pub async fn stable(
        &mut self,
        ticket: &Ticket,
        timeout: Option<Duration>,
    ) -> Result<Value, Error> {
        let began = Instant::now();
        loop {
            let left = timeout.map_or(ROUND, |timeout| timeout.saturating_sub(began.elapsed()));
            match self.ask_stable(ticket, left).await {
                Err(error) if is_late(&error) && has_time(timeout, began) => {}
                other => return other,
            }
        }
    }

    /// Sends SOLERA.STABLE, which waits for at most `limit`, or for less if the client does not
    /// wait that long for a reply.
    async fn ask_stable(&mut self, ticket: &Ticket, limit: Duration) -> Result<Value, Error> {
        let patience = self.connection().timeout.map_or(ROUND, |patience| patience / 2);
        // 0 is no limit.
        let ms = limit.min(patience).min(ROUND).as_millis().max(1).to_string();
        let asked = self.call(&[b"SOLERA.STABLE", ticket.as_str().as_bytes(), ms.as_bytes()]).await;
        asked.map_err(|error| interrupted(ticket, error))
    }

    async fn call_as<A: AsRef<[u8]>>(
        &mut self,
        how: &[&[u8]],
        operation: &[A],
    ) -> Result<Value, Error> {
        let mut command: Vec<&[u8]> = vec![b"SOLERA.CALL"];
        command.extend(how);
        command.extend(operation.iter().map(AsRef::as_ref));
        self.call(&command).await
    }

    /// Calls an operation that has a handle.
    async fn operate<A: AsRef<[u8]>>(
        &mut self,
        how: &[&[u8]],
        operation: &[A],
    ) -> Result<Operation, Error> {
        let reply = self.call_as(how, operation).await?;
        self.called(reply)
    }

    /// Creates the handle of an operation from the reply to its call.
    fn called(&mut self, reply: Value) -> Result<Operation, Error> {
        // Without RESP3, the reply is an array, and there will be no pushes.
        let (has_pushes, ticket, tentative) = match reply {
            Value::Map(pairs) => {
                let mut values = pairs.into_iter().map(|(_, value)| value);
                (true, values.next(), values.next())
            }
            Value::Array(items) => {
                let mut values = items.into_iter().skip(1).step_by(2);
                (false, values.next(), values.next())
            }
            other => return Err(Error::unexpected(&other)),
        };
        let (Some(ticket), Some(tentative)) = (ticket, tentative) else {
            return Err(Error::UnexpectedReply("a call without a result".to_owned()));
        };
        let ticket = match ticket {
            Value::Null => None,
            ticket => Some(parse_ticket(ticket)?),
        };
        let inbox = match &ticket {
            Some(ticket) if has_pushes => self.connection().pushes.open(ticket.as_str().as_bytes()),
            _ => Arc::default(),
        };
        Ok(Operation { ticket, tentative, inbox })
    }
}

impl Operation {
    /// Returns the ticket, with which every client of the cluster can [wait](Client::stable) for
    /// the final result. A weak operation that only reads has none: it has no place in the order.
    pub fn ticket(&self) -> Option<&Ticket> {
        self.ticket.as_ref()
    }

    /// Returns the result of the first execution. The final result may differ.
    ///
    /// # Errors
    /// The error that the operation returned, such as `FAILED`. The final result may be none.
    pub fn tentative(&self) -> Result<Value, Error> {
        result(self.tentative.clone())
    }

    /// Waits for the final result. Without a timeout, waits without a limit.
    ///
    /// If `client` is the one that has called the operation, and has not reconnected since, the
    /// site sends the final result by itself. Otherwise, the call asks with the ticket, as
    /// [`Client::stable`] does: it works after [`Client::reconnect`] and at other sites. Once the
    /// result is known, the call returns it again.
    ///
    /// A future that is dropped while it asks a site breaks the connection, as that of any other
    /// command does. So prefer the timeout.
    ///
    /// # Errors
    /// See [`Client::stable`]; also [`Error::Unordered`] for an operation without a ticket.
    pub async fn stable(
        &mut self,
        client: &mut Client,
        timeout: Option<Duration>,
    ) -> Result<Value, Error> {
        let ticket = self.ticket.as_ref().ok_or(Error::Unordered)?;
        let began = Instant::now();
        loop {
            if let Some(value) = self.take_stable() {
                return result(value);
            }
            if !self.is_carried(client) {
                let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
                let found = client.stable(ticket, left).await;
                return self.note(found);
            }
            let left = timeout.map_or(PROBE, |timeout| timeout.saturating_sub(began.elapsed()));
            let push = tokio::time::timeout(left.min(PROBE), client.connection().take_push());
            match push.await {
                Ok(taken) => taken.map_err(|error| interrupted(ticket, error))?,
                // The client may have changed to RESP2, which has no pushes.
                Err(_) => match client.ask_stable(ticket, Duration::ZERO).await {
                    Err(error) if is_late(&error) && has_time(timeout, began) => {}
                    found => return self.note(found),
                },
            }
        }
    }

    /// Waits for the next revision. Returns `None` when no other one will arrive: the final result
    /// is known, or `client` is not the one that has called the operation, or has reconnected.
    /// [`Operation::stable`] then returns the final result. The future may be dropped while it
    /// waits; the next call continues.
    ///
    /// Only operations of [`Client::track_strong`] and [`Client::track_weak`] have revisions.
    ///
    /// # Errors
    /// [`Error::Interrupted`]: the connection broke. Revisions that were not received are lost, and
    /// the ticket stays valid.
    pub async fn next_revision(&mut self, client: &mut Client) -> Result<Option<Revision>, Error> {
        let Some(ticket) = &self.ticket else { return Ok(None) };
        loop {
            let next = self.inbox.results().revised.pop_front();
            if let Some((result, cause)) = next {
                let cause = match cause {
                    None | Some(Value::Null) => None,
                    Some(cause) => Some(parse_ticket(cause)?),
                };
                return Ok(Some(Revision { result, cause }));
            }
            if self.inbox.results().stable.is_some() || !self.is_carried(client) {
                return Ok(None);
            }
            let taken = client.connection().take_push().await;
            taken.map_err(|error| interrupted(ticket, error))?;
        }
    }

    /// Returns whether pushes about the operation can still arrive over the client's connection.
    fn is_carried(&self, client: &mut Client) -> bool {
        let ticket = self.ticket.as_ref().map(Ticket::as_str).unwrap_or_default();
        client.connection().pushes.carries(ticket.as_bytes(), &self.inbox)
    }

    /// Returns the final result if it is known, or the error in place of it. A site that has
    /// diverged gives no result, and another one may, so this error is forgotten.
    fn take_stable(&self) -> Option<Value> {
        let mut results = self.inbox.results();
        let stable = results.stable.take()?;
        if !is_diverged(&stable) {
            results.stable = Some(stable.clone());
        }
        Some(stable)
    }

    /// Keeps a final result that a site has returned.
    fn note(&self, found: Result<Value, Error>) -> Result<Value, Error> {
        if let Ok(value) = &found {
            self.inbox.results().stable = Some(value.clone());
        }
        found
    }
}

fn parse_ticket(value: Value) -> Result<Ticket, Error> {
    match value {
        Value::Bulk(text) => Ok(Ticket::from(&*String::from_utf8_lossy(&text))),
        other => Err(Error::unexpected(&other)),
    }
}

/// Returns a result, or the error that the operation has returned.
fn result(value: Value) -> Result<Value, Error> {
    match value {
        Value::Error(text) => Err(Error::server(&text)),
        value => Ok(value),
    }
}

fn is_late(error: &Error) -> bool {
    error.code() == Some("TIMEOUT")
}

fn is_diverged(value: &Value) -> bool {
    matches!(value, Value::Error(text) if text.starts_with("DIVERGED "))
}

fn has_time(timeout: Option<Duration>, began: Instant) -> bool {
    timeout.is_none_or(|timeout| began.elapsed() < timeout)
}

/// Names the ticket in the error of a broken connection.
fn interrupted(ticket: &Ticket, error: Error) -> Error {
    match error {
        Error::Connection(error) => Error::Interrupted { ticket: ticket.clone(), error },
        other => other,
    }
}
