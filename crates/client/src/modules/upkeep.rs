//! Completes transactions that were left incomplete, and removes what complete ones leave behind.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use solera_mixt::collect::Collector;
use solera_mixt::drive::Clock;
use solera_mixt::record::Record;
use solera_mixt::recovery;
use solera_mixt::store::BoxFuture;
use solera_node::Local;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{Settings, Shared, connections, places, registry, spaces, told};
use crate::client::Client;
use crate::error::Error;
use crate::mixed::{Spaces, System};

/// What calls hand over.
pub(super) struct Upkeep {
    left: UnboundedSender<Vec<Record>>,
    /// The way to the site of the last call.
    local: Mutex<Option<Local>>,
}

impl Upkeep {
    pub(super) fn new() -> (Upkeep, UnboundedReceiver<Vec<Record>>) {
        let (left, work) = unbounded_channel();
        (Upkeep { left, local: Mutex::default() }, work)
    }

    /// A site can be reached so.
    pub(super) fn note(&self, local: Local) {
        *self.local.lock().unwrap_or_else(PoisonError::into_inner) = Some(local);
    }

    /// These transactions are complete.
    pub(super) fn leave(&self, records: Vec<Record>) {
        // Without a receiver the process is about to end, and others find the records.
        let _ = self.left.send(records);
    }

    fn local(&self) -> Option<Local> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Works until the host is gone.
pub(super) async fn run(
    shared: Weak<Shared>,
    mut work: UnboundedReceiver<Vec<Record>>,
    settings: Settings,
) {
    let mut collector = Collector::new(settings.limits);
    let every = settings.upkeep.max(Duration::from_millis(1));
    loop {
        tokio::time::sleep(every).await;
        while let Ok(records) = work.try_recv() {
            collector.add(records, System.now_ms());
        }
        let Some(shared) = shared.upgrade() else { return };
        if let Some(local) = shared.upkeep.local() {
            // What cannot be done now is tried again.
            pass(&shared, &local, &mut collector).await;
        }
    }
}

async fn pass(shared: &Shared, local: &Local, collector: &mut Collector) {
    let server = local.clone();
    let connect = move || -> BoxFuture<'static, Result<Client, Error>> {
        let stream = server.connect_as_server();
        Box::pin(async move { Client::over(stream).await })
    };
    let named = spaces(local, None);
    let database = Spaces::known(local.cluster(), Arc::new(connect), named.known_spaces());
    let database = database.within(local.site());
    let places = places(&named, &shared.stores);
    let mut connections = connections(database, &shared.stores);
    for place in places {
        let known = (&shared.library.all(), shared.settings.limits);
        let found = recovery::recover(&place, &mut connections, known, collector, &System).await;
        let Ok(mut found) = found else {
            // A site that is gone has nothing to be looked for; another store may come back.
            match &*place.database == local.cluster() {
                true => return,
                false => continue,
            }
        };
        // Tickets, where there are any, are of no use any more. Those that stay do nothing.
        let _ = forget_tickets(local, &found.completed).await;
        collector.take(&mut found, System.now_ms());
        for one in found.unknown {
            // It is completed at the next pass.
            let _ = learn(shared, local, &one.module).await;
        }
    }
    let _ = collector.collect(&mut connections, System.now_ms()).await;
}

async fn forget_tickets(local: &Local, of: &[Record]) -> Result<(), String> {
    if of.is_empty() {
        return Ok(());
    }
    let mut client = Client::over(local.connect_as_server()).await.map_err(told)?;
    for record in of {
        registry::forget_ticket(&mut client, &record.id().to_string()).await?;
    }
    Ok(())
}

/// Compiles a module that a record names.
async fn learn(shared: &Shared, local: &Local, digest: &str) -> Result<(), String> {
    let client = Client::over(local.connect_as_server()).await;
    shared.library.get(&mut client.map_err(super::told)?, digest).await.map(drop)
}
