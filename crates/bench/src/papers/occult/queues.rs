//! Figure 2: queues of writes at replicas, one of which is too slow.

use std::time::Duration;

use solera_machine::Address;
use solera_occult::Scheme;
use solera_time::SiteId;

use super::{Findings, Laboratory, Setting, World};
use crate::papers::Row;
use crate::papers::plot::{Plot, Series};
use crate::virtual_cluster::occult::clients::Sessions;
use crate::virtual_cluster::occult::processes::PROCESSES;
use crate::virtual_cluster::occult::queues::Shows;
use crate::virtual_cluster::occult::world::by_load;

const FIGURE: &str = "Fig. 2";
/// Number of clients, as in the paper. The clients of the other site only read there, and do not
/// affect the queues.
pub(super) const CLIENTS: usize = 10;
/// Time that a write takes at the slow replica, which receives more writes than it can apply.
const TAKES: Duration = Duration::from_millis(100);
/// Number of points in time at which the queues are measured.
const SAMPLES: u32 = 20;

pub(super) fn run(laboratory: &Laboratory<'_>) -> Findings {
    // Exact timestamps are the dependencies that Eiger would wait for.
    let setting = Setting { one_home: true, ..Setting::of(Scheme::Exact) };
    let workload = laboratory.workload(95, Sessions::Causal).with_keys(500);
    let middle = by_load(&workload).into_iter().filter(|address| address.site == SiteId(1));
    let middle = middle.map(|Address { worker, .. }| worker).nth(PROCESSES / 2).unwrap_or(0);
    let slow = Some((PROCESSES + usize::from(middle), TAKES));
    let models = [
        ("after dependencies, none slow", Shows::AfterDependencies, None),
        ("after dependencies, one slow", Shows::AfterDependencies, slow),
        ("when stable, as UniStore, one slow", Shows::WhenStable, slow),
        ("Occult, one slow", Shows::AtOnce, slow),
    ];
    let mut world = World::new(setting, workload);
    for (_, shows, slow) in models {
        world.follow(shows, slow);
    }
    world.add_clients(CLIENTS);
    let time: Duration = laboratory.effort.pick(Duration::from_secs(2), Duration::from_secs(6));
    let mut points = vec![Vec::new(); models.len()];
    for sample in 1..=SAMPLES {
        world.run_for(time / SAMPLES);
        let at = (time / SAMPLES * sample).as_secs_f64();
        for (points, queues) in points.iter_mut().zip(&world.replicas) {
            points.push((at, queues.mean_of_others()));
        }
    }
    (laboratory.report)("queues of writes at replicas: done");
    let mut rows = Vec::new();
    for ((name, ..), points) in models.iter().zip(&points) {
        for (at, length) in [points[points.len() / 2 - 1], points[points.len() - 1]] {
            let quantity =
                format!("writes that wait at each other replica after {at:.0} s: {name}");
            rows.push(Row::new(FIGURE, quantity, None, length, ""));
        }
    }
    let queues = &world.replicas[models.len() - 1];
    let arrived = queues.arrived as f64 / time.as_secs_f64();
    rows.push(Row::new(FIGURE, "writes that arrive at the replicas", None, arrived, "1/s"));
    let at_slow = queues.of_slow() as f64;
    rows.push(Row::new(FIGURE, "writes that wait at the slow replica, Occult", None, at_slow, ""));
    let series = models.iter().zip(points);
    let series = series.map(|((name, ..), points)| Series { name: (*name).to_owned(), points });
    let plot = Plot {
        title: "Writes that wait at replicas beside a slow one".to_owned(),
        x: "time (s)",
        y: "writes waiting at each replica",
        series: series.collect(),
    };
    Findings { rows, plots: vec![plot], ..Findings::default() }
}
