//! Module runtime: runs transactions of modules for the clients of a cluster, by the commands
//! SOLERA.MODULE, SOLERA.CALL and SOLERA.PHASE.
//!
//! The process that starts a cluster passes it a [`Host`]. Modules are data of the cluster: a
//! module that is loaded at one site can be called at all sites. Each process compiles a module
//! once and caches it by the digest of its source. Calls run on threads of their own, so that they
//! do not block the workers.

mod answer;
mod binding;
mod call;
mod incomplete;
mod library;
mod own;
mod phase;
mod port;
mod registry;
mod request;
#[cfg(test)]
mod scene;
mod settings;
mod speculative;
mod upkeep;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use solera_mixt::executor::Connections;
use solera_mixt::store::{Database, Location};
use solera_mixt::worker::Worker;
use solera_node::{Incomplete, Local, Modules};
use solera_resp::Value;
use solera_spaces::digest;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use self::library::Library;
use self::own::Own;
use self::request::Request;
pub use self::settings::Settings;
use self::speculative::Installed;
use self::upkeep::Upkeep;

/// A database of another system that modules can use besides the cluster's own spaces.
#[derive(Clone)]
pub struct Store {
    /// The database. Its name precedes the `/` when a module's store is bound to one of its spaces.
    pub database: Arc<dyn Database>,
    /// Names of its spaces.
    pub spaces: Vec<Arc<str>>,
}

/// Module runtime of a process.
pub struct Host {
    shared: Arc<Shared>,
    threads: Vec<Thread>,
    next: AtomicUsize,
}

/// State that the calls of a process share.
struct Shared {
    settings: Settings,
    /// One permit for each call that may run.
    free: Semaphore,
    stores: Vec<Store>,
    library: Library,
    upkeep: Upkeep,
    installed: Installed,
    /// Runs phases for coordinators in other processes.
    worker: Worker,
}

/// A thread that runs calls until it is dropped.
struct Thread {
    handle: Handle,
    _end: oneshot::Sender<()>,
}

impl Host {
    /// Starts a host with threads of its own, which end with it. The names of the stores must
    /// differ from each other and from the cluster's.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn start(settings: Settings, stores: Vec<Store>) -> std::io::Result<Host> {
        let threads: Vec<Thread> =
            (0..settings.threads.max(1)).map(|_| Thread::start()).collect::<Result<_, _>>()?;
        let (upkeep, work) = Upkeep::new();
        let databases = stores.iter().map(|store| store.database.clone());
        let (library, worker) = (Library::new(databases.collect()), Worker::default());
        let free = Semaphore::new(settings.calls.clamp(1, Semaphore::MAX_PERMITS));
        let installed = Installed::default();
        let shared =
            Arc::new(Shared { settings, free, stores, library, upkeep, installed, worker });
        threads[0].handle.spawn(upkeep::run(Arc::downgrade(&shared), work, settings));
        Ok(Host { shared, threads, next: AtomicUsize::new(0) })
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

impl Thread {
    fn start() -> std::io::Result<Thread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let run = move || {
            // Run until the sender is dropped.
            let _ = runtime.block_on(ended);
        };
        std::thread::Builder::new().name("modules".to_owned()).spawn(run)?;
        Ok(Thread { handle, _end: end })
    }
}

impl Modules for Host {
    fn run(&self, local: Local, request: Vec<Vec<u8>>) -> oneshot::Receiver<Value> {
        let (reply, answer) = oneshot::channel();
        let place = self.next.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        let shared = self.shared.clone();
        self.threads[place].handle.spawn(async move {
            let value = match Request::read(&request, shared.settings.source_bytes) {
                Ok(request) => shared.answer(&local, request).await,
                Err(refused) => Err(refused),
            };
            // The client may have disconnected.
            let _ = reply.send(value.unwrap_or_else(Value::Error));
            shared.upkeep.note(local);
        });
        answer
    }

    fn incomplete(&self) -> Option<Incomplete> {
        self.shared.upkeep.incomplete()
    }
}

/// Returns the cluster's own spaces and all other stores as databases.
fn databases(own: Own, stores: &[Store]) -> Vec<Arc<dyn Database>> {
    let others = stores.iter().map(|store| store.database.clone());
    [Arc::new(own) as Arc<dyn Database>].into_iter().chain(others).collect()
}

/// Returns the places where records of transactions may be.
fn places(own: &Own, stores: &[Store]) -> Vec<Location> {
    let cluster = own.name();
    let own = own.names().map(|space| Location { database: cluster.clone(), space: space.into() });
    let others = stores.iter().flat_map(|store| {
        let database = store.database.name();
        store
            .spaces
            .iter()
            .map(move |space| Location { database: database.clone(), space: space.clone() })
    });
    own.chain(others).collect()
}

/// Returns connections to the databases.
fn connections(own: Own, stores: &[Store]) -> Connections {
    Connections::new(databases(own, stores))
}

/// An answer, or an error reply.
type Answered = Result<Value, String>;

impl Shared {
    /// Waits for a permit to run a call.
    async fn permit(&self) -> Result<SemaphorePermit<'_>, String> {
        let Settings { calls, patience, .. } = self.settings;
        let permit = tokio::time::timeout(patience, self.free.acquire()).await.map_err(|_| {
            let ms = patience.as_millis();
            format!(
                "TRYAGAIN this process runs {calls} calls of modules at once, and none of them has \
                 ended for {ms} ms; nothing was changed"
            )
        })?;
        Ok(permit.expect("the semaphore is never closed"))
    }

    async fn answer(&self, local: &Local, request: Request) -> Answered {
        if let Request::Check { name, source } = &request {
            let checked = library::check(name, source);
            return Ok(Value::Bulk(checked.into_bytes()));
        }
        let runs = matches!(
            request,
            Request::Call { .. }
                | Request::Resume { .. }
                | Request::Complete { .. }
                | Request::Phase(request::Phase::Run(_))
        );
        let _permit = if runs { Some(self.permit().await?) } else { None };
        let caller = local.call()?;
        match request {
            Request::Check { .. } => unreachable!("a check needs no session"),
            Request::Load { name, source, replace, binds } => {
                let compiled = library::compile(&name, &source)?;
                let module = &compiled.module;
                // A wrong binding is reported when the module is loaded, not at each call.
                if speculative::is_bound(module, &binds, local)? {
                    let server = local.call_as_server();
                    speculative::install(&server, &compiled, &digest(&source)).await?;
                } else {
                    let own = Own::of_caller(local, None);
                    let bindings = binding::bind(module, &binds, &own, &self.stores)?;
                    binding::check_operations(module, &bindings, &own, &self.stores).await?;
                }
                registry::load(&caller, &name, &source, (replace, &binds)).await?;
                Ok(Value::Simple("OK".to_owned()))
            }
            Request::Drop { name } => {
                registry::remove(&caller, &name).await?;
                Ok(Value::Simple("OK".to_owned()))
            }
            Request::List => self.library.list(&caller).await,
            Request::Source { name } => {
                let entry = registry::entry(&caller, &name).await?;
                let source = registry::source(&caller, &entry.digest).await?;
                Ok(Value::Bulk(source.into_bytes()))
            }
            Request::Call { module, transaction, args, level } => {
                call::call(self, local, caller, (&module, &transaction), (&args, level)).await
            }
            Request::Phase(phase) => phase::phase(self, local, caller, phase).await,
            Request::Resume { ticket } => call::resume(self, local, caller, &ticket).await,
            Request::Incomplete | Request::Forget { .. } | Request::Complete { .. }
                if !local.may_coordinate() =>
            {
                Err("NOPERM SOLERA.CALL INCOMPLETE, COMPLETE and FORGET are about the transactions of all \
                     users: they need the right +solera.phase"
                    .to_owned())
            }
            Request::Incomplete => incomplete::list(self, local, caller).await,
            Request::Complete { transaction } => {
                incomplete::complete(self, local, caller, &transaction).await
            }
            Request::Forget { transaction } => {
                incomplete::forget(self, local, caller, &transaction).await
            }
        }
    }
}
