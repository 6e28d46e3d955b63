//! Commands that wait among the machine's inputs, and their replies.

use solera_machine::RequestId;
use solera_site::{Command, Input, Response};
use tokio::sync::oneshot;

use super::Worker;
use super::open_request::OpenRequest;

impl Worker {
    /// Queues a command among the machine's inputs. Its replies come after the next
    /// [`flush`](Self::flush).
    pub(super) fn queue(&self, command: Command) -> RequestId {
        let (now, mut state) = (self.now(), self.state.borrow_mut());
        let request = state.next_request();
        state.engine.take(now, Input::Client { request, command });
        if state.engine.has_inputs() {
            self.wake.notify_one();
        }
        request
    }

    /// Runs a command of a protocol that the worker runs, and returns its only reply; `None` if no
    /// reply comes. If the future is dropped before it ends, the request is cancelled.
    pub(super) async fn run_queued(&self, command: Command) -> Option<Response> {
        if !self.answers() {
            return None;
        }
        let request = self.queue(command);
        let reply = self.state.borrow_mut().waiting.once(request);
        let mut open = OpenRequest { worker: self, request, answered: false };
        self.flush();
        let response = reply.await.ok()?;
        open.answered = true;
        Some(response)
    }
}

/// Sends the result of a future to another worker. If that worker stops waiting, drops the future.
pub(super) async fn pass_on<T>(
    result: impl Future<Output = Option<T>>,
    mut to: oneshot::Sender<T>,
) {
    let result = tokio::select! {
        result = result => result,
        () = to.closed() => None,
    };
    if let Some(result) = result {
        // The caller may no longer wait.
        let _ = to.send(result);
    }
}
