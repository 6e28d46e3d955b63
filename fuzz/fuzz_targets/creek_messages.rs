//! Arbitrary messages of other sites cause no panic in the machine of a speculative space.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use solera_creek::{Config, Creek, Message, PROTOCOL};
use solera_machine::{Address, Input, Machine, Now, Topology, Wire};
use solera_procedures::{Procedure, SpaceProcedures};
use solera_time::{Monotonic, Physical, SiteId};

const SITES: u8 = 3;

fn site(number: u8) -> Address {
    Address { site: SiteId(number), worker: 0 }
}

fuzz_target!(|bytes: &[u8]| {
    let topology = Topology { partitions: 1, workers: vec![1; usize::from(SITES)] };
    let config = Config::new(site(0), Arc::new(topology.clone()));
    let mut machine = Creek::new(config, SpaceProcedures::default());
    let mut millis = 0;
    let mut rest = bytes;
    // Each message follows a byte with its sender, and whether a timer is due before it.
    while let Some((head, encoded)) = rest.split_first() {
        let Some((message, after)) = Message::<Procedure>::decode(PROTOCOL, encoded) else { break };
        rest = after;
        if head & 0x80 != 0 {
            millis += 100;
        }
        let now =
            Now { monotonic: Monotonic(millis * 1_000_000), physical: Physical(millis * 1000) };
        if machine.next_deadline().is_some_and(|at| at <= now.monotonic) {
            machine.on_deadline(now);
        }
        let from = site(1 + head % (SITES - 1));
        if message.validate(from, site(0), &topology) {
            machine.handle(now, Input::Message { from, generation: 0, message });
        }
        while machine.poll_output().is_some() {}
    }
});
