//! Workers drop and count messages of protocols that they do not run, and do not announce such
//! protocols to other nodes.

use std::sync::Arc;

use solera_machine::{Address, Input, Machine, Now, PartitionId, Topology};
use solera_membership::Members;
use solera_primary::{Body, List};
use solera_site::{Config, Message, Site, protocols};
use solera_time::{Monotonic, Physical, SiteId};

fn address(site: u8) -> Address {
    Address { site: SiteId(site), worker: 0 }
}

fn config() -> Config {
    let topology = Arc::new(Topology { partitions: 4, workers: vec![1, 1, 1] });
    Config::from(solera_unistore::Config::new(address(0), topology))
}

/// Passes one message of `primary` and one of `trial` to a worker.
fn messages_of_others(config: Config) -> Site {
    let mut site = Site::new(config, 1);
    let now = Now { monotonic: Monotonic(1), physical: Physical(1) };
    let list = List::of(&Members::new(3));
    let of_primary = solera_primary::Message { list, body: Body::Ask(PartitionId(0)) };
    let of_trial = solera_trial::Message { run: 1, urgent: false, number: 1, before: 0 };
    for message in [Message::Primary(of_primary), Message::Trial(of_trial)] {
        site.handle(now, Input::Message { from: address(1), generation: 0, message });
    }
    site
}

#[test]
fn messages_of_protocols_that_do_not_run_are_dropped_and_counted() {
    assert_eq!(messages_of_others(config()).ignored(), [0, 1, 1]);
    assert_eq!(messages_of_others(config().with_primary()).ignored(), [0, 0, 1]);
    assert_eq!(messages_of_others(config().with_trial(1)).ignored(), [0, 1, 0]);
}

#[test]
fn only_protocols_that_run_are_announced() {
    let names = |primary, trial| -> Vec<&str> {
        protocols(primary, trial).map(|protocol| protocol.name).collect()
    };
    assert_eq!(names(false, false), ["UniStore"]);
    assert_eq!(names(true, false), ["UniStore", "primary"]);
    assert_eq!(names(true, true), ["UniStore", "primary", "trial"]);
}
