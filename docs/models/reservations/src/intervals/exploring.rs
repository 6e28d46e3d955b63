//! The model as stateright explores it: which steps a scenario has.

use stateright::{Model, Property};

use super::steps::Action::{self, *};
use super::*;

impl Model for Intervals {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let scenario = self.scenario;
        let reader = |site: Site| {
            let since = Vector::default();
            scenario.readers[site].then_some(Reader { term: 1, since, sponsor: site, version: 0 })
        };
        let epochs =
            |site: Site| scenario.grants.iter().filter(|grant| grant.site == site).count() as Epoch;
        let record = Record {
            readers: std::array::from_fn(reader),
            grants: scenario.grants.to_vec(),
            floor: scenario.floor,
            raise: None,
            removed: None,
            closed: None,
            terms: [1; SITES],
            epochs: std::array::from_fn(epochs),
        };
        let mut state = State {
            leases: record.readers.map(|reader| reader.map(|reader| reader.term)),
            history: vec![record],
            copies: Default::default(),
            streams: Default::default(),
            known: Default::default(),
            looked: Default::default(),
            transactions: Default::default(),
            pins: Default::default(),
            lost: 0,
            updates_left: scenario.updates,
            changes_left: scenario.changes,
            restarts_left: scenario.restarts,
        };
        if let Some((site, sponsor)) = scenario.admitted {
            self.step(&mut state, Offer(sponsor));
            self.step(&mut state, Admit { site, sponsor });
            state.pins[sponsor] = None;
            state.copies = [0, 1, 1, 1];
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for site in self.sites() {
            self.updates(state, site, actions);
            actions.extend(self.sites().map(|origin| Receive(site, origin)));
            actions.push(Copy(site));
            let epochs = state.copy(site).grants.iter().filter(|grant| grant.site == site);
            actions.extend(epochs.map(|grant| End(site, grant.epoch)));
            if state.restarts_left > 0 {
                actions.push(Restart(site));
            }
            if self.scenario.founds || self.scenario.lapses.contains(&site) {
                actions.push(Renew(site));
            }
            if self.scenario.lapses.contains(&site) {
                actions.push(Lapse(site));
                if !self.has(Rule::CheckAfter) {
                    actions.push(Look(site));
                }
            }
        }
        for &(_, sponsor) in self.scenario.admits {
            actions.extend([Offer(sponsor), Renew(sponsor), Withdraw(sponsor)]);
        }
        if state.changes_left > 0 {
            self.changes(state, actions);
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut after = before.clone();
        if !self.step(&mut after, action) {
            return None;
        }
        match action {
            Take(_, kind) | Update(_, kind) => after.updates_left[kind as usize] -= 1,
            Restart(_) => after.restarts_left -= 1,
            _ => after.changes_left -= (after.history.len() - before.history.len()) as u8,
        }
        self.forget(&mut after);
        (after != *before).then_some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("contains the value", Intervals::intervals_contain_the_value),
            Property::always("within the tolerance", Intervals::intervals_are_narrow),
            Property::always("becomes exact", Intervals::intervals_become_exact),
            Property::always("others go on", Intervals::others_go_on),
        ];
        let reaches = self.scenario.reaches.iter();
        properties.extend(reaches.map(|(name, condition)| Property::sometimes(name, *condition)));
        properties
    }
}

impl Intervals {
    fn updates(&self, state: &State, site: Site, actions: &mut Vec<Action>) {
        if state.transactions[site].len() < self.scenario.open {
            let kinds = [Increment, Decrement].into_iter();
            let left = kinds.filter(|kind| state.updates_left[*kind as usize] > 0);
            let at_once = self.scenario.at_once;
            actions.extend(left.map(
                |kind| {
                    if at_once { Update(site, kind) } else { Take(site, kind) }
                },
            ));
        }
        for position in 0..state.transactions[site].len() {
            actions.extend([
                Promise(site, position),
                Decide(site, position),
                Apply(site, position),
                Abort(site, position),
            ]);
        }
    }

    fn changes(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(self.scenario.offers.iter().map(|(site, tokens)| Request(*site, *tokens)));
        let reclaims = state.latest().grants.iter();
        actions.extend(reclaims.map(|grant| Reclaim(grant.site, grant.epoch)));
        actions.extend(self.scenario.lapses.iter().map(|site| Exclude(*site)));
        let admits = self.scenario.admits.iter();
        actions.extend(admits.map(|(site, sponsor)| Admit { site: *site, sponsor: *sponsor }));
        for &floor in self.scenario.floors {
            actions.extend([ProposeFloor(floor), LowerFloor(floor)]);
        }
        if !self.scenario.floors.is_empty() {
            actions.extend(self.sites().map(RaiseFloor));
        }
        if self.scenario.founds {
            actions.extend([Close, Found]);
        }
        actions.extend(self.scenario.removes.iter().map(|site| Remove(*site)));
    }

    /// Forgets versions of the record that no site can use any more, so that more states are equal.
    fn forget(&self, state: &mut State) {
        let least = self.sites().map(|site| state.copies[site]).min().unwrap_or(0);
        if least == 0 || !self.has(Rule::DurableCopies) {
            return;
        }
        state.history.drain(..usize::from(least));
        let lower = |version: &mut Version| *version = version.saturating_sub(least);
        state.copies.iter_mut().for_each(lower);
        for record in &mut state.history {
            record.readers.iter_mut().flatten().for_each(|reader| lower(&mut reader.version));
            if let Some((_, version)) = &mut record.raise {
                lower(version);
            }
            record.closed.iter_mut().for_each(lower);
        }
        let ends = state.pins.iter_mut().flatten().filter_map(|pin| pin.ended.as_mut());
        ends.for_each(lower);
    }
}
