//! Intervals of a counter: tokens, epochs of holders, rights of readers, the floor. This file and
//! `intervals/steps.rs` are the protocol; the numbers of rules are those of `README.md`.

mod exploring;
mod properties;
mod scenarios;
mod steps;

pub use scenarios::{SCENARIOS, TRAPS};

use std::ops::RangeInclusive;

use scenarios::{Rule, Scenario};

pub const SITES: usize = 4;
pub type Site = usize;
/// Number of a version of the record, counted from the oldest that a site may still use.
pub type Version = u8;
/// Number of a grant of tokens to a site.
pub type Epoch = u8;
/// Prefixes of the streams of all sites.
pub type Vector = [u8; SITES];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Increment,
    Decrement,
}
use Kind::{Decrement, Increment};

/// Entry of a site's stream. Other sites receive the entries in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    Update(Kind),
    /// The site has stopped under this epoch and all earlier ones.
    Ended(Epoch),
}

/// Tokens of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grant {
    pub site: Site,
    pub epoch: Epoch,
    /// By `Kind`.
    pub tokens: [u8; 2],
}

/// The right of a site to answer intervals alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reader {
    /// Number of the admission of this site.
    pub term: u8,
    /// What the reader must have seen before it answers.
    pub since: Vector,
    pub sponsor: Site,
    pub version: Version,
}

/// The record that strong transactions read and write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    pub readers: [Option<Reader>; SITES],
    pub grants: Vec<Grant>,
    /// Least value that decrements may leave.
    pub floor: u8,
    /// Higher floor that holders must respect already, and its version.
    pub raise: Option<(u8, Version)>,
    pub removed: Option<Site>,
    /// Version in which the last readers lost the right, until others are founded.
    pub closed: Option<Version>,
    /// Numbers of admissions and epochs so far.
    pub terms: [u8; SITES],
    pub epochs: [Epoch; SITES],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// A token is taken. A restart forgets it.
    Taken,
    /// The guard has promised to allow the commit. The promise is durable.
    Promised,
    /// The coordinator has decided to commit, and may have answered the client.
    Decided,
    /// The guard has lost its promise. Reached without `DurablePromises` alone.
    Lost,
}

/// Transaction with one update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transaction {
    pub kind: Kind,
    pub epoch: Epoch,
    /// Of a decrement: term of the site's right when the token was taken; 0 is none.
    pub term: u8,
    pub phase: Phase,
}

/// What a sponsor reports as seen until its offer to a site has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pin {
    pub seen: Vector,
    pub term: u8,
    /// The offer has ended before this version.
    pub ended: Option<Version>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Versions of the record from the oldest that a site may still use.
    pub history: Vec<Record>,
    /// Version that each site uses, and has confirmed.
    pub copies: [Version; SITES],
    pub streams: [Vec<Entry>; SITES],
    /// Prefixes of the streams that each site has.
    pub known: [Vector; SITES],
    /// Term of the lease that each site holds. `None`: the site's clock shows that it has ended.
    pub leases: [Option<u8>; SITES],
    /// Term of the lease that a site has held when a read began. Used without `CheckAfter` alone.
    pub looked: [Option<u8>; SITES],
    pub transactions: [Vec<Transaction>; SITES],
    pub pins: [Option<Pin>; SITES],
    /// Sum of the updates that were lost when a site was removed.
    pub lost: i16,
    pub updates_left: [u8; 2],
    pub changes_left: u8,
    pub restarts_left: u8,
}

#[derive(Clone)]
pub struct Intervals {
    pub scenario: &'static Scenario,
    pub trap: Option<Rule>,
}

/// Sum of the updates in a piece of a stream.
fn sum(entries: &[Entry]) -> i16 {
    count(entries, Increment) as i16 - count(entries, Decrement) as i16
}

fn count(entries: &[Entry], kind: Kind) -> u8 {
    entries.iter().filter(|entry| **entry == Entry::Update(kind)).count() as u8
}

fn has_ended(entries: &[Entry], epoch: Epoch) -> bool {
    entries.iter().any(|entry| matches!(entry, Entry::Ended(ended) if *ended >= epoch))
}

fn covers(a: Vector, b: Vector) -> bool {
    (0..SITES).all(|site| a[site] >= b[site])
}

impl State {
    pub fn latest(&self) -> &Record {
        &self.history[self.history.len() - 1]
    }

    pub fn copy(&self, site: Site) -> &Record {
        &self.history[usize::from(self.copies[site])]
    }

    /// Returns the part of a stream that a site has.
    pub fn seen(&self, site: Site, origin: Site) -> &[Entry] {
        let stream = &self.streams[origin];
        &stream[..usize::from(self.known[site][origin]).min(stream.len())]
    }
}

impl Intervals {
    pub fn has(&self, rule: Rule) -> bool {
        self.trap != Some(rule)
    }

    pub fn sites(&self) -> std::ops::Range<Site> {
        0..self.scenario.sites
    }

    /// Value at this moment: all that was decided and is not lost.
    pub fn value(&self, state: &State) -> i16 {
        let decided = self.sites().flat_map(|site| &state.transactions[site]);
        let decided = decided.filter(|transaction| transaction.phase == Phase::Decided);
        let decided = decided.map(|transaction| sum(&[Entry::Update(transaction.kind)]));
        let streams = state.streams.iter().map(|stream| sum(stream));
        self.scenario.start + streams.sum::<i16>() + decided.sum::<i16>()
    }

    // Readers.

    /// Value of what a site has. A removed site does not know what was lost.
    fn local_value(&self, state: &State, site: Site) -> i16 {
        let seen = self.sites().map(|origin| sum(state.seen(site, origin)));
        let lost = if state.latest().removed == Some(site) { state.lost } else { 0 };
        self.scenario.start + seen.sum::<i16>() + lost
    }

    /// Returns how many tokens of `holder` a site counts as used by updates that it lacks (R1).
    pub fn counted(&self, state: &State, site: Site, holder: Site, kind: Kind) -> u8 {
        let record = state.copy(site);
        let seen = state.seen(site, holder);
        if record.removed == Some(holder) && seen.len() == state.streams[holder].len() {
            return 0;
        }
        let grants = record.grants.iter().filter(|grant| grant.site == holder);
        let open = grants.filter(|grant| !has_ended(seen, grant.epoch));
        open.map(|grant| grant.tokens[kind as usize]).max().unwrap_or(0)
    }

    fn counted_of_others(&self, state: &State, site: Site, kind: Kind) -> i16 {
        let others = self.sites().filter(|other| *other != site);
        others.map(|other| i16::from(self.counted(state, site, other, kind))).sum()
    }

    /// Returns how many tokens of a kind transactions at the site hold, from a phase on.
    fn in_hand(&self, state: &State, site: Site, kind: Kind, promised: bool) -> u8 {
        let held = state.transactions[site].iter().filter(|transaction| {
            transaction.kind == kind
                && transaction.phase != Phase::Lost
                && !(promised && transaction.phase == Phase::Taken)
        });
        held.count() as u8
    }

    /// The interval that a site would answer (R2).
    pub fn interval(&self, state: &State, site: Site) -> (i16, i16) {
        let value = self.local_value(state, site);
        let of = |kind| {
            let own = self.in_hand(state, site, kind, true);
            let own = if self.has(Rule::CountPromises) { i16::from(own) } else { 0 };
            self.counted_of_others(state, site, kind) + own
        };
        let floor = i16::from(state.copy(site).floor);
        ((value - of(Decrement)).max(floor), value + of(Increment))
    }

    /// Returns the site's right in its copy, if it has seen what it needs (R3).
    pub fn right(&self, state: &State, site: Site) -> Option<Reader> {
        let reader = state.copy(site).readers[site]?;
        let mut since = reader.since;
        if let Some(removed) = state.copy(site).removed {
            since[removed] = since[removed].min(state.streams[removed].len() as u8);
        }
        let ready = covers(state.known[site], since) || !self.has(Rule::SeeSponsorsVector);
        ready.then_some(reader)
    }

    /// Whether a site may answer: its clock shows, after the evaluation, that the lease lasts (R4).
    pub fn may_answer(&self, state: &State, site: Site) -> bool {
        let Some(right) = self.right(state, site) else { return false };
        state.leases[site] == Some(right.term)
            || !self.has(Rule::ReaderLease)
            || !self.has(Rule::CheckAfter) && state.looked[site] == Some(right.term)
    }

    // Holders.

    /// Versions that a reader whom the site counts may use, up to the site's own (H1).
    fn versions(&self, state: &State, site: Site) -> RangeInclusive<usize> {
        let own = usize::from(state.copies[site]);
        let readers = self.sites().filter(|reader| state.copy(site).readers[*reader].is_some());
        let least = readers.map(|reader| usize::from(state.copies[reader])).min();
        let least = least.filter(|_| self.has(Rule::Confirm)).unwrap_or(own);
        least.min(own)..=own
    }

    /// The grant that a site uses: the latest that is in each of these versions and open (H2).
    pub fn usable(&self, state: &State, site: Site) -> Option<Grant> {
        let versions = self.versions(state, site);
        let grants = state.copy(site).grants.iter().filter(|grant| {
            grant.site == site
                && !has_ended(&state.streams[site], grant.epoch)
                && versions.clone().all(|version| state.history[version].grants.contains(grant))
        });
        grants.max_by_key(|grant| grant.epoch).copied()
    }

    /// The floor that decrements of a site must respect: the highest of these versions (H3).
    fn effective_floor(&self, state: &State, site: Site) -> i16 {
        let floors = self.versions(state, site).map(|version| {
            let record = &state.history[version];
            let raise = record.raise.filter(|_| self.has(Rule::RespectRaise));
            record.floor.max(raise.map_or(0, |(floor, _)| floor))
        });
        let own = state.copy(site).floor;
        let floor = floors.max().filter(|_| self.has(Rule::ConfirmFloor)).unwrap_or(own);
        i16::from(floor)
    }

    /// Returns how much of a stream a site reports as seen to the holder of the stream (R5).
    fn report(&self, state: &State, site: Site, holder: Site) -> u8 {
        let mut seen = self.pinned(state, site)[holder];
        // Sites that the holder does not count yet, because it has not confirmed their admission.
        let unconfirmed = usize::from(state.copies[holder]) + 1..=usize::from(state.copies[site]);
        for version in unconfirmed.filter(|_| self.has(Rule::CapReports)) {
            for reader in state.history[version].readers.iter().flatten() {
                let admitted = reader.sponsor == site && usize::from(reader.version) == version;
                let remains = state.copy(site).readers.iter().flatten().any(|now| now == reader);
                if admitted && (remains || self.has(Rule::CapUntilConfirmed)) {
                    seen = seen.min(reader.since[holder]);
                }
            }
        }
        seen
    }

    /// What a site reports as seen to everybody.
    fn pinned(&self, state: &State, site: Site) -> Vector {
        let pin = state.pins[site].filter(|_| self.has(Rule::PinReports));
        pin.map_or(state.known[site], |pin| pin.seen)
    }

    /// Returns the updates of a site that a reader whom it counts may lack (H4).
    fn unseen<'a>(&self, state: &'a State, site: Site) -> &'a [Entry] {
        let stream = &state.streams[site];
        let readers = self.sites().filter(|reader| state.copy(site).readers[*reader].is_some());
        let readers = readers.filter(|_| self.has(Rule::Recycling));
        let least = readers.map(|reader| usize::from(self.report(state, reader, site))).min();
        &stream[least.unwrap_or(stream.len()).min(stream.len())..]
    }

    /// Returns how many tokens of a kind are free under a grant.
    pub fn free(&self, state: &State, grant: Grant, kind: Kind) -> u8 {
        let unseen = self.unseen(state, grant.site);
        let mut used = count(unseen, kind);
        if !self.has(Rule::SeparatePools) {
            let other = if kind == Increment { Decrement } else { Increment };
            used = used.saturating_sub(count(unseen, other));
        }
        let used = used + self.in_hand(state, grant.site, kind, false);
        grant.tokens[kind as usize].saturating_sub(used)
    }

    /// Whether one more decrement leaves the floor, whatever others do with their tokens (H5).
    fn fits_floor(&self, state: &State, site: Site) -> bool {
        self.least_value(state, site) > self.effective_floor(state, site) || !self.has(Rule::Floor)
    }

    /// The least value that all tokens that may be in use permit.
    fn least_value(&self, state: &State, site: Site) -> i16 {
        self.local_value(state, site)
            - self.counted_of_others(state, site, Decrement)
            - i16::from(self.in_hand(state, site, Decrement, false))
    }

    // The record.

    /// All tokens of a record: the greatest width of an interval.
    fn total(&self, record: &Record) -> u8 {
        let of = |site, kind: Kind| {
            let grants = record.grants.iter().filter(|grant| grant.site == site);
            grants.map(|grant| grant.tokens[kind as usize]).max().unwrap_or(0)
        };
        self.sites().map(|site| of(site, Increment) + of(site, Decrement)).sum()
    }

    /// Whether all tokens fit the floor (S1).
    fn fits(&self, record: &Record) -> bool {
        self.total(record) <= tolerated(record.floor.into()) as u8 || !self.has(Rule::Capacity)
    }
}

/// Width that the tolerance allows for a value: a quarter.
pub fn tolerated(value: i16) -> i16 {
    value.max(0) / 4
}
