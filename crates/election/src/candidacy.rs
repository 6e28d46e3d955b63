//! A member's attempt to lead.

use std::collections::{BTreeMap, BTreeSet};

use solera_time::{Monotonic, SiteId};

use crate::ballot::Ballot;
use crate::electors::Electorate;

/// A member's attempt to lead. `S` is the state that the members of a quorum hand over.
#[derive(Debug)]
pub struct Candidacy<S> {
    ballot: Ballot,
    since: Monotonic,
    asked: Monotonic,
    stage: Stage<S>,
}

#[derive(Debug)]
enum Stage<S> {
    /// The candidate asks whether other members hear from their leader. These do not.
    Canvassing(BTreeSet<SiteId>),
    /// The candidate has begun a term. These members take part and have handed over their state.
    Gathering(BTreeMap<SiteId, S>),
}

/// A candidate's request to the other members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Report whether they miss their leader, too.
    Support(Ballot),
    /// Leave all lower terms and hand over their state.
    Promise(Ballot),
}

/// Next action of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Waits for answers.
    Wait,
    /// Repeats its request.
    Ask(Request),
    /// Gives up, because another member may be elected.
    GiveUp,
}

impl<S> Candidacy<S> {
    /// Creates a candidacy that first asks whether others hear from their leader.
    pub fn canvassing(ballot: Ballot, now: Monotonic) -> Self {
        Candidacy { ballot, since: now, asked: now, stage: Stage::Canvassing(BTreeSet::new()) }
    }

    /// Creates a candidacy that begins a term.
    pub fn gathering(ballot: Ballot, now: Monotonic) -> Self {
        Candidacy { ballot, since: now, asked: now, stage: Stage::Gathering(BTreeMap::new()) }
    }

    /// Returns the candidate's current request.
    pub fn request(&self) -> Request {
        match self.stage {
            Stage::Canvassing(_) => Request::Support(self.ballot),
            Stage::Gathering(_) => Request::Promise(self.ballot),
        }
    }

    /// Returns whether the candidate has not begun a term yet.
    pub fn canvasses(&self) -> bool {
        matches!(self.stage, Stage::Canvassing(_))
    }

    /// Postpones the end of the candidacy, because a member hands over its state in parts.
    pub fn extend(&mut self, now: Monotonic) {
        self.since = now;
    }

    /// Returns the action that is due now.
    pub fn on_tick(&mut self, electorate: &Electorate<'_>) -> Next {
        let now = electorate.now;
        if now.since(self.since) >= electorate.patience * 2 {
            return Next::GiveUp;
        }
        if now.since(self.asked) < electorate.retry {
            return Next::Wait;
        }
        self.asked = now;
        Next::Ask(self.request())
    }

    /// Handles the answer of a member that misses its leader, too. Returns whether a quorum does
    /// now.
    pub fn on_support(
        &mut self,
        electorate: &Electorate<'_>,
        from: SiteId,
        ballot: Ballot,
    ) -> bool {
        let Stage::Canvassing(supporters) = &mut self.stage else { return false };
        if ballot != self.ballot || !electorate.includes(from) {
            return false;
        }
        supporters.insert(from);
        supporters.len() >= electorate.electors.quorum()
    }

    /// Handles a member's promise, with its state. Returns all states that were handed over, if
    /// this promise counts.
    pub fn on_promise(
        &mut self,
        electorate: &Electorate<'_>,
        from: SiteId,
        ballot: Ballot,
        kept: S,
    ) -> Option<&mut BTreeMap<SiteId, S>> {
        let Stage::Gathering(handed_over) = &mut self.stage else { return None };
        if ballot != self.ballot || !electorate.includes(from) {
            return None;
        }
        handed_over.insert(from, kept);
        Some(handed_over)
    }
}
