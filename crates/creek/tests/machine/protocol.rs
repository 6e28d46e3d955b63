//! The protocol, message by message.

use std::collections::VecDeque;
use std::sync::Arc;

use solera_creek::{Context, Level, Message, OperationId, Record, Request, Response, StreamId};
use solera_machine::{Address, Input, Machine, OfProtocol};
use solera_time::{Monotonic, SiteId};

use super::cluster::{
    Cluster, Letters, SITES, operations, request, site, tentative, text, topology, weak,
};

#[test]
fn alg_1_l_15_to_25_and_l_65_to_68_weak_operations_are_answered_before_any_message_arrives() {
    let mut cluster = Cluster::new(|_| {});
    let a = cluster.append(0, 'a', Level::Weak);
    let b = cluster.append(0, 'b', Level::Weak);
    for (request, expected) in [(a, "a"), (b, "ab")] {
        let replies = cluster.replies_to(request);
        assert_eq!(replies.len(), 1);
        assert_eq!(tentative(replies[0]).unwrap().response, expected);
    }
    assert!(cluster.replies.iter().all(|(.., last)| *last));
    let sent = [1, 2].map(|to| cluster.sent[0][to].len());
    assert_eq!(sent, [2, 2]);
}

#[test]
fn section_4_4_weak_operations_that_read_are_not_broadcast() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(0, 'a', Level::Weak);
    let sent = cluster.sent[0][1].len();
    let records = cluster.journals[0].len();
    let read = cluster.invoke(0, Letters::Read, Level::Weak, false);
    let replies = cluster.replies_to(read);
    assert_eq!(tentative(replies[0]).map(|it| (it.id, &*it.response)), Some((None, "a")));
    assert_eq!((cluster.sent[0][1].len(), cluster.journals[0].len()), (sent, records));
    // A strong one is, because it has a place in the final order.
    let read = cluster.invoke(0, Letters::Read, Level::Strong, false);
    assert!(cluster.sent[0][1].len() > sent);
    cluster.rest();
    assert_eq!(text(cluster.replies_to(read)[1]), "a");
}

#[test]
fn strong_operations_are_stable_after_three_message_delays_and_two_at_the_leader() {
    let mut cluster = Cluster::of(5, |_| {});
    let at_leader = cluster.append(0, 'a', Level::Strong);
    let elsewhere = cluster.append(1, 'b', Level::Strong);
    for request in [at_leader, elsewhere] {
        assert!(tentative(cluster.replies_to(request)[0]).is_some());
        assert_eq!(cluster.replies_to(request).len(), 1);
    }
    cluster.delay();
    assert_eq!(cluster.replies_to(at_leader).len(), 1);
    cluster.delay();
    assert!(matches!(cluster.replies_to(at_leader)[1], Response::Stable { position: 1, .. }));
    assert_eq!(cluster.replies_to(elsewhere).len(), 1);
    cluster.delay();
    let stable = cluster.replies_to(elsewhere)[1];
    assert!(matches!(stable, Response::Stable { position: 2, response, .. } if response == "ab"));
}

#[test]
fn alg_1_l_48_to_54_a_commit_takes_its_context_and_leaves_the_rest() {
    let mut cluster = Cluster::new(|_| {});
    let apart = cluster.invoke(2, Letters::Append('x'), Level::Weak, true);
    cluster.millis += 10;
    cluster.append(1, 'a', Level::Weak);
    cluster.append(1, 'b', Level::Strong);
    for _ in 0..3 {
        // Site 2 receives everything, and sends nothing.
        cluster.sent[2] = vec![VecDeque::new(); SITES];
        cluster.delay();
    }
    let id = |number: usize, event: u64| site(number).site.to_string() + &format!(".1.{event}");
    for at in 0..2 {
        assert_eq!(cluster.finals(at), [id(1, 1), id(1, 2)]);
    }
    // At its own site, the weak operation is after the committed ones, although it is older.
    cluster.rest();
    let replies: Vec<_> = cluster.replies_to(apart).into_iter().map(text).collect();
    assert_eq!(replies, ["x", "abx", "abx"]);
    for at in 0..SITES {
        assert_eq!(cluster.finals(at)[..3], [id(1, 1), id(1, 2), id(2, 1)]);
    }
    assert!(cluster.has_taken("rolled back") && cluster.has_taken("revised"));
}

#[test]
fn alg_1_l_19_and_l_29_contexts_contain_weak_and_committed_operations() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'a', Level::Strong);
    cluster.deliver(1, 2);
    cluster.append(2, 'b', Level::Weak);
    cluster.append(2, 'c', Level::Strong);
    let context = |journal: &[Vec<u8>]| {
        let strong = |record: &Vec<u8>| match Record::<Letters>::decode(record).unwrap() {
            Record::Operation(request) if request.cast.is_some() => Some(request.context.clone()),
            _ => None,
        };
        journal.iter().rev().find_map(strong).unwrap()
    };
    let id = |number: u8, event| OperationId { site: SiteId(number), run: 1, event };
    assert_eq!(context(&cluster.journals[2]), Context::from_iter([id(2, 1)]));
    cluster.rest();
    cluster.append(2, 'd', Level::Strong);
    let expected = [id(1, 1), id(2, 1), id(2, 2)];
    assert_eq!(context(&cluster.journals[2]), Context::from_iter(expected));
}

#[test]
fn section_4_1_a_strong_operation_waits_for_its_context() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'a', Level::Weak);
    cluster.deliver(1, 2);
    cluster.append(2, 'b', Level::Strong);
    cluster.deliver(2, 0);
    assert!(cluster.has_taken("waits for its causal context"));
    let read = cluster.invoke(0, Letters::Read, Level::Weak, false);
    assert_eq!(text(cluster.replies_to(read)[0]), "");
    assert_eq!(cluster.machines[0].status().tentative, 0);
    cluster.deliver(1, 0);
    let read = cluster.invoke(0, Letters::Read, Level::Weak, false);
    assert_eq!(text(cluster.replies_to(read)[0]), "ab");
}

#[test]
fn a_weak_operation_is_broadcast_when_it_is_executed() {
    let mut cluster = Cluster::new(|config| config.limits.executions = 1);
    cluster.append(2, 'e', Level::Weak);
    cluster.millis += 10;
    cluster.give(1, 0, operations((1..=3).map(|event| weak(1, event, event)).collect()));
    let invoked = cluster.append(0, 'a', Level::Weak);
    cluster.deliver(0, 1);
    assert!(cluster.replies_to(invoked).is_empty());
    assert_eq!(cluster.machines[1].status().kept, 0);
    cluster.deliver(2, 0);
    (0..9).for_each(|_| cluster.tick(0));
    assert_eq!(text(cluster.replies_to(invoked)[0]), "fffea");
    cluster.deliver(0, 1);
    assert_eq!(cluster.machines[1].status().kept, 1);
}

#[test]
fn one_step_executes_a_bounded_number_of_operations() {
    let mut cluster = Cluster::new(|config| config.limits.executions = 5);
    let requests = (1..=100).map(|event| weak(1, event, event)).collect();
    cluster.give(1, 0, operations(requests));
    assert_eq!(cluster.machines[0].status().tentative, 100);
    assert_eq!(cluster.machines[0].status().executions, 5);
    assert_eq!(cluster.machines[0].next_deadline(), Some(Monotonic(0)));
    for step in 2..=20 {
        cluster.tick(0);
        assert_eq!(cluster.machines[0].status().executions, step * 5);
    }
    assert_ne!(cluster.machines[0].next_deadline(), Some(Monotonic(0)));
}

#[test]
fn a_full_tentative_list_refuses_operations_until_it_is_committed() {
    let mut cluster = Cluster::new(|config| config.limits.tentative = 4);
    let requests: Vec<_> = (0..5).map(|_| cluster.append(1, 'a', Level::Weak)).collect();
    assert_eq!(cluster.replies_to(requests[4]), [&Response::Busy]);
    // Reads need no place in the list.
    let read = cluster.invoke(1, Letters::Read, Level::Weak, false);
    assert_eq!(text(cluster.replies_to(read)[0]), "aaaa");
    cluster.rest();
    let next = cluster.append(1, 'b', Level::Weak);
    assert_eq!(text(cluster.replies_to(next)[0]), "aaaab");
}

#[test]
fn a_cancelled_request_has_no_more_replies_and_its_operation_stays() {
    let mut cluster = Cluster::new(|_| {});
    let request = cluster.append(0, 'a', Level::Strong);
    let now = cluster.now();
    cluster.machines[0].handle(now, Input::Cancel { request });
    cluster.rest();
    assert_eq!(cluster.replies_to(request).len(), 1);
    let read = cluster.invoke(1, Letters::Read, Level::Weak, false);
    assert_eq!(text(cluster.replies_to(read)[0]), "a");
}

#[test]
fn weak_operations_are_committed_without_strong_ones_of_clients_and_nothing_is_left() {
    let mut cluster = Cluster::new(|_| {});
    let weak = cluster.invoke(1, Letters::Append('a'), Level::Weak, true);
    cluster.rest();
    let stable = cluster.replies_to(weak);
    assert!(matches!(stable[1], Response::Stable { position: 1, .. }));
    for machine in &cluster.machines {
        let status = machine.status();
        assert_eq!((status.finals, status.tentative, status.kept), (2, 0, 0));
        assert_eq!(status.digest, cluster.machines[0].status().digest);
    }
}

#[test]
fn a_restarted_site_has_the_same_state_and_another_run() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'a', Level::Strong);
    cluster.rest();
    cluster.append(1, 'b', Level::Weak);
    let before = cluster.machines[1].status();
    cluster.restart(1);
    let after = cluster.machines[1].status();
    assert_eq!((after.finals, after.digest), (before.finals, before.digest));
    assert_eq!(after.tentative, before.tentative);
    // The first process sent nothing of the weak operation that arrived.
    cluster.sent[1] = vec![VecDeque::new(); SITES];
    let next = cluster.append(1, 'c', Level::Strong);
    let reply = cluster.replies_to(next)[0];
    assert_eq!(text(reply), "abc");
    let id = tentative(reply).unwrap().id.unwrap();
    assert_eq!((id.run, id.event), (2, 1));
    cluster.rest();
    assert_eq!(cluster.finals(0)[..3], ["s1.1.1", "s1.1.2", "s1.2.1"].map(String::from));
}

#[test]
fn forged_operations_and_reports_change_nothing() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'a', Level::Weak);
    let stream = StreamId { site: SiteId(1), run: 1 };
    // Site 1 alone invokes operations of its run.
    cluster.give(0, 1, operations(vec![weak(1, 2, 9)]));
    cluster.give(0, 1, operations(vec![weak(7, 1, 9)]));
    cluster.give(0, 1, Message::Heads { heads: vec![(stream, u64::MAX)], answer: true });
    cluster.give(0, 1, Message::Missing { stream, after: u64::MAX });
    assert_eq!(cluster.machines[1].status().tentative, 1);
    assert!(cluster.sent[1][0].iter().all(|it| matches!(it, Message::Operations { .. })));
    // Two operations with one cast: the later one is dropped everywhere.
    let strong = || (Some(1), Context::default());
    let requests = vec![request(6, 1, 1, strong()), request(6, 2, 2, strong())];
    cluster.give(1, 2, operations(requests.clone()));
    cluster.give(1, 0, operations(requests));
    assert_eq!(cluster.machines[2].status().tentative, 1);
    // A timestamp at the end of time, and a context that nobody can complete.
    let context = Context::from_iter([OperationId { site: SiteId(2), run: 9, event: 9 }]);
    let strong = (Some(1), context);
    let last = u64::MAX;
    let requests = vec![request(7, 1, last, strong), weak(7, 2, last)];
    cluster.give(1, 0, operations(requests));
    cluster.append(0, 'b', Level::Weak);
    let strong = cluster.append(0, 'c', Level::Strong);
    cluster.rest();
    assert_eq!(cluster.replies_to(strong).len(), 2);
}

#[test]
fn section_1_sites_of_a_minority_converge() {
    let mut cluster = Cluster::of(5, |_| {});
    cluster.append(0, 's', Level::Strong);
    // The operation reaches all sites, its proposal all but site 4, and acceptances sites 0 and 3.
    let body = cluster.sent[0][4][0].clone();
    (1..4).for_each(|to| cluster.deliver(0, to));
    cluster.sent[0][4].clear();
    cluster.give(0, 4, body);
    [(1, 0), (2, 0), (1, 3), (2, 3)].into_iter().for_each(|(from, to)| cluster.deliver(from, to));
    assert_eq!(cluster.finals(3).len(), 1);
    // Site 3 has committed the operation, and its next one depends on it. Then sites 3 and 4 are
    // cut off.
    cluster.append(3, 'w', Level::Weak);
    let cut = |cluster: &mut Cluster| {
        for (from, to) in (0..5).flat_map(|from| (0..5).map(move |to| (from, to))) {
            if (from < 3) != (to < 3) {
                cluster.sent[from][to].clear();
            }
        }
    };
    for _ in 0..500 {
        cluster.millis += 20;
        (0..5).for_each(|site| cluster.tick(site));
        cut(&mut cluster);
        cluster.delay();
        cut(&mut cluster);
    }
    let read = cluster.invoke(4, Letters::Read, Level::Weak, false);
    assert_eq!(text(cluster.replies_to(read)[0]), "sw");
}

#[test]
fn a_run_is_delivered_after_the_earlier_runs_of_its_site() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(2, 'a', Level::Strong);
    // Nobody receives the operation before the site restarts.
    cluster.sent[2] = vec![VecDeque::new(); SITES];
    cluster.restart(2);
    cluster.append(2, 'b', Level::Strong);
    cluster.deliver(2, 0);
    let read = cluster.invoke(0, Letters::Read, Level::Weak, false);
    assert_eq!(text(cluster.replies_to(read)[0]), "");
    cluster.rest();
    let read = cluster.invoke(0, Letters::Read, Level::Weak, false);
    assert_eq!(text(cluster.replies_to(read)[0]), "ab");
}

#[test]
fn invalid_messages_are_rejected() {
    let valid = |message: &Message<Letters>, from, to| message.validate(from, to, &topology());
    let good = operations(vec![weak(1, 2, 9), weak(1, 3, 9)]);
    assert!(valid(&good, site(1), site(0)));
    assert!(!valid(&good, site(0), site(0)));
    assert!(!valid(&good, site(1), Address { worker: 1, ..site(0) }));
    assert!(!valid(&good, site(4), site(0)));
    let own = OperationId { site: SiteId(1), run: 1, event: 2 };
    let on_itself = (Some(1), Context::from_iter([own]));
    let without_number = (Some(0), Context::default());
    let far = Request { id: OperationId { site: SiteId(5), ..own }, ..weak(1, 2, 9) };
    for bad in [
        vec![],
        vec![weak(1, 0, 9)],
        vec![weak(0, 1, 9)],
        vec![weak(1, 2, 9), weak(1, 4, 9)],
        vec![weak(1, 2, 9), weak(2, 3, 9)],
        vec![weak(1, u64::MAX, 9), weak(1, 1, 9)],
        vec![request(1, 2, 9, on_itself)],
        vec![request(1, 2, 9, without_number)],
        vec![Request { previous: Some((1, 1)), ..weak(1, 1, 9) }],
        vec![Request { previous: Some((1, 1)), ..weak(2, 2, 9) }],
        vec![far],
    ] {
        assert!(!valid(&operations(bad), site(1), site(0)));
    }
    let stream = StreamId { site: SiteId(6), run: 1 };
    assert!(!valid(&Message::Missing { stream, after: 0 }, site(1), site(0)));
    assert!(!valid(&Message::Heads { heads: vec![(stream, 1)], answer: false }, site(1), site(0)));
}

#[test]
fn long_messages_are_split_into_halves_that_mean_the_same() {
    let requests: Vec<_> = (1..=5).map(|event| weak(1, event, event)).collect();
    let whole = Message::Operations {
        requests: requests.iter().cloned().map(Arc::new).collect(),
        more: true,
    };
    let mut first = whole;
    let second = first.split().unwrap();
    for half in [&first, &second] {
        assert!(half.validate(site(1), site(0), &topology()));
    }
    let parts = [first, second].map(|half| match half {
        Message::Operations { requests, more } => (requests, more),
        _ => unreachable!(),
    });
    // Only the last part states that more follows.
    assert_eq!([parts[0].1, parts[1].1], [false, true]);
    let ids = parts.iter().flat_map(|(requests, _)| requests).map(|it| it.id);
    assert!(ids.eq(requests.iter().map(|it| it.id)));
    let mut single = operations(vec![weak(1, 1, 1)]);
    assert_eq!(single.split(), None);
}

#[test]
fn alg_1_l_72_to_74_an_operation_that_is_committed_before_its_execution_has_a_stable_reply_alone() {
    let mut cluster = Cluster::new(|config| config.limits.executions = 1);
    for at in [0, 2] {
        let requests = (1..=5).map(|event| weak(1, event, event)).collect();
        cluster.give(1, at, operations(requests));
    }
    let strong = cluster.append(0, 'a', Level::Strong);
    cluster.deliver(0, 2);
    cluster.deliver(2, 0);
    assert_eq!(cluster.machines[0].status().committed, 6);
    assert!(cluster.replies_to(strong).is_empty());
    (0..9).for_each(|_| cluster.tick(0));
    let replies = cluster.replies_to(strong);
    assert!(matches!(replies[0], Response::Stable { position: 6, .. }));
    assert_eq!((replies.len(), text(replies[0])), (1, "fffffa"));
    assert!(cluster.has_taken("committed before its first execution"));
}
