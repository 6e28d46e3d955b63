//! UniStore's Properties 1–4 as running assertions on plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The vectors of all replicas at one moment. What is not given counts as zero.
#[derive(Clone, Debug, Default)]
pub struct Vectors {
    /// `known_vec[site][partition]`.
    pub known_vec: Vec<Vec<Vec<u64>>>,
    /// `stable_vec[site]`, one per worker.
    pub stable_vec: Vec<Vec<Vec<u64>>>,
    /// `uniform_vec[site]`, one per worker.
    pub uniform_vec: Vec<Vec<Vec<u64>>>,
}

/// A broken property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// Property 1: a replica claims to know a prefix of which it misses a transaction.
    Known {
        /// The replica's site and partition.
        replica: (usize, usize),
        /// The missing transaction's site and time.
        origin: usize,
        /// See `origin`.
        time: u64,
    },
    /// Property 2: a site claims to store what one of its replicas does not.
    Stable {
        /// The site.
        site: usize,
        /// The replica's partition.
        partition: usize,
        /// The origin of the entry.
        origin: usize,
    },
    /// Property 3: an entry of `uniform_vec` is not backed by `f + 1` sites.
    Uniform {
        /// The site.
        site: usize,
        /// The origin of the entry.
        origin: usize,
    },
    /// Property 4: a transaction within `uniform_vec` is not stored at `f + 1` sites.
    NotUniform {
        /// The site whose vector it is.
        site: usize,
        /// The transaction's site and time.
        origin: usize,
        /// See `origin`.
        time: u64,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Known { replica: (site, partition), origin, time } => write!(
                f,
                "Property 1: partition {partition} at site {site} claims to know site {origin} past \
                 {time} but misses the transaction of that time"
            ),
            Broken::Stable { site, partition, origin } => write!(
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
        }
    }
}

#[derive(Clone, Debug)]
struct Committed {
    vector: Vec<u64>,
    /// Replicas `(site, partition)` that do not store it yet.
    missing: BTreeSet<(usize, usize)>,
}

/// Who committed what, and who stores it.
#[derive(Clone, Debug)]
pub struct Ledger {
    sites: usize,
    f: usize,
    /// Committed transactions that some replica misses, by `(origin, time)`.
    committed: BTreeMap<(usize, u64), Committed>,
    /// Times that a replica misses, per `(site, partition, origin)`.
    missing: BTreeMap<(usize, usize, usize), BTreeSet<u64>>,
    /// Stored before the commit was reported.
    early: BTreeSet<(usize, usize, usize, u64)>,
}

impl Ledger {
    /// An empty ledger for a cluster of `sites` sites of which `f` may fail.
    pub fn new(sites: usize, f: usize) -> Self {
        Ledger {
            sites,
            f,
            committed: BTreeMap::new(),
            missing: BTreeMap::new(),
            early: BTreeSet::new(),
        }
    }

    /// A transaction of `origin` committed at `time` with this commit vector, and writes partitions.
    pub fn committed(&mut self, origin: usize, time: u64, vector: Vec<u64>, partitions: &[usize]) {
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

    /// A commit was undone by a crash before anybody was told of it.
    pub fn undone(&mut self, origin: usize, time: u64) {
        self.committed.remove(&(origin, time));
        for ((_, _, site), times) in &mut self.missing {
            if *site == origin {
                times.remove(&time);
            }
        }
    }

    /// Nothing that `origin` has committed after `cut` will be seen any more: it was given up.
    pub fn closed(&mut self, origin: usize, cut: u64) {
        let gone: Vec<u64> = self
            .committed
            .range((origin, cut + 1)..=(origin, u64::MAX))
            .map(|((_, time), _)| *time)
            .collect();
        for time in gone {
            self.undone(origin, time);
        }
    }

    /// A replica was given all that another one stores of a partition, up to `known_vec`.
    pub fn filled(&mut self, site: usize, partition: usize, known_vec: &[u64]) {
        for (origin, known) in known_vec.iter().enumerate() {
            let Some(times) = self.missing.get(&(site, partition, origin)) else { continue };
            let got: Vec<u64> = times.range(..=known).copied().collect();
            for time in got {
                self.stored(site, partition, origin, time);
            }
        }
    }

    /// A replica stored a transaction's writes to its partition.
    pub fn stored(&mut self, site: usize, partition: usize, origin: usize, time: u64) {
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

    /// Checks Properties 1–4 at one moment.
    ///
    /// # Errors
    /// The first property that does not hold.
    pub fn check(&self, vectors: &Vectors) -> Result<(), Broken> {
        self.check_known(vectors)?;
        self.check_stable(vectors)?;
        self.check_uniform(vectors)?;
        self.check_uniform_transactions(vectors)
    }

    fn check_known(&self, vectors: &Vectors) -> Result<(), Broken> {
        for ((site, partition, origin), times) in &self.missing {
            let known = vectors.known_vec.get(*site).and_then(|site| site.get(*partition));
            if let Some(time) = times.first()
                && known.is_some_and(|known| entry(known, *origin) >= *time)
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
                        return Err(Broken::Stable { site, partition, origin });
                    }
                }
            }
        }
        Ok(())
    }

    fn check_uniform(&self, vectors: &Vectors) -> Result<(), Broken> {
        for (site, workers) in vectors.uniform_vec.iter().enumerate() {
            for origin in 0..self.sites {
                let highest =
                    workers.iter().map(|uniform| entry(uniform, origin)).max().unwrap_or(0);
                // A site of which nothing is given backs no claim.
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

/// An entry of a vector; a vector that was not given claims nothing.
fn entry(vector: &[u64], origin: usize) -> u64 {
    vector.get(origin).copied().unwrap_or(0)
}

fn replicas(vectors: &Vectors, site: usize) -> &[Vec<u64>] {
    vectors.known_vec.get(site).map_or(&[], Vec::as_slice)
}
