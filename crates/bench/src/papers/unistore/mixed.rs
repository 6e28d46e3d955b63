//! Figure 3: RUBiS, compared with STRONG, REDBLUE and CAUSAL.

use std::sync::Arc;
use std::time::Duration;

use super::saturation::{Curve, Load, Point};
use super::{Findings, Laboratory, SLOWNESS};
use solera_config::{Baseline, ClusterSpec, Overrides};

use crate::error::BenchError;
use crate::papers::Row;
use crate::papers::plot::{Plot, Series};
use crate::rubis::{Scale, schema};
use crate::virtual_cluster::cluster::{Measured, VirtualCluster};
use crate::virtual_cluster::recording::{Recording, record};
use crate::virtual_cluster::replay::{COPIES, Replay};
use crate::virtual_cluster::shape::{CORES_PER_NODE, Shape, name_of};

/// Scale of the recorded database.
const SCALE: &str = "small";
/// Pause of the paper's clients.
const THINK: Duration = Duration::from_millis(500);
const VARIANTS: [Baseline; 4] =
    [Baseline::UniStore, Baseline::RedBlue, Baseline::Strong, Baseline::Causal];

/// Size of a site.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Size {
    partitions: u16,
    cores: u8,
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} partitions on {} cores", self.partitions, self.cores)
    }
}

/// Size with one partition for each core, as in the paper.
const SMALL: Size = Size { partitions: 16, cores: 16 };
const PAPERS: Size = Size { partitions: 32, cores: 32 };
/// Size with the maximum number of leading workers per site.
const FINE: Size = Size { partitions: 64, cores: 32 };

/// Settings of all clusters.
struct Common {
    recording: Arc<Recording>,
    spaces: Arc<ClusterSpec>,
}

impl Common {
    fn of(laboratory: &Laboratory<'_>) -> Result<Common, BenchError> {
        (laboratory.report)("recording RUBiS");
        let scale = SCALE.parse::<Scale>().map_err(BenchError::Settings)?;
        let recording = record(scale, 1, laboratory.effort.pick(2000, 5000))?;
        if recording.transactions.is_empty() {
            return Err(BenchError::Settings(
                "RUBiS committed nothing that could be replayed".to_owned(),
            ));
        }
        let over = Overrides { sites: Some(3), ..Overrides::default() };
        let spaces = ClusterSpec::parse("RUBiS' spaces", schema::SPACES, over)
            .map_err(|error| BenchError::Start(error.to_string()))?;
        Ok(Common { recording: Arc::new(recording), spaces: Arc::new(spaces) })
    }

    /// Measures a protocol with increasing numbers of clients.
    fn curve<'a>(
        &self,
        laboratory: &Laboratory<'a>,
        variant: Baseline,
        size: Size,
    ) -> Box<dyn FnOnce() -> Curve + Send + 'a> {
        let (recording, spaces) = (self.recording.clone(), self.spaces.clone());
        let laboratory = *laboratory;
        Box::new(move || {
            let shape = Shape {
                variant,
                cores_per_node: CORES_PER_NODE,
                slowness: SLOWNESS,
                ..Shape::three_sites(size.partitions, size.cores)
            };
            let strong = recording.strong_share();
            let cluster = || {
                let replay = Replay::new(recording.clone(), spaces.clone(), variant);
                VirtualCluster::new(shape.clone(), laboratory.meter(variant), replay, THINK)
            };
            let name = format!("{}, {size}", name_of(variant));
            let per_core = match variant {
                Baseline::Strong => 8,
                _ => laboratory.effort.pick(375, 125),
            };
            let load = Load {
                think: THINK,
                steps: laboratory.effort.pick(2, 7),
                window: Duration::from_millis(laboratory.effort.pick(600, 700)),
                ..laboratory.load(per_core * usize::from(size.cores), strong)
            };
            match variant {
                // Under overload, transactions of STRONG only abort, and strong transactions of
                // REDBLUE pile up.
                Baseline::Strong | Baseline::RedBlue => {
                    let steps = match variant {
                        Baseline::Strong => laboratory.effort.pick(5, 7),
                        _ => load.steps,
                    };
                    Curve::search(&laboratory, &name, cluster, Load { steps, ..load })
                }
                _ => Curve::of(&laboratory, &name, &mut cluster(), load),
            }
        })
    }
}

#[expect(
    clippy::too_many_lines,
    reason = "an experiment, in the order in which it runs and is reported"
)]
pub(super) fn run(laboratory: &Laboratory<'_>) -> Result<Findings, BenchError> {
    let common = Common::of(laboratory)?;
    let size = laboratory.effort.pick(SMALL, PAPERS);
    let others: &[Size] = laboratory.effort.pick(&[], &[SMALL, FINE]);
    let mut tasks: Vec<_> =
        VARIANTS.iter().map(|variant| common.curve(laboratory, *variant, size)).collect();
    for other in others {
        let pair = [Baseline::UniStore, Baseline::RedBlue];
        tasks.extend(pair.map(|variant| common.curve(laboratory, variant, *other)));
    }
    let curves = laboratory.run_all(3, tasks);
    let (curves, of_others) = curves.split_at(VARIANTS.len());
    let [unistore, redblue, strong, causal] = curves else {
        unreachable!("there is a result for each of four tasks")
    };

    let peak = |curve: &Curve| curve.peak().per_second();
    let loss = 100.0 * (1.0 - peak(unistore) / peak(causal));
    let figure = "Fig. 3";
    let mut rows = vec![
        Row::new(figure, "throughput over REDBLUE", 1.72, peak(unistore) / peak(redblue), "ratio")
            .at_least(1.72),
        Row::new(figure, "throughput over STRONG", 2.83, peak(unistore) / peak(strong), "ratio")
            .at_least(2.83),
        Row::new(figure, "throughput loss against CAUSAL", 45.0, loss, "%").at_most(45.0),
        Row::new(figure, "aborted transactions", 0.027, aborts(unistore.peak()), "%"),
        Row::new(figure, "aborted transactions of REDBLUE", 0.12, aborts(redblue.peak()), "%"),
    ];
    if size != PAPERS {
        for row in &mut rows {
            *row = Row::new(figure, format!("{}, {size}", row.quantity), None, row.ours, row.unit);
        }
    }
    for (other, pair) in others.iter().zip(of_others.chunks(2)) {
        let ratio = peak(&pair[0]) / peak(&pair[1]);
        let quantity = format!("throughput over REDBLUE, {other}");
        rows.push(Row::new(figure, quantity, None, ratio, "ratio"));
    }
    let series = VARIANTS.iter().zip(curves).map(|(variant, curve)| {
        let settled = |point: &&Point| point.settled;
        let point = |point: &Point| (point.measured.per_second(), latency(&point.measured));
        Series {
            name: name_of(*variant).to_owned(),
            points: curve.0.iter().filter(settled).map(point).collect(),
        }
    });
    let plot = Plot {
        title: format!("Figure 3: RUBiS on 3 sites of {size}"),
        x: "transactions per second",
        y: "average latency, ms",
        series: series.collect(),
    };
    let saturated = |curve: &Curve| {
        let (cores, busiest) = curve.peak().busy;
        format!("{:.0} and {:.0}%", 100.0 * cores, 100.0 * busiest)
    };
    let unsettled: Vec<&str> = VARIANTS
        .iter()
        .zip(curves)
        .filter(|(_, curve)| !curve.has_settled())
        .map(|(variant, _)| name_of(*variant))
        .collect();
    let unsettled = match unsettled.as_slice() {
        [] => String::new(),
        names => {
            format!(" No load of {} has settled; this throughput would not last.", names.join(", "))
        }
    };
    let recording = format!(
        "Figure 3: clients replay {} transactions in random order. Clients of the real RUBiS (scale {SCALE}) \
         sent them to a cluster of one site. A replayed transaction gives new names to the objects that it creates. A \
         random offset moves its references to other items, among {} in all. Clients think {} ms. Each site has {size} (the paper's: {PAPERS}).",
        common.recording.transactions.len(),
        common.recording.items * COPIES,
        THINK.as_millis(),
    );
    let conflicts = "Conflicts are those of RUBiS' spaces. In REDBLUE, all strong operations on a key conflict, and one \
                     group certifies all strong transactions. In STRONG, every transaction is strong, and all reads and \
                     updates of a key conflict.";
    let loads = format!(
        "A load whose strong transactions pile up does not settle; it is not plotted, and its throughput does not count. \
         The number of clients doubles from load to load. REDBLUE and STRONG are also measured between these numbers. Each \
         load has a cluster of its own. Average and greatest use of the cores at the greatest throughput: UniStore {}, \
         REDBLUE {}, STRONG {}, CAUSAL {}. STRONG is measured with the number of clients that it serves best: {} of {:?}.\
         {unsettled}",
        saturated(unistore),
        saturated(redblue),
        saturated(strong),
        saturated(causal),
        strong.peak().clients,
        strong.0.iter().map(|point| point.measured.clients).collect::<Vec<_>>(),
    );
    let notes = vec![recording, conflicts.to_owned(), loads];
    Ok(Findings { rows, plots: vec![plot], notes })
}

/// Returns the share of attempts that aborted, in percent.
fn aborts(measured: &Measured) -> f64 {
    let total = measured.total();
    100.0 * total.aborts as f64 / (total.latency.count() + total.aborts).max(1) as f64
}

/// Returns the latency in milliseconds.
fn latency(measured: &Measured) -> f64 {
    measured.total().latency.mean().unwrap_or_default().as_secs_f64() * 1000.0
}
