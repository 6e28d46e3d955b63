//! A cluster of Occult in virtual time (Occult §8.1).
//!
//! | module | subject |
//! |---|---|
//! | `world` | sites, processes, cards, and the time of messages |
//! | `clients` | clients in a closed loop, and their measurements |
//! | `processes` | the number of server processes, and their work |

pub(crate) mod clients;
pub(crate) mod processes;
pub(crate) mod world;

use std::time::Duration;

use solera_occult::Scheme;

use self::clients::{Sessions, Workload};
use self::world::{Setting, World};
use super::meter::{Counting, Meter};
use crate::ycsb::Distribution;

/// Clients of the runs whose steps are counted: few and many, for small and large batches.
const LOADS: [usize; 2] = [100, 1_000];

/// Counts the steps of servers: single operations and transactions, with two stamps for each site.
pub(crate) fn count(sessions: Sessions, counting: Counting) -> Counting {
    let setting = Setting { card: Some(1_000_000_000), ..Setting::of(Scheme::PerSite(2)) };
    let run = |counting: Counting, operations: u64, clients: usize| {
        let workload = Workload {
            keys: 500,
            value: vec![b'v'; 1000].as_slice().into(),
            reads: 80,
            distribution: Distribution::Zipfian,
            operations,
            sessions,
            seed: 1,
        };
        let mut world = World::with(Meter::Counting(counting), setting.clone(), workload);
        world.add_clients(clients);
        world.measure(Duration::ZERO, Duration::from_millis(60));
        match world.into_meter() {
            Meter::Counting(counting) => counting,
            Meter::Table(_) => unreachable!("the meter was created to count"),
        }
    };
    let single = LOADS.into_iter().fold(counting, |counting, clients| run(counting, 1, clients));
    run(single, 4, LOADS[0])
}
