//! Validation of received messages: whether this cluster's replicas can have sent them.

use solera_certification::{Ballot, Entry, GroupId, GroupPayload, State, TransactionId};
use solera_data::{Key, Op};
use solera_machine::{Address, Guarded, PartitionId, Refusal, Topology};
use solera_time::{MAX_SITES, Origin, SiteId, Vector};

use crate::command::Response;
use crate::message::{
    Chunk, Filling, LogRange, Message, PrepareGuarded, SiteGeneration, Subtree, Write,
};

impl Message {
    /// Returns whether a correct replica at `from` can send the message to `to`. Both must exist,
    /// and messages of this kind must be possible between them. The message's vectors must have no
    /// entries of sites that the cluster does not list, and its keys and partitions must belong to
    /// the receiver. Hosts must not pass an invalid message to a replica, which relies on this
    /// check.
    ///
    /// The sender may list more or fewer sites than the receiver, as long as nothing has happened
    /// at the sites that only one of them lists.
    #[expect(clippy::too_many_lines, reason = "one arm per message")]
    pub fn validate(&self, from: Address, to: Address, topology: &Topology) -> bool {
        let validator = Validator { to, topology };
        if !validator.exists(from) || !validator.exists(to) {
            return false;
        }
        let within_site = from.site == to.site;
        match self {
            Message::Execute { past, key, .. } => {
                within_site && validator.vector(past) && validator.owned(key.as_bytes())
            }
            Message::ExecuteReply { response, .. } => within_site && validator.response(response),
            Message::GetVersion { snap_vec, key, .. } => {
                within_site && validator.vector(snap_vec) && validator.owned(key.as_bytes())
            }
            Message::Prepare { snap_vec, writes, eventual, .. } => {
                within_site && validator.prepare(snap_vec, writes, eventual)
            }
            Message::Version { .. }
            | Message::PrepareAck { .. }
            | Message::Commit { .. }
            | Message::Abort { .. }
            | Message::Undecided { .. } => within_site,
            Message::Resolved { until, .. } => within_site && validator.vector(until),
            Message::Up(Subtree {
                known_vec,
                floor,
                ceiling,
                uniform_vec,
                base_vec,
                converged,
                settled,
                ..
            }) => {
                within_site
                    && validator.completed_removals(settled.as_deref())
                    && validator.vectors(&[known_vec, floor, ceiling, uniform_vec, base_vec])
                    && converged
                        .iter()
                        .filter_map(|it| it.ceiling)
                        .all(|vec| validator.vector(&vec))
            }
            Message::Down(view, _) => {
                let vectors = [
                    &view.stable_vec,
                    &view.uniform_vec,
                    &view.reachable_vec,
                    &view.floor,
                    &view.settled_vec,
                ];
                within_site && validator.vectors(&vectors)
            }
            Message::Replicate(ranges) => {
                !within_site && ranges.iter().all(|range| validator.range(range))
            }
            Message::Gap { origin, .. } => match origin {
                Origin::Site(site) => !within_site && validator.lists(*site),
                // Within a site, the request is for a range of the central certifier.
                Origin::Strong => true,
            },
            Message::KnownVecGlobal { known_vecs, .. } => {
                !within_site && known_vecs.iter().all(|(_, known_vec)| validator.vector(known_vec))
            }
            Message::StableVec { stable_vec, floor, ceiling, settled, .. } => {
                !within_site
                    && validator.completed_removals(settled.as_deref())
                    && validator.vectors(&[stable_vec, floor, ceiling])
            }
            Message::ForwardRanges(ranges) => {
                within_site && ranges.iter().all(|range| validator.range(range))
            }
            Message::AskOutcome { tid, .. } => validator.exists(tid.coordinator),
            Message::OutcomeIs { .. } => true,
            Message::Certification(message) => validator.certification(message),
            Message::Fetch(_) | Message::NotKept { .. } => !within_site,
            Message::Filling(filling) => !within_site && validator.filling(filling),
            Message::Wanted { upto, .. } => validator.vector(upto),
            Message::PrepareGuarded(prepare) => within_site && validator.guarded(prepare),
            Message::GuardRefused { refusal, .. } => within_site && is_bounded(refusal),
            Message::GuardLater(later) => {
                within_site && is_bounded(&later.refusal) && validator.vector(&later.past)
            }
            Message::AskChanges { key, since, .. } => {
                validator.owned(key.as_bytes()) && validator.vector(since)
            }
            Message::Changes { later, .. } => later.is_none_or(|later| validator.vector(&later)),
        }
    }
}

fn is_bounded(refusal: &Refusal) -> bool {
    refusal.reason.len() <= Refusal::LONGEST_REASON && refusal.key.len() <= Guarded::MOST_BYTES
}

struct Validator<'a> {
    to: Address,
    topology: &'a Topology,
}

impl Validator<'_> {
    fn exists(&self, address: Address) -> bool {
        self.topology.has(address)
    }

    fn vector(&self, vector: &Vector) -> bool {
        vector.is_within(self.topology.sites())
    }

    fn vectors(&self, vectors: &[&Vector]) -> bool {
        vectors.iter().all(|vector| self.vector(vector))
    }

    /// Returns whether the list contains no more generations than can leave at once. Their sites
    /// need not be listed here: the sender may know more sites.
    fn completed_removals(&self, generations: Option<&[SiteGeneration]>) -> bool {
        generations.is_none_or(|generations| generations.len() <= MAX_SITES)
    }

    fn lists(&self, site: SiteId) -> bool {
        site.index() < self.topology.sites()
    }

    fn is_origin(&self, origin: Origin) -> bool {
        match origin {
            Origin::Site(site) => self.lists(site),
            Origin::Strong => true,
        }
    }

    fn certification(&self, message: &solera_certification::Message<Write>) -> bool {
        use solera_certification::Body;
        let solera_certification::Message { group, body } = message;
        let partition = PartitionId(group.0);
        if partition.0 >= self.topology.partitions {
            return false;
        }
        let of_member = self.topology.owner(self.to.site, partition) == self.to;
        // Rounds grow one by one, so no correct replica ever reaches a greater one.
        let ballot = |ballot: &Ballot| self.lists(ballot.leader) && ballot.round < u64::MAX / 2;
        let entry = |tid: &TransactionId, entry: &Entry<Write>| {
            self.exists(tid.coordinator)
                && entry.payload.as_ref().is_none_or(|payload| self.payload(partition, payload))
                && self.groups(&entry.participants, group)
        };
        let state = |state: &State<Write>| {
            ballot(&state.accepted_in)
                && state.entries.iter().all(|(tid, of)| entry(tid, of))
                && state.oldest.keys().all(|coordinator| self.exists(*coordinator))
        };
        match body {
            Body::NotLeader { ballot: of } => ballot(of),
            Body::Accepted { ballot: of, tid, .. } => ballot(of) && self.exists(tid.coordinator),
            Body::AskOldest => true,
            Body::Decision { tid, .. } | Body::OutcomeForgotten { tid, .. } => {
                self.exists(tid.coordinator)
            }
            Body::Prepare { tid, payload, participants, .. } => {
                of_member
                    && self.exists(tid.coordinator)
                    && payload.as_ref().is_none_or(|payload| self.payload(partition, payload))
                    && self.groups(participants, group)
            }
            Body::Accept { ballot: term, tid, entry: of, coordinator, .. } => {
                of_member && ballot(term) && self.exists(*coordinator) && entry(tid, of)
            }
            Body::Status { ballot: of, oldest, .. } => {
                of_member && ballot(of) && oldest.iter().all(|(worker, _)| self.exists(*worker))
            }
            Body::StatusKept { ballot: of, .. }
            | Body::Canvass { ballot: of }
            | Body::Support { ballot: of }
            | Body::NewBallot { ballot: of }
            | Body::NeedState { ballot: of }
            | Body::Stale { ballot: of } => of_member && ballot(of),
            Body::Promise { ballot: term, state: of } => of_member && ballot(term) && state(of),
            Body::NewState { state: of } => of_member && state(of),
            Body::Oldest { .. } | Body::Finished { .. } | Body::TakeOver => of_member,
        }
    }

    /// Returns whether these can be the groups of a transaction that has a part in group `own`.
    fn groups(&self, groups: &[GroupId], own: &GroupId) -> bool {
        groups.contains(own) && groups.iter().all(|group| group.0 < self.topology.partitions)
    }

    fn payload(&self, partition: PartitionId, payload: &GroupPayload<Write>) -> bool {
        let of = |key: &Key| {
            PartitionId::of(key, self.topology.partitions) == partition || partition.0 == 0
        };
        self.vector(&payload.snap_vec)
            && payload.accesses.iter().all(|access| of(&access.key))
            && payload.writes.iter().all(|write| of(&write.key))
    }

    fn filling(&self, Filling { partition, chunk, .. }: &Filling) -> bool {
        let of = |key: &Key| PartitionId::of(key, self.topology.partitions) == *partition;
        self.topology.partitions > partition.0
            && self.topology.owner(self.to.site, *partition) == self.to
            && match chunk {
                Chunk::Begin(begin) => self.vectors(&[
                    &begin.snapshot,
                    &begin.known_vec,
                    &begin.arrived,
                    &begin.forgotten,
                ]),
                Chunk::Updates(updates) => updates.iter().all(|update| {
                    self.is_origin(update.dot.origin)
                        && self.vector(&update.snap_vec)
                        && update.writes.iter().all(|write| of(&write.key))
                }),
                Chunk::Keys(keys) => keys.iter().all(|(key, _)| of(key)),
            }
    }

    fn owned(&self, key: &[u8]) -> bool {
        let partition = PartitionId::of(key, self.topology.partitions);
        self.topology.owner(self.to.site, partition) == self.to
    }

    /// Validates the part of a transaction for the receiver.
    fn prepare(&self, snap_vec: &Vector, writes: &[Write], eventual: &[(Key, Op)]) -> bool {
        self.vector(snap_vec)
            && self.writes(writes)
            && eventual.iter().all(|(key, _)| self.owned(key.as_bytes()))
    }

    fn guarded(&self, prepare: &PrepareGuarded) -> bool {
        let PrepareGuarded { snap_vec, writes, eventual, guards, .. } = prepare;
        self.prepare(snap_vec, writes, eventual)
            && !guards.is_empty()
            && guards.is_bounded()
            && guards.is_canonical()
            && guards.iter().all(|guard| self.owned(&guard.key))
    }

    fn writes(&self, writes: &[Write]) -> bool {
        writes.iter().all(|write| self.owned(write.key.as_bytes()))
    }

    /// Returns whether the updates are of the range's origin, within the range, and in the order of
    /// their times.
    fn range(&self, range: &LogRange) -> bool {
        let in_order = range.updates.is_sorted_by(|one, next| one.dot.ts < next.dot.ts);
        in_order
            && range.updates.iter().all(|update| {
                let of = |write: &Write| PartitionId::of(&write.key, self.topology.partitions);
                let own = |write| of(write) == range.partition || range.origin == Origin::Strong;
                update.dot.origin == range.origin
                    && update.dot.ts > range.prev
                    && update.dot.ts <= range.known
                    && self.is_origin(update.dot.origin)
                    && self.vector(&update.snap_vec)
                    && update.writes.iter().all(own)
            })
    }

    fn response(&self, response: &Response) -> bool {
        match response {
            Response::Executed { pasts, .. } | Response::Committed { pasts } => {
                let vectors = [&pasts.causal, pasts.eventual(), pasts.eventual_snap()];
                vectors.into_iter().all(|vector| self.vector(vector))
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use solera_time::Timestamp;

    use super::*;
    use crate::command::TxId;
    use crate::message::Update;

    fn at(site: u8, worker: u8) -> Address {
        Address { site: SiteId(site), worker }
    }

    #[test]
    fn a_message_that_would_break_a_replica_is_invalid() {
        let topology = Topology { partitions: 4, workers: vec![2, 1] };
        let good = Vector::zero(2);
        let key = (0..).map(|i| Key::from(format!("k{i}").as_bytes()));
        let mine = key
            .clone()
            .find(|key| topology.owner(SiteId(0), PartitionId::of(key, 4)) == at(0, 1))
            .unwrap();
        let other = key
            .clone()
            .find(|key| topology.owner(SiteId(0), PartitionId::of(key, 4)) == at(0, 0))
            .unwrap();
        let tx = TxId { coordinator: 0, sequence: 1 };
        let prepare = |snap_vec, key: &Key| Message::Prepare {
            tx,
            snap_vec,
            writes: vec![Write { key: key.clone(), effect: Default::default() }],
            eventual: vec![],
        };
        let eventual = |key: &Key| Message::Prepare {
            tx,
            snap_vec: good,
            writes: vec![],
            eventual: vec![(key.clone(), solera_data::Op::Delete)],
        };
        let gap =
            |origin| Message::Gap { partition: PartitionId(9), origin, known: Timestamp::ZERO };
        for (message, from, valid) in [
            (prepare(good, &mine), at(0, 0), true),
            (prepare(good, &other), at(0, 0), false),
            (eventual(&mine), at(0, 0), true),
            (eventual(&other), at(0, 0), false),
            (prepare(Vector::zero(1), &mine), at(0, 0), true),
            (prepare(Vector::zero(3), &mine), at(0, 0), true),
            (prepare(good.with(SiteId(2), Timestamp(1)), &mine), at(0, 0), false),
            (prepare(good, &mine), at(1, 0), false),
            (prepare(good, &mine), at(0, 2), false),
            (Message::Abort { tx }, at(7, 0), false),
            (gap(Origin::Site(SiteId(1))), at(1, 0), true),
            (gap(Origin::Site(SiteId(2))), at(1, 0), false),
            (gap(Origin::Site(SiteId(1))), at(0, 0), false),
            (gap(Origin::Strong), at(1, 0), true),
            (gap(Origin::Strong), at(0, 0), true),
        ] {
            assert_eq!(
                message.validate(from, at(0, 1), &topology),
                valid,
                "{message:?} of {from:?}"
            );
        }
    }

    #[test]
    fn guards_are_few_and_in_order_and_of_keys_that_the_receiver_owns() {
        use solera_machine::Guard;

        let topology = Topology { partitions: 4, workers: vec![2, 1] };
        let owned_by = |owner: Address| {
            let mut keys = (0..).map(|i| format!("k{i}").into_bytes());
            keys.find(|key| topology.owner(SiteId(0), PartitionId::of(key, 4)) == owner).unwrap()
        };
        let (mine, other) = (owned_by(at(0, 1)), owned_by(at(0, 0)));
        let guard = |key: &[u8], claim: usize| Guard {
            key: key.to_vec(),
            protocol: 9,
            claim: vec![0; claim],
        };
        let tx = TxId { coordinator: 0, sequence: 1 };
        let prepare = |guards: Vec<Guard>| {
            // Decoded guards have the sender's order.
            let mut bytes = Vec::new();
            solera_machine::codec::append(&guards, &mut bytes);
            let (guards, _) = solera_machine::codec::take(&bytes).unwrap();
            let (snap_vec, writes, eventual) = (Vector::zero(2), Vec::new(), Vec::new());
            let prepare = PrepareGuarded { tx, snap_vec, writes, eventual, guards };
            Message::PrepareGuarded(Box::new(prepare))
        };
        let refused = |reason: usize| {
            let (key, protocol, reason) = (mine.clone(), 9, "r".repeat(reason));
            Message::GuardRefused { tx, refusal: Refusal { key, protocol, reason } }
        };
        for (message, from, valid) in [
            (prepare(vec![guard(&mine, 3)]), at(0, 0), true),
            (prepare(vec![guard(&mine, 3)]), at(1, 0), false),
            (prepare(vec![]), at(0, 0), false),
            (prepare(vec![guard(&other, 3)]), at(0, 0), false),
            (prepare(vec![guard(&mine, 3), guard(&mine, 4)]), at(0, 0), true),
            (prepare(vec![guard(&mine, 4), guard(&mine, 3)]), at(0, 0), false),
            (prepare(vec![guard(&mine, Guarded::LONGEST_CLAIM + 1)]), at(0, 0), false),
            (prepare(vec![guard(&mine, 0); Guarded::MOST + 1]), at(0, 0), false),
            (refused(Refusal::LONGEST_REASON), at(0, 0), true),
            (refused(Refusal::LONGEST_REASON), at(1, 0), false),
            (refused(Refusal::LONGEST_REASON + 1), at(0, 0), false),
        ] {
            assert_eq!(
                message.validate(from, at(0, 1), &topology),
                valid,
                "{message:?} of {from:?}"
            );
        }
    }

    #[test]
    fn a_range_that_is_out_of_order_is_invalid() {
        let topology = Topology { partitions: 1, workers: vec![1, 1] };
        let (partition, origin) = (PartitionId(0), Origin::Site(SiteId(1)));
        let update = |ts| {
            let dot = solera_data::Dot::of(origin, Timestamp(ts));
            let (snap_vec, writes) = (Vector::zero(2), vec![]);
            Arc::new(Update { dot, snap_vec, writes, eventual: false })
        };
        for (times, valid) in [
            (vec![], true),
            (vec![3, 4, 9], true),
            (vec![4, 3], false),
            (vec![4, 4], false),
            (vec![2], false),
            (vec![10], false),
        ] {
            let updates = times.iter().copied().map(update).collect();
            let (prev, known) = (Timestamp(2), Timestamp(9));
            let range = LogRange { partition, origin, prev, known, updates };
            let message = Message::Replicate(vec![range]);
            assert_eq!(message.validate(at(1, 0), at(0, 0), &topology), valid, "{times:?}");
        }
    }
}
