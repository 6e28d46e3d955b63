//! A partition at a site: what the site has, and the rules by which it reads and takes tokens. The
//! letters of rules are those of `docs/models/reservations`.

mod activity;
mod closing;
mod expiries;
mod filling;
mod grants;
mod holdings;
mod inputs;
mod parts;
mod requests;
mod right;
mod rights;
mod spending;
mod timer;
mod wishes;

use std::collections::{BTreeMap, BTreeSet};

use solera_machine::PartitionId;
use solera_membership::Members;
use solera_time::{Monotonic, SiteId};

use self::activity::Activity;
use self::filling::Filling;
use self::right::Right;
use crate::agreed::{Agreed, Grant, Key, KeyRecord, Reader};
use crate::command::Cannot;
use crate::config::{Config, Rule};
use crate::counter::Counter;
use crate::counts::Holdings;
use crate::numbers::{Epoch, Kind, Position, Term, Tokens, Version};
use crate::record::{Pin, Sponsored};
use crate::spent::Spent;

/// Last report of another site.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    version: Version,
    seen: Vec<Position>,
    /// See [`Body::Report`](crate::message::Body::Report).
    ended: Option<(Version, Position)>,
}

impl Heard {
    fn nothing(sites: usize) -> Heard {
        Heard { version: Version(0), seen: vec![Position(0); sites], ended: None }
    }
}

/// The state of a partition.
#[derive(Debug)]
pub(crate) struct Partition {
    id: PartitionId,
    me: SiteId,
    /// The site's copy of the record.
    pub(crate) agreed: Agreed,
    /// Prefixes of all streams that the site has.
    pub(crate) known: Vec<Position>,
    pub(crate) pin: Option<Pin>,
    pub(crate) sponsored: Vec<Sponsored>,
    pub(crate) counters: BTreeMap<Key, Counter>,
    /// Reports of the other sites, by site.
    heard: Vec<Heard>,
    right: Right,
    /// The list of sites.
    members: Members,
    pub(crate) filling: Filling,
    /// Updates that have used tokens without a promise and that are not in the site's stream yet,
    /// by position.
    spent: BTreeMap<Position, Vec<Spent>>,
    /// Keys for which a client or a guard waits.
    waiting: BTreeSet<Key>,
    /// Keys for which the timer has something to do, by time.
    due: BTreeSet<(Monotonic, Key)>,
    /// Number of keys that the timer has looked after so far.
    pub(crate) visits: u64,
    next_report: Option<Monotonic>,
    /// When the site last reported to each other one.
    reported_at: BTreeMap<SiteId, Monotonic>,
    /// When the site reports next to each other one that waits for it.
    report_at: BTreeMap<SiteId, Monotonic>,
    /// Keys that are visited before the next tick of the timer.
    soon: BTreeSet<Key>,
    activity: Activity,
    /// Sums of what the site holds of all keys.
    pub(crate) holdings: Holdings,
}

impl Partition {
    pub(crate) fn new(id: PartitionId, config: &Config) -> Partition {
        let sites = config.sites();
        let heard = Heard::nothing(sites);
        Partition {
            id,
            me: config.me(),
            agreed: Agreed::new(sites, config.founders),
            known: vec![Position(0); sites],
            pin: None,
            sponsored: Vec::new(),
            counters: BTreeMap::new(),
            heard: vec![heard; sites],
            right: Right::new(sites),
            members: Members::at_start(sites, config.founders, config.me(), config.generation),
            filling: Filling::new(config.generation == 0),
            spent: BTreeMap::new(),
            waiting: BTreeSet::new(),
            due: BTreeSet::new(),
            visits: 0,
            next_report: None,
            reported_at: BTreeMap::new(),
            report_at: BTreeMap::new(),
            soon: BTreeSet::new(),
            activity: Activity::default(),
            holdings: Holdings::default(),
        }
    }

    /// Restores a stop of an epoch.
    pub(crate) fn restore_stop(&mut self, key: &Key, epoch: Epoch) {
        let counter = self.counter(key);
        counter.stopped = epoch.max(counter.stopped);
    }

    /// Looks after all keys with grants of the site or a proposed floor from now on.
    pub(crate) fn after_recovery(&mut self, config: &Config) {
        self.count_holdings(config);
        let mine = |record: &KeyRecord| record.grants.iter().any(|grant| grant.site == self.me);
        let is_its = |record: &KeyRecord| mine(record) || record.raise.is_some();
        let granted = self.agreed.keys.iter().filter(|(_, record)| is_its(record));
        for key in granted.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.visit_at(Monotonic(0), &key);
        }
    }

    /// Returns the sites other than this one, without those that were removed.
    fn others(&self) -> impl Iterator<Item = SiteId> + '_ {
        let is_other = |site: &SiteId| *site != self.me && self.agreed.remains(*site).is_none();
        SiteId::all(self.known.len()).filter(is_other)
    }

    fn record(&self, key: &[u8]) -> Option<&KeyRecord> {
        self.agreed.keys.get(key)
    }

    fn floor(&self, key: &[u8]) -> Option<i64> {
        self.record(key).and_then(|record| record.floor)
    }

    fn counter(&mut self, key: &[u8]) -> &mut Counter {
        if !self.counters.contains_key(key) {
            self.counters.insert(key.to_vec(), Counter::default());
        }
        self.counters.get_mut(key).expect("it was inserted")
    }

    // Readers.

    /// Returns how many tokens of a holder the site counts as used by updates that it lacks (R1).
    fn counted(&self, config: &Config, key: &[u8], holder: SiteId) -> Tokens {
        let removal = self.agreed.removed.get(&holder);
        let has_rest = removal.is_some_and(|it| self.known[holder.index()] >= it.upto)
            || !config.has(Rule::CountUntilCut);
        let Some(record) = self.record(key) else { return Tokens::default() };
        let ended = self.counters.get(key).map_or(Epoch(0), |counter| counter.last_end(holder));
        let open = record.grants.iter().filter(|it| it.site == holder && it.epoch > ended);
        let open = open.filter(|it| !(has_rest && self.agreed.is_over(it)));
        open.fold(Tokens::default(), |most, grant| most.most(grant.tokens))
    }

    fn counted_of_others(&self, config: &Config, key: &[u8], kind: Kind) -> i128 {
        let others = SiteId::all(self.known.len()).filter(|site| *site != self.me);
        others.map(|site| i128::from(self.counted(config, key, site).get(kind))).sum()
    }

    fn value(&self, key: &[u8]) -> i128 {
        self.counters.get(key).map_or(0, |counter| counter.value)
    }

    /// Returns the least and the greatest value that the counter may have (R2).
    pub(crate) fn interval(&self, config: &Config, key: &[u8]) -> (i128, i128) {
        let value = self.value(key);
        let own = self.counters.get(key).map_or(Tokens::default(), Counter::promised_tokens);
        let own = if config.has(Rule::CountPromises) { own } else { Tokens::default() };
        let of = |kind| self.counted_of_others(config, key, kind) + i128::from(own.get(kind));
        let least = value - of(Kind::Decrement);
        let least = self.floor(key).map_or(least, |floor| least.max(floor.into()));
        (least, value + of(Kind::Increment))
    }

    /// Returns the site's right, if it has seen what it needs (R3).
    pub(crate) fn ready(&self, config: &Config) -> Result<&Reader, Cannot> {
        if !self.filling.is_filled() {
            return Err(Cannot::Behind);
        }
        let Some(reader) = self.agreed.reader(self.me) else {
            return Err(Cannot::NotReader { readers: self.agreed.reader_sites().collect() });
        };
        if self.is_ready(config) { Ok(reader) } else { Err(Cannot::Behind) }
    }

    /// Returns whether the site has a right, and has seen what it needs (R3).
    pub(crate) fn is_ready(&self, config: &Config) -> bool {
        let reader = self.agreed.reader(self.me);
        let filled = self.filling.is_filled();
        reader.filter(|_| filled).is_some_and(|reader| {
            self.has_seen(&reader.since) || !config.has(Rule::SeeSponsorsVector)
        })
    }

    /// Returns whether the site has these prefixes, as far as they remain.
    fn has_seen(&self, since: &[Position]) -> bool {
        SiteId::all(self.known.len()).zip(since).all(|(site, since)| {
            let remains = self.agreed.remains(site).unwrap_or(*since);
            self.known[site.index()] >= remains.min(*since)
        })
    }

    /// Returns whether the site's lease lasts at a reading of its clock (R4).
    fn is_leased(&self, term: Term, now: Monotonic) -> bool {
        self.right.lease.is_some_and(|lease| lease.term == term && now < lease.until)
    }

    /// Returns the interval that the site answers at a reading of its clock (R3, R4).
    fn answer(&self, config: &Config, now: Monotonic, key: &[u8]) -> Result<(i64, i64), Cannot> {
        let reader = self.ready(config)?;
        if !self.is_leased(reader.term, now) && config.has(Rule::ReaderLease) {
            return Err(Cannot::NoLease);
        }
        let (least, greatest) = self.interval(config, key);
        let width = config.policy(key).map_or(0, |policy| policy.width(least, greatest));
        let bounds = (clamped(least), clamped(greatest));
        if greatest.abs_diff(least) > width && config.has(Rule::Width) {
            return Err(Cannot::TooWide { least: bounds.0, greatest: bounds.1 });
        }
        fitting(least, greatest)
    }

    // Holders.

    /// Returns the oldest version that a reader whom the site counts may use (H1).
    fn oldest(&self, config: &Config) -> Version {
        let own = self.agreed.version;
        let confirmed = self.agreed.reader_sites().filter(|site| *site != self.me);
        let confirmed = confirmed.map(|site| self.heard[site.index()].version);
        let oldest = confirmed.min().filter(|_| config.has(Rule::Confirm)).unwrap_or(own);
        oldest.min(own)
    }

    /// Returns the last epoch under which the site gives no promises any more.
    fn stopped(&self, key: &[u8]) -> Epoch {
        let Some(counter) = self.counters.get(key) else { return Epoch(0) };
        counter.stopped.max(counter.last_end(self.me))
    }

    /// Returns the site's grants under which it has not stopped.
    fn open_grants(&self, key: &[u8]) -> impl Iterator<Item = Grant> + '_ {
        let stopped = self.stopped(key);
        let grants = self.record(key).map_or(&[][..], |record| &record.grants);
        let own = grants.iter().filter(move |it| it.site == self.me && it.epoch > stopped);
        own.filter(|it| !self.agreed.is_over(it)).copied()
    }

    /// Returns the grant that the site uses (H2).
    fn usable(&self, config: &Config, key: &[u8]) -> Option<Grant> {
        let oldest = self.oldest(config);
        let confirmed = self.open_grants(key).filter(|grant| grant.version <= oldest);
        confirmed.max_by_key(|grant| grant.epoch)
    }

    /// Returns the floor that decrements of the site respect: the highest of all versions that a
    /// reader may use (H3).
    fn respected_floor(&self, config: &Config, key: &[u8]) -> Option<i64> {
        if !config.has(Rule::ConfirmFloor) {
            return self.floor(key);
        }
        let oldest = self.oldest(config);
        let floors = self.counters.get(key).map_or(&[][..], |counter| &counter.floors);
        let first = floors.iter().rposition(|(version, _)| *version <= oldest).unwrap_or(0);
        floors[first..].iter().map(|(_, floor)| *floor).max().flatten()
    }

    /// Returns the least value that all tokens that may be in use permit (H5).
    fn least_value(&self, config: &Config, key: &[u8]) -> i128 {
        let own = self.counters.get(key).map_or(Tokens::default(), Counter::in_hand);
        let counted = self.counted_of_others(config, key, Kind::Decrement);
        self.value(key) - counted - i128::from(own.decrements)
    }

    /// Returns the tokens of the site that are free under a grant (H4).
    fn free(&self, config: &Config, key: &[u8], grant: Grant) -> Tokens {
        let Some(counter) = self.counters.get(key) else { return grant.tokens };
        let mut unseen = counter.unseen_tokens();
        if !config.has(Rule::SeparatePools) {
            let (increments, decrements) = (unseen.increments, unseen.decrements);
            unseen = unseen.minus(Tokens { increments: decrements, decrements: increments });
        }
        grant.tokens.minus(unseen).minus(counter.in_hand())
    }

    // Reports.

    /// Returns what the site reports as seen to everybody (R5).
    fn pinned(&self, config: &Config) -> &[Position] {
        let pin = self.pin.as_ref().filter(|_| config.has(Rule::PinReports));
        pin.map_or(&self.known, |pin| &pin.seen)
    }

    /// Returns what the site reports as seen to a site, which may not count a site yet that this
    /// one has sponsored (R5). Also returns whether that makes a difference.
    fn report_to(&self, config: &Config, to: SiteId) -> (Vec<Position>, bool) {
        let mut seen = self.pinned(config).to_vec();
        let confirmed = self.heard[to.index()].version;
        let unconfirmed = self.sponsored.iter().filter(|it| it.version > confirmed);
        for sponsored in unconfirmed.filter(|_| config.has(Rule::CapReports)) {
            let now = self.agreed.reader(sponsored.site);
            let remains = now.is_some_and(|reader| reader.admitted == sponsored.version);
            if remains || config.has(Rule::CapUntilConfirmed) {
                for (seen, since) in seen.iter_mut().zip(&sponsored.since) {
                    *seen = (*seen).min(*since);
                }
            }
        }
        let capped = seen != self.pinned(config);
        (seen, capped)
    }

    /// Returns the prefix of a stream that all readers have reported as seen.
    fn seen_by_readers(&self, config: &Config, origin: SiteId) -> Position {
        let place = origin.index();
        let seen = self.agreed.reader_sites().map(|site| match site == self.me {
            true => self.pinned(config)[place],
            false => self.heard[site.index()].seen[place],
        });
        seen.min().unwrap_or(self.known[place])
    }

    /// Removes from `unseen` what all readers have seen (H4).
    fn recycle(&mut self, config: &Config, key: &[u8]) {
        let seen = match config.has(Rule::Recycling) {
            true => self.seen_by_readers(config, self.me),
            false => self.known[self.me.index()],
        };
        if let Some(counter) = self.counters.get_mut(key) {
            counter.recycle(seen);
        }
    }
}

/// Returns bounds as numbers of 64 bits. Others would not contain the value.
fn fitting(least: i128, greatest: i128) -> Result<(i64, i64), Cannot> {
    let fits = |bound| i64::try_from(bound).map_err(|_| Cannot::OutOfRange);
    Ok((fits(least)?, fits(greatest)?))
}

fn clamped(value: i128) -> i64 {
    let limit = if value < 0 { i64::MIN } else { i64::MAX };
    i64::try_from(value).unwrap_or(limit)
}
