//! Taking the calls of other nodes, and what they send.

use std::sync::Arc;

use solera_unistore::Address;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::{
    Carrier, Failure, GREETING_TIMEOUT, LAST_PAUSE, NOTABLE_SKEW_US, SILENCE, read_greeting,
    read_more, shortened, silent,
};
use crate::config::NodeId;
use crate::handshake::{Card, Greeting, Refusal, clock_us};
use crate::link::Link;
use crate::network::Network;
use crate::wire::{
    Answer, Frame, Kind, Question, WireError, decode_batch, read_frame, write_frame,
};

impl Carrier {
    pub(super) async fn take_calls(self: &Arc<Self>, listener: TcpListener) {
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
}

/// Answers a question about this node's own workers; others are not asked in turn.
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
                // Enough for people, and short enough for a frame.
                let at_risk = network.at_risk(worker, keys.min(10_000) as usize).await;
                at_risk.map_or(Answer::Nothing, Answer::AtRisk)
            }
            None => Answer::Nothing,
        },
    }
}
