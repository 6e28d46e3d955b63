//! UniStore's Properties 1–7 as assertions during a run, on plain data. Strong transactions have an
//! origin of their own, [`Origin::Strong`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::history::{Origin, Witness};

/// The vectors of all replicas at one moment. Missing entries count as zero.
#[derive(Clone, Debug, Default)]
pub struct Vectors {
    /// `known_vec[site][partition]`.
    pub known_vec: Vec<Vec<Vec<u64>>>,
    /// `stable_vec[site]`, one per worker.
    pub stable_vec: Vec<Vec<Vec<u64>>>,
    /// `uniform_vec[site]`, one per worker.
    pub uniform_vec: Vec<Vec<Vec<u64>>>,
    /// The strong entries of `known_vec[site][partition]`.
    pub known_strong: Vec<Vec<u64>>,
    /// The strong entries of `stable_vec[site]`, one per worker.
    pub stable_strong: Vec<Vec<u64>>,
}

/// An operation of a strong transaction that may conflict with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The key.
    pub key: String,
    /// Whether it changes the key; later conflicting operations must then have observed it.
    pub update: bool,
    /// The kind of operation, below 64.
    pub kind: u8,
    /// The kinds with which it conflicts, one bit each. Two operations conflict if one of them
    /// declares the conflict.
    pub conflicts: u64,
}

impl Access {
    fn conflicts_with(&self, other: &Access) -> bool {
        let names = |mask: u64, kind: u8| mask.checked_shr(kind.into()).is_some_and(|m| m & 1 == 1);
        names(self.conflicts, other.kind) || names(other.conflicts, self.kind)
    }
}

/// A violation of a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Property 1, or 6 for strong transactions: a replica claims to know a prefix and lacks a
    /// transaction of it.
    Known {
        /// The replica's site and partition.
        replica: (usize, usize),
        /// The missing transaction's origin and time.
        origin: Origin,
        /// Time of the missing transaction.
        time: u64,
    },
    /// Property 2, or 7 for strong transactions: a site claims to store a transaction that one of
    /// its replicas lacks.
    Stable {
        /// The site.
        site: usize,
        /// The replica's partition.
        partition: usize,
        /// The origin of the entry.
        origin: Origin,
    },
    /// Property 3: fewer than `f + 1` sites store everything that an entry of `uniform_vec` claims.
    Uniform {
        /// The site.
        site: usize,
        /// The origin of the entry.
        origin: usize,
    },
    /// Property 4: a transaction within `uniform_vec` is not stored at `f + 1` sites.
    NotUniform {
        /// The site of the vector.
        site: usize,
        /// The transaction's site.
        origin: usize,
        /// The transaction's time.
        time: u64,
    },
    /// Property 5: of two conflicting strong transactions, the one with the greater timestamp does
    /// not observe the other.
    Conflict {
        /// The smaller strong timestamp.
        first: u64,
        /// The greater strong timestamp.
        second: u64,
        /// The key on which they conflict.
        key: String,
    },
    /// Property 5: two strong transactions have the same timestamp.
    SameTime {
        /// The timestamp.
        time: u64,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Known { replica: (site, partition), origin: Origin::Strong, time } => write!(
                f,
                "Property 6: partition {partition} at site {site} claims to know strong transactions past \
                 {time} but misses the one of that timestamp"
            ),
            Broken::Known { replica: (site, partition), origin: Origin::Site(origin), time } => {
                write!(
                    f,
                    "Property 1: partition {partition} at site {site} claims to know site {origin} past \
                 {time} but misses the transaction of that time"
                )
            }
            Broken::Stable { site, partition, origin: Origin::Strong } => write!(
                f,
                "Property 7: the strong entry of stable_vec of site {site} is ahead of known_vec of its \
                 partition {partition}"
            ),
            Broken::Stable { site, partition, origin: Origin::Site(origin) } => write!(
                f,
                "Property 2: stable_vec[{origin}] of site {site} is ahead of known_vec of its \
                 partition {partition}"
            ),
            Broken::Uniform { site, origin } => write!(
                f,
                "Property 3: uniform_vec[{origin}] at site {site} is not backed by f + 1 sites"
            ),
            Broken::NotUniform { site, origin, time } => write!(
                f,
                "Property 4: the transaction of site {origin} at {time} is within uniform_vec of \
                 site {site} but not stored at f + 1 sites"
            ),
            Broken::Conflict { first, second, key } => write!(
                f,
                "Property 5: the strong transactions at {first} and {second} conflict on '{key}', and the \
                 later one does not observe the other"
            ),
            Broken::SameTime { time } => {
                write!(f, "Property 5: two strong transactions have the timestamp {time}")
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Committed {
    vector: Vec<u64>,
    /// Replicas `(site, partition)` that do not store it yet.
    missing: BTreeSet<(usize, usize)>,
}

/// Committed transactions and the replicas that store them.
#[derive(Clone, Debug)]
pub struct Ledger {
    sites: usize,
    f: usize,
    /// Committed transactions that some replica lacks, by `(origin, time)`.
    committed: BTreeMap<(Origin, u64), Committed>,
    /// Times that a replica lacks, per `(site, partition, origin)`.
    missing: BTreeMap<(usize, usize, Origin), BTreeSet<u64>>,
    /// Transactions that a replica stored before their commit was reported.
    early: BTreeSet<(usize, usize, Origin, u64)>,
    /// Certified transactions by strong timestamp; their accesses are in `accesses`, by key.
    certified: BTreeMap<u64, Witness>,
    accesses: BTreeMap<String, Vec<(u64, Access)>>,
}

impl Ledger {
    /// Creates an empty ledger for a cluster of `sites` sites of which `f` may fail.
    pub fn new(sites: usize, f: usize) -> Self {
        Ledger {
            sites,
            f,
            committed: BTreeMap::new(),
            missing: BTreeMap::new(),
            early: BTreeSet::new(),
            certified: BTreeMap::new(),
            accesses: BTreeMap::new(),
        }
    }

    /// Records that a transaction of `origin` committed at `time` with this commit vector and
    /// writes to these partitions. The vector has no strong entry.
    pub fn committed(
        &mut self,
        origin: impl Into<Origin>,
        time: u64,
        vector: Vec<u64>,
        partitions: &[usize],
    ) {
        let origin = origin.into();
        let mut missing = BTreeSet::new();
        for site in 0..self.sites {
            for partition in partitions {
                if !self.early.remove(&(site, *partition, origin, time)) {
                    missing.insert((site, *partition));
                    self.missing.entry((site, *partition, origin)).or_default().insert(time);
                }
            }
        }
        self.committed.insert((origin, time), Committed { vector, missing });
    }

    /// Records that a strong transaction with these accesses was certified.
    ///
    /// # Errors
    /// A violation of Property 5 by this transaction and an earlier one.
    pub fn certified(&mut self, witness: Witness, accesses: Vec<Access>) -> Result<(), Broken> {
        let Some((time, Origin::Strong)) = witness.dot else { return Ok(()) };
        if self.certified.contains_key(&time) {
            return Err(Broken::SameTime { time });
        }
        let result =
            accesses.iter().try_for_each(|access| self.check_order(time, &witness, access));
        for access in accesses {
            self.accesses.entry(access.key.clone()).or_default().push((time, access));
        }
        self.certified.insert(time, witness);
        result
    }

    fn check_order(&self, time: u64, witness: &Witness, access: &Access) -> Result<(), Broken> {
        let others = self.accesses.get(&access.key).into_iter().flatten();
        for (other, theirs) in others.filter(|(_, theirs)| theirs.conflicts_with(access)) {
            let that = &self.certified[other];
            let (first, second) = if *other < time { (*other, time) } else { (time, *other) };
            // A read has no effect that a later transaction could observe.
            let in_order = if *other < time {
                !theirs.update || witness.observes(that)
            } else {
                !access.update || that.observes(witness)
            };
            if !in_order {
                return Err(Broken::Conflict { first, second, key: access.key.clone() });
            }
        }
        Ok(())
    }

    /// Records that a crash undid a commit before it was reported to any client.
    pub fn undone(&mut self, origin: impl Into<Origin>, time: u64) {
        let origin = origin.into();
        self.committed.remove(&(origin, time));
        if origin == Origin::Strong {
            self.certified.remove(&time);
            self.accesses.values_mut().for_each(|accesses| accesses.retain(|(at, _)| *at != time));
        }
        for ((_, _, site), times) in &mut self.missing {
            if *site == origin {
                times.remove(&time);
            }
        }
    }

    /// Records that transactions that the site `origin` committed after `cut` were given up, and
    /// will never become visible.
    pub fn closed(&mut self, origin: usize, cut: u64) {
        let origin = Origin::Site(origin);
        let gone: Vec<u64> = self
            .committed
            .range((origin, cut + 1)..=(origin, u64::MAX))
            .map(|((_, time), _)| *time)
            .collect();
        for time in gone {
            self.undone(origin, time);
        }
    }

    /// Records that a replica received everything that another one stores of a partition, up to
    /// `known_vec`.
    pub fn filled(&mut self, site: usize, partition: usize, known_vec: &[u64]) {
        for (origin, known) in known_vec.iter().enumerate() {
            self.filled_of(site, partition, Origin::Site(origin), *known);
        }
    }

    /// Records that a replica received all strong transactions that another one stores of a
    /// partition, up to the strong entry of its `known_vec`.
    pub fn filled_strong(&mut self, site: usize, partition: usize, known_strong: u64) {
        self.filled_of(site, partition, Origin::Strong, known_strong);
    }

    fn filled_of(&mut self, site: usize, partition: usize, origin: Origin, known: u64) {
        let Some(times) = self.missing.get(&(site, partition, origin)) else { return };
        let got: Vec<u64> = times.range(..=known).copied().collect();
        for time in got {
            self.stored(site, partition, origin, time);
        }
    }

    /// Records that a replica stored a transaction's writes to its partition.
    pub fn stored(&mut self, site: usize, partition: usize, origin: impl Into<Origin>, time: u64) {
        let origin = origin.into();
        let Some(committed) = self.committed.get_mut(&(origin, time)) else {
            self.early.insert((site, partition, origin, time));
            return;
        };
        committed.missing.remove(&(site, partition));
        if committed.missing.is_empty() {
            self.committed.remove(&(origin, time));
        }
        if let Some(times) = self.missing.get_mut(&(site, partition, origin)) {
            times.remove(&time);
        }
    }

    /// Checks Properties 1–4, 6 and 7 at one moment.
    ///
    /// # Errors
    /// The first property that does not hold.
    pub fn check(&self, vectors: &Vectors) -> Result<(), Broken> {
        self.check_known(vectors)?;
        self.check_stable(vectors)?;
        self.check_stable_strong(vectors)?;
        self.check_uniform(vectors)?;
        self.check_uniform_transactions(vectors)
    }

    fn check_known(&self, vectors: &Vectors) -> Result<(), Broken> {
        for ((site, partition, origin), times) in &self.missing {
            if let Some(time) = times.first()
                && known(vectors, *site, *partition, *origin) >= *time
            {
                let replica = (*site, *partition);
                return Err(Broken::Known { replica, origin: *origin, time: *time });
            }
        }
        Ok(())
    }

    fn check_stable(&self, vectors: &Vectors) -> Result<(), Broken> {
        for (site, workers) in vectors.stable_vec.iter().enumerate() {
            for (partition, known) in replicas(vectors, site).iter().enumerate() {
                for stable in workers {
                    if let Some(origin) =
                        (0..self.sites).find(|i| entry(known, *i) < entry(stable, *i))
                    {
                        let origin = Origin::Site(origin);
                        return Err(Broken::Stable { site, partition, origin });
                    }
                }
            }
        }
        Ok(())
    }

    fn check_stable_strong(&self, vectors: &Vectors) -> Result<(), Broken> {
        for (site, workers) in vectors.stable_strong.iter().enumerate() {
            let stable = workers.iter().max().unwrap_or(&0);
            let replicas = vectors.known_strong.get(site).map_or(&[][..], Vec::as_slice);
            if let Some(partition) = replicas.iter().position(|known| known < stable) {
                return Err(Broken::Stable { site, partition, origin: Origin::Strong });
            }
        }
        Ok(())
    }

    fn check_uniform(&self, vectors: &Vectors) -> Result<(), Broken> {
        for (site, workers) in vectors.uniform_vec.iter().enumerate() {
            for origin in 0..self.sites {
                let highest =
                    workers.iter().map(|uniform| entry(uniform, origin)).max().unwrap_or(0);
                // A site without vectors does not count as one that stores a claimed prefix.
                let backs = |other: &usize| {
                    let replicas = replicas(vectors, *other);
                    let known = |known: &Vec<u64>| entry(known, origin) >= highest;
                    highest == 0 || (!replicas.is_empty() && replicas.iter().all(known))
                };
                if !backs(&site) || (0..self.sites).filter(backs).count() < self.f + 1 {
                    return Err(Broken::Uniform { site, origin });
                }
            }
        }
        Ok(())
    }

    fn check_uniform_transactions(&self, vectors: &Vectors) -> Result<(), Broken> {
        for ((origin, time), committed) in &self.committed {
            // Certification makes strong transactions durable; `uniform_vec` does not cover them.
            let Origin::Site(origin) = origin else { continue };
            let lacking: BTreeSet<usize> =
                committed.missing.iter().map(|(site, _)| *site).collect();
            if self.sites.saturating_sub(lacking.len()) > self.f {
                continue;
            }
            for (site, workers) in vectors.uniform_vec.iter().enumerate() {
                let covers = |uniform: &Vec<u64>| {
                    let mut needed = committed.vector.iter().enumerate();
                    needed.all(|(i, need)| entry(uniform, i) >= *need)
                };
                if workers.iter().any(covers) {
                    return Err(Broken::NotUniform { site, origin: *origin, time: *time });
                }
            }
        }
        Ok(())
    }
}

/// Returns the time up to which a replica claims to know an origin.
fn known(vectors: &Vectors, site: usize, partition: usize, origin: Origin) -> u64 {
    match origin {
        Origin::Site(origin) => {
            replicas(vectors, site).get(partition).map_or(0, |known| entry(known, origin))
        }
        Origin::Strong => {
            let site = vectors.known_strong.get(site);
            site.and_then(|site| site.get(partition)).copied().unwrap_or(0)
        }
    }
}

/// Returns an entry of a vector; a missing entry claims nothing.
fn entry(vector: &[u64], origin: usize) -> u64 {
    vector.get(origin).copied().unwrap_or(0)
}

fn replicas(vectors: &Vectors, site: usize) -> &[Vec<u64>] {
    vectors.known_vec.get(site).map_or(&[], Vec::as_slice)
}
