//! Workers drop and count messages of protocols that they do not run, and do not announce such
//! protocols to other nodes.

use std::sync::Arc;

use solera_machine::{Address, Input, Machine, Now, PartitionId, Topology};
use solera_membership::Members;
use solera_primary::{Body, List};
use solera_site::{Beside, Config, Site, protocols};
use solera_time::{Monotonic, Physical, SiteId};

fn address(site: u8) -> Address {
    Address { site: SiteId(site), worker: 0 }
}

fn config() -> Config {
    let topology = Arc::new(Topology { partitions: 4, workers: vec![1, 1, 1] });
    Config::from(solera_unistore::Config::new(address(0), topology))
}

/// Passes one message of each protocol but UniStore to a worker.
fn messages_of_others(config: Config) -> Site {
    let mut site = Site::new(config, 1);
    let now = Now { monotonic: Monotonic(1), physical: Physical(1) };
    let list = List::of(&Members::new(3));
    let of_primary = solera_primary::Message { list, body: Body::Ask(PartitionId(0)) };
    let of_trial = solera_trial::Message { run: 1, urgent: false, number: 1, before: 0 };
    let of_occult = solera_occult::Message { epoch: 0, body: solera_occult::Body::Wanted };
    let body = solera_reservations::Body::OfferRequest;
    let of_reservations = solera_reservations::Message { partition: PartitionId(0), body };
    let of_creek: solera_site::speculative::Message =
        solera_creek::Message::Heads { heads: Vec::new(), answer: true };
    let all = [
        of_primary.into(),
        of_occult.into(),
        of_reservations.into(),
        of_creek.into(),
        of_trial.into(),
    ];
    for message in all {
        site.handle(now, Input::Message { from: address(1), generation: 0, message });
    }
    site
}

#[test]
fn messages_of_protocols_that_do_not_run_are_dropped_and_counted() {
    assert_eq!(messages_of_others(config()).ignored(), [0, 1, 1, 1, 1, 1]);
    assert_eq!(messages_of_others(config().with_primary()).ignored(), [0, 0, 1, 1, 1, 1]);
    assert_eq!(messages_of_others(config().with_creek(0)).ignored(), [0, 1, 1, 1, 0, 1]);
    assert_eq!(messages_of_others(config().with_trial(1)).ignored(), [0, 1, 1, 1, 1, 0]);
    let with_occult = config().with_occult(64, Arc::new([]));
    assert_eq!(messages_of_others(with_occult).ignored(), [0, 1, 0, 1, 1, 1]);
    let with_reservations =
        config().with_reservations(Arc::new([]), solera_reservations::Timing::default());
    assert_eq!(messages_of_others(with_reservations).ignored(), [0, 1, 1, 0, 1, 1]);
}

#[test]
fn only_protocols_that_run_are_announced() {
    let names = |primary, occult, reservations, creek, trial| -> Vec<&str> {
        let beside = Beside { primary, occult, reservations, creek, trial };
        protocols(beside).map(|protocol| protocol.name).collect()
    };
    assert_eq!(names(false, false, false, false, false), ["UniStore"]);
    assert_eq!(names(true, false, false, false, false), ["UniStore", "primary"]);
    let all = ["UniStore", "primary", "occult", "reservations", "creek", "trial"];
    assert_eq!(names(true, true, true, true, true), all);
}
