//! Data that is stored in Redis beside the values: timestamps and slot records.
//!
//! `docs/formats/occult-redis.md` describes both, and `functions.lua` reads and writes them, too.

use std::fmt;

use solera_occult::{CausalTimestamp, DEFAULT_SHARDS, STAMP_END, Stamp};

use crate::risk::{Life, Risk};

/// First byte of a timestamp.
const VERSION: u8 = 1;
/// First byte of the temporal encoding of causal timestamps, which gateways use.
const TEMPORAL: u8 = 2;
/// First bytes of an envelope.
const ENVELOPE: &[u8] = b"\0OCCULT\x01";

/// Layout of stored strings. Values of other types are always plain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// Strings have no envelope, so that other programs can use them. The timestamp is in a key of
    /// its own.
    #[default]
    Plain,
    /// Strings are in an envelope together with the timestamp.
    Envelope,
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layout::Plain => "plain",
            Layout::Envelope => "envelope",
        })
    }
}

impl std::str::FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Layout, String> {
        match text {
            "plain" => Ok(Layout::Plain),
            "envelope" => Ok(Layout::Envelope),
            other => Err(format!("there is no layout '{other}'; there are plain and envelope")),
        }
    }
}

/// Content of a key when its timestamp was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A string.
    Text,
    /// A value of another type.
    Other,
    /// Nothing: the key was removed.
    Removed,
}

/// The timestamp of a key's version, or of a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    pub(crate) kind: Kind,
    pub(crate) timestamp: CausalTimestamp,
    pub(crate) risk: Risk,
}

/// Error of bytes that are not a timestamp.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("it is not of version {VERSION}")]
    Version,
    /// A timestamp of another encoding. Contains its first byte.
    #[error("it has encoding {0} instead of {TEMPORAL} (temporal)")]
    Encoding(u8),
    #[error("{0}")]
    Unreadable(#[from] solera_occult::Unreadable),
    #[error("its list of replication offsets is malformed")]
    Risk,
    #[error("it has bytes after its end")]
    Foreign,
    #[error("its envelope is cut off")]
    CutOff,
    #[error("it is in no envelope")]
    NoEnvelope,
}

impl Stored {
    /// Encodes a timestamp.
    pub(crate) fn encode(kind: Kind, timestamp: &CausalTimestamp, risk: &Risk) -> Vec<u8> {
        let kind = match kind {
            Kind::Text => b'v',
            Kind::Other => b'o',
            Kind::Removed => b'r',
        };
        let mut bytes = vec![VERSION, kind];
        timestamp.encode(&mut bytes);
        put_number(risk.len() as u64, &mut bytes);
        for (life, offset) in risk.iter() {
            bytes.extend_from_slice(&life.0);
            put_number(offset, &mut bytes);
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Stored, Damage> {
        let [VERSION, kind, rest @ ..] = bytes else { return Err(Damage::Version) };
        let kind = match kind {
            b'v' => Kind::Text,
            b'o' => Kind::Other,
            b'r' => Kind::Removed,
            _ => return Err(Damage::Version),
        };
        // The other encodings have other numbers, from which no useful error would follow.
        if let Some(encoding) = rest.first().filter(|encoding| **encoding != TEMPORAL) {
            return Err(Damage::Encoding(*encoding));
        }
        let (timestamp, mut rest) = CausalTimestamp::decode(rest, DEFAULT_SHARDS)?;
        let count = take_number(&mut rest).ok_or(Damage::Risk)?;
        let mut risk = Risk::default();
        for _ in 0..count {
            let (life, after) = rest.split_first_chunk::<8>().ok_or(Damage::Risk)?;
            rest = after;
            risk.add(Life(*life), take_number(&mut rest).ok_or(Damage::Risk)?);
        }
        if rest.is_empty() { Ok(Stored { kind, timestamp, risk }) } else { Err(Damage::Foreign) }
    }
}

/// Returns the timestamp, as it is stored, and the value of a string in an envelope.
///
/// # Errors
/// [`Damage::NoEnvelope`] for other strings; [`Damage::CutOff`].
pub(crate) fn open_envelope(bytes: &[u8]) -> Result<(&[u8], &[u8]), Damage> {
    let mut rest = bytes.strip_prefix(ENVELOPE).ok_or(Damage::NoEnvelope)?;
    let length = take_number(&mut rest).and_then(|length| usize::try_from(length).ok());
    length.and_then(|length| rest.split_at_checked(length)).ok_or(Damage::CutOff)
}

fn put_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..56).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return (number < STAMP_END).then_some(number);
        }
    }
    None
}

/// A slot's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The shardstamp of the copy that was read.
    pub(crate) shown: Stamp,
    /// Life of the master that wrote the slot last.
    pub(crate) life: Life,
    /// Replication offset at which the master wrote the slot last.
    pub(crate) offset: u64,
    /// Clock that extends what the slot shows.
    pub(crate) lease: Option<Lease>,
    /// Changes of the life, the oldest first.
    pub(crate) gaps: Vec<Gap>,
    /// Layout of the slot's strings.
    pub(crate) layout: Layout,
}

/// Permission to conclude from a master's clock what a slot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// Tag of the slot with the clock.
    pub(crate) tag: u32,
    /// Replication offset at which the master has begun the clock.
    pub(crate) birth: u64,
    /// Greatest stamp that the slot may show because of the clock.
    pub(crate) until: Stamp,
}

/// The clock of a master: all its slots whose records name the clock show all writes up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clock {
    /// Tag of its slot.
    pub(crate) tag: u32,
    pub(crate) stamp: Stamp,
    /// Life of the master that advances it.
    pub(crate) life: Life,
    /// Replication offset at which this master has begun it.
    pub(crate) birth: u64,
}

impl Clock {
    /// Reads the clock in the slot with this tag.
    pub(crate) fn parse(tag: u32, bytes: &[u8]) -> Option<Clock> {
        let text = std::str::from_utf8(bytes).ok()?;
        let words: Vec<&str> = text.split(' ').collect();
        let ["C1", of, life, birth] = words[..] else { return None };
        let (stamp, life, birth) = (stamp(of).ok()?, life.parse().ok()?, number(birth).ok()?);
        Some(Clock { tag, stamp, life, birth })
    }
}

/// The end of a master's life, in a slot's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    /// The life that ended; `None` for several lives that are not listed any more.
    pub(crate) life: Option<Life>,
    /// Replication offset from which everything is lost; `None` if unknown.
    pub(crate) end: Option<u64>,
    /// The last stamp of the ended life that was not lost.
    pub(crate) after: Stamp,
    /// The first stamp of the next life.
    pub(crate) before: Stamp,
    /// Replication offset at which the ended life wrote the slot last.
    pub(crate) last: u64,
}

/// Error of a slot record that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not a record of version 1 or 2")]
pub(crate) struct NotARecord;

impl Record {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Record, NotARecord> {
        let text = std::str::from_utf8(bytes).map_err(|_| NotARecord)?;
        let mut words = text.split(' ');
        let layout = match words.next() {
            Some("S1" | "S2") => Layout::Plain,
            Some("E1" | "E2") => Layout::Envelope,
            _ => return Err(NotARecord),
        };
        let mut next = || words.next().ok_or(NotARecord);
        let shown = stamp(next()?)?;
        let life = next()?.parse()?;
        let offset = number(next()?)?;
        let mut words = words.peekable();
        let lease = words.next_if(|word| word.starts_with('@')).map(Lease::parse).transpose()?;
        let gaps = words.map(Gap::parse).collect::<Result<_, _>>()?;
        Ok(Record { shown, life, offset, lease, gaps, layout })
    }

    /// Returns the stamp up to which the copy shows the slot, by a clock that was read before the
    /// record at the same node; `None` if the record does not name this clock.
    pub(crate) fn shown_by(&self, clock: &Clock) -> Option<Stamp> {
        let lease = self.lease?;
        let is_it = (lease.tag, lease.birth, self.life) == (clock.tag, clock.birth, clock.life);
        is_it.then(|| self.shown.max(clock.stamp.min(lease.until)))
    }
}

impl Lease {
    fn parse(text: &str) -> Result<Lease, NotARecord> {
        let words: Vec<&str> = text.trim_start_matches('@').split(':').collect();
        let [tag, birth, until] = words[..] else { return Err(NotARecord) };
        let tag = tag.parse().map_err(|_| NotARecord)?;
        Ok(Lease { tag, birth: number(birth)?, until: stamp(until)? })
    }
}

impl Gap {
    fn parse(text: &str) -> Result<Gap, NotARecord> {
        let words: Vec<&str> = text.split(':').collect();
        let [life, end, after, before, last] = words[..] else { return Err(NotARecord) };
        let life = if life == "*" { None } else { Some(life.parse()?) };
        let end = if end == "?" { None } else { Some(number(end)?) };
        let (after, before) = (stamp(after)?, stamp(before)?);
        Ok(Gap { life, end, after, before, last: number(last)? })
    }
}

fn number(text: &str) -> Result<u64, NotARecord> {
    text.parse().map_err(|_| NotARecord)
}

fn stamp(text: &str) -> Result<Stamp, NotARecord> {
    let stamp = number(text)?;
    if stamp < STAMP_END { Ok(Stamp(stamp)) } else { Err(NotARecord) }
}

impl std::str::FromStr for Life {
    type Err = NotARecord;

    fn from_str(text: &str) -> Result<Life, NotARecord> {
        let wanted = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u64::from_str_radix(text, 16).map_err(|_| NotARecord)?;
        if wanted { Ok(Life(id.to_be_bytes())) } else { Err(NotARecord) }
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", u64::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use solera_occult::{Scheme, ShardId};
    use solera_time::SiteId;

    use super::*;

    fn stored() -> Stored {
        let mut timestamp = CausalTimestamp::new(Scheme::Temporal(4));
        for (shard, stamp) in [(7, 1_000_000_000_000_000), (9, 5), (3, STAMP_END - 1), (4, 77)] {
            timestamp.raise(ShardId(shard), SiteId(0), Stamp(stamp));
        }
        let mut risk = Risk::default();
        risk.add(Life([1; 8]), 300);
        risk.add(Life([0xff; 8]), STAMP_END - 1);
        Stored { kind: Kind::Text, timestamp, risk }
    }

    #[test]
    fn timestamps_are_read_back_and_damaged_ones_are_not() {
        let wanted = stored();
        let bytes = Stored::encode(wanted.kind, &wanted.timestamp, &wanted.risk);
        assert_eq!(Stored::decode(&bytes), Ok(wanted));
        for end in 0..bytes.len() {
            assert!(Stored::decode(&bytes[..end]).is_err(), "{end} bytes");
        }
        assert_eq!(Stored::decode(&[&bytes[..], b"x"].concat()), Err(Damage::Foreign));
        assert_eq!(Stored::decode(b"\x02v\x02"), Err(Damage::Version));
    }

    #[test]
    fn envelopes_are_opened_and_damaged_ones_are_not() {
        let sealed = [ENVELOPE, b"\x03abcvalue"].concat();
        assert_eq!(open_envelope(&sealed), Ok((&b"abc"[..], &b"value"[..])));
        for end in ENVELOPE.len()..ENVELOPE.len() + 4 {
            assert_eq!(open_envelope(&sealed[..end]), Err(Damage::CutOff), "{end} bytes");
        }
        for foreign in ["", "value", "\0OCCULT\u{2}"] {
            assert_eq!(open_envelope(foreign.as_bytes()), Err(Damage::NoEnvelope), "{foreign:?}");
        }
    }

    #[test]
    fn records_are_read() {
        let text = "S1 17 00000000000000ff 42 0000000000000001:9:3:8:7 0000000000000002:?:9:11:5";
        let record = Record::parse(text.as_bytes()).unwrap();
        assert_eq!((record.shown, record.life.to_string(), record.offset), {
            (Stamp(17), "00000000000000ff".to_owned(), 42)
        });
        assert_eq!((record.gaps[0].end, record.gaps[1].end), (Some(9), None));
        assert_eq!(record.lease, None);
        let foreign =
            ["", "S3 17 00000000000000ff 42", "S1 17 ff 42", "S1 17", "S1 -1 00000000000000ff 1"];
        let large = "S1 9007199254740992 00000000000000ff 42";
        let lease = "S2 17 00000000000000ff 42 @5:40";
        for text in foreign.into_iter().chain([large, "S1 17 00000000000000ff 42 x", lease]) {
            assert_eq!(Record::parse(text.as_bytes()), Err(NotARecord), "{text}");
        }
    }

    #[test]
    fn a_clock_extends_records_that_name_it() {
        let parse = |text: &str| Record::parse(text.as_bytes()).unwrap();
        let clock = Clock::parse(5, b"C1 30 00000000000000ff 9").unwrap();
        let of = |text: &str| parse(text).shown_by(&clock).map(|stamp| stamp.0);
        assert_eq!(of("S2 17 00000000000000ff 42 @5:9:40"), Some(30));
        assert_eq!(of("S2 17 00000000000000ff 42 @5:9:20 *:?:0:8:0"), Some(20), "the lease ends");
        assert_eq!(of("S2 35 00000000000000ff 42 @5:9:40"), Some(35));
        assert_eq!(of("S2 17 00000000000000ff 42 @5:8:40"), None, "a clock that was lost");
        assert_eq!(of("S2 17 00000000000000ff 42"), None);
        assert_eq!(of("S2 17 00000000000000ff 42 @6:9:40"), None, "another clock");
        assert_eq!(of("S2 17 00000000000000fe 42 @5:9:40"), None, "another life");
        for damaged in ["", "30", "C1 30", "C1 30 ff 9", "C2 30 00000000000000ff 9"] {
            assert_eq!(Clock::parse(5, damaged.as_bytes()), None, "{damaged}");
        }
    }
}
