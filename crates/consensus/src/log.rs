//! The slots as one member knows them: proposals, acceptances, votes and decisions.

use std::collections::{BTreeMap, BTreeSet};

use solera_election::{Ballot, Electors};
use solera_time::SiteId;

use crate::ids::{Batch, Held, Slot};

/// Largest distance of a slot from the decided ones. A message about a later slot is ignored, so
/// that no content of a message makes a member fill slots without end. A member that is so far
/// behind catches up before it takes part again.
const AHEAD: u64 = 1 << 16;

/// The slots of one member.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// All members have delivered the slots up to here, and this one has forgotten them.
    pub(crate) forgotten: Slot,
    /// The slots up to here are delivered.
    pub(crate) delivered: Slot,
    /// The decisions of all slots up to here are known.
    pub(crate) decided: Slot,
    /// Number of decisions that the member has learnt since it started.
    pub(crate) decisions: u64,
    slots: BTreeMap<Slot, SlotState>,
    /// Slots whose last proposal this member has not accepted.
    pub(crate) kept: BTreeSet<Slot>,
}

/// A slot, as long as it is not forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotState {
    /// The proposal of the highest ballot.
    pub(crate) proposed: Option<(Ballot, Batch)>,
    /// Batch that this member has accepted last, with its ballot.
    pub(crate) accepted: Option<(Ballot, Batch)>,
    /// The members that have accepted the proposal of the highest ballot in which one has.
    votes: Option<(Ballot, Sites)>,
    pub(crate) decided: Option<Batch>,
    /// Whether the records contain the decided batch as an acceptance.
    pub(crate) recorded: bool,
}

/// A set of sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sites(u8);

impl Sites {
    fn bit(site: SiteId) -> u8 {
        1_u8.checked_shl(site.0.into()).unwrap_or(0)
    }

    fn insert(&mut self, site: SiteId) {
        self.0 |= Sites::bit(site);
    }

    fn contains(self, site: SiteId) -> bool {
        self.0 & Sites::bit(site) != 0
    }
}

impl Log {
    /// Returns whether a slot is far beyond the decided ones.
    pub(crate) fn is_far(&self, slot: Slot) -> bool {
        slot.0 > self.decided.0.saturating_add(AHEAD)
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&SlotState> {
        self.slots.get(&slot)
    }

    /// Returns the slot for a change; `None` if it is forgotten.
    pub(crate) fn slot(&mut self, slot: Slot) -> Option<&mut SlotState> {
        (slot > self.forgotten).then(|| self.slots.entry(slot).or_default())
    }

    /// Returns the slots after one, in order.
    pub(crate) fn after(&self, slot: Slot) -> impl Iterator<Item = (Slot, &SlotState)> {
        self.slots.range(slot.next()..).map(|(slot, state)| (*slot, state))
    }

    /// Returns the decision of a slot, if it is known and not forgotten.
    pub(crate) fn decision(&self, slot: Slot) -> Option<&Batch> {
        self.slots.get(&slot)?.decided.as_ref()
    }

    pub(crate) fn is_decided(&self, slot: Slot) -> bool {
        slot <= self.decided || self.decision(slot).is_some()
    }

    /// Returns whether there are slots that are not forgotten.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Stores a decision. Returns whether it is new.
    pub(crate) fn decide(&mut self, slot: Slot, batch: Batch) -> bool {
        if self.is_decided(slot) {
            return false;
        }
        let Some(state) = self.slot(slot) else { return false };
        let recorded = state.accepted.as_ref().is_some_and(|(_, accepted)| *accepted == batch);
        *state = SlotState { decided: Some(batch), recorded, ..SlotState::default() };
        self.kept.remove(&slot);
        self.decisions += 1;
        self.advance();
        true
    }

    fn advance(&mut self) {
        while self.decision(self.decided.next()).is_some() {
            self.decided = self.decided.next();
        }
    }

    /// Notes that the slots up to here are delivered.
    pub(crate) fn deliver(&mut self, upto: Slot) {
        self.delivered = self.delivered.max(upto);
        self.decided = self.decided.max(self.delivered);
        self.advance();
    }

    /// Forgets delivered slots.
    pub(crate) fn forget(&mut self, upto: Slot) {
        let upto = upto.min(self.delivered);
        if upto > self.forgotten {
            self.forgotten = upto;
            self.slots = self.slots.split_off(&upto.next());
            self.kept = self.kept.split_off(&upto.next());
        }
    }

    /// Returns the slots after one in which this member has accepted or decided, in order.
    pub(crate) fn held(&self, after: Slot) -> impl Iterator<Item = Held> + '_ {
        let held = |(slot, state): (Slot, &SlotState)| match (&state.decided, &state.accepted) {
            (Some(batch), _) => Some(Held { slot, accepted: None, batch: batch.clone() }),
            (None, Some((ballot, batch))) => {
                Some(Held { slot, accepted: Some(*ballot), batch: batch.clone() })
            }
            (None, None) => None,
        };
        self.after(after).filter_map(held)
    }
}

impl SlotState {
    /// Stores a proposal unless one of a higher ballot is known. Returns whether it is the known
    /// proposal now.
    pub(crate) fn propose(&mut self, ballot: Ballot, batch: Batch) -> bool {
        if self.proposed.as_ref().is_none_or(|(other, _)| *other < ballot) {
            self.proposed = Some((ballot, batch));
        }
        self.proposed.as_ref().is_some_and(|(other, _)| *other == ballot)
    }

    /// Accepts the proposal.
    pub(crate) fn accept(&mut self, me: SiteId) {
        self.accepted.clone_from(&self.proposed);
        if let Some((ballot, _)) = self.accepted {
            self.vote(ballot, me);
        }
    }

    /// Counts an acceptance.
    pub(crate) fn vote(&mut self, ballot: Ballot, site: SiteId) {
        if self.votes.is_none_or(|(other, _)| other < ballot) {
            self.votes = Some((ballot, Sites::default()));
        }
        if let Some((of, sites)) = &mut self.votes
            && *of == ballot
        {
            sites.insert(site);
        }
    }

    /// Returns whether a site has accepted the proposal of this ballot.
    pub(crate) fn has_voted(&self, ballot: Ballot, site: SiteId) -> bool {
        self.votes.is_some_and(|(of, sites)| of == ballot && sites.contains(site))
    }

    /// Returns the known proposal, with its ballot and the number of members that have accepted it.
    pub(crate) fn voted(&self, electors: &Electors) -> Option<(Ballot, &Batch, usize)> {
        let (ballot, batch) = self.proposed.as_ref()?;
        let (of, sites) = self.votes?;
        let votes = electors.members.iter().filter(|site| sites.contains(**site)).count();
        (of == *ballot).then_some((*ballot, batch, votes))
    }
}
