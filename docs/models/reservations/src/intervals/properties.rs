//! What must hold in every state.

use super::steps::Action::*;
use super::*;

impl Intervals {
    /// Whether every interval that a site may answer now contains the value of now. All updates
    /// that were acknowledged before are in the value, and no update that begins later is.
    pub fn intervals_contain_the_value(&self, state: &State) -> bool {
        self.sites().filter(|site| self.may_answer(state, *site)).all(|site| {
            let (least, greatest) = self.interval(state, site);
            (least..=greatest).contains(&self.value(state))
        })
    }

    /// Whether no interval is wider than the tolerance allows for its least value.
    pub fn intervals_are_narrow(&self, state: &State) -> bool {
        self.sites().filter(|site| self.may_answer(state, *site)).all(|site| {
            let (least, greatest) = self.interval(state, site);
            greatest - least <= tolerated(least)
        })
    }

    /// Whether every interval becomes exact after all faults, if no updates follow.
    pub fn intervals_become_exact(&self, state: &State) -> bool {
        let mut state = state.clone();
        let removed = state.latest().removed;
        let all: Vec<Site> = self.sites().filter(|site| Some(*site) != removed).collect();
        self.settle(&mut state, &all, true);
        let value = self.value(&state);
        all.iter().all(|site| {
            self.may_answer(&state, *site) && self.interval(&state, *site) == (value, value)
        })
    }

    /// Whether sites go on when one of them is cut off: they answer intervals, and who has tokens
    /// for increments can use them again and again.
    pub fn others_go_on(&self, state: &State) -> bool {
        let removed = state.latest().removed;
        self.sites().filter(|site| Some(*site) != removed).all(|cut_off| {
            let others = self.sites().filter(|site| *site != cut_off && Some(*site) != removed);
            let others: Vec<Site> = others.collect();
            let mut state = state.clone();
            self.step(&mut state, Lapse(cut_off));
            self.settle(&mut state, &others, false);
            // If the only ready reader is cut off, nobody else knows enough.
            let alone = !others.iter().any(|site| self.is_ready(&state, *site));
            let holders = others.iter().filter_map(|site| self.usable(&state, *site));
            let uses = |grant: Grant| {
                self.free(&state, grant, Increment) == grant.tokens[Increment as usize]
            };
            alone
                || others.iter().all(|site| self.may_answer(&state, *site))
                    && holders.into_iter().all(uses)
        })
    }

    /// Lets some sites do all that their timers and messages do, while the others do nothing.
    fn settle(&self, state: &mut State, sites: &[Site], end: bool) {
        // Each round ends what the round before has made possible.
        for _ in 0..4 {
            for &site in sites {
                self.finish_transactions(state, site);
                let grants = state.copy(site).grants.clone();
                for grant in grants.iter().filter(|grant| end && grant.site == site) {
                    self.step(state, End(site, grant.epoch));
                }
            }
            self.exchange(state, sites);
            for site in self.sites().filter(|site| !sites.contains(site)) {
                self.step(state, Exclude(site));
            }
            self.exchange(state, sites);
            for &site in sites {
                self.step(state, Renew(site));
                self.exchange(state, sites);
                self.step(state, Withdraw(site));
                // It waits for what only the other sites have.
                if state.copy(site).readers[site].is_some() && self.right(state, site).is_none() {
                    self.step(state, Lapse(site));
                    self.step(state, Exclude(site));
                    self.exchange(state, sites);
                }
            }
            self.step(state, Found);
            self.exchange(state, sites);
            for &sponsor in sites {
                self.step(state, Renew(sponsor));
                self.step(state, Offer(sponsor));
                for &site in sites {
                    self.step(state, Admit { site, sponsor });
                }
                self.exchange(state, sites);
                self.step(state, Renew(sponsor));
                self.step(state, Withdraw(sponsor));
            }
            for grant in state.latest().grants.clone() {
                self.step(state, Reclaim(grant.site, grant.epoch));
            }
            self.exchange(state, sites);
        }
    }

    fn finish_transactions(&self, state: &mut State, site: Site) {
        while !state.transactions[site].is_empty() {
            if !self.step(state, Apply(site, 0)) {
                self.step(state, Abort(site, 0));
            }
        }
    }

    fn exchange(&self, state: &mut State, sites: &[Site]) {
        for &site in sites {
            while self.step(state, Copy(site)) {}
            for &origin in sites {
                while self.step(state, Receive(site, origin)) {}
            }
            // Sites forward what they have of the others.
            for origin in self.sites().filter(|origin| !sites.contains(origin)) {
                let most = sites.iter().map(|other| state.known[*other][origin]).max();
                state.known[site][origin] = most.unwrap_or(0);
            }
        }
    }
}
