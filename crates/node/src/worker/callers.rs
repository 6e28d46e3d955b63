//! Sessions of server-side code, which sends commands as values from its own thread.

use std::pin::pin;
use std::rc::Rc;

use solera_session::{Batch, ClientSession, Delegation, Ends};
use tokio::sync::mpsc::UnboundedReceiver;

use super::Worker;
use super::disconnect::unless_disconnected;

/// Serves a session that acts for another one. It ends when no more commands come, the caller stops
/// waiting for running commands, the journal fails, the session is killed, the site dies, or the
/// user is removed.
pub(super) async fn serve_caller(
    worker: Rc<Worker>,
    delegation: Delegation,
    mut batches: UnboundedReceiver<Batch>,
) {
    let clients = worker.network.clients(worker.address.site);
    // The limit on connections does not apply to such a session.
    let Some(member) = clients.admit(worker.new_client(), Ends::embedded(), usize::MAX) else {
        return;
    };
    worker.count(|counters| counters.connections += 1);
    let mut session = ClientSession::new(worker.clone(), member.client.clone(), None);
    session.act_for(delegation);
    session.publish();
    let identity = session.identity.clone();
    let serving = async {
        while let Some(batch) = batches.recv().await {
            if serve_batch(&worker, &mut session, batch).await.is_none() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = worker.death() => {}
        () = member.client.death() => {}
        () = identity.ends(worker.watch_users()) => {}
        () = serving => {}
    }
    session.close();
    worker.count(|counters| counters.connections -= 1);
}

/// Runs a batch, and answers once its writes are durable. Returns `None` if the session must end,
/// because later results may depend on lost writes.
async fn serve_batch(
    worker: &Rc<Worker>,
    session: &mut ClientSession<Worker>,
    Batch { commands, mut answers }: Batch,
) -> Option<()> {
    worker.wait_for_disk().await;
    if answers.is_closed() {
        // A command that has not begun must not take effect after the caller has stopped waiting.
        return None;
    }
    // After a failure of the journal, callers get no answers and no command of the batch runs.
    if !worker.answers() {
        let reason = worker.why_no_writes().unwrap_or_default();
        let text = format!("MISCONF {reason}; nothing is answered until then");
        // The caller may be gone, here and below.
        let _ = answers.send(Ok(vec![Err(text); commands.len()]));
        return None;
    }
    let had_stopped = worker.has_stopped();
    let done = {
        let running = pin!(session.execute_all(&commands));
        unless_disconnected(running, answers.closed()).await?
    };
    worker.flush();
    if let Err(reason) = worker.durable(had_stopped).await {
        let text = format!("MISCONF {reason}; whether the last writes were done is unknown");
        let _ = answers.send(Err(text));
        return None;
    }
    session.publish();
    let _ = answers.send(Ok(done));
    Some(())
}
