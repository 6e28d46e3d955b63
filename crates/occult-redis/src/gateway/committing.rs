//! Transactions of several slots: PREPARE at all of the slots, COMMIT at one, and the decision to
//! the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use solera_occult::{PreparedAt, ShardId, Stamp};
use solera_resp::Value;

use super::reading::unknown_word;
use super::updating::{Work, conflict};
use super::{Doubt, Gateway, GatewaySession, Past, SITE, given_up, wait_for_lock};
use crate::cluster::{Failure, now};
use crate::commands::{Access, Call};
use crate::error::Error;
use crate::functions::{Answer, Request, Wish, replies_of};
use crate::lives::{Verdict, judge};
use crate::risk::Risk;
use crate::slot::slot_of;
use crate::stored::{Kind, Record, Stored};

/// Number of attempts to get a lock that another transaction holds.
const LOCK_ATTEMPTS: u32 = 10;

/// A transaction of several slots.
struct Attempt<'a> {
    tid: String,
    deadline: BTreeMap<ShardId, u64>,
    until: Instant,
    slots: Vec<ShardId>,
    /// The slot whose record decides.
    decision: ShardId,
    work: &'a Work<'a>,
}

impl Attempt<'_> {
    /// Returns the part of the transaction in a slot.
    fn wish(&self, slot: ShardId) -> Wish<'_> {
        Wish {
            slot,
            tid: &self.tid,
            timestamp: self.work.transaction.timestamp(),
            risk: self.work.risk,
            // The gateway validates the reads.
            reads: &[],
            watches: self.work.watches.iter().filter(|(key, _)| slot_of(key) == slot).collect(),
            calls: self.work.calls.iter().filter(|call| slot_of(&call.key) == slot).collect(),
        }
    }

    fn deadline(&self, slot: ShardId) -> u64 {
        self.deadline.get(&slot).copied().unwrap_or_default()
    }
}

/// The answer of a slot to PREPARE.
struct Prepared {
    assigned: Stamp,
    overwritten: Past,
    record: Option<Record>,
}

impl Gateway {
    async fn prepare(&self, attempt: &Attempt<'_>, slot: ShardId) -> Result<Prepared, Error> {
        let (mut met, mut cleared) = (0, Vec::new());
        let participants: Vec<String> =
            attempt.slots.iter().map(|slot| slot.0.to_string()).collect();
        loop {
            let sending = self.sending(attempt.deadline(slot), false, &cleared);
            let mut request = attempt.wish(slot).request("prepare", &sending);
            request.number(attempt.decision.0.into()).arg(participants.join(","));
            request.number(self.options.expiry.as_micros() as u64);
            let encode = |means: &_, _: &str| request.encode(means);
            let (value, master) = match self.cluster.ask_master(slot, attempt.until, encode).await {
                Ok(answered) => answered,
                Err(Failure::Lost(_)) if Instant::now() < attempt.until => continue,
                Err(failure) => return Err(given_up(slot, failure)),
            };
            let mut answer = Answer::read(value, slot)?;
            match answer.word.as_str() {
                "PREPARED" => {
                    let overwritten = Past::of(&answer.take(1), slot, answer.record.as_ref())?;
                    let (assigned, record) = (Stamp(answer.number(0)), answer.record);
                    return Ok(Prepared { assigned, overwritten, record });
                }
                "LOCKED" => {
                    self.meet_lock(slot, &answer, attempt.until).await?;
                    met += 1;
                    if met >= LOCK_ATTEMPTS {
                        let text =
                            format!("another transaction holds {}", attempt.work.keys_in(slot));
                        return Err(Error::Aborted(text));
                    }
                    wait_for_lock(met, now()).await;
                }
                "LATE" => {
                    self.cluster.note_time(&master, answer.number(0));
                    return Err(Error::Aborted(format!("the clock of {master} has changed")));
                }
                "UNSURE" => cleared.push(self.clear(slot, &answer, attempt.work.risk).await?),
                "LOST" => return Err(self.lost_in(slot, &answer).await),
                "CHANGED" => return Err(Error::Changed),
                "REFUSED" => return Err(Error::Aborted("the transaction has expired".to_owned())),
                _ => return Err(unknown_word(slot, &answer)),
            }
        }
    }

    /// Sends the decision to abort to all participants.
    async fn abort(&self, attempt: &Attempt<'_>) {
        let until = Instant::now() + self.options.expiry;
        let aborts = attempt.slots.iter().map(|slot| {
            let keys = attempt.wish(*slot).keys();
            async move { self.decide(*slot, &attempt.tid, &keys, None, until).await }
        });
        // If a participant cannot be reached, its prepare expires, and a gateway that meets the
        // lock asks for the decision.
        join_all(aborts).await;
    }

    /// Sends COMMIT to the decision slot.
    async fn commit(&self, attempt: &Attempt<'_>, past: &Past) -> Result<Answer, Error> {
        let slot = attempt.decision;
        let mut request = Request::new("commit", slot, &attempt.wish(slot).keys());
        request.arg(attempt.tid.as_str()).number(now()).number(slot.0.into());
        request.number(attempt.deadline(slot));
        request.arg(Stored::encode(Kind::Text, &past.timestamp, &past.risk));
        for other in attempt.slots.iter().filter(|other| **other != slot) {
            request.number(other.0.into());
        }
        self.ask(slot, attempt.until, &request).await
    }
}

impl GatewaySession {
    pub(super) async fn run_in_slots(&mut self, work: &Work<'_>) -> Result<Vec<Value>, Error> {
        let gateway = Arc::clone(&self.gateway);
        let slots = work.slots();
        let attempt = Attempt {
            tid: gateway.tid(),
            deadline: slots.iter().map(|slot| (*slot, gateway.deadline(*slot))).collect(),
            until: gateway.until(),
            decision: slots[0],
            slots,
            work,
        };
        let prepares = attempt.slots.iter().map(|slot| gateway.prepare(&attempt, *slot));
        let prepared: Result<Vec<Prepared>, Error> = join_all(prepares).await.into_iter().collect();
        let past = match prepared {
            Ok(prepared) => commit_past(&gateway, &attempt, prepared).await,
            Err(error) => Err(error),
        };
        let past = match past {
            Ok(past) => past,
            Err(error) => {
                gateway.abort(&attempt).await;
                return Err(error);
            }
        };
        let answer = gateway.commit(&attempt, &past).await;
        self.finish(&attempt, past, answer).await
    }

    async fn finish(
        &mut self,
        attempt: &Attempt<'_>,
        mut past: Past,
        answer: Result<Answer, Error>,
    ) -> Result<Vec<Value>, Error> {
        let (gateway, slot) = (Arc::clone(&self.gateway), attempt.decision);
        let answer = answer.map_err(|error| error.to_string());
        match answer.as_ref().map(|answer| answer.word.as_str()) {
            Ok("COMMITTED") => {}
            Ok("REFUSED") => {
                gateway.abort(attempt).await;
                return Err(Error::Aborted("the transaction has expired".to_owned()));
            }
            other => {
                let why = other.map_or_else(Clone::clone, str::to_owned);
                let (tid, deadline) = (attempt.tid.clone(), attempt.deadline(slot));
                self.doubt = Some(Doubt { slot, tid, deadline, single: false });
                return Err(Error::Unknown { slot, why });
            }
        }
        let mut answer = answer.map_err(|why| Error::Unknown { slot, why })?;
        if let Some(record) = &answer.record {
            past.risk.add(record.life, record.offset);
        }
        let mut replies = BTreeMap::from([(slot, replies_of(answer.take(0)))]);
        let others: Vec<ShardId> =
            attempt.slots.iter().copied().filter(|other| *other != slot).collect();
        let decisions =
            others.iter().map(|other| {
                let (keys, gateway, past) = (attempt.wish(*other).keys(), &gateway, &past);
                async move {
                    gateway.decide(*other, &attempt.tid, &keys, Some(past), attempt.until).await
                }
            });
        let answers = join_all(decisions).await;
        let (mut applied, mut why) = (Vec::new(), None);
        for (other, answer) in others.into_iter().zip(answers) {
            match answer {
                Ok(mut answer) => {
                    if let Some(record) = &answer.record {
                        past.risk.add(record.life, record.offset);
                    }
                    replies.insert(other, replies_of(answer.take(0)));
                    applied.push(other);
                }
                Err(error) => why = Some(error.to_string()),
            }
        }
        self.adopt(past);
        let (tid, until) = (attempt.tid.clone(), attempt.until);
        tokio::spawn(async move {
            // If this fails, the record stays, which is safe.
            let _ = gateway.applied(slot, &tid, &applied, until).await;
        });
        let all = in_order(attempt.work.calls, replies);
        all.ok_or_else(|| {
            Error::RepliesLost(why.unwrap_or_else(|| "COMMIT was repeated".to_owned()))
        })
    }
}

/// Validates the transaction (§6.2), and returns its commit timestamp.
async fn commit_past(
    gateway: &Gateway,
    attempt: &Attempt<'_>,
    mut prepared: Vec<Prepared>,
) -> Result<Past, Error> {
    let work = attempt.work;
    let mut touched = work.changed.to_vec();
    for (slot, each) in attempt.slots.iter().zip(&prepared) {
        touched.extend(each.record.clone().map(|record| (*slot, record)));
    }
    let mut risk = work.risk.clone();
    for (slot, each) in attempt.slots.iter().zip(&mut prepared) {
        if attempt.wish(*slot).calls.iter().all(|call| call.blind) {
            // A blind write does not depend on the lost dependencies of the version that it
            // overwrites.
            gateway.cluster.lives(|lives| {
                each.overwritten.risk.retain(|life, offset| {
                    let one = Risk::of_one(life, offset);
                    let is_lost = |record| matches!(judge(record, &one, lives), Verdict::Lost(_));
                    !touched.iter().any(|(_, record)| is_lost(record))
                });
            });
        }
        risk.merge(&each.overwritten.risk);
    }
    gateway.check_all_lives(&touched, &risk).await?;
    let at: Vec<PreparedAt> = prepared
        .iter()
        .map(|each| PreparedAt {
            site: SITE,
            assigned: each.assigned,
            overwritten: each.overwritten.timestamp.clone(),
        })
        .collect();
    let valid = work.transaction.validate_overwrites(&at, &gateway.homes);
    valid.map_err(|slot| conflict(work, slot))?;
    let writes = work.calls.iter().filter(|call| call.access != Access::Read);
    let mut written: Vec<_> = writes.map(|call| (slot_of(&call.key), SITE)).collect();
    written.dedup();
    let commit = work.transaction.commit(&at, &written, &gateway.homes, true);
    Ok(Past { timestamp: commit.timestamp, risk })
}

/// Returns the replies in the order of the commands; `None` if some are missing.
fn in_order(calls: &[Call], replies: BTreeMap<ShardId, Option<Vec<Value>>>) -> Option<Vec<Value>> {
    let mut left: BTreeMap<ShardId, std::vec::IntoIter<Value>> = BTreeMap::new();
    for (slot, replies) in replies {
        left.insert(slot, replies?.into_iter());
    }
    calls.iter().map(|call| left.get_mut(&slot_of(&call.key))?.next()).collect()
}
