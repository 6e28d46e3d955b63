//! Judges histories of the primary-copy protocol `primary`.
//!
//! Each key has a home site, which orders all updates of the key. An update appends its number to
//! the list at the key, so a value is the history of its key. The other sites apply updates in the
//! home's order, and every site answers reads from its own copy.
//!
//! Checks eight guarantees: all sites have equal lists at the end; lists hold only written numbers;
//! surviving sites return prefixes of the final list; a list only grows within one generation of a
//! site; sessions read their own updates; ATTACH makes a session's past visible; updates are lost
//! only with sites; and the order follows real time.
//!
//! All times are readings of one clock. If two times are equal, neither is before the other: a
//! recorder whose clock does not advance between two events hides their order from this checker. An
//! answer counts when the client receives it; the recorder drops answers that arrive from a site
//! after its loss.
//!
//! A key without a final list is checked only by comparing its reads with one another.
//!
//! ```
//! use solera_checker::primary::{History, Read, check};
//!
//! let read = Read {
//!     session: 1,
//!     site: 2,
//!     generation: 0,
//!     key: "cart".to_owned(),
//!     invoked: 10,
//!     ended: 12,
//!     list: vec![7],
//! };
//! let violations = check(&History { reads: vec![read], ..History::default() });
//! assert_eq!(
//!     violations[0].to_string(),
//!     "never written: the read of 'cart' by session 1 at site 2 (generation 0, times 10 to 12) shows 7"
//! );
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A run of the protocol, as its clients observed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// All updates that clients invoked, answered or not.
    pub updates: Vec<Update>,
    /// Answered reads.
    pub reads: Vec<Read>,
    /// Answered ATTACH commands.
    pub attached: Vec<Attached>,
    /// Lists at the surviving sites at the end.
    pub finals: Vec<Final>,
    /// Generations of sites that ended for good.
    pub losses: Vec<Loss>,
}

/// An update, which appends its number to the list at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Session that invoked it.
    pub session: usize,
    /// Site of the session.
    pub site: usize,
    /// Key.
    pub key: String,
    /// Number, unique within the history.
    pub id: u64,
    /// Time at which the client invoked it.
    pub invoked: u64,
    /// Time at which the client received the confirmation that the home has durably ordered it. May
    /// be absent although `applied` is present.
    pub accepted: Option<u64>,
    /// Time at which the client received the confirmation that it is visible at the client's site.
    pub applied: Option<u64>,
    /// Time at which the client received the confirmation that f + 1 sites store it.
    pub barrier: Option<u64>,
}

/// An answered read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Session that invoked it.
    pub session: usize,
    /// Site that answered.
    pub site: usize,
    /// Generation of the site that answered. A site that was lost and joined again has a new
    /// generation.
    pub generation: u32,
    /// Key.
    pub key: String,
    /// Time at which the client invoked it.
    pub invoked: u64,
    /// Time at which the client received the answer.
    pub ended: u64,
    /// Answer.
    pub list: Vec<u64>,
}

/// Answer to ATTACH: the site shows everything that the session had read, and all of its updates
/// that had been reported as applied, before it invoked the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Session that attached.
    pub session: usize,
    /// Site that it attached at.
    pub site: usize,
    /// Time at which the client invoked ATTACH.
    pub invoked: u64,
    /// Time at which the client received the answer.
    pub at: u64,
}

/// List at a key, read at a surviving site after all faults are healed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Final {
    /// Site.
    pub site: usize,
    /// Key.
    pub key: String,
    /// Answer.
    pub list: Vec<u64>,
}

/// The end of a generation of a site, which was destroyed for good, or removed, with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Site.
    pub site: usize,
    /// Generation that ended.
    pub generation: u32,
    /// Time from which this generation orders no updates and answers no requests.
    pub at: u64,
}

/// A violation of the protocol's guarantees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two surviving sites show different lists of a key at the end.
    Diverged {
        /// Final list at one site.
        one: Final,
        /// Final list of the key at another site.
        other: Final,
    },
    /// A list contains a number more than once.
    Repeated {
        /// Observation of the list.
        by: Shown,
        /// Number.
        id: u64,
    },
    /// A list contains a number that no client wrote to the key.
    NeverWritten {
        /// Observation of the list.
        by: Shown,
        /// Number.
        id: u64,
    },
    /// A read ended before an update that it shows was invoked.
    FromTheFuture {
        /// Read.
        read: Read,
        /// Update that it shows.
        update: Update,
    },
    /// A read at a generation that was never lost is not a prefix of the final list.
    NotAPrefix {
        /// Read.
        read: Read,
        /// Final list.
        last: Final,
    },
    /// One generation of a site returned two lists of a key, and neither is a prefix of the other.
    Forked {
        /// Read of the shorter list.
        one: Read,
        /// Read of the other list, which is at least as long.
        other: Read,
    },
    /// One generation of a site returned a list of a key, and later one that does not extend it.
    WentBack {
        /// Read that ended first.
        earlier: Read,
        /// Read that was invoked after that.
        later: Read,
    },
    /// A read misses an update of its own session that the site had reported as applied.
    MissesOwn {
        /// Read.
        read: Read,
        /// Update that it misses.
        update: Update,
    },
    /// A read misses part of the session's past, although the session had attached at the site.
    MissesPast {
        /// Read.
        read: Read,
        /// Answer to ATTACH.
        attached: Attached,
        /// Number that the read misses.
        id: u64,
    },
    /// An update was accepted or applied, and is not in the final list, although no site was lost
    /// after it was invoked.
    Lost {
        /// Update.
        update: Update,
    },
    /// An update was reported as stored at f + 1 sites, and is not in the final list.
    StoredThenLost {
        /// Update.
        update: Update,
    },
    /// An update was accepted or applied before another was invoked, and the final list has
    /// them in the opposite order, although no site was lost after the first was invoked.
    OutOfOrder {
        /// Update that was accepted or applied.
        first: Update,
        /// Update that was invoked after that.
        second: Update,
    },
    /// An update was reported as stored at f + 1 sites before another was invoked, and the final
    /// list has them in the opposite order.
    StoredOutOfOrder {
        /// Update that was stored.
        first: Update,
        /// Update that was invoked after that.
        second: Update,
    },
}

/// Observation of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// In a read.
    Read(Read),
    /// At the end.
    Final(Final),
}

/// Returns all violations in a history, in the order of the guarantees.
///
/// If a read misses several updates, one is reported. If an update is wrongly before several
/// others, the one of them whose answer came first is reported.
pub fn check(history: &History) -> Vec<Violation> {
    let judge = Judge::new(history);
    let violations = [
        judge.convergence(),
        judge.contents(),
        judge.prefixes(),
        judge.generations(),
        judge.own_updates(),
        judge.attachments(),
        judge.durability(),
        judge.real_time(),
    ];
    violations.concat()
}

/// A history with indexes.
struct Judge<'a> {
    history: &'a History,
    updates: BTreeMap<(&'a str, u64), &'a Update>,
    updates_of: BTreeMap<usize, Vec<&'a Update>>,
    reads_of: BTreeMap<usize, Vec<&'a Read>>,
    /// The first final list of each key. If the sites diverge, it also serves for the others.
    finals: BTreeMap<&'a str, &'a Final>,
    /// The numbers in these lists.
    kept: BTreeSet<(&'a str, u64)>,
}

impl<'a> Judge<'a> {
    fn new(history: &'a History) -> Self {
        let mut judge = Judge {
            history,
            updates: BTreeMap::new(),
            updates_of: BTreeMap::new(),
            reads_of: BTreeMap::new(),
            finals: BTreeMap::new(),
            kept: BTreeSet::new(),
        };
        for update in &history.updates {
            judge.updates.insert((&update.key, update.id), update);
            judge.updates_of.entry(update.session).or_default().push(update);
        }
        for read in &history.reads {
            judge.reads_of.entry(read.session).or_default().push(read);
        }
        for last in &history.finals {
            judge.finals.entry(&last.key).or_insert(last);
        }
        for (key, last) in &judge.finals {
            judge.kept.extend(last.list.iter().map(|id| (*key, *id)));
        }
        judge
    }

    fn updates_of(&self, session: usize) -> &[&'a Update] {
        self.updates_of.get(&session).map_or(&[], Vec::as_slice)
    }

    fn reads_of(&self, session: usize) -> &[&'a Read] {
        self.reads_of.get(&session).map_or(&[], Vec::as_slice)
    }

    fn is_kept(&self, update: &Update) -> bool {
        self.kept.contains(&(update.key.as_str(), update.id))
    }

    /// Returns whether a loss may have undone events at this time or later.
    fn has_loss_since(&self, time: u64) -> bool {
        self.history.losses.iter().any(|loss| loss.at >= time)
    }

    /// Returns whether the generation that answered a read is certain to be the generation of the
    /// site at `since`.
    fn is_same_generation(&self, since: u64, read: &Read) -> bool {
        let ended_between = |loss: &Loss| {
            // A generation that ended during the read may have answered it.
            let over = if loss.generation == read.generation { read.invoked } else { read.ended };
            loss.site == read.site && (since..=over).contains(&loss.at)
        };
        !self.history.losses.iter().any(ended_between)
    }

    /// Checks that all surviving sites have equal lists at the end.
    fn convergence(&self) -> Vec<Violation> {
        let finals = self.history.finals.iter();
        finals
            .filter_map(|other| {
                let one = *self.finals.get(other.key.as_str())?;
                let differ = one.list != other.list;
                differ.then(|| Violation::Diverged { one: one.clone(), other: other.clone() })
            })
            .collect()
    }

    /// Checks that lists hold each number at most once, and only numbers written before.
    fn contents(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for read in &self.history.reads {
            let by = || Shown::Read(read.clone());
            violations.extend(self.wrong_contents(&read.key, &read.list, by));
            let updates = read.list.iter().filter_map(|id| self.updates.get(&(&*read.key, *id)));
            let future = updates.filter(|update| update.invoked > read.ended);
            violations.extend(future.map(|update| Violation::FromTheFuture {
                read: read.clone(),
                update: (*update).clone(),
            }));
        }
        for last in &self.history.finals {
            let by = || Shown::Final(last.clone());
            violations.extend(self.wrong_contents(&last.key, &last.list, by));
        }
        violations
    }

    fn wrong_contents(&self, key: &str, list: &[u64], by: impl Fn() -> Shown) -> Vec<Violation> {
        let mut seen = BTreeSet::new();
        let mut violations = Vec::new();
        for id in list {
            if !seen.insert(*id) {
                violations.push(Violation::Repeated { by: by(), id: *id });
            } else if !self.updates.contains_key(&(key, *id)) {
                violations.push(Violation::NeverWritten { by: by(), id: *id });
            }
        }
        violations
    }

    /// Checks that lists at generations that were not lost are prefixes of the final ones. A lost
    /// generation may have shown updates that were lost with it, or that were submitted and ordered
    /// again in the meantime.
    fn prefixes(&self) -> Vec<Violation> {
        let losses = self.history.losses.iter();
        let lost: BTreeSet<_> = losses.map(|loss| (loss.site, loss.generation)).collect();
        let reads = self.history.reads.iter();
        reads
            .filter(|read| !lost.contains(&(read.site, read.generation)))
            .filter_map(|read| {
                let last = *self.finals.get(read.key.as_str())?;
                let differ = !last.list.starts_with(&read.list);
                differ.then(|| Violation::NotAPrefix { read: read.clone(), last: last.clone() })
            })
            .collect()
    }

    /// Checks that, within one generation of a site, the list of a key only grows at its end.
    fn generations(&self) -> Vec<Violation> {
        let mut generations: BTreeMap<(usize, u32, &str), Vec<&Read>> = BTreeMap::new();
        for read in &self.history.reads {
            generations.entry((read.site, read.generation, &read.key)).or_default().push(read);
        }
        generations
            .into_values()
            .flat_map(|reads| [forks(&reads), steps_back(&reads)].concat())
            .collect()
    }

    /// Checks that sessions read the updates that their own site had reported as applied.
    fn own_updates(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for read in &self.history.reads {
            let shown: BTreeSet<u64> = read.list.iter().copied().collect();
            let must_show = |update: &Update| {
                let heard = update.applied.filter(|applied| *applied < read.invoked);
                update.key == read.key
                    && update.site == read.site
                    && heard.is_some_and(|applied| self.is_same_generation(applied, read))
            };
            let mut missed = self.updates_of(read.session).iter();
            if let Some(update) =
                missed.find(|update| !shown.contains(&update.id) && must_show(update))
            {
                let (read, update) = (read.clone(), (*update).clone());
                violations.push(Violation::MissesOwn { read, update });
            }
        }
        violations
    }

    /// Checks that reads after ATTACH show the session's past.
    fn attachments(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for attached in &self.history.attached {
            let past = self.past(attached);
            let later = self.reads_of(attached.session).iter().filter(|read| {
                read.site == attached.site
                    && read.invoked > attached.at
                    && self.is_same_generation(attached.at, read)
            });
            for read in later {
                let shown: BTreeSet<u64> = read.list.iter().copied().collect();
                let past = past.get(read.key.as_str());
                if let Some(id) = past.and_then(|past| past.difference(&shown).next()) {
                    violations.push(Violation::MissesPast {
                        read: (*read).clone(),
                        attached: attached.clone(),
                        id: *id,
                    });
                }
            }
        }
        violations
    }

    /// Returns by key the updates that a session had read, and those that had been reported to it
    /// as applied, before it invoked ATTACH.
    ///
    /// Losses may have undone some of these. Only the common prefix of a read with the final list
    /// counts: later updates were lost, and may reappear at any time if they are submitted again.
    fn past(&self, attached: &Attached) -> BTreeMap<&'a str, BTreeSet<u64>> {
        let mut past: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
        for read in self.reads_of(attached.session) {
            let last = self.finals.get(read.key.as_str()).map_or(&[][..], |last| &last.list);
            if read.ended < attached.invoked {
                let read_and_kept = &last[..common(&read.list, last)];
                past.entry(&read.key).or_default().extend(read_and_kept);
            }
        }
        for update in self.updates_of(attached.session) {
            let was_applied = update.applied.is_some_and(|applied| applied < attached.invoked);
            if was_applied && self.is_kept(update) {
                past.entry(&update.key).or_default().insert(update.id);
            }
        }
        past
    }

    /// Checks that acknowledged updates remain, unless a loss may have taken them, and that updates
    /// at f + 1 sites always remain.
    fn durability(&self) -> Vec<Violation> {
        let updates = self.history.updates.iter();
        let missing = updates.filter(|update| {
            self.finals.contains_key(update.key.as_str()) && !self.is_kept(update)
        });
        missing
            .filter_map(|update| {
                if update.barrier.is_some() {
                    return Some(Violation::StoredThenLost { update: update.clone() });
                }
                let excused = self.has_loss_since(update.invoked);
                (heard(update).is_some() && !excused)
                    .then(|| Violation::Lost { update: update.clone() })
            })
            .collect()
    }

    /// Checks that the final order agrees with real time.
    ///
    /// A loss may take an update that was accepted but not stored at f + 1 sites. If it is
    /// submitted again, it follows updates that were invoked later. Losses before the update was
    /// invoked do not affect it.
    fn real_time(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        for (key, last) in &self.finals {
            // This is the update whose answer came first, among those further back in the list.
            let mut behind = Earliest(None);
            let mut stored_behind = Earliest(None);
            let updates = last.list.iter().rev().filter_map(|id| self.updates.get(&(*key, *id)));
            for update in updates {
                let second = || (*update).clone();
                if let Some(first) = stored_behind.before(update.invoked) {
                    let first = first.clone();
                    violations.push(Violation::StoredOutOfOrder { first, second: second() });
                } else if let Some(first) = behind.before(update.invoked) {
                    let first = first.clone();
                    violations.push(Violation::OutOfOrder { first, second: second() });
                }
                stored_behind.add(update.barrier, update);
                if !self.has_loss_since(update.invoked) {
                    behind.add(heard(update), update);
                }
            }
        }
        violations
    }
}

/// The update with the earliest of some times.
struct Earliest<'a>(Option<(u64, &'a Update)>);

impl<'a> Earliest<'a> {
    fn add(&mut self, time: Option<u64>, update: &'a Update) {
        if let Some(time) = time
            && self.0.is_none_or(|(earliest, _)| time < earliest)
        {
            self.0 = Some((time, update));
        }
    }

    fn before(&self, time: u64) -> Option<&'a Update> {
        self.0.filter(|(earliest, _)| *earliest < time).map(|(_, update)| update)
    }
}

/// Returns the time of the first answer that the home has ordered the update.
fn heard(update: &Update) -> Option<u64> {
    [update.accepted, update.applied].into_iter().flatten().min()
}

/// Returns the length of the common prefix of two lists.
fn common(one: &[u64], other: &[u64]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Reports pairs of reads of a key at one generation of a site if neither read extends the other.
fn forks(reads: &[&Read]) -> Vec<Violation> {
    let mut by_length = reads.to_vec();
    by_length.sort_by_key(|read| read.list.len());
    // If each list extends the next shorter one, it extends all shorter ones.
    let neighbours = by_length.windows(2).filter_map(|pair| match pair {
        [one, other] if !other.list.starts_with(&one.list) => Some((*one, *other)),
        _ => None,
    });
    neighbours
        .map(|(one, other)| Violation::Forked { one: one.clone(), other: other.clone() })
        .collect()
}

/// Reports reads of a key at one generation of a site that do not extend one that ended before they
/// began.
fn steps_back(reads: &[&Read]) -> Vec<Violation> {
    let mut by_start = reads.to_vec();
    by_start.sort_by_key(|read| read.invoked);
    let mut by_end = reads.to_vec();
    by_end.sort_by_key(|read| read.ended);
    let mut by_end = by_end.into_iter().peekable();
    let mut longest: Option<&Read> = None;
    let mut violations = Vec::new();
    for later in by_start {
        while let Some(over) = by_end.next_if(|read| read.ended < later.invoked) {
            // The longest list extends the others; otherwise `forks` reports a violation.
            if longest.is_none_or(|longest| longest.list.len() < over.list.len()) {
                longest = Some(over);
            }
        }
        if let Some(earlier) = longest
            && !later.list.starts_with(&earlier.list)
        {
            let (earlier, later) = (earlier.clone(), later.clone());
            violations.push(Violation::WentBack { earlier, later });
        }
    }
    violations
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::Diverged { one, other } => {
                write!(f, "divergence: {one}, and {other}: ")?;
                write_difference(f, &one.list, &other.list)
            }
            Violation::Repeated { by, id } => write!(f, "repeated: {by} shows {id} again"),
            Violation::NeverWritten { by, id } => write!(f, "never written: {by} shows {id}"),
            Violation::FromTheFuture { read, update } => {
                write!(f, "from the future: {read} shows {update}")
            }
            Violation::NotAPrefix { read, last } => {
                write!(f, "not a prefix: {read}, and {last}: ")?;
                write_difference(f, &read.list, &last.list)
            }
            Violation::Forked { one, other } => {
                write!(f, "forked: {one}, and {other}: ")?;
                write_difference(f, &one.list, &other.list)
            }
            Violation::WentBack { earlier, later } => {
                write!(f, "went back: {earlier}, and later {later}: ")?;
                write_difference(f, &earlier.list, &later.list)
            }
            Violation::MissesOwn { read, update } => {
                write!(f, "misses its own: {read} does not show {update}")
            }
            Violation::MissesPast { read, attached, id } => {
                let Attached { site, invoked, at, .. } = attached;
                write!(
                    f,
                    "misses its past: {read} does not show {id}, which was in the past with which \
                     the session attached at site {site} (times {invoked} to {at})"
                )
            }
            Violation::Lost { update } => write!(
                f,
                "lost: {update} is not in the final list, and no site was lost after it was invoked"
            ),
            Violation::StoredThenLost { update } => {
                write!(f, "stored, then lost: {update} is not in the final list")
            }
            Violation::OutOfOrder { first, second } => {
                write!(f, "real time violated: {second} is before {first} in the final list")
            }
            Violation::StoredOutOfOrder { first, second } => write!(
                f,
                "real time of stored updates violated: {second} is before {first} in the final list"
            ),
        }
    }
}

fn write_difference(f: &mut fmt::Formatter<'_>, one: &[u64], other: &[u64]) -> fmt::Result {
    let place = common(one, other);
    write!(f, "they agree on {place} updates, then the first ")?;
    match one.get(place) {
        Some(id) => write!(f, "shows {id}")?,
        None => f.write_str("ends")?,
    }
    f.write_str(" and the second ")?;
    match other.get(place) {
        Some(id) => write!(f, "shows {id}"),
        None => f.write_str("ends"),
    }
}

impl fmt::Display for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Update { session, site, key, id, invoked, .. } = self;
        write!(
            f,
            "update {id} of '{key}' by session {session} at site {site} (invoked at {invoked}"
        )?;
        let heard = [
            ("accepted", self.accepted),
            ("applied", self.applied),
            ("stored at f + 1 sites", self.barrier),
        ];
        for (what, time) in heard {
            if let Some(time) = time {
                write!(f, ", heard {what} at {time}")?;
            }
        }
        f.write_str(")")
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Read { session, site, generation, key, invoked, ended, .. } = self;
        write!(
            f,
            "the read of '{key}' by session {session} at site {site} (generation {generation}, times {invoked} \
             to {ended})"
        )
    }
}

impl fmt::Display for Final {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the final list of '{}' at site {}", self.key, self.site)
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shown::Read(read) => read.fmt(f),
            Shown::Final(last) => last.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Update {
        fn accepted(self, at: u64) -> Self {
            Update { accepted: Some(at), ..self }
        }

        fn applied(self, at: u64) -> Self {
            Update { applied: Some(at), ..self }
        }

        fn stored(self, at: u64) -> Self {
            Update { barrier: Some(at), ..self }
        }
    }

    impl Read {
        fn generation(self, generation: u32) -> Self {
            Read { generation, ..self }
        }
    }

    impl History {
        /// Adds unanswered updates 1, 2, …; all sites end with the list `last`.
        fn ending(last: &[u64]) -> Self {
            let updates = (1..=9).map(|id| update(9, 9, id, 0)).collect();
            let finals = [0, 1].map(|site| ends(site, last)).to_vec();
            History { updates, finals, ..History::default() }
        }

        fn update(mut self, update: Update) -> Self {
            self.updates.retain(|other| other.id != update.id);
            self.updates.push(update);
            self
        }

        fn read(mut self, read: Read) -> Self {
            self.reads.push(read);
            self
        }

        fn attached(mut self, session: usize, site: usize, invoked: u64, at: u64) -> Self {
            self.attached.push(Attached { session, site, invoked, at });
            self
        }

        fn lost(mut self, site: usize, generation: u32, at: u64) -> Self {
            self.losses.push(Loss { site, generation, at });
            self
        }

        fn reported(&self) -> Vec<String> {
            check(self).iter().map(Violation::to_string).collect()
        }
    }

    fn update(session: usize, site: usize, id: u64, invoked: u64) -> Update {
        let key = "k".to_owned();
        Update { session, site, key, id, invoked, accepted: None, applied: None, barrier: None }
    }

    fn read(session: usize, site: usize, (invoked, ended): (u64, u64), list: &[u64]) -> Read {
        let (key, list) = ("k".to_owned(), list.to_vec());
        Read { session, site, generation: 0, key, invoked, ended, list }
    }

    fn ends(site: usize, list: &[u64]) -> Final {
        Final { site, key: "k".to_owned(), list: list.to_vec() }
    }

    const NONE: [&str; 0] = [];

    /// Site 0 is the home until it is destroyed at time 15, with update 3. Update 4 is submitted
    /// again, after update 5. Then site 0 joins again, empty.
    #[test]
    fn a_good_history_with_a_loss() {
        let history = History::ending(&[1, 2, 5, 4])
            .update(update(0, 0, 1, 1).accepted(2).applied(2).stored(5))
            .update(update(1, 1, 2, 3).accepted(6).applied(7))
            .update(update(0, 0, 3, 8).accepted(9).applied(9))
            .update(update(1, 1, 4, 8).accepted(10).applied(24))
            .update(update(2, 1, 5, 17).applied(19).stored(20))
            .read(read(0, 0, (10, 11), &[1, 2, 3, 4]))
            .read(read(1, 1, (10, 11), &[1, 2]))
            .lost(0, 0, 15)
            .attached(0, 1, 16, 18)
            .read(read(0, 1, (19, 20), &[1, 2]))
            .read(read(1, 1, (19, 21), &[1, 2, 5]))
            .read(read(1, 1, (25, 26), &[1, 2, 5, 4]))
            .read(read(0, 0, (25, 27), &[]).generation(1))
            .read(read(0, 0, (28, 29), &[1, 2, 5]).generation(1));
        assert_eq!(history.reported(), NONE);
        // The other updates, of 1 to 9, were invoked and not answered.
        assert_eq!(history.updates.len(), 9);
    }

    #[test]
    fn surviving_sites_end_alike() {
        let mut history = History::ending(&[1, 2]);
        history.finals.push(Final { key: "other".to_owned(), ..ends(0, &[]) });
        assert_eq!(history.reported(), NONE);
        history.finals.push(ends(2, &[1, 3]));
        let expected = "divergence: the final list of 'k' at site 0, and the final list of 'k' at site \
                    2: they agree on 1 updates, then the first shows 2 and the second shows 3";
        assert_eq!(history.reported(), [expected]);
    }

    #[test]
    fn a_list_holds_an_update_once() {
        let history = History::ending(&[1, 2]).lost(0, 0, 9).read(read(1, 0, (3, 4), &[1, 2, 1]));
        let expected = "repeated: the read of 'k' by session 1 at site 0 (generation 0, times 3 to 4) shows 1 again";
        assert_eq!(history.reported(), [expected]);
        let expected = [0, 1]
            .map(|site| format!("repeated: the final list of 'k' at site {site} shows 2 again"));
        assert_eq!(History::ending(&[2, 2]).reported(), expected);
    }

    #[test]
    fn a_list_holds_what_was_written_to_its_key() {
        let elsewhere = Update { key: "other".to_owned(), ..update(1, 0, 3, 0) };
        let history = History::ending(&[1]).update(elsewhere.clone()).lost(0, 0, 9);
        let history = history.read(read(1, 0, (3, 4), &[1, 3]));
        let expected = "never written: the read of 'k' by session 1 at site 0 (generation 0, times 3 to 4) shows 3";
        assert_eq!(history.reported(), [expected]);
        let expected = [0, 1]
            .map(|site| format!("never written: the final list of 'k' at site {site} shows 3"));
        assert_eq!(History::ending(&[3]).update(elsewhere).reported(), expected);
    }

    #[test]
    fn a_read_does_not_show_what_is_invoked_later() {
        let history = History::ending(&[1]).update(update(2, 1, 1, 4));
        assert_eq!(history.clone().read(read(1, 0, (3, 4), &[1])).reported(), NONE);
        let expected = "from the future: the read of 'k' by session 1 at site 0 (generation 0, times 2 to 3) \
                    shows update 1 of 'k' by session 2 at site 1 (invoked at 4)";
        assert_eq!(history.read(read(1, 0, (2, 3), &[1])).reported(), [expected]);
    }

    #[test]
    fn a_surviving_generation_shows_prefixes_of_the_final_list() {
        let history = History::ending(&[1, 2]).read(read(1, 0, (3, 4), &[1, 3]));
        let expected = "not a prefix: the read of 'k' by session 1 at site 0 (generation 0, times 3 to 4), \
                    and the final list of 'k' at site 0: they agree on 1 updates, then the first \
                    shows 3 and the second shows 2";
        assert_eq!(history.reported(), [expected]);
        // A list that is too long is wrong, too.
        let longer = History::ending(&[1]).read(read(1, 0, (3, 4), &[1, 2]));
        assert!(longer.reported()[0].ends_with("then the first shows 2 and the second ends"));
        // Only the generation that was lost is excused, before and after the loss.
        assert_eq!(history.clone().lost(1, 0, 1).reported(), [expected]);
        assert_eq!(history.clone().lost(0, 1, 1).reported(), [expected]);
        assert_eq!(history.lost(0, 0, 9).reported(), NONE);
    }

    #[test]
    fn one_generation_shows_lists_that_continue_one_another() {
        let history = History::ending(&[1, 2]).lost(0, 0, 9).lost(0, 1, 19);
        let history = history.read(read(1, 0, (3, 6), &[1, 2]));
        // The reads are of another generation, another site or another key.
        let elsewhere = Update { key: "other".to_owned(), ..update(1, 0, 5, 0) };
        let other_key = Read { key: "other".to_owned(), ..read(2, 0, (3, 6), &[5]) };
        let history = history
            .update(elsewhere)
            .read(read(2, 0, (13, 16), &[1, 3]).generation(1))
            .read(other_key);
        assert_eq!(history.reported(), NONE);
        let history = history.read(read(2, 0, (4, 7), &[1, 3, 4]));
        let expected = "forked: the read of 'k' by session 1 at site 0 (generation 0, times 3 to 6), and the \
                    read of 'k' by session 2 at site 0 (generation 0, times 4 to 7): they agree on 1 \
                    updates, then the first shows 2 and the second shows 3";
        assert_eq!(history.reported(), [expected]);
    }

    #[test]
    fn one_generation_goes_forward() {
        let history = History::ending(&[1, 2]).read(read(1, 0, (3, 6), &[1, 2]));
        // These are a read that overlaps it, and reads at another site and of another generation.
        let history = history.read(read(2, 0, (6, 7), &[1])).read(read(2, 1, (8, 9), &[1]));
        let history = history.read(read(2, 0, (8, 9), &[]).generation(1));
        assert_eq!(history.reported(), NONE);
        // The read that ended last before it is not the longest.
        let mut history = history.read(read(3, 0, (8, 9), &[1]));
        let expected = "went back: the read of 'k' by session 1 at site 0 (generation 0, times 3 to 6), and \
                    later the read of 'k' by session 3 at site 0 (generation 0, times 8 to 9): they \
                    agree on 1 updates, then the first shows 2 and the second ends";
        assert_eq!(history.reported(), [expected]);
        // The result does not depend on the order in which reads were recorded.
        history.reads.reverse();
        assert_eq!(history.reported(), [expected]);
    }

    #[test]
    fn a_session_reads_its_own_updates() {
        let applied = History::ending(&[1, 2]).update(update(1, 0, 2, 3).applied(5));
        let expected = "misses its own: the read of 'k' by session 1 at site 0 (generation 0, times 6 to 8) \
                    does not show update 2 of 'k' by session 1 at site 0 (invoked at 3, heard \
                    applied at 5)";
        let history = applied.clone().read(read(1, 0, (6, 8), &[1]));
        assert_eq!(history.reported(), [expected]);
        // Losses of other sites, and earlier or later ones, excuse nothing.
        let others = history.lost(1, 0, 6).lost(0, 7, 4).lost(0, 0, 7);
        assert_eq!(others.reported(), [expected]);

        let too_early = applied.clone().read(read(1, 0, (5, 8), &[1]));
        assert_eq!(too_early.reported(), NONE);
        let others = applied.clone().read(read(2, 0, (6, 8), &[1])).read(read(1, 1, (6, 8), &[1]));
        let other_key = Read { key: "other".to_owned(), ..read(1, 0, (6, 8), &[]) };
        assert_eq!(others.read(other_key).reported(), NONE);
        let accepted = History::ending(&[1, 2]).update(update(1, 0, 2, 3).accepted(4));
        assert_eq!(accepted.read(read(1, 0, (6, 8), &[1])).reported(), NONE);
        // The site was lost in between, or during the read.
        for (at, generation) in [(6, 0), (8, 1)] {
            let reread = applied.clone().read(read(1, 0, (6, 8), &[1]).generation(generation));
            assert_eq!(reread.lost(0, 0, at).reported(), NONE);
        }
    }

    #[test]
    fn attaching_brings_along_what_the_session_had_read() {
        let history = History::ending(&[1, 2, 3]).read(read(1, 0, (1, 2), &[1]));
        let history =
            history.read(read(1, 0, (3, 4), &[1, 2])).read(read(1, 0, (3, 5), &[1, 2, 3]));
        let read_then = history.attached(1, 1, 5, 9);
        let history = read_then.clone().read(read(1, 1, (10, 12), &[1]));
        let expected = "misses its past: the read of 'k' by session 1 at site 1 (generation 0, times 10 to \
                    12) does not show 2, which was in the past with which the session attached at \
                    site 1 (times 5 to 9)";
        assert_eq!(history.reported(), [expected]);
        assert_eq!(history.lost(1, 3, 8).lost(0, 0, 10).lost(1, 0, 11).reported(), [expected]);

        // The read that overlaps ATTACH is not part of the past.
        let enough = read_then.clone().read(read(1, 1, (10, 12), &[1, 2]));
        assert_eq!(enough.reported(), NONE);
        // Reads during ATTACH, by another session, at another site, and of another key.
        let other_key = Read { key: "other".to_owned(), ..read(1, 1, (10, 12), &[]) };
        let others = read_then.clone().read(read(1, 1, (9, 12), &[])).read(other_key);
        let others = others.read(read(2, 1, (10, 12), &[])).read(read(1, 2, (10, 12), &[]));
        assert_eq!(others.reported(), NONE);
        // The site was lost in between, or during the read.
        for (at, generation) in [(10, 0), (12, 1)] {
            let reread = read_then.clone().read(read(1, 1, (10, 12), &[1]).generation(generation));
            assert_eq!(reread.lost(1, 0, at).reported(), NONE);
        }
    }

    #[test]
    fn attaching_brings_along_what_the_session_had_heard_applied() {
        let applied = |at| History::ending(&[1]).update(update(1, 0, 1, 3).accepted(4).applied(at));
        let history = applied(5).attached(1, 1, 6, 9).read(read(1, 1, (10, 12), &[]));
        let expected = "misses its past: the read of 'k' by session 1 at site 1 (generation 0, times 10 to \
                    12) does not show 1, which was in the past with which the session attached at \
                    site 1 (times 6 to 9)";
        assert_eq!(history.reported(), [expected]);
        let history = applied(6).attached(1, 1, 6, 9).read(read(1, 1, (10, 12), &[]));
        assert_eq!(history.reported(), NONE);
        // Answers to another session do not count.
        let history = applied(5).read(read(1, 0, (3, 5), &[1]));
        let history = history.attached(2, 1, 6, 9).read(read(2, 1, (10, 12), &[]));
        assert_eq!(history.reported(), NONE);
    }

    #[test]
    fn attaching_does_not_bring_along_what_was_lost() {
        // Update 3 is lost, and 2 comes back after 4.
        let history = History::ending(&[1, 4, 2])
            .update(update(1, 0, 3, 1).applied(2))
            .read(read(1, 0, (3, 4), &[1, 2, 3]))
            .lost(0, 0, 5)
            .attached(1, 1, 6, 9);
        assert_eq!(history.clone().read(read(1, 1, (10, 12), &[1])).reported(), NONE);
        let reported = history.read(read(1, 1, (10, 12), &[])).reported();
        assert_eq!(reported.len(), 1);
        assert!(reported[0].contains("does not show 1, which was in the past"), "{reported:?}");
    }

    #[test]
    fn what_was_accepted_or_applied_remains() {
        let missing = History::ending(&[1]).update(update(1, 0, 2, 3).accepted(5));
        let expected = "lost: update 2 of 'k' by session 1 at site 0 (invoked at 3, heard accepted at \
                    5) is not in the final list, and no site was lost after it was invoked";
        assert_eq!(missing.reported(), [expected]);
        assert_eq!(missing.clone().lost(1, 0, 2).reported(), [expected]);
        assert_eq!(missing.lost(1, 0, 3).reported(), NONE);
        let missing = History::ending(&[1]).update(update(1, 0, 2, 3).applied(5));
        assert_eq!(missing.reported(), [expected.replace("accepted", "applied")]);
        // The number does not count at another key, and a key without a final list is not judged.
        let mut elsewhere = missing;
        elsewhere.finals.push(Final { key: "other".to_owned(), ..ends(0, &[2]) });
        elsewhere.updates.push(Update { key: "other".to_owned(), ..update(9, 9, 2, 0) });
        assert_eq!(elsewhere.reported(), [expected.replace("accepted", "applied")]);
        elsewhere.finals.clear();
        assert_eq!(elsewhere.reported(), NONE);
    }

    #[test]
    fn what_is_stored_remains_whatever_is_lost() {
        let missing = History::ending(&[1]).lost(0, 0, 6);
        let missing = missing.update(update(1, 0, 2, 3).accepted(4).stored(5));
        let expected = "stored, then lost: update 2 of 'k' by session 1 at site 0 (invoked at 3, heard \
                    accepted at 4, heard stored at f + 1 sites at 5) is not in the final list";
        assert_eq!(missing.reported(), [expected]);
    }

    #[test]
    fn order_follows_real_time() {
        let second = update(2, 1, 2, 5);
        let history =
            |first: Update| History::ending(&[2, 3, 1]).update(first).update(second.clone());
        let accepted = history(update(1, 0, 1, 3).accepted(4));
        let expected = "real time violated: update 2 of 'k' by session 2 at site 1 (invoked at 5) is \
                    before update 1 of 'k' by session 1 at site 0 (invoked at 3, heard accepted at \
                    4) in the final list";
        assert_eq!(accepted.reported(), [expected]);
        // An earlier loss changes nothing; a later one may have moved the first update back.
        assert_eq!(accepted.clone().lost(1, 0, 2).reported(), [expected]);
        for at in [3, 4, 5, 9] {
            assert_eq!(accepted.clone().lost(1, 0, at).reported(), NONE);
        }
        let applied = history(update(1, 0, 1, 3).accepted(9).applied(4));
        assert_eq!(applied.reported().len(), 1);
        // The two updates overlap.
        assert_eq!(history(update(1, 0, 1, 3).accepted(5)).reported(), NONE);
        let right = History::ending(&[1, 3, 2]).update(update(1, 0, 1, 3).accepted(4));
        assert_eq!(right.update(second.clone()).reported(), NONE);
        // If there are several, the update whose answer came first is reported.
        let several = accepted.update(update(1, 0, 3, 1).accepted(3));
        assert!(several.reported()[0].contains("before update 3 of"));
    }

    #[test]
    fn order_of_what_is_stored_follows_real_time_whatever_is_lost() {
        let history = |stored| {
            let history = History::ending(&[2, 1]).update(update(2, 1, 2, 5)).lost(1, 0, 6);
            history.update(update(1, 0, 1, 1).accepted(2).stored(stored))
        };
        let expected = "real time of stored updates violated: update 2 of 'k' by session 2 at site 1 \
                    (invoked at 5) is before update 1 of 'k' by session 1 at site 0 (invoked at 1, \
                    heard accepted at 2, heard stored at f + 1 sites at 4) in the final list";
        assert_eq!(history(4).reported(), [expected]);
        assert_eq!(history(5).reported(), NONE);
    }

    #[test]
    fn what_no_recorder_writes_is_judged_without_panics() {
        let mut history = History::ending(&[1, 1, u64::MAX])
            .update(update(1, 0, 1, u64::MAX).accepted(0).applied(0).stored(0))
            .read(read(1, 0, (9, 3), &[u64::MAX, 1, 1]))
            .read(read(1, 0, (u64::MAX, 0), &[]))
            .attached(1, 0, 9, 0)
            .lost(0, 0, u64::MAX)
            .lost(0, 0, 0);
        history.updates.extend(history.updates.clone());
        history.finals.push(ends(0, &[]));
        assert!(!check(&history).is_empty());
        assert_eq!(check(&History::default()), []);
    }
}
