//! Sessions of server-side code, which sends commands as values from its own thread.

use std::pin::pin;
use std::rc::Rc;

use solera_session::{Batch, Delegation, Ends, Session};
use tokio::sync::mpsc::UnboundedReceiver;

use super::Worker;
use super::leaving::unless_left;

/// Serves a session that acts for another until no more commands come, nobody waits for those that
/// run, its journal fails, it is killed, its site dies or its user is no more.
pub(super) async fn serve_caller(
    worker: Rc<Worker>,
    delegation: Delegation,
    mut batches: UnboundedReceiver<Batch>,
) {
    let clients = worker.network.clients(worker.address.site);
    // It is not counted among the connections that there may be.
    let Some(member) = clients.admit(worker.new_client(), Ends::embedded(), usize::MAX) else {
        return;
    };
    worker.count(|counters| counters.connections += 1);
    let mut session = Session::new(worker.clone(), member.client.clone(), None);
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
        () = identity.ends(worker.users_to_come()) => {}
        () = serving => {}
    }
    session.close();
    worker.count(|counters| counters.connections -= 1);
}

/// Runs a batch, and answers once its writes are durable. `None` if the session must not go on:
/// what it would show later may rest on writes that are lost.
async fn serve_batch(
    worker: &Rc<Worker>,
    session: &mut Session<Worker>,
    Batch { commands, mut answers }: Batch,
) -> Option<()> {
    worker.keep_pace().await;
    if answers.is_closed() {
        // What has not begun takes no effect later than who asked relies on.
        return None;
    }
    // Nobody is answered while a journal has failed. Nothing of the batch is done.
    if !worker.answers() {
        let reason = worker.refuses().unwrap_or_default();
        let text = format!("MISCONF {reason}; nothing is answered until then");
        // Who asked may be gone, here and below.
        let _ = answers.send(Ok(vec![Err(text); commands.len()]));
        return None;
    }
    let had_stopped = worker.has_stopped();
    let done = {
        let running = pin!(session.execute_all(&commands));
        unless_left(running, answers.closed()).await?
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
