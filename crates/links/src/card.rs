//! Who a node is, and whether another one belongs to its cluster.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use solera_machine::NodeId;

use crate::admission::{Origin, Run};
use crate::identity::{Identity, Speaks, WITH_THE_SITES};
use crate::refusal::Refusal;

/// Settings longer than this are compared by their hash.
const LONG_SETTING: usize = 1024;

/// Who a node is, and what it believes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The cluster's name.
    pub cluster: String,
    /// [`Identity::id`].
    pub id: u64,
    /// The sites, each with its nodes' workers. One list may be the beginning of the other.
    pub sites: Vec<(String, String)>,
    /// What else all nodes must agree on: `(what, how)`.
    pub agreed: Vec<(String, String)>,
    /// The protocols that the node runs.
    pub speaks: Vec<Speaks>,
    /// The sender.
    pub from: NodeId,
    /// Whom the sender means to talk to.
    pub to: NodeId,
    /// Drawn anew by each process.
    pub incarnation: u64,
    /// Which life of its site the sender belongs to.
    pub life: u32,
    /// Drawn anew when a node begins without data.
    pub data: u64,
    /// How often a process was started with the data; 0 of a node that keeps none.
    pub starts: u64,
    /// What the node's workers remembered when they began; nothing of a node that keeps no data.
    pub runs: Vec<Run>,
    /// The greatest time that the node's data or a worker has seen, in microseconds since 1970.
    pub hybrid_us: u64,
    /// Microseconds since 1970.
    pub clock_us: u64,
    /// In a welcome: the last numbered frame that arrived from the caller's incarnation.
    pub received: u64,
}

impl Card {
    /// What node `from` of a cluster shows to node `to`, if it keeps no data. `clock_us` is in
    /// microseconds since 1970.
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
            life: 0,
            data: incarnation,
            starts: 0,
            runs: Vec::new(),
            hybrid_us: 0,
            clock_us,
            received: 0,
        }
    }

    /// Whose data the sender has.
    pub fn origin(&self) -> Origin {
        let Card { life, data, starts, incarnation, .. } = *self;
        Origin { life, data, starts, incarnation }
    }

    /// Whether the node that shows `theirs` may talk to the one that shows this card, and how far
    /// the other's clock is ahead, in microseconds. The caller's card is `theirs` for the called
    /// node, and the other way round for the caller.
    ///
    /// # Errors
    /// Why it may not.
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

    /// Whether the two are nodes of one cluster, and each the one that is meant: the first half of
    /// [`Card::check`]. Who was removed from the cluster is told so whatever its settings are by
    /// now.
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

    /// Whether the two have the same settings and time: the other half of [`Card::check`].
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
        if let Some((what, caller, called)) = difference {
            return Err(Refusal::Disagreement { what, caller, called });
        }
        let ahead_us = theirs.clock_us.wrapping_sub(self.clock_us) as i64;
        let apart = Duration::from_micros(ahead_us.unsigned_abs());
        if apart > max_clock_skew {
            let node = identity.name_of(if ahead_us > 0 { theirs.from } else { self.from });
            let (ahead_ms, limit_ms) =
                (apart.as_millis() as u64, max_clock_skew.as_millis() as u64);
            return Err(Refusal::Clocks { node, ahead_ms, limit_ms });
        }
        // What it says would make this node's times run ahead, too, and everybody's.
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

/// How two lists contradict each other, if neither is the beginning of the other: what differs, and
/// how each has it.
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

/// What else differs, and how each has it. What goes with the list of sites may differ as long as
/// that does.
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
