//! How two nodes find out whether they belong together.
//!
//! `docs/formats/wire.md` draws the bytes.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use solera_config::{ClusterSpec, SiteSpec};
use solera_links::Origin;
use solera_machine::{NodeId, Protocol};

use crate::membership::Runs;

const MAGIC: [u8; 8] = *b"SOLERAPL";
/// The version of all that nodes say to one another.
const VERSION: u16 = 10;
/// Magic, version, kind, length and checksum: the same in every version.
pub(crate) const HEAD: usize = 8 + 2 + 1 + 4 + 4;
/// The longest greeting that is read.
const MAX_GREETING: usize = 64 * 1024;
/// The setting that may change when the list of sites grows.
const WITH_THE_SITES: &str = "f";
/// Settings longer than this are compared by their hash.
const LONG_SETTING: usize = 1024;

/// What one node says to the other at the beginning of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    /// The caller's.
    Hello(Card),
    /// The called node's, if it agrees.
    Welcome(Card),
    /// The called node's reason not to.
    Refusal(String),
    /// The same, when the caller can take no part any more as it is: it should stop.
    Farewell(String),
    /// The same, when the caller may be welcome in a moment.
    NotNow(String),
}

/// Who a node is, and what it believes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Card {
    /// The cluster's name.
    pub(crate) cluster: String,
    /// [`ClusterSpec::id`].
    pub(crate) id: u64,
    /// The sites, each with its nodes' workers. One list may be the beginning of the other.
    pub(crate) sites: Vec<(String, String)>,
    /// What else all nodes must agree on: `(what, how)`.
    pub(crate) agreed: Vec<(String, String)>,
    /// The protocols that the node runs.
    pub(crate) speaks: Vec<Speaks>,
    pub(crate) from: NodeId,
    /// Whom the sender means to talk to.
    pub(crate) to: NodeId,
    /// Drawn anew by each process.
    pub(crate) incarnation: u64,
    /// Which life of its site the sender belongs to.
    pub(crate) life: u32,
    /// Drawn anew when a node begins without data.
    pub(crate) data: u64,
    /// How often a process was started with the data; 0 of a node that keeps none.
    pub(crate) starts: u64,
    /// What the node's workers remembered when they began; nothing of a node that keeps no data.
    pub(crate) runs: Runs,
    /// The greatest time that the node's data or a worker has seen, in microseconds since 1970.
    pub(crate) hybrid_us: u64,
    /// Microseconds since 1970.
    pub(crate) clock_us: u64,
    /// In a welcome: the last numbered frame that arrived from the caller's incarnation.
    pub(crate) received: u64,
}

/// A protocol that a node runs, and the versions of its messages that it understands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Speaks {
    protocol: u8,
    name: String,
    oldest: u8,
    newest: u8,
}

impl Speaks {
    fn of(protocol: &Protocol) -> Speaks {
        Speaks {
            protocol: protocol.number,
            name: protocol.name.to_owned(),
            oldest: protocol.oldest_messages,
            newest: protocol.messages,
        }
    }

    /// The version in which two nodes talk: the newest that both understand.
    fn common(&self, other: &Speaks) -> Option<u8> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }

    fn versions(&self) -> String {
        match self.oldest == self.newest {
            true => format!("version {}", self.newest),
            false => format!("versions {} to {}", self.oldest, self.newest),
        }
    }
}

/// Why two nodes do not talk to one another. Told to both, so it speaks of the caller and the called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Not the beginning of a greeting.
    NotSolera,
    /// Another version of the wire format.
    Version(u16),
    /// Cut short, altered, or not what this version writes.
    Damaged,
    /// Clusters of different names.
    OtherCluster { caller: String, called: String },
    /// They were configured differently.
    Disagreement { what: String, caller: String, called: String },
    /// The caller meant somebody else.
    WrongAddress { meant: String, called: String },
    /// The caller is no other node of the cluster.
    NoSuchNode,
    /// The caller's site is new, and the called node does not list it.
    NotListed(String),
    /// A node's list lacks a site that was added.
    Lacks(String, String),
    /// Another process has connections as the same node.
    Taken,
    /// A node's clock is too far ahead of the other's, in milliseconds.
    Clocks { node: String, ahead_ms: u64, limit_ms: u64 },
    /// A node has seen times that are too far ahead, in milliseconds.
    Ahead { node: String, ahead_ms: u64, limit_ms: u64 },
    /// The site was removed.
    Removed(String),
    /// The site is not known to join.
    UnknownLife(String),
    /// The node, of this site, does not have the data that it had.
    OtherData(String, String),
    /// The data of the node, of this site, is a copy from before its last start.
    OlderCopy(String, String),
    /// The node, of this site, does not remember all that it has told.
    Forgetful(String, String),
    /// TLS between them does not come about.
    Tls(String),
    /// The other node's words.
    Told(String),
}

impl fmt::Display for Refusal {
    #[expect(clippy::too_many_lines, reason = "one arm per refusal")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NotSolera => write!(f, "what speaks there is no node of Solera"),
            Refusal::Version(version) => write!(
                f,
                "the other node speaks version {version} of the wire format, this one version \
                 {VERSION}; upgrade the older one"
            ),
            Refusal::Damaged => write!(f, "the greeting is damaged"),
            Refusal::OtherCluster { caller, called } => write!(
                f,
                "another cluster: the caller belongs to '{caller}', the called node to '{called}'"
            ),
            Refusal::Disagreement { what, caller, called } => write!(
                f,
                "contradictory configurations: {what}: '{caller}' at the caller, '{called}' at the \
                 called node; give all nodes the same file"
            ),
            Refusal::WrongAddress { meant, called } => write!(
                f,
                "wrong address: the caller meant {meant}, but this is {called}; see `peer` in the \
                 configuration"
            ),
            Refusal::NoSuchNode => write!(f, "the caller is no other node of this cluster"),
            Refusal::NotListed(site) => write!(
                f,
                "the called node does not list site {site} yet; restart it with the caller's list of \
                 sites"
            ),
            Refusal::Lacks(node, site) => write!(
                f,
                "{node} does not list site {site}, which was added; restart it with the other's list of \
                 sites"
            ),
            Refusal::Taken => write!(
                f,
                "another process speaks as this node, or has done so since this call began; if one of \
                 them has just died, this ends within seconds"
            ),
            Refusal::Clocks { node, ahead_ms, limit_ms } => write!(
                f,
                "the clock of {node} is {} s ahead of the other node's; {} s are allowed \
                 (max_clock_skew_ms); set the clocks",
                *ahead_ms as f64 / 1000.0,
                *limit_ms as f64 / 1000.0
            ),
            Refusal::Ahead { node, ahead_ms, limit_ms } => write!(
                f,
                "{node} holds times that are {} s ahead of the other node's; {} s are allowed \
                 (max_clock_skew_ms): its clock was wrong; wait until that time, or raise the limit \
                 at all nodes to take the times as they are",
                *ahead_ms as f64 / 1000.0,
                *limit_ms as f64 / 1000.0
            ),
            Refusal::Removed(site) => write!(
                f,
                "site {site} was removed from the cluster; to let it in again, `solera site add {site}` \
                 and start its nodes as that says, with empty directories"
            ),
            Refusal::UnknownLife(site) => write!(
                f,
                "site {site} was not added again with the number that its nodes were given, as far as this node \
                 knows; `--join` takes the number that `solera site add {site}` told"
            ),
            Refusal::OtherData(node, site) => write!(
                f,
                "{node} has not the data that it had, so it is not the node it was; `solera site \
                 remove {site}`, then add it again"
            ),
            Refusal::OlderCopy(node, site) => write!(
                f,
                "{node} runs with an older copy of its data, and lacks what it has told others since; \
                 `solera site remove {site}`, then add it again"
            ),
            Refusal::Forgetful(node, site) => write!(
                f,
                "{node} does not remember all that it has told others, so its data is an older copy, or \
                 its disk has lost something; `solera site remove {site}`, then add it again"
            ),
            Refusal::Tls(reason) | Refusal::Told(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Refusal {}

/// Microseconds since 1970.
pub(crate) fn clock_us() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since_epoch.as_micros() as u64
}

impl Greeting {
    /// The greeting's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, body) = match self {
            Greeting::Hello(card) => (1, postcard::to_stdvec(card)),
            Greeting::Welcome(card) => (2, postcard::to_stdvec(card)),
            Greeting::Refusal(reason) => (3, Ok(reason.clone().into_bytes())),
            Greeting::Farewell(reason) => (4, Ok(reason.clone().into_bytes())),
            Greeting::NotNow(reason) => (5, Ok(reason.clone().into_bytes())),
        };
        let body = body.expect("cards have a serialised form");
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.push(kind);
        bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&body).to_be_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }

    /// How long the body is that follows this head.
    ///
    /// # Errors
    /// This is no greeting that this version can read. A refusal can be read in any version.
    pub(crate) fn body_length(head: &[u8; HEAD]) -> Result<usize, Refusal> {
        if head[..8] != MAGIC {
            return Err(Refusal::NotSolera);
        }
        let version = u16::from_be_bytes([head[8], head[9]]);
        if version != VERSION && head[10] != 3 {
            return Err(Refusal::Version(version));
        }
        let length = u32::from_be_bytes([head[11], head[12], head[13], head[14]]) as usize;
        if length > MAX_GREETING { Err(Refusal::Damaged) } else { Ok(length) }
    }

    /// Reads a greeting whose head has passed [`Greeting::body_length`].
    ///
    /// # Errors
    /// It is damaged.
    pub(crate) fn decode(head: &[u8; HEAD], body: &[u8]) -> Result<Greeting, Refusal> {
        let checksum = u32::from_be_bytes([head[15], head[16], head[17], head[18]]);
        if crc32c::crc32c(body) != checksum {
            return Err(Refusal::Damaged);
        }
        let card = || match postcard::take_from_bytes::<Card>(body) {
            Ok((card, [])) => Ok(card),
            _ => Err(Refusal::Damaged),
        };
        match head[10] {
            1 => Ok(Greeting::Hello(card()?)),
            2 => Ok(Greeting::Welcome(card()?)),
            3 => Ok(Greeting::Refusal(String::from_utf8_lossy(body).into_owned())),
            4 => Ok(Greeting::Farewell(String::from_utf8_lossy(body).into_owned())),
            5 => Ok(Greeting::NotNow(String::from_utf8_lossy(body).into_owned())),
            _ => Err(Refusal::Damaged),
        }
    }
}

impl Card {
    /// What node `from` of a cluster shows to node `to`.
    pub(crate) fn new(spec: &ClusterSpec, from: NodeId, to: NodeId, incarnation: u64) -> Card {
        Card {
            cluster: spec.name.clone(),
            id: spec.id(),
            sites: sites(spec),
            agreed: agreed(spec),
            speaks: vec![Speaks::of(&solera_unistore::PROTOCOL)],
            from,
            to,
            incarnation,
            life: 0,
            data: incarnation,
            starts: 0,
            runs: Runs::new(),
            hybrid_us: 0,
            clock_us: clock_us(),
            received: 0,
        }
    }

    /// Whose data the sender has.
    pub(crate) fn origin(&self) -> Origin {
        let Card { life, data, starts, incarnation, .. } = *self;
        Origin { life, data, starts, incarnation }
    }

    /// Whether the node that shows `theirs` may talk to the one that shows this card, and how far the
    /// other's clock is ahead, in microseconds. The caller's card is `theirs` for the called node,
    /// and the other way round for the caller.
    ///
    /// # Errors
    /// Why it may not.
    pub(crate) fn check(
        &self,
        theirs: &Card,
        caller_is_other: bool,
        spec: &ClusterSpec,
    ) -> Result<i64, Refusal> {
        self.belongs(theirs, caller_is_other, spec)?;
        self.agrees(theirs, caller_is_other, spec)
    }

    /// Whether the two are nodes of one cluster, and each the one that is meant: the first half of
    /// [`Card::check`]. Who was removed from the cluster is told so whatever its settings are by now.
    pub(crate) fn belongs(
        &self,
        theirs: &Card,
        caller_is_other: bool,
        spec: &ClusterSpec,
    ) -> Result<(), Refusal> {
        let (caller, called) = if caller_is_other { (theirs, self) } else { (self, theirs) };
        if caller.cluster != called.cluster {
            let (caller, called) = (caller.cluster.clone(), called.cluster.clone());
            return Err(Refusal::OtherCluster { caller, called });
        }
        let mut difference = contradiction(&caller.sites, &called.sites);
        if difference.is_none() && caller.id != called.id {
            // The settings that it is made of tell more.
            difference = first_difference(caller, called).or_else(|| {
                let what = "the cluster's identifier".to_owned();
                Some((what, caller.id.to_string(), called.id.to_string()))
            });
        }
        if let Some((what, caller, called)) = difference {
            return Err(Refusal::Disagreement { what, caller, called });
        }
        if caller.to != called.from {
            let (meant, called) = (spec.name_of(caller.to), spec.name_of(called.from));
            return Err(Refusal::WrongAddress { meant, called });
        }
        if theirs.from == self.from || spec.node(theirs.from).is_none() {
            let listed = theirs.sites.get(theirs.from.site.index());
            let new = listed.filter(|_| theirs.from.site.index() >= self.sites.len());
            return Err(
                new.map_or(Refusal::NoSuchNode, |(site, _)| Refusal::NotListed(site.clone()))
            );
        }
        Ok(())
    }

    /// Whether the two have the same settings and time: the other half of [`Card::check`].
    pub(crate) fn agrees(
        &self,
        theirs: &Card,
        caller_is_other: bool,
        spec: &ClusterSpec,
    ) -> Result<i64, Refusal> {
        let (caller, called) = if caller_is_other { (theirs, self) } else { (self, theirs) };
        let difference =
            first_difference(caller, called).or_else(|| unknown_protocol(caller, called));
        if let Some((what, caller, called)) = difference {
            return Err(Refusal::Disagreement { what, caller, called });
        }
        let ahead_us = theirs.clock_us.wrapping_sub(self.clock_us) as i64;
        let apart = Duration::from_micros(ahead_us.unsigned_abs());
        if apart > spec.max_clock_skew {
            let node = spec.name_of(if ahead_us > 0 { theirs.from } else { self.from });
            let (ahead_ms, limit_ms) =
                (apart.as_millis() as u64, spec.max_clock_skew.as_millis() as u64);
            return Err(Refusal::Clocks { node, ahead_ms, limit_ms });
        }
        // What it says would make this node's times run ahead, too, and everybody's.
        let now_us = self.clock_us.max(self.hybrid_us);
        let ahead = Duration::from_micros(theirs.hybrid_us.saturating_sub(now_us));
        if ahead > spec.max_clock_skew {
            let (ahead_ms, limit_ms) =
                (ahead.as_millis() as u64, spec.max_clock_skew.as_millis() as u64);
            let node = spec.name_of(theirs.from);
            return Err(Refusal::Ahead { node, ahead_ms, limit_ms });
        }
        Ok(ahead_us)
    }
}

/// The sites, each with its nodes' workers, in words that can be shown.
fn sites(spec: &ClusterSpec) -> Vec<(String, String)> {
    let workers = |site: &SiteSpec| -> Vec<String> {
        site.nodes.iter().map(|node| node.workers.to_string()).collect()
    };
    spec.sites
        .iter()
        .map(|site| (shortened(site.name.clone()), shortened(workers(site).join("+"))))
        .collect()
}

/// What else the nodes of a cluster must agree on, in words that can be shown.
fn agreed(spec: &ClusterSpec) -> Vec<(String, String)> {
    let spaces: Vec<String> = spec.spaces.iter().map(ToString::to_string).collect();
    [
        ("partitions", spec.partitions.to_string()),
        ("protocol", spec.protocol.name().to_owned()),
        ("leader", spec.sites[spec.leader.index()].name.clone()),
        (WITH_THE_SITES, spec.f.to_string()),
        ("the spaces", spaces.join(", ")),
    ]
    .into_iter()
    .map(|(what, how)| (what.to_owned(), shortened(how)))
    .collect()
}

fn shortened(text: String) -> String {
    if text.len() <= LONG_SETTING {
        return text;
    }
    let start: String = text.chars().take(LONG_SETTING / 16).collect();
    format!("{start}… {} bytes, checksum {:08x}", text.len(), crc32c::crc32c(text.as_bytes()))
}

/// How two lists contradict each other, if neither is the beginning of the other: what differs, and how
/// each has it.
fn contradiction(
    caller: &[(String, String)],
    called: &[(String, String)],
) -> Option<(String, String, String)> {
    type Site = (String, String);
    let told = |what: &str, how: &dyn Fn(&Site) -> String| {
        let all = |sites: &[Site]| sites.iter().map(how).collect::<Vec<_>>().join(", ");
        let differ = caller.iter().zip(called).any(|(one, other)| how(one) != how(other));
        differ.then(|| (what.to_owned(), all(caller), all(called)))
    };
    told("the sites", &|(name, _)| name.clone())
        .or_else(|| told("the nodes' workers", &|(name, workers)| format!("{name}: {workers}")))
}

/// What else differs, and how each has it. What goes with the list of sites may differ as long as that
/// does.
fn first_difference(caller: &Card, called: &Card) -> Option<(String, String, String)> {
    let same_sites = caller.sites.len() == called.sites.len();
    let (caller, called) = (&caller.agreed, &called.agreed);
    let find = |all: &[(String, String)], what: &str| {
        let found = all.iter().find(|(name, _)| name == what);
        found.map_or("nothing".to_owned(), |(_, how)| how.clone())
    };
    let compared = |(what, _): &&(String, String)| same_sites || what != WITH_THE_SITES;
    caller.iter().chain(called).filter(compared).find_map(|(what, _)| {
        let (one, other) = (find(caller, what), find(called, what));
        (one != other).then(|| (what.clone(), one, other))
    })
}

/// A protocol of which two nodes have no version in common, and what each speaks of it.
fn unknown_protocol(caller: &Card, called: &Card) -> Option<(String, String, String)> {
    let of = |card: &Card, protocol| {
        card.speaks.iter().find(|speaks| speaks.protocol == protocol).cloned()
    };
    let versions = |speaks: Option<Speaks>| {
        speaks.map_or_else(|| "nothing".to_owned(), |speaks| speaks.versions())
    };
    caller.speaks.iter().chain(&called.speaks).find_map(|Speaks { protocol, name, .. }| {
        let (one, other) = (of(caller, *protocol), of(called, *protocol));
        let common = one.as_ref().zip(other.as_ref()).and_then(|(one, other)| one.common(other));
        let what = || format!("messages of protocol {protocol} ({name})");
        common.is_none().then(|| (what(), versions(one), versions(other)))
    })
}

#[cfg(test)]
mod tests {
    use solera_time::SiteId;

    use super::*;
    use solera_config::sample::{TWO_SITES, parse};

    const NEW: &str = "\
[[site]]
name = 'ap'
[[site.node]]
resp = 'c:1'
peer = 'c:2'
admin = 'c:3'
";

    fn id(site: u8) -> NodeId {
        NodeId { site: SiteId(site), node: 0 }
    }

    fn read(bytes: &[u8]) -> Result<Greeting, Refusal> {
        let (head, body) = bytes.split_first_chunk::<HEAD>().ok_or(Refusal::Damaged)?;
        let length = Greeting::body_length(head)?;
        Greeting::decode(head, body.get(..length).ok_or(Refusal::Damaged)?)
    }

    fn speaks(protocol: u8, oldest: u8, newest: u8) -> Speaks {
        Speaks { protocol, name: "UniStore".to_owned(), oldest, newest }
    }

    #[test]
    fn nodes_talk_in_the_newest_version_that_both_understand() {
        for (one, other, common) in [
            ((1, 1), (1, 1), Some(1)),
            ((1, 3), (2, 5), Some(3)),
            ((2, 5), (1, 3), Some(3)),
            ((1, 2), (3, 4), None),
            ((3, 4), (1, 2), None),
        ] {
            let of = |(oldest, newest)| speaks(1, oldest, newest);
            assert_eq!(of(one).common(&of(other)), common, "{one:?} {other:?}");
        }
    }

    #[test]
    fn greetings_are_read_back() {
        let card = Card::new(&parse(TWO_SITES), id(0), id(1), 77);
        for greeting in [
            Greeting::Hello(card.clone()),
            Greeting::Welcome(card),
            Greeting::Refusal("no".to_owned()),
            Greeting::Farewell("gone".to_owned()),
            Greeting::NotNow("later".to_owned()),
        ] {
            assert_eq!(read(&greeting.encode()), Ok(greeting));
        }
    }

    #[test]
    fn malformed_greetings_are_refused() {
        let good = Greeting::Hello(Card::new(&parse(TWO_SITES), id(0), id(1), 77)).encode();
        let with = |at: usize, bytes: &[u8]| {
            let mut greeting = good.clone();
            greeting[at..at + bytes.len()].copy_from_slice(bytes);
            greeting
        };
        let refusal = Greeting::Refusal("too old".to_owned());
        let mut of_other_version = refusal.encode();
        of_other_version[9] += 1;
        assert_eq!(read(&of_other_version), Ok(refusal));
        for (bytes, refusal) in [
            (with(0, b"GET / HT"), Refusal::NotSolera),
            (with(8, &(VERSION + 1).to_be_bytes()), Refusal::Version(VERSION + 1)),
            (with(10, &[9]), Refusal::Damaged),
            (with(11, &[0xff; 4]), Refusal::Damaged),
            (with(11, &[0; 4]), Refusal::Damaged),
            (with(15, &[0; 4]), Refusal::Damaged),
            (with(30, &[0xff]), Refusal::Damaged),
            (good[..good.len() - 1].to_vec(), Refusal::Damaged),
        ] {
            assert_eq!(read(&bytes), Err(refusal), "{bytes:?}");
        }
    }

    #[test]
    fn nodes_that_belong_together_agree() {
        let spec = parse(TWO_SITES);
        let called = Card::new(&spec, id(1), id(0), 1);
        let mut caller = Card::new(&spec, id(0), id(1), 2);
        caller.clock_us = called.clock_us + 2_000_000;
        assert_eq!(called.check(&caller, true, &spec), Ok(2_000_000));
        assert_eq!(caller.check(&called, false, &spec), Ok(-2_000_000));
    }

    #[test]
    fn the_list_of_sites_grows_at_its_end() {
        let (short, long) = (parse(TWO_SITES), parse(&format!("f = 2\n{TWO_SITES}{NEW}")));
        let called = Card::new(&short, id(1), id(0), 1);
        let caller = Card { clock_us: called.clock_us, ..Card::new(&long, id(0), id(1), 2) };
        assert_eq!(called.check(&caller, true, &short), Ok(0));
        assert_eq!(caller.check(&called, false, &long), Ok(0));
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of reasons")]
    fn strangers_are_told_why() {
        let ours = parse(TWO_SITES);
        let called = Card::new(&ours, id(1), id(0), 1);
        let from = |text: &str| Card::new(&parse(text), id(0), id(1), 2);
        let good = from(TWO_SITES);
        let late = Card { clock_us: called.clock_us - 3_600_000_000, ..good.clone() };
        let future = Card { hybrid_us: called.clock_us + 90_000_000, ..good.clone() };
        let early = Card { clock_us: called.clock_us + 61_000_000, ..good.clone() };
        for (caller, reason) in [
            (
                from(&format!("cluster = 'x'\n{TWO_SITES}")),
                "the caller belongs to 'x', the called node",
            ),
            (
                from(&TWO_SITES.replace("'us'", "'ap'")),
                "the sites: 'eu, ap' at the caller, 'eu, us' at",
            ),
            (
                from(&format!("workers = 2\n{TWO_SITES}")),
                "the nodes' workers: 'eu: 2, us: 2' at the",
            ),
            (
                from(&format!("partitions = 32\n{TWO_SITES}")),
                "partitions: '32' at the caller, '16' at",
            ),
            (from(&format!("f = 1\n{TWO_SITES}")), "f: '1' at the caller, '0' at the called"),
            (
                from(&format!(
                    "{TWO_SITES}[[space]]\nname = 'x'\nprefix = 'x'\nlevel = 'eventual'\n"
                )),
                "the spaces: 'x = \"x\" eventual, default",
            ),
            (
                from(&format!(
                    "{TWO_SITES}[[space]]\nname = 'x'\nprefix = 'x'\nlevel = 'por'\nstrong = ['DECR']\n"
                )),
                "the spaces: 'x = \"x\" por (strong DECRBY, conflicts DECRBY+DECRBY), default",
            ),
            (Card { to: id(0), ..good.clone() }, "meant node 1 of site eu, but this is node 1 of"),
            (Card { from: id(1), ..good.clone() }, "the caller is no other node of this cluster"),
            (Card { from: id(6), ..good.clone() }, "the caller is no other node of this cluster"),
            (Card { agreed: Vec::new(), ..good.clone() }, "partitions: 'nothing' at the caller"),
            (
                Card { speaks: vec![speaks(1, 2, 3)], ..good.clone() },
                "messages of protocol 1 (UniStore): 'versions 2 to 3' at the caller, 'version 1' at",
            ),
            (
                Card { speaks: vec![speaks(1, 1, 1), speaks(7, 1, 1)], ..good.clone() },
                "messages of protocol 7 (UniStore): 'version 1' at the caller, 'nothing' at",
            ),
            (
                Card { speaks: Vec::new(), ..good.clone() },
                "messages of protocol 1 (UniStore): 'nothing' at the caller, 'version 1' at",
            ),
            (
                from(&format!("{NEW}{TWO_SITES}")),
                "the sites: 'ap, eu, us' at the caller, 'eu, us' at",
            ),
            (
                from(
                    &format!("{TWO_SITES}{NEW}")
                        .replace("admin = 'b:3'", "admin = 'b:3'\nworkers = 2"),
                ),
                "the nodes' workers: 'eu: 1, us: 2, ap: 1' at the caller, 'eu: 1, us: 1' at",
            ),
            (
                Card { from: id(2), ..from(&format!("{TWO_SITES}{NEW}")) },
                "the called node does not list site ap yet",
            ),
            (Card { id: 1, ..good.clone() }, "the cluster's identifier: '1' at the caller"),
            (late, "the clock of node 1 of site us is 3600 s ahead of the other node's; 60 s are"),
            (early, "the clock of node 1 of site eu is 61 s ahead of the other node's"),
            (future.clone(), "node 1 of site eu holds times that are 90 s ahead"),
        ] {
            let error = called.check(&caller, true, &ours).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        // Who is as far ahead has nothing to lose, and who is ahead may hear of who is not.
        let as_far = Card { hybrid_us: future.hybrid_us, ..called.clone() };
        assert!(as_far.check(&future, true, &ours).is_ok());
        assert!(future.check(&called, false, &ours).is_ok());
    }
}
