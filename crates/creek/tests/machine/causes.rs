//! Causes of revised responses.

use solera_creek::{Command, Level, Message, OperationId, Response};
use solera_machine::RequestId;
use solera_time::SiteId;

use super::cluster::{Cluster, Letters, tentative, text};

fn id(site: u8, event: u64) -> OperationId {
    OperationId { site: SiteId(site), run: 1, event }
}

impl Cluster {
    /// Invokes an operation of a client later than all earlier ones of other sites.
    fn invoke_later(&mut self, at: usize, letters: Letters, level: Level) -> RequestId {
        self.millis += 10;
        self.invoke(at, letters, level, false)
    }

    fn follow_from(&mut self, at: usize, id: OperationId, seen: &str) -> RequestId {
        self.command(at, Command::Follow { id, seen: Some(seen.to_owned()) })
    }

    /// Returns the revised response to a request, and its cause.
    fn revised(&self, request: RequestId) -> (&str, Option<OperationId>) {
        match self.replies_to(request)[..] {
            [Response::Revised(revised)] => (&revised.response, revised.cause),
            ref others => panic!("{others:?}"),
        }
    }
}

#[test]
fn the_cause_is_an_operation_that_arrives_at_an_earlier_place() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'x', Level::Weak);
    cluster.append(2, 'y', Level::Weak);
    let first = cluster.invoke_later(0, Letters::Append('a'), Level::Weak);
    assert_eq!(tentative(cluster.replies_to(first)[0]).unwrap().cause, None);
    let follows = cluster.follow_from(0, id(0, 1), "a");
    cluster.deliver(1, 0);
    assert_eq!(cluster.revised(follows), ("xa", Some(id(1, 1))));
    // What has changed before the client got the last response does not count.
    let follows = cluster.follow_from(0, id(0, 1), "xa");
    cluster.deliver(2, 0);
    assert_eq!(cluster.revised(follows), ("xya", Some(id(2, 1))));
}

#[test]
fn a_request_that_tracks_its_operation_gets_causes() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'x', Level::Weak);
    cluster.millis += 10;
    let tracked = cluster.invoke(0, Letters::Append('a'), Level::Strong, true);
    cluster.deliver(1, 0);
    let causes: Vec<_> =
        cluster.replies_to(tracked).into_iter().map(|it| tentative(it).unwrap().cause).collect();
    assert_eq!(causes, [None, Some(id(1, 1))]);
}

#[test]
fn the_cause_is_the_operation_whose_new_version_is_read() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'x', Level::Weak);
    cluster.invoke_later(0, Letters::Append('a'), Level::Weak);
    cluster.invoke_later(0, Letters::Append('b'), Level::Strong);
    let follows = [(1, "a"), (2, "ab")].map(|(it, seen)| cluster.follow_from(0, id(0, it), seen));
    cluster.deliver(1, 0);
    assert_eq!(cluster.revised(follows[0]), ("xa", Some(id(1, 1))));
    // It reads what the first operation has written in its second execution.
    assert_eq!(cluster.revised(follows[1]), ("xab", Some(id(0, 1))));
}

#[test]
fn of_several_causes_only_those_that_are_read_count() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'x', Level::Weak);
    cluster.invoke_later(2, Letters::Append('y'), Level::Weak);
    cluster.invoke_later(0, Letters::Append('a'), Level::Weak);
    cluster.deliver(1, 0);
    cluster.deliver(2, 0);
    // The client has seen neither change. The version of the second operation hides the first one.
    let follows = cluster.follow_from(0, id(0, 1), "a");
    assert_eq!(cluster.revised(follows), ("xya", Some(id(2, 1))));
}

#[test]
fn the_cause_is_an_operation_that_is_committed_before_earlier_ones() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(0, 'a', Level::Weak);
    let follows = cluster.follow_from(0, id(0, 1), "a");
    // Sites 1 and 2 agree on the place of an operation of site 1, and do not know the first one.
    cluster.sent[0][1].clear();
    cluster.sent[0][2].clear();
    cluster.invoke_later(1, Letters::Append('s'), Level::Strong);
    for _ in 0..6 {
        for (from, to) in [(1, 0), (0, 1), (1, 2), (2, 1), (2, 0), (0, 2)] {
            cluster.deliver(from, to);
        }
    }
    assert_eq!(cluster.finals(0), ["s1.1.1"]);
    assert_eq!(cluster.revised(follows), ("sa", Some(id(1, 1))));
}

/// The reader reads an older version, because the operation whose version it has read moves before
/// that one. The operation that has written the older version is not executed again.
#[test]
fn the_cause_is_an_operation_whose_version_is_not_read_any_more() {
    let mut cluster = Cluster::new(|_| {});
    cluster.invoke_later(2, Letters::Replace('q'), Level::Weak);
    cluster.deliver(2, 0);
    cluster.sent[2][1].clear();
    cluster.invoke_later(1, Letters::Replace('p'), Level::Strong);
    cluster.sent[1][2].clear();
    cluster.deliver(1, 0);
    let first = cluster.invoke_later(0, Letters::Append('a'), Level::Weak);
    assert_eq!(text(cluster.replies_to(first)[0]), "pa");
    let follows = cluster.follow_from(0, id(0, 1), "pa");
    // Site 1 does not get the other operations before the strong one is committed.
    cluster.sent[0][1].retain(|it| !matches!(it, Message::Operations { .. }));
    for _ in 0..3 {
        cluster.deliver(0, 1);
        cluster.deliver(1, 0);
    }
    assert_eq!(cluster.finals(0).first().unwrap(), "s1.1.1");
    assert_eq!(cluster.revised(follows), ("qa", Some(id(1, 1))));
}

#[test]
fn an_operation_with_the_same_final_response_is_not_revised() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'x', Level::Weak);
    // A later operation replaces what the earlier one has changed.
    cluster.invoke_later(0, Letters::Replace('q'), Level::Weak);
    cluster.invoke_later(0, Letters::Append('a'), Level::Strong);
    let follows = cluster.follow_from(0, id(0, 2), "qa");
    cluster.deliver(1, 0);
    assert!(cluster.replies_to(follows).is_empty());
    cluster.rest();
    let replies = cluster.replies_to(follows);
    assert!(matches!(replies[..], [Response::Stable { .. }]), "{replies:?}");
    assert_eq!(text(replies[0]), "qa");
}

#[test]
fn a_site_that_has_restarted_does_not_know_causes_of_earlier_changes() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'x', Level::Weak);
    cluster.append(2, 'y', Level::Weak);
    cluster.invoke_later(0, Letters::Append('a'), Level::Weak);
    cluster.deliver(1, 0);
    cluster.restart(0);
    cluster.tick(0);
    let follows = cluster.follow_from(0, id(0, 1), "a");
    assert_eq!(cluster.revised(follows), ("xa", None));
    let follows = cluster.follow_from(0, id(0, 1), "xa");
    cluster.deliver(2, 0);
    assert_eq!(cluster.revised(follows), ("xya", Some(id(2, 1))));
}
