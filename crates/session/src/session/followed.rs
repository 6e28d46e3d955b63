//! Later results of operations that a client has called, and the pushes that carry them.

use std::rc::Rc;
use std::time::Duration;

use solera_creek::{Command, OperationId, Past, Response};
use solera_procedures::Returned;
use solera_resp::Protocol;
use tokio::task::JoinSet;

use super::ClientSession;
use crate::context::{Context, FromSpeculative, ToSpeculative};
use crate::returned::write_returned;
use crate::ticket::{Ticket, diverged, forgotten, lost, unknown};

/// Time limit of one request to the site's machine. Requests that wait longer are repeated.
pub(super) const ROUND: Duration = Duration::from_secs(4);
/// Pause before a request to a worker that does not answer is repeated.
pub(super) const PAUSE: Duration = Duration::from_millis(200);
/// Most operations that a session may follow at once.
const MOST_FOLLOWED: usize = 10_000;

/// Operations whose later results the client gets. Dropping this value ends the requests.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    requests: JoinSet<Option<Next>>,
}

/// The next result of an operation.
#[derive(Debug)]
struct Next {
    id: OperationId,
    result: Later,
    /// Operations that the site had delivered when it returned the result.
    past: Past,
}

#[derive(Debug)]
enum Later {
    /// The result has changed because of an operation, if the site knows which, and the client
    /// wants all changes.
    Revised(Returned, Option<OperationId>),
    Stable(Returned),
    /// There will be no result, for the reason in this error reply.
    Failed(String),
}

impl<W: Context> ClientSession<W> {
    /// Checks that the client can get later results of one more operation.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) fn may_follow(&self) -> Result<(), String> {
        match self.speculative.followed.requests.len() < MOST_FOLLOWED {
            true => Ok(()),
            false => Err(format!(
                "BUSY this connection waits for {MOST_FOLLOWED} results already; nothing was done"
            )),
        }
    }

    /// Sends the client the final result of an operation when it arrives. If `seen` is given, the
    /// last result that the client has got, also sends each earlier result that differs from the
    /// previous one. Sends nothing to clients that speak RESP2.
    pub(crate) fn follow(&mut self, id: OperationId, seen: Option<Returned>) {
        if self.out.protocol == Protocol::Resp3 {
            let request = next_result(self.worker.clone(), id, seen);
            self.speculative.followed.requests.spawn_local(request);
        }
    }

    /// Waits until there is a push, and appends it to the output. Dropping the future loses
    /// nothing.
    pub async fn next_push(&mut self) {
        loop {
            match self.speculative.followed.requests.join_next().await {
                Some(Ok(Some(next))) => return self.push(next),
                // The machine has answered something else, or the task was cancelled.
                Some(Ok(None) | Err(_)) => {}
                None => std::future::pending().await,
            }
        }
    }

    /// Appends the pushes that are ready to the output.
    pub fn push_ready(&mut self) {
        while let Some(next) = self.speculative.followed.requests.try_join_next() {
            if let Ok(Some(next)) = next {
                self.push(next);
            }
        }
    }

    fn push(&mut self, next: Next) {
        let Next { id, result, past } = next;
        self.speculative.past.join(&past);
        // The client may have changed to RESP2, which has no pushes.
        if self.out.protocol != Protocol::Resp3 {
            return;
        }
        let name = match result {
            Later::Revised(..) => "solera.revised",
            Later::Stable(_) | Later::Failed(_) => "solera.stable",
        };
        self.out.push(if matches!(result, Later::Revised(..)) { 4 } else { 3 });
        self.out.bulk(name.as_bytes());
        self.out.bulk(Ticket(id).to_string().as_bytes());
        match result {
            Later::Revised(returned, cause) => {
                write_returned(&mut self.out, &returned);
                match cause {
                    Some(cause) => self.out.bulk(Ticket(cause).to_string().as_bytes()),
                    None => self.out.null(),
                }
                self.follow(id, Some(returned));
            }
            Later::Stable(returned) => write_returned(&mut self.out, &returned),
            Later::Failed(error) => self.out.error(&error),
        }
    }
}

/// Waits for the next result of an operation. Returns `None` if there will be none.
async fn next_result<W: Context>(
    worker: Rc<W>,
    id: OperationId,
    seen: Option<Returned>,
) -> Option<Next> {
    let follows = seen.is_some();
    loop {
        let command = match follows {
            true => Command::Follow { id, seen: seen.clone() },
            false => Command::Await { id },
        };
        let asked = ToSpeculative::Run { command, within: ROUND };
        let (response, past) = match worker.ask_speculative(asked).await {
            Some(FromSpeculative::Responded { response, past, .. }) => (*response, past),
            Some(FromSpeculative::TimedOut) => continue,
            Some(
                FromSpeculative::State(_)
                | FromSpeculative::Log(..)
                | FromSpeculative::Exported(_)
                | FromSpeculative::Unfinished(_),
            ) => return None,
            // The node of the worker may be reachable again later.
            Some(FromSpeculative::Unreachable(_)) | None => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let result = match response {
            Response::Revised(revised) => Later::Revised(revised.response, revised.cause),
            Response::Stable { response, .. } => Later::Stable(response),
            Response::Forgotten { .. } => Later::Failed(forgotten(id)),
            Response::Lost { .. } => Later::Failed(lost(id, worker.site_name(id.site))),
            Response::Unknown { .. } => Later::Failed(unknown(id, worker.site_name(id.site))),
            Response::Diverged(divergence) => Later::Failed(diverged(&*worker, &divergence)),
            _ => return None,
        };
        return Some(Next { id, result, past });
    }
}
