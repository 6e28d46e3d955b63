//! Encoding of timestamps. It is compact, because a timestamp is stored with every value.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | scheme: 0 exact, 1 structural, 2 temporal, 3 per site, 4 none (nothing follows) |
//! | number | number of entries of the scheme; exact: number of shards that follow |
//! | rest | exact: pairs of shard and stamp, in order of shards; structural: the stamps; temporal: a group; per site: the number of groups, and before each its site |
//!
//! A group consists of its catch-all, the number of explicit entries, and these entries in
//! ascending order of stamps. An entry is the difference of its stamp to the previous one, and its
//! shard. All numbers are LEB128. The recent stamps of one client are close together, so their
//! differences take three bytes rather than eight.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use solera_time::{MAX_SITES, SiteId};

use super::recent::Recent;
use super::{CausalTimestamp, Entries, Scheme};
use crate::shard::{STAMP_END, ShardId, Stamp};

/// Error of bytes that are not a timestamp, or are a timestamp of another configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The bytes end within the timestamp.
    #[error("the timestamp is cut off")]
    CutOff,
    /// The scheme is unknown.
    #[error("the timestamp has the unknown encoding {0}")]
    Scheme(u8),
    /// A shard is beyond those of this cluster.
    #[error("the timestamp names shard {shard}, and this cluster has {shards} shards")]
    Shard {
        /// The shard.
        shard: u64,
        /// Number of shards of this cluster.
        shards: u16,
    },
    /// A stamp exceeds the largest possible one.
    #[error("the timestamp has the stamp {0}, which is out of range")]
    Stamp(u64),
    /// The timestamp breaks another rule of the encoding.
    #[error("the timestamp is malformed: {0}")]
    Malformed(&'static str),
}

impl CausalTimestamp {
    /// Appends the encoding.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let (scheme, entries) = match self.scheme {
            Scheme::Exact => (0, 0),
            Scheme::Structural(entries) => (1, entries),
            Scheme::Temporal(entries) => (2, entries),
            Scheme::PerSite(entries) => (3, entries),
            Scheme::None => (4, 0),
        };
        bytes.push(scheme);
        match &self.entries {
            Entries::Exact(stamps) => {
                put(stamps.len() as u64, bytes);
                for (shard, stamp) in stamps {
                    put(shard.0.into(), bytes);
                    put(stamp.0, bytes);
                }
            }
            Entries::Structural(stamps) => {
                put(entries.into(), bytes);
                stamps.iter().for_each(|stamp| put(stamp.0, bytes));
            }
            Entries::Recent(groups) => {
                put(entries.into(), bytes);
                if scheme == 2 {
                    let empty = Recent::default();
                    encode_group(groups.first().map_or(&empty, |(_, recent)| recent), bytes);
                    return;
                }
                put(groups.len() as u64, bytes);
                for (site, recent) in groups {
                    put(site.map_or(0, |site| site.0).into(), bytes);
                    encode_group(recent, bytes);
                }
            }
            Entries::None => {}
        }
    }

    /// Decodes a timestamp from the beginning of `bytes`. Also returns the remaining bytes.
    ///
    /// # Errors
    /// The bytes are not a timestamp of a cluster with this number of shards.
    pub fn decode(bytes: &[u8], shards: u16) -> Result<(CausalTimestamp, &[u8]), Unreadable> {
        let mut reader = Reader { bytes, shards };
        let timestamp = reader.timestamp()?;
        Ok((timestamp, reader.bytes))
    }
}

fn encode_group(recent: &Recent, bytes: &mut Vec<u8>) {
    put(recent.catch_all().0, bytes);
    put(recent.explicit().len() as u64, bytes);
    let mut before = recent.catch_all();
    for (stamp, shard) in recent.explicit().iter().rev() {
        put(stamp.0 - before.0, bytes);
        put(shard.0.into(), bytes);
        before = *stamp;
    }
}

fn put(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

struct Reader<'a> {
    bytes: &'a [u8],
    shards: u16,
}

impl Reader<'_> {
    fn timestamp(&mut self) -> Result<CausalTimestamp, Unreadable> {
        let scheme = self.byte()?;
        match scheme {
            0 => return self.exact(),
            4 => return Ok(CausalTimestamp::new(Scheme::None)),
            _ => {}
        }
        let entries = u16::try_from(self.number()?).unwrap_or(0);
        if entries == 0 {
            return Err(Unreadable::Malformed("the number of entries is out of range"));
        }
        match scheme {
            1 => {
                let stamps = (0..entries).map(|_| self.stamp()).collect::<Result<_, _>>()?;
                let entries_of = Entries::Structural(stamps);
                Ok(CausalTimestamp { scheme: Scheme::Structural(entries), entries: entries_of })
            }
            2 => {
                let group = self.group(entries)?;
                let groups = if group.is_empty() { Vec::new() } else { vec![(None, group)] };
                let scheme = Scheme::Temporal(entries);
                Ok(CausalTimestamp { scheme, entries: Entries::Recent(groups) })
            }
            3 => {
                let groups = self.groups(entries)?;
                let scheme = Scheme::PerSite(entries);
                Ok(CausalTimestamp { scheme, entries: Entries::Recent(groups) })
            }
            scheme => Err(Unreadable::Scheme(scheme)),
        }
    }

    fn exact(&mut self) -> Result<CausalTimestamp, Unreadable> {
        let count = self.number()?;
        let mut timestamp = CausalTimestamp::new(Scheme::Exact);
        let Entries::Exact(stamps) = &mut timestamp.entries else { return Ok(timestamp) };
        for _ in 0..count {
            let (shard, stamp) = (self.shard()?, self.stamp()?);
            let in_order = stamps.last_key_value().is_none_or(|(last, _)| *last < shard);
            if !in_order || stamp == Stamp::ZERO {
                return Err(Unreadable::Malformed("its entries are not in order"));
            }
            stamps.insert(shard, stamp);
        }
        Ok(timestamp)
    }

    fn groups(&mut self, entries: u16) -> Result<Vec<(Option<SiteId>, Recent)>, Unreadable> {
        let count = self.number()?;
        if count > MAX_SITES as u64 {
            return Err(Unreadable::Malformed("it has more sites than a cluster"));
        }
        let mut groups: Vec<(Option<SiteId>, Recent)> = Vec::new();
        for _ in 0..count {
            let site = self.number()?;
            let known = site < MAX_SITES as u64;
            let site = Some(SiteId(site as u8));
            let group = self.group(entries)?;
            let in_order = groups.last().is_none_or(|(last, _)| *last < site);
            if !known || !in_order || group.is_empty() {
                return Err(Unreadable::Malformed("its sites are not in order"));
            }
            groups.push((site, group));
        }
        Ok(groups)
    }

    fn group(&mut self, entries: u16) -> Result<Recent, Unreadable> {
        let catch_all = self.stamp()?;
        let count = self.number()?;
        if count >= u64::from(entries) {
            return Err(Unreadable::Malformed("a group has more entries than the scheme allows"));
        }
        let (mut before, mut explicit) = (catch_all, Vec::new());
        for _ in 0..count {
            let difference = self.number()?;
            let stamp = before.0.checked_add(difference).ok_or(Unreadable::Stamp(difference))?;
            if stamp >= STAMP_END {
                return Err(Unreadable::Stamp(stamp));
            }
            let shard = self.shard()?;
            let known = explicit.iter().any(|(_, other)| *other == shard);
            // Two shards may have the same stamp, but no stamp may equal the catch-all.
            if known || stamp <= catch_all.0 {
                return Err(Unreadable::Malformed("its entries are not in order"));
            }
            before = Stamp(stamp);
            explicit.push((before, shard));
        }
        Ok(Recent::of(catch_all, explicit, usize::from(entries)))
    }

    fn shard(&mut self) -> Result<ShardId, Unreadable> {
        let shard = self.number()?;
        match u16::try_from(shard) {
            Ok(number) if number < self.shards => Ok(ShardId(number)),
            _ => Err(Unreadable::Shard { shard, shards: self.shards }),
        }
    }

    fn stamp(&mut self) -> Result<Stamp, Unreadable> {
        match self.number()? {
            stamp if stamp < STAMP_END => Ok(Stamp(stamp)),
            stamp => Err(Unreadable::Stamp(stamp)),
        }
    }

    fn number(&mut self) -> Result<u64, Unreadable> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Unreadable::Malformed("a number is too long"))
    }

    fn byte(&mut self) -> Result<u8, Unreadable> {
        let (byte, rest) = self.bytes.split_first().ok_or(Unreadable::CutOff)?;
        self.bytes = rest;
        Ok(*byte)
    }
}

impl Serialize for CausalTimestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        serializer.serialize_bytes(&bytes)
    }
}

/// Accepts any shard: the receiver of a timestamp checks [`CausalTimestamp::is_within`].
impl<'de> Deserialize<'de> for CausalTimestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes: &[u8] = Deserialize::deserialize(deserializer)?;
        match CausalTimestamp::decode(bytes, u16::MAX) {
            Ok((timestamp, [])) => Ok(timestamp),
            Ok(_) => Err(D::Error::custom("bytes follow the timestamp")),
            Err(error) => Err(D::Error::custom(error)),
        }
    }
}
