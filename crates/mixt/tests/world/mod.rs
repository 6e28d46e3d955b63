//! A world in virtual time, from one seed: databases with faults, clients that die, and cleaners.

#[allow(dead_code, reason = "not every test that uses the world runs single transactions")]
pub(crate) mod bench;
#[allow(dead_code, reason = "not every test that uses the world has workers")]
mod remote;
#[allow(dead_code, reason = "not every test that uses the world has users")]
pub(crate) mod users;

use std::future::Future;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use solera_levels::Level;
use solera_mixt::executor::Clock;
use solera_mixt::memory::Memory;
use solera_mixt::remote_group::{RemoteGroup, RemoteReplies};
use solera_mixt::rights::{Access, Denial};
use solera_mixt::store::{
    Answer, Begin, BoxFuture, Commits, Connection, Database, Fields, Horizon, List, NameWrite,
    ObjectCall, StoreError,
};
use solera_program::operation::ObjectOp;
use solera_program::value::Value;
use solera_random::Random;

pub(crate) use remote::Remote;
use users::{Lax, Users};

/// Probabilities of faults, in thousandths per request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) unavailable: u64,
    pub(crate) conflict: u64,
    pub(crate) lost_reply: u64,
    /// Maximum delay of a commit whose answer is lost.
    pub(crate) late_ms: u64,
    /// Whether witnesses are invisible to all sessions.
    pub(crate) blind: bool,
}

/// State that all parts of a world share.
pub(crate) struct World {
    pub(crate) now: AtomicU64,
    random: Mutex<Random>,
    pub(crate) faults: Mutex<Faults>,
    /// Maximum number of names in one commit so far.
    pub(crate) most_written: AtomicUsize,
    /// Commits in progress.
    late: Mutex<Vec<Late>>,
    /// Number of late commits.
    pub(crate) came_late: AtomicU64,
    pub(crate) users: Users,
}

/// A commit that takes effect after its client has stopped waiting for the answer.
struct Late {
    due_ms: u64,
    session: Box<dyn Connection>,
    writes: Vec<NameWrite>,
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults) -> Arc<World> {
        let seed = seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x1234_5678;
        let random = Mutex::new(Random::new(seed));
        let (now, faults, late) = (AtomicU64::new(1_000), Mutex::new(faults), Mutex::default());
        let (most_written, came_late) = (AtomicUsize::new(0), AtomicU64::new(0));
        let users = Users::default();
        Arc::new(World { now, random, faults, most_written, late, came_late, users })
    }

    /// Advances the time, and executes the commits that are due.
    pub(crate) fn pass(&self, ms: u64) {
        let now_ms = self.now.fetch_add(ms, Ordering::Relaxed) + ms;
        let mut late = self.late.lock().unwrap();
        late.sort_by_key(|commit| commit.due_ms);
        let due = late.partition_point(|commit| commit.due_ms <= now_ms);
        for mut commit in late.drain(..due) {
            let mut committing = commit.session.commit(&commit.writes);
            let polled = committing.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            let Poll::Ready(committed) = polled else { panic!("memory answers at once") };
            self.came_late.fetch_add(u64::from(committed.is_ok()), Ordering::Relaxed);
        }
    }

    pub(crate) fn draw(&self) -> u64 {
        self.random.lock().unwrap().draw()
    }

    pub(crate) fn below(&self, limit: u64) -> u64 {
        self.draw() % limit
    }

    fn happens(&self, of_thousand: u64) -> bool {
        self.below(1000) < of_thousand
    }

    fn faults(&self) -> Faults {
        *self.faults.lock().unwrap()
    }
}

/// The clock of the world.
pub(crate) struct WorldClock(pub(crate) Arc<World>);

impl Clock for WorldClock {
    fn now_ms(&self) -> u64 {
        self.0.now.load(Ordering::Relaxed)
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'_, ()> {
        let until = self.now_ms() + ms;
        Box::pin(std::future::poll_fn(move |_| {
            if self.now_ms() >= until { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
}

/// Lets other tasks run.
async fn pause() {
    let mut paused = false;
    std::future::poll_fn(|_| {
        if std::mem::replace(&mut paused, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// A database whose requests sometimes fail.
pub(crate) struct Faulty {
    pub(crate) memory: Memory,
    pub(crate) world: Arc<World>,
    /// Worker that runs groups of phases next to it.
    pub(crate) remote: Option<Arc<Remote>>,
    /// User of its sessions; `None` for the host, which has all rights.
    pub(crate) user: Option<Arc<str>>,
}

impl Faulty {
    pub(crate) fn new(memory: Memory, world: Arc<World>) -> Faulty {
        Faulty { memory, world, remote: None, user: None }
    }
}

struct FaultyConnection {
    /// Connection to the database; `None` while the worker has borrowed it.
    inner: Option<Box<dyn Connection>>,
    world: Arc<World>,
    memory: Memory,
    user: Option<Arc<str>>,
    /// Destination of the connection when this session ends, if it is borrowed.
    home: Option<remote::Slot>,
    remote: Option<Arc<Remote>>,
    /// A remote group whose answer was lost, and the time after which it is rejected for its age.
    doubt: Option<(u64, u64)>,
    /// Time until which a commit may be in progress.
    late_ms: Option<u64>,
}

impl Drop for FaultyConnection {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            *home.lock().unwrap() = self.inner.take();
        }
    }
}

impl Database for Faulty {
    fn name(&self) -> Arc<str> {
        self.memory.name()
    }

    fn spans(&self, one: &str, other: &str) -> bool {
        self.memory.spans(one, other)
    }

    fn level(&self, space: &str) -> Option<Level> {
        self.memory.level(space)
    }

    fn executes(&self) -> bool {
        self.remote.is_some()
    }

    fn commit_replica(&self) -> Option<Arc<str>> {
        self.memory.commit_replica()
    }

    fn user(&self) -> Option<Arc<str>> {
        self.user.clone()
    }

    fn distinguishes_users(&self) -> bool {
        self.world.users.are_known()
    }

    fn permits(&self, user: Option<&str>, accesses: &[Access]) -> Option<Denial> {
        let users = &self.world.users;
        if users.is_lax(Lax::Beforehand) || users.is_lax(Lax::Names) || accesses.is_empty() {
            return None;
        }
        let found = users.check(Some(user.unwrap_or("nobody")), &self.name());
        let denied = |error: StoreError| Denial { phase: None, reason: error.to_string() };
        found.err().map(denied)
    }

    fn connect_as<'a>(
        &'a self,
        user: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, StoreError>> {
        let (memory, world) = (self.memory.clone(), Arc::clone(&self.world));
        let user = user.filter(|_| !world.users.is_lax(Lax::Names)).map(Arc::from);
        let named = Faulty { memory, world, remote: self.remote.clone(), user };
        Box::pin(async move { named.connect().await })
    }

    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async {
            let inner = Some(self.memory.connect().await?);
            let (world, memory) = (Arc::clone(&self.world), self.memory.clone());
            let (remote, user) = (self.remote.clone(), self.user.clone());
            let (home, doubt, late_ms) = (None, None, None);
            let connection =
                FaultyConnection { inner, world, memory, user, home, remote, doubt, late_ms };
            Ok(Box::new(connection) as Box<dyn Connection>)
        })
    }
}

impl FaultyConnection {
    fn inner(&mut self) -> &mut dyn Connection {
        self.inner.as_deref_mut().expect("it is lent only while the worker runs")
    }

    async fn fault(&mut self) -> Result<(), StoreError> {
        pause().await;
        let faults = self.world.faults();
        if self.world.happens(faults.unavailable) {
            self.inner().abort().await?;
            return Err(StoreError::Unavailable("the line is down".to_owned()));
        }
        if self.world.happens(faults.conflict) {
            self.inner().abort().await?;
            return Err(StoreError::Conflict);
        }
        Ok(())
    }
}

impl FaultyConnection {
    /// Makes a commit whose answer is lost: it takes effect now, later, or never.
    async fn lose(&mut self, writes: &[NameWrite]) -> Result<(), StoreError> {
        let late_ms = self.world.faults().late_ms;
        // A connection that a worker has lent returns to it.
        if late_ms > 0 && self.home.is_none() && self.world.happens(500) {
            let due_ms = self.world.now.load(Ordering::Relaxed) + 1 + self.world.below(late_ms);
            let session = self.inner.replace(self.memory.connect().await?).expect("it is not lent");
            let writes = writes.to_vec();
            self.world.late.lock().unwrap().push(Late { due_ms, session, writes });
            self.late_ms = Some(self.world.now.load(Ordering::Relaxed) + late_ms);
        } else if self.world.happens(500) {
            // The client does not receive the result.
            let _ = self.inner().commit(writes).await;
        } else {
            self.inner().abort().await?;
        }
        Err(StoreError::OutcomeUnknown("the answer was lost".to_owned()))
    }

    /// Returns an error while an earlier commit is in progress.
    fn settle_commit(&mut self) -> Result<(), StoreError> {
        let Some(late_ms) = self.late_ms else { return Ok(()) };
        if self.world.now.load(Ordering::Relaxed) < late_ms {
            return Err(StoreError::Unavailable("a commit may be under way".to_owned()));
        }
        // A session sees its own commits.
        self.memory.catch_up();
        self.late_ms = None;
        Ok(())
    }
}

impl Connection for FaultyConnection {
    fn begin<'a>(&'a mut self, begin: &'a Begin) -> BoxFuture<'a, Result<Vec<Fields>, StoreError>> {
        Box::pin(async {
            self.fault().await?;
            self.settle()?;
            self.settle_commit()?;
            self.inner().begin(begin).await
        })
    }

    fn perform<'a>(
        &'a mut self,
        call: &'a ObjectCall,
    ) -> BoxFuture<'a, Result<Answer, StoreError>> {
        Box::pin(async {
            self.fault().await?;
            let name = self.memory.name();
            self.world.users.check(self.user.as_deref(), &name)?;
            let mut answer = self.inner().perform(call).await?;
            if let (true, Some(Value::Int(number))) = (call.op.mutates(), call.args.first())
                && call.op != ObjectOp::Increment
            {
                self.world.users.judge(*number, &name);
            }
            if self.world.faults().blind {
                answer.seen.clear();
            }
            Ok(answer)
        })
    }

    fn commit<'a>(&'a mut self, writes: &'a [NameWrite]) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async {
            self.world.most_written.fetch_max(writes.len(), Ordering::Relaxed);
            self.fault().await?;
            if self.world.happens(self.world.faults().lost_reply) {
                return self.lose(writes).await;
            }
            self.inner().commit(writes).await
        })
    }

    fn execute<'a>(
        &'a mut self,
        remote_group: &'a RemoteGroup,
    ) -> BoxFuture<'a, Result<RemoteReplies, StoreError>> {
        Box::pin(self.run_remotely(remote_group))
    }

    fn certify(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            self.fault().await?;
            self.inner().certify().await
        })
    }

    fn abort(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async {
            pause().await;
            self.inner().abort().await
        })
    }

    fn list<'a>(&'a mut self, list: &'a List) -> BoxFuture<'a, Result<Vec<Arc<str>>, StoreError>> {
        Box::pin(async {
            self.fault().await?;
            self.inner().list(list).await
        })
    }

    fn sees<'a>(&'a mut self, commits: &'a Commits) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async {
            self.fault().await?;
            self.settle()?;
            self.inner().sees(commits).await
        })
    }

    fn horizon(&mut self) -> BoxFuture<'_, Result<Option<Horizon>, StoreError>> {
        Box::pin(async {
            self.fault().await?;
            self.inner().horizon().await
        })
    }
}

/// Runs a future to its end, while time passes.
pub(crate) fn finish<T>(world: &World, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return done;
        }
        world.pass(1);
    }
}
