//! The thread that carries messages between this process and the other nodes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use solera_config::ClusterSpec;
use solera_config::areas::{LINKS, SITES};
use solera_links::{Card, Greeting, HEAD, Identity, Refusal, Unwelcome, WireError};
use solera_machine::{NodeId, Topology};
use solera_membership::SiteStatus;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;
use tracing::{error, info, warn};

use crate::data_dir::DataDir;
use crate::handshake::clock_us;
use crate::link::Link;
use crate::membership::{Runs, refused_by};
use crate::network::Network;
use crate::refused::Refused;
use crate::tls::PeerTls;

mod answering;
mod calling;

pub(crate) use answering::unwelcome_callers;

/// Longest pause between two calls of a node that does not answer.
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// Timeout of a call and its greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without traffic after which a connection is closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for sending queued messages when the node stops.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause before the same refusal is logged again. It doubles each time, up to the last.
const FIRST_LOG_PAUSE: Duration = Duration::from_secs(60);
const LAST_LOG_PAUSE: Duration = Duration::from_secs(3600);
/// Number of refusals that are remembered.
const MAX_REFUSALS: usize = 256;
/// Difference of clocks above which a warning is logged.
const NOTABLE_SKEW_US: i64 = 1_000_000;
const READ_SIZE: usize = 64 * 1024;
/// Capacity of the input buffer that is kept between two frames.
const KEPT_INPUT: usize = 4 << 20;
/// Longest reason that is sent or logged, in bytes.
const MAX_REASON: usize = 2000;

/// A connection to another node, with or without TLS.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}
type Stream = Box<dyn Duplex>;

/// State of the links of one node.
pub(crate) struct Carrier {
    pub(crate) spec: Arc<ClusterSpec>,
    /// Identity that is compared with other nodes' identities. It cannot change while the process
    /// runs.
    pub(crate) identity: Identity,
    pub(crate) topology: Arc<Topology>,
    pub(crate) me: NodeId,
    /// TLS between nodes; `None` without TLS.
    pub(crate) tls: Option<Arc<ArcSwap<PeerTls>>>,
    /// Distinguishes this process from earlier processes of the same node.
    pub(crate) incarnation: u64,
    /// Data directory of this node; `None` in memory.
    pub(crate) data: Option<DataDir>,
    /// Recovered state of each worker at the start of the process; empty in memory.
    pub(crate) runs: Runs,
    pub(crate) network: Arc<Network>,
    pub(crate) links: Vec<Arc<Link>>,
    /// Refusals that were logged.
    pub(crate) refusals: Mutex<RefusalLog>,
    /// Handshakes and frames that were refused.
    pub(crate) refused: Arc<Refused>,
}

/// The running thread. Dropping it stops it.
pub(crate) struct Running {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Carrier {
    /// Starts the thread, which accepts calls at `listener`.
    ///
    /// # Errors
    /// The thread or its event loop cannot be created.
    pub(crate) fn start(self, listener: std::net::TcpListener) -> std::io::Result<Running> {
        listener.set_nonblocking(true)?;
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("links".to_owned()).spawn(move || {
            runtime.block_on(Arc::new(self).run(listener, stopped));
            // A running name lookup is abandoned, because it can take half a minute.
            runtime.shutdown_background();
        })?;
        Ok(Running { stop, thread: Some(thread) })
    }

    async fn run(self: Arc<Self>, listener: std::net::TcpListener, stop: watch::Receiver<bool>) {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                error!(target: LINKS, "other nodes cannot reach this one: {error}");
                return;
            }
        };
        let mut callers = JoinSet::new();
        for link in &self.links {
            callers.spawn(self.clone().keep_calling(link.clone(), stop.clone()));
        }
        tokio::select! {
            () = self.accept_calls(listener) => {}
            () = stopped(stop) => {}
        }
        // Queued messages are still sent if that is quick.
        let _ = timeout(CLOSE_TIMEOUT, callers.join_all()).await;
    }

    /// Returns the TLS configuration for new links.
    fn tls(&self) -> Option<Arc<PeerTls>> {
        self.tls.as_ref().map(|tls| tls.load_full())
    }

    /// Warns when a clock certainly differs too much. `ahead_us` is negative if the clock is
    /// behind.
    fn note_skew(&self, name: &str, ahead_us: i64) {
        if ahead_us.abs() > NOTABLE_SKEW_US {
            let seconds = ahead_us.unsigned_abs() as f64 / 1e6;
            let way = if ahead_us > 0 { "ahead of" } else { "behind" };
            let line = format!("the clock of {name} is {seconds:.1} s {way} this node's");
            warn!(target: LINKS, "{line}; nodes refuse one another when their clocks differ too much");
        }
    }

    /// Returns the card that this node sends to another node.
    fn card(&self, to: NodeId) -> Card {
        let membership = self.network.membership();
        let card = Card::new(&self.identity, self.me, to, self.incarnation, clock_us());
        Card {
            generation: membership.generation,
            data: self.data.as_ref().map_or(card.data, DataDir::id),
            starts: self.data.as_ref().map_or(0, DataDir::starts),
            runs: self.runs.clone(),
            hybrid_us: membership.hybrid_us(),
            ..card
        }
    }

    /// Checks whether a node that has sent its card may take part.
    async fn check_entry(&self, theirs: &Card) -> Result<(), Failure> {
        let (node, origin) = (theirs.from, theirs.origin());
        let unwelcome = |unwelcome| self.unwelcome(node, unwelcome);
        let membership = self.network.membership();
        membership.may_enter(node, origin, theirs.sites.len()).map_err(unwelcome)?;
        if self.has_lost_data(theirs).await {
            return Err(unwelcome(Unwelcome::LostData));
        }
        Ok(())
    }

    /// Rejects a node that has sent its card and whose site was removed.
    fn is_not_removed(&self, theirs: &Card) -> Result<(), Failure> {
        match self.network.membership().admits(theirs.from.site, theirs.generation) {
            Err(Unwelcome::Removed) => Err(self.unwelcome(theirs.from, Unwelcome::Removed)),
            _ => Ok(()),
        }
    }

    /// Records that a node takes part. Must be called only when it is certain that no other process
    /// acts as that node, because that process would be refused later.
    async fn note_entry(&self, theirs: &Card) {
        let (node, network) = (theirs.from, self.network.clone());
        network.membership().note_entry(node, theirs.origin(), theirs.sites.len());
        // The other links continue while the disk is slow.
        let kept = spawn_blocking(move || network.membership().keep_entries()).await;
        if let Ok(Err(problem)) = kept {
            // This is better than no link: a full disk prevents this node from writing, but not
            // from reading.
            let (site, number) = self.spec.fields_of(node);
            warn!(
                target: LINKS,
                site,
                node = number,
                "the identity of the data of {} was not stored, so that this node cannot detect a loss of \
                 that data after a restart: {problem}",
                self.spec.name_of(node)
            );
        }
    }

    /// Notes that another node has accepted this one. Must be called before messages are sent to
    /// it.
    async fn note_accepted(&self, node: NodeId) {
        let Some(data) = self.data.clone().filter(|_| node.site != self.me.site) else { return };
        if let Ok(Err(problem)) = spawn_blocking(move || data.note_accepted()).await {
            warn!(target: SITES, "cannot note that this node was accepted: {problem}");
        }
    }

    /// Returns whether this node has received times of another node that the other node's data
    /// lacks.
    async fn has_lost_data(&self, theirs: &Card) -> bool {
        let site = theirs.from.site;
        let membership = self.network.membership();
        if membership.status(site) != SiteStatus::Member {
            return false;
        }
        let first = self.spec.workers_on(theirs.from).start;
        let heard = self.network.heard_of(site).await;
        heard.into_iter().any(|(worker, ts)| {
            let place = worker.worker.checked_sub(first).map(usize::from);
            let run = place.and_then(|place| theirs.runs.get(place));
            run.is_some_and(|run| membership.has_lost_data(site, *run, ts))
        })
    }

    /// Records that another node has accepted this one, or refused it.
    fn note_answer(&self, node: NodeId, answer: Result<(), String>) {
        let news = self.network.membership().heard(node, answer);
        log_acceptance(&self.network, &self.spec, news);
    }

    /// Records that another node has not answered for a long time.
    fn note_timeout(&self, node: NodeId) {
        let news = self.network.membership().note_timeout(node);
        log_acceptance(&self.network, &self.spec, news);
    }

    /// Rejects a node whose clock has run too far ahead while its link was up. Its times would push
    /// the times of all nodes ahead.
    fn not_too_early(&self, node: NodeId, ahead_us: i64) -> Result<(), Failure> {
        let limit = self.network.settings().max_clock_skew;
        let ahead = Duration::from_micros(u64::try_from(ahead_us).unwrap_or(0));
        if ahead <= limit {
            return Ok(());
        }
        let (ahead_ms, limit_ms) = (ahead.as_millis() as u64, limit.as_millis() as u64);
        let node = self.spec.name_of(node);
        Err(Failure::Refused(Refusal::Clocks { node, ahead_ms, limit_ms }))
    }

    /// Checks whether a node may still send messages.
    fn admits(&self, node: NodeId, generation: u32) -> Result<(), Failure> {
        let admitted = self.network.membership().accepts_messages(node, generation);
        admitted.map_err(|unwelcome| self.unwelcome(node, unwelcome))
    }

    fn unwelcome(&self, node: NodeId, unwelcome: Unwelcome) -> Failure {
        Failure::Refused(Refusal::of(unwelcome, node, &self.identity))
    }

    /// Replaces a failure of TLS on a connection with `whom` by a clear explanation.
    fn explain(&self, failure: Failure, whom: &str) -> Failure {
        let explained = match &failure {
            Failure::Io(error) => self.tls().and_then(|tls| tls.explain(error, whom)),
            _ => None,
        };
        explained.map_or(failure, |reason| Failure::Refused(Refusal::Tls(reason)))
    }

    /// Counts the frame that ended an open connection with a node, if one did.
    fn count_frame(&self, node: NodeId, failure: &Failure) {
        match failure {
            Failure::Frame(error) => self.refused.count_frame(node.site, *error),
            Failure::Refused(refusal) => self.refused.count_late_frame(node.site, refusal),
            Failure::Broken(_) | Failure::Io(_) => {}
        }
    }

    /// Returns whether a refusal should be logged as a warning now.
    fn should_log(&self, line: &str) -> bool {
        let mut refusals = self.refusals.lock().expect("nothing panics with the lock");
        refusals.should_log(line, Instant::now())
    }
}

/// Logs whether this node accepts writes, if that has changed.
pub(crate) fn log_acceptance(network: &Network, spec: &ClusterSpec, news: Option<bool>) {
    match news {
        Some(true) => info!(
            target: SITES,
            "takes writes again: the other sites no longer all refuse this node"
        ),
        Some(false) => {
            if let Some((node, reason)) = network.membership().refusal() {
                let line = refused_by(spec, node, &reason);
                let (site, node) = spec.fields_of(node);
                error!(target: SITES, site, node, reason, "takes no writes: {line}");
            }
        }
        None => {}
    }
}

/// Returns the time by which another clock is certainly ahead, in microseconds; negative if it is
/// behind. The other clock was read between two readings of this node's clock. The exact moment is
/// unknown, because messages wait while a node starts or is busy.
fn surely_ahead(before: u64, theirs: u64, after: u64) -> i64 {
    if theirs < before { -((before - theirs) as i64) } else { theirs.saturating_sub(after) as i64 }
}

/// Refusals that were logged, with the time and the pause before each is logged again.
#[derive(Debug, Default)]
pub(crate) struct RefusalLog(BTreeMap<String, (Instant, Duration)>);

impl RefusalLog {
    /// Returns whether a line should be logged now: at once the first time, then at growing
    /// intervals. Lines of one node or caller whose reasons differ only in numbers count as the
    /// same.
    fn should_log(&mut self, line: &str, now: Instant) -> bool {
        let (who, reason) = line.split_once(": ").unwrap_or((line, ""));
        let reason = reason.chars().filter(|letter| !letter.is_ascii_digit());
        let line: String = who.chars().chain(reason).collect();
        if self.0.len() >= MAX_REFUSALS {
            // Unknown callers can cause any number of different lines.
            self.0.clear();
        }
        let pause = match self.0.get(&line) {
            Some((until, _)) if now < *until => return false,
            Some((_, pause)) => (*pause * 2).min(LAST_LOG_PAUSE),
            None => FIRST_LOG_PAUSE,
        };
        self.0.insert(line, (now + pause, pause));
        true
    }
}

/// Reason why a connection cannot be used.
#[derive(Debug)]
enum Failure {
    /// The two nodes refuse one another.
    Refused(Refusal),
    /// The connection could not be opened, or broke.
    Broken(String),
    /// The same, as an error of the operating system or of TLS.
    Io(std::io::Error),
    /// The other node sent a frame that no correct node of this version sends.
    Frame(WireError),
}

impl Failure {
    fn timeout() -> Failure {
        Failure::Broken(format!("no data arrived for {} s", IDLE_TIMEOUT.as_secs()))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Refused(refusal) => refusal.fmt(f),
            Failure::Broken(reason) => f.write_str(reason),
            Failure::Io(error) => error.fmt(f),
            Failure::Frame(error) => write!(f, "it sent {error}"),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // TLS has a long text for a peer that closes the connection without a closing message.
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => {
                Failure::Broken("it closed the connection".to_owned())
            }
            _ => Failure::Io(error),
        }
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Failure::Frame(error)
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // A dropped sender stops the links, too.
    let _ = stop.wait_for(|stop| *stop).await;
}

fn shortened(mut reason: String) -> String {
    if let Some((end, _)) = reason.char_indices().find(|(at, _)| *at >= MAX_REASON) {
        reason.truncate(end);
    }
    reason
}

async fn read_greeting(stream: &mut Stream) -> Result<Greeting, Failure> {
    let mut head = [0; HEAD];
    let mut filled = 0;
    while filled < HEAD {
        match stream.read(&mut head[filled..]).await? {
            0 => return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
            read => filled += read,
        }
        // Another program may send less than a head, and then wait or hang up.
        if !Greeting::may_begin_with(&head[..filled]) {
            return Err(Failure::Refused(Refusal::NotSolera));
        }
    }
    let length = Greeting::body_length(&head).map_err(Failure::Refused)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Greeting::decode(&head, &body).map_err(Failure::Refused)
}

/// Reads the available bytes. The buffer grows with the bytes that arrive, regardless of the length
/// that a frame announces.
async fn read_more(read: &mut ReadHalf<Stream>, input: &mut Vec<u8>) -> std::io::Result<usize> {
    if input.capacity() - input.len() < READ_SIZE / 4 {
        input.reserve(READ_SIZE);
    }
    read.read_buf(input).await
}

/// Removes the bytes that were read, and frees the buffer of a very long frame.
fn consume(input: &mut Vec<u8>, used: usize) {
    input.drain(..used);
    if input.is_empty() && input.capacity() > KEPT_INPUT {
        *input = Vec::new();
    }
}

fn or_timeout<T>(
    got: Result<std::io::Result<T>, tokio::time::error::Elapsed>,
) -> Result<T, Failure> {
    Ok(got.map_err(|_| Failure::timeout())??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_refusal_is_logged_more_and_more_rarely() {
        let (mut refusals, start) = (RefusalLog::default(), Instant::now());
        let lines = (0..20_000).map(|second| {
            let line = format!("node 1: the clocks are {second} s apart");
            refusals.should_log(&line, start + Duration::from_secs(second))
        });
        let at: Vec<usize> =
            lines.enumerate().filter(|(_, news)| *news).map(|(at, _)| at).collect();
        assert_eq!(at, [0, 60, 180, 420, 900, 1860, 3780, 7380, 10_980, 14_580, 18_180]);
        assert!(refusals.should_log("node 1: another cluster", start));
        assert!(refusals.should_log("node 2: another cluster", start));
    }

    #[test]
    fn delays_of_messages_do_not_look_like_clock_skew() {
        let (asked, answered) = (10_000_000, 14_000_000);
        for (theirs, ahead) in [
            (asked - 3_000_000, -3_000_000),
            (asked, 0),
            (asked + 2_000_000, 0),
            (answered, 0),
            (answered + 3_000_000, 3_000_000),
        ] {
            assert_eq!(surely_ahead(asked, theirs, answered), ahead);
        }
    }

    #[test]
    fn the_memory_of_a_long_frame_is_given_back() {
        let mut input = vec![0; 2 * KEPT_INPUT];
        consume(&mut input, KEPT_INPUT);
        assert!(input.len() == KEPT_INPUT && input.capacity() > KEPT_INPUT);
        consume(&mut input, KEPT_INPUT);
        assert!(input.is_empty() && input.capacity() <= KEPT_INPUT);
    }
}
