//! Admission of workers by one another: each worker is a node that remembers whose data the others
//! had, as servers do.
//!
//! In this world, every running worker has all data that it has sent to others, so no running
//! worker may be rejected for lost data. Copies of disks that lack data never run; workers only
//! receive their cards ([`super::copies`]).

use std::collections::BTreeMap;
use std::time::Duration;

use solera_links::{
    Admission, Card, Greeting, HEAD, Identity, NodeRole, Origin, Refusal, Run, Speaks, Unwelcome,
    WITH_THE_SITES,
};
use solera_machine::Address;
use solera_machine::NodeId;
use solera_membership::Members;
use solera_site::Beside;
use solera_unistore::{Command, Config};

use super::{World, WorldEvent};
use crate::storage::writes;
use crate::weakness::Weakness;

/// Greatest difference of clocks that is accepted: more than faults cause.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// A worker's knowledge of the others.
struct Admitter {
    /// Its own card, apart from its receiver and the time.
    card: Card,
    identity: Identity,
    admission: Admission,
}

/// All admissions of a world.
#[derive(Default)]
pub(super) struct Admissions {
    admissions: BTreeMap<Address, Admitter>,
    /// Each worker's durable record of the workers that it has admitted.
    kept: BTreeMap<Address, BTreeMap<NodeId, Origin>>,
}

fn node(worker: Address) -> NodeId {
    NodeId { site: worker.site, node: worker.worker }
}

fn worker_of(card: &Card) -> Address {
    Address { site: card.from.site, worker: card.from.node }
}

/// Returns the identity of a worker with these protocols. Each worker is a node of the cluster.
fn identity(config: &Config, speaks: Vec<Speaks>) -> Identity {
    let topology = &config.topology;
    let workers = topology.workers.iter().enumerate();
    let agreed =
        [("partitions", topology.partitions.to_string()), (WITH_THE_SITES, config.f.to_string())];
    Identity {
        cluster: "simulated".to_owned(),
        id: 1,
        sites: workers
            .map(|(site, workers)| (format!("site {site}"), vec![1; usize::from(*workers)]))
            .collect(),
        agreed: agreed.map(|(what, how)| (what.to_owned(), how)).to_vec(),
        speaks,
    }
}

/// Decodes a greeting that a worker has sent.
pub(super) fn read_greeting(bytes: &[u8]) -> Greeting {
    let (head, body) = bytes.split_first_chunk::<HEAD>().expect("greetings have a head");
    let length = Greeting::body_length(head).expect("what a worker has sent is a greeting");
    assert_eq!(length, body.len(), "greetings are sent whole");
    Greeting::decode(head, body).expect("what a worker has sent can be read")
}

impl Admissions {
    /// Forgets a worker that begins without data.
    pub(super) fn forget(&mut self, worker: Address) {
        self.admissions.remove(&worker);
        self.kept.remove(&worker);
    }

    /// Records that a worker has admitted another.
    pub(super) fn note_entry(&mut self, worker: Address, theirs: &Card) {
        let Some(admitter) = self.admissions.get_mut(&worker) else { return };
        let sites = admitter.admission.members().sites();
        admitter.admission.note_entry(theirs.from, theirs.origin(), sites);
        self.kept.insert(worker, admitter.admission.entered().clone());
    }

    /// Records that another worker has admitted or rejected this one.
    pub(super) fn heard(&mut self, worker: Address, from: Address, word: Result<(), String>) {
        if let Some(admitter) = self.admissions.get_mut(&worker) {
            admitter.admission.heard(node(from), word);
        }
    }

    /// Records that another worker has not answered for a long time.
    pub(super) fn silent(&mut self, worker: Address, other: Address) {
        if let Some(admitter) = self.admissions.get_mut(&worker) {
            admitter.admission.note_timeout(node(other));
        }
    }

    /// Records the statuses of the sites as a worker's replica knows them.
    pub(super) fn note(&mut self, worker: Address, members: &Members) {
        if let Some(admitter) = self.admissions.get_mut(&worker) {
            admitter.admission.note(members);
        }
    }

    /// Returns whether messages of a worker from this generation of its site still count.
    pub(super) fn admits(&self, worker: Address, from: Address, generation: u32) -> bool {
        let admitter = self.admissions.get(&worker);
        admitter.is_some_and(|admitter| admitter.admission.admits(from.site, generation).is_ok())
    }

    /// Returns whether a worker rejects a command because no other site accepts the worker.
    pub(super) fn refuses(&self, worker: Address, command: &Command) -> bool {
        let admitter = self.admissions.get(&worker).filter(|_| writes(command));
        admitter.is_some_and(|admitter| admitter.admission.refusal().is_some())
    }
}

impl World {
    /// Returns the protocols that workers announce to one another.
    fn speaks(&self) -> Vec<Speaks> {
        let beside = Beside {
            primary: self.primary.is_some(),
            occult: self.occult.is_some(),
            reservations: self.bounds.is_some(),
            creek: self.creek.is_some(),
            trial: self.trial.is_some(),
        };
        solera_site::protocols(beside).map(Speaks::of).collect()
    }

    /// Lets a worker's process accept calls.
    pub(super) fn open_door(&mut self, worker: Address) {
        let (incarnation, physical) = (self.incarnation(worker), self.now_at(worker).physical);
        let generation = self.generations[worker.site.index()];
        let speaks = self.speaks();
        let Some(links) = &mut self.links else { return };
        let Some(driver) = self.workers.get_mut(&worker) else { return };
        let run = driver.machine_mut().begin_run(physical);
        let members = driver.machine().members().clone();
        let identity = identity(&self.configs[&worker], speaks);
        let card = Card::new(&identity, node(worker), node(worker), incarnation, physical.0);
        let card = Card {
            generation,
            data: generation.into(),
            starts: incarnation,
            runs: vec![run],
            ..card
        };
        links.copies.begin(worker, generation, run);
        let role = NodeRole { site: Some(worker.site), durable: true, generation };
        let kept = links.admissions.kept.get(&worker).cloned().unwrap_or_default();
        let mut admission = Admission::new(role, Members::new(members.sites()), kept);
        admission.note(&members);
        links.admissions.admissions.insert(worker, Admitter { card, identity, admission });
    }

    /// Returns the card that a worker shows to another now. `received` is the last frame that has
    /// arrived from the other one.
    pub(super) fn card(&self, worker: Address, to: Address, received: u64) -> Option<Card> {
        let admitter = self.links.as_ref()?.admissions.admissions.get(&worker)?;
        let clock_us = self.now_at(worker).physical.0;
        let hybrid_us = self.replica(&worker)?.status().clock().micros();
        Some(Card { to: node(to), clock_us, hybrid_us, received, ..admitter.card.clone() })
    }

    /// Returns the card of a copy of a worker's data. The copy begins the run `run`, and counts
    /// more starts than the worker ever had.
    pub(super) fn card_of_copy(&self, worker: Address, generation: u32, run: Run) -> Option<Card> {
        let card = self.card(worker, worker, 0).or_else(|| {
            let identity = identity(&self.configs[&worker], self.speaks());
            Some(Card::new(&identity, node(worker), node(worker), 0, 0))
        })?;
        let (data, starts) = (generation.into(), u64::MAX);
        Some(Card { generation, data, starts, incarnation: u64::MAX, runs: vec![run], ..card })
    }

    /// Returns whether a worker admits another that has shown its card.
    pub(super) fn lets_in(
        &mut self,
        worker: Address,
        theirs: &Card,
        is_caller: bool,
    ) -> Result<(), Refusal> {
        let other = worker_of(theirs);
        let Some(mine) = self.card(worker, other, 0) else { return Err(Refusal::NoSuchNode) };
        let Some(admitter) =
            self.links.as_ref().and_then(|links| links.admissions.admissions.get(&worker))
        else {
            return Err(Refusal::NoSuchNode);
        };
        let identity = admitter.identity.clone();
        let agrees = mine.check(theirs, is_caller, &identity, MAX_CLOCK_SKEW);
        let welcome = self.is_welcome(worker, theirs);
        let is_wrong = |unwelcome: &Unwelcome| match unwelcome {
            Unwelcome::Removed => !self.removed.contains(&other.site.index()),
            Unwelcome::OtherData | Unwelcome::OlderCopy | Unwelcome::LostData => true,
            Unwelcome::Unknown | Unwelcome::Lacks(_) => false,
        };
        let is_wrong = agrees.is_err() || welcome.as_ref().is_err_and(is_wrong);
        let refusal = agrees.err().or_else(|| {
            welcome.err().map(|unwelcome| Refusal::of(unwelcome, theirs.from, &identity))
        });
        let Some(refusal) = refusal else { return Ok(()) };
        // If the process has died meanwhile, another one may have been admitted.
        if is_wrong && self.is_there((other, theirs.incarnation)) {
            let what = format!("{worker:?} refuses {theirs:?}: {refusal}");
            self.events.push(WorldEvent::Lost(what));
        }
        Err(refusal)
    }

    /// Returns whether a worker may admit another, given the sites and the times that the other has
    /// sent.
    pub(super) fn is_welcome(&self, worker: Address, theirs: &Card) -> Result<(), Unwelcome> {
        let admitter =
            self.links.as_ref().and_then(|links| links.admissions.admissions.get(&worker));
        let (Some(admitter), Some(replica)) = (admitter, self.replica(&worker)) else {
            return Err(Unwelcome::Unknown);
        };
        let (admission, other) = (&admitter.admission, worker_of(theirs));
        admission.may_enter(theirs.from, theirs.origin(), admission.members().sites())?;
        let status = replica.status();
        let mut heard = status.heard_of(other.site).filter(|(worker, _)| *worker == other);
        let mut has_lost_data = || {
            let run = theirs.runs[0];
            heard.any(|(_, ts)| admission.has_lost_data(other.site, run, ts))
        };
        let compares = self.links.as_ref().is_some_and(|links| !links.has(Weakness::LetsCopiesIn));
        match worker.site != other.site && compares && has_lost_data() {
            true => Err(Unwelcome::LostData),
            false => Ok(()),
        }
    }
}
