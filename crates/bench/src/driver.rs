//! The closed loop: each client runs a transaction, waits for its end, thinks, and runs the next.
//!
//! Clients are tasks on a few threads. They start one after the other while the load ramps up; what
//! ends within the window that follows the warm-up is measured. When the window is over, every
//! client ends the transaction it is in, and leaves a token, so that what it has done can be read
//! elsewhere.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use solera::{Error, Token};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::error::BenchError;
use crate::place::Place;
use crate::random::Random;
use crate::session::{Session, Strong};
use crate::tally::{Done, Kind, Tally};

/// How long and how hard a workload is run.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Clients, dealt out over the sites.
    pub clients: usize,
    /// Threads that they share.
    pub threads: usize,
    /// How long a client thinks between two transactions, on average.
    pub think: Duration,
    /// The time over which clients start.
    pub ramp_up: Duration,
    /// The time after that which is not measured yet.
    pub warm_up: Duration,
    /// The measured time.
    pub window: Duration,
}

/// What clients do.
pub(crate) trait Workload: Send + Sync + 'static {
    /// A client's own state, and what it remembers to be checked at the end.
    type Visitor: Send + 'static;

    /// The types of transactions.
    fn kinds(&self) -> Vec<Kind>;

    /// A new client.
    fn visitor(&self, client: usize) -> Self::Visitor;

    /// The kind of the transaction that a client runs next.
    fn next(&self, visitor: &mut Self::Visitor) -> usize;

    /// Runs a transaction to its end.
    async fn run(
        &self,
        kind: usize,
        visitor: &mut Self::Visitor,
        session: &mut Session,
    ) -> Result<Done, Error>;
}

/// What is left of a run.
pub(crate) struct Ran<V> {
    pub(crate) tally: Tally,
    pub(crate) visitors: Vec<V>,
    pub(crate) tokens: Vec<Token>,
}

/// A client waits so long after a failure, and twice as long after each further one.
const PATIENCE: Duration = Duration::from_millis(20);
const MOST_PATIENCE: Duration = Duration::from_secs(1);
/// Whoever has no answer so long after the end gets none.
const GRACE: Duration = Duration::from_secs(30);

/// Runs a workload to its end.
///
/// # Errors
/// Clients cannot connect, or threads cannot be started.
pub(crate) fn drive<W: Workload>(
    workload: &Arc<W>,
    place: &Place,
    strong: Strong,
    pace: &Pace,
) -> Result<Ran<W::Visitor>, BenchError> {
    let begin = Instant::now();
    let work = |thread| {
        let (workload, place, pace) = (workload.clone(), place.clone(), pace.clone());
        let run = move || run_thread(thread, &workload, &place, strong, &pace, begin);
        let thread = std::thread::Builder::new().name(format!("clients-{thread}"));
        thread.spawn(run).map_err(BenchError::Threads)
    };
    let threads: Vec<_> = (0..pace.threads).map(work).collect::<Result<_, _>>()?;
    let mut all: Option<Ran<W::Visitor>> = None;
    for thread in threads {
        let ran = thread.join().expect("a panic of a client is told by its thread")?;
        match &mut all {
            None => all = Some(ran),
            Some(all) => {
                all.tally.merge(ran.tally);
                all.visitors.extend(ran.visitors);
                all.tokens.extend(ran.tokens);
            }
        }
    }
    all.ok_or_else(|| BenchError::Settings("clients need a thread at least".to_owned()))
}

/// Runs the clients of one thread: every `threads`th one.
fn run_thread<W: Workload>(
    thread: usize,
    workload: &Arc<W>,
    place: &Place,
    strong: Strong,
    pace: &Pace,
    begin: Instant,
) -> Result<Ran<W::Visitor>, BenchError> {
    let runtime = crate::runtime()?;
    let tally = Tally::new(workload.kinds().len(), place.sites().len());
    let tally = Rc::new(RefCell::new(tally));
    let (mut visitors, mut tokens) = (Vec::new(), Vec::new());
    LocalSet::new().block_on(&runtime, async {
        let mut clients = JoinSet::new();
        for number in (thread..pace.clients).step_by(pace.threads) {
            let client = Loop {
                number,
                begin,
                workload: workload.clone(),
                place: place.clone(),
                strong,
                pace: pace.clone(),
                tally: tally.clone(),
            };
            clients.spawn_local(client.run());
        }
        while let Some(client) = clients.join_next().await {
            let (visitor, token) = client.expect("a panic of a client is told by its thread")?;
            visitors.push(visitor);
            tokens.extend(token);
        }
        Ok(())
    })?;
    let tally = tally.borrow().clone();
    Ok(Ran { tally, visitors, tokens })
}

/// One client.
struct Loop<W> {
    number: usize,
    begin: Instant,
    workload: Arc<W>,
    place: Place,
    strong: Strong,
    pace: Pace,
    tally: Rc<RefCell<Tally>>,
}

impl<W: Workload> Loop<W> {
    async fn run(self) -> Result<(W::Visitor, Option<Token>), BenchError> {
        let pace = &self.pace;
        let from = self.begin + pace.ramp_up + pace.warm_up;
        let end = from + pace.window;
        let site = self.place.site_of(self.number);
        sleep_until(self.begin + pace.ramp_up.mul_f64(self.number as f64 / pace.clients as f64))
            .await;

        let mut random = Random::new(self.number as u64);
        let mut visitor = self.workload.visitor(self.number);
        let client = self.place.connect(self.number).await.map_err(BenchError::Connect)?;
        let mut session = Session::new(client, self.strong);
        let mut patience = PATIENCE;
        while Instant::now() < end {
            let kind = self.workload.next(&mut visitor);
            let started = Instant::now();
            let run = self.workload.run(kind, &mut visitor, &mut session);
            let Ok(result) = timeout_at(end + GRACE, run).await else {
                self.tally.borrow_mut().stalled(kind, site, GRACE);
                return Ok((visitor, None));
            };
            let ended = Instant::now();
            let aborts = std::mem::take(&mut session.aborts);
            let measured = (from..end).contains(&ended);
            match result {
                Ok(done) => {
                    patience = PATIENCE;
                    if measured {
                        let mut tally = self.tally.borrow_mut();
                        tally.done(kind, site, ended - started, done, aborts);
                    }
                }
                Err(error) => {
                    if measured {
                        self.tally.borrow_mut().failed(kind, site, &error, aborts);
                    }
                    sleep(patience).await;
                    patience = (2 * patience).min(MOST_PATIENCE);
                    if let Error::Connection(_) | Error::Protocol(_) = error {
                        // If it fails, so does the next transaction, which is counted.
                        let _ = session.client.reconnect().await;
                    }
                }
            }
            if !pace.think.is_zero() {
                sleep_until(end.min(Instant::now() + random.think(pace.think))).await;
            }
        }
        Ok((visitor, session.client.token().await.ok()))
    }
}
