//! The thread that carries messages between this process and the other nodes.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use solera_unistore::Topology;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until, timeout};

use crate::config::{ClusterSpec, NodeId};
use crate::handshake::{Card, Greeting, HEAD, Refusal, clock_us};
use crate::link::Link;
use crate::log::Log;
use crate::network::Network;
use crate::wire::{
    Answer, Frame, Kind, Question, WireError, decode_batch, read_frame, write_frame,
};

/// Pauses between calls grow from the first to the second.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// How long a call and its greeting may take.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
const PING_INTERVAL: Duration = Duration::from_secs(1);
/// A connection on which nothing came for so long is given up.
const SILENCE: Duration = Duration::from_secs(5);
/// How long links may go on sending when the node stops.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The same refusal is told again after this long.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// Clocks that differ by more are warned about.
const NOTABLE_SKEW_US: i64 = 1_000_000;
const READ_SIZE: usize = 64 * 1024;
/// The longest reason that is sent or told.
const MAX_REASON: usize = 2000;

/// What carries the messages of one node.
pub(crate) struct Carrier {
    pub(crate) spec: Arc<ClusterSpec>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) me: NodeId,
    /// Tells this process from those that were this node before.
    pub(crate) incarnation: u64,
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
        let thread = std::thread::Builder::new()
            .name("links".to_owned())
            .spawn(move || runtime.block_on(Arc::new(self).run(listener, stopped)))?;
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

    /// Calls a node again and again.
    async fn keep_calling(self: Arc<Self>, link: Arc<Link>, stop: watch::Receiver<bool>) {
        let mut pause = FIRST_PAUSE;
        while !*stop.borrow() {
            let called = tokio::select! {
                called = timeout(GREETING_TIMEOUT, self.call(&link)) => called,
                () = stopped(stop.clone()) => return,
            };
            match called.unwrap_or_else(|_| Err(Failure::Broken("it does not answer".to_owned()))) {
                Ok(stream) => {
                    let started = Instant::now();
                    let reason = self.converse(&link, stream, stop.clone()).await;
                    if *stop.borrow() {
                        return;
                    }
                    self.log.warn(format_args!("link to {} is down: {reason}", link.name));
                    link.closed(reason);
                    if started.elapsed() > LAST_PAUSE {
                        pause = FIRST_PAUSE;
                    }
                }
                Err(failure) => {
                    let text = failure.to_string();
                    if !link.failed(text.clone()) {
                        self.log.debug(format_args!("link to {}: {text}", link.name));
                    } else if let Failure::Refused(_) = failure {
                        self.log.warn(format_args!("link to {} is refused: {text}", link.name));
                    } else {
                        self.log.info(format_args!("link to {}: {text}", link.name));
                    }
                    if let Failure::Refused(_) = failure {
                        pause = LAST_PAUSE;
                    }
                }
            }
            tokio::select! {
                () = sleep(jittered(pause)) => {}
                () = link.called.notified() => {}
                () = stopped(stop.clone()) => return,
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Makes a connection on which both have agreed to talk.
    async fn call(&self, link: &Link) -> Result<TcpStream, Failure> {
        let address = (link.address.host.as_str(), link.address.port);
        let mut stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let card = Card::new(&self.spec, self.me, link.peer, self.incarnation);
        stream.write_all(&Greeting::Hello(card).encode()).await?;
        match read_greeting(&mut stream).await? {
            Greeting::Welcome(theirs) => {
                let mine = Card::new(&self.spec, self.me, link.peer, self.incarnation);
                let ahead_us = mine.check(&theirs, false, &self.spec).map_err(Failure::Refused)?;
                self.note_skew(&link.name, ahead_us);
                if !link.opened(theirs.incarnation, theirs.received) {
                    return Err(Failure::Refused(Refusal::Taken));
                }
                self.log.info(format_args!("link to {} is up ({})", link.name, link.address));
                Ok(stream)
            }
            Greeting::Refusal(reason) => Err(Failure::Refused(Refusal::Told(shortened(reason)))),
            Greeting::Hello(_) => Err(Failure::Refused(Refusal::NotSolera)),
        }
    }

    /// Sends what the link has to say, until the connection breaks or the node stops. Returns why.
    async fn converse(
        &self,
        link: &Link,
        stream: TcpStream,
        stop: watch::Receiver<bool>,
    ) -> String {
        let (read, write) = stream.into_split();
        let ended = tokio::select! {
            ended = speak(link, write, stop) => ended,
            ended = listen_back(link, read) => ended,
        };
        match ended {
            Ok(()) => "this node stops".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    async fn take_calls(self: &Arc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let carrier = self.clone();
                    tokio::spawn(async move { carrier.take_call(stream, from).await });
                }
                Err(error) => {
                    self.log.error(format_args!("cannot take calls of other nodes: {error}"));
                    // Out of descriptors, most likely: leave room for others to end.
                    sleep(LAST_PAUSE).await;
                }
            }
        }
    }

    async fn take_call(&self, mut stream: TcpStream, from: std::net::SocketAddr) {
        // Without it acknowledgements wait; not fatal.
        let _ = stream.set_nodelay(true);
        let greeted = timeout(GREETING_TIMEOUT, self.welcome(&mut stream)).await;
        let (link, connection) = match greeted {
            Ok(Ok(welcomed)) => welcomed,
            Ok(Err(Failure::Refused(refusal))) => {
                let reason = shortened(refusal.to_string());
                let line = format!("refused a call from {}: {reason}", from.ip());
                if self.is_news(&line) {
                    self.log.warn(format_args!("{line}"));
                } else {
                    self.log.debug(format_args!("{line}"));
                }
                let _ = stream.write_all(&Greeting::Refusal(reason).encode()).await;
                return;
            }
            Ok(Err(Failure::Broken(error))) => {
                self.log.debug(format_args!("a call from {from} broke: {error}"));
                return;
            }
            Err(_) => {
                self.log.debug(format_args!("a call from {from} said nothing"));
                return;
            }
        };
        self.log.info(format_args!("link from {} is up", link.name));
        let ended = self.hear(&link, connection, stream).await;
        if link.hung_up(connection) {
            let reason = ended.err().map_or("it was closed".to_owned(), |error| error.to_string());
            self.log.warn(format_args!("link from {} is down: {reason}", link.name));
        }
    }

    async fn welcome(&self, stream: &mut TcpStream) -> Result<(Arc<Link>, u64), Failure> {
        let Greeting::Hello(theirs) = read_greeting(stream).await? else {
            return Err(Failure::Refused(Refusal::Damaged));
        };
        let mut mine = Card::new(&self.spec, self.me, theirs.from, self.incarnation);
        let ahead_us = mine.check(&theirs, true, &self.spec).map_err(Failure::Refused)?;
        let link = self.links.iter().find(|link| link.peer == theirs.from);
        let link = link.ok_or(Failure::Refused(Refusal::NoSuchNode))?;
        self.note_skew(&link.name, ahead_us);
        let accepted = link.accepted(theirs.incarnation);
        let (connection, received) = accepted.ok_or(Failure::Refused(Refusal::Taken))?;
        mine.received = received;
        stream.write_all(&Greeting::Welcome(mine).encode()).await?;
        Ok((link.clone(), connection))
    }

    /// Takes what the peer sends, until the connection breaks or the peer calls anew.
    async fn hear(
        &self,
        link: &Arc<Link>,
        connection: u64,
        stream: TcpStream,
    ) -> Result<(), Failure> {
        let (mut read, mut write) = stream.into_split();
        let (answer, mut answers) = mpsc::unbounded_channel();
        let (mut input, mut output) = (Vec::new(), Vec::new());
        let mut warned = false;
        loop {
            tokio::select! {
                got = timeout(SILENCE, read_more(&mut read, &mut input)) => {
                    if silent(got)? == 0 {
                        return Ok(());
                    }
                    let mut used = 0;
                    while let Some((frame, length)) = read_frame(&input[used..])? {
                        used += length;
                        match frame.kind {
                            Kind::Messages => self.deliver(link, connection, frame)?,
                            Kind::Ping => {
                                // What took its time on the way looks late; what is early is so.
                                let ahead = frame.number.wrapping_sub(clock_us()) as i64;
                                if ahead > NOTABLE_SKEW_US && !warned {
                                    self.note_skew(&link.name, ahead);
                                    warned = true;
                                }
                            }
                            Kind::Ask => {
                                let question = postcard::from_bytes(frame.body);
                                let question = question.map_err(|_| WireError::Content)?;
                                let (network, answer) = (self.network.clone(), answer.clone());
                                let (me, number) = (self.me, frame.number);
                                tokio::spawn(async move {
                                    let found = answer_to(&network, me, question).await;
                                    // The connection may be gone.
                                    let _ = answer.send((number, found));
                                });
                            }
                            kind => return Err(WireError::Kind(kind as u8).into()),
                        }
                    }
                    input.drain(..used);
                    let Some(number) = link.received(connection) else {
                        return Ok(());
                    };
                    write_frame(&mut output, Frame { kind: Kind::Ack, number, body: &[] });
                }
                Some((number, found)) = answers.recv() => {
                    let body = postcard::to_stdvec(&found).expect("answers have a serialised form");
                    write_frame(&mut output, Frame { kind: Kind::Answer, number, body: &body });
                }
            }
            timeout(SILENCE, write.write_all(&output)).await.map_err(|_| Failure::silence())??;
            output.clear();
        }
    }

    fn deliver(&self, link: &Link, connection: u64, frame: Frame<'_>) -> Result<(), Failure> {
        let delivery = decode_batch(frame.body, link.peer.site, self.me.site, &self.topology)?;
        if self.spec.node_of(delivery.from) != Some(link.peer)
            || self.spec.node_of(delivery.to) != Some(self.me)
        {
            return Err(WireError::Misplaced.into());
        }
        if link.takes(connection, frame.number) {
            self.network.send(delivery.from, delivery.to, delivery.messages);
        }
        Ok(())
    }

    fn note_skew(&self, name: &str, ahead_us: i64) {
        if ahead_us.abs() > NOTABLE_SKEW_US {
            let seconds = ahead_us.unsigned_abs() as f64 / 1e6;
            let way = if ahead_us > 0 { "ahead of" } else { "behind" };
            let line = format!("the clock of {name} is {seconds:.1} s {way} this node's");
            self.log.warn(format_args!("{line}; nodes refuse one another when it is too much"));
        }
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
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Broken(error.to_string())
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

/// Between half of a pause and all of it, so that nodes do not call in step.
fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().hash_one(0u8) >> 32;
    pause / 2 + (pause / 2).mul_f64(random as f64 / f64::from(u32::MAX))
}

fn shortened(mut reason: String) -> String {
    if let Some((end, _)) = reason.char_indices().find(|(at, _)| *at >= MAX_REASON) {
        reason.truncate(end);
    }
    reason
}

async fn read_greeting(stream: &mut TcpStream) -> Result<Greeting, Failure> {
    let mut head = [0; HEAD];
    stream.read_exact(&mut head).await.map_err(closed_early)?;
    let length = Greeting::body_length(&head).map_err(Failure::Refused)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.map_err(closed_early)?;
    Greeting::decode(&head, &body).map_err(Failure::Refused)
}

fn closed_early(error: std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Failure::Broken("it hung up".to_owned()),
        _ => error.into(),
    }
}

/// Reads what there is. Memory grows with what arrives, whatever a frame's length says.
async fn read_more(read: &mut OwnedReadHalf, input: &mut Vec<u8>) -> std::io::Result<usize> {
    if input.capacity() - input.len() < READ_SIZE / 4 {
        input.reserve(READ_SIZE);
    }
    read.read_buf(input).await
}

fn silent<T>(got: Result<std::io::Result<T>, tokio::time::error::Elapsed>) -> Result<T, Failure> {
    Ok(got.map_err(|_| Failure::silence())??)
}

async fn speak(
    link: &Link,
    mut write: OwnedWriteHalf,
    stop: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let mut output = Vec::new();
    let mut ping = Instant::now();
    loop {
        if Instant::now() >= ping {
            let number = clock_us();
            write_frame(&mut output, Frame { kind: Kind::Ping, number, body: &[] });
            ping = Instant::now() + PING_INTERVAL;
        }
        link.gather(&mut output);
        if output.is_empty() {
            if *stop.borrow() {
                write.shutdown().await?;
                return Ok(());
            }
            tokio::select! {
                () = link.wake.notified() => {}
                () = sleep_until(ping.into()) => {}
                () = stopped(stop.clone()) => {}
            }
            continue;
        }
        write.write_all(&output).await?;
        output.clear();
        output.shrink_to(1 << 20);
    }
}

/// Takes acknowledgements and answers.
async fn listen_back(link: &Link, mut read: OwnedReadHalf) -> Result<(), Failure> {
    let mut input = Vec::new();
    loop {
        if silent(timeout(SILENCE, read_more(&mut read, &mut input)).await)? == 0 {
            return Err(Failure::Broken("it hung up".to_owned()));
        }
        let mut used = 0;
        while let Some((frame, length)) = read_frame(&input[used..])? {
            used += length;
            match frame.kind {
                Kind::Ack => link.acknowledged(frame.number),
                Kind::Answer => {
                    let answer = postcard::from_bytes(frame.body);
                    link.answered(frame.number, answer.map_err(|_| WireError::Content)?);
                }
                kind => return Err(WireError::Kind(kind as u8).into()),
            }
        }
        input.drain(..used);
    }
}

/// Answers a question about this node's own workers; others are not asked in turn.
async fn answer_to(network: &Network, me: NodeId, question: Question) -> Answer {
    use solera_unistore::Address;
    let here = |worker| {
        let address = Address { site: me.site, worker };
        network.is_here(address).then_some(address)
    };
    match question {
        Question::Sample { worker, detailed } => match here(worker) {
            Some(worker) => match network.sample(worker, detailed).await {
                Some(sample) => Answer::Sample(Box::new(sample)),
                None => Answer::Nothing,
            },
            None => Answer::Nothing,
        },
        Question::CountKeys { worker } => match here(worker) {
            Some(worker) => {
                network.count_keys(worker).await.map_or(Answer::Nothing, |n| Answer::Keys(n as u64))
            }
            None => Answer::Nothing,
        },
    }
}
