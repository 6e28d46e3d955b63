//! Figure 3: RUBiS, against STRONG, REDBLUE and CAUSAL.

use std::sync::Arc;
use std::time::Duration;

use solera::{ClusterSpec, Overrides};

use super::saturation::Curve;
use super::{Findings, Laboratory};
use solera_node::Baseline;

use crate::error::BenchError;
use crate::papers::Row;
use crate::papers::plot::{Plot, Series};
use crate::papers::side_by_side::run_all;
use crate::rubis::{Scale, schema};
use crate::virtual_cluster::cluster::{Measured, VirtualCluster};
use crate::virtual_cluster::recording::record;
use crate::virtual_cluster::replay::Replay;
use crate::virtual_cluster::shape::{CALIFORNIA, FRANKFURT, Shape, VIRGINIA, name_of};

/// How long the paper's clients think.
const THINK: Duration = Duration::from_millis(500);
const VARIANTS: [Baseline; 4] =
    [Baseline::UniStore, Baseline::RedBlue, Baseline::Strong, Baseline::Causal];

pub(super) fn run(laboratory: &Laboratory<'_>) -> Result<Findings, BenchError> {
    (laboratory.tell)("recording RUBiS");
    // The paper has 32 at each site, with one partition each.
    let cores: u8 = laboratory.pick(16, 32);
    let scale = "small".parse::<Scale>().map_err(BenchError::Settings)?;
    let recording = record(scale, 1, Duration::from_secs(laboratory.pick(2, 5)))?;
    let recorded = recording.transactions.len();
    if recorded == 0 {
        return Err(BenchError::Settings(
            "RUBiS committed nothing that could be replayed".to_owned(),
        ));
    }
    let recording = Arc::new(recording);
    let over = Overrides { sites: Some(3), ..Overrides::default() };
    let spaces = ClusterSpec::parse("RUBiS' spaces", schema::SPACES, over)
        .map_err(|error| BenchError::Start(error.to_string()))?;
    let spaces = Arc::new(spaces);

    let tasks = VARIANTS.map(|variant| -> Box<dyn FnOnce() -> Curve + Send> {
        let (recording, spaces) = (recording.clone(), spaces.clone());
        let laboratory = *laboratory;
        Box::new(move || {
            let shape = Shape {
                variant,
                regions: vec![VIRGINIA, CALIFORNIA, FRANKFURT],
                partitions: cores.into(),
                workers: cores,
                f: 1,
                slowness: laboratory.slowness(),
            };
            let replay = Replay::new(recording, spaces);
            let mut cluster = VirtualCluster::new(shape, laboratory.costs, replay, THINK);
            let first = 250 * usize::from(cores);
            Curve::of(&laboratory, name_of(variant), &mut cluster, THINK, first)
        })
    });
    let curves = run_all(tasks.into());
    let [unistore, redblue, strong, causal] = &curves[..] else {
        unreachable!("there is a result for each of four tasks")
    };

    let peak = |curve: &Curve| curve.peak().per_second();
    let loss = 100.0 * (1.0 - peak(unistore) / peak(causal));
    let figure = "Fig. 3";
    let rows = vec![
        Row::new(figure, "throughput over REDBLUE", 1.72, peak(unistore) / peak(redblue), "ratio")
            .at_least(1.72),
        Row::new(figure, "throughput over STRONG", 2.83, peak(unistore) / peak(strong), "ratio")
            .at_least(2.83),
        Row::new(figure, "throughput loss against CAUSAL", 45.0, loss, "%").at_most(45.0),
        Row::new(figure, "aborted transactions", 0.027, aborts(unistore.peak()), "%"),
        Row::new(figure, "aborted transactions of REDBLUE", 0.12, aborts(redblue.peak()), "%"),
    ];
    let series = VARIANTS.iter().zip(&curves).map(|(variant, curve)| {
        let point = |measured: &Measured| (measured.per_second(), latency(measured));
        Series { name: name_of(*variant).to_owned(), points: curve.0.iter().map(point).collect() }
    });
    let plot = Plot {
        title: format!("Figure 3: RUBiS on 3 sites of {cores} virtual cores"),
        x: "transactions per second",
        y: "average latency, ms",
        series: series.collect(),
    };
    let notes = vec![format!(
        "Figure 3: clients replay {recorded} transactions that clients of the real RUBiS (scale {scale}) sent to \
         a cluster of one site, drawn at random; what they name anew gets a new name each time. \
         One partition per virtual core, think time {} ms. Conflicts are those of RUBiS' spaces, for REDBLUE, too, \
         whose strong transactions are all certified by one group.",
        THINK.as_millis()
    )];
    Ok(Findings { rows, plots: vec![plot], notes })
}

/// The share of attempts that met a conflict, in percent.
fn aborts(measured: &Measured) -> f64 {
    let total = measured.total();
    100.0 * total.aborts as f64 / (total.latency.count() + total.aborts).max(1) as f64
}

/// In milliseconds.
fn latency(measured: &Measured) -> f64 {
    measured.total().latency.mean().unwrap_or_default().as_secs_f64() * 1000.0
}
