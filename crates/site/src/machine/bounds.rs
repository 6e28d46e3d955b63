//! Hosts `reservations`, which keeps bounds of counters and of the sizes of sets.
//!
//! The machine derives all of its state from UniStore's histories. Updates of its keys reach it as
//! entries of the streams of their sites. A site ends an epoch by a write to a reserved key,
//! which is an entry of the site's stream. The record on which all sites agree is a sequence of
//! strong transactions, each of which writes a change to another reserved key. They do not
//! conflict, so UniStore only orders them, and the machines of all sites decide alike which changes
//! take effect.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use solera_data::{BOUNDS, Key, Measure, Op, OpError, Outcome, Span, Value};
use solera_levels::Level;
use solera_machine::{AskId, GuardQuestion, Input, Machine, Now, Output, PartitionId, RequestId};
use solera_machine::{Topology, codec};
use solera_membership::{Members, Participant};
use solera_reservations::{
    Answer, Command, Entry, Epoch, Gift, Placed, Position, Question, Reservations, Response, Rule,
    Tokens, Version,
};
use solera_time::{Origin, SiteId, Timestamp, Vector};
use solera_unistore::{GuardedKeys, Kind, Pasts, Replica, Update};

use super::{Site, collect_unistore};
use crate::internal::Asker;

/// Request of what the host passes to the machine. Nobody waits for its answer.
const FED: RequestId = RequestId(u64::MAX);

/// The kind of a change of the record. It conflicts with nothing.
const CHANGE: Kind = Kind { number: 0, conflicts: 0 };

/// The machine, and what connects it to UniStore.
#[derive(Debug)]
pub(super) struct Bounds {
    pub(super) machine: Reservations,
    me: SiteId,
    keys: GuardedKeys,
    partitions: BTreeMap<PartitionId, Feed>,
    /// Ends of committed transactions, which wait until the site's stream contains their updates:
    /// the time up to which it must be complete.
    ended: Vec<(Timestamp, RequestId, GuardQuestion)>,
}

/// Reserved keys of a partition that the machine reads, and what it has read of its sets.
#[derive(Debug)]
struct Feed {
    /// Key of the changes of the record.
    record: Key,
    /// Key of the ends of epochs.
    ends: Key,
    /// Key of the gifts of rights.
    gifts: Key,
    /// Whether the machine has got sizes of sets from another site. They may contain updates of
    /// that site that a removal undoes.
    sizes_are_foreign: Cell<bool>,
}

/// Part of a stream that the machine has not got.
struct Unread<'u> {
    origin: SiteId,
    /// The updates follow this position.
    after: Position,
    updates: Vec<&'u Arc<Update>>,
    /// Time up to which the stream is complete.
    upto: Timestamp,
}

/// Returns a reserved key of a partition.
fn reserved(partition: PartitionId, partitions: u16, name: &str) -> Key {
    let key = |tag: u32| format!("{BOUNDS}{{{tag}}}:{name}");
    let mut keys = (0..).map(key);
    let found = keys.find(|key| PartitionId::of(key.as_bytes(), partitions) == partition);
    Key::from(found.expect("the tags reach every partition").as_str())
}

impl Bounds {
    /// Connects a machine to a replica. The machine counts the updates of the site that its stream
    /// does not contain yet.
    pub(super) fn new(
        mut machine: Reservations,
        unistore: &Replica,
        keys: GuardedKeys,
        topology: &Topology,
    ) -> Bounds {
        let address = unistore.address();
        let has_joined = unistore.members().generation(address.site) > 0;
        let mut partitions = BTreeMap::new();
        for id in topology.owned_by(address) {
            let [record, ends, gifts] =
                ["record", "ends", "gifts"].map(|name| reserved(id, topology.partitions, name));
            // A process that stopped too early may not have replaced them.
            let sizes_are_foreign = Cell::new(has_joined);
            let feed = Feed { record, ends, gifts, sizes_are_foreign };
            let known = machine.known(id).map_or(Position(0), |known| known[address.site.index()]);
            for update in unistore.own_updates(id, Timestamp(known.0)) {
                for (key, tokens) in spent(update, &keys) {
                    machine.restore_commit(key, tokens, Position(update.dot.ts.0));
                }
                for (key, gift) in written_to::<(Vec<u8>, Gift)>(update, &feed.gifts) {
                    machine.restore_gift(&key, gift);
                }
            }
            partitions.insert(id, feed);
        }
        Bounds { machine, me: address.site, keys, partitions, ended: Vec::new() }
    }

    /// Returns the question by which UniStore answers a question of the machine.
    fn command_of(&self, ask: AskId, question: Question) -> (Asker, solera_unistore::Command) {
        let encoded = |value: &[u8]| Op::Set(Value::from(value));
        let key = |partition, of: fn(&Feed) -> &Key| {
            let feed = self.partitions.get(&partition);
            feed.map(of).cloned().expect("the machine asks about its own partitions")
        };
        let (mut bytes, past) = (Vec::new(), Vector::zero(1));
        match question {
            Question::Change { partition, read, change } => {
                codec::append(&(read, change), &mut bytes);
                let (key, op) = (key(partition, |feed| &feed.record), encoded(&bytes));
                let kind = CHANGE;
                let change = solera_unistore::Command::ExecuteStrong { past, key, op, kind };
                (Asker::Change(ask), change)
            }
            Question::End { partition, key: ended, epoch } => {
                codec::append(&(ended, epoch), &mut bytes);
                let (key, op) = (key(partition, |feed| &feed.ends), encoded(&bytes));
                let level = Level::Causal;
                let write = solera_unistore::Command::Execute { past, level, key, op };
                (Asker::End(ask), write)
            }
            Question::Give { partition, key: given, gift, past: needed } => {
                codec::append(&(given, gift), &mut bytes);
                let (key, op) = (key(partition, |feed| &feed.gifts), encoded(&bytes));
                let (level, past) = (Level::Causal, needed.unwrap_or(past));
                let write = solera_unistore::Command::Execute { past, level, key, op };
                (Asker::Gift(ask), write)
            }
        }
    }

    /// Returns what UniStore's histories have beyond the machine's state. Times without updates
    /// count if `beat` is set.
    fn news(&self, unistore: &Replica, beat: bool) -> Vec<Command> {
        let mut news = Vec::new();
        for (partition, feed) in &self.partitions {
            let partition = *partition;
            if !self.machine.has_state(partition) {
                continue;
            }
            if !self.machine.continues(partition) {
                feed.sizes_are_foreign.set(true);
                news.extend(self.continued(unistore, partition));
            } else if unistore.is_filled(partition) {
                self.add_streams(&mut news, unistore, partition, (feed, beat));
                self.add_changes(&mut news, unistore, partition, (feed, beat));
            } else {
                // A joining site has lost UniStore's data again while it was getting them.
                news.push(Command::Lacks { partition });
            }
        }
        news
    }

    /// Returns whether all histories of a partition reach back to the state that the machine has
    /// got from another site; `None` while UniStore lacks the partition's data.
    fn continued(&self, unistore: &Replica, partition: PartitionId) -> Option<Command> {
        let (known, version) = (self.machine.known(partition)?, self.machine.version(partition)?);
        let sites = (0..).map(|site| Origin::Site(SiteId(site))).zip(known.iter().map(|it| it.0));
        let strong = std::iter::once((Origin::Strong, version.0));
        let mut reach_back = true;
        for (origin, has) in sites.chain(strong) {
            let has = Timestamp(has);
            reach_back &= unistore.history(partition, origin, has)?.forgotten <= has;
        }
        Some(match reach_back {
            true => Command::Continues { partition },
            false => Command::Lacks { partition },
        })
    }

    /// Adds what the streams of a partition have got.
    fn add_streams(
        &self,
        news: &mut Vec<Command>,
        unistore: &Replica,
        partition: PartitionId,
        (feed, beat): (&Feed, bool),
    ) {
        let unread = self.unread(unistore, partition, (feed, beat));
        if unread.is_empty() {
            return;
        }
        let known = self.machine.known(partition).unwrap_or_default();
        let mut known_then: Vec<Timestamp> = known.iter().map(|known| Timestamp(known.0)).collect();
        for stream in &unread {
            known_then[stream.origin.index()] = stream.upto;
        }
        let is_foreign = feed.sizes_are_foreign.get();
        if is_foreign && !unistore.has_received(partition, &known_then) {
            return;
        }
        let foreign = is_foreign.then(|| self.machine.sets(partition)).into_iter().flatten();
        let updates = unread.iter().flat_map(|stream| &stream.updates).map(|update| &***update);
        let Some(sizes) = self.sizes(unistore, updates, foreign, &known_then) else { return };
        let mut replaced: Vec<(Vec<u8>, u64)> = Vec::new();
        if is_foreign {
            replaced.extend(sizes.iter().map(|(key, size)| (key.to_vec(), *size)));
            feed.sizes_are_foreign.set(false);
        }
        for Unread { origin, after, updates, upto } in unread {
            let entries = updates.into_iter().flat_map(|update| self.placed(update, feed, &sizes));
            let (mut entries, upto): (Vec<Placed>, _) = (entries.collect(), Position(upto.0));
            entries.extend(replaced.drain(..).map(|(key, size)| {
                let entry = Entry::Resized(Tokens::default(), size);
                Placed { position: upto, key, entry }
            }));
            news.push(Command::Stream { partition, origin, after, entries, upto });
        }
    }

    /// Returns what the streams of a partition have got.
    fn unread<'u>(
        &self,
        unistore: &'u Replica,
        partition: PartitionId,
        (feed, beat): (&Feed, bool),
    ) -> Vec<Unread<'u>> {
        // A snapshot must be able to contain the gifts that have given rights. So a gift counts
        // when it is visible.
        let mut visible = unistore.status().view().uniform_vec;
        visible[self.me] = Timestamp::MAX;
        let mut unread = Vec::new();
        let known = self.machine.known(partition).unwrap_or_default();
        for (origin, after) in (0..).map(SiteId).zip(known.iter().copied()) {
            let from = Timestamp(after.0);
            let history = unistore.history(partition, Origin::Site(origin), from);
            let Some(history) = history.filter(|history| history.upto > from) else { continue };
            let (mut upto, mut updates) = (history.upto, Vec::new());
            for update in history.updates {
                let may_be_early = origin != self.me && gives(update, feed);
                if may_be_early && !visible.covers(&update.commit_vec()) {
                    upto = Timestamp(update.dot.ts.0 - 1);
                    break;
                }
                updates.push(update);
            }
            if !updates.is_empty() || beat && upto > from {
                unread.push(Unread { origin, after, updates, upto });
            }
        }
        unread
    }

    /// Returns the sizes of more sets, and of those with a bound that updates change, with all
    /// updates that the machine will have then; `None` if the replica does not have its data.
    fn sizes<'u>(
        &self,
        unistore: &Replica,
        updates: impl Iterator<Item = &'u Update>,
        more: impl Iterator<Item = &'u [u8]>,
        known: &[Timestamp],
    ) -> Option<BTreeMap<&'u [u8], u64>> {
        let writes = updates.flat_map(|update| &update.writes).map(|write| write.key.as_bytes());
        let sets = writes.filter(|key| self.keys.measure(key) == Some(Measure::Size));
        let sets: BTreeSet<&[u8]> = sets.chain(more).collect();
        sets.into_iter().map(|key| Some((key, unistore.size_with(key, known)?))).collect()
    }

    /// Adds the changes of the record of a partition that were delivered.
    fn add_changes(
        &self,
        news: &mut Vec<Command>,
        unistore: &Replica,
        partition: PartitionId,
        (feed, beat): (&Feed, bool),
    ) {
        let mut previous = self.machine.version(partition).unwrap_or_default();
        let from = Timestamp(previous.0);
        let history = unistore.history(partition, Origin::Strong, from);
        let Some(history) = history.filter(|history| history.upto > from) else { return };
        let mut updates = history.updates.peekable();
        let has_updates = updates.peek().is_some();
        for update in updates {
            let version = Version(update.dot.ts.0);
            for (read, change) in written_to(update, &feed.record) {
                news.push(Command::Changed { partition, previous, version, read, change });
                previous = version;
            }
        }
        if beat || has_updates {
            news.push(Command::Unchanged { partition, upto: Version(history.upto.0) });
        }
    }

    /// Returns the entries of a stream that an update contains.
    fn placed(&self, update: &Update, feed: &Feed, sizes: &BTreeMap<&[u8], u64>) -> Vec<Placed> {
        let position = Position(update.dot.ts.0);
        let past = || Box::new(update.commit_vec());
        let updates = update.writes.iter().filter_map(|write| {
            let key = write.key.as_bytes();
            let entry = match self.keys.measure(key)? {
                Measure::Value => match write.effect.increment()? {
                    0 => return None,
                    amount if amount > 0 && self.machine.has_rights(key) => {
                        Entry::Created(amount.unsigned_abs(), past())
                    }
                    amount => Entry::Update(amount),
                },
                Measure::Size => {
                    let span = Measure::Size.of_effect(&write.effect)?;
                    match self.machine.keeps(Rule::ReadSizes) {
                        true => Entry::Resized(tokens_of(span), *sizes.get(key)?),
                        false => Entry::Update(span.up as i64 - span.down as i64),
                    }
                }
            };
            Some((key.to_vec(), entry))
        });
        let ended = written_to::<(Vec<u8>, Epoch)>(update, &feed.ends);
        let ended = ended.map(|(key, epoch)| (key, Entry::Ended(epoch)));
        let given = written_to::<(Vec<u8>, Gift)>(update, &feed.gifts);
        let given = given.map(|(key, gift)| (key, Entry::Given(gift, past())));
        let entries = updates.chain(ended).chain(given);
        entries.map(|(key, entry)| Placed { position, key, entry }).collect()
    }

    /// Reports to UniStore which parts of its histories the machine has.
    fn note_read(&self, unistore: &mut Replica) {
        if !self.machine.keeps(Rule::KeepUnread) {
            let partitions = self.partitions.keys();
            return partitions.for_each(|partition| unistore.note_all_read(*partition));
        }
        for partition in self.partitions.keys().copied().filter(|id| self.machine.has_state(*id)) {
            let known = self.machine.known(partition).unwrap_or_default();
            for (site, known) in (0..).map(SiteId).zip(known) {
                // The machine ends the stream of a removed site at the cut. There is nothing
                // between the cut and the end of the generation.
                let end = unistore.members().open_gap(site).map_or(Timestamp::ZERO, |it| it.end);
                let upto = Timestamp(known.0).max(end);
                unistore.note_read(partition, Origin::Site(site), upto);
            }
            let version = self.machine.version(partition).unwrap_or_default();
            unistore.note_read(partition, Origin::Strong, Timestamp(version.0));
        }
    }

    /// Removes and returns the ends of transactions whose updates the site's streams contain.
    fn take_ended(&mut self, unistore: &Replica) -> Vec<(RequestId, GuardQuestion)> {
        if self.ended.is_empty() {
            return Vec::new();
        }
        // The machine has read all updates up to this time.
        let complete = |id: &PartitionId| {
            let known = self.machine.known(*id).map_or(0, |known| known[self.me.index()].0);
            let history = unistore.history(*id, Origin::Site(self.me), Timestamp(known));
            history.map_or(Timestamp::MAX, |mut history| {
                let unread = history.updates.next().map(|update| Timestamp(update.dot.ts.0 - 1));
                unread.unwrap_or(history.upto)
            })
        };
        let upto = self.partitions.keys().map(complete).min().unwrap_or(Timestamp::MAX);
        let over = self.ended.extract_if(.., |(until, ..)| *until <= upto);
        over.map(|(_, request, question)| (request, question)).collect()
    }
}

/// Returns whether an update gives rights.
fn gives(update: &Update, feed: &Feed) -> bool {
    update.writes.iter().any(|write| write.key == feed.gifts)
}

/// Returns the tokens that an update uses of each guarded key.
fn spent<'a>(
    update: &'a Update,
    keys: &'a GuardedKeys,
) -> impl Iterator<Item = (&'a [u8], Tokens)> {
    update.writes.iter().filter_map(|write| {
        let span = keys.measure(write.key.as_bytes())?.of_effect(&write.effect)?;
        Some((write.key.as_bytes(), tokens_of(span)))
    })
}

/// Returns the tokens that a change needs.
pub(super) fn tokens_of(span: Span) -> Tokens {
    Tokens { increments: span.up, decrements: span.down }
}

/// Returns what an update writes to a reserved key.
fn written_to<'a, T: serde::de::DeserializeOwned>(
    update: &'a Update,
    key: &'a Key,
) -> impl Iterator<Item = T> + 'a {
    let writes = update.writes.iter().filter(move |write| write.key == *key);
    writes.filter_map(|write| written(&write.effect))
}

/// Decodes the value that an effect assigns.
fn written<T: serde::de::DeserializeOwned>(effect: &solera_data::Effect) -> Option<T> {
    let value = effect.cell.assign.as_ref()?;
    codec::take(value).filter(|(_, rest)| rest.is_empty()).map(|(value, _)| value)
}

impl Site {
    /// Applies `action` to `reservations`, after collecting the earlier outputs of UniStore, which
    /// leave first.
    pub(super) fn with_bounds(&mut self, now: Now, action: impl FnOnce(&mut Reservations)) {
        let Some(bounds) = &mut self.bounds else { return };
        collect_unistore(&mut self.outputs, &mut self.unistore, &mut self.internal);
        action(&mut bounds.machine);
        self.settle_bounds(now);
        self.note_participants();
    }

    /// Collects the outputs of `reservations`, and passes its questions to UniStore and its answers
    /// as a guard to the participant.
    fn settle_bounds(&mut self, now: Now) {
        // A joining site has no part in any history yet.
        let serves = self.serves();
        while let Some(bounds) = &mut self.bounds
            && let Some(output) = bounds.machine.poll_output()
        {
            match output {
                Output::Reply { request: FED, .. } => {}
                Output::Reply { request, response: Response::Guard(answer), .. } => {
                    self.internal.note_guard(request, answer);
                }
                output => match output.widen() {
                    Ok(output) => self.outputs.push_back(output),
                    Err((ask, question)) if !serves => {
                        let answer = match question {
                            Question::Give { .. } => Answer::NotGiven,
                            Question::Change { .. } | Question::End { .. } => Answer::Unknown,
                        };
                        bounds.machine.handle(now, Input::Answered { ask, answer });
                    }
                    Err((ask, question)) => {
                        let (asker, command) = bounds.command_of(ask, question);
                        self.ask_unistore(now, asker, command);
                    }
                },
            }
        }
    }

    /// Passes a question of a participant to `reservations`. The end of a committed transaction
    /// waits until the machine has its updates.
    pub(super) fn ask_bounds(&mut self, now: Now, request: RequestId, question: GuardQuestion) {
        let Some(bounds) = &mut self.bounds else { return };
        let waits = bounds.machine.keeps(Rule::EndAfterStream);
        if waits && matches!(question, GuardQuestion::End { committed: true, .. }) {
            bounds.ended.push((self.unistore.status().clock(), request, question));
            return;
        }
        let command = Command::Guard(question);
        self.with_bounds(now, |it| it.handle(now, Input::Client { request, command }));
    }

    /// Passes what UniStore's histories have got to `reservations`. With a beat, also passes times
    /// without updates, and lets UniStore forget what the machine has.
    pub(super) fn feed_bounds(&mut self, now: Now, beat: bool) {
        let Some(bounds) = &mut self.bounds else { return };
        let news = bounds.news(&self.unistore, beat).into_iter().map(|command| (FED, command));
        let ended = bounds.take_ended(&self.unistore).into_iter();
        let ended = ended.map(|(request, question)| (request, Command::Guard(question)));
        let inputs: Vec<(RequestId, Command)> = news.chain(ended).collect();
        if !inputs.is_empty() {
            self.with_bounds(now, |it| {
                for (request, command) in inputs {
                    it.handle(now, Input::Client { request, command });
                }
            });
        }
        if let Some(bounds) = self.bounds.as_ref().filter(|_| beat) {
            bounds.note_read(&mut self.unistore);
        }
    }

    /// Passes a list of sites, and what remains of the streams of removed ones, to `reservations`.
    pub(super) fn pass_on_to_bounds(&mut self, now: Now, members: &Members) {
        let Some(bounds) = &mut self.bounds else { return };
        bounds.machine.set_members(now, members);
        let mut inputs = Vec::new();
        for site in SiteId::all(members.sites()) {
            // A site may join again before the record has the removal of its last generation.
            let Some(gap) = members.open_gap(site) else { continue };
            let upto = Position(gap.cut.0);
            for partition in bounds.partitions.keys().copied() {
                let command = Command::Remove { partition, site, upto };
                inputs.push(Input::Client { request: FED, command });
            }
        }
        self.with_bounds(now, |it| inputs.into_iter().for_each(|input| it.handle(now, input)));
    }

    /// Returns the machine of `reservations`, if the worker runs it.
    pub fn reservations(&self) -> Option<&Reservations> {
        self.bounds.as_ref().map(|bounds| &bounds.machine)
    }

    /// Returns the reserved keys of this worker's partitions, if it runs `reservations`.
    pub fn agreement_keys(&self) -> impl Iterator<Item = &Key> {
        let feeds = self.bounds.iter().flat_map(|bounds| bounds.partitions.values());
        feeds.flat_map(|feed| [&feed.record, &feed.ends, &feed.gifts])
    }

    /// Returns whether a key has a bound.
    pub fn has_bound(&self, key: &[u8]) -> bool {
        self.bounds.as_ref().is_some_and(|bounds| bounds.keys.contains(key))
    }

    /// Like [`Replica::execute_at_once`], also for updates of keys with a bound if the site has the
    /// tokens.
    pub fn execute_at_once(
        &mut self,
        now: Now,
        pasts: &mut Pasts,
        level: Level,
        key: &[u8],
        op: &Op,
    ) -> Option<Result<Outcome, OpError>> {
        let bounds = self.bounds.as_mut().filter(|_| op.is_update());
        let Some((bounds, measure)) = bounds.and_then(|it| {
            let measure = it.keys.measure(key)?;
            Some((it, measure))
        }) else {
            return self.unistore.execute_at_once(now, pasts, level, key, op);
        };
        let tokens = tokens_of(measure.of_op(op)?);
        let spent = bounds.machine.spend(now, key, tokens)?;
        bounds.machine.add_past(&spent, &mut pasts.causal);
        let result = self.unistore.execute_with_consent(now, pasts, key, op);
        let at = pasts.causal[bounds.me];
        self.with_bounds(now, |machine| match result {
            Some(Ok(_)) => machine.note_commit(spent, Position(at.0)),
            _ => machine.give_back_spent(now, spent),
        });
        result
    }
}
