//! A member's knowledge of its group's terms, and its answers to canvasses.

use std::collections::BTreeMap;
use std::time::Duration;

use solera_time::{Monotonic, SiteId};

use crate::ballot::Ballot;
use crate::electors::Electorate;

/// Minimum time between two takeovers by a member on behalf of others that do not hear from the
/// leader.
const TAKING_OVER: Duration = Duration::from_secs(15);

/// A member's knowledge of its group's terms, whatever its role.
#[derive(Debug)]
pub struct Election {
    /// The lowest term in which the member takes part. It never decreases.
    ballot: Ballot,
    /// Time when the member last heard from the leader of `ballot`, or began to wait for it.
    heard: Monotonic,
    /// Last term that the member saw begin since it started; `None` before.
    begun: Option<Ballot>,
    unheard: Unheard,
}

/// The members that have asked for another leader while this one hears from it.
#[derive(Debug, Default)]
struct Unheard {
    /// Time when each first asked, and when it last did.
    by: BTreeMap<SiteId, (Monotonic, Monotonic)>,
    /// Time when this member last took over for one of them. A takeover does not help a site that
    /// hears from no other site.
    took_over: Option<Monotonic>,
}

/// Role of a member when it receives a canvass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentRole {
    /// Follows a leader.
    Follows,
    /// Stands for election.
    Stands,
    /// Leads.
    Leads,
}

/// A member's reaction to a canvass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canvassed {
    /// Rejects it: the member has promised this term or a later one.
    Stale,
    /// Supports the candidate.
    Supports,
    /// Begins a term itself, because the candidate does not hear from the leader and this member
    /// hears from both.
    TakesOver,
    /// Ignores it, because the member hears from its leader.
    Content,
}

impl Election {
    /// Creates the election state of a member that takes part in this term.
    pub fn new(ballot: Ballot, now: Monotonic) -> Self {
        Election { ballot, heard: now, begun: None, unheard: Unheard::default() }
    }

    /// Returns the lowest term in which the member takes part.
    pub fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// Returns the last term that the member saw begin since it started.
    pub fn begun(&self) -> Option<Ballot> {
        self.begun
    }

    /// Promises to take part in no lower term from now on. Returns whether the promise is new, and
    /// must be recorded.
    pub fn promise(&mut self, ballot: Ballot) -> bool {
        let later = ballot > self.ballot;
        if later {
            self.ballot = ballot;
        }
        later
    }

    /// Records a message of the leader, or begins to wait for one.
    pub fn hear(&mut self, now: Monotonic) {
        self.heard = now;
    }

    /// Records that a term has begun. Returns whether it is later than all that were seen to begin.
    pub fn begin(&mut self, ballot: Ballot) -> bool {
        let later = self.begun < Some(ballot);
        if later {
            self.begun = Some(ballot);
        }
        later
    }

    /// Returns the next term that this member may lead.
    pub fn next_ballot(&self, electorate: &Electorate<'_>) -> Ballot {
        Ballot {
            configuration: electorate.electors.number.max(self.ballot.configuration),
            round: self.ballot.round.saturating_add(1),
            leader: electorate.me,
        }
    }

    /// Returns whether a follower should ask for another leader.
    pub fn misses_leader(&self, electorate: &Electorate<'_>) -> bool {
        let silent = electorate.now.since(self.heard);
        let own = self.ballot.leader == electorate.me;
        own || silent >= electorate.patience * (1 + self.turn(electorate))
    }

    /// Returns the number of members that may stand for election before this one. The member after
    /// the leader is the first.
    fn turn(&self, electorate: &Electorate<'_>) -> u32 {
        let members = electorate.electors.members.len();
        let mine = electorate.place(electorate.me).unwrap_or(0);
        let after = electorate.place(self.ballot.leader).map_or(0, |leader| leader + 1);
        ((mine + members - after % members) % members) as u32
    }

    /// Handles a candidate's canvass: whether this member hears from its leader.
    pub fn on_canvass(
        &mut self,
        electorate: &Electorate<'_>,
        from: SiteId,
        ballot: Ballot,
        role: CurrentRole,
    ) -> Canvassed {
        if ballot <= self.ballot {
            return Canvassed::Stale;
        }
        let silent = electorate.now.since(self.heard) >= electorate.patience;
        let content = role == CurrentRole::Leads || (!silent && self.ballot.leader != from);
        if !content {
            Canvassed::Supports
        } else if role == CurrentRole::Follows && self.stands_between(electorate, from) {
            Canvassed::TakesOver
        } else {
            Canvassed::Content
        }
    }

    /// Returns whether this follower hears from both the leader and a member that has not heard
    /// from the leader for long.
    fn stands_between(&mut self, electorate: &Electorate<'_>, unhearing: SiteId) -> bool {
        let between = self.ballot.leader != unhearing
            && [unhearing, electorate.me].iter().all(|site| electorate.includes(*site));
        if !between {
            return false;
        }
        // The time exceeds the interval of a candidate's questions. It grows with the number of
        // members that may take over before this one.
        let others = electorate.electors.members.len() as u32 + self.turn(electorate);
        let patience = electorate.patience * (4 + others);
        let takes_over = self.unheard.asks(unhearing, electorate.now, patience);
        if takes_over {
            self.unheard = Unheard { by: BTreeMap::new(), took_over: Some(electorate.now) };
        }
        takes_over
    }
}

impl Unheard {
    /// Returns whether `site` has been asking for at least `patience`. A pause of the same length
    /// restarts the measurement.
    fn asks(&mut self, site: SiteId, now: Monotonic, patience: Duration) -> bool {
        let (first, last) = self.by.entry(site).or_insert((now, now));
        if now.since(*last) >= patience {
            *first = now;
        }
        *last = now;
        let again = self.took_over.is_none_or(|at| now.since(at) >= TAKING_OVER);
        again && now.since(*first) >= patience
    }
}
