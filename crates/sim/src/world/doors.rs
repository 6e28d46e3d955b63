//! Who lets whom in: each worker is a node that remembers whose data the others had, as servers do.
//!
//! No worker of this world ever runs with less than it has told others, so nobody who runs may be refused for that. Copies of
//! disks that lack something are only shown ([`super::copies`]).

use std::collections::BTreeMap;

use solera_links::{Admission, Origin, Place, Run, Unwelcome};
use solera_machine::NodeId;
use solera_membership::Members;
use solera_unistore::{Address, Command};

use super::{Happening, World};
use crate::scenario::Weakness;
use crate::storage::writes;

/// What a worker's process says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Card {
    pub(super) worker: Address,
    pub(super) origin: Origin,
    run: Run,
}

impl Card {
    /// What a copy of a worker's data would say, started once more than the worker ever was.
    pub(super) fn of_copy(worker: Address, life: u32, run: Run) -> Card {
        let origin = Origin { life, data: life.into(), starts: u64::MAX, incarnation: u64::MAX };
        Card { worker, origin, run }
    }
}

/// What a worker's process knows of the others.
struct Door {
    card: Card,
    admission: Admission,
}

/// All of a world.
#[derive(Default)]
pub(super) struct Doors {
    doors: BTreeMap<Address, Door>,
    /// What each worker has on its disk of those whom it has let in.
    kept: BTreeMap<Address, BTreeMap<NodeId, Origin>>,
}

fn node(worker: Address) -> NodeId {
    NodeId { site: worker.site, node: worker.worker }
}

impl Doors {
    /// A worker begins without data.
    pub(super) fn forget(&mut self, worker: Address) {
        self.doors.remove(&worker);
        self.kept.remove(&worker);
    }

    pub(super) fn card(&self, worker: Address) -> Option<Card> {
        self.doors.get(&worker).map(|door| door.card)
    }

    /// A worker lets another in, and remembers that.
    pub(super) fn note_entry(&mut self, worker: Address, theirs: &Card) {
        let Some(door) = self.doors.get_mut(&worker) else { return };
        let sites = door.admission.members().sites();
        door.admission.note_entry(node(theirs.worker), theirs.origin, sites);
        self.kept.insert(worker, door.admission.entered().clone());
    }

    /// Another worker has let this one in, or refused it.
    pub(super) fn heard(&mut self, worker: Address, from: Address, word: Result<(), Unwelcome>) {
        if let Some(door) = self.doors.get_mut(&worker) {
            let word = word.map_err(|unwelcome| format!("{unwelcome:?}"));
            door.admission.heard(node(from), word);
        }
    }

    /// Another worker has not answered for long.
    pub(super) fn silent(&mut self, worker: Address, other: Address) {
        if let Some(door) = self.doors.get_mut(&worker) {
            door.admission.silent(node(other));
        }
    }

    /// A worker's replica knows this of the sites.
    pub(super) fn note(&mut self, worker: Address, members: &Members) {
        if let Some(door) = self.doors.get_mut(&worker) {
            door.admission.note(members);
        }
    }

    /// Whether what comes from a worker of this life of its site still counts.
    pub(super) fn admits(&self, worker: Address, from: Address, life: u32) -> bool {
        let door = self.doors.get(&worker);
        door.is_some_and(|door| door.admission.admits(from.site, life).is_ok())
    }

    /// Whether a worker refuses a command because no other site accepts it.
    pub(super) fn refuses(&self, worker: Address, command: &Command) -> bool {
        let door = self.doors.get(&worker).filter(|_| writes(command));
        door.is_some_and(|door| door.admission.refusal().is_some())
    }
}

impl World {
    /// A worker's process begins to take calls.
    pub(super) fn open_door(&mut self, worker: Address) {
        let (incarnation, physical) = (self.incarnation(worker), self.now_at(worker).physical);
        let life = self.lives[worker.site.index()];
        let Some(links) = &mut self.links else { return };
        let Some(driver) = self.workers.get_mut(&worker) else { return };
        let run = driver.machine_mut().begin_run(physical);
        let members = driver.machine().status().members().clone();
        let origin = Origin { life, data: life.into(), starts: incarnation, incarnation };
        let card = Card { worker, origin, run };
        let place = Place { site: Some(worker.site), durable: true, life };
        links.copies.begin(worker, life, run);
        let kept = links.doors.kept.get(&worker).cloned().unwrap_or_default();
        let mut admission = Admission::new(place, Members::new(members.sites()), kept);
        admission.note(&members);
        links.doors.doors.insert(worker, Door { card, admission });
    }

    /// Whether a worker lets another in that has shown its card.
    pub(super) fn lets_in(&mut self, worker: Address, theirs: &Card) -> Result<(), Unwelcome> {
        let welcome = self.is_welcome(worker, theirs);
        let is_wrong = |unwelcome: &Unwelcome| match unwelcome {
            Unwelcome::Removed => !self.removed.contains(&theirs.worker.site.index()),
            Unwelcome::OtherData | Unwelcome::OlderCopy | Unwelcome::Forgetful => true,
            Unwelcome::Unknown | Unwelcome::Lacks(_) => false,
        };
        // Of a process that has died meanwhile, another one may have been let in.
        if let Err(unwelcome) = welcome
            && is_wrong(&unwelcome)
            && self.is_there((theirs.worker, theirs.origin.incarnation))
        {
            let what = format!("{worker:?} refuses {theirs:?}: {unwelcome:?}");
            self.happenings.push(Happening::Lost(what));
        }
        welcome
    }

    /// What [`Self::lets_in`] finds.
    pub(super) fn is_welcome(&self, worker: Address, theirs: &Card) -> Result<(), Unwelcome> {
        let door = self.links.as_ref().and_then(|links| links.doors.doors.get(&worker));
        let (Some(door), Some(replica)) = (door, self.replica(&worker)) else {
            return Err(Unwelcome::Unknown);
        };
        let (admission, other) = (&door.admission, theirs.worker);
        admission.may_enter(node(other), theirs.origin, admission.members().sites())?;
        let status = replica.status();
        let mut heard = status.heard_of(other.site).filter(|(worker, _)| *worker == other);
        let forgotten = worker.site != other.site
            && self.links.as_ref().is_some_and(|links| !links.has(Weakness::LetsCopiesIn))
            && heard.any(|(_, ts)| admission.has_forgotten(other.site, theirs.run, ts));
        if forgotten { Err(Unwelcome::Forgetful) } else { Ok(()) }
    }
}
