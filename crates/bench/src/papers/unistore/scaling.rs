//! Figure 4: more partitions, more strong transactions, contention.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::saturation::Curve;
use super::{Findings, Laboratory, SLOWNESS};
use solera_config::Baseline;

use crate::micro::Micro;
use crate::papers::Row;
use crate::papers::plot::{Plot, Series};
use crate::virtual_cluster::cluster::{Measured, VirtualCluster};
use crate::virtual_cluster::cost::Costs;
use crate::virtual_cluster::meter::Charged;
use crate::virtual_cluster::shape::{CORES_PER_NODE, Shape};
use crate::virtual_cluster::three_items::ThreeItems;

/// Number of keys, enough that transactions rarely conflict.
const KEYS: u64 = 1_000_000;
/// Share of strong transactions that access the designated partition, in percent.
const HOT: u8 = 20;
/// Setting for which the drop in throughput is explained: the percentage of strong transactions,
/// and of hot ones among these.
const EXPLAINED: (u8, u8) = (10, 0);
/// Partitions per process: one for each core of the paper's machines. Even if several partitions
/// share a virtual core, a process has this many partitions; otherwise a small site would be a
/// single process, and messages within it would cost nothing.
const PARTITIONS_PER_NODE: u16 = CORES_PER_NODE as u16;

#[expect(
    clippy::too_many_lines,
    reason = "an experiment, in the order in which it runs and is reported"
)]
pub(super) fn run(laboratory: &Laboratory<'_>) -> Findings {
    let sizes: &[u16] = laboratory.effort.pick(&[16, 64], &[16, 32, 64]);
    let ratios: &[u8] = laboratory.effort.pick(&[0, 10], &[0, 10, 25, 50, 100]);
    let per_core = laboratory.effort.pick(4, 2);
    // Without strong transactions there is no contention.
    let settings: Vec<(u8, u8)> = ratios
        .iter()
        .flat_map(|strong| [(*strong, 0), (*strong, HOT)])
        .filter(|(strong, hot)| *strong > 0 || *hot == 0)
        .collect();
    let mut free_calls = laboratory.costs.clone();
    free_calls.factors.ns_per_system_call = 0.0;
    let costs_of = |ideal| if ideal == Ideal::FreeCalls { &free_calls } else { laboratory.costs };
    let peak = |partitions: u16, (strong, hot): (u8, u8), ideal: Ideal| {
        let costs = costs_of(ideal);
        let laboratory = Laboratory { costs, ..*laboratory };
        Box::new(move || {
            let workers = (partitions / per_core) as u8;
            let of_node = if ideal == Ideal::None { PARTITIONS_PER_NODE } else { partitions };
            let shape = Shape {
                cores_per_node: (of_node / per_core) as u8,
                slowness: SLOWNESS,
                ..Shape::three_sites(partitions, workers)
            };
            let micro = Micro { keys: KEYS, updates: 100, strong, hot, value_bytes: 100, seed: 1 };
            let items = ThreeItems::new(micro, partitions, false);
            let mut cluster = VirtualCluster::new(
                shape,
                laboratory.meter(Baseline::UniStore),
                items,
                Duration::ZERO,
            );
            let name = format!("{partitions} partitions, {strong}% strong, {hot}% of them hot");
            let first = usize::from(workers) * if strong == 0 { 12 } else { 48 };
            let load = laboratory.load(first, f64::from(strong) / 100.0);
            Curve::of(&laboratory, &name, &mut cluster, load).peak().clone()
        }) as Box<dyn FnOnce() -> Measured + Send>
    };
    let tasks = settings
        .iter()
        .flat_map(|setting| sizes.iter().map(|size| peak(*size, *setting, Ideal::None)));
    let (smallest, largest) = (sizes[0], sizes[sizes.len() - 1]);
    let ideals = [Ideal::OneProcess, Ideal::FreeCalls];
    let idealised = ideals
        .iter()
        .flat_map(|ideal| [smallest, largest].map(|size| peak(size, EXPLAINED, *ideal)));
    let mut measured = laboratory.run_all(4, tasks.chain(idealised).collect());
    let idealised = measured.split_off(settings.len() * sizes.len());
    let peaks: Vec<f64> = measured.iter().map(Measured::per_second).collect();
    let by_setting: Vec<&[f64]> = peaks.chunks(sizes.len()).collect();

    let growth = f64::from(largest / smallest);
    let drop_of = |small: f64, large: f64| 100.0 * (1.0 - large / (growth * small));
    let drop = |contended: bool| {
        let of = settings
            .iter()
            .zip(&by_setting)
            .filter(|((strong, hot), _)| (*hot > 0) == contended || (contended && *strong == 0));
        mean(of.map(|(_, peaks)| drop_of(peaks[0], peaks[peaks.len() - 1])))
    };
    let of = |setting: (u8, u8)| {
        let place = settings.iter().position(|other| *other == setting);
        by_setting[place.expect("it is among the settings")]
    };
    let strong = of((10, 0)).iter().zip(of((0, 0))).map(|(some, none)| 100.0 * (1.0 - some / none));
    let figure = "Fig. 4";
    let mut rows = vec![
        Row::new(figure, "drop from ideal scaling, 16 to 64 partitions", 9.76, drop(false), "%"),
        Row::new(figure, "the same under contention", 17.15, drop(true), "%"),
        Row::new(figure, "throughput drop with 10% strong", 25.72, mean(strong), "%"),
    ];
    let explained = of(EXPLAINED);
    let drops = [("", explained[0], explained[explained.len() - 1])].into_iter().chain(
        ideals
            .iter()
            .zip(idealised.chunks(2))
            .map(|(ideal, pair)| (ideal.describe(), pair[0].per_second(), pair[1].per_second())),
    );
    for (ideal, small, large) in drops {
        let quantity = format!("drop with {}% strong{ideal}", EXPLAINED.0);
        rows.push(Row::new(figure, quantity, None, drop_of(small, large), "%"));
    }
    let plot = |contended: bool| {
        let shown = settings
            .iter()
            .zip(&by_setting)
            .filter(|((strong, hot), _)| (*hot > 0) == contended || (contended && *strong == 0));
        let series = shown.map(|((strong, _), peaks)| Series {
            name: format!("{strong}% strong"),
            points: sizes.iter().map(|size| f64::from(*size)).zip(peaks.iter().copied()).collect(),
        });
        let access = if contended { "under contention" } else { "uniform access" };
        Plot {
            title: format!("Figure 4: updates of three items, {access}"),
            x: "partitions",
            y: "transactions per second",
            series: series.collect(),
        }
    };
    let mut notes = vec![format!(
        "Figure 4: {per_core} partitions per virtual core (the paper has one per core), so that {} to {} cores at each \
         of three sites, and {PARTITIONS_PER_NODE} partitions per process; {KEYS} items of 100 bytes; clients do not think. The drops are averages over {:?}% of strong \
         transactions.",
        sizes[0] / per_core,
        sizes[sizes.len() - 1] / per_core,
        ratios
    )];
    for (setting, sizes) in settings.iter().zip(measured.chunks(sizes.len())) {
        if let [small, .., large] = sizes {
            notes.push(explanation(laboratory.costs, *setting, small, large));
        }
    }
    for (ideal, pair) in ideals.iter().zip(idealised.chunks(2)) {
        let costs = costs_of(*ideal);
        let ideal = ideal.describe().trim_start_matches(", ");
        notes.push(format!("With {ideal}: {}", explanation(costs, EXPLAINED, &pair[0], &pair[1])));
    }
    Findings { rows, plots: vec![plot(false), plot(true)], notes }
}

/// Cost that an experiment removes to show its share in the drop from ideal scaling.
#[derive(Clone, Copy, PartialEq)]
enum Ideal {
    None,
    /// Messages within a site are not encoded.
    OneProcess,
    /// Messages within a site are not encoded, and neither sending nor waking another worker takes
    /// the time of a system call.
    FreeCalls,
}

impl Ideal {
    fn describe(self) -> &'static str {
        match self {
            Ideal::None => "",
            Ideal::OneProcess => ", one process per site",
            Ideal::FreeCalls => ", one process per site, system calls take no time",
        }
    }
}

/// Smallest change in a component of a transaction's time that the explanation lists, in
/// microseconds of a core of this machine.
const CHANGE: f64 = 1.0;

/// Explains the drop from ideal scaling: the utilization of the cores at both sizes, and the cost
/// of a transaction.
fn explanation(
    costs: &Costs,
    (strong, hot): (u8, u8),
    small: &Measured,
    large: &Measured,
) -> String {
    let (before, after) = (time_of_one(costs, small), time_of_one(costs, large));
    let sum = |parts: &BTreeMap<&str, f64>| parts.values().sum::<f64>();
    let kinds: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let of = |parts: &BTreeMap<&str, f64>, kind| parts.get(kind).copied().unwrap_or_default();
    let mut changes: Vec<(&str, f64, f64)> =
        kinds.into_iter().map(|kind| (kind, of(&before, kind), of(&after, kind))).collect();
    changes.retain(|(_, before, after)| (after - before).abs() >= CHANGE);
    changes.sort_by(|a, b| (b.2 - b.1).total_cmp(&(a.2 - a.1)));
    let changes: Vec<String> = changes
        .iter()
        .map(|(kind, before, after)| format!("{kind} {before:.1} to {after:.1}"))
        .collect();
    let busy = |measured: &Measured| {
        let (mean, most) = measured.busy;
        format!("{:.0}% (the busiest {:.0}%)", 100.0 * mean, 100.0 * most)
    };
    format!(
        "Figure 4, {strong}% strong, {hot}% of them hot: {:.0} and {:.0} transactions per second; cores are busy for {} \
         and {} of the time; a transaction takes {:.0} and {:.0} µs of cores of this machine at all sites together: {}.",
        small.per_second(),
        large.per_second(),
        busy(small),
        busy(large),
        sum(&before),
        sum(&after),
        changes.join(", ")
    )
}

/// Returns the processor time of a transaction in microseconds of this machine, by kind of step.
fn time_of_one<'a>(costs: &Costs, measured: &'a Measured) -> BTreeMap<&'a str, f64> {
    let Charged { steps, host, system_calls, .. } = &measured.charged;
    let transactions = measured.total().latency.count().max(1) as f64;
    let of_one =
        |instructions, calls| costs.factors.time(instructions, calls) / 1000.0 / transactions;
    let steps = steps.iter().map(|(kind, (_, instructions))| (*kind, of_one(*instructions, 0)));
    steps
        .chain([("hosts", of_one(*host, 0)), ("system calls", of_one(0.0, *system_calls))])
        .collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let values: Vec<f64> = values.collect();
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
