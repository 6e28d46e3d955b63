//! Identity of a node, and the check whether another node belongs to the same cluster.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use solera_machine::NodeId;

use crate::admission::{Origin, Run};
use crate::identity::{Identity, Speaks, WITH_THE_SITES};
use crate::refusal::Refusal;

/// Length in bytes above which settings are compared by their hash.
const LONG_SETTING: usize = 1024;

/// Identity and settings of a node, which it sends in its greeting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Name of the cluster.
    pub cluster: String,
    /// [`Identity::id`].
    pub id: u64,
    /// Sites, with the workers of each of their nodes. One node's list may be a prefix of the
    /// other's.
    pub sites: Vec<(String, String)>,
    /// Further settings on which all nodes must agree: `(name, value)`.
    pub agreed: Vec<(String, String)>,
    /// Protocols that the node runs.
    pub speaks: Vec<Speaks>,
    /// Sender.
    pub from: NodeId,
    /// Node that the sender wants to reach.
    pub to: NodeId,
    /// Random number of the process.
    pub incarnation: u64,
    /// Generation of the sender's site to which the sender belongs.
    pub generation: u32,
    /// Random number of the data, drawn when a node begins without data.
    pub data: u64,
    /// Number of processes that have started with the data; 0 for a node in memory.
    pub starts: u64,
    /// Recovered state of each worker at its start; empty for a node in memory.
    pub runs: Vec<Run>,
    /// Greatest time that the node's data or a worker has seen, in microseconds since 1970.
    pub hybrid_us: u64,
    /// Clock of the sender, in microseconds since 1970.
    pub clock_us: u64,
    /// In a welcome: the last numbered frame that arrived from the caller's incarnation.
    pub received: u64,
}

impl Card {
    /// Creates the card that node `from` of a cluster sends to node `to`, for a node in memory.
    /// `clock_us` is in microseconds since 1970.
    pub fn new(
        identity: &Identity,
        from: NodeId,
        to: NodeId,
        incarnation: u64,
        clock_us: u64,
    ) -> Card {
        let workers = |nodes: &[u8]| {
            let workers: Vec<String> = nodes.iter().map(u8::to_string).collect();
            shortened(workers.join("+"))
        };
        let sites = identity.sites.iter();
        let agreed = identity.agreed.iter();
        Card {
            cluster: identity.cluster.clone(),
            id: identity.id,
            sites: sites.map(|(name, nodes)| (shortened(name.clone()), workers(nodes))).collect(),
            agreed: agreed.map(|(what, how)| (what.clone(), shortened(how.clone()))).collect(),
            speaks: identity.speaks.clone(),
            from,
            to,
            incarnation,
            generation: 0,
            data: incarnation,
            starts: 0,
            runs: Vec::new(),
            hybrid_us: 0,
            clock_us,
            received: 0,
        }
    }

    /// Returns the identity of the sender's data.
    pub fn origin(&self) -> Origin {
        let Card { generation, data, starts, incarnation, .. } = *self;
        Origin { generation, data, starts, incarnation }
    }

    /// Checks whether the node that sent `theirs` and the node that sends this card may
    /// communicate. Returns how far the other node's clock is ahead, in microseconds.
    /// `caller_is_other` is true if `theirs` is the caller's card.
    ///
    /// # Errors
    /// The reason for which the other node is refused.
    pub fn check(
        &self,
        theirs: &Card,
        caller_is_other: bool,
        identity: &Identity,
        max_clock_skew: Duration,
    ) -> Result<i64, Refusal> {
        self.belongs(theirs, caller_is_other, identity)?;
        self.agrees(theirs, caller_is_other, identity, max_clock_skew)
    }

    /// First half of [`Card::check`]: checks that both are nodes of one cluster, and that each is
    /// the node that the other one wants to reach. It comes before the comparison of settings, so
    /// that a removed node learns of its removal whatever its settings are.
    pub fn belongs(
        &self,
        theirs: &Card,
        caller_is_other: bool,
        identity: &Identity,
    ) -> Result<(), Refusal> {
        let (caller, called) = if caller_is_other { (theirs, self) } else { (self, theirs) };
        if caller.cluster != called.cluster {
            let (caller, called) = (caller.cluster.clone(), called.cluster.clone());
            return Err(Refusal::OtherCluster { caller, called });
        }
        let mut difference = contradiction(&caller.sites, &called.sites);
        if difference.is_none() && caller.id != called.id {
            // A difference of the settings from which the identifier is derived is more
            // informative.
            difference = first_difference(caller, called).or_else(|| {
                let what = "the cluster's identifier".to_owned();
                let (caller, called) = (caller.id.to_string(), called.id.to_string());
                Some(Refusal::Disagreement { what, caller, called })
            });
        }
        if let Some(difference) = difference {
            return Err(difference);
        }
        if caller.to != called.from {
            let (meant, called) = (identity.name_of(caller.to), identity.name_of(called.from));
            return Err(Refusal::WrongAddress { meant, called });
        }
        if theirs.from == self.from || !identity.has(theirs.from) {
            let listed = theirs.sites.get(theirs.from.site.index());
            let new = listed.filter(|_| theirs.from.site.index() >= self.sites.len());
            return Err(
                new.map_or(Refusal::NoSuchNode, |(site, _)| Refusal::NotListed(site.clone()))
            );
        }
        Ok(())
    }

    /// Second half of [`Card::check`]: checks that both nodes have the same settings and nearly the
    /// same time.
    pub fn agrees(
        &self,
        theirs: &Card,
        caller_is_other: bool,
        identity: &Identity,
        max_clock_skew: Duration,
    ) -> Result<i64, Refusal> {
        let (caller, called) = if caller_is_other { (theirs, self) } else { (self, theirs) };
        let difference =
            first_difference(caller, called).or_else(|| unknown_protocol(caller, called));
        if let Some(difference) = difference {
            return Err(difference);
        }
        let ahead_us = theirs.clock_us.wrapping_sub(self.clock_us) as i64;
        let apart = Duration::from_micros(ahead_us.unsigned_abs());
        if apart > max_clock_skew {
            let node = identity.name_of(if ahead_us > 0 { theirs.from } else { self.from });
            let (ahead_ms, limit_ms) =
                (apart.as_millis() as u64, max_clock_skew.as_millis() as u64);
            return Err(Refusal::Clocks { node, ahead_ms, limit_ms });
        }
        // The other node's times would advance the times of this node, and of all other nodes.
        let now_us = self.clock_us.max(self.hybrid_us);
        let ahead = Duration::from_micros(theirs.hybrid_us.saturating_sub(now_us));
        if ahead > max_clock_skew {
            let (ahead_ms, limit_ms) =
                (ahead.as_millis() as u64, max_clock_skew.as_millis() as u64);
            let node = identity.name_of(theirs.from);
            return Err(Refusal::Ahead { node, ahead_ms, limit_ms });
        }
        Ok(ahead_us)
    }
}

fn shortened(text: String) -> String {
    if text.len() <= LONG_SETTING {
        return text;
    }
    let start: String = text.chars().take(LONG_SETTING / 16).collect();
    format!("{start}… {} bytes, checksum {:08x}", text.len(), crc32c::crc32c(text.as_bytes()))
}

/// Returns how two lists contradict each other; `None` if one list is a prefix of the other.
fn contradiction(caller: &[(String, String)], called: &[(String, String)]) -> Option<Refusal> {
    type Site = (String, String);
    let differs = |what: &str, how: &dyn Fn(&Site) -> String| {
        let all = |sites: &[Site]| sites.iter().map(how).collect::<Vec<_>>().join(", ");
        let differ = caller.iter().zip(called).any(|(one, other)| how(one) != how(other));
        let (what, caller, called) = (what.to_owned(), all(caller), all(called));
        differ.then_some(Refusal::Disagreement { what, caller, called })
    };
    differs("the sites", &|(name, _)| name.clone())
        .or_else(|| differs("the nodes' workers", &|(name, workers)| format!("{name}: {workers}")))
}

/// Returns the first setting that differs. Settings that depend on the list of sites may differ
/// while the lists differ. A setting that only one node has indicates different releases.
fn first_difference(caller: &Card, called: &Card) -> Option<Refusal> {
    let same_sites = caller.sites.len() == called.sites.len();
    let (caller, called) = (&caller.agreed, &called.agreed);
    let find = |all: &[(String, String)], what: &str| {
        all.iter().find(|(name, _)| name == what).map(|(_, how)| how.clone())
    };
    let compared = |(what, _): &&(String, String)| same_sites || what != WITH_THE_SITES;
    caller.iter().chain(called).filter(compared).find_map(|(what, _)| {
        match (find(caller, what), find(called, what)) {
            (one, other) if one == other => None,
            (Some(caller), Some(called)) => {
                Some(Refusal::Disagreement { what: what.clone(), caller, called })
            }
            (one, other) => {
                let [caller, called] = [one, other].map(|it| it.unwrap_or_else(nothing));
                Some(Refusal::Releases { what: what.clone(), caller, called })
            }
        }
    })
}

fn nothing() -> String {
    "nothing".to_owned()
}

/// Returns a protocol of which the two nodes have no version in common. Their configurations
/// contain the same protocols, so only their releases can differ.
fn unknown_protocol(caller: &Card, called: &Card) -> Option<Refusal> {
    let of = |card: &Card, protocol| {
        card.speaks.iter().find(|speaks| speaks.protocol == protocol).cloned()
    };
    let versions = |speaks: Option<Speaks>| speaks.map_or_else(nothing, |speaks| speaks.versions());
    caller.speaks.iter().chain(&called.speaks).find_map(|Speaks { protocol, name, .. }| {
        let (one, other) = (of(caller, *protocol), of(called, *protocol));
        let common = one.as_ref().zip(other.as_ref()).and_then(|(one, other)| one.common(other));
        common.is_none().then(|| Refusal::Releases {
            what: format!("messages of protocol {protocol} ({name})"),
            caller: versions(one),
            called: versions(other),
        })
    })
}
