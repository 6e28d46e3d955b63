//! Electing the leader of a group: signs of life, canvasses and ballots, whatever the group votes
//! on.
//!
//! A member that hears nothing of its leader first asks whether others do (canvass), so that one
//! that was cut off does not disturb a group that works. Then it begins a term: a quorum leaves all
//! lower ones and hands over what it has kept.
//!
//! Where only the link between a member and the leader is broken, nobody else would miss the
//! leader, and the member's site could commit nothing. A member that hears both of them for long
//! enough takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_time::{Monotonic, SiteId};

use crate::config::Configuration;
use crate::ids::Ballot;

/// A member takes over once in so long for those who do not hear the leader.
const TAKING_OVER: Duration = Duration::from_secs(15);

/// The members that elect, as one of them sees them while it handles one input.
pub(crate) struct Electorate<'a> {
    pub(crate) me: SiteId,
    pub(crate) configuration: &'a Configuration,
    pub(crate) now: Monotonic,
    /// A leader that is silent for so long is replaced.
    pub(crate) patience: Duration,
    /// A candidate repeats its question after so long.
    pub(crate) retry: Duration,
}

impl Electorate<'_> {
    /// Whether a site is a member.
    pub(crate) fn includes(&self, site: SiteId) -> bool {
        self.configuration.members.contains(&site)
    }

    fn place(&self, site: SiteId) -> Option<usize> {
        self.configuration.members.iter().position(|other| *other == site)
    }
}

/// What a member knows of its group's terms, whatever its role.
#[derive(Debug)]
pub(crate) struct Election {
    /// The member takes part in no term below this one. Never falls.
    ballot: Ballot,
    /// When the leader of `ballot` last gave a sign of life, or began to be waited for.
    heard: Monotonic,
    /// Last term that the member saw begin since it started; `None` before.
    begun: Option<Ballot>,
    unheard: Unheard,
}

/// The members that have asked for another leader while this one hears it.
#[derive(Debug, Default)]
struct Unheard {
    /// When each first asked, and when it last did.
    by: BTreeMap<SiteId, (Monotonic, Monotonic)>,
    /// When this member last took over for one of them. A site that hears nobody is not helped by
    /// it.
    took_over: Option<Monotonic>,
}

/// What a member is while it is asked for its support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Follows a leader.
    Follows,
    /// Stands for election.
    Stands,
    /// Leads.
    Leads,
}

/// What a member does about a canvass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Canvassed {
    /// Refuses it: it has promised as much before.
    Stale,
    /// Supports the candidate.
    Supports,
    /// Begins a term itself, because the candidate does not hear the leader and this member hears
    /// both.
    TakesOver,
    /// Is content with its leader.
    Content,
}

impl Election {
    /// A member that takes part in this term.
    pub(crate) fn new(ballot: Ballot, now: Monotonic) -> Self {
        Election { ballot, heard: now, begun: None, unheard: Unheard::default() }
    }

    /// The member takes part in no term below this one.
    pub(crate) fn ballot(&self) -> Ballot {
        self.ballot
    }

    /// Last term that the member saw begin since it started.
    pub(crate) fn begun(&self) -> Option<Ballot> {
        self.begun
    }

    /// Takes part in no lower term from now on. Returns whether that is new, and so to be recorded.
    pub(crate) fn promise(&mut self, ballot: Ballot) -> bool {
        let later = ballot > self.ballot;
        if later {
            self.ballot = ballot;
        }
        later
    }

    /// Takes a sign of life of the leader, or begins to wait for one.
    pub(crate) fn hear(&mut self, now: Monotonic) {
        self.heard = now;
    }

    /// A term has begun. Returns whether it is later than those that were seen to begin before.
    pub(crate) fn begin(&mut self, ballot: Ballot) -> bool {
        let later = self.begun < Some(ballot);
        if later {
            self.begun = Some(ballot);
        }
        later
    }

    /// The next term that this member may lead.
    pub(crate) fn next_ballot(&self, electorate: &Electorate<'_>) -> Ballot {
        Ballot {
            configuration: electorate.configuration.number.max(self.ballot.configuration),
            round: self.ballot.round.saturating_add(1),
            leader: electorate.me,
        }
    }

    /// Whether a follower should ask for another leader.
    pub(crate) fn misses_leader(&self, electorate: &Electorate<'_>) -> bool {
        let silent = electorate.now.since(self.heard);
        let own = self.ballot.leader == electorate.me;
        own || silent >= electorate.patience * (1 + self.turn(electorate))
    }

    /// How many members are to lead before this one: the next after the leader is first.
    fn turn(&self, electorate: &Electorate<'_>) -> u32 {
        let members = electorate.configuration.members.len();
        let mine = electorate.place(electorate.me).unwrap_or(0);
        let after = electorate.place(self.ballot.leader).map_or(0, |leader| leader + 1);
        ((mine + members - after % members) % members) as u32
    }

    /// A candidate asks whether this member hears of its leader.
    pub(crate) fn on_canvass(
        &mut self,
        electorate: &Electorate<'_>,
        from: SiteId,
        ballot: Ballot,
        standing: Standing,
    ) -> Canvassed {
        if ballot <= self.ballot {
            return Canvassed::Stale;
        }
        let silent = electorate.now.since(self.heard) >= electorate.patience;
        let content = standing == Standing::Leads || (!silent && self.ballot.leader != from);
        if !content {
            Canvassed::Supports
        } else if standing == Standing::Follows && self.stands_between(electorate, from) {
            Canvassed::TakesOver
        } else {
            Canvassed::Content
        }
    }

    /// Whether this follower hears both the leader and a member that has not heard it for long.
    fn stands_between(&mut self, electorate: &Electorate<'_>, unhearing: SiteId) -> bool {
        let between = self.ballot.leader != unhearing
            && [unhearing, electorate.me].iter().all(|site| electorate.includes(*site));
        if !between {
            return false;
        }
        // More than the time from one question to the next, and later where others are to go first.
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
    /// Whether `site` has been asking for so long now; one that is silent for as long begins anew.
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

/// A member's attempt to lead. `S` is what the members of a quorum hand over to the one that will.
#[derive(Debug)]
pub(crate) struct Candidacy<S> {
    ballot: Ballot,
    since: Monotonic,
    asked: Monotonic,
    stage: Stage<S>,
}

#[derive(Debug)]
enum Stage<S> {
    /// Asks whether others hear of their leader; these do not.
    Canvassing(BTreeSet<SiteId>),
    /// Has begun a term; these take part and have handed over what they had.
    Gathering(BTreeMap<SiteId, S>),
}

/// What a candidate asks the other members for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Whether they, too, miss their leader.
    Support(Ballot),
    /// To leave all lower terms, and to hand over what they have kept.
    Promise(Ballot),
}

/// What a candidate does with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Waits for answers.
    Wait,
    /// Asks again.
    Ask(Request),
    /// Stands no longer: another member may do better.
    GiveUp,
}

impl<S> Candidacy<S> {
    /// Asks first whether others hear of their leader.
    pub(crate) fn canvassing(ballot: Ballot, now: Monotonic) -> Self {
        Candidacy { ballot, since: now, asked: now, stage: Stage::Canvassing(BTreeSet::new()) }
    }

    /// Begins a term.
    pub(crate) fn gathering(ballot: Ballot, now: Monotonic) -> Self {
        Candidacy { ballot, since: now, asked: now, stage: Stage::Gathering(BTreeMap::new()) }
    }

    /// What the candidate asks for.
    pub(crate) fn request(&self) -> Request {
        match self.stage {
            Stage::Canvassing(_) => Request::Support(self.ballot),
            Stage::Gathering(_) => Request::Promise(self.ballot),
        }
    }

    /// Whether it has begun no term yet.
    pub(crate) fn canvasses(&self) -> bool {
        matches!(self.stage, Stage::Canvassing(_))
    }

    /// What is due now.
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

    /// A member misses its leader, too. Returns whether that is so of a quorum now.
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

    /// A member takes part in the term, and hands over what it has kept. Returns all that was
    /// handed over, if this counts.
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
