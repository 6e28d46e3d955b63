//! Figure 8: replicas that receive writes late.

use std::time::Duration;

use solera_machine::Address;
use solera_occult::Scheme;

use super::{Findings, Laboratory, Run, ms};
use crate::papers::Row;
use crate::virtual_cluster::occult::clients::Sessions;
use crate::virtual_cluster::occult::world::by_load;

const FIGURE: &str = "Fig. 8";
/// Delay of writes at slow replicas.
const DELAY: Duration = Duration::from_millis(100);

pub(super) fn run(laboratory: &Laboratory<'_>) -> Findings {
    let workload = laboratory.workload(95, Sessions::Causal);
    let hot = by_load(&workload);
    let tail: Vec<Address> = hot.iter().rev().copied().collect();
    let counts: &[usize] = laboratory.effort.pick(&[6], &[2, 4, 6]);
    let of = |name: String, slow: &[Address], delay: Option<Duration>| {
        let mut run = laboratory.saturated(name, Scheme::PerSite(2), workload.clone());
        (run.setting.slow, run.setting.slow_by) = (slow.to_vec(), delay);
        run
    };
    let mut runs: Vec<Run> = vec![of("none slow".to_owned(), &[], None)];
    let kinds = [
        ("slow tail nodes", &tail, Some(DELAY)),
        ("tail nodes that get no writes", &tail, None),
        ("slow hot nodes", &hot, Some(DELAY)),
    ];
    for (kind, nodes, delay) in kinds {
        let of_count = |count: &usize| of(format!("{count} {kind}"), &nodes[..*count], delay);
        runs.extend(counts.iter().map(of_count));
    }
    runs.push(of("one stopped".to_owned(), &tail[..1], None));
    let mut measured = laboratory.run_all("slow replicas", runs);
    let stopped = measured.pop().expect("the stopped replica is last");
    let (usual, slow) = measured.split_first().expect("the usual cluster is first");
    let names = kinds.iter().flat_map(|kind| counts.iter().map(move |count| (kind, *count)));
    let mut rows = Vec::new();
    for (((kind, nodes, _), count), measured) in names.zip(slow) {
        let is_tail = **nodes == tail;
        let change = 100.0 * (measured.goodput() / usual.goodput() - 1.0);
        let quantity = format!("change of goodput, {count} {kind}");
        let row = Row::new(FIGURE, quantity, is_tail.then_some(0.0), change, "%");
        rows.push(if is_tail { row.at_least(-2.0) } else { row });
        for (q, name) in [(0.5, "median"), (0.9, "90th percentile"), (0.99, "99th percentile")] {
            let quantity = format!("{name} of reads, {count} {kind}");
            let of_paper = (is_tail && q == 0.99 && count == 6).then_some(48.0);
            let row = Row::new(FIGURE, quantity, of_paper, ms(measured.reads.quantile(q)), "ms");
            rows.push(if of_paper.is_some() { row.at_most(42.0) } else { row });
        }
    }
    let change = |now: f64, before: f64| 100.0 * (now / before - 1.0);
    let goodput = change(stopped.goodput(), usual.goodput());
    let quantity = "change of goodput, one replica that gets no writes";
    rows.push(Row::new(FIGURE, quantity, Some(0.0), goodput, "%").at_least(-2.0));
    let median = change(ms(stopped.reads.quantile(0.5)), ms(usual.reads.quantile(0.5)));
    let quantity = "change of the median of reads, one replica that gets no writes";
    rows.push(Row::new(FIGURE, quantity, Some(0.0), median, "%").at_most(2.0));
    for (q, name) in [(0.5, "median"), (0.9, "90th percentile"), (0.99, "99th percentile")] {
        let quantity = format!("{name} of reads, no slow nodes");
        rows.push(Row::new(FIGURE, quantity, None, ms(usual.reads.quantile(q)), "ms"));
    }
    Findings { rows, ..Findings::default() }
}
