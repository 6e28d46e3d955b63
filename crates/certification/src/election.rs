//! Election of a group's leader: status messages, canvasses and ballots. It does not depend on the
//! subject of the group's votes.
//!
//! A member that does not hear from its leader first asks whether the other members do (canvass),
//! so that a member that was cut off does not disturb a working group. Then it begins a term: a
//! quorum leaves all lower terms and hands over its state.
//!
//! If only the link between a member and the leader is broken, the other members still hear from
//! the leader, and the member's site could commit nothing. A member that hears from both of them
//! therefore takes over after a while.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_time::{Monotonic, SiteId};

use crate::config::Configuration;
use crate::ids::Ballot;

/// Minimum time between two takeovers by a member on behalf of others that do not hear from the
/// leader.
const TAKING_OVER: Duration = Duration::from_secs(15);

/// The members that elect a leader, as one of them knows them while it handles one input.
pub(crate) struct Electorate<'a> {
    pub(crate) me: SiteId,
    pub(crate) configuration: &'a Configuration,
    pub(crate) now: Monotonic,
    /// Time without a message of the leader after which the members replace it.
    pub(crate) patience: Duration,
    /// Time after which a candidate repeats its requests.
    pub(crate) retry: Duration,
}

impl Electorate<'_> {
    /// Returns whether a site is a member.
    pub(crate) fn includes(&self, site: SiteId) -> bool {
        self.configuration.members.contains(&site)
    }

    fn place(&self, site: SiteId) -> Option<usize> {
        self.configuration.members.iter().position(|other| *other == site)
    }
}

/// A member's knowledge of its group's terms, whatever its role.
#[derive(Debug)]
pub(crate) struct Election {
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
pub(crate) enum CurrentRole {
    /// Follows a leader.
    Follows,
    /// Stands for election.
    Stands,
    /// Leads.
    Leads,
}

/// A member's reaction to a canvass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Canvassed {
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
    pub(crate) fn new(ballot: Ballot, now: Monotonic) -> Self {
        Election { ballot, heard: now, begun: None, unheard: Unheard::default() }
    }

    /// Returns the lowest term in which the member takes part.
    pub(crate) fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// Returns the last term that the member saw begin since it started.
    pub(crate) fn begun(&self) -> Option<Ballot> {
        self.begun
    }

    /// Promises to take part in no lower term from now on. Returns whether the promise is new, and
    /// must be recorded.
    pub(crate) fn promise(&mut self, ballot: Ballot) -> bool {
        let later = ballot > self.ballot;
        if later {
            self.ballot = ballot;
        }
        later
    }

    /// Records a message of the leader, or begins to wait for one.
    pub(crate) fn hear(&mut self, now: Monotonic) {
        self.heard = now;
    }

    /// Records that a term has begun. Returns whether it is later than all that were seen to begin.
    pub(crate) fn begin(&mut self, ballot: Ballot) -> bool {
        let later = self.begun < Some(ballot);
        if later {
            self.begun = Some(ballot);
        }
        later
    }

    /// Returns the next term that this member may lead.
    pub(crate) fn next_ballot(&self, electorate: &Electorate<'_>) -> Ballot {
        Ballot {
            configuration: electorate.configuration.number.max(self.ballot.configuration),
            round: self.ballot.round.saturating_add(1),
            leader: electorate.me,
        }
    }

    /// Returns whether a follower should ask for another leader.
    pub(crate) fn misses_leader(&self, electorate: &Electorate<'_>) -> bool {
        let silent = electorate.now.since(self.heard);
        let own = self.ballot.leader == electorate.me;
        own || silent >= electorate.patience * (1 + self.turn(electorate))
    }

    /// Returns the number of members that may stand for election before this one. The member after
    /// the leader is the first.
    fn turn(&self, electorate: &Electorate<'_>) -> u32 {
        let members = electorate.configuration.members.len();
        let mine = electorate.place(electorate.me).unwrap_or(0);
        let after = electorate.place(self.ballot.leader).map_or(0, |leader| leader + 1);
        ((mine + members - after % members) % members) as u32
    }

    /// Handles a candidate's canvass: whether this member hears from its leader.
    pub(crate) fn on_canvass(
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
        let others = electorate.configuration.members.len() as u32 + self.turn(electorate);
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

/// A member's attempt to lead. `S` is the state that the members of a quorum hand over.
#[derive(Debug)]
pub(crate) struct Candidacy<S> {
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
pub(crate) enum Request {
    /// Report whether they miss their leader, too.
    Support(Ballot),
    /// Leave all lower terms and hand over their state.
    Promise(Ballot),
}

/// Next action of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Waits for answers.
    Wait,
    /// Repeats its request.
    Ask(Request),
    /// Gives up, because another member may be elected.
    GiveUp,
}

impl<S> Candidacy<S> {
    /// Creates a candidacy that first asks whether others hear from their leader.
    pub(crate) fn canvassing(ballot: Ballot, now: Monotonic) -> Self {
        Candidacy { ballot, since: now, asked: now, stage: Stage::Canvassing(BTreeSet::new()) }
    }

    /// Creates a candidacy that begins a term.
    pub(crate) fn gathering(ballot: Ballot, now: Monotonic) -> Self {
        Candidacy { ballot, since: now, asked: now, stage: Stage::Gathering(BTreeMap::new()) }
    }

    /// Returns the candidate's current request.
    pub(crate) fn request(&self) -> Request {
        match self.stage {
            Stage::Canvassing(_) => Request::Support(self.ballot),
            Stage::Gathering(_) => Request::Promise(self.ballot),
        }
    }

    /// Returns whether the candidate has not begun a term yet.
    pub(crate) fn canvasses(&self) -> bool {
        matches!(self.stage, Stage::Canvassing(_))
    }

    /// Returns the action that is due now.
    pub(crate) fn on_tick(&mut self, electorate: &Electorate<'_>) -> Next {
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
    pub(crate) fn on_support(
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
        supporters.len() >= electorate.configuration.quorum()
    }

    /// Handles a member's promise, with its state. Returns all states that were handed over, if
    /// this promise counts.
    pub(crate) fn on_promise(
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
