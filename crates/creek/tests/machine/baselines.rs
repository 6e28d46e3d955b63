//! The schemes that experiments compare with Creek.

use solera_creek::{Level, Response, Scheme};

use super::cluster::{Cluster, tentative, text};

/// With five sites, a proposal arrives before a quorum has accepted it.
const SITES: usize = 5;

/// Invokes an operation at each site before any message arrives. Returns the replies, after the
/// sites have come to rest with the same state.
fn run(scheme: Scheme) -> (Cluster, Vec<Vec<Response<String>>>) {
    let mut cluster = Cluster::of(SITES, |config| config.scheme = scheme);
    let letters = ['a', 'b', 'c', 'd', 'e'];
    let requests: Vec<_> =
        (0..SITES).map(|site| cluster.append(site, letters[site], Level::Weak)).collect();
    cluster.rest();
    let finals: Vec<_> = cluster.machines.iter().map(|it| it.status()).collect();
    assert!(finals.iter().all(|it| (it.finals, it.digest) == (5, finals[0].digest)));
    let all = |request| cluster.replies_to(request).into_iter().cloned().collect();
    let replies = requests.into_iter().map(all).collect();
    (cluster, replies)
}

/// Returns the lengths of the texts of the last replies, in order.
fn lengths(replies: &[Vec<Response<String>>]) -> Vec<usize> {
    let mut lengths: Vec<usize> = replies.iter().map(|it| text(&it[it.len() - 1]).len()).collect();
    lengths.sort_unstable();
    lengths
}

#[test]
fn state_machine_replication_executes_each_operation_once_and_answers_once() {
    let (cluster, replies) = run(Scheme::Smr);
    assert!(replies.iter().all(|it| matches!(it[..], [Response::Stable { .. }])));
    assert_eq!(lengths(&replies), [1, 2, 3, 4, 5]);
    assert!(cluster.machines.iter().all(|it| it.status().executions == 5));
}

#[test]
fn archie_executes_in_the_order_of_proposals_before_delivery() {
    let (cluster, replies) = run(Scheme::Archie);
    for replies in &replies {
        let [first, Response::Stable { response, .. }] = &replies[..] else {
            panic!("{replies:?}")
        };
        assert_eq!(&tentative(first).unwrap().response, response);
    }
    assert_eq!(lengths(&replies), [1, 2, 3, 4, 5]);
    assert!(cluster.machines.iter().all(|it| it.status().executions == 5));
}

#[test]
fn bayou_answers_tentatively_at_once_and_the_primary_orders() {
    let (cluster, replies) = run(Scheme::Bayou);
    for replies in &replies {
        assert_eq!(tentative(&replies[0]).unwrap().response.len(), 1);
        assert!(matches!(replies[1], Response::Stable { .. }));
    }
    assert_eq!(lengths(&replies), [1, 2, 3, 4, 5]);
    // The primary delivers its own operation before it knows the others.
    assert!(text(&replies[0][1]).starts_with('a'));
    assert!(cluster.machines.iter().any(|it| it.status().executions > 5));
}
