//! The closed loop: each client runs a transaction, waits for its end, pauses, and runs the next.
//!
//! Clients are tasks on a few threads. They start one after another during the ramp-up. The loop
//! measures transactions that end within the window after the warm-up. After the window, every
//! client finishes its current transaction and returns a token, so that its writes can be read at
//! other sites.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use solera::{Error, Token};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::error::BenchError;
use crate::random::Random;
use crate::tally::{Aborts, Counters, Done, Kind, Tally};

/// Duration and intensity of a run.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Number of clients, which are distributed over the sites.
    pub clients: usize,
    /// Number of threads that they share.
    pub threads: usize,
    /// Average pause of a client between two transactions.
    pub think: Duration,
    /// Time over which the clients start.
    pub ramp_up: Duration,
    /// Time between the ramp-up and the measurement.
    pub warm_up: Duration,
    /// Measured time.
    pub window: Duration,
}

/// Sites that clients connect to.
pub(crate) trait Sessions: Clone + Send + 'static {
    /// Connection of one client.
    type Session: WorkloadSession;

    /// Returns the names of the sites.
    fn sites(&self) -> Vec<String>;

    /// Returns the site of a client.
    fn site_of(&self, client: usize) -> usize;

    /// Connects a client to its site.
    async fn connect(&self, client: usize) -> Result<Self::Session, Error>;
}

/// Connection of one client.
pub(crate) trait WorkloadSession {
    /// Returns the counts of attempts that have aborted since the last call.
    fn take_aborts(&mut self) -> Aborts;

    /// Returns counters that the server keeps for this connection; empty if it keeps none.
    async fn counters(&mut self) -> Counters;

    /// Connects again after the connection has broken.
    async fn reconnect(&mut self) -> Result<(), Error>;

    /// Returns a token with which other connections see this connection's writes, if the server has
    /// tokens.
    async fn token(&mut self) -> Option<Token>;
}

/// A workload of clients.
pub(crate) trait Workload: Send + Sync + 'static {
    /// Sites that its clients connect to.
    type Sessions: Sessions;

    /// State of a client, including results that are checked at the end.
    type Visitor: Send + 'static;

    /// Returns the types of transactions.
    fn kinds(&self) -> Vec<Kind>;

    /// Creates the state of a client.
    fn visitor(&self, client: usize) -> Self::Visitor;

    /// Returns the kind of the next transaction of a client.
    fn next(&self, visitor: &mut Self::Visitor) -> usize;

    /// Runs a transaction to its end.
    async fn run(
        &self,
        kind: usize,
        visitor: &mut Self::Visitor,
        session: &mut SessionOf<Self>,
    ) -> Result<Done, Error>;

    /// Returns the time of an earlier reply to the last transaction, and the kind that counts it.
    fn earlier_reply(&self, _visitor: &Self::Visitor) -> Option<(usize, Duration)> {
        None
    }
}

/// Connection of a workload's clients.
pub(crate) type SessionOf<W> = <<W as Workload>::Sessions as Sessions>::Session;

/// Results of a run.
pub(crate) struct Ran<V> {
    pub(crate) tally: Tally,
    pub(crate) visitors: Vec<V>,
    pub(crate) tokens: Vec<Token>,
}

/// Pause of a client after a failure; doubles with each further failure.
const PATIENCE: Duration = Duration::from_millis(20);
const MOST_PATIENCE: Duration = Duration::from_secs(1);
/// Time after the end of the run after which pending transactions are cancelled.
const GRACE: Duration = Duration::from_secs(30);

/// Runs a workload to its end.
///
/// # Errors
/// Fails if clients cannot connect, or if threads cannot be started.
pub(crate) fn run_workload<W: Workload>(
    workload: &Arc<W>,
    sessions: &W::Sessions,
    pace: &Pace,
) -> Result<Ran<W::Visitor>, BenchError> {
    let begin = Instant::now();
    let work = |thread| {
        let (workload, sessions, pace) = (workload.clone(), sessions.clone(), pace.clone());
        let run = move || run_thread(thread, &workload, &sessions, &pace, begin);
        let thread = std::thread::Builder::new().name(format!("clients-{thread}"));
        thread.spawn(run).map_err(BenchError::Threads)
    };
    let threads: Vec<_> = (0..pace.threads).map(work).collect::<Result<_, _>>()?;
    let mut all: Option<Ran<W::Visitor>> = None;
    for thread in threads {
        let ran = thread.join().expect("the thread has reported the panic of a client")?;
        match &mut all {
            None => all = Some(ran),
            Some(all) => {
                all.tally.merge(ran.tally);
                all.visitors.extend(ran.visitors);
                all.tokens.extend(ran.tokens);
            }
        }
    }
    all.ok_or_else(|| BenchError::Settings("the number of threads must be at least 1".to_owned()))
}

/// Runs the clients of one thread: every `threads`th client.
fn run_thread<W: Workload>(
    thread: usize,
    workload: &Arc<W>,
    sessions: &W::Sessions,
    pace: &Pace,
    begin: Instant,
) -> Result<Ran<W::Visitor>, BenchError> {
    let runtime = crate::runtime()?;
    let tally = Tally::new(workload.kinds().len(), sessions.sites().len());
    let tally = Rc::new(RefCell::new(tally));
    let (mut visitors, mut tokens) = (Vec::new(), Vec::new());
    LocalSet::new().block_on(&runtime, async {
        let mut clients = JoinSet::new();
        for number in (thread..pace.clients).step_by(pace.threads) {
            let client = Loop {
                number,
                begin,
                workload: workload.clone(),
                sessions: sessions.clone(),
                pace: pace.clone(),
                tally: tally.clone(),
            };
            clients.spawn_local(client.run());
        }
        while let Some(client) = clients.join_next().await {
            let (visitor, token) =
                client.expect("the thread has reported the panic of a client")?;
            visitors.push(visitor);
            tokens.extend(token);
        }
        Ok(())
    })?;
    let tally = tally.borrow().clone();
    Ok(Ran { tally, visitors, tokens })
}

/// One client.
struct Loop<W: Workload> {
    number: usize,
    begin: Instant,
    workload: Arc<W>,
    sessions: W::Sessions,
    pace: Pace,
    tally: Rc<RefCell<Tally>>,
}

impl<W: Workload> Loop<W> {
    async fn run(self) -> Result<(W::Visitor, Option<Token>), BenchError> {
        let pace = &self.pace;
        let from = self.begin + pace.ramp_up + pace.warm_up;
        let end = from + pace.window;
        let site = self.sessions.site_of(self.number);
        sleep_until(self.begin + pace.ramp_up.mul_f64(self.number as f64 / pace.clients as f64))
            .await;

        let mut random = Random::new(self.number as u64);
        let mut visitor = self.workload.visitor(self.number);
        let connected = self.sessions.connect(self.number).await;
        let mut session = connected.map_err(BenchError::Connect)?;
        let mut counters = None;
        let mut patience = PATIENCE;
        while Instant::now() < end {
            let kind = self.workload.next(&mut visitor);
            if counters.is_none() && Instant::now() >= from {
                counters = Some(session.counters().await);
            }
            let started = Instant::now();
            let run = self.workload.run(kind, &mut visitor, &mut session);
            let Ok(result) = timeout_at(end + GRACE, run).await else {
                self.tally.borrow_mut().stalled(kind, site, GRACE);
                return Ok((visitor, None));
            };
            let ended = Instant::now();
            let aborts = session.take_aborts();
            let measured = (from..end).contains(&ended);
            match result {
                Ok(done) => {
                    patience = PATIENCE;
                    if measured {
                        let mut tally = self.tally.borrow_mut();
                        tally.done(kind, site, ended - started, done, &aborts);
                        if let Some((kind, took)) = self.workload.earlier_reply(&visitor) {
                            tally.done(kind, site, took, Done::Well, &Aborts::new());
                        }
                    }
                }
                Err(error) => {
                    if measured {
                        self.tally.borrow_mut().failed(kind, site, &error, &aborts);
                    }
                    sleep(patience).await;
                    patience = (2 * patience).min(MOST_PATIENCE);
                    if let Error::Connection(_) | Error::Protocol(_) = error {
                        // If this fails, the next transaction fails too and is counted.
                        let _ = session.reconnect().await;
                    }
                }
            }
            if !pace.think.is_zero() {
                sleep_until(end.min(Instant::now() + random.think(pace.think))).await;
            }
        }
        let counted = session.counters().await;
        self.tally.borrow_mut().counted(&counted, &counters.unwrap_or_default());
        Ok((visitor, session.token().await))
    }
}
