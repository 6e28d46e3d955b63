//! What must hold in every state.

use crate::protocol::*;

impl Broadcast {
    /// Whether no slot has two values that quorums accepted or members delivered.
    pub fn slots_agree(&self, state: &State) -> bool {
        (0..SLOTS).all(|slot| {
            let ballots = (0..self.last_ballot()).filter(|ballot| {
                let votes = state.votes[*ballot][slot];
                votes != 0 && self.is_quorum(votes, self.electorate(state, *ballot))
            });
            let chosen = ballots.map(|ballot| state.proposals[ballot][slot]);
            let logs = self.members().filter_map(|member| state.log(member).get(slot).copied());
            let mut values = chosen.chain(logs);
            let first = values.next();
            values.all(|value| Some(value) == first)
        })
    }

    /// Whether each list of delivered casts is a prefix of the longest.
    pub fn orders_agree(&self, state: &State) -> bool {
        let orders = || self.members().map(|member| self.delivered(state.log(member)));
        let longest = orders().max_by_key(|order| order.casts().len());
        longest
            .is_none_or(|longest| orders().all(|order| longest.casts().starts_with(order.casts())))
    }

    /// Whether no member delivers a cast twice.
    pub fn casts_are_delivered_once(&self, state: &State) -> bool {
        self.members().all(|member| {
            let order = self.delivered(state.log(member));
            order.casts().len() == order.set.count_ones() as usize
        })
    }

    /// Whether each cast is delivered after all earlier ones of its run.
    pub fn runs_are_in_order(&self, state: &State) -> bool {
        self.members().all(|member| {
            let order = self.delivered(state.log(member));
            order
                .iter()
                .try_fold(0, |before, cast| {
                    is_subset(self.earlier[cast] & self.strong, before).then(|| before | bit(cast))
                })
                .is_some()
        })
    }

    /// Whether what a member has delivered is on its disk with all that the predicate requires, and
    /// follows the strong operations of its context.
    pub fn predicates_hold(&self, state: &State) -> bool {
        self.members().all(|member| {
            let order = self.delivered(state.log(member));
            let mut committed = 0;
            order.iter().all(|cast| {
                let strong = state.contexts[cast] & self.strong;
                let holds = is_subset(self.required(state, cast), state.durable[member])
                    && is_subset(strong, committed);
                committed |= bit(cast);
                holds
            })
        })
    }

    /// Whether a quorum has each decided cast on disk, with its context.
    pub fn nothing_is_lost(&self, state: &State) -> bool {
        (0..self.last_ballot()).all(|ballot| {
            let electorate = self.electorate(state, ballot);
            let slots =
                (0..SLOTS).filter(|slot| self.is_quorum(state.votes[ballot][*slot], electorate));
            let casts = slots.fold(0, |set, slot| set | state.proposals[ballot][slot]);
            elements(casts).all(|cast| {
                let required = self.required(state, cast);
                let having =
                    self.members().filter(|member| is_subset(required, state.durable[*member]));
                self.is_quorum(having.map(bit).sum(), electorate)
            })
        })
    }
}
