//! The thread that carries messages between this process and the other nodes.

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use solera_unistore::Topology;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::config::{ClusterSpec, NodeId};
use crate::current::Current;
use crate::handshake::{Card, Greeting, HEAD, Refusal};
use crate::link::Link;
use crate::log::Log;
use crate::membership::{Identity, Unwelcome};
use crate::network::Network;
use crate::tls::PeerTls;
use crate::wire::WireError;

mod answering;
mod calling;

pub(crate) use answering::unwelcome_callers;

/// The longest pause between two calls of a node that does not answer.
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// How long a call and its greeting may take.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection on which nothing came for so long is given up.
const SILENCE: Duration = Duration::from_secs(5);
/// How long links may go on sending when the node stops.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The same refusal is told again after this long.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// Clocks that differ by more are warned about.
const NOTABLE_SKEW_US: i64 = 1_000_000;
const READ_SIZE: usize = 64 * 1024;
/// How much memory for what comes in is kept between two frames.
const KEPT_INPUT: usize = 4 << 20;
/// The longest reason that is sent or told.
const MAX_REASON: usize = 2000;

/// A connection to another node, with or without TLS.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}
type Stream = Box<dyn Duplex>;

/// What carries the messages of one node.
pub(crate) struct Carrier {
    pub(crate) spec: Arc<ClusterSpec>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) me: NodeId,
    /// Between nodes, if they speak so.
    pub(crate) tls: Option<Arc<Current<PeerTls>>>,
    /// Tells this process from those that were this node before.
    pub(crate) incarnation: u64,
    /// Tells its data from what the node had before, or would have if it lost this.
    pub(crate) data: u64,
    pub(crate) network: Arc<Network>,
    pub(crate) links: Vec<Arc<Link>>,
    pub(crate) log: Log,
    /// The last refusal that was told, and when.
    pub(crate) told: Mutex<Option<(String, Instant)>>,
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
            // If it panicked, it has already said so.
            let _ = thread.join();
        }
    }
}

impl Carrier {
    /// Starts the thread, which takes calls at `listener`.
    ///
    /// # Errors
    /// The thread or its event loop cannot be made.
    pub(crate) fn start(self, listener: std::net::TcpListener) -> std::io::Result<Running> {
        listener.set_nonblocking(true)?;
        let (stop, stopped) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new().name("links".to_owned()).spawn(move || {
            runtime.block_on(Arc::new(self).run(listener, stopped));
            // A name that is being looked up is not waited for: that can take half a minute.
            runtime.shutdown_background();
        })?;
        Ok(Running { stop, thread: Some(thread) })
    }

    async fn run(self: Arc<Self>, listener: std::net::TcpListener, stop: watch::Receiver<bool>) {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                self.log.error(format_args!("other nodes cannot reach this one: {error}"));
                return;
            }
        };
        let mut callers = JoinSet::new();
        for link in &self.links {
            callers.spawn(self.clone().keep_calling(link.clone(), stop.clone()));
        }
        tokio::select! {
            () = self.take_calls(listener) => {}
            () = stopped(stop) => {}
        }
        // What waits is sent if that is quick.
        let _ = timeout(LAST_WORDS, callers.join_all()).await;
    }

    /// What new links are protected with.
    fn tls(&self) -> Option<Arc<PeerTls>> {
        self.tls.as_ref().map(|tls| tls.get())
    }

    fn note_skew(&self, name: &str, ahead_us: i64) {
        if ahead_us.abs() > NOTABLE_SKEW_US {
            let seconds = ahead_us.unsigned_abs() as f64 / 1e6;
            let way = if ahead_us > 0 { "ahead of" } else { "behind" };
            let line = format!("the clock of {name} is {seconds:.1} s {way} this node's");
            self.log.warn(format_args!("{line}; nodes refuse one another when it is too much"));
        }
    }

    /// What this node shows to another one.
    fn card(&self, to: NodeId) -> Card {
        let life = self.network.membership().life;
        Card::new(&self.spec, self.me, to, self.incarnation).of(life, self.data)
    }

    /// Whether a node that has shown its card takes part.
    fn lets_in(&self, theirs: &Card) -> Result<(), Failure> {
        let Card { life, data, .. } = *theirs;
        let says = Identity { life, data, listed: theirs.sites.len() };
        let admitted = self.network.membership().let_in(theirs.from, says);
        admitted.map_err(|unwelcome| self.unwelcome(theirs.from, unwelcome))
    }

    /// Whether it still does.
    fn admits(&self, node: NodeId, life: u32) -> Result<(), Failure> {
        let admitted = self.network.membership().admits(node.site, life);
        admitted.map_err(|unwelcome| self.unwelcome(node, unwelcome))
    }

    fn unwelcome(&self, node: NodeId, unwelcome: Unwelcome) -> Failure {
        let site = self.spec.sites[node.site.index()].name.clone();
        Failure::Refused(match unwelcome {
            Unwelcome::Removed => Refusal::Removed(site),
            Unwelcome::Unknown => Refusal::UnknownLife(site),
            Unwelcome::OtherData => Refusal::OtherData(self.spec.name_of(node), site),
            Unwelcome::Lacks(added) => {
                let added = self.spec.sites[added.index()].name.clone();
                Refusal::Lacks(self.spec.name_of(node), added)
            }
        })
    }

    /// Says it in plain words if a connection with `whom` failed for its TLS.
    fn explain(&self, failure: Failure, whom: &str) -> Failure {
        let explained = match &failure {
            Failure::Io(error) => self.tls().and_then(|tls| tls.explain(error, whom)),
            _ => None,
        };
        explained.map_or(failure, |reason| Failure::Refused(Refusal::Tls(reason)))
    }

    /// Whether a refusal was not told already.
    fn is_news(&self, line: &str) -> bool {
        let mut told = self.told.lock().expect("nothing panics with the lock");
        let old =
            told.as_ref().is_some_and(|(last, when)| last == line && when.elapsed() < TELL_AGAIN);
        if !old {
            *told = Some((line.to_owned(), Instant::now()));
        }
        !old
    }
}

/// Why a connection is of no use.
#[derive(Debug)]
enum Failure {
    /// The two do not belong together.
    Refused(Refusal),
    /// It could not be made, or broke.
    Broken(String),
    /// The same, in the system's words or those of TLS.
    Io(std::io::Error),
}

impl Failure {
    fn silence() -> Failure {
        Failure::Broken(format!("nothing was heard for {} s", SILENCE.as_secs()))
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Refused(refusal) => refusal.fmt(f),
            Failure::Broken(reason) => f.write_str(reason),
            Failure::Io(error) => error.fmt(f),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        // TLS tells at length what it thinks of one who leaves without a word.
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Failure::Broken("it hung up".to_owned()),
            _ => Failure::Io(error),
        }
    }
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        Failure::Broken(format!("it sent {error}"))
    }
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // A sender that is gone stops, too.
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
    stream.read_exact(&mut head).await?;
    let length = Greeting::body_length(&head).map_err(Failure::Refused)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Greeting::decode(&head, &body).map_err(Failure::Refused)
}

/// Reads what there is. Memory grows with what arrives, whatever a frame's length says.
async fn read_more(read: &mut ReadHalf<Stream>, input: &mut Vec<u8>) -> std::io::Result<usize> {
    if input.capacity() - input.len() < READ_SIZE / 4 {
        input.reserve(READ_SIZE);
    }
    read.read_buf(input).await
}

/// Removes what was read. What a very long frame needed is given back.
fn consume(input: &mut Vec<u8>, used: usize) {
    input.drain(..used);
    if input.is_empty() && input.capacity() > KEPT_INPUT {
        *input = Vec::new();
    }
}

fn silent<T>(got: Result<std::io::Result<T>, tokio::time::error::Elapsed>) -> Result<T, Failure> {
    Ok(got.map_err(|_| Failure::silence())??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_long_frame_is_given_back() {
        let mut input = vec![0; 2 * KEPT_INPUT];
        consume(&mut input, KEPT_INPUT);
        assert!(input.len() == KEPT_INPUT && input.capacity() > KEPT_INPUT);
        consume(&mut input, KEPT_INPUT);
        assert!(input.is_empty() && input.capacity() <= KEPT_INPUT);
    }
}
