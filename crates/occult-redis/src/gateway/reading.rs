//! Reads: at a nearby node, with checks and retries, and at the master (§4.3).

use std::sync::Arc;
use std::time::{Duration, Instant};

use solera_occult::{CausalTimestamp, Freshness, Scheme, ShardId, Stamp, Transaction};
use solera_resp::{Value, encode_command};

use super::{Gateway, GatewaySession, Past, Policy, given_up, wait_for_lock};
use crate::cluster::{CLOCK_STEP, Cluster, Failure, now};
use crate::commands::{Access, Call};
use crate::error::Error;
use crate::functions::{Answer, Request, reply_of, text_of};
use crate::lives::State;
use crate::risk::{Life, Risk};
use crate::slot::{clock_key, record_key, slot_of, tag_of, timestamp_key};
use crate::stored::{Clock, Damage, Kind, Layout, Record, Stored, open_envelope};

/// Delays before the attempts at a replica (§8.3).
const DELAYS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(2), Duration::from_millis(4)];

/// If a copy's stamp is this much below the one that the session needs, in µs, the gateway
/// concludes that the slot has few writes. It is about the time that all attempts take.
const QUIET_US: u64 = 10_000;

/// A lease is renewed when less of it is left, in µs. `functions.lua` grants 40 s.
const RENEW_US: u64 = 30_000_000;

/// Commands that read bits. A function without writes cannot execute them on a string in an
/// envelope.
const BITS: [&[u8]; 3] = [b"GETBIT", b"BITCOUNT", b"BITPOS"];

/// The read phase of a transaction.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) transaction: Transaction,
    pub(super) risk: Risk,
    /// The slots that were read and whose masters have had other lives, with their records.
    pub(super) changed: Vec<(ShardId, Record)>,
}

impl Reading {
    pub(super) fn new(past: &Past) -> Reading {
        Reading {
            transaction: Transaction::new(past.timestamp.clone()),
            risk: past.risk.clone(),
            changed: Vec::new(),
        }
    }

    pub(super) fn past(&self) -> Past {
        Past { timestamp: self.transaction.timestamp().clone(), risk: self.risk.clone() }
    }
}

/// An answer of a node.
pub(super) struct Look {
    pub(super) reply: Value,
    /// The timestamp of the version, as it is stored; empty for none.
    pub(super) stored: Vec<u8>,
    record: Option<Record>,
    timestamp: Option<Stored>,
    /// Stamp up to which the master's clock shows the slot, if the record names the clock.
    clocked: Option<Stamp>,
    /// Whether the slot's record should name the clock of its master, or do so for longer.
    wants_lease: bool,
}

impl Look {
    /// Reads the parts of an answer. `clock` was read before them, or at the same moment.
    fn new(
        call: &Call,
        clock: Option<Clock>,
        [record, stored, reply]: [Value; 3],
    ) -> Result<Look, Error> {
        let slot = slot_of(&call.key);
        let record = match record {
            Value::Bulk(bytes) => {
                Some(Record::parse(&bytes).map_err(|why| Error::damaged_record(slot, &why))?)
            }
            _ => None,
        };
        let stored = match stored {
            Value::Bulk(bytes) => bytes,
            _ => Vec::new(),
        };
        let timestamp = if stored.is_empty() {
            None
        } else {
            let read = Stored::decode(&stored);
            Some(read.map_err(|why| Error::damaged(&call.key, slot, &why))?)
        };
        let clocked = record.as_ref().zip(clock).and_then(|(of, clock)| of.shown_by(&clock));
        let lease = record.as_ref().and_then(|record| record.lease);
        let left = |clock: Clock| lease.map_or(0, |it| it.until.0.saturating_sub(clock.stamp.0));
        let short = |clock| clocked.is_none() || left(clock) < RENEW_US;
        // A slot may have lost its record, which must be noticed.
        let wants_lease = record.is_some() && clock.is_some_and(short);
        Ok(Look { reply, stored, record, timestamp, clocked, wants_lease })
    }

    /// Fails if the slot's strings have another layout.
    fn of_layout(self, call: &Call, own: Layout) -> Result<Look, Error> {
        match self.record.as_ref().map(|record| record.layout) {
            Some(found) if found != own => {
                Err(Error::Layout { slot: slot_of(&call.key), found, own })
            }
            _ => Ok(self),
        }
    }

    /// Opens the envelope that was read.
    fn opened(mut self, call: &Call) -> Result<Look, Error> {
        let Value::Bulk(bytes) = &self.reply else { return Ok(self) };
        let slot = slot_of(&call.key);
        let (stored, value) = open_envelope(bytes).map_err(|why| match why {
            Damage::NoEnvelope => {
                Error::Foreign { key: String::from_utf8_lossy(&call.key).into_owned(), slot }
            }
            why => Error::damaged(&call.key, slot, &why),
        })?;
        let timestamp = Stored::decode(stored);
        self.timestamp = Some(timestamp.map_err(|why| Error::damaged(&call.key, slot, &why))?);
        (self.stored, self.reply) = (stored.to_vec(), Value::Bulk(value.to_vec()));
        Ok(self)
    }

    /// Fails if the slot's record is missing at the master.
    fn checked(self, call: &Call, is_master: bool) -> Result<Option<Look>, Error> {
        if is_master && self.record.is_none() && self.timestamp.is_some() {
            let key = String::from_utf8_lossy(&call.key);
            let text =
                format!("EVICTED the slot has lost its record, and key `{key}` has a timestamp");
            return Err(Error::Failed { slot: slot_of(&call.key), text });
        }
        Ok(Some(self))
    }

    fn shown(&self) -> Stamp {
        let record = self.record.as_ref().map_or(Stamp::ZERO, |record| record.shown);
        self.clocked.unwrap_or(record)
    }

    fn dependencies(&self) -> CausalTimestamp {
        let none = || CausalTimestamp::new(Scheme::Temporal(1));
        self.timestamp.as_ref().map_or_else(none, |stored| stored.timestamp.clone())
    }

    /// Returns whether a replica's answer is usable. While a slot moves to another master, the
    /// replicas lack the keys that have moved already. Only the master can distinguish a moved key
    /// from an absent one.
    fn is_whole(&self, exists: bool) -> bool {
        let removed = |stored: &Stored| stored.kind == Kind::Removed;
        self.record.is_some() && self.timestamp.as_ref().is_some_and(|it| exists || removed(it))
    }

    /// Returns whether MGET may have hidden a value that is not a string.
    fn is_unclear(&self) -> bool {
        self.reply == Value::Null
            && self.timestamp.as_ref().is_none_or(|stored| stored.kind == Kind::Other)
    }
}

impl Gateway {
    /// Reads at a node. Returns `None` if the master must be asked.
    pub(super) async fn look(
        &self,
        (address, is_master): (&str, bool),
        call: &Call,
    ) -> Result<Option<Look>, Error> {
        let slot = slot_of(&call.key);
        let layout = self.options.layout;
        if layout == Layout::Envelope && BITS.contains(&&call.words[0][..]) {
            // Redis counts bits of whole values only.
            return Ok(None);
        }
        if call.words[0] == b"GET" {
            let Some(look) = self.look_at_string(address, call).await? else { return Ok(None) };
            if is_master && self.is_from_the_past(look.record.as_ref()) {
                return Ok(None);
            }
            if !look.is_unclear() {
                let whole = is_master || look.is_whole(look.reply != Value::Null);
                return Ok(look.checked(call, is_master)?.filter(|_| whole));
            }
        }
        let (record, stamp) = (record_key(slot), timestamp_key(&call.key));
        let mut request = Request { name: "look", keys: Vec::new(), args: Vec::new() };
        request.keys = vec![record, call.key.clone(), stamp];
        request.args = call.words.clone();
        let master = self.cluster.master(slot).unwrap_or_default();
        let means = self.cluster.means_at(&master);
        match self.cluster.ask_near(address, [request.encode(&means)]).await {
            Some([answer]) if Cluster::is_redirection(address, &answer) => Ok(None),
            Some([Value::Error(text)]) => Err(Error::Reply(text)),
            Some([Value::Array(values)]) => {
                let [_, record, stored, reply, exists, clock] =
                    <[Value; 6]>::try_from(values).map_err(|values| of_look(slot, &values))?;
                let clock = clock_in(self.cluster.want_clock(slot).and(means.clock), &clock);
                let look = Look::new(call, clock, [record, stored, reply_of(reply)])?;
                let look = look.of_layout(call, layout)?;
                let whole = is_master || look.is_whole(exists == Value::Integer(1));
                Ok(look.checked(call, is_master)?.filter(|_| whole))
            }
            _ => Ok(None),
        }
    }

    /// Reads a string by one MGET. Returns `None` if the node does not answer.
    async fn look_at_string(&self, address: &str, call: &Call) -> Result<Option<Look>, Error> {
        let (slot, layout) = (slot_of(&call.key), self.options.layout);
        let (record, stamp) = (record_key(slot), timestamp_key(&call.key));
        let mut words = vec![b"MGET", &record[..], &call.key];
        if layout == Layout::Plain {
            words.push(&stamp);
        }
        let command = |words: &[&[u8]]| {
            let mut bytes = Vec::new();
            encode_command(&mut bytes, words);
            bytes
        };
        let tag = self.cluster.want_clock(slot);
        // The clock must not be newer than the record and the value.
        let answers = match tag {
            Some(tag) => {
                let commands = [command(&[b"GET", &clock_key(tag)]), command(&words)];
                self.cluster.ask_near(address, commands).await
            }
            None => {
                let answer = self.cluster.ask_near(address, [command(&words)]).await;
                answer.map(|[answer]| [Value::Null, answer])
            }
        };
        let Some([clock, answer]) = answers else { return Ok(None) };
        let values = match answer {
            answer if Cluster::is_redirection(address, &answer) => return Ok(None),
            Value::Array(values) => values,
            Value::Error(text) => return Err(Error::Reply(text)),
            _ => return Ok(None),
        };
        let (record, reply, stored) = match <[Value; 3]>::try_from(values) {
            Ok([record, reply, stored]) => (record, reply, stored),
            Err(values) => {
                let unexpected = |values| Error::unexpected(slot, &Value::Array(values));
                let [record, reply] = <[Value; 2]>::try_from(values).map_err(unexpected)?;
                (record, reply, Value::Null)
            }
        };
        let look = Look::new(call, clock_in(tag, &clock), [record, stored, reply])?;
        let look = look.of_layout(call, layout)?;
        if layout == Layout::Envelope { look.opened(call).map(Some) } else { Ok(Some(look)) }
    }

    /// Reads at the master. The slot's clock then advances to the reader's entry.
    async fn read_home(&self, reading: &Reading, call: &Call) -> Result<Look, Error> {
        let slot = slot_of(&call.key);
        let until = self.until();
        let (mut cleared, mut attempt) = (Vec::new(), 0);
        loop {
            let mut request = Request::new("read", slot, std::slice::from_ref(&call.key));
            request.number(now()).number(slot.0.into());
            request.number(self.options.ahead.as_micros() as u64);
            let past = reading.transaction.timestamp();
            request.arg(Stored::encode(Kind::Text, past, &reading.risk));
            request.list(cleared.iter(), |request, life: &Life| {
                request.arg(life.to_string());
            });
            request.calls(&[call], std::slice::from_ref(&call.key));
            let asked = self.cluster.ask_master(slot, until, |means, _| request.encode(means));
            let (value, master) = match asked.await {
                Ok(answered) => answered,
                Err(Failure::Lost(_)) if Instant::now() < until => continue,
                Err(failure) => return Err(given_up(slot, failure)),
            };
            let mut answer = Answer::read(value, slot)?;
            match answer.word.as_str() {
                "OK" => {
                    if self.is_from_the_past(answer.record.as_ref()) && Instant::now() < until {
                        // Another master has taken over, and this one has not noticed it.
                        tracing::warn!("{master} answers with a life that has ended");
                        self.cluster.poll().await;
                        continue;
                    }
                    let (stored, reply) = (answer.take(0), reply_of(answer.take(1)));
                    let mut look = Look::new(call, None, [Value::Null, Value::Null, reply])?;
                    look.record = answer.record;
                    if let Value::Bulk(bytes) = stored {
                        let read = Stored::decode(&bytes);
                        let read = read.map_err(|why| Error::damaged(&call.key, slot, &why))?;
                        (look.stored, look.timestamp) = (bytes, Some(read));
                    }
                    return Ok(look);
                }
                "LOCKED" => {
                    self.meet_lock(slot, &answer, until).await?;
                    attempt += 1;
                    wait_for_lock(attempt, now()).await;
                }
                "UNSURE" => cleared.push(self.clear(slot, &answer, &reading.risk).await?),
                "LOST" => return Err(self.lost_in(slot, &answer).await),
                _ => return Err(unknown_word(slot, &answer)),
            }
        }
    }

    fn is_from_the_past(&self, record: Option<&Record>) -> bool {
        let ended = |record: &Record| {
            self.cluster.lives(|lives| matches!(lives.state(record.life), State::Ended(_)))
        };
        record.is_some_and(ended)
    }
}

/// Reads the clock in a slot, as a node has returned it.
fn clock_in(slot: Option<ShardId>, value: &Value) -> Option<Clock> {
    let Value::Bulk(bytes) = value else { return None };
    Clock::parse(tag_of(slot?), bytes)
}

/// Returns the error for an answer to `look` that has too few values.
fn of_look(slot: ShardId, values: &[Value]) -> Error {
    match values {
        [Value::Bulk(word), text] if word == b"FAILED" => {
            Error::Failed { slot, text: text_of(text) }
        }
        other => Error::unexpected(slot, &Value::Array(other.to_vec())),
    }
}

pub(super) fn unknown_word(slot: ShardId, answer: &Answer) -> Error {
    let rest: Vec<String> = answer.rest.iter().map(text_of).collect();
    let why = format!("its master gave the unexpected answer {} {}", answer.word, rest.join(" "));
    Error::Unavailable { slot, why }
}

impl GatewaySession {
    /// Executes a command that reads one key.
    ///
    /// # Errors
    /// See [`Error`]. An error reply of Redis, such as WRONGTYPE, is a value.
    pub async fn read(&mut self, call: &Call) -> Result<Value, Error> {
        debug_assert_eq!(call.access, Access::Read);
        self.settle_doubt().await?;
        let mut reading = Reading::new(&self.past);
        let look = self.read_in(&mut reading, call).await?;
        self.adopt(reading.past());
        Ok(look.reply)
    }

    /// Executes commands that read. All of them see one consistent state.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn read_all(&mut self, calls: &[Call]) -> Result<Vec<Value>, Error> {
        self.settle_doubt().await?;
        let mut reading = Reading::new(&self.past);
        loop {
            let replies = self.read_all_in(&mut reading, calls).await?;
            let valid = reading.transaction.validate_reads(&self.gateway.homes).is_ok();
            if valid || self.policy == Policy::Accept {
                self.adopt(reading.past());
                return Ok(replies);
            }
            // The next attempt demands copies that are as recent as everything seen so far.
            self.counters.stale += 1;
            reading.transaction = Transaction::new(reading.transaction.timestamp().clone());
        }
    }

    async fn read_all_in(
        &mut self,
        reading: &mut Reading,
        calls: &[Call],
    ) -> Result<Vec<Value>, Error> {
        let gateway = Arc::clone(&self.gateway);
        let looks = calls.iter().map(|call| async {
            match gateway.cluster.near(slot_of(&call.key)) {
                Some((address, is_master)) => gateway.look((&address, is_master), call).await,
                None => Ok(None),
            }
        });
        let mut replies = Vec::new();
        for (call, look) in calls.iter().zip(futures_util::future::join_all(looks).await) {
            let added = match look? {
                Some(look) => self.add(reading, call, look).await?.ok(),
                None => None,
            };
            let look = match added {
                Some(look) => {
                    self.counters.replica += 1;
                    look
                }
                None => self.read_in(reading, call).await?,
            };
            replies.push(look.reply);
        }
        Ok(replies)
    }

    /// Reads in the read phase of a transaction, according to the policy for stale reads.
    pub(super) async fn read_in(
        &mut self,
        reading: &mut Reading,
        call: &Call,
    ) -> Result<Look, Error> {
        let gateway = Arc::clone(&self.gateway);
        let slot = slot_of(&call.key);
        let (mut stale, mut quiet) = (None, false);
        let skip = self.policy == Policy::Home && gateway.cluster.is_slow(slot);
        // The time after which the master's clock makes the copy recent enough.
        let mut clock = None;
        for delay in DELAYS.into_iter().filter(|_| !skip) {
            let delay = clock.unwrap_or(delay);
            // A timer takes up to a millisecond, even if it is due at once.
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let Some((address, is_master)) = gateway.cluster.near(slot) else { break };
            let Some(look) = gateway.look((&address, is_master), call).await? else {
                break;
            };
            match self.add(reading, call, look).await? {
                Ok(look) => {
                    self.counters.replica += 1;
                    return Ok(look);
                }
                Err(look) => {
                    clock = self.wait_for_clock(reading, slot, &look);
                    let in_vain = clock.is_none() && self.is_quiet(reading, slot, &look);
                    quiet = self.policy == Policy::Home && in_vain;
                    stale = Some((look, address));
                }
            }
            self.counters.stale += 1;
            if is_master || quiet {
                break;
            }
        }
        match (self.policy, stale) {
            (Policy::Accept, Some((look, _))) => {
                self.counters.accepted += 1;
                self.count(reading, slot, &look);
                return Ok(look);
            }
            (Policy::Fail, Some((_, node))) => return Err(Error::Stale { slot, node }),
            (_, Some(_)) if !quiet => gateway.cluster.note_slow(slot),
            _ => {}
        }
        self.counters.home += 1;
        let look = gateway.read_home(reading, call).await?;
        let added = self.add(reading, call, look).await?;
        added.map_err(|_| {
            let why = "its master shows less than it has promised".to_owned();
            Error::Unavailable { slot, why }
        })
    }

    /// Returns the time after which the master's clock will show that a stale copy is recent
    /// enough; `None` if the way to the master takes less time, or if the record names no clock.
    fn wait_for_clock(&self, reading: &Reading, slot: ShardId, look: &Look) -> Option<Duration> {
        let shown = look.clocked?;
        let homes = &self.gateway.homes;
        let needed = reading.transaction.timestamp().stamp(slot, homes);
        let needed = needed.max(look.dependencies().stamp(slot, homes));
        let wait = Duration::from_micros(needed.0.saturating_sub(shown.0)) + CLOCK_STEP;
        (wait < self.gateway.cluster.trip_to_master(slot)).then_some(wait)
    }

    /// Returns whether a stale copy probably lacks nothing, so that further attempts at the replica
    /// are useless. The stamp of a slot advances only with its writes and with reads at its master.
    /// In a slot with few writes, the session's catch-all soon exceeds this stamp.
    fn is_quiet(&self, reading: &Reading, slot: ShardId, look: &Look) -> bool {
        let timestamp = reading.transaction.timestamp();
        let needed = timestamp.stamp(slot, &self.gateway.homes);
        !timestamp.has_own(slot) && needed.0.saturating_sub(look.shown().0) > QUIET_US
    }

    /// Adds an answer to the read set if its copy is recent enough, and returns it.
    async fn add(
        &self,
        reading: &mut Reading,
        call: &Call,
        look: Look,
    ) -> Result<Result<Look, Look>, Error> {
        let slot = slot_of(&call.key);
        if look.wants_lease {
            self.gateway.cluster.renew(slot);
        }
        if let Some(record) = &look.record {
            self.gateway.check_lives(slot, record, &reading.risk).await?;
        }
        let (transaction, homes) = (&reading.transaction, &self.gateway.homes);
        match transaction.check(slot, look.shown(), &look.dependencies(), homes) {
            Freshness::Stale => Ok(Err(look)),
            Freshness::Fresh => {
                self.count(reading, slot, &look);
                // A copy that was read before may lack a write on which this version depends.
                self.gateway.check_all_lives(&reading.changed, &reading.risk).await?;
                Ok(Ok(look))
            }
        }
    }

    fn count(&self, reading: &mut Reading, slot: ShardId, look: &Look) {
        let homes = &self.gateway.homes;
        // A slot's record distinguishes the lives of its masters, so moves need not be counted.
        reading.transaction.add_read((slot, look.shown()), look.dependencies(), 0, homes);
        if let Some(stored) = &look.timestamp {
            reading.risk.merge(&stored.risk);
        }
        if let Some(record) = &look.record {
            reading.risk.add(record.life, record.offset);
            let known = |(other, before): &(ShardId, Record)| {
                *other == slot && before.life == record.life && before.gaps == record.gaps
            };
            if !record.gaps.is_empty() && !reading.changed.iter().any(known) {
                reading.changed.push((slot, record.clone()));
            }
        }
        self.gateway.cluster.lives(|lives| lives.settle(&mut reading.risk));
    }
}
