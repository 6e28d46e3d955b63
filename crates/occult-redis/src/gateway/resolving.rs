//! Outcomes of transactions whose client does not answer, or whose answer is missing.

use std::time::Instant;

use solera_occult::ShardId;
use solera_resp::Value;

use super::reading::unknown_word;
use super::{Doubt, Gateway, GatewaySession, Past, given_up};
use crate::cluster::{Failure, now};
use crate::error::Error;
use crate::functions::{Answer, Request};
use crate::stored::{Kind, Stored};

/// Outcome of a transaction.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It has committed, with this timestamp.
    Committed(Past),
    Aborted,
    /// The decision slot has no record of it any more.
    Forgotten,
}

impl Gateway {
    /// Sends a request that may be repeated to the master of a slot, until it is answered.
    pub(super) async fn ask(
        &self,
        slot: ShardId,
        until: Instant,
        request: &Request,
    ) -> Result<Answer, Error> {
        loop {
            let asked = self.cluster.ask_master(slot, until, |means, _| request.encode(means));
            match asked.await {
                Ok((value, _)) => return Answer::read(value, slot),
                Err(Failure::Lost(_)) if Instant::now() < until => {}
                Err(failure) => return Err(given_up(slot, failure)),
            }
        }
    }

    /// Has a transaction decided at its decision slot, and returns the outcome.
    pub(super) async fn resolve(&self, doubt: &Doubt, until: Instant) -> Result<Outcome, Error> {
        let Doubt { slot, ref tid, deadline, single } = *doubt;
        // If the function drops a held transaction, it finds the transaction's keys in its own
        // record.
        let mut request = Request::new("resolve", slot, &[]);
        request.arg(tid.as_str()).number(now()).number(slot.0.into()).number(deadline);
        request.number(single.into());
        let mut answer = self.ask(slot, until, &request).await?;
        match answer.word.as_str() {
            "COMMITTED" => {
                let past = Past::of(&answer.take(0), slot, answer.record.as_ref())?;
                Ok(Outcome::Committed(past))
            }
            "ABORTED" => Ok(Outcome::Aborted),
            "NONE" => Ok(Outcome::Forgotten),
            _ => Err(unknown_word(slot, &answer)),
        }
    }

    /// Handles a lock that blocks a request. If it has expired, has the transaction decided and
    /// applies the decision.
    pub(super) async fn meet_lock(
        &self,
        slot: ShardId,
        answer: &Answer,
        until: Instant,
    ) -> Result<(), Error> {
        if Instant::now() >= until {
            let why = "a transaction holds it, and is not decided".to_owned();
            return Err(Error::Unavailable { slot, why });
        }
        if answer.number(3) == 0 {
            return Ok(());
        }
        let (tid, decision) = (answer.text(0), answer.text(1));
        let decision = ShardId(decision.parse().map_err(|_| unknown_word(slot, answer))?);
        // After a deadline that has passed already, the decision slot could forget the abort while
        // a COMMIT may still arrive. If the slot has a record of the transaction, it uses the
        // deadline in that record.
        let deadline = self.deadline(decision);
        let doubt = Doubt { slot: decision, tid, deadline, single: false };
        let outcome = self.resolve(&doubt, until).await?;
        let tid = doubt.tid;
        match outcome {
            _ if decision == slot => Ok(()),
            Outcome::Committed(past) => self.apply(slot, decision, &tid, Some(&past), until).await,
            Outcome::Aborted | Outcome::Forgotten => {
                self.apply(slot, decision, &tid, None, until).await
            }
        }
    }

    /// Sends the decision to a participant in place of a client that has not sent it.
    async fn apply(
        &self,
        slot: ShardId,
        decision: ShardId,
        tid: &str,
        past: Option<&Past>,
        until: Instant,
    ) -> Result<(), Error> {
        let mut held = Request::new("held", slot, &[]);
        held.arg(tid).number(now());
        let mut answer = self.ask(slot, until, &held).await?;
        let Value::Array(names) = answer.take(0) else { return Ok(()) };
        // Every second key is the key of a timestamp.
        let keys: Vec<Vec<u8>> = names.into_iter().step_by(2).filter_map(bytes_of).collect();
        self.decide(slot, tid, &keys, past, until).await?;
        if past.is_some() {
            self.applied(decision, tid, &[slot], until).await?;
        }
        Ok(())
    }

    /// Sends the decision to a participant, and returns the answer.
    pub(super) async fn decide(
        &self,
        slot: ShardId,
        tid: &str,
        keys: &[Vec<u8>],
        past: Option<&Past>,
        until: Instant,
    ) -> Result<Answer, Error> {
        let mut request = Request::new("decide", slot, keys);
        request.arg(tid).number(now()).number(slot.0.into()).number(self.deadline(slot));
        request.arg(
            past.map_or_else(Vec::new, |past| {
                Stored::encode(Kind::Text, &past.timestamp, &past.risk)
            }),
        );
        self.ask(slot, until, &request).await
    }

    /// Reports to the decision slot that participants have applied the commit.
    pub(super) async fn applied(
        &self,
        decision: ShardId,
        tid: &str,
        slots: &[ShardId],
        until: Instant,
    ) -> Result<(), Error> {
        let mut request = Request::new("applied", decision, &[]);
        request.arg(tid).number(now());
        for slot in slots {
            request.number(slot.0.into());
        }
        self.ask(decision, until, &request).await.map(drop)
    }
}

fn bytes_of(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::Bulk(bytes) => Some(bytes),
        _ => None,
    }
}

impl GatewaySession {
    /// Determines the outcome of the session's last write, if it is unknown. Before that, a read of
    /// the session could miss its own write.
    pub(super) async fn settle_doubt(&mut self) -> Result<(), Error> {
        let Some(doubt) = self.doubt.clone() else { return Ok(()) };
        let (slot, until) = (doubt.slot, self.gateway.until());
        let resolved = self.gateway.resolve(&doubt, until).await;
        match resolved {
            Ok(Outcome::Committed(past)) => self.adopt(past),
            Ok(Outcome::Aborted) => {}
            Ok(Outcome::Forgotten) => {
                let why = "its master has forgotten the outcome".to_owned();
                return Err(Error::Unknown { slot, why });
            }
            Err(error) => return Err(Error::Unknown { slot, why: error.to_string() }),
        }
        self.doubt = None;
        Ok(())
    }
}
