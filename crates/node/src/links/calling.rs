//! Calling other nodes, and sending messages to them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use solera_config::areas::LINKS;
use solera_links::{Card, Frame, Greeting, Kind, Refusal, WireError, read_frame, write_frame};
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::net::{TcpStream, ToSocketAddrs, lookup_host};
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until, timeout};
use tokio_rustls::rustls::pki_types::ServerName;
use tracing::{debug, info, warn};

use super::{
    Carrier, Failure, GREETING_TIMEOUT, IDLE_TIMEOUT, LAST_PAUSE, Stream, consume, or_timeout,
    read_greeting, read_more, shortened, stopped, surely_ahead,
};
use crate::handshake::clock_us;
use crate::link::Link;
use crate::random::random;

/// First pause between calls. Pauses grow up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Time without an answer after which a node's refusal no longer counts. It is longer than a
/// restart, so that a refused node does not accept writes while the node that refuses it restarts.
const REFUSAL_COUNTS: Duration = Duration::from_secs(10);
const PING_INTERVAL: Duration = Duration::from_secs(1);

impl Carrier {
    /// Calls a node until the links stop.
    pub(super) async fn keep_calling(
        self: Arc<Self>,
        link: Arc<Link>,
        stop: watch::Receiver<bool>,
    ) {
        let (site, node) = self.spec.fields_of(link.peer);
        let mut pause = FIRST_PAUSE;
        let mut answered = Instant::now();
        while !*stop.borrow() {
            let called = tokio::select! {
                called = timeout(GREETING_TIMEOUT, self.call(&link)) => {
                    called.map(|called| called.map_err(|failure| self.explain(failure, &link.name)))
                }
                () = stopped(stop.clone()) => return,
            };
            match called.unwrap_or_else(|_| Err(Failure::Broken("it does not answer".to_owned()))) {
                Ok((stream, theirs)) => {
                    self.note_entry(&theirs).await;
                    self.note_accepted(link.peer).await;
                    let started = Instant::now();
                    let reason = self.run_connection(&link, stream, stop.clone()).await;
                    answered = Instant::now();
                    if *stop.borrow() {
                        return;
                    }
                    warn!(
                        target: LINKS,
                        site,
                        node,
                        reason,
                        "link to {} is down: {reason}",
                        link.name
                    );
                    link.closed(reason);
                    if started.elapsed() > LAST_PAUSE {
                        pause = FIRST_PAUSE;
                    }
                }
                Err(failure) => {
                    let text = failure.to_string();
                    let news = link.failed(text.clone());
                    if let Failure::Refused(refusal) = &failure {
                        self.refused.count_handshake(Some(link.peer.site), refusal);
                        let line = format!("link to {} is refused: {text}", link.name);
                        match self.should_log(&line) {
                            true => warn!(target: LINKS, site, node, reason = text, "{line}"),
                            false => debug!(target: LINKS, site, node, reason = text, "{line}"),
                        }
                    } else if !news {
                        debug!(target: LINKS, site, node, "link to {}: {text}", link.name);
                    } else {
                        info!(target: LINKS, site, node, "link to {}: {text}", link.name);
                    }
                    if let Failure::Refused(_) = failure {
                        pause = LAST_PAUSE;
                        answered = Instant::now();
                    } else if answered.elapsed() >= REFUSAL_COUNTS {
                        self.note_timeout(link.peer);
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

    /// Opens a connection on which both nodes have accepted one another. Also returns the peer's
    /// card.
    async fn call(&self, link: &Link) -> Result<(Stream, Card), Failure> {
        let handshake = link.handshake();
        let mut stream = self.reach(link).await?;
        let asked = self.card(link.peer);
        let asked_us = asked.clock_us;
        stream.write_all(&Greeting::Hello(asked).encode()).await?;
        stream.flush().await?;
        match read_greeting(&mut stream).await? {
            Greeting::Welcome(mut theirs) => {
                let mine = self.card(link.peer);
                let ahead_us = surely_ahead(asked_us, theirs.clock_us, mine.clock_us);
                theirs.clock_us = mine.clock_us.saturating_add_signed(ahead_us);
                let limit = self.network.settings().max_clock_skew;
                let checked = mine.check(&theirs, false, &self.identity, limit);
                checked.map_err(Failure::Refused)?;
                self.check_entry(&theirs).await?;
                self.note_skew(&link.name, ahead_us);
                if !link.opened(handshake, theirs.incarnation, theirs.received) {
                    return Err(Failure::Refused(Refusal::Taken));
                }
                // No await may follow: the caller must close the link again.
                self.note_answer(link.peer, Ok(()));
                let (site, node) = self.spec.fields_of(link.peer);
                let address = link.address.to_string();
                info!(target: LINKS, site, node, address, "link to {} is up ({address})", link.name);
                Ok((stream, theirs))
            }
            Greeting::Refusal(reason) => {
                let reason = shortened(reason);
                self.note_answer(link.peer, Err(reason.clone()));
                Err(Failure::Refused(Refusal::FromPeer(reason)))
            }
            Greeting::NotNow(reason) => Err(Failure::Refused(Refusal::FromPeer(shortened(reason)))),
            Greeting::Farewell(reason) => {
                let reason = shortened(reason);
                let line = format!("{} reports: {reason}", link.name);
                self.network.membership().expel(match &self.data {
                    Some(data) => format!("{line}; the data here is in {}", data.root().display()),
                    None => line,
                });
                Err(Failure::Refused(Refusal::FromPeer(reason)))
            }
            Greeting::Hello(_) => Err(Failure::Refused(Refusal::NotSolera)),
        }
    }

    async fn reach(&self, link: &Link) -> Result<Stream, Failure> {
        let host = &link.address.host;
        let stream = connect((host.as_str(), link.address.port)).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = self.tls() else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(host.clone());
        let name = name.map_err(|_| Failure::Broken(format!("'{host}' is no host")))?;
        Ok(Box::new(tls.connector.connect(name, stream).await?))
    }

    /// Sends the link's frames until the connection breaks or the node stops. Returns the reason.
    async fn run_connection(
        &self,
        link: &Link,
        stream: Stream,
        stop: watch::Receiver<bool>,
    ) -> String {
        let (read, write) = split(stream);
        let ended = tokio::select! {
            ended = send_frames(link, write, stop) => ended,
            ended = receive_answers(link, read) => ended,
        };
        match ended {
            Ok(()) => "this node stops".to_owned(),
            Err(failure) => {
                self.count_frame(link.peer, &failure);
                failure.to_string()
            }
        }
    }
}

/// Connects to the first address of a host that answers. The timeout of each address leaves time
/// for the others.
async fn connect(host: impl ToSocketAddrs) -> Result<TcpStream, Failure> {
    let addresses: Vec<SocketAddr> = lookup_host(host).await?.collect();
    let patience = GREETING_TIMEOUT / (addresses.len() as u32 + 1);
    let mut last = Failure::Broken("the host has no address".to_owned());
    for address in addresses {
        match timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error.into(),
            Err(_) => last = Failure::Broken(format!("{address} does not answer")),
        }
    }
    Err(last)
}

/// Returns a random time between half of a pause and all of it, so that nodes do not call in step.
fn jittered(pause: Duration) -> Duration {
    pause / 2 + (pause / 2).mul_f64((random() >> 32) as f64 / f64::from(u32::MAX))
}

async fn send_frames(
    link: &Link,
    mut write: WriteHalf<Stream>,
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
        write.flush().await?;
        output.clear();
        output.shrink_to(1 << 20);
    }
}

/// Handles acknowledgements and answers.
async fn receive_answers(link: &Link, mut read: ReadHalf<Stream>) -> Result<(), Failure> {
    let mut input = Vec::new();
    loop {
        if or_timeout(timeout(IDLE_TIMEOUT, read_more(&mut read, &mut input)).await)? == 0 {
            return Err(Failure::Broken("it closed the connection".to_owned()));
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
        consume(&mut input, used);
    }
}
