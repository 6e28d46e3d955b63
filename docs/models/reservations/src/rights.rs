//! Rights of a bounded counter or a pool of identifiers: each right is spent once. The numbers of
//! rules are those of `README.md`.

use stateright::{Model, Property};

pub const SITES: usize = 3;
type Site = usize;
/// Name of a right: an identifier of a pool, or one unit above the bound of a counter.
type Right = u8;

/// A rule of the protocol, which a trap takes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The guard promises a right to one transaction at a time.
    CheckAtCommit,
    /// A promise is durable.
    DurablePromises,
    /// A right that is promised is not given away.
    KeepPromised,
    /// A site no longer has what it has given away.
    SubtractGiven,
    /// Others receive a gift when it is durable.
    SendDurable,
    /// Nobody has the rights of a removed site.
    BurnRemoved,
    /// *Sold out* takes a strong read of how many rights exist.
    ReadMinted,
    /// *Sold out* takes the knowledge that each right is spent, and not only that none is here.
    KnowSpent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Entry {
    Spend(Right),
    Give(Right, Site),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// The transaction has chosen a right, and nothing keeps it.
    Chosen,
    Promised,
    /// Committed: the client may have the answer.
    Decided,
    /// The guard has lost its promise. Reached without `DurablePromises` alone.
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// Strong: the site at which each right was created.
    minted: Vec<Site>,
    /// How many of them each site knows.
    copies: [usize; SITES],
    streams: [Vec<Entry>; SITES],
    /// Durable prefix of each stream.
    durable: [usize; SITES],
    known: [[usize; SITES]; SITES],
    transactions: [Vec<(Right, Phase)>; SITES],
    removed: Option<Site>,
    /// Rights that clients have received, lost ones included.
    sold: Vec<Right>,
    takes_left: u8,
    gifts_left: u8,
    restarts_left: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Choose(Site, Right),
    /// The guard promises the right to the transaction at this position.
    Promise(Site, usize),
    Decide(Site, usize),
    /// The participant applies the commit.
    Apply(Site, usize),
    Abort(Site, usize),
    Give(Site, Right, Site),
    /// The site's stream is durable so far.
    Sync(Site),
    Receive(Site, Site),
    Restart(Site),
    Remove(Site),
    /// A strong transaction creates a right at this site.
    Grow(Site),
    /// The site receives how many rights exist.
    Copy(Site),
}
use Action::*;

/// Name and condition of a state.
pub type Reached = (&'static str, fn(&Rights, &State) -> bool);

pub struct Scenario {
    pub name: &'static str,
    pub sites: usize,
    minted: &'static [Site],
    takes: u8,
    gifts: u8,
    restarts: u8,
    /// Rights that exist in the end.
    most: usize,
    removes: &'static [Site],
    pub reaches: &'static [Reached],
}

#[derive(Clone)]
pub struct Rights {
    pub scenario: &'static Scenario,
    pub trap: Option<Rule>,
}

impl Rights {
    fn has(&self, rule: Rule) -> bool {
        self.trap != Some(rule)
    }

    fn sites(&self) -> std::ops::Range<Site> {
        0..self.scenario.sites
    }

    fn seen<'a>(&self, state: &'a State, site: Site, origin: Site) -> &'a [Entry] {
        let stream = &state.streams[origin];
        &stream[..state.known[site][origin].min(stream.len())]
    }

    /// Whether a site has a right: created or received, and neither given away nor spent (B1).
    fn has_right(&self, state: &State, site: Site, right: Right) -> bool {
        let count = |origin: Site, entry: Entry| {
            self.seen(state, site, origin).iter().filter(|other| **other == entry).count()
        };
        let given = self.sites().map(|to| count(site, Entry::Give(right, to))).sum::<usize>();
        let given = if self.has(Rule::SubtractGiven) { given } else { 0 };
        let received: usize = self.sites().map(|from| count(from, Entry::Give(right, site))).sum();
        let minted = state.minted.iter().take(state.copies[site]).nth(right.into());
        // Without the rule, the first site takes over the rights of a removed one.
        let heir = !self.has(Rule::BurnRemoved) && site == 0 && state.removed == minted.copied();
        let created = usize::from(minted == Some(&site) || heir);
        created + received > given && count(site, Entry::Spend(right)) == 0
    }

    /// Whether a right is kept for a transaction.
    fn is_kept(&self, state: &State, site: Site, right: Right) -> bool {
        let kept = |phase| matches!(phase, Phase::Promised | Phase::Decided);
        state.transactions[site].iter().any(|(other, phase)| *other == right && kept(*phase))
    }

    fn is_running(&self, state: &State, site: Site) -> bool {
        state.removed != Some(site)
    }

    /// Whether a site may answer that no right is left (B6).
    fn is_sold_out(&self, state: &State, site: Site) -> bool {
        let minted =
            if self.has(Rule::ReadMinted) { state.minted.len() } else { state.copies[site] };
        let spent = |right: Right| {
            let spent = Entry::Spend(right);
            self.sites().any(|origin| self.seen(state, site, origin).contains(&spent))
        };
        let known = |right: Right| {
            if self.has(Rule::KnowSpent) {
                spent(right)
            } else {
                !self.has_right(state, site, right)
            }
        };
        self.is_running(state, site) && (0..minted as Right).all(known)
    }

    /// Takes a step. Returns whether its conditions hold.
    fn step(&self, state: &mut State, action: Action) -> bool {
        match action {
            Choose(site, right) => {
                let may = self.is_running(state, site)
                    && self.has_right(state, site, right)
                    && !self.is_kept(state, site, right);
                if may {
                    state.transactions[site].push((right, Phase::Chosen));
                }
                may
            }
            Promise(site, position) => {
                let Some(&(right, Phase::Chosen)) = state.transactions[site].get(position) else {
                    return false;
                };
                let free = self.has_right(state, site, right) && !self.is_kept(state, site, right);
                let may = free || !self.has(Rule::CheckAtCommit);
                if may {
                    state.transactions[site][position].1 = Phase::Promised;
                }
                may
            }
            Decide(site, position) => {
                let Some(&(right, Phase::Promised | Phase::Lost)) =
                    state.transactions[site].get(position)
                else {
                    return false;
                };
                state.transactions[site][position].1 = Phase::Decided;
                state.sold.push(right);
                state.sold.sort_unstable();
                true
            }
            Apply(site, position) => {
                let Some(&(right, Phase::Decided)) = state.transactions[site].get(position) else {
                    return false;
                };
                state.transactions[site].remove(position);
                self.append(state, site, Entry::Spend(right))
            }
            Abort(site, position) => {
                let may = state.transactions[site]
                    .get(position)
                    .is_some_and(|(_, phase)| *phase != Phase::Decided);
                if may {
                    state.transactions[site].remove(position);
                }
                may
            }
            Give(site, right, to) => {
                let kept = self.is_kept(state, site, right) && self.has(Rule::KeepPromised);
                site != to
                    && self.is_running(state, site)
                    && self.has_right(state, site, right)
                    && !kept
                    && self.append(state, site, Entry::Give(right, to))
            }
            _ => self.replicate(state, action),
        }
    }

    fn replicate(&self, state: &mut State, action: Action) -> bool {
        match action {
            Sync(site) => {
                let length = state.streams[site].len();
                std::mem::replace(&mut state.durable[site], length) != length
            }
            Receive(site, origin) => {
                let durable = state.durable[origin];
                let most =
                    if self.has(Rule::SendDurable) { durable } else { state.streams[origin].len() };
                let more = state.known[site][origin] < most;
                state.known[site][origin] += usize::from(more);
                more
            }
            Restart(site) => {
                let durable = state.durable[site];
                state.streams[site].truncate(durable);
                state.known[site][site] = durable;
                state.transactions[site].retain(|(_, phase)| *phase != Phase::Chosen);
                if !self.has(Rule::DurablePromises) {
                    let promised = state.transactions[site].iter_mut();
                    promised
                        .filter(|(_, phase)| *phase == Phase::Promised)
                        .for_each(|transaction| transaction.1 = Phase::Lost);
                }
                true
            }
            Remove(site) => {
                if state.removed.is_some() {
                    return false;
                }
                let others = self.sites().filter(|other| *other != site);
                let cut = others.map(|other| state.known[other][site]).max().unwrap_or(0);
                state.streams[site].truncate(cut);
                state.durable[site] = cut;
                state.known[site][site] = cut;
                state.transactions[site].clear();
                state.removed = Some(site);
                true
            }
            Grow(site) => {
                let may = self.is_running(state, site);
                if may {
                    state.minted.push(site);
                }
                may
            }
            Copy(site) => {
                let more = state.copies[site] < state.minted.len();
                state.copies[site] += usize::from(more);
                more
            }
            _ => false,
        }
    }

    /// Appends to a stream. A spent right is durable at once: with the record of the commit.
    fn append(&self, state: &mut State, site: Site, entry: Entry) -> bool {
        state.streams[site].push(entry);
        state.known[site][site] += 1;
        if matches!(entry, Entry::Spend(_)) {
            state.durable[site] = state.streams[site].len();
        }
        true
    }

    // Properties.

    fn rights_are_spent_once(&self, state: &State) -> bool {
        state.sold.windows(2).all(|pair| pair[0] != pair[1])
    }

    fn bound_holds(&self, state: &State) -> bool {
        state.sold.len() <= state.minted.len()
    }

    /// Whether *sold out* is true: every right is sold, or was at a site that is removed.
    fn sold_out_is_true(&self, state: &State) -> bool {
        let sold = |right: &Right| state.sold.contains(right);
        let all = (0..state.minted.len() as Right).all(|right| sold(&right));
        all || !self.sites().any(|site| self.is_sold_out(state, site))
    }

    /// Whether each right is at exactly one site after all transactions and messages, if it is
    /// neither sold nor may be with a removed site.
    fn no_right_is_lost(&self, state: &State) -> bool {
        let mut state = state.clone();
        for site in self.sites() {
            while !state.transactions[site].is_empty() {
                if !self.step(&mut state, Apply(site, 0)) {
                    self.step(&mut state, Abort(site, 0));
                }
            }
            self.step(&mut state, Sync(site));
        }
        for site in self.sites() {
            while self.step(&mut state, Copy(site)) {}
            for origin in self.sites() {
                while self.step(&mut state, Receive(site, origin)) {}
            }
        }
        (0..state.minted.len() as Right).all(|right| {
            let holders = self.sites().filter(|site| self.is_running(&state, *site));
            let holders = holders.filter(|site| self.has_right(&state, *site, right)).count();
            holders == usize::from(!state.sold.contains(&right))
                || holders == 0 && state.removed.is_some()
        })
    }
}

impl Model for Rights {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            minted: self.scenario.minted.to_vec(),
            copies: [self.scenario.minted.len(); SITES],
            streams: Default::default(),
            durable: Default::default(),
            known: Default::default(),
            transactions: Default::default(),
            removed: None,
            sold: vec![],
            takes_left: self.scenario.takes,
            gifts_left: self.scenario.gifts,
            restarts_left: self.scenario.restarts,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for site in self.sites() {
            for right in 0..state.minted.len() as Right {
                if state.takes_left > 0 {
                    actions.push(Choose(site, right));
                }
                if state.gifts_left > 0 {
                    actions.extend(self.sites().map(|to| Give(site, right, to)));
                }
            }
            for position in 0..state.transactions[site].len() {
                actions.extend([
                    Promise(site, position),
                    Decide(site, position),
                    Apply(site, position),
                    Abort(site, position),
                ]);
            }
            actions.extend([Sync(site), Copy(site)]);
            actions.extend(self.sites().map(|origin| Receive(site, origin)));
            if state.restarts_left > 0 {
                actions.push(Restart(site));
            }
            if state.minted.len() < self.scenario.most {
                actions.push(Grow(site));
            }
        }
        actions.extend(self.scenario.removes.iter().map(|site| Remove(*site)));
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut after = before.clone();
        if !self.step(&mut after, action) {
            return None;
        }
        match action {
            Choose(..) => after.takes_left -= 1,
            Give(..) => after.gifts_left -= 1,
            Restart(_) => after.restarts_left -= 1,
            _ => {}
        }
        (after != *before).then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("spent once", Rights::rights_are_spent_once),
            Property::always("within the bound", Rights::bound_holds),
            Property::always("sold out is true", Rights::sold_out_is_true),
            Property::always("no right is lost", Rights::no_right_is_lost),
        ];
        let reaches = self.scenario.reaches.iter();
        properties.extend(reaches.map(|(name, condition)| Property::sometimes(name, *condition)));
        properties
    }
}

pub const SCENARIOS: &[Scenario] = &[
    // Two sites spend, give and get back two rights.
    Scenario {
        name: "rights",
        sites: 2,
        minted: &[0, 0],
        takes: 3,
        gifts: 2,
        restarts: 1,
        most: 2,
        removes: &[],
        reaches: &[
            ("a right is given and spent", |_, state| {
                state.streams[1].iter().any(|entry| matches!(entry, Entry::Spend(_)))
            }),
            ("a right comes back", |model, state| {
                state.streams[1].iter().any(|entry| matches!(entry, Entry::Give(_, 0)))
                    && model.has_right(state, 0, 0)
                    && model.has_right(state, 0, 1)
            }),
            ("sold out", |model, state| model.is_sold_out(state, 1)),
        ],
    },
    // A right is added while all others are sold.
    Scenario {
        name: "growth",
        sites: 2,
        minted: &[0],
        takes: 2,
        gifts: 1,
        restarts: 1,
        most: 2,
        removes: &[],
        reaches: &[("all are sold", |_, state| state.sold.len() == 2)],
    },
    // A site that holds a right is removed.
    Scenario {
        name: "removed-holder",
        sites: 3,
        minted: &[0, 2],
        takes: 2,
        gifts: 1,
        restarts: 0,
        most: 2,
        removes: &[2],
        reaches: &[
            ("a gift outlives the site that gave it", |model, state| {
                state.removed.is_some() && model.has_right(state, 1, 1)
            }),
            ("a spent right is lost", |_, state| {
                state.sold.contains(&1) && state.removed.is_some() && state.streams[2].is_empty()
            }),
        ],
    },
];

/// Rules with the scenario and the property that their absence must violate.
pub const TRAPS: &[(Rule, &str, &str)] = &[
    (Rule::CheckAtCommit, "rights", "spent once"),
    (Rule::CheckAtCommit, "growth", "within the bound"),
    (Rule::DurablePromises, "rights", "spent once"),
    (Rule::KeepPromised, "rights", "spent once"),
    (Rule::SubtractGiven, "rights", "spent once"),
    (Rule::SendDurable, "rights", "spent once"),
    (Rule::BurnRemoved, "removed-holder", "spent once"),
    (Rule::ReadMinted, "growth", "sold out is true"),
    (Rule::KnowSpent, "rights", "sold out is true"),
];
