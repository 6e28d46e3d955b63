//! The state that a member has in every role.

mod accepting;
mod delivery;

use solera_election::{Ballot, Election};
use solera_time::{Monotonic, SiteId};

use crate::config::Rule;
use crate::ids::Slot;
use crate::log::Log;
use crate::message::{Message, Output};
use crate::record::{Record, Snapshot};
use crate::runs::{Known, Runs};
use crate::step::Step;

/// The state of a member in every role.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) election: Election,
    pub(crate) log: Log,
    /// The casts that are delivered.
    pub(crate) runs: Runs,
    /// The casts whose bodies are here and that are not delivered.
    pub(crate) known: Known,
    /// The last configuration of which a quorum has delivered everything that was accepted in
    /// earlier ones.
    pub(crate) established: u64,
    /// The last slot whose decision a leader has reported to know.
    pub(crate) reported: Slot,
    /// Since when the member has lacked the decision after this slot.
    pub(crate) lacking: Option<(Slot, Monotonic)>,
    /// Another member has forgotten the slots up to here.
    pub(crate) forgotten_elsewhere: Slot,
}

impl State {
    pub(crate) fn new(ballot: Ballot, now: Monotonic) -> Self {
        State {
            election: Election::new(ballot, now),
            log: Log::default(),
            runs: Runs::default(),
            known: Known::default(),
            established: 0,
            reported: Slot::default(),
            lacking: None,
            forgotten_elsewhere: Slot::default(),
        }
    }

    /// Promises to take part in no lower term.
    pub(crate) fn promise<B>(&mut self, step: &mut Step<'_, B>, ballot: Ballot) {
        if self.election.promise(ballot) && step.keeps(Rule::RecordPromise) {
            step.record(Record::Promised(ballot));
        }
    }

    /// Answers a message of a lower term.
    pub(crate) fn refuse<B>(&self, step: &mut Step<'_, B>, from: SiteId) {
        step.send(from, Message::Stale { ballot: self.election.ballot() });
    }

    /// Reports a new leader to the owner.
    pub(crate) fn name_leader<B>(&mut self, step: &mut Step<'_, B>, ballot: Ballot) {
        if self.election.begin(ballot) {
            step.outputs.push_back(Output::Leader(ballot.leader));
        }
    }

    /// Returns whether the member takes no part in a ballot, because its configuration has ended.
    /// The first term of the next configuration has the promises of all of its members, and a
    /// quorum of the former one contains at least one of them.
    pub(crate) fn is_former<B>(step: &Step<'_, B>, ballot: Ballot) -> bool {
        ballot.configuration < step.electors.number && step.keeps(Rule::FormerConfiguration)
    }

    /// Returns whether the member lacks slots that others have forgotten.
    pub(crate) fn lacks_forgotten(&self) -> bool {
        self.forgotten_elsewhere > self.log.delivered
    }

    /// Notes that a configuration is established.
    pub(crate) fn establish<B>(&mut self, step: &mut Step<'_, B>, configuration: u64) {
        if configuration > self.established {
            self.established = configuration;
            step.record(Record::Established(configuration));
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let delivered = self.log.delivered;
        let slots = self.log.after(Slot::default()).take_while(|(slot, _)| *slot <= delivered);
        let slots = slots.filter_map(|(slot, state)| Some((slot, state.decided.clone()?)));
        Snapshot { delivered, runs: self.runs.iter().collect(), slots: slots.collect() }
    }

    /// Replaces what was delivered by a snapshot, which contains more.
    pub(crate) fn install(&mut self, snapshot: Snapshot) {
        let first = snapshot.slots.first().map_or(snapshot.delivered.next(), |(slot, _)| *slot);
        for (slot, batch) in snapshot.slots {
            if slot <= snapshot.delivered {
                self.log.decide(slot, batch);
            }
        }
        self.log.deliver(snapshot.delivered);
        self.log.forget(Slot(first.0.saturating_sub(1)));
        self.runs = Runs::new(snapshot.runs);
        self.known.retain(&self.runs);
    }
}
