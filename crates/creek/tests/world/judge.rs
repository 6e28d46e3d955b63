//! Judges a history. Shares no code with the protocol.

use std::collections::BTreeMap;

use solera_creek::OperationId;
use solera_machine::RequestId;

use super::history::{Claimed, History, Issued};
use super::model::Model;
use super::observers::GUEST;
use super::procedures::{Operation, Response};

pub(crate) struct Judge<'a> {
    history: &'a History,
    /// Positions of the operations in the final order, from 1.
    positions: BTreeMap<OperationId, u64>,
    /// States after each number of final operations.
    states: Vec<Model>,
    pub(crate) violations: Vec<String>,
}

/// Number of operations that a strong one must follow and that are looked up in each claim.
const LOOKED_UP: usize = 20;

/// Places of the tentative operations of a claim.
type Places = BTreeMap<OperationId, usize>;

fn places(claimed: &Claimed) -> Places {
    claimed.claim.tentative.iter().copied().zip(0..).collect()
}

impl<'a> Judge<'a> {
    pub(crate) fn new(history: &'a History) -> Judge<'a> {
        let mut judge = Judge {
            history,
            positions: BTreeMap::new(),
            states: vec![Model::default()],
            violations: history.violations.clone(),
        };
        for (number, (position, (id, _))) in (1..).zip(&history.finals) {
            if number != *position {
                judge.violations.push(format!("nobody has reported position {number}"));
                break;
            }
            let mut state = judge.states[judge.states.len() - 1].clone();
            if let Some(operation) = judge.operation(*id) {
                state.apply(operation);
            }
            judge.states.push(state);
            if judge.positions.insert(*id, *position).is_some() {
                judge.violations.push(format!("{id} is committed twice"));
            }
        }
        judge
    }

    pub(crate) fn last_state(&self) -> &Model {
        &self.states[self.states.len() - 1]
    }

    fn issued(&self, id: OperationId) -> Option<(RequestId, &'a Issued)> {
        let request = (*self.history.ids.get(&id)?)?;
        Some((request, &self.history.requests[&request]))
    }

    fn operation(&self, id: OperationId) -> Option<&'a Operation> {
        self.issued(id).map(|(_, issued)| &issued.operation)
    }

    fn is_weak(&self, id: OperationId) -> bool {
        self.issued(id).is_some_and(|(_, issued)| !issued.strong)
    }

    /// Judges everything that must hold in every run.
    pub(crate) fn judge(&mut self) {
        let history = self.history;
        for issued in history.requests.values() {
            if let Some(claimed) = &issued.first {
                let places = places(claimed);
                self.judge_hidden(issued, claimed);
                self.judge_claim(issued, claimed);
                self.judge_tentative(claimed, &places);
                self.judge_seen(issued, claimed, &places);
                self.judge_past(issued, claimed, &places);
            }
            if let Some((_, position, response)) = &issued.stable {
                self.judge_stable(issued, *position, response);
            }
            self.judge_context(issued);
        }
        for (request, claimed) in &history.revised {
            self.judge_claim(&history.requests[request], claimed);
        }
        for (id, position, response) in &history.stable {
            match self.issued(*id) {
                Some((_, issued)) => self.judge_stable(issued, *position, response),
                None => self.violations.push(format!("{id} has a stable response")),
            }
        }
        self.judge_barriers();
        self.judge_real_time();
        self.judge_sessions();
        self.judge_circles();
    }

    /// The response is that of a sequential run of the claimed order.
    fn judge_claim(&mut self, issued: &Issued, claimed: &Claimed) {
        let Claimed { response, claim } = claimed;
        let Some(state) = self.states.get(claim.committed as usize) else { return };
        let mut state = state.clone();
        for id in &claim.tentative {
            if self.positions.get(id).is_some_and(|position| *position <= claim.committed) {
                self.violations.push(format!("{id} is claimed twice"));
            }
            if let Some(operation) = self.operation(*id) {
                state.apply(operation);
            }
        }
        let expected = state.apply(&issued.operation);
        if expected != *response {
            let what = format!("{:?}: {response:?} instead of {expected:?}", issued.id);
            self.violations.push(what);
        }
    }

    /// Returns whether an operation is before a place of the tentative part of a claim.
    fn precedes(&self, claimed: &Claimed, places: &Places, place: usize, id: OperationId) -> bool {
        places.get(&id).is_some_and(|at| *at < place)
            || self.positions.get(&id).is_some_and(|at| *at <= claimed.claim.committed)
    }

    /// Returns whether replies do not show an operation before it is committed.
    fn is_hidden(&self, id: OperationId) -> bool {
        self.history.acyclic && !self.is_weak(id)
    }

    /// Replies show only committed operations among those that are hidden before.
    fn judge_hidden(&mut self, issued: &Issued, claimed: &Claimed) {
        let mut tentative = claimed.claim.tentative.iter();
        if let Some(shown) = tentative.find(|id| self.is_hidden(**id)) {
            let what = format!("{:?} shows {shown}, which is not committed", issued.id);
            self.violations.push(what);
        }
    }

    /// In the claimed order, strong operations follow the weak ones that their sites had shown
    /// before.
    fn judge_tentative(&mut self, claimed: &Claimed, places: &Places) {
        for (at, id) in claimed.claim.tentative.iter().enumerate() {
            let Some((_, issued)) = self.issued(*id).filter(|(_, it)| it.strong) else { continue };
            let log = &self.history.seen[issued.site].log[..issued.seen.0];
            let recent = log.iter().rev().take(LOOKED_UP).copied();
            let is_missing = |earlier: &OperationId| {
                !self.precedes(claimed, places, at, *earlier) && self.is_weak(*earlier)
            };
            if let Some(missing) = recent.into_iter().find(is_missing) {
                let what = format!("{id} is claimed without {missing}, which precedes it");
                self.violations.push(what);
            }
        }
    }

    /// A reply shows everything that the site's earlier replies had shown before the invocation.
    ///
    /// An operation that was committed before its first execution has its final place, before
    /// operations that were tentative before it.
    fn judge_seen(&mut self, issued: &Issued, claimed: &Claimed, places: &Places) {
        let place = issued.id.and_then(|id| self.positions.get(&id));
        let Claimed { claim, .. } = claimed;
        if claim.tentative.is_empty() && place == Some(&(claim.committed + 1)) {
            return;
        }
        let (length, committed) = issued.seen;
        let log = &self.history.seen[issued.site].log[..length];
        let all = claimed.claim.tentative.len();
        let is_missing = |earlier: &&OperationId| {
            !self.precedes(claimed, places, all, **earlier) && !self.is_hidden(**earlier)
        };
        let missing = log.iter().find(is_missing);
        if let Some(missing) = missing {
            self.violations.push(format!("{:?} shows {missing} no more", issued.id));
        }
        if claimed.claim.committed < committed {
            self.violations.push(format!("{:?} shows fewer committed ones", issued.id));
        }
    }

    /// A reply at a site that has delivered a past shows all of it, with the same exception.
    fn judge_past(&mut self, issued: &Issued, claimed: &Claimed, places: &Places) {
        let place = issued.id.and_then(|id| self.positions.get(&id));
        let claim = &claimed.claim;
        let is_committed = claim.tentative.is_empty() && place == Some(&(claim.committed + 1));
        if is_committed || issued.past.is_empty() {
            return;
        }
        let all = claim.tentative.len();
        let is_missing = |id: &&OperationId| {
            issued.past.contains(**id)
                && !self.precedes(claimed, places, all, **id)
                && !self.is_hidden(**id)
        };
        if let Some(missing) = self.positions.keys().find(is_missing) {
            self.violations.push(format!("{:?} lacks {missing} of its past", issued.id));
        }
    }

    /// A barrier is reached when its past is final.
    fn judge_barriers(&mut self) {
        for (site, past, count) in &self.history.barriers {
            let late =
                |(id, position): &(&OperationId, &u64)| past.contains(**id) && *position > count;
            if let Some((late, _)) = self.positions.iter().find(late) {
                let what = format!("a barrier of site {site} has returned without {late}");
                self.violations.push(what);
            }
        }
    }

    /// A stable response is that of the final order.
    fn judge_stable(&mut self, issued: &Issued, position: u64, response: &Response) {
        let place = issued.id.and_then(|id| self.positions.get(&id));
        if place.is_some_and(|place| *place != position) {
            self.violations.push(format!("{:?} is not at {position}", issued.id));
        }
        let Some(before) = self.states.get(position as usize - 1) else { return };
        let expected = before.clone().apply(&issued.operation);
        if expected != *response {
            let what = format!("{:?}: stable {response:?}, not {expected:?}", issued.id);
            self.violations.push(what);
        }
    }

    /// In the final order, an operation follows the weak ones that its site had shown before.
    fn judge_context(&mut self, issued: &Issued) {
        let Some(place) = issued.id.and_then(|id| self.positions.get(&id)) else { return };
        let log = &self.history.seen[issued.site].log[..issued.seen.0];
        let follows = |id: &&OperationId| {
            self.positions.get(id).is_none_or(|at| at > place) && self.is_weak(**id)
        };
        if let Some(late) = log.iter().find(follows) {
            let what = format!("{late} does not precede {:?} in the final order", issued.id);
            self.violations.push(what);
        }
    }

    /// A strong operation follows those whose stable replies precede its invocation.
    fn judge_real_time(&mut self) {
        let requests = self.history.requests.values();
        let strong: Vec<_> = requests.filter(|issued| issued.strong).collect();
        let stable = strong.iter().filter_map(|it| it.stable.as_ref());
        let mut replies: Vec<(u64, u64)> = stable.map(|(at, place, _)| (*at, *place)).collect();
        replies.sort_unstable();
        // By the time of invocation, which is the order of the requests.
        let (mut next, mut last) = (0, 0);
        for issued in strong {
            while let Some((at, place)) = replies.get(next).filter(|(at, _)| *at < issued.invoked) {
                debug_assert!(*at < issued.invoked);
                last = last.max(*place);
                next += 1;
            }
            let place = issued.id.and_then(|id| self.positions.get(&id));
            if place.is_some_and(|place| *place < last) {
                let what = format!("{:?} precedes an earlier strong operation", issued.id);
                self.violations.push(what);
            }
        }
    }

    /// The strong operations of a session keep their order, also across restarts of its site.
    fn judge_sessions(&mut self) {
        let mut last: BTreeMap<usize, u64> = BTreeMap::new();
        let strong = self.history.requests.values().filter(|issued| issued.strong);
        for issued in strong.filter(|issued| issued.session != GUEST) {
            let Some(place) = issued.id.and_then(|id| self.positions.get(&id)) else { continue };
            let last = last.entry(issued.session).or_default();
            if place < last {
                self.violations.push(format!("{:?} precedes one of its session", issued.id));
            }
            *last = *place;
        }
    }

    /// Weak replies show each other's operations in no circle. A reply shows the tentative
    /// operations of its claim, and a final prefix; a prefix shows its last operation and the
    /// shorter prefix.
    fn judge_circles(&mut self) {
        let weak = self.history.requests.values().filter(|issued| !issued.strong);
        let replies: Vec<(OperationId, &Claimed)> =
            weak.filter_map(|issued| Some((issued.id?, issued.first.as_ref()?))).collect();
        let prefixes = self.states.len();
        let nodes: BTreeMap<OperationId, usize> =
            replies.iter().map(|(id, _)| *id).zip(prefixes..).collect();
        let mut shown: Vec<Vec<usize>> = vec![Vec::new(); prefixes];
        for (position, (id, _)) in self.history.finals.range(..prefixes as u64) {
            let position = *position as usize;
            shown[position].push(position - 1);
            shown[position].extend(nodes.get(id));
        }
        shown.extend(replies.iter().map(|(_, Claimed { claim, .. })| {
            let prefix = (claim.committed as usize).min(prefixes - 1);
            claim.tentative.iter().filter_map(|id| nodes.get(id)).copied().chain([prefix]).collect()
        }));
        // Removes replies that nothing shows, until none is left outside of circles.
        let mut showing = vec![0; shown.len()];
        shown.iter().flatten().for_each(|node| showing[*node] += 1);
        let mut free: Vec<usize> = (0..shown.len()).filter(|node| showing[*node] == 0).collect();
        while let Some(node) = free.pop() {
            for below in &shown[node] {
                showing[*below] -= 1;
                if showing[*below] == 0 {
                    free.push(*below);
                }
            }
        }
        let circle = (prefixes..shown.len()).filter(|node| showing[*node] > 0);
        let circle: Vec<_> = circle.map(|node| replies[node - prefixes].0.to_string()).collect();
        if !circle.is_empty() {
            self.violations.push(format!("a circle of replies within {circle:?}"));
        }
    }

    /// What is lost is in no final order, had no stable response, and belongs to a site that
    /// `has_left`.
    pub(crate) fn judge_lost(&mut self, has_left: impl Fn(OperationId) -> bool) {
        for id in &self.history.lost {
            let is_final = self.positions.contains_key(id);
            let is_stable = self.issued(*id).is_some_and(|(_, issued)| issued.stable.is_some());
            if is_final || is_stable || !has_left(*id) {
                self.violations.push(format!("{id} was called lost"));
            }
        }
    }

    /// Every operation with a reply is in the final order. Sites that `may_lose` an operation may
    /// have taken weak ones with them.
    pub(crate) fn judge_rest(&mut self, may_lose: impl Fn(OperationId) -> bool) {
        for issued in self.history.requests.values() {
            let Some(id) = issued.id else { continue };
            let replied = issued.first.is_some() && !may_lose(id);
            let is_final = self.positions.contains_key(&id);
            if (replied || issued.stable.is_some()) && !is_final {
                self.violations.push(format!("{id} had a reply and is not in the final order"));
            }
        }
    }
}
