//! Requests that wait for operations or pasts, and what a site keeps of final operations.

use std::collections::VecDeque;

use solera_creek::{Command, Level, Message, OperationId, Past, Response};
use solera_machine::RequestId;
use solera_time::SiteId;

use super::cluster::{Cluster, Letters, SITES, operations, tentative, text, weak};

fn id(site: u8, run: u64, event: u64) -> OperationId {
    OperationId { site: SiteId(site), run, event }
}

fn past<const N: usize>(ids: [OperationId; N]) -> Past {
    Past::from_iter(ids)
}

impl Cluster {
    fn await_stable(&mut self, at: usize, id: OperationId) -> RequestId {
        self.command(at, Command::Await { id })
    }

    fn follow(&mut self, at: usize, id: OperationId, seen: Option<&str>) -> RequestId {
        self.command(at, Command::Follow { id, seen: seen.map(String::from) })
    }

    fn attach(&mut self, at: usize, past: Past) -> RequestId {
        self.command(at, Command::Attach { past })
    }

    fn barrier(&mut self, at: usize, past: Past) -> RequestId {
        self.command(at, Command::Barrier { past })
    }

    fn is_reached(&self, request: RequestId) -> bool {
        self.replies_to(request) == [&Response::Reached]
    }

    fn has_reply(&self, request: RequestId) -> bool {
        !self.replies_to(request).is_empty()
    }

    /// Returns the number of operations that a site has broadcast and that wait for delivery.
    fn broadcast(&self, from: usize, to: usize) -> usize {
        let is_operation = |it: &&Message<Letters>| matches!(it, Message::Operations { .. });
        self.sent[from][to].iter().filter(is_operation).count()
    }

    fn lose_all(&mut self) {
        self.sent = vec![vec![VecDeque::new(); SITES]; SITES];
    }
}

#[test]
fn await_answers_with_the_stable_response_at_any_site() {
    let mut cluster = Cluster::new(|_| {});
    let weak = id(1, 1, 1);
    // The others do not know the operation yet.
    let early = [0, 2].map(|at| cluster.await_stable(at, weak));
    cluster.append(1, 'a', Level::Weak);
    cluster.delay();
    assert!(early.iter().all(|request| !cluster.has_reply(*request)));
    cluster.rest();
    let late = [0, 1, 2].map(|at| cluster.await_stable(at, weak));
    let stable = Response::Stable { id: weak, position: 1, response: "a".to_owned() };
    for request in early.into_iter().chain(late) {
        assert_eq!(cluster.replies_to(request), [&stable]);
    }
    assert!(cluster.replies.iter().all(|(.., last)| *last));
}

#[test]
fn await_answers_for_strong_operations_when_the_executions_of_a_site_have_reached_them() {
    let mut cluster = Cluster::new(|config| config.limits.executions = 1);
    for at in [0, 2] {
        let requests = (1..=5).map(|event| weak(1, event, event)).collect();
        cluster.give(1, at, operations(requests));
    }
    cluster.append(0, 'a', Level::Strong);
    let waits = cluster.await_stable(0, id(0, 1, 1));
    cluster.deliver(0, 2);
    cluster.deliver(2, 0);
    assert_eq!(cluster.machines[0].status().committed, 6);
    assert!(!cluster.has_reply(waits));
    (0..9).for_each(|_| cluster.tick(0));
    let stable = Response::Stable { id: id(0, 1, 1), position: 6, response: "fffffa".to_owned() };
    assert_eq!(cluster.replies_to(waits), [&stable]);
}

#[test]
fn a_site_answers_for_operations_of_which_it_knows_that_they_do_not_exist() {
    let mut cluster = Cluster::new(|_| {});
    let is_unknown = |cluster: &mut Cluster, at: usize, id: OperationId| {
        let requests = [cluster.await_stable(at, id), cluster.follow(at, id, None)];
        let is_unknown = requests.map(|it| cluster.replies_to(it) == [&Response::Unknown { id }]);
        assert_eq!(is_unknown[0], is_unknown[1]);
        is_unknown[0]
    };
    // The site itself knows what it has invoked.
    cluster.append(1, 'a', Level::Strong);
    assert!(!is_unknown(&mut cluster, 1, id(1, 1, 1)));
    assert!(is_unknown(&mut cluster, 1, id(1, 1, 2)) && is_unknown(&mut cluster, 1, id(1, 2, 1)));
    // Others know the end of a run when they have an operation of a later one.
    cluster.rest();
    assert!(!is_unknown(&mut cluster, 0, id(1, 1, 2)) && !is_unknown(&mut cluster, 0, id(1, 2, 1)));
    cluster.restart(1);
    assert!(is_unknown(&mut cluster, 1, id(1, 1, 2)));
    cluster.append(1, 'b', Level::Strong);
    cluster.rest();
    assert!(is_unknown(&mut cluster, 0, id(1, 1, 2)) && !is_unknown(&mut cluster, 0, id(1, 2, 2)));
}

#[test]
fn responses_are_forgotten_when_many_operations_are_final() {
    let mut cluster = Cluster::new(|config| config.limits.history = 3);
    for letter in ['a', 'b', 'c', 'd', 'e'] {
        cluster.append(1, letter, Level::Strong);
    }
    cluster.rest();
    for at in 0..SITES {
        let first = [1, 2, 3].map(|event| cluster.await_stable(at, id(1, 1, event)));
        let follows = cluster.follow(at, id(1, 1, 2), None);
        assert_eq!(cluster.replies_to(first[1]), [&Response::Forgotten { id: id(1, 1, 2) }]);
        assert_eq!(cluster.replies_to(follows), cluster.replies_to(first[1]));
        assert_eq!(text(cluster.replies_to(first[2])[0]), "abc");
        let machine = &cluster.machines[at];
        assert_eq!(machine.log_start(), 3);
        let log = |from, count| -> Vec<_> {
            let all = machine.log(from, count);
            all.map(|it| (it.position, it.response.as_deref().unwrap().as_str())).collect()
        };
        assert_eq!(log(0, 2), [(3, "abc"), (4, "abcd")]);
        assert_eq!(log(4, 9), [(4, "abcd"), (5, "abcde")]);
        assert_eq!(log(6, 9), []);
        assert_eq!(machine.final_of(id(1, 1, 1)), None);
        let last = machine.final_of(id(1, 1, 5)).unwrap();
        assert_eq!((last.position, last.digest), (5, machine.status().digest));
        assert_eq!(last.request.operation, Some(Letters::Append('e')));
    }
    // An operation without effect has no response.
    cluster.append(1, 'f', Level::Weak);
    cluster.rest();
    assert_eq!(cluster.finals(0).last().unwrap(), "s0.1.1");
    let without_effect = cluster.await_stable(2, id(0, 1, 1));
    let forgotten = Response::Forgotten { id: id(0, 1, 1) };
    assert_eq!(cluster.replies_to(without_effect), [&forgotten]);
}

#[test]
fn the_last_final_operations_survive_a_restart() {
    for checkpoint in [None, Some(1), Some(100)] {
        let mut cluster = Cluster::new(|config| config.limits.history = 4);
        for letter in ['a', 'b', 'c', 'd', 'e'] {
            cluster.append(1, letter, Level::Strong);
        }
        cluster.rest();
        if let Some(entries) = checkpoint {
            cluster.write_checkpoint(1, entries);
        }
        cluster.append(1, 'f', Level::Strong);
        cluster.rest();
        let log =
            |cluster: &Cluster| -> Vec<_> { cluster.machines[1].log(0, 99).cloned().collect() };
        let before = (log(&cluster), cluster.machines[1].past());
        assert_eq!(before.0.len(), 4);
        cluster.restart(1);
        assert_eq!((log(&cluster), cluster.machines[1].past()), before);
        let kept = cluster.await_stable(1, id(1, 1, 3));
        let forgotten = cluster.await_stable(1, id(1, 1, 2));
        assert_eq!(text(cluster.replies_to(kept)[0]), "abc");
        assert_eq!(text(cluster.replies_to(forgotten)[0]), "forgotten");
        let all = past([id(1, 1, 6)]);
        let barrier = cluster.barrier(1, all.clone());
        assert!(cluster.is_reached(barrier));
        // All of it is removed from the streams when the other sites have reported it.
        cluster.rest();
        assert_eq!(cluster.machines[1].status().kept, 0);
        assert_eq!(cluster.machines[1].sites_with(&all), SITES);
    }
}

#[test]
fn follow_answers_with_each_response_that_differs_and_with_the_stable_one() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(2, 'x', Level::Weak);
    cluster.millis += 10;
    cluster.append(1, 'a', Level::Weak);
    let weak = id(1, 1, 1);
    // Site 0 does not know the operation. Its first response there differs from none at all.
    let first = cluster.follow(0, weak, None);
    assert!(!cluster.has_reply(first));
    cluster.deliver(1, 0);
    let reply = cluster.replies_to(first)[0];
    assert!(matches!(reply, Response::Revised(it) if it.id == Some(weak) && it.response == "a"));
    assert_eq!(tentative(reply).unwrap().claim.as_ref().unwrap().tentative, []);
    let again = cluster.follow(0, weak, None);
    assert_eq!(text(cluster.replies_to(again)[0]), "a");
    // The next one arrives with the older operation.
    let second = cluster.follow(0, weak, Some("a"));
    assert!(!cluster.has_reply(second));
    cluster.deliver(2, 0);
    let reply = cluster.replies_to(second)[0];
    assert!(matches!(reply, Response::Revised(it) if it.response == "xa"));
    assert_eq!(tentative(reply).unwrap().claim.as_ref().unwrap().tentative, [id(2, 1, 1)]);
    let differs = cluster.follow(0, weak, Some("a"));
    assert_eq!(text(cluster.replies_to(differs)[0]), "xa");
    let third = cluster.follow(0, weak, Some("xa"));
    cluster.rest();
    assert!(matches!(cluster.replies_to(third)[..], [Response::Stable { position: 2, .. }]));
    let after = cluster.follow(0, weak, Some("xa"));
    assert_eq!(cluster.replies_to(after), cluster.replies_to(third));
    assert!(cluster.replies.iter().all(|(.., last)| *last));
}

#[test]
fn follow_compares_with_the_response_in_the_present_order() {
    let mut cluster = Cluster::new(|config| config.limits.executions = 1);
    cluster.append(2, 'x', Level::Weak);
    cluster.millis += 10;
    cluster.append(0, 'a', Level::Weak);
    let strong = id(0, 1, 2);
    cluster.append(0, 'b', Level::Strong);
    (0..9).for_each(|_| cluster.tick(0));
    // The operations must be executed again. A step executes one of them.
    cluster.deliver(2, 0);
    let follows = cluster.follow(0, strong, None);
    (0..9).for_each(|_| cluster.tick(0));
    let reply = cluster.replies_to(follows)[0];
    assert!(matches!(reply, Response::Revised(it) if it.response == "xab"));
}

#[test]
fn attach_waits_for_operations_of_every_run_and_their_contexts() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'a', Level::Weak);
    cluster.deliver(1, 2);
    cluster.append(2, 'b', Level::Weak);
    let shown = cluster.machines[2].past();
    assert_eq!(shown, past([id(1, 1, 1), id(2, 1, 1)]));
    let attached = cluster.attach(0, shown.clone());
    let alone = cluster.attach(0, past([id(2, 1, 1)]));
    let own = cluster.attach(2, shown.clone());
    let nothing = cluster.attach(0, Past::default());
    assert!(cluster.is_reached(own) && cluster.is_reached(nothing));
    // The operation is here, and its context is not.
    cluster.deliver(2, 0);
    assert!(!cluster.has_reply(attached) && !cluster.has_reply(alone));
    assert_eq!(cluster.machines[0].past(), Past::default());
    cluster.deliver(1, 0);
    assert!(cluster.is_reached(attached) && cluster.is_reached(alone));
    assert_eq!(cluster.machines[0].past(), shown);
    let read = cluster.invoke(0, Letters::Read, Level::Weak, false);
    assert_eq!(text(cluster.replies_to(read)[0]), "ab");
    // Operations of a later run come after all earlier ones.
    cluster.rest();
    cluster.restart(2);
    let later = cluster.attach(0, past([id(2, 2, 1)]));
    let earlier = cluster.attach(0, past([id(2, 1, 1)]));
    assert!(cluster.is_reached(earlier) && !cluster.has_reply(later));
    cluster.append(2, 'c', Level::Strong);
    cluster.deliver(2, 0);
    assert!(cluster.is_reached(later));
}

#[test]
fn in_an_acyclic_space_attach_waits_until_strong_operations_are_committed() {
    let mut cluster = Cluster::new(|config| config.acyclic = true);
    cluster.append(1, 'a', Level::Strong);
    cluster.deliver(1, 0);
    let strong = past([id(1, 1, 1)]);
    let attached = cluster.attach(0, strong.clone());
    assert!(!cluster.has_reply(attached));
    assert_eq!(cluster.machines[0].status().tentative, 1);
    cluster.rest();
    assert!(cluster.is_reached(attached));
    assert_eq!(cluster.machines[0].status().tentative, 0);
}

#[test]
fn a_site_that_lacks_the_context_of_a_first_operation_has_delivered_the_runs_before_it() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(2, 'a', Level::Weak);
    cluster.deliver(2, 0);
    cluster.lose_all();
    cluster.restart(2);
    cluster.append(1, 'b', Level::Weak);
    cluster.deliver(1, 2);
    cluster.append(2, 'c', Level::Weak);
    cluster.deliver(2, 0);
    assert_eq!(cluster.machines[0].past(), past([id(2, 1, 1)]));
    assert_eq!(cluster.machines[2].past(), past([id(1, 1, 1), id(2, 2, 1)]));
}

#[test]
fn a_barrier_commits_weak_operations_and_waits_for_strong_ones() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'a', Level::Strong);
    // It is not in the context of the strong operation.
    cluster.append(1, 'b', Level::Weak);
    let shown = cluster.machines[1].past();
    let barrier = cluster.barrier(2, shown.clone());
    assert!(!cluster.has_reply(barrier));
    assert_eq!(cluster.broadcast(2, 0), 0, "the past is not here");
    cluster.delay();
    assert_eq!(cluster.broadcast(2, 0), 1, "an operation without effect");
    assert!(!cluster.has_reply(barrier));
    for _ in 0..2 {
        assert!(!cluster.is_reached(barrier));
        cluster.delay();
    }
    assert!(cluster.is_reached(barrier));
    let finals = cluster.finals(2);
    assert!(finals.contains(&"s1.1.1".to_owned()) && finals.contains(&"s1.1.2".to_owned()));
    // Now it is final everywhere, and nothing needs to be committed.
    cluster.rest();
    let sent = cluster.broadcast(0, 1);
    let again = cluster.barrier(0, shown);
    assert!(cluster.is_reached(again));
    assert_eq!(cluster.broadcast(0, 1), sent);
    assert!(cluster.replies.iter().filter(|(to, ..)| *to == again).all(|(.., last)| *last));
}

#[test]
fn a_barrier_for_strong_operations_invokes_nothing() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'b', Level::Strong);
    let barrier = cluster.barrier(1, cluster.machines[1].past());
    assert!(!cluster.has_reply(barrier));
    assert_eq!(cluster.broadcast(1, 0), 1);
    for _ in 0..3 {
        cluster.delay();
    }
    assert!(cluster.is_reached(barrier));
    assert_eq!(cluster.finals(1), ["s1.1.1"]);
}

#[test]
fn a_strong_operation_under_way_serves_barriers() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'a', Level::Weak);
    let before = cluster.machines[1].past();
    cluster.append(1, 'b', Level::Strong);
    let after = cluster.machines[1].past();
    let served = [before, after].map(|shown| cluster.barrier(1, shown));
    assert_eq!(cluster.broadcast(1, 0), 2);
    // The context of the strong operation lacks a later one.
    cluster.append(1, 'c', Level::Weak);
    let later = cluster.barrier(1, cluster.machines[1].past());
    assert_eq!(cluster.broadcast(1, 0), 4);
    for _ in 0..3 {
        cluster.delay();
    }
    assert!(served.into_iter().chain([later]).all(|barrier| cluster.is_reached(barrier)));
}

#[test]
fn many_barriers_share_an_operation_without_effect() {
    let mut cluster = Cluster::new(|_| {});
    let barriers = (0..50).map(|_| {
        cluster.append(1, 'a', Level::Weak);
        cluster.barrier(1, cluster.machines[1].past())
    });
    let barriers: Vec<_> = barriers.collect();
    for _ in 0..6 {
        cluster.delay();
    }
    assert!(barriers.iter().all(|barrier| cluster.is_reached(*barrier)));
    // One for the first barrier, and one for all that arrived while it was under way.
    assert_eq!(cluster.finals(1).len(), 52);
}

#[test]
fn waiting_requests_can_be_cancelled() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(1, 'a', Level::Weak);
    cluster.append(2, 'b', Level::Strong);
    let (weak, strong) = (id(1, 1, 1), id(2, 1, 1));
    let waits = |cluster: &mut Cluster| {
        [
            cluster.await_stable(0, weak),
            cluster.await_stable(0, strong),
            cluster.follow(0, weak, None),
            cluster.attach(0, past([weak])),
            cluster.barrier(0, past([weak])),
            // This one waits for operations to be final.
            cluster.barrier(1, past([weak])),
        ]
    };
    let cancelled = waits(&mut cluster);
    let sites = [0, 0, 0, 0, 0, 1];
    let kept = waits(&mut cluster);
    for (request, at) in cancelled.into_iter().zip(sites) {
        cluster.cancel(at, request);
    }
    cluster.rest();
    assert!(cancelled.iter().all(|request| !cluster.has_reply(*request)));
    assert!(kept.iter().all(|request| cluster.replies_to(*request).len() == 1));
}

#[test]
fn sites_with_a_past_are_known_from_reports() {
    let mut cluster = Cluster::new(|_| {});
    assert_eq!(cluster.machines[1].sites_with(&Past::default()), SITES);
    cluster.append(1, 'a', Level::Weak);
    cluster.append(1, 'b', Level::Strong);
    let shown = cluster.machines[1].past();
    assert_eq!(shown, past([id(1, 1, 2)]));
    assert_eq!(cluster.machines[1].sites_with(&shown), 1);
    assert_eq!(cluster.machines[0].sites_with(&shown), 0);
    // Site 2 receives the operations, and its report arrives.
    cluster.deliver(1, 2);
    cluster.sent[2][1].clear();
    cluster.millis += 60;
    cluster.tick(2);
    cluster.deliver(2, 1);
    assert_eq!(cluster.machines[1].sites_with(&shown), 2);
    let further = past([id(1, 1, 3)]);
    assert_eq!(cluster.machines[1].sites_with(&further), 0);
    cluster.rest();
    assert_eq!(cluster.machines[1].sites_with(&shown), SITES);
    // Sites store the runs of a site in order.
    cluster.restart(1);
    cluster.append(1, 'c', Level::Strong);
    cluster.rest();
    assert_eq!(cluster.machines[0].sites_with(&further), SITES);
    assert_eq!(cluster.machines[0].sites_with(&past([id(1, 2, 2)])), 0);
}

#[test]
fn sites_with_operations_of_a_past_that_are_not_final_are_known() {
    let mut cluster = Cluster::new(|_| {});
    let unfinished = |cluster: &Cluster, at: usize, ids: &[OperationId]| {
        let past = Past::from_iter(ids.iter().copied());
        cluster.machines[at].unfinished_sites(&past).collect::<Vec<_>>()
    };
    cluster.append(0, 'a', Level::Strong);
    cluster.append(1, 'b', Level::Strong);
    let both = [id(0, 1, 1), id(1, 1, 1)];
    // Each site has its own operation, and lacks the other one.
    assert_eq!(unfinished(&cluster, 0, &both), [SiteId(0), SiteId(1)]);
    assert_eq!(unfinished(&cluster, 0, &both[1..]), [SiteId(1)]);
    cluster.rest();
    cluster.append(1, 'c', Level::Weak);
    assert!(unfinished(&cluster, 1, &both).is_empty());
    assert_eq!(unfinished(&cluster, 1, &[both[0], id(1, 1, 2)]), [SiteId(1)]);
    assert!(unfinished(&cluster, 1, &[]).is_empty());
}

#[test]
fn a_site_counts_the_first_responses_that_were_stable_ones() {
    let mut cluster = Cluster::new(|_| {});
    cluster.append(2, 'x', Level::Weak);
    cluster.millis += 10;
    cluster.append(1, 'a', Level::Weak);
    cluster.append(1, 'b', Level::Strong);
    let unstable: Vec<_> = cluster.machines[1].unstable().map(|it| it.id).collect();
    assert_eq!(unstable, [id(1, 1, 1), id(1, 1, 2)]);
    cluster.rest();
    // The operation of site 2 is final after those of site 1, of which its first execution knew
    // nothing.
    let counts = |at: usize| {
        let status = cluster.machines[at].status();
        (status.predicted, status.accurate)
    };
    assert_eq!(cluster.finals(0)[..3], ["s1.1.1", "s1.1.2", "s2.1.1"]);
    assert_eq!([0, 1, 2].map(counts), [(0, 0), (2, 2), (1, 0)]);
    assert_eq!(cluster.machines[1].unstable().count(), 0);
    assert_eq!(cluster.machines[1].leader(), Some(SiteId(0)));
}

#[test]
fn the_estimate_of_bytes_follows_the_data() {
    for executor in [solera_creek::Executor::Sequential, solera_creek::Executor::Multiversion] {
        let mut cluster = Cluster::new(|config| {
            config.executor = executor;
            config.limits.history = 2;
        });
        let bytes = |cluster: &Cluster| cluster.machines[1].status().bytes;
        assert_eq!((bytes(&cluster), cluster.machines[1].status().keys), (0, 0));
        for _ in 0..1_000 {
            cluster.append(1, 'a', Level::Weak);
        }
        assert!(bytes(&cluster) > 10_000);
        cluster.rest();
        // The text of the register, and two final operations with responses as long.
        assert_eq!(cluster.machines[1].status().keys, 1);
        assert!((2_000..4_000).contains(&bytes(&cluster)), "{}", bytes(&cluster));
    }
}
