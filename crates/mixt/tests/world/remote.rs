//! Workers next to the databases of a world, and the connections to them.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use solera_levels::Level;
use solera_mixt::binding::Modules;
use solera_mixt::executor::{Clock, Connections};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::Limits;
use solera_mixt::remote_group::{RemoteGroup, RemoteReplies};
use solera_mixt::store::{BoxFuture, Connection, Database, StoreError};
use solera_mixt::worker::{ExecuteError, Worker};

use super::{Faulty, FaultyConnection, World, WorldClock, pause};

/// A late remote group, the database that runs it, and its user.
type Late = (Arc<[u8]>, Memory, Option<Arc<str>>);

/// Workers of a world. One is enough for all its databases.
pub(crate) struct Remote {
    pub(crate) modules: Arc<Modules>,
    pub(crate) limits: Limits,
    worker: Mutex<Arc<Worker>>,
    /// Remote groups that have not arrived yet.
    late: Mutex<Vec<Late>>,
    /// Number of remote groups that ran, and of those that were late.
    pub(crate) run: AtomicU64,
    pub(crate) came_late: AtomicU64,
}

impl Remote {
    pub(crate) fn new(modules: Arc<Modules>, limits: Limits) -> Arc<Remote> {
        let (worker, late) = (Mutex::default(), Mutex::default());
        let (run, came_late) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Remote { modules, limits, worker, late, run, came_late })
    }

    fn worker(&self) -> Arc<Worker> {
        self.worker.lock().unwrap().clone()
    }

    /// Replaces the process with a new one, which has no memory, and breaks the connections to the
    /// old one.
    pub(crate) fn die(&self) {
        *self.worker.lock().unwrap() = Arc::default();
        self.late.lock().unwrap().clear();
    }

    async fn execute(
        &self,
        bytes: &[u8],
        database: Arc<dyn Database>,
        clock: &WorldClock,
    ) -> Result<RemoteReplies, StoreError> {
        let remote_group = RemoteGroup::decode(bytes).unwrap();
        let worker = self.worker();
        let mut connections = Connections::new([database]);
        let known = (&*self.modules, self.limits);
        let executed = worker.execute(&remote_group, known, &mut connections, clock).await;
        let remote_replies = executed.map_err(ExecuteError::into_store_error)?;
        self.run.fetch_add(1, Ordering::Relaxed);
        Ok(RemoteReplies::decode(&remote_replies.encode()).unwrap())
    }

    /// Delivers late remote groups in an endless loop.
    pub(crate) async fn deliver(&self, world: Arc<World>) {
        let clock = WorldClock(Arc::clone(&world));
        loop {
            clock.sleep(world.below(200)).await;
            let first = self.late.lock().unwrap().pop();
            let Some((bytes, memory, user)) = first else { continue };
            let faulty = Arc::new(Faulty { user, ..Faulty::new(memory, Arc::clone(&world)) });
            // The group runs without a receiver for its answer, until its process ends.
            let worker = self.worker();
            let mut run = Box::pin(self.execute(&bytes, faulty, &clock));
            let run = std::future::poll_fn(|cx| {
                let same = Arc::ptr_eq(&worker, &self.worker());
                if same { run.as_mut().poll(cx).map(Some) } else { Poll::Ready(None) }
            });
            if run.await.is_some_and(|remote_replies| remote_replies.is_ok()) {
                self.came_late.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// A session whose connection the worker borrows, so that each sees the writes of the other.
pub(super) type Slot = Arc<Mutex<Option<Box<dyn Connection>>>>;

struct Delegated {
    slot: Slot,
    memory: Memory,
    user: Option<Arc<str>>,
    world: Arc<World>,
}

impl Database for Delegated {
    fn name(&self) -> Arc<str> {
        self.memory.name()
    }

    fn spans(&self, one: &str, other: &str) -> bool {
        self.memory.spans(one, other)
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.memory.level(space)
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        let inner = self.slot.lock().unwrap().take();
        let world = Arc::clone(&self.world);
        let (memory, user) = (self.memory.clone(), self.user.clone());
        let home = Some(Arc::clone(&self.slot));
        let (remote, doubt, late_ms) = (None, None, None);
        let connection =
            FaultyConnection { inner, world, memory, user, home, remote, doubt, late_ms };
        Box::pin(async { Ok(Box::new(connection) as Box<dyn Connection>) })
    }
}

impl FaultyConnection {
    /// Returns an error while an earlier remote group is in progress.
    pub(super) fn settle(&mut self) -> Result<(), StoreError> {
        let (Some(remote), Some((number, until_ms))) = (&self.remote, self.doubt) else {
            return Ok(());
        };
        let now_ms = self.world.now.load(Ordering::Relaxed);
        if !remote.worker().settle(number, until_ms, now_ms) {
            return Err(StoreError::Unavailable("it is still being run".to_owned()));
        }
        // Another session at this site may have committed it, and this session must see that.
        self.memory.catch_up();
        self.doubt = None;
        Ok(())
    }

    pub(super) async fn run_remotely(
        &mut self,
        remote_group: &RemoteGroup,
    ) -> Result<RemoteReplies, StoreError> {
        pause().await;
        let faults = self.world.faults();
        self.settle()?;
        if self.world.happens(faults.unavailable) {
            return Err(StoreError::Unavailable("the worker is not there".to_owned()));
        }
        let remote = Arc::clone(self.remote.as_ref().expect("only then it executes"));
        let bytes = remote_group.encode();
        let lost = || Err(StoreError::OutcomeUnknown("the worker does not answer".to_owned()));
        if self.world.happens(faults.lost_reply) {
            self.doubt = Some((remote_group.number(), remote_group.until_ms()));
            if self.world.happens(500) {
                let late = (bytes, self.memory.clone(), self.user.clone());
                remote.late.lock().unwrap().push(late);
            }
            return lost();
        }
        if self.world.happens(faults.lost_reply) {
            // It arrives twice.
            let late = (Arc::clone(&bytes), self.memory.clone(), self.user.clone());
            remote.late.lock().unwrap().push(late);
        }
        let slot: Slot = Arc::new(Mutex::new(self.inner.take()));
        let (memory, world) = (self.memory.clone(), Arc::clone(&self.world));
        let user = self.user.clone();
        let delegated = Arc::new(Delegated { slot: Arc::clone(&slot), memory, user, world });
        let clock = WorldClock(Arc::clone(&self.world));
        let dies = self.world.happens(faults.lost_reply).then(|| self.world.below(40));
        let executed = {
            let run: Pin<Box<dyn Future<Output = _> + Send + '_>> =
                Box::pin(remote.execute(&bytes, delegated, &clock));
            until_death(run, dies).await
        };
        self.inner = slot.lock().unwrap().take();
        if executed.is_none() {
            remote.die();
        }
        match executed {
            Some(remote_replies) if !self.world.happens(faults.lost_reply) => remote_replies,
            _ => {
                self.doubt = Some((remote_group.number(), remote_group.until_ms()));
                lost()
            }
        }
    }
}

/// Returns the result of a future, or `None` if the worker dies first.
async fn until_death<T>(
    mut run: Pin<Box<dyn Future<Output = T> + Send + '_>>,
    steps: Option<u64>,
) -> Option<T> {
    let mut left = steps;
    std::future::poll_fn(move |_| {
        match &mut left {
            Some(0) => return Poll::Ready(None),
            Some(left) => *left -= 1,
            None => {}
        }
        run.as_mut().poll(&mut Context::from_waker(Waker::noop())).map(Some)
    })
    .await
}
