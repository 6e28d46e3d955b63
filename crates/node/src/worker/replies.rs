//! Requests that wait for replies of the worker's machine.

use std::collections::BTreeMap;

use solera_machine::RequestId;
use solera_site::Response;
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::oneshot;

/// A reply, and whether it is the last one.
pub(super) type Reply = (Response, bool);

/// Waiter of one request.
#[derive(Debug)]
enum Waiter {
    /// Receives the first reply, which must be the protocol's last one.
    Once(oneshot::Sender<Response>),
    /// Receives all replies up to the last one, or drops the receiver when it has the needed one.
    Each(UnboundedSender<Reply>),
}

/// Requests that wait for replies.
#[derive(Debug, Default)]
pub(super) struct Replies {
    waiting: BTreeMap<RequestId, Waiter>,
    /// Replies of `primary` without a waiter, since the start.
    dropped: u64,
}

impl Replies {
    /// Registers a waiter for one reply to a request.
    pub(super) fn once(&mut self, request: RequestId) -> oneshot::Receiver<Response> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(request, Waiter::Once(sender));
        receiver
    }

    /// Registers a waiter for all replies to a request.
    pub(super) fn each(&mut self, request: RequestId) -> mpsc::UnboundedReceiver<Reply> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.waiting.insert(request, Waiter::Each(sender));
        receiver
    }

    /// Passes a reply to its waiter, or drops it if there is none.
    #[inline]
    pub(super) fn give(&mut self, request: RequestId, response: Response, last: bool) {
        let is_taken = match self.waiting.remove(&request) {
            Some(Waiter::Once(waiter)) => waiter.send(response).is_ok(),
            Some(Waiter::Each(waiter)) => {
                // Sending fails if the waiter already has the reply that it wants; later replies
                // are then expected and not counted. A waiter that stopped waiting earlier was
                // removed.
                let _ = waiter.send((response, last));
                if !last {
                    self.waiting.insert(request, Waiter::Each(waiter));
                }
                true
            }
            // UniStore also answers requests whose client has disconnected, or that need no answer.
            None => !matches!(response, Response::Primary(_)),
        };
        self.dropped += u64::from(!is_taken);
    }

    /// Removes the waiter of a request.
    pub(super) fn forget(&mut self, request: RequestId) {
        self.waiting.remove(&request);
    }

    /// Removes all waiters, because their replies may never come.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Returns the number of replies of `primary` without a waiter.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use solera_primary::{Done, Failure, Position};

    use super::*;

    fn accepted() -> Response {
        let done = Done { position: Position::default(), number: None };
        Response::Primary(solera_primary::Response::Accepted(done))
    }

    fn failed() -> Response {
        Response::Primary(solera_primary::Response::Failed(Failure::TimedOut))
    }

    #[test]
    fn several_replies_come_until_the_last_and_others_are_dropped() {
        let (mut replies, request) = (Replies::default(), RequestId(1));
        let mut receiver = replies.each(request);
        replies.give(request, accepted(), false);
        replies.give(RequestId(2), failed(), true);
        assert_eq!(replies.dropped(), 1);
        replies.give(request, failed(), true);
        // A protocol replies again after its last reply.
        replies.give(request, failed(), true);
        assert_eq!(replies.dropped(), 2);
        assert_eq!(receiver.try_recv(), Ok((accepted(), false)));
        assert_eq!(receiver.try_recv(), Ok((failed(), true)));
        assert!(receiver.try_recv().is_err());
    }

    #[test]
    fn replies_after_the_wanted_one_are_expected_up_to_the_last() {
        let (mut replies, request) = (Replies::default(), RequestId(1));
        let mut receiver = replies.each(request);
        replies.give(request, accepted(), false);
        assert_eq!(receiver.try_recv(), Ok((accepted(), false)));
        drop(receiver);
        replies.give(request, accepted(), false);
        replies.give(request, failed(), true);
        assert_eq!(replies.dropped(), 0);
        replies.give(request, failed(), true);
        assert_eq!(replies.dropped(), 1);
    }

    #[test]
    fn replies_without_a_waiter_are_dropped() {
        let (mut replies, request) = (Replies::default(), RequestId(1));
        let mut receiver = replies.once(request);
        replies.forget(request);
        replies.give(request, failed(), true);
        assert_eq!(replies.dropped(), 1);
        assert!(receiver.try_recv().is_err());
        let mut receiver = replies.each(request);
        replies.clear();
        replies.give(request, failed(), true);
        assert_eq!(replies.dropped(), 2);
        assert!(receiver.try_recv().is_err());
    }
}
