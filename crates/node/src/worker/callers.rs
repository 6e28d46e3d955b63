//! Sessions of server-side code, which sends commands as values from its own thread.

use std::rc::Rc;

use solera_session::{Ends, Lent, Request, Session};
use tokio::sync::mpsc::UnboundedReceiver;

use super::Worker;

/// Serves a session that acts for another until no more commands come, it is killed, its site dies or its
/// user is no more.
pub(super) async fn serve_caller(
    worker: Rc<Worker>,
    lent: Lent,
    mut requests: UnboundedReceiver<Request>,
) {
    let clients = worker.network.clients(worker.address.site);
    // It is not counted among the connections that there may be.
    let Some(member) = clients.admit(worker.new_client(), Ends::embedded(), usize::MAX) else {
        return;
    };
    worker.count(|counters| counters.connections += 1);
    let mut session = Session::new(worker.clone(), member.client.clone(), None);
    session.act_for(lent);
    session.tell();
    let identity = session.identity.clone();
    let serving = async {
        while let Some(request) = requests.recv().await {
            worker.keep_pace().await;
            // Nobody is answered while a journal has failed: who waits learns that its request is dropped.
            if !worker.answers() {
                return;
            }
            let had_stopped = worker.has_stopped();
            let durable = async || {
                worker.flush();
                worker.durable(had_stopped).await.map_err(|reason| {
                    format!("MISCONF {reason}; whether the last writes were done is unknown")
                })
            };
            session.serve(request, durable).await;
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
