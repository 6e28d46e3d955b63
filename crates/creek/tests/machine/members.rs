//! Sites that leave and join.

use solera_creek::{
    Command, Config, Creek, Digest, Fetched, Level, Message, OperationId, Past, Piece, Response,
    Rule, Transfer,
};
use solera_machine::RequestId;
use solera_membership::{Change, Gap, Members, Participant};
use solera_time::{SiteId, Timestamp};

use crate::cluster::{Cluster, Letters, Text};

/// The gap of a site that has written nothing in spaces of other levels.
const GAP: Gap = Gap { cut: Timestamp::ZERO, end: Timestamp::ZERO };

fn id(site: u8, event: u64) -> OperationId {
    OperationId { site: SiteId(site), run: 1, event }
}

fn changed(list: &Members, site: u8, change: Change) -> Members {
    list.changed(SiteId(0), SiteId(site), change).unwrap()
}

impl Cluster {
    fn set_members(&mut self, at: usize, list: &Members) {
        let now = self.now();
        self.machines[at].set_members(now, list);
        self.collect(at);
    }

    /// Lets time pass at some sites, which receive each other's messages.
    fn rest_of(&mut self, sites: &[usize]) {
        for _ in 0..120 {
            self.millis += 20;
            sites.iter().for_each(|site| self.tick(*site));
            let sent = std::mem::replace(&mut self.sent, Cluster::nothing(self.machines.len()));
            for (from, receivers) in sent.into_iter().enumerate() {
                for (to, messages) in receivers.into_iter().enumerate() {
                    if sites.contains(&from) && sites.contains(&to) {
                        messages.into_iter().for_each(|message| self.give(from, to, message));
                    }
                }
            }
        }
    }

    fn has_completed(&self, sites: &[usize]) -> bool {
        sites.iter().all(|site| self.machines[*site].has_completed_removals())
    }

    /// Starts a site anew, without data, in another generation.
    fn replace(&mut self, at: usize, generation: u32) {
        self.configs[at].generation = generation;
        (self.journals[at], self.parts[at]) = (Vec::new(), Vec::new());
        self.machines[at] = Creek::new(self.configs[at].clone(), Text);
        self.collect(at);
    }

    /// Returns the pieces that a site has sent to another one.
    fn pieces(&mut self, from: usize, to: usize) -> Vec<Message<Letters>> {
        let sent = std::mem::take(&mut self.sent[from][to]);
        sent.into_iter().filter(|message| matches!(message, Message::Piece(_))).collect()
    }
}

fn only(replies: Vec<&Response<String>>) -> Response<String> {
    assert_eq!(replies.len(), 1, "{replies:?}");
    replies[0].clone()
}

/// Three sites with some final operations, of which the last one is removed.
fn without_one() -> (Cluster, Members) {
    without_one_of(Cluster::of(3, |_| {}))
}

fn without_one_of(mut cluster: Cluster) -> (Cluster, Members) {
    cluster.append(0, 'a', Level::Strong);
    cluster.append(2, 'b', Level::Weak);
    cluster.rest();
    let leaving = changed(&Members::new(3), 2, Change::Remove);
    (0..2).for_each(|site| cluster.set_members(site, &leaving));
    cluster.rest_of(&[0, 1]);
    assert!(cluster.has_completed(&[0, 1]));
    let gone = leaving.closed(SiteId(2), GAP);
    (0..2).for_each(|site| cluster.set_members(site, &gone));
    (cluster, gone)
}

/// Three sites, of which the last one has left and joins again.
fn with_joining() -> (Cluster, Members) {
    let (mut cluster, gone) = without_one();
    let joining = changed(&gone, 2, Change::Add);
    cluster.replace(2, 1);
    (0..3).for_each(|site| cluster.set_members(site, &joining));
    (cluster, joining)
}

/// Returns a request of the joining site for a piece.
fn fetch(number: u64, piece: u64) -> Message<Letters> {
    Message::Fetch { transfer: Transfer { run: (1 << 32) + 1, number }, piece }
}

#[test]
fn members_keep_what_one_of_them_has_of_a_site_that_leaves() {
    let mut cluster = Cluster::of(3, |_| {});
    cluster.append(2, 'a', Level::Weak);
    let strong = cluster.append(2, 'b', Level::Strong);
    cluster.deliver(2, 1);
    let awaited = cluster.command(0, Command::Await { id: id(2, 2) });
    let leaving = changed(&Members::new(3), 2, Change::Remove);
    cluster.set_members(0, &leaving);
    assert!(!cluster.has_completed(&[0]));
    // The other site has not learned of the removal.
    cluster.rest_of(&[0, 1]);
    assert!(!cluster.has_completed(&[0]));
    cluster.set_members(1, &leaving);
    cluster.rest_of(&[0, 1]);
    assert!(cluster.has_completed(&[0, 1]));
    assert!(matches!(only(cluster.replies_to(awaited)), Response::Stable { .. }));
    assert!(cluster.finals(0).contains(&id(2, 1).to_string()));
    assert_eq!(cluster.finals(0), cluster.finals(1));
    assert_eq!(cluster.machines[0].status().kept, 0);
    assert_eq!(cluster.replies_to(strong).len(), 1, "it was removed");
}

#[test]
fn operations_are_lost_if_no_member_has_their_context() {
    let mut cluster = Cluster::of(4, |_| {});
    cluster.append(3, 'a', Level::Weak);
    cluster.deliver(3, 2);
    cluster.append(2, 'b', Level::Weak);
    cluster.append(2, 'c', Level::Strong);
    cluster.deliver(2, 0);
    let seen = cluster.machines[2].past();
    let waiting: Vec<RequestId> = [
        Command::Await { id: id(2, 1) },
        Command::Follow { id: id(2, 2), seen: None },
        Command::Await { id: id(3, 1) },
        Command::Attach { past: seen.clone() },
        Command::Barrier { past: seen },
        Command::Await { id: id(2, 9) },
    ]
    .map(|command| cluster.command(0, command))
    .to_vec();
    let list = changed(&changed(&Members::new(4), 2, Change::Remove), 3, Change::Remove);
    (0..2).for_each(|site| cluster.set_members(site, &list));
    assert!(waiting.iter().all(|request| cluster.replies_to(*request).is_empty()));
    cluster.rest_of(&[0, 1]);
    assert!(cluster.has_completed(&[0, 1]));
    for request in waiting {
        assert!(matches!(only(cluster.replies_to(request)), Response::Lost { .. }));
    }
    let late = cluster.command(1, Command::Await { id: id(2, 1) });
    assert_eq!(only(cluster.replies_to(late)), Response::Lost { id: id(2, 1) });
    // Others go on, and keep nothing of it.
    let strong = cluster.append(1, 'd', Level::Strong);
    cluster.rest_of(&[0, 1]);
    assert_eq!(cluster.replies_to(strong).len(), 2);
    assert_eq!([0, 1].map(|site| cluster.machines[site].status().kept), [0, 0]);
    assert_eq!([0, 1].map(|site| cluster.finals(site).len()), [1, 1]);
    // They compare their streams again when the removals are complete, and after a restart.
    let gone = list.closed(SiteId(2), GAP).closed(SiteId(3), GAP);
    (0..2).for_each(|site| cluster.set_members(site, &gone));
    cluster.restart(1);
    cluster.set_members(1, &gone);
    let waiting = cluster.command(1, Command::Await { id: id(2, 1) });
    cluster.rest_of(&[0, 1]);
    assert_eq!(only(cluster.replies_to(waiting)), Response::Lost { id: id(2, 1) });
}

#[test]
fn a_site_joins_with_the_data_of_a_member() {
    let (mut cluster, gone) = without_one();
    let joining = changed(&gone, 2, Change::Add);
    cluster.replace(2, 1);
    cluster.set_members(2, &joining);
    let early = cluster.append(2, 'x', Level::Weak);
    assert_eq!(only(cluster.replies_to(early)), Response::Busy);
    cluster.set_members(0, &joining);
    cluster.rest_of(&[0, 1, 2]);
    assert!(!cluster.machines[2].is_filled(), "one of the members does not know that it joins");
    cluster.set_members(1, &joining);
    let meanwhile = cluster.append(1, 'c', Level::Strong);
    cluster.rest_of(&[0, 1, 2]);
    assert_eq!(cluster.replies_to(meanwhile).len(), 2);
    assert!(cluster.machines[2].is_filled());
    assert_eq!(cluster.finals(2), cluster.finals(0));
    // A restart keeps the data, before and after a checkpoint.
    for saved in [false, true] {
        if saved {
            cluster.write_checkpoint(2, 2);
        }
        cluster.restart(2);
        cluster.set_members(2, &joining);
        cluster.rest_of(&[0, 1, 2]);
        assert!(cluster.machines[2].is_filled());
        assert_eq!(cluster.finals(2), cluster.finals(0));
    }
    let joined = joining.joined(SiteId(2), Timestamp(3));
    (0..3).for_each(|site| cluster.set_members(site, &joined));
    let own = cluster.append(2, 'd', Level::Strong);
    cluster.rest_of(&[0, 1, 2]);
    let Response::Stable { id, response, .. } = cluster.replies_to(own)[1].clone() else {
        panic!("{:?}", cluster.replies_to(own))
    };
    assert_eq!((id.run >> 32, &*response), (1, "abcd"));
    assert!((0..3).all(|site| cluster.finals(site) == cluster.finals(0)));
    assert!((0..3).all(|site| cluster.machines[site].status().kept == 0));
}

#[test]
fn a_transfer_that_loses_messages_or_its_donor_goes_on() {
    let (mut cluster, _) = with_joining();
    // A repeated request is answered with the same piece, a former transfer or a later piece not.
    cluster.give(2, 0, fetch(1, 0));
    let first = cluster.pieces(0, 2);
    cluster.give(2, 0, fetch(1, 0));
    assert_eq!(cluster.pieces(0, 2), first);
    cluster.give(2, 0, fetch(1, 7));
    cluster.give(2, 0, fetch(2, 1));
    assert_eq!(cluster.pieces(0, 2), []);
    // The first donor is silent.
    cluster.millis += 200;
    cluster.tick(2);
    let sent = std::mem::replace(&mut cluster.sent, Cluster::nothing(3));
    for (to, sent) in sent[2].iter().enumerate().take(2) {
        let join = sent.iter().find(|it| matches!(it, Message::Join { .. })).unwrap();
        cluster.give(2, to, join.clone());
        cluster.deliver(to, 2);
    }
    let asks = |cluster: &Cluster, to: usize| {
        cluster.sent[2][to].iter().any(|message| matches!(message, Message::Fetch { .. }))
    };
    assert!(asks(&cluster, 0) && !asks(&cluster, 1));
    for _ in 0..200 {
        cluster.millis += 200;
        cluster.tick(2);
    }
    assert!(asks(&cluster, 1), "it turns to the next donor");
    assert!(cluster.has_taken("turned to another donor"));
    cluster.rest_of(&[0, 1, 2]);
    assert!(cluster.machines[2].is_filled());
    assert_eq!(cluster.finals(2), cluster.finals(0));
}

/// Four sites, of which two have left with operations that are lost, and what a client has seen.
fn with_lost() -> (Cluster, Members, Past) {
    let mut cluster = Cluster::of(4, |_| {});
    cluster.append(3, 'a', Level::Weak);
    cluster.deliver(3, 2);
    cluster.append(2, 'b', Level::Weak);
    cluster.append(2, 'c', Level::Strong);
    cluster.deliver(2, 0);
    let list = changed(&changed(&Members::new(4), 2, Change::Remove), 3, Change::Remove);
    (0..2).for_each(|site| cluster.set_members(site, &list));
    cluster.rest_of(&[0, 1]);
    assert!(cluster.has_completed(&[0, 1]));
    // The site has received this operation.
    (cluster, list, [id(2, 2)].into_iter().collect())
}

#[test]
fn lost_operations_stay_lost_after_a_restart() {
    for saved in [false, true] {
        let (mut cluster, list, seen) = with_lost();
        cluster.append(1, 'd', Level::Strong);
        cluster.rest_of(&[0, 1]);
        let before = cluster.finals(0);
        if saved {
            cluster.write_checkpoint(0, 2);
        }
        cluster.restart(0);
        cluster.set_members(0, &list);
        // Nobody else is needed.
        cluster.rest_of(&[0]);
        let waiting = [Command::Attach { past: seen }, Command::Await { id: id(2, 2) }]
            .map(|command| cluster.command(0, command));
        for request in waiting {
            assert!(matches!(only(cluster.replies_to(request)), Response::Lost { .. }));
        }
        cluster.rest_of(&[0, 1]);
        assert_eq!(cluster.finals(0), before);
        assert_eq!(cluster.finals(1), before);
    }
}

#[test]
fn a_transfer_that_a_crash_interrupts_is_forgotten() {
    let (mut cluster, joining) = with_joining();
    cluster.rest_of(&[0, 1, 2]);
    assert!(cluster.machines[2].is_filled());
    // All records up to some of the parts are durable.
    cluster.journals[2].truncate(3);
    for _ in 0..2 {
        cluster.restart(2);
        cluster.set_members(2, &joining);
        cluster.append(0, 'q', Level::Strong);
        cluster.rest_of(&[0, 1, 2]);
        assert!(cluster.machines[2].is_filled());
        assert_eq!(cluster.finals(2), cluster.finals(0));
        let [own, other] = [2, 0].map(|site| cluster.machines[site].status());
        assert_eq!((own.digest, own.committed), (other.digest, other.committed));
    }
}

/// A request that arrives again, after the donor was restarted, continues no transfer.
#[test]
fn a_transfer_has_the_data_of_one_moment() {
    let (mut cluster, gone) = without_one();
    for _ in 0..600 {
        cluster.append(0, 'm', Level::Weak);
    }
    cluster.rest_of(&[0, 1]);
    let joining = changed(&gone, 2, Change::Add);
    cluster.configs.iter_mut().for_each(|config| config.limits.piece = 5_000);
    cluster.write_checkpoint(0, 1_000);
    cluster.restart(0);
    cluster.replace(2, 1);
    (0..3).for_each(|site| cluster.set_members(site, &joining));
    cluster.millis += 400;
    cluster.tick(2);
    for other in 0..2 {
        cluster.deliver(2, other);
        cluster.deliver(other, 2);
    }
    cluster.give(2, 0, fetch(1, 0));
    let none = Fetched { donor: Some(SiteId(0)), bytes: 0, total: 0 };
    assert_eq!(cluster.machines[2].fetched(), Some(none));
    let size = cluster.sent[0][2].pop_front().unwrap();
    assert!(matches!(size, Message::Size { .. }), "{size:?}");
    cluster.give(0, 2, size);
    let pieces = cluster.pieces(0, 2);
    assert!(matches!(&pieces[..], [Message::Piece(Piece { last: false, .. })]), "{pieces:?}");
    cluster.give(0, 2, pieces[0].clone());
    // The progress is known.
    let Fetched { donor, bytes, total } = cluster.machines[2].fetched().unwrap();
    assert_eq!((donor, total), (Some(SiteId(0)), cluster.machines[0].status().bytes as u64));
    assert!((5_000..total).contains(&bytes), "{bytes} of {total}");
    cluster.restart(0);
    cluster.set_members(0, &joining);
    cluster.append(0, 'x', Level::Strong);
    cluster.rest_of(&[0, 1]);
    cluster.give(2, 0, fetch(1, 0));
    cluster.sent = Cluster::nothing(3);
    cluster.rest_of(&[0, 1, 2]);
    assert!(cluster.machines[2].is_filled() && cluster.has_taken("its donor was restarted"));
    assert_eq!(cluster.machines[2].fetched(), None);
    assert_eq!(cluster.machines[0].final_registers(), cluster.machines[2].final_registers());
    assert_eq!(cluster.machines[0].status().digest, cluster.machines[2].status().digest);
    // Nor does a late request of an earlier transfer disturb a later one.
    let (mut cluster, _) = with_joining();
    cluster.give(2, 0, fetch(2, 0));
    let first = cluster.pieces(0, 2);
    cluster.give(2, 0, fetch(1, 0));
    assert_eq!(cluster.pieces(0, 2), []);
    cluster.give(2, 0, fetch(2, 0));
    assert_eq!(cluster.pieces(0, 2), first);
}

/// The data of a site that is listed later begins with a list of all sites.
#[test]
fn a_site_that_was_listed_later_takes_part() {
    let mut cluster = Cluster::of(3, |config| config.founders = 2);
    cluster.append(0, 'a', Level::Strong);
    cluster.rest_of(&[0, 1]);
    let joining = changed(&Members::founded(2, 3), 2, Change::Add);
    cluster.configs[2].founders = 3;
    cluster.replace(2, 1);
    (0..3).for_each(|site| cluster.set_members(site, &joining));
    cluster.rest_of(&[0, 1, 2]);
    let joined = joining.joined(SiteId(2), Timestamp(3));
    (0..3).for_each(|site| cluster.set_members(site, &joined));
    cluster.rest_of(&[0, 1, 2]);
    for down in [2, 1] {
        let strong = cluster.append(0, 'b', Level::Strong);
        let up: Vec<usize> = (0..3).filter(|site| *site != down).collect();
        cluster.rest_of(&up);
        assert_eq!(cluster.replies_to(strong).len(), 2, "without {down}");
        cluster.rest_of(&[0, 1, 2]);
    }
}

#[test]
fn a_joining_site_that_differs_stops_no_member() {
    let (mut cluster, _) = with_joining();
    cluster.rest_of(&[0, 1, 2]);
    let position = cluster.machines[0].status().finals;
    cluster.give(2, 0, Message::Digest { position, digest: Digest::default(), answer: true });
    assert_eq!(cluster.machines[0].divergence().map(|it| it.is_stopped), Some(false));
    let weak = cluster.append(0, 'z', Level::Weak);
    assert!(matches!(only(cluster.replies_to(weak)), Response::Tentative(_)));
}

/// All members have dropped a lost operation, and one of them has not delivered its slot. Then a
/// site joins, and fails.
#[test]
fn a_joining_site_that_fails_blocks_no_strong_operation() {
    for restarted in [false, true] {
        let mut cluster = Cluster::of(5, |_| {});
        cluster.append(4, 'a', Level::Weak);
        cluster.deliver(4, 3);
        cluster.append(3, 'b', Level::Weak);
        cluster.append(3, 'c', Level::Strong);
        [0, 2].iter().for_each(|site| cluster.deliver(3, *site));
        let list = changed(&changed(&Members::new(5), 3, Change::Remove), 4, Change::Remove);
        (0..3).for_each(|site| cluster.set_members(site, &list));
        for _ in 0..10 {
            cluster.millis += 20;
            (0..3).for_each(|site| cluster.tick(site));
            let sent = std::mem::replace(&mut cluster.sent, Cluster::nothing(5));
            for (from, receivers) in sent.into_iter().enumerate().take(3) {
                for (to, messages) in receivers.into_iter().enumerate().take(3) {
                    let arrives = |message: &Message<Letters>| to != 2 || !decides(message);
                    let messages = messages.into_iter().filter(arrives);
                    messages.for_each(|message| cluster.give(from, to, message));
                }
            }
        }
        let gone = list.closed(SiteId(3), GAP).closed(SiteId(4), GAP);
        let joining = changed(&gone, 3, Change::Add);
        if restarted {
            cluster.restart(2);
        }
        (0..3).for_each(|site| cluster.set_members(site, &joining));
        let strong = cluster.append(2, 'd', Level::Strong);
        cluster.rest_of(&[0, 1, 2]);
        assert_eq!(cluster.replies_to(strong).len(), 2);
        assert!((0..3).all(|site| cluster.finals(site) == cluster.finals(0)));
    }
}

/// Returns whether a site learns of decisions by a message.
fn decides(message: &Message<Letters>) -> bool {
    use solera_consensus::Message as Agreement;
    let Message::Consensus(message) = message else { return false };
    matches!(
        message,
        Agreement::Accept { .. } | Agreement::Accepted { .. } | Agreement::Decided { .. }
    )
}

/// The leader removes what a joining site lacks, if it does not know that the site joins.
#[test]
fn a_joining_site_waits_until_all_members_know_it() {
    for without in [None, Some(Rule::AdmitFirst)] {
        let change = |config: &mut Config| {
            (config.leader, config.without) = (SiteId(1), without.into());
        };
        let (mut cluster, gone) = without_one_of(Cluster::of(3, change));
        assert!(cluster.machines[1].leads());
        let joining = changed(&gone, 2, Change::Add);
        cluster.replace(2, 1);
        [0, 2].iter().for_each(|site| cluster.set_members(*site, &joining));
        cluster.rest_of(&[0, 1, 2]);
        assert_eq!(cluster.machines[2].is_filled(), without.is_some());
        cluster.append(0, 'c', Level::Strong);
        cluster.rest_of(&[0, 1]);
        cluster.set_members(1, &joining);
        cluster.rest_of(&[0, 1, 2]);
        assert!(cluster.machines[2].is_filled());
        assert_eq!(cluster.finals(2) == cluster.finals(0), without.is_none());
    }
}

/// An operation of the former generation waits at the donor for one of another site. Until the
/// joining site has that one, it is not ready: its own operations come after.
#[test]
fn a_joining_site_first_delivers_the_operations_of_its_former_generation() {
    let mut cluster = Cluster::of(3, |_| {});
    cluster.append(1, 'a', Level::Weak);
    cluster.deliver(1, 2);
    cluster.append(2, 'b', Level::Weak);
    [0, 1].iter().for_each(|site| cluster.deliver(2, *site));
    cluster.sent = Cluster::nothing(3);
    let leaving = changed(&Members::new(3), 2, Change::Remove);
    let gone = leaving.closed(SiteId(2), GAP);
    let joining = changed(&gone, 2, Change::Add);
    cluster.replace(2, 1);
    (0..3).for_each(|site| cluster.set_members(site, &joining));
    // The first site does not get what its operation waits for, and becomes the donor.
    let is_operation = |message: &Message<Letters>| {
        matches!(message, Message::Operations { .. } | Message::Consensus(_))
    };
    for _ in 0..30 {
        cluster.millis += 20;
        (0..3).for_each(|site| cluster.tick(site));
        let sent = std::mem::replace(&mut cluster.sent, Cluster::nothing(3));
        for (from, receivers) in sent.into_iter().enumerate() {
            for (to, messages) in receivers.into_iter().enumerate() {
                let messages = messages.into_iter().filter(|it| from != 1 || !is_operation(it));
                messages.for_each(|message| cluster.give(from, to, message));
            }
        }
    }
    assert!(cluster.has_taken("took over the data"));
    assert!(!cluster.machines[2].is_filled(), "an operation of its former generation waits");
    cluster.rest_of(&[0, 1, 2]);
    assert!(cluster.machines[2].is_filled());
    assert_eq!(cluster.finals(2), cluster.finals(0));
    assert!(cluster.finals(0).contains(&id(2, 1).to_string()));
}
