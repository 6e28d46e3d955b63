//! Figure 5: the cost of tracking uniformity.

use std::time::Duration;

use super::saturation::Curve;
use super::{Findings, Laboratory, SLOWNESS};
use solera_config::Baseline;

use crate::micro::Micro;
use crate::papers::Row;
use crate::papers::plot::{Plot, Series};
use crate::virtual_cluster::cluster::VirtualCluster;
use crate::virtual_cluster::shape::{
    BRAZIL, CALIFORNIA, CORES_PER_NODE, FRANKFURT, IRELAND, Shape, VIRGINIA, name_of,
};
use crate::virtual_cluster::three_items::ThreeItems;

const REGIONS: [usize; 5] = [VIRGINIA, CALIFORNIA, FRANKFURT, IRELAND, BRAZIL];
const FIGURE: &str = "Fig. 5";
const SITES: [usize; 3] = [3, 4, 5];

pub(super) fn run(laboratory: &Laboratory<'_>) -> Findings {
    let workers = laboratory.effort.pick(8, 16);
    let repeats = laboratory.effort.pick(1, 4);
    let peak = |sites: usize, variant: Baseline, round: usize| -> Box<dyn FnOnce() -> f64 + Send> {
        let laboratory = *laboratory;
        Box::new(move || {
            let shape = Shape {
                variant,
                regions: REGIONS[..sites].to_vec(),
                cores_per_node: CORES_PER_NODE,
                slowness: SLOWNESS,
                seed: round as u32,
                ..Shape::three_sites(32, workers)
            };
            let micro =
                Micro { keys: 20_000, updates: 15, strong: 0, hot: 0, value_bytes: 100, seed: 1 };
            let items = ThreeItems::new(micro, 32, true);
            let mut cluster =
                VirtualCluster::new(shape, laboratory.meter(variant), items, Duration::ZERO);
            let name = format!("{} at {sites} sites", name_of(variant));
            let first = usize::from(workers) * sites * 6;
            let load = laboratory.load(first, 0.0);
            Curve::of(&laboratory, &name, &mut cluster, load).peak().per_second()
        })
    };
    // Each round has its own seed, which both compared variants share.
    let pairs = SITES.iter().flat_map(|sites| {
        let pair = |round| {
            [Baseline::CureFt, Baseline::Uniform].map(|variant| peak(*sites, variant, round))
        };
        (0..repeats).flat_map(pair).collect::<Vec<_>>()
    });
    let peaks = laboratory.run_all(5, pairs.collect());
    let rounds_of = |place: usize| peaks[place * 2 * repeats..].chunks(2).take(repeats);
    let of_sites = |place: usize| {
        let best = |of: usize| rounds_of(place).map(|pair| pair[of]).fold(0.0, f64::max);
        [best(0), best(1)]
    };
    let by_sites: Vec<[f64; 2]> = (0..SITES.len()).map(of_sites).collect();
    let penalty = |pair: &[f64]| 100.0 * (1.0 - pair[1] / pair[0]);
    let cost = |place: usize, paper: Option<f64>| {
        let quantity = format!("cost of uniformity at {} sites", SITES[place]);
        let row = Row::new(FIGURE, quantity, paper, penalty(&by_sites[place]), "%");
        row.of_rounds(rounds_of(place).map(penalty))
    };

    let average = by_sites.iter().map(|pair| penalty(pair)).sum::<f64>() / SITES.len() as f64;
    let rows = vec![
        cost(0, None).at_most(8.0),
        cost(1, None),
        cost(2, Some(10.61)),
        Row::new(FIGURE, "cost of uniformity on average", 7.97, average, "%"),
    ];
    let series = |name: &str, of: usize| Series {
        name: name.to_owned(),
        points: SITES
            .iter()
            .zip(&by_sites)
            .map(|(sites, peaks)| (*sites as f64, peaks[of]))
            .collect(),
    };
    let plot = Plot {
        title: "Figure 5: what tracking uniformity costs".to_owned(),
        x: "sites",
        y: "transactions per second",
        series: vec![series("CUREFT", 0), series("UNIFORM", 1)],
    };
    let notes = vec![format!(
        "Figure 5: 32 partitions on {workers} virtual cores per site, 20,000 items of 100 bytes, 15% updates, all \
         causal, f = 1; the best of {repeats} run(s) of each."
    )];
    Findings { rows, plots: vec![plot], notes }
}
