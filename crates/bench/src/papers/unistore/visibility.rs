//! Figure 6: how much uniform snapshots delay remote visibility.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Findings, Laboratory, SLOWNESS};
use solera_config::Baseline;

use crate::histogram::Histogram;
use crate::micro::Micro;
use crate::papers::Row;
use crate::papers::plot::{Plot, Series};
use crate::virtual_cluster::cluster::VirtualCluster;
use crate::virtual_cluster::shape::{
    BRAZIL, CALIFORNIA, CORES_PER_NODE, FRANKFURT, Shape, VIRGINIA, name_of,
};
use crate::virtual_cluster::three_items::ThreeItems;

/// Indices of the sites in the cluster.
const FROM: usize = 1;
const BEST: usize = 3;
const WORST: usize = 0;

type Delays = BTreeMap<usize, Histogram>;

pub(super) fn run(laboratory: &Laboratory<'_>) -> Findings {
    let probe = |variant: Baseline| -> Box<dyn FnOnce() -> Delays + Send> {
        let laboratory = *laboratory;
        Box::new(move || {
            let shape = Shape {
                variant,
                regions: vec![VIRGINIA, CALIFORNIA, FRANKFURT, BRAZIL],
                cores_per_node: CORES_PER_NODE,
                f: 2,
                slowness: SLOWNESS,
                ..Shape::three_sites(32, 4)
            };
            let micro =
                Micro { keys: 2000, updates: 15, strong: 0, hot: 0, value_bytes: 100, seed: 1 };
            let items = ThreeItems::new(micro, 32, true);
            let think = Duration::from_millis(100);
            let mut cluster = VirtualCluster::new(shape, laboratory.meter(variant), items, think);
            cluster.set_clients(80);
            cluster.measure(Duration::from_millis(300), Duration::from_millis(1));
            (laboratory.report)(&format!("{}: visibility", name_of(variant)));
            cluster.probe(
                FROM,
                laboratory.effort.pick(Duration::from_secs(2), Duration::from_secs(20)),
            )
        })
    };
    let found = laboratory.run_all(6, vec![probe(Baseline::CureFt), probe(Baseline::Uniform)]);
    let quantile = |of: usize, site: usize, q: f64| {
        let delay = found[of].get(&site).and_then(|delays| delays.quantile(q));
        delay.unwrap_or_default().as_secs_f64() * 1000.0
    };
    let extra = |site| quantile(1, site, 0.9) - quantile(0, site, 0.9);
    let figure = "Fig. 6";
    let rows = vec![
        Row::new(figure, "extra delay at p90, California to Brazil (best)", 5.0, extra(BEST), "ms"),
        Row::new(
            figure,
            "extra delay at p90, California to Virginia (worst)",
            92.0,
            extra(WORST),
            "ms",
        ),
    ];
    let plot = |site: usize, name: &str| {
        let series = |of: usize, name: &str| {
            let at =
                |percent: u32| (quantile(of, site, f64::from(percent) / 100.0), f64::from(percent));
            Series { name: name.to_owned(), points: (1..=100).map(at).collect() }
        };
        Plot {
            title: format!("Figure 6: from California to {name}"),
            x: "delay until visible, ms",
            y: "% of updates",
            series: vec![series(0, "CUREFT"), series(1, "UNIFORM")],
        }
    };
    let notes = vec![
        "Figure 6: four sites of 4 virtual cores with 32 partitions, f = 2, and a light load of the micro-benchmark. An \
         update is visible at a site when new snapshots of a worker of this site include it."
            .to_owned(),
    ];
    Findings { rows, plots: vec![plot(BEST, "Brazil"), plot(WORST, "Virginia")], notes }
}
