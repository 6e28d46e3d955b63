//! Pushes about operations of a speculative space, for the handles that wait for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use solera_resp::Value;

/// Number of inboxes below which closed ones are not looked for.
const FEW: usize = 64;

/// Later results of one operation.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// Revised results that were not taken, in the order of their arrival, each with its cause.
    pub(crate) revised: VecDeque<(Value, Option<Value>)>,
    /// The final result, or an error in place of it.
    pub(crate) stable: Option<Value>,
}

/// Later results of one operation, which its connection and its handle share.
#[derive(Debug, Default)]
pub(crate) struct Inbox(Mutex<Results>);

impl Inbox {
    pub(crate) fn results(&self) -> MutexGuard<'_, Results> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Inboxes of the operations that were called over one connection, by ticket. An inbox is removed
/// when the last push about its operation arrives. If the handle has been dropped, any push about
/// the operation removes the inbox.
#[derive(Debug, Default)]
pub(crate) struct Pushes {
    inboxes: BTreeMap<Vec<u8>, Weak<Inbox>>,
    /// Number of inboxes at which those without a handle are removed. Their pushes do not arrive if
    /// the caller has changed to RESP2.
    most: usize,
}

impl Pushes {
    /// Creates the inbox of an operation that was called over this connection.
    pub(crate) fn open(&mut self, ticket: &[u8]) -> Arc<Inbox> {
        if self.inboxes.len() >= self.most.max(FEW) {
            self.inboxes.retain(|_, inbox| inbox.strong_count() > 0);
            self.most = 2 * self.inboxes.len();
        }
        let inbox = Arc::default();
        self.inboxes.insert(ticket.to_vec(), Arc::downgrade(&inbox));
        inbox
    }

    /// Returns whether pushes for an inbox can still arrive over this connection.
    pub(crate) fn carries(&self, ticket: &[u8], inbox: &Arc<Inbox>) -> bool {
        self.inboxes.get(ticket).is_some_and(|it| it.as_ptr() == Arc::as_ptr(inbox))
    }

    /// Puts a push into the inbox of its operation. Discards other pushes.
    pub(crate) fn take(&mut self, push: Vec<Value>) {
        let mut push = push.into_iter();
        let (Some(Value::Bulk(name)), Some(Value::Bulk(ticket)), Some(result)) =
            (push.next(), push.next(), push.next())
        else {
            return;
        };
        let Some(inbox) = self.inboxes.get(&ticket).map(Weak::upgrade) else { return };
        let is_last = name == b"solera.stable";
        if is_last || inbox.is_none() {
            self.inboxes.remove(&ticket);
        }
        let Some(inbox) = inbox else { return };
        match &name[..] {
            b"solera.stable" => inbox.results().stable = Some(result),
            b"solera.revised" => inbox.results().revised.push_back((result, push.next())),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(name: &str, ticket: &str, result: i64) -> Vec<Value> {
        vec![Value::Bulk(name.into()), Value::Bulk(ticket.into()), Value::Integer(result)]
    }

    #[test]
    fn pushes_reach_the_inbox_of_their_operation() {
        let mut pushes = Pushes::default();
        let (one, two) = (pushes.open(b"0-1-1"), pushes.open(b"0-1-2"));
        pushes.take(push("solera.revised", "0-1-1", 5));
        pushes.take([push("solera.revised", "0-1-1", 6), vec![Value::Bulk("c".into())]].concat());
        pushes.take(push("solera.other", "0-1-1", 7));
        pushes.take(push("solera.stable", "0-1-3", 7));
        pushes.take(vec![Value::Bulk("solera.stable".into())]);
        pushes.take(push("solera.stable", "0-1-2", 8));
        let cause = Some(Value::Bulk("c".into()));
        let expected = [(Value::Integer(5), None), (Value::Integer(6), cause)];
        assert_eq!(one.results().revised, expected);
        assert_eq!(one.results().stable, None);
        assert_eq!(two.results().stable, Some(Value::Integer(8)));
        assert!(pushes.carries(b"0-1-1", &one));
        assert!(!pushes.carries(b"0-1-2", &two), "that was the last push");
        assert!(!pushes.carries(b"0-1-1", &two) && !pushes.carries(b"0-1-3", &two));
    }

    #[test]
    fn nothing_remains_of_handles_that_were_dropped() {
        let mut pushes = Pushes::default();
        drop(pushes.open(b"0-1-1"));
        pushes.take(push("solera.revised", "0-1-1", 5));
        assert_eq!(pushes.inboxes.len(), 0);
        // Without pushes, the number of inboxes is limited.
        let kept: Vec<_> = (0..10).map(|it| pushes.open(format!("k{it}").as_bytes())).collect();
        (0..10_000).for_each(|it| drop(pushes.open(format!("d{it}").as_bytes())));
        assert!(pushes.inboxes.len() <= FEW, "{}", pushes.inboxes.len());
        let is_kept = |(it, inbox)| pushes.carries(format!("k{it}").as_bytes(), inbox);
        assert!(kept.iter().enumerate().all(is_kept));
    }
}
