//! Transactions of one slot, which its master executes in one step. A single write is one.

use std::collections::BTreeSet;
use std::time::Instant;

use solera_occult::{ShardId, Transaction};
use solera_resp::Value;

use super::reading::unknown_word;
use super::{Doubt, Gateway, GatewaySession, Past, given_up, wait_for_lock};
use crate::cluster::{Failure, now};
use crate::commands::Call;
use crate::error::Error;
use crate::functions::{Answer, Sending, Wish, replies_of};
use crate::risk::{Life, Risk};
use crate::slot::slot_of;
use crate::stored::Record;

/// A key with the stored timestamp that it must still have.
pub(super) type Watch = (Vec<u8>, Vec<u8>);

/// Watched keys, with the timestamps that they had.
#[derive(Clone, Debug, Default)]
pub struct Watches(pub(super) Vec<Watch>);

impl Watches {
    /// Returns whether no key is watched.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Checks and writes of a transaction at its commit.
#[derive(Clone, Debug)]
pub(super) struct Work<'a> {
    pub(super) transaction: &'a Transaction,
    pub(super) risk: &'a Risk,
    /// The slots that the transaction has read and whose masters have had other lives, with their
    /// records.
    pub(super) changed: &'a [(ShardId, Record)],
    pub(super) watches: &'a [Watch],
    pub(super) calls: &'a [Call],
    /// Its reads and their replies.
    pub(super) seen: &'a [(Call, Value)],
}

impl Work<'_> {
    /// Returns the keys of a slot as text for an error.
    pub(super) fn keys_in(&self, slot: ShardId) -> String {
        name_keys(slot, self.calls.iter().chain(self.seen.iter().map(|(call, _)| call)))
    }

    /// Returns the slots that take part, in order.
    pub(super) fn slots(&self) -> Vec<ShardId> {
        let watched = self.watches.iter().map(|(key, _)| key);
        let keys = self.calls.iter().map(|call| &call.key).chain(watched);
        let mut slots: Vec<ShardId> = keys.map(|key| slot_of(key)).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }
}

/// Returns a slot and the keys of commands in it as text for an error.
pub(super) fn name_keys<'a>(slot: ShardId, calls: impl Iterator<Item = &'a Call>) -> String {
    let of_slot = calls.map(|call| &call.key).filter(|key| slot_of(key) == slot);
    let keys: BTreeSet<String> =
        of_slot.map(|key| format!("`{}`", String::from_utf8_lossy(key))).collect();
    let keys: Vec<String> = keys.into_iter().collect();
    let plural = if keys.len() == 1 { "" } else { "s" };
    match keys.is_empty() {
        true => format!("slot {}", slot.0),
        false => format!("slot {} of key{plural} {}", slot.0, keys.join(", ")),
    }
}

/// Result of EXECUTE.
#[derive(Debug)]
enum Executed {
    Done(Past, Option<Vec<Value>>),
    /// The transaction may have been executed. Contains its identifier, its deadline and the
    /// reason.
    Unknown(String, u64, String),
}

impl Gateway {
    pub(super) fn sending(&self, deadline: u64, again: bool, cleared: &[Life]) -> Sending {
        Sending {
            now: now(),
            deadline,
            again,
            ahead: self.options.ahead.as_micros() as u64,
            grace: self.options.keep_removed.as_millis() as u64,
            cleared: cleared.to_vec(),
            ended: self.cluster.lives(|lives| lives.ended().collect()),
        }
    }

    async fn execute(&self, slot: ShardId, work: &Work<'_>) -> Result<Executed, Error> {
        let until = self.until();
        let reads = work.transaction.reads();
        let (mut tid, mut deadline) = (self.tid(), self.deadline(slot));
        let (mut again, mut attempt, mut cleared) = (None, 0, Vec::new());
        loop {
            let wish = Wish {
                slot,
                tid: &tid,
                timestamp: work.transaction.timestamp(),
                risk: work.risk,
                reads: &reads,
                watches: work.watches.iter().collect(),
                calls: work.calls.iter().collect(),
            };
            let request =
                wish.request("execute", &self.sending(deadline, again.is_some(), &cleared));
            let asked = self.cluster.ask_master(slot, until, |means, _| request.encode(means));
            let (value, master) = match (asked.await, &again) {
                (Ok(answered), _) => answered,
                (Err(Failure::Lost(why)), _) if Instant::now() < until => {
                    again = Some(why);
                    continue;
                }
                (Err(Failure::Lost(why)), _) => return Ok(Executed::Unknown(tid, deadline, why)),
                (Err(_), Some(why)) => return Ok(Executed::Unknown(tid, deadline, why.clone())),
                (Err(failure), None) => return Err(given_up(slot, failure)),
            };
            let mut answer = Answer::read(value, slot)?;
            match answer.word.as_str() {
                "OK" => {
                    let past = Past::of(&answer.take(0), slot, answer.record.as_ref())?;
                    return Ok(Executed::Done(past, replies_of(answer.take(1))));
                }
                "LATE" => {
                    // The request was not executed. The master's clock may have been set.
                    self.cluster.note_time(&master, answer.number(0));
                    if Instant::now() >= until {
                        let why = "its master's clock changes".to_owned();
                        return Err(Error::Unavailable { slot, why });
                    }
                    (tid, deadline, again) = (self.tid(), self.deadline(slot), None);
                }
                "LOCKED" => {
                    self.meet_lock(slot, &answer, until).await?;
                    attempt += 1;
                    wait_for_lock(attempt, now()).await;
                }
                "UNSURE" => cleared.push(self.clear(slot, &answer, work.risk).await?),
                "FORGOTTEN" => {
                    let why = again.unwrap_or_default();
                    return Ok(Executed::Unknown(tid, deadline, why));
                }
                "LOST" => return Err(self.lost_in(slot, &answer).await),
                "CHANGED" => return Err(Error::Changed),
                "CONFLICT" => {
                    let read = u16::try_from(answer.number(0)).map_or(slot, ShardId);
                    return Err(conflict(work, read));
                }
                "REFUSED" => return Err(Error::Aborted("the transaction has expired".to_owned())),
                _ => return Err(unknown_word(slot, &answer)),
            }
        }
    }
}

/// Returns the error of a transaction that has read too old a copy of a slot.
pub(super) fn conflict(work: &Work<'_>, slot: ShardId) -> Error {
    Error::Aborted(format!(
        "a key that it writes was changed since, by a transaction that also changed {}, which it \
         has read",
        work.keys_in(slot)
    ))
}

impl GatewaySession {
    /// Executes a command on one key that may write.
    ///
    /// # Errors
    /// See [`Error`]. An error reply of Redis, such as WRONGTYPE, is a value.
    pub async fn update(&mut self, call: Call) -> Result<Value, Error> {
        let replies = self.update_all(vec![call]).await?;
        Ok(replies.into_iter().next().unwrap_or(Value::Null))
    }

    /// Executes commands as one transaction, in order.
    ///
    /// # Errors
    /// See [`Error`]. An error reply of Redis to one of the commands is a value; the other commands
    /// take effect, as in a transaction of Redis.
    pub async fn update_all(&mut self, calls: Vec<Call>) -> Result<Vec<Value>, Error> {
        self.exec(&Watches::default(), &calls).await
    }

    /// Runs a transaction whose reads are pairwise consistent.
    pub(super) async fn run(&mut self, work: &Work<'_>) -> Result<Vec<Value>, Error> {
        match work.slots()[..] {
            [] => Ok(Vec::new()),
            // In all other cases, the overwritten versions can depend on lost writes of another
            // slot that the transaction has read. Only the gateway can check this, between PREPARE
            // and COMMIT.
            [slot] if work.changed.iter().all(|(read, _)| *read == slot) => {
                self.run_in_one_slot(slot, work).await
            }
            _ => self.run_in_slots(work).await,
        }
    }

    async fn run_in_one_slot(
        &mut self,
        slot: ShardId,
        work: &Work<'_>,
    ) -> Result<Vec<Value>, Error> {
        match self.gateway.execute(slot, work).await? {
            Executed::Done(past, replies) => {
                self.adopt(past);
                let lost = || Error::RepliesLost(format!("slot {} has not kept them", slot.0));
                replies.ok_or_else(lost)
            }
            Executed::Unknown(tid, deadline, why) => {
                self.doubt = Some(Doubt { slot, tid, deadline, single: true });
                Err(Error::Unknown { slot, why })
            }
        }
    }
}
