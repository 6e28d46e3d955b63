//! Record of what clients and the events of the machines show.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::world::creeks::FinalOperation;
use solera_checker::speculative::{Claim, Procedure, Reply, ReplyKind};
use solera_creek::{Digest, Event, OperationId, Response, Tentative};
use solera_machine::RequestId;
use solera_procedures::Returned;

use super::load::results;

/// An operation as it is invoked.
#[derive(Debug)]
pub(super) struct Invocation {
    /// `None` for the simulator's own operations.
    pub(super) session: Option<u64>,
    pub(super) site: usize,
    /// Number of starts of the worker.
    pub(super) incarnation: u64,
    pub(super) strong: bool,
    pub(super) procedure: Procedure,
}

/// An operation, and what its client observed.
#[derive(Debug)]
pub(super) struct Issued {
    pub(super) invocation: Invocation,
    pub(super) id: Option<OperationId>,
    pub(super) invoked: u64,
    pub(super) replies: Vec<Reply>,
    /// Whether the client gets no more replies.
    has_ended: bool,
}

/// Final operations that a site showed, beginning after a number of them.
#[derive(Debug)]
pub(super) struct Shown {
    pub(super) site: usize,
    pub(super) incarnation: u64,
    pub(super) at: u64,
    pub(super) from: u64,
    pub(super) operations: Vec<OperationId>,
    pub(super) digest: Option<Digest>,
}

/// Observations.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// Time that grows with each event, so that no two events have the same time.
    clock: u64,
    pub(super) issued: Vec<Issued>,
    requests: BTreeMap<RequestId, usize>,
    /// Operations that machines invoked, with what clients requested; none for those without
    /// effect.
    pub(super) invoked: BTreeMap<OperationId, (Option<RequestId>, u64)>,
    /// The run of each incarnation of a site that has invoked something.
    pub(super) runs: BTreeMap<(usize, u64), u64>,
    pub(super) shown: Vec<Shown>,
    /// Final operations by position, as the first site showed them.
    pub(super) finals: BTreeMap<u64, OperationId>,
    /// Operations that a site has dropped, or reported to clients as lost.
    pub(super) lost: Vec<OperationId>,
    committed: Vec<Committed>,
    pub(super) problems: Vec<String>,
}

/// Operations that a site has committed since its last start.
#[derive(Debug, Default)]
struct Committed {
    all: BTreeSet<OperationId>,
    /// Operations that are not final.
    rest: VecDeque<OperationId>,
}

impl Record {
    pub(super) fn new(sites: usize) -> Record {
        let committed = (0..sites).map(|_| Committed::default()).collect();
        Record { committed, ..Record::default() }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(super) fn invoke(&mut self, request: RequestId, invocation: Invocation) {
        let invoked = self.tick();
        self.requests.insert(request, self.issued.len());
        let (id, replies, has_ended) = (None, Vec::new(), false);
        self.issued.push(Issued { invocation, id, invoked, replies, has_ended });
    }

    /// Forgets an operation that was refused.
    pub(super) fn forget(&mut self, request: RequestId) {
        let Some(place) = self.requests.remove(&request) else { return };
        let issued = &mut self.issued[place];
        issued.has_ended = true;
        if let Some(id) = issued.id {
            self.problems.push(format!("{id} was refused after its invocation"));
        }
    }

    fn issued(&mut self, request: RequestId) -> Option<&mut Issued> {
        let place = *self.requests.get(&request)?;
        Some(&mut self.issued[place])
    }

    pub(super) fn cancel(&mut self, request: RequestId) {
        if let Some(issued) = self.issued(request) {
            issued.has_ended = true;
        }
    }

    pub(super) fn is_strong(&self, request: RequestId) -> bool {
        let place = self.requests.get(&request);
        place.is_some_and(|place| self.issued[*place].invocation.strong)
    }

    /// Notes that the clients of a site get no more replies to what they have invoked.
    pub(super) fn lose_replies(&mut self, site: usize) {
        let of_site = self.issued.iter_mut().filter(|issued| issued.invocation.site == site);
        of_site.for_each(|issued| issued.has_ended = true);
    }

    /// Notes a reply. Hosts drop replies to cancelled requests.
    pub(super) fn reply(
        &mut self,
        site: usize,
        request: RequestId,
        response: Response<Returned>,
        last: bool,
    ) {
        let at = self.tick();
        let Some(issued) = self.issued(request) else {
            return self.problems.push(format!("{response:?} to nobody"));
        };
        if issued.has_ended {
            return;
        }
        issued.has_ended = last;
        let text = format!("{:?}: {response:?}, last: {last}", issued.id);
        let is_wrong = issued.invocation.site != site
            || last != is_last(&response, issued.invocation.strong, last)
            || self.note(request, at, response).is_none();
        if is_wrong {
            self.problems.push(format!("an unexpected reply to {text}"));
        }
    }

    fn note(&mut self, request: RequestId, at: u64, response: Response<Returned>) -> Option<()> {
        let issued = self.issued(request)?;
        let first = if issued.invocation.strong { ReplyKind::Tentative } else { ReplyKind::Weak };
        let (kind, id, order, result) = match response {
            Response::Tentative(Tentative { id, response, claim, .. }) => {
                (first, id, claim?, response)
            }
            Response::Revised(Tentative { id, response, claim, .. }) => {
                (ReplyKind::Revised, id, claim?, response)
            }
            Response::Stable { id, position, response } => {
                let committed = position.checked_sub(1)?;
                let order = solera_creek::Claim { committed, tentative: Vec::new() };
                (ReplyKind::Stable, Some(id), order, response)
            }
            Response::Busy
            | Response::Forgotten { .. }
            | Response::Lost { .. }
            | Response::Unknown { .. }
            | Response::Reached
            | Response::Diverged(_) => return None,
        };
        let tentative = order.tentative.into_iter().map(known).collect();
        let order = Claim { committed: order.committed as usize, tentative };
        issued.replies.push(Reply { kind, at, order, result: results(&result) });
        (issued.id == id).then_some(())
    }

    /// Notes a step of a site's machine.
    pub(super) fn step(&mut self, site: usize, incarnation: u64, step: Event) {
        let at = self.tick();
        match step {
            Event::Rare(_) => {}
            Event::Invoked { id, request } => {
                self.runs.insert((site, incarnation), id.run);
                if self.invoked.insert(id, (request, at)).is_some() {
                    self.problems.push(format!("site {site} repeats {id}"));
                }
                if let Some(issued) = request.and_then(|request| self.issued(request)) {
                    issued.id = Some(id);
                }
            }
            Event::Committed(id) => {
                let committed = &mut self.committed[site];
                committed.rest.push_back(id);
                if !committed.all.insert(id) {
                    self.problems.push(format!("site {site} commits {id} again"));
                }
            }
            Event::Lost(id) => self.lost.push(id),
            Event::Filled(position) => {
                let all = self.finals.range(..=position).map(|(_, id)| *id).collect();
                self.committed[site] = Committed { all, rest: VecDeque::new() };
            }
            Event::Final { position, id, digest } => {
                if self.committed[site].rest.pop_front() != Some(id) {
                    let what = format!("site {site}: {id} is final, and not the first committed");
                    self.problems.push(what);
                }
                self.show(site, incarnation, vec![(position, id, digest)]);
            }
        }
    }

    /// Notes what a site has when it starts.
    pub(super) fn start(&mut self, site: usize, incarnation: u64, finals: Vec<FinalOperation>) {
        let all = finals.iter().map(|(_, id, _)| *id).collect();
        self.committed[site] = Committed { all, rest: VecDeque::new() };
        self.show(site, incarnation, finals);
    }

    /// Notes consecutive final operations.
    pub(super) fn show(&mut self, site: usize, incarnation: u64, finals: Vec<FinalOperation>) {
        let at = self.tick();
        let Some((from, ..)) = finals.first() else { return };
        let from = from.saturating_sub(1);
        let digest = finals.last().map(|(_, _, digest)| *digest);
        for (position, id, _) in &finals {
            self.finals.entry(*position).or_insert(*id);
        }
        let operations = finals.into_iter().map(|(_, id, _)| id).collect();
        self.shown.push(Shown { site, incarnation, at, from, operations, digest });
    }

    /// Returns the operations of the simulator itself that have no last reply.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &Issued> {
        let own = self.issued.iter().filter(|issued| issued.invocation.session.is_none());
        own.filter(|issued| !issued.has_ended)
    }
}

/// Returns whether a reply must be the last one; `last` if both are right.
fn is_last(response: &Response<Returned>, strong: bool, last: bool) -> bool {
    match response {
        Response::Stable { .. }
        | Response::Busy
        | Response::Forgotten { .. }
        | Response::Lost { .. }
        | Response::Unknown { .. }
        | Response::Reached => true,
        // The client of a site that stops may get the same reply several times.
        Response::Diverged(_) => last,
        Response::Tentative(Tentative { id: None, .. }) => true,
        Response::Tentative(_) if !strong => last,
        Response::Tentative(_) | Response::Revised(_) => false,
    }
}

/// Number by which the checker's names of a site's successive generations differ.
const GENERATION: u32 = 100;

/// Returns the name of a generation of a site for the checker, to which another generation is
/// another site.
pub(super) fn site_in(site: usize, generation: u32) -> u32 {
    site as u32 + GENERATION * generation
}

/// Returns the generation and the number of a run for the checker.
pub(super) fn run_of(run: u64) -> (u32, u32) {
    ((run >> 32) as u32, run as u32)
}

/// Returns an id as the checker names it.
pub(super) fn known(id: OperationId) -> solera_checker::speculative::OperationId {
    let (generation, run) = run_of(id.run);
    let site = site_in(id.site.index(), generation);
    solera_checker::speculative::OperationId { site, run, event: id.event }
}
