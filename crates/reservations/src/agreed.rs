//! The record on which the sites agree by strong transactions: readers, grants, floors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use solera_time::SiteId;

use crate::numbers::{Epoch, Nonce, Position, Term, Tokens, Version};

/// Name of a counter.
pub type Key = Vec<u8>;

/// Right of a site to answer intervals alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reader {
    /// Number of the admission.
    pub term: Term,
    /// Prefixes of all streams that the site must have before it answers.
    pub since: Vec<Position>,
    /// Reader that has offered them.
    pub sponsor: SiteId,
    /// Version with the admission.
    pub admitted: Version,
    /// Number of renewals in this term.
    pub renewals: u64,
}

/// Tokens of a site for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The holder.
    pub site: SiteId,
    /// Its number.
    pub epoch: Epoch,
    /// The tokens.
    pub tokens: Tokens,
    /// Version that has added it.
    pub version: Version,
}

/// Agreed state of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRecord {
    /// All grants that were not reclaimed.
    pub grants: Vec<Grant>,
    /// Least value that decrements may leave; `None` if every value is allowed.
    pub floor: Option<i64>,
    /// Proposed higher floor, which decrements respect already, and the version with the proposal.
    pub raise: Option<(i64, Version)>,
    /// Last epoch of each site.
    pub epochs: BTreeMap<SiteId, Epoch>,
    /// Version of the last change that took effect.
    pub changed: Version,
}

/// Removal of a site as a holder (S6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// Generation of the site that was removed.
    pub generation: u32,
    /// Prefix that remains of its stream.
    pub upto: Position,
    /// Version with the removal.
    pub version: Version,
    /// Version since which a later generation of the site takes part.
    pub returned: Option<Version>,
}

/// A change of the record by a strong transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// A reader renews its right.
    Renew {
        /// The reader.
        site: SiteId,
        /// Its term.
        term: Term,
        /// Identifies the request.
        nonce: Nonce,
    },
    /// A reader loses its right (S3).
    Exclude {
        /// The reader.
        site: SiteId,
        /// Its term.
        term: Term,
    },
    /// A site gets the right (S4).
    Admit {
        /// The site.
        site: SiteId,
        /// Its new term.
        term: Term,
        /// Prefixes that it must have seen.
        since: Vec<Position>,
        /// The reader that has offered this.
        sponsor: SiteId,
        /// Identifies the request.
        nonce: Nonce,
    },
    /// A site is removed as a holder (S6).
    Remove {
        /// The site, which is no reader.
        site: SiteId,
        /// Its generation.
        generation: u32,
        /// Prefix that remains of its stream.
        upto: Position,
    },
    /// A later generation of a removed site takes part again, without any grant of the earlier
    /// ones.
    Return {
        /// The site.
        site: SiteId,
        /// Its generation.
        generation: u32,
    },
    /// All readers lose the right, because none is left that could exclude the others (S7).
    Close {
        /// The readers.
        readers: Vec<SiteId>,
    },
    /// Sites get the right, when no token is left that somebody may use (S7).
    Found {
        /// The sites.
        readers: Vec<SiteId>,
        /// Prefixes that each of them must have seen.
        since: Vec<Position>,
    },
    /// A site gets tokens (S1).
    Grant {
        /// The key.
        key: Key,
        /// The site.
        site: SiteId,
        /// Number of the grant.
        epoch: Epoch,
        /// The tokens.
        tokens: Tokens,
    },
    /// A grant is removed (S2).
    Reclaim {
        /// The key.
        key: Key,
        /// The holder.
        site: SiteId,
        /// Number of the grant.
        epoch: Epoch,
    },
    /// A higher floor is proposed (S5).
    Propose {
        /// The key.
        key: Key,
        /// The floor.
        floor: i64,
    },
    /// The proposed floor is put in force (S5).
    Raise {
        /// The key.
        key: Key,
    },
    /// The floor falls, and a proposal ends (S5).
    Lower {
        /// The key.
        key: Key,
        /// The floor.
        floor: Option<i64>,
    },
}

/// An item of the record. A change has no effect if an item on which it depends was changed after
/// the version from which it was derived.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    /// The readers, without the numbers of their renewals.
    Readers,
    /// The number of renewals of a reader.
    Renewals(SiteId),
    /// Whether there are no readers. Grants depend on it.
    Closed,
    /// A key.
    Key(Key),
}

/// Versions of the last changes of items that took effect, without those of keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Version of the last change of the readers, without the numbers of their renewals.
    pub readers: Version,
    /// Version of the last change of whether there are no readers.
    pub closed: Version,
    /// Version of the last change of the number of renewals of each site.
    pub renewals: Vec<Version>,
}

/// A version of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// The version.
    pub version: Version,
    /// The readers, by site.
    pub readers: Vec<Option<Reader>>,
    /// Number of admissions of each site.
    pub terms: Vec<Term>,
    /// Version in which the last readers lost the right, until others are founded.
    pub closed: Option<Version>,
    /// The last removal of each site that was removed.
    pub removed: BTreeMap<SiteId, Removal>,
    /// Versions of the last changes.
    pub changed: Changed,
    /// Keys with grants or a floor.
    pub keys: BTreeMap<Key, KeyRecord>,
}

impl KeyRecord {
    /// Returns the highest floor that decrements must respect in this version.
    pub fn respected(&self) -> Option<i64> {
        self.floor.max(self.raise.map(|(floor, _)| floor))
    }

    /// Returns the sum of the most tokens of each site and kind (S1), as if `added` was granted to
    /// a site as well.
    pub fn total_with(&self, added: Option<(SiteId, Tokens)>) -> u128 {
        let mut most: BTreeMap<SiteId, Tokens> = BTreeMap::new();
        let granted = self.grants.iter().map(|grant| (grant.site, grant.tokens));
        for (site, tokens) in granted.chain(added) {
            let of_site = most.entry(site).or_default();
            *of_site = of_site.most(tokens);
        }
        most.values().map(Tokens::total).sum()
    }

    /// Returns whether the site of a grant would have fewer tokens without it (S1).
    pub(crate) fn counts(&self, grant: &Grant) -> bool {
        let of_site = self.grants.iter().filter(|it| it.site == grant.site);
        let others = of_site.filter(|it| it.epoch != grant.epoch);
        let others = others.fold(Tokens::default(), |most, it| most.most(it.tokens));
        !others.covers(grant.tokens)
    }
}

impl Change {
    /// Returns the key that it changes.
    pub fn key(&self) -> Option<&Key> {
        match self {
            Change::Renew { .. }
            | Change::Exclude { .. }
            | Change::Admit { .. }
            | Change::Remove { .. }
            | Change::Return { .. }
            | Change::Close { .. }
            | Change::Found { .. } => None,
            Change::Grant { key, .. }
            | Change::Reclaim { key, .. }
            | Change::Propose { key, .. }
            | Change::Raise { key }
            | Change::Lower { key, .. } => Some(key),
        }
    }

    /// Returns the items on which the change depends.
    pub(crate) fn reads(&self) -> Vec<Item> {
        match self {
            Change::Renew { site, .. } | Change::Exclude { site, .. } => {
                vec![Item::Readers, Item::Renewals(*site)]
            }
            Change::Admit { sponsor, .. } => vec![Item::Readers, Item::Renewals(*sponsor)],
            Change::Remove { .. } | Change::Return { .. } => vec![Item::Readers],
            Change::Close { readers } => {
                let renewals = readers.iter().map(|site| Item::Renewals(*site));
                [Item::Readers, Item::Closed].into_iter().chain(renewals).collect()
            }
            Change::Found { .. } => vec![Item::Readers, Item::Closed],
            Change::Grant { key, .. } => vec![Item::Closed, Item::Key(key.clone())],
            Change::Reclaim { key, .. } | Change::Raise { key } => {
                vec![Item::Readers, Item::Key(key.clone())]
            }
            Change::Propose { key, .. } | Change::Lower { key, .. } => {
                vec![Item::Key(key.clone())]
            }
        }
    }

    /// Returns the items that it changes. [`Found`](Self::Found) removes all grants as
    /// well. Grants depend on [`Item::Closed`] for this reason, and no other change of a key
    /// conflicts with their removal.
    pub(crate) fn writes(&self) -> Vec<Item> {
        match self {
            Change::Renew { site, .. } => vec![Item::Renewals(*site)],
            Change::Exclude { .. }
            | Change::Admit { .. }
            | Change::Remove { .. }
            | Change::Return { .. } => vec![Item::Readers],
            Change::Close { .. } | Change::Found { .. } => vec![Item::Readers, Item::Closed],
            Change::Grant { key, .. }
            | Change::Reclaim { key, .. }
            | Change::Propose { key, .. }
            | Change::Raise { key }
            | Change::Lower { key, .. } => vec![Item::Key(key.clone())],
        }
    }
}

impl Agreed {
    /// Returns the first version: the sites with which the cluster began are readers.
    pub fn new(sites: usize, founders: usize) -> Agreed {
        let reader = |site| Reader {
            term: Term(1),
            since: vec![Position(0); sites],
            sponsor: site,
            admitted: Version(0),
            renewals: 0,
        };
        Agreed {
            version: Version(0),
            readers: SiteId::all(sites)
                .map(|site| (site.index() < founders).then(|| reader(site)))
                .collect(),
            terms: (0..sites).map(|site| Term(u64::from(site < founders))).collect(),
            closed: None,
            removed: BTreeMap::new(),
            changed: Changed { renewals: vec![Version(0); sites], ..Changed::default() },
            keys: BTreeMap::new(),
        }
    }

    /// Returns the version of the last change of an item that took effect.
    fn changed(&self, item: &Item) -> Version {
        match item {
            Item::Readers => self.changed.readers,
            Item::Closed => self.changed.closed,
            Item::Renewals(site) => {
                self.changed.renewals.get(site.index()).copied().unwrap_or_default()
            }
            Item::Key(key) => self.keys.get(key).map_or(Version(0), |record| record.changed),
        }
    }

    /// Returns whether a change that was derived from the version `read` takes effect: nothing on
    /// which it depends was changed since then. All sites apply the same changes in the same order,
    /// so that all of them decide alike.
    pub fn takes_effect(&self, read: Version, change: &Change) -> bool {
        change.reads().iter().all(|item| self.changed(item) <= read)
    }

    /// Applies the next change, if it takes effect. Returns whether it does.
    pub fn apply(&mut self, version: Version, read: Version, change: &Change) -> bool {
        let effective = self.takes_effect(read, change);
        self.version = version;
        if effective {
            self.apply_to_readers(version, change);
            self.apply_to_key(version, change);
            if matches!(change, Change::Found { .. }) {
                self.clear_grants(|_| true);
            }
        }
        effective
    }

    /// Notes the last change of the items without a key.
    fn note_readers(&mut self, version: Version, change: &Change) {
        for item in change.writes() {
            match item {
                Item::Readers => self.changed.readers = version,
                Item::Closed => self.changed.closed = version,
                Item::Renewals(site) => {
                    if let Some(changed) = self.changed.renewals.get_mut(site.index()) {
                        *changed = version;
                    }
                }
                Item::Key(_) => {}
            }
        }
    }

    /// Returns the right of a site, if it has one.
    pub fn reader(&self, site: SiteId) -> Option<&Reader> {
        self.readers.get(site.index())?.as_ref()
    }

    /// Returns what remains of the stream of a removed site; `None` if it takes part.
    pub fn remains(&self, site: SiteId) -> Option<Position> {
        let removal = self.removed.get(&site)?;
        removal.returned.is_none().then_some(removal.upto)
    }

    /// Returns whether a grant belongs to a removed generation of its holder. That generation may
    /// have requested it before its removal, with an effect up to the return of the site.
    pub fn is_over(&self, grant: &Grant) -> bool {
        let removal = self.removed.get(&grant.site);
        removal.is_some_and(|it| it.returned.is_none_or(|returned| grant.version < returned))
    }

    /// Returns whether a generation of a site was removed as a holder.
    pub fn is_removed(&self, site: SiteId, generation: u32) -> bool {
        self.removed.get(&site).is_some_and(|removal| removal.generation >= generation)
    }

    /// Returns the sites with the right.
    pub fn reader_sites(&self) -> impl Iterator<Item = SiteId> + '_ {
        SiteId::all(self.readers.len()).filter(|site| self.reader(*site).is_some())
    }

    /// Changes the readers to the next version. Numbers beyond the cluster have no effect.
    pub(crate) fn apply_to_readers(&mut self, version: Version, change: &Change) {
        self.version = version;
        self.note_readers(version, change);
        match change {
            Change::Renew { site, term, .. } => {
                let reader = self.readers.get_mut(site.index()).and_then(Option::as_mut);
                if let Some(reader) = reader.filter(|reader| reader.term == *term) {
                    reader.renewals += 1;
                }
            }
            Change::Exclude { site, term } => {
                let right = self.readers.get_mut(site.index());
                if let Some(right) = right
                    && right.as_ref().is_some_and(|reader| reader.term == *term)
                {
                    *right = None;
                }
            }
            Change::Admit { site, term, since, sponsor, .. } => {
                let place = site.index();
                if place < self.readers.len() && since.len() <= self.readers.len() {
                    self.terms[place] = *term;
                    self.readers[place] = Some(Reader {
                        term: *term,
                        since: since.clone(),
                        sponsor: *sponsor,
                        admitted: version,
                        renewals: 0,
                    });
                }
            }
            Change::Remove { site, generation, upto } if !self.is_removed(*site, *generation) => {
                let (generation, upto) = (*generation, *upto);
                let removal = Removal { generation, upto, version, returned: None };
                self.removed.insert(*site, removal);
            }
            Change::Return { site, generation } => {
                if let Some(removal) = self.removed.get_mut(site)
                    && removal.generation < *generation
                {
                    removal.returned.get_or_insert(version);
                }
            }
            Change::Close { .. } => {
                self.readers.fill(None);
                self.closed = Some(version);
            }
            Change::Found { readers, since } => self.found(version, readers, since),
            _ => {}
        }
    }

    fn found(&mut self, version: Version, readers: &[SiteId], since: &[Position]) {
        self.closed = None;
        for site in readers {
            let (Some(term), Some(right)) =
                (self.terms.get_mut(site.index()), self.readers.get_mut(site.index()))
            else {
                continue;
            };
            *term = Term(term.0.saturating_add(1));
            let (term, since) = (*term, since.to_vec());
            *right = Some(Reader { term, since, sponsor: *site, admitted: version, renewals: 0 });
        }
    }

    /// Removes all grants of keys that fulfil a condition.
    pub(crate) fn clear_grants(&mut self, of: impl Fn(&Key) -> bool) {
        for (_, record) in self.keys.iter_mut().filter(|(key, _)| of(key)) {
            record.grants.clear();
        }
    }

    /// Returns the sites that may have tokens or the right, without removed ones.
    pub fn participants(&self) -> Vec<SiteId> {
        let granted = |site: SiteId| {
            let mut grants = self.keys.values().flat_map(|record| &record.grants);
            grants.any(|grant| grant.site == site)
        };
        let takes_part = |site: &SiteId| {
            let term = self.terms.get(site.index()).copied().unwrap_or_default();
            self.remains(*site).is_none() && (term > Term(0) || granted(*site))
        };
        SiteId::all(self.readers.len()).filter(takes_part).collect()
    }

    /// Changes a key to the next version.
    pub(crate) fn apply_to_key(&mut self, version: Version, change: &Change) {
        self.version = version;
        let Some(key) = change.key() else { return };
        let record = self.keys.entry(key.clone()).or_default();
        record.changed = version;
        match change {
            Change::Grant { site, epoch, tokens, .. } => {
                let (site, epoch, tokens) = (*site, *epoch, *tokens);
                record.epochs.insert(site, epoch);
                record.grants.push(Grant { site, epoch, tokens, version });
            }
            Change::Reclaim { site, epoch, .. } => {
                record.grants.retain(|grant| grant.site != *site || grant.epoch != *epoch);
            }
            Change::Propose { floor, .. } => record.raise = Some((*floor, version)),
            Change::Raise { .. } => {
                let raise = record.raise.take().map(|(floor, _)| floor);
                record.floor = record.floor.max(raise);
            }
            Change::Lower { floor, .. } => {
                record.floor = *floor;
                record.raise = None;
            }
            Change::Renew { .. }
            | Change::Exclude { .. }
            | Change::Admit { .. }
            | Change::Remove { .. }
            | Change::Return { .. }
            | Change::Close { .. }
            | Change::Found { .. } => {}
        }
    }
}
