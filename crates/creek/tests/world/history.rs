//! Record of what clients and the events of the machines show, for the judge.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use solera_creek::{Claim, Digest, Event, OperationId, Past, Response as Reply, Tentative};
use solera_machine::RequestId;

use super::procedures::{Operation, Response};

/// A request of a client.
#[derive(Debug)]
pub(crate) struct Issued {
    pub(crate) site: usize,
    pub(crate) session: usize,
    pub(crate) operation: Operation,
    pub(crate) strong: bool,
    /// Position of the invocation among all invocations and replies.
    pub(crate) invoked: u64,
    /// Operations that replies of the site had shown before the invocation, as a length of
    /// [`Seen::log`], and number of committed ones.
    pub(crate) seen: (usize, u64),
    /// Operations that the site had delivered, as it had answered the client.
    pub(crate) past: Past,
    pub(crate) id: Option<OperationId>,
    pub(crate) first: Option<Claimed>,
    /// Position of the stable reply among invocations and replies, position in the final order, and
    /// response.
    pub(crate) stable: Option<(u64, u64, Response)>,
    pub(crate) is_cancelled: bool,
}

impl Issued {
    pub(crate) fn new(site: usize, session: usize, operation: Operation, strong: bool) -> Issued {
        Issued {
            site,
            session,
            operation,
            strong,
            invoked: 0,
            seen: (0, 0),
            past: Past::default(),
            id: None,
            first: None,
            stable: None,
            is_cancelled: false,
        }
    }
}

/// A tentative response, and the order that it states.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) response: Response,
    pub(crate) claim: Claim,
}

/// Operations that the replies of a site have shown.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Operations, in the order in which replies showed them first.
    pub(crate) log: Vec<OperationId>,
    known: BTreeSet<OperationId>,
    /// Number of committed operations.
    committed: u64,
}

impl Seen {
    fn add(&mut self, id: OperationId) {
        if self.known.insert(id) {
            self.log.push(id);
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct History {
    /// Whether replies show no strong operation before it is committed.
    pub(crate) acyclic: bool,
    sequence: u64,
    pub(crate) requests: BTreeMap<RequestId, Issued>,
    /// The requests of operations; none for operations without effect.
    pub(crate) ids: BTreeMap<OperationId, Option<RequestId>>,
    pub(crate) finals: BTreeMap<u64, (OperationId, Digest)>,
    pub(crate) seen: Vec<Seen>,
    /// Committed operations of each site that are not final there.
    committed: Vec<VecDeque<OperationId>>,
    /// All invoked operations.
    pub(crate) invoked: Vec<OperationId>,
    /// Number of final operations of each site, as far as it has reported them.
    pub(crate) counts: Vec<u64>,
    /// Stable responses to observers, with positions.
    pub(crate) stable: Vec<(OperationId, u64, Response)>,
    /// Sites and pasts of barriers, with the number of final operations when they were reached.
    pub(crate) barriers: Vec<(usize, Past, u64)>,
    /// Operations that sites have dropped, or reported to clients as lost.
    pub(crate) lost: BTreeSet<OperationId>,
    /// Revised responses.
    pub(crate) revised: Vec<(RequestId, Claimed)>,
    pub(crate) violations: Vec<String>,
    pub(crate) rare: BTreeMap<&'static str, usize>,
}

impl History {
    pub(crate) fn new(sites: usize, acyclic: bool) -> History {
        let seen = (0..sites).map(|_| Seen::default()).collect();
        let (committed, counts) = (vec![VecDeque::new(); sites], vec![0; sites]);
        History { acyclic, seen, committed, counts, ..History::default() }
    }

    /// Begins the part of another generation of a site.
    pub(crate) fn open_slot(&mut self) -> usize {
        self.seen.push(Seen::default());
        self.committed.push(VecDeque::new());
        self.counts.push(0);
        self.seen.len() - 1
    }

    /// Notes that a site has recovered: all committed operations are final.
    pub(crate) fn recovered(&mut self, site: usize) {
        self.committed[site].clear();
    }

    pub(crate) fn invoke(&mut self, request: RequestId, mut issued: Issued) {
        self.sequence += 1;
        issued.invoked = self.sequence;
        let seen = &self.seen[issued.site];
        issued.seen = (seen.log.len(), seen.committed);
        self.requests.insert(request, issued);
    }

    pub(crate) fn cancel(&mut self, request: RequestId) {
        self.requests.get_mut(&request).unwrap().is_cancelled = true;
    }

    pub(crate) fn traced(&mut self, site: usize, event: Event) {
        match event {
            Event::Rare(path) => *self.rare.entry(path.0).or_default() += 1,
            Event::Invoked { id, request } => {
                self.invoked.push(id);
                if self.ids.insert(id, request).is_some() {
                    self.violations.push(format!("site {site} repeats {id}"));
                }
                if let Some(request) = request {
                    self.requests.get_mut(&request).unwrap().id = Some(id);
                }
            }
            Event::Committed(id) => self.committed[site].push_back(id),
            Event::Lost(id) => drop(self.lost.insert(id)),
            Event::Filled(position) => {
                self.committed[site].clear();
                self.counts[site] = position;
            }
            Event::Final { position, id, digest } => {
                let committed = self.committed[site].pop_front();
                if committed != Some(id) {
                    let what = format!("site {site} executes {id} in the place of {committed:?}");
                    self.violations.push(what);
                }
                self.became_final(site, position, id, digest);
            }
        }
    }

    pub(crate) fn became_final(
        &mut self,
        site: usize,
        position: u64,
        id: OperationId,
        digest: Digest,
    ) {
        self.counts[site] = position.max(self.counts[site]);
        let (there, digest_there) = *self.finals.entry(position).or_insert((id, digest));
        if there != id {
            let what = format!("site {site} has {id} at {position}, and another site {there}");
            self.violations.push(what);
        } else if digest != digest_there {
            self.violations.push(format!("digests differ at {position}, {id}"));
        }
    }

    pub(crate) fn reply(&mut self, site: usize, request: RequestId, reply: Reply<Response>) {
        self.sequence += 1;
        let issued = self.requests.get_mut(&request).unwrap();
        if let Reply::Stable { id, position, response } = reply {
            if issued.id != Some(id) || issued.stable.is_some() {
                self.violations.push(format!("{id}: a stable reply to another request"));
            }
            issued.stable = Some((self.sequence, position, response));
            self.seen[site].add(id);
            return;
        }
        let (Reply::Tentative(tentative) | Reply::Revised(tentative)) = reply else { return };
        let Tentative { id, response, claim, .. } = tentative;
        let claim = claim.unwrap();
        if issued.id != id {
            self.violations.push(format!("{id:?}: a reply to another request"));
        }
        let seen = &mut self.seen[site];
        claim.tentative.iter().chain(&id).for_each(|id| seen.add(*id));
        seen.committed = seen.committed.max(claim.committed);
        let claimed = Claimed { response, claim };
        match issued.first {
            None => issued.first = Some(claimed),
            Some(_) => self.revised.push((request, claimed)),
        }
    }
}
