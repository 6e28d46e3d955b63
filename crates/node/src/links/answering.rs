//! Accepting calls of other nodes, and handling their frames.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use solera_config::areas::LINKS;
use solera_links::{
    Frame, Greeting, Kind, Refusal, WireError, decode_batch, read_frame, write_frame,
};
use solera_machine::NodeId;
use solera_machine::{Address, Topology};
use solera_site::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tracing::{debug, error, info, warn};

use super::{
    CLOSE_TIMEOUT, Carrier, Failure, GREETING_TIMEOUT, IDLE_TIMEOUT, LAST_PAUSE, NOTABLE_SKEW_US,
    Stream, consume, or_timeout, read_greeting, read_more, shortened,
};
use crate::connection_limiter::{ConnectionLimiter, Permit};
use crate::handshake::clock_us;
use crate::link::Link;
use crate::network::Network;
use crate::questions::{Answer, Question, encode_answer};

/// First byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

impl Carrier {
    pub(super) async fn accept_calls(self: &Arc<Self>, listener: TcpListener) {
        let limiter = Arc::new(ConnectionLimiter::default());
        let limit = unwelcome_callers(self.spec.nodes().count());
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let (carrier, permit) = (self.clone(), limiter.admit(from.ip(), limit));
                    tokio::spawn(async move { carrier.serve_call(stream, from, permit).await });
                }
                Err(error) => {
                    error!(target: LINKS, "cannot accept calls of other nodes: {error}");
                    // Most likely no descriptor is free; another connection may end meanwhile.
                    sleep(LAST_PAUSE).await;
                }
            }
        }
    }

    /// Serves a call. The caller holds `permit` until this node has accepted it.
    async fn serve_call(&self, stream: TcpStream, from: SocketAddr, permit: Permit) {
        // Acknowledgements are delayed without this option, which is not fatal.
        let _ = stream.set_nodelay(true);
        let (mut opened, mut claimed) = (None, None);
        let greeted = timeout(GREETING_TIMEOUT, async {
            let certificate = self.open(stream, &mut opened).await?;
            let stream = opened.as_mut().expect("it was opened without failure");
            self.welcome(stream, certificate, &mut claimed).await
        });
        let greeted = tokio::select! {
            greeted = greeted => greeted,
            () = permit.must_close() => {
                debug!(target: LINKS, "closed a call from {from}: too many callers were connected");
                return;
            }
        };
        let caller = || self.sites_at(from);
        let greeted =
            greeted.map(|greeted| greeted.map_err(|failure| self.explain(failure, &caller())));
        let (incoming, generation) = match greeted {
            Ok(Ok(welcomed)) => welcomed,
            Ok(Err(Failure::Refused(refusal))) => {
                let reason = shortened(refusal.to_string());
                self.log_refused_call(from, claimed, &refusal, &reason);
                if let Some(stream) = opened {
                    let greeting = refusal.answer(reason);
                    tokio::select! {
                        _ = timeout(GREETING_TIMEOUT, refuse(stream, greeting)) => {}
                        () = permit.must_close() => {}
                    }
                }
                return;
            }
            Ok(Err(error)) => {
                debug!(target: LINKS, "a call from {from} failed: {error}");
                return;
            }
            Err(_) => {
                debug!(target: LINKS, "a call from {from} sent no greeting in time");
                return;
            }
        };
        drop(permit);
        let stream = opened.expect("an accepted caller has a connection");
        let Incoming { link, connection } = &incoming;
        let mut has_sent = false;
        let ended = self.receive(link, *connection, generation, stream, &mut has_sent).await;
        if let Err(failure) = &ended {
            self.count_frame(link.peer, failure);
        }
        if link.hung_up(*connection) {
            let (site, node) = self.spec.fields_of(link.peer);
            let reason = ended.err().map_or("it was closed".to_owned(), |error| error.to_string());
            match has_sent {
                true => {
                    warn!(target: LINKS, site, node, reason, "link from {} is down: {reason}", link.name)
                }
                // The caller refuses this node, and will send the reason to this node's own calls.
                false => debug!(target: LINKS, site, node, "link from {}: {reason}", link.name),
            }
        }
    }

    /// Counts and logs that this node refused a call. `claimed` is the node that the caller claims
    /// to be, if it has sent its card.
    fn log_refused_call(
        &self,
        from: SocketAddr,
        claimed: Option<NodeId>,
        refusal: &Refusal,
        reason: &str,
    ) {
        self.refused.count_handshake(claimed.map(|node| node.site), refusal);
        let caller = match claimed {
            Some(node) => format!("{} ({})", from.ip(), self.spec.name_of(node)),
            None => from.ip().to_string(),
        };
        let line = format!("refused a call from {caller}: {reason}");
        let (site, node) = claimed.map(|node| self.spec.fields_of(node)).unzip();
        let address = from.to_string();
        match self.should_log(&line) {
            true => warn!(target: LINKS, site, node, address, reason, "{line}"),
            false => debug!(target: LINKS, site, node, address, reason, "{line}"),
        }
    }

    /// Performs the TLS handshake if TLS is configured. Returns the caller's certificate. `opened`
    /// then holds the connection; after an error it holds one if the reason can be sent to the
    /// caller.
    async fn open(
        &self,
        stream: TcpStream,
        opened: &mut Option<Stream>,
    ) -> Result<Option<CertificateDer<'static>>, Failure> {
        let mut first = [0];
        if stream.peek(&mut first).await? == 0 {
            return Err(Failure::Broken("it closed the connection".to_owned()));
        }
        let speaks_tls = first[0] == TLS_HANDSHAKE;
        let reason = match (self.tls(), speaks_tls) {
            (Some(tls), true) => match tls.acceptor.accept(stream).into_fallible().await {
                Ok(stream) => {
                    let chain = stream.get_ref().1.peer_certificates();
                    let certificate = chain.and_then(|chain| chain.first()).cloned();
                    *opened = Some(Box::new(stream));
                    return Ok(certificate.map(CertificateDer::into_owned));
                }
                Err((error, stream)) => {
                    hang_up(Box::new(stream)).await;
                    return Err(error.into());
                }
            },
            (None, false) => {
                *opened = Some(Box::new(stream));
                return Ok(None);
            }
            (Some(_), false) => {
                "the caller speaks without TLS, and the called node only with it; give both \
                 [peer_tls]"
            }
            (None, true) => {
                "the caller speaks TLS, and the called node does not; give both [peer_tls]"
            }
        };
        *opened = Some(Box::new(stream));
        Err(Failure::Refused(Refusal::Tls(reason.to_owned())))
    }

    /// Describes a caller by its address and the sites that the configuration lists there.
    fn sites_at(&self, from: SocketAddr) -> String {
        let at = |host: &str| host.parse::<IpAddr>().is_ok_and(|ip| ip == from.ip().to_canonical());
        let here = self.spec.nodes().filter(|(id, node)| *id != self.me && at(&node.peer.host));
        let mut sites: Vec<&str> =
            here.map(|(id, _)| self.spec.sites[id.site.index()].name.as_str()).collect();
        sites.dedup();
        match sites.as_slice() {
            [] => format!("the caller at {}", from.ip()),
            sites => format!("the caller at {} (site {})", from.ip(), sites.join(" or ")),
        }
    }

    /// Reads a caller's greeting, and accepts the caller or fails with the reason to refuse it.
    /// Sets `claimed` to the node that the caller claims to be, if the cluster has its site.
    async fn welcome(
        &self,
        stream: &mut Stream,
        certificate: Option<CertificateDer<'static>>,
        claimed: &mut Option<NodeId>,
    ) -> Result<(Incoming, u32), Failure> {
        let Greeting::Hello(theirs) = read_greeting(stream).await? else {
            return Err(Failure::Refused(Refusal::Damaged));
        };
        *claimed = Some(theirs.from).filter(|node| node.site.index() < self.spec.sites.len());
        let link = self.links.iter().find(|link| link.peer == theirs.from);
        let link = link.map(|link| (link, link.handshake()));
        let mut mine = self.card(theirs.from);
        let settings = self.network.settings();
        mine.belongs(&theirs, true, &self.identity).map_err(Failure::Refused)?;
        if let (Some(tls), Some(node)) = (self.tls(), self.spec.node(theirs.from)) {
            let who = self.spec.name_of(theirs.from);
            // Verification requires a certificate, so there is one.
            let certificate = certificate.ok_or(Failure::Refused(Refusal::Damaged))?;
            tls.check_host(&certificate, &node.peer.host).map_err(|problem| {
                Failure::Refused(Refusal::Tls(format!("the certificate of {who} {problem}")))
            })?;
        }
        // Check this before comparing settings: a removed node gets no new settings, and must learn
        // that it should stop.
        self.is_not_removed(&theirs)?;
        let ahead_us = mine
            .agrees(&theirs, true, &self.identity, settings.max_clock_skew)
            .map_err(Failure::Refused)?;
        self.check_entry(&theirs).await?;
        let (link, handshake) = link.ok_or(Failure::Refused(Refusal::NoSuchNode))?;
        // If the caller's clock seems behind, the message may only have been delayed. This node's
        // own call detects a clock that is behind.
        self.note_skew(&link.name, ahead_us.max(0));
        let accepted = link.accepted(handshake, theirs.incarnation);
        let (connection, received) = accepted.ok_or(Failure::Refused(Refusal::Taken))?;
        let incoming = Incoming { link: link.clone(), connection };
        self.note_entry(&theirs).await;
        mine.received = received;
        stream.write_all(&Greeting::Welcome(mine).encode()).await?;
        stream.flush().await?;
        Ok((incoming, theirs.generation))
    }

    /// Handles frames of the peer until the connection breaks or the peer calls again. Sets
    /// `has_sent` once a frame has arrived.
    async fn receive(
        &self,
        link: &Arc<Link>,
        connection: u64,
        generation: u32,
        stream: Stream,
        has_sent: &mut bool,
    ) -> Result<(), Failure> {
        let (mut read, mut write) = split(stream);
        let mut questions = Questions::default();
        let (mut input, mut output) = (Vec::new(), Vec::new());
        let mut warned = false;
        loop {
            tokio::select! {
                got = timeout(IDLE_TIMEOUT, read_more(&mut read, &mut input)) => {
                    if or_timeout(got)? == 0 {
                        return Ok(());
                    }
                    if !std::mem::replace(has_sent, true) {
                        let (site, node) = self.spec.fields_of(link.peer);
                        info!(target: LINKS, site, node, "link from {} is up", link.name);
                    }
                    let mut used = 0;
                    while let Some((frame, length)) = read_frame(&input[used..])? {
                        used += length;
                        match frame.kind {
                            Kind::Messages => self.deliver(link, connection, generation, frame)?,
                            Kind::Ping => {
                                // A delay of the ping makes the peer's clock seem behind, never
                                // ahead.
                                let ahead = frame.number.wrapping_sub(clock_us()) as i64;
                                self.not_too_early(link.peer, ahead)?;
                                if ahead > NOTABLE_SKEW_US && !warned {
                                    self.note_skew(&link.name, ahead);
                                    warned = true;
                                }
                            }
                            Kind::Ask => {
                                let question = postcard::from_bytes(frame.body);
                                let question = question.map_err(|_| WireError::Content)?;
                                let (network, me) = (self.network.clone(), self.me);
                                let answer = async move { answer_to(&network, me, question).await };
                                questions.begin(frame.number, answer);
                            }
                            Kind::Withdraw => questions.withdraw(frame.number),
                            kind => return Err(WireError::Kind(kind as u8).into()),
                        }
                    }
                    consume(&mut input, used);
                    let Some(number) = link.received(connection) else {
                        return Ok(());
                    };
                    write_frame(&mut output, Frame { kind: Kind::Ack, number, body: &[] });
                }
                Some((number, found)) = questions.answered() => {
                    let body = encode_answer(&found);
                    write_frame(&mut output, Frame { kind: Kind::Answer, number, body: &body });
                }
            }
            or_timeout(timeout(IDLE_TIMEOUT, write.write_all(&output)).await)?;
            or_timeout(timeout(IDLE_TIMEOUT, write.flush()).await)?;
            output.clear();
        }
    }

    fn deliver(
        &self,
        link: &Link,
        connection: u64,
        generation: u32,
        frame: Frame<'_>,
    ) -> Result<(), Failure> {
        self.admits(link.peer, generation)?;
        let topology: &Topology = &self.topology;
        let delivery = decode_batch::<Message>(frame.body, link.peer.site, self.me.site, topology)?;
        if self.spec.node_of(delivery.from) != Some(link.peer)
            || self.spec.node_of(delivery.to) != Some(self.me)
        {
            return Err(WireError::Misplaced.into());
        }
        if link.takes(connection, frame.number) {
            self.network.deliver(delivery.from, generation, delivery.to, delivery.messages);
        }
        Ok(())
    }
}

/// A connection that a link has accepted. Dropping it reports the end to the link.
struct Incoming {
    link: Arc<Link>,
    connection: u64,
}

impl Drop for Incoming {
    fn drop(&mut self) {
        self.link.hung_up(self.connection);
    }
}

/// Returns the number of callers that may be connected before they have shown that they belong to
/// the cluster, which has `nodes` nodes.
pub(crate) fn unwelcome_callers(nodes: usize) -> usize {
    4 * nodes + 16
}

async fn refuse(mut stream: Stream, greeting: Greeting) {
    // The caller may be gone.
    let _ = stream.write_all(&greeting.encode()).await;
    hang_up(stream).await;
}

/// Closes a connection so that the other side can read the reason. Bytes that it still sends must
/// not make the operating system discard the reason.
async fn hang_up(mut stream: Stream) {
    let mut rest = [0; 1024];
    let ending = async {
        let _ = stream.shutdown().await;
        for _ in 0..64 {
            if !matches!(stream.read(&mut rest).await, Ok(1..)) {
                return;
            }
        }
    };
    let _ = timeout(CLOSE_TIMEOUT, ending).await;
}

/// Unanswered questions of a connection. They are cancelled when the connection breaks.
#[derive(Default)]
struct Questions {
    tasks: JoinSet<(u64, Answer)>,
    open: BTreeMap<u64, AbortHandle>,
}

impl Questions {
    fn begin(&mut self, number: u64, answer: impl Future<Output = Answer> + Send + 'static) {
        let task = self.tasks.spawn(async move { (number, answer.await) });
        self.open.insert(number, task);
    }

    fn withdraw(&mut self, number: u64) {
        if let Some(task) = self.open.remove(&number) {
            task.abort();
        }
    }

    /// Waits for the next answer; `None` if no question is open.
    async fn answered(&mut self) -> Option<(u64, Answer)> {
        loop {
            // Withdrawn questions end without an answer.
            if let Ok((number, answer)) = self.tasks.join_next().await? {
                self.open.remove(&number);
                return Some((number, answer));
            }
        }
    }
}

/// Answers a question about this node's own workers. Sends no questions to further nodes.
async fn answer_to(network: &Network, me: NodeId, question: Question) -> Answer {
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
        Question::AtRisk { worker, keys } => match here(worker) {
            Some(worker) => {
                // This is enough for a status, and short enough for a frame.
                let at_risk = network.at_risk(worker, keys.min(10_000) as usize).await;
                at_risk.map_or(Answer::Nothing, Answer::AtRisk)
            }
            None => Answer::Nothing,
        },
        Question::Sites { change } => match here(0) {
            Some(root) if change.is_none_or(|(site, _)| network.has_site(site)) => {
                let report = network.sites(root.site, change).await;
                report.map_or(Answer::Nothing, |report| Answer::Sites(Box::new(report)))
            }
            _ => Answer::Nothing,
        },
        Question::Primary { worker, asked } => match here(worker) {
            Some(worker) => {
                let response = network.ask_primary(worker, *asked).await;
                response.map_or(Answer::Nothing, |response| Answer::Primary(Box::new(response)))
            }
            None => Answer::Nothing,
        },
        Question::Speculative { worker, asked } => match here(worker) {
            Some(worker) => {
                let answer = network.ask_speculative(worker, *asked).await;
                answer.map_or(Answer::Nothing, |answer| Answer::Speculative(Box::new(answer)))
            }
            None => Answer::Nothing,
        },
        Question::Bound { worker, asked } => match here(worker) {
            Some(worker) => {
                let answer = network.ask_bound(worker, *asked).await;
                answer.map_or(Answer::Nothing, |answer| Answer::Bound(Box::new(answer)))
            }
            None => Answer::Nothing,
        },
        Question::Occult { worker, command } => match here(worker) {
            Some(worker) => {
                let response = network.ask_occult(worker, *command).await;
                response.map_or(Answer::Nothing, |response| Answer::Occult(Box::new(response)))
            }
            None => Answer::Nothing,
        },
        Question::Scan { worker, ask } => match here(worker) {
            Some(worker) if network.is_valid(&ask.snapshot) => {
                network.scan(worker, *ask).await.map_or(Answer::Nothing, Answer::Scan)
            }
            _ => Answer::Nothing,
        },
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_question_that_is_withdrawn_ends_without_an_answer() {
        let mut questions = Questions::default();
        let (held, mut is_held) = oneshot::channel::<()>();
        questions.begin(1, async move {
            let _held = held;
            std::future::pending().await
        });
        questions.begin(2, async { Answer::Keys(2) });
        assert_eq!(questions.answered().await, Some((2, Answer::Keys(2))));
        assert!(is_held.try_recv() == Err(oneshot::error::TryRecvError::Empty));
        // The second question was answered, and the third was never asked.
        (1..=3).for_each(|number| questions.withdraw(number));
        assert_eq!(questions.answered().await, None);
        assert!(is_held.await.is_err(), "withdrawing the question drops its future");
    }
}
