//! Judges of the broadcast's properties (Creek §3.3). They share no code with the protocol.

use std::collections::BTreeMap;

use solera_consensus::{CastId, Message, Run};
use solera_election::Ballot;

use super::streams::Body;

#[derive(Default)]
pub(crate) struct Judge {
    /// The ids of each slot, by the first site that has delivered it.
    order: BTreeMap<u64, Vec<CastId>>,
    /// Number of slots whose ids were compared with those of earlier slots. A site that begins with
    /// the data of another one may deliver a slot before the other one has.
    compared: u64,
    /// Last delivered cast of each run.
    runs: BTreeMap<Run, u64>,
    /// Number of slots that each site has delivered.
    pub(crate) delivered: BTreeMap<u8, usize>,
    /// Highest ballot that each site has promised to others.
    promised: BTreeMap<u8, Ballot>,
    pub(crate) violation: Option<String>,
}

impl Judge {
    pub(crate) fn fail(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// Returns the number of delivered casts.
    pub(crate) fn casts(&self) -> usize {
        self.order.values().map(Vec::len).sum()
    }

    /// A site has delivered a slot. Uniform total order, uniform agreement, and the order of each
    /// run, including sites that fail later.
    pub(crate) fn deliver(&mut self, site: u8, slot: u64, ids: &[CastId]) {
        let count = self.delivered.entry(site).or_default();
        if slot as usize != *count + 1 {
            let what = format!("site {site} delivers slot {slot} after {count}");
            return self.fail(what);
        }
        *count += 1;
        match self.order.get(&slot) {
            Some(known) if known == ids => {}
            Some(known) => {
                let what = format!("site {site} delivers {ids:?} in slot {slot}, others {known:?}");
                self.fail(what);
            }
            None => {
                self.order.insert(slot, ids.to_vec());
                self.compare();
            }
        }
    }

    /// Each id once, and those of one run in order.
    fn compare(&mut self) {
        while let Some(ids) = self.order.get(&(self.compared + 1)).cloned() {
            self.compared += 1;
            for id in ids {
                let last = self.runs.insert(id.of(), id.number).unwrap_or(0);
                if id.number != last + 1 {
                    self.fail(format!("{id} is delivered after {last} of its run"));
                }
            }
        }
    }

    /// Uniform integrity: the predicate holds at the moment of the delivery.
    pub(crate) fn integrity(&mut self, site: u8, id: CastId, holds: bool, body: Option<&Body>) {
        if body.is_none() {
            self.fail(format!("site {site} delivers {id} without its body"));
        } else if !holds {
            self.fail(format!("site {site} delivers {id} before its context"));
        }
    }

    /// A site sends a message: it keeps its promises, also after restarts.
    pub(crate) fn send(&mut self, site: u8, message: &Message<Body>) {
        let ballot = match message {
            Message::Promise { ballot, .. }
            | Message::Accept { ballot, .. }
            | Message::Accepted { ballot, .. } => *ballot,
            _ => return,
        };
        let promised = self.promised.entry(site).or_insert(ballot);
        if ballot < *promised {
            let what = format!("site {site} takes part in {ballot:?} after {promised:?}");
            return self.fail(what);
        }
        *promised = ballot;
    }

    /// A site is started again after a crash with these deliveries.
    pub(crate) fn restart(&mut self, site: u8, delivered: usize) {
        let released = self.delivered.get(&site).copied().unwrap_or(0);
        if delivered < released {
            self.fail(format!("site {site} restarts at slot {delivered}, after {released}"));
        }
        self.delivered.insert(site, delivered);
    }

    /// A site begins anew, with the data of another one.
    pub(crate) fn replace(&mut self, site: u8, delivered: usize) {
        self.promised.remove(&site);
        self.delivered.insert(site, delivered);
    }
}
