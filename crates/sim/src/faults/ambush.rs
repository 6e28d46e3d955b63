//! Faults that wait for a phase of certification and strike a site that takes part in it.

use solera_certification::Body;
use solera_machine::Address;
use solera_time::{Origin, SiteId};
use solera_unistore::{LogRange, Message};

use crate::faults::Fault;
use crate::queue::MS;
use crate::random::Random;

/// The message of certification that an ambush waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// A coordinator's request for a vote.
    Prepare,
    /// A leader's vote, to a follower.
    Accept,
    /// An acknowledgement, to the coordinator.
    Accepted,
    /// The outcome, to a leader.
    Decision,
    /// Deliveries of a leader, to another site.
    Delivery,
    /// A candidate's message.
    Election,
    /// Operations of `creek`.
    Operations,
    /// A proposal of `creek`'s leader, to a member.
    Proposal,
    /// A member's acceptance of a proposal.
    Acceptance,
    /// A message of a candidate of `creek`, or a promise to it.
    Term,
    /// A message of a member that has noticed that it lacks deliveries.
    Missing,
}

/// The site that an ambush strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    /// The coordinator; in `creek`, the site that sends operations, or that accepts.
    Coordinator,
    /// The leader, or the candidate.
    Leader,
}

/// Fault that strikes the victim's site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AmbushFault {
    /// It crashes, or without journals is paused, and continues after this many nanoseconds.
    Stop(u64),
    /// It is cut off from all others for this many nanoseconds.
    Isolate(u64),
    /// It is lost for good.
    Destroy,
    /// An operator requests that the groups are led from another site.
    MoveLeaders(usize),
    /// An operator requests that the groups are led from the victim, which is cut off for this many
    /// nanoseconds from the site whose message was about to arrive.
    Overtake(u64),
}

/// Strikes the victim when a message of the phase arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ambush {
    phase: Phase,
    victim: Victim,
    pub(crate) fault: AmbushFault,
    /// Whether the fault comes before the receiver handles the message.
    pub(crate) before: bool,
}

impl Ambush {
    /// Returns the same ambush among sites with other numbers: `of` returns the new number of a
    /// site.
    pub(crate) fn at_sites(self, of: impl Fn(usize) -> usize) -> Ambush {
        let fault = match self.fault {
            AmbushFault::MoveLeaders(site) => AmbushFault::MoveLeaders(of(site)),
            fault => fault,
        };
        Ambush { fault, ..self }
    }

    /// Returns the site to strike, if this is the message that the ambush waits for.
    pub(crate) fn victim(
        self,
        from: Address,
        to: Address,
        message: &solera_site::Message,
    ) -> Option<SiteId> {
        let (phase, coordinator, leader) = match message {
            solera_site::Message::UniStore(message) => place(from, to, message),
            solera_site::Message::Creek(message) => place_of_creek(from, to, message),
            _ => None,
        }?;
        let victim = match self.victim {
            Victim::Coordinator => coordinator,
            Victim::Leader => leader,
        };
        victim.filter(|_| phase == self.phase)
    }

    /// Returns the name of the ambush in the tally.
    pub(crate) fn name(self) -> &'static str {
        let moves = matches!(self.fault, AmbushFault::MoveLeaders(_));
        match (self.phase, self.victim) {
            (Phase::Prepare, _) if moves => "leaders moved at a prepare",
            (Phase::Accept, _) if moves => "leaders moved at an accept",
            (Phase::Accepted, _) if moves => "leaders moved at an acknowledgement",
            (Phase::Decision, _) if moves => "leaders moved at a decision",
            (Phase::Delivery, _) if moves => "leaders moved at a delivery",
            (Phase::Election, _) if moves => "leaders moved at an election",
            (Phase::Prepare, Victim::Coordinator) => "coordinators struck at a prepare",
            (Phase::Prepare, Victim::Leader) => "leaders struck at a prepare",
            (Phase::Accept, Victim::Coordinator) => "coordinators struck at an accept",
            (Phase::Accept, Victim::Leader) => "leaders struck at an accept",
            (Phase::Accepted, Victim::Coordinator) => "coordinators struck at an acknowledgement",
            (Phase::Accepted, Victim::Leader) => "leaders struck at an acknowledgement",
            (Phase::Decision, Victim::Coordinator) => "coordinators struck at a decision",
            (Phase::Decision, Victim::Leader) => "leaders struck at a decision",
            (Phase::Delivery, _) => "leaders struck at a delivery",
            (Phase::Election, _) => "candidates struck at an election",
            (Phase::Operations, _) => "creek: sites struck at operations",
            (Phase::Proposal, Victim::Coordinator) => "creek: members struck at a proposal",
            (Phase::Proposal, Victim::Leader) => "creek: leaders struck at a proposal",
            (Phase::Acceptance, Victim::Coordinator) => "creek: members struck at an acceptance",
            (Phase::Acceptance, Victim::Leader) => "creek: receivers struck at an acceptance",
            (Phase::Term, _) => "creek: candidates struck",
            (Phase::Missing, _) => "leaders that lack what was delivered",
        }
    }
}

/// Returns the phase that a message belongs to, and the sites of its coordinator and leader, as far
/// as it shows them.
fn place(
    from: Address,
    to: Address,
    message: &Message,
) -> Option<(Phase, Option<SiteId>, Option<SiteId>)> {
    if let Message::Replicate(ranges) = message {
        let delivers =
            |range: &LogRange| range.origin == Origin::Strong && !range.updates.is_empty();
        let delivery = ranges.iter().any(delivers);
        return delivery.then_some((Phase::Delivery, None, Some(from.site)));
    }
    if let Message::Gap { origin: Origin::Strong, .. } = message {
        return Some((Phase::Missing, None, Some(from.site)));
    }
    let Message::Certification(message) = message else { return None };
    Some(match &message.body {
        Body::Prepare { payload: Some(_), .. } => (Phase::Prepare, Some(from.site), Some(to.site)),
        Body::Accept { coordinator, .. } => {
            (Phase::Accept, Some(coordinator.site), Some(from.site))
        }
        Body::Accepted { ballot, .. } => (Phase::Accepted, Some(to.site), Some(ballot.leader)),
        // Within a site the receiver is usually not a leader.
        Body::Decision { oldest: Some(_), .. } if from.site != to.site => {
            (Phase::Decision, Some(from.site), Some(to.site))
        }
        Body::NewBallot { .. } | Body::NewState { .. } => (Phase::Election, None, Some(from.site)),
        Body::Promise { .. } => (Phase::Election, None, Some(to.site)),
        _ => return None,
    })
}

/// Returns the phase of `creek` that a message belongs to, and the sites that an ambush may strike.
fn place_of_creek(
    from: Address,
    to: Address,
    message: &solera_site::speculative::Message,
) -> Option<(Phase, Option<SiteId>, Option<SiteId>)> {
    use solera_consensus::Message as Agreement;
    use solera_creek::Message;

    Some(match message {
        Message::Operations { .. } => (Phase::Operations, Some(from.site), None),
        Message::Consensus(Agreement::Accept { .. }) => {
            (Phase::Proposal, Some(to.site), Some(from.site))
        }
        Message::Consensus(Agreement::Accepted { .. }) => {
            (Phase::Acceptance, Some(from.site), Some(to.site))
        }
        Message::Consensus(Agreement::NewBallot { .. }) => (Phase::Term, None, Some(from.site)),
        Message::Consensus(Agreement::Promise { .. }) => (Phase::Term, None, Some(to.site)),
        _ => return None,
    })
}

/// Draws ambushes that wait for messages of `creek`, all before `end`.
pub(crate) fn ambushes_of_creek(random: &mut Random, sites: usize, end: u64) -> Vec<(u64, Fault)> {
    let count = if sites == 1 { 0 } else { random.weighted(&[(25, 0), (25, 1), (30, 3), (20, 6)]) };
    let draw = |_| {
        let (phase, victim) = random.weighted(&[
            (3, (Phase::Operations, Victim::Coordinator)),
            (2, (Phase::Proposal, Victim::Coordinator)),
            (3, (Phase::Proposal, Victim::Leader)),
            (2, (Phase::Acceptance, Victim::Coordinator)),
            (2, (Phase::Acceptance, Victim::Leader)),
            (3, (Phase::Term, Victim::Leader)),
        ]);
        let long = random.within(20, 2500) * MS;
        let stops = random.chance(60);
        let fault = if stops { AmbushFault::Stop(long) } else { AmbushFault::Isolate(long) };
        let ambush = Ambush { phase, victim, fault, before: random.chance(50) };
        (random.within(20 * MS, end), Fault::Ambush(ambush))
    };
    (0..count).map(draw).collect()
}

/// Draws ambushes, and moves of leaders at any time, all before `end`; at most `losses` sites are
/// lost.
pub(crate) fn ambushes(
    random: &mut Random,
    sites: usize,
    mut losses: usize,
    end: u64,
) -> Vec<(u64, Fault)> {
    let mut faults = Vec::new();
    if sites == 1 {
        return faults;
    }
    for _ in 0..random.weighted(&[(30, 0), (40, 1), (30, 3)]) {
        let at = random.within(50 * MS, end);
        faults.push((at, Fault::MoveLeaders(random.below(sites))));
    }
    for _ in 0..random.weighted(&[(25, 0), (25, 1), (30, 3), (20, 6)]) {
        let (phase, victim) = random.weighted(&[
            (2, (Phase::Prepare, Victim::Coordinator)),
            (2, (Phase::Prepare, Victim::Leader)),
            (2, (Phase::Accept, Victim::Coordinator)),
            (2, (Phase::Accept, Victim::Leader)),
            (2, (Phase::Accepted, Victim::Coordinator)),
            (2, (Phase::Accepted, Victim::Leader)),
            (2, (Phase::Decision, Victim::Coordinator)),
            (2, (Phase::Decision, Victim::Leader)),
            (2, (Phase::Delivery, Victim::Leader)),
            (3, (Phase::Election, Victim::Leader)),
        ]);
        let long = random.within(20, 2500) * MS;
        let fault = match random.below(10) {
            0..4 => AmbushFault::Stop(long),
            4..6 => AmbushFault::Isolate(long),
            6..8 => AmbushFault::MoveLeaders(random.below(sites)),
            _ if losses > 0 => {
                losses -= 1;
                AmbushFault::Destroy
            }
            _ => AmbushFault::Stop(long),
        };
        let ambush = Ambush { phase, victim, fault, before: random.chance(50) };
        faults.push((random.within(20 * MS, end), Fault::Ambush(ambush)));
    }
    // Moves the leaders to a site that could not receive from the leader for a while. Only a few
    // seeds do so, so that elections of members that lack nothing stay as frequent.
    if random.chance(30) {
        let (phase, victim) = (Phase::Missing, Victim::Leader);
        let fault = AmbushFault::Overtake(random.within(300, 1200) * MS);
        let ambush = Ambush { phase, victim, fault, before: true };
        faults.push((20 * MS, Fault::Ambush(ambush)));
    }
    faults
}
