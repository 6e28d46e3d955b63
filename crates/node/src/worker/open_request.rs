//! Requests of sessions that are cancelled when the session no longer waits.

use solera_machine::RequestId;

use super::Worker;

/// An open request. Dropping it cancels the request, unless the session has the reply that it
/// wants.
pub(super) struct OpenRequest<'a> {
    pub(super) worker: &'a Worker,
    pub(super) request: RequestId,
    pub(super) answered: bool,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let mut state = self.worker.state.borrow_mut();
            state.waiting.forget(self.request);
            let now = self.worker.now();
            state.engine.cancel(now, self.request);
            self.worker.wake.notify_one();
        }
    }
}
