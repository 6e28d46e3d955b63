//! More and more clients, until throughput grows no more.

use std::time::Duration;

use super::Laboratory;
use crate::virtual_cluster::cluster::{Measured, VirtualCluster};
use crate::virtual_cluster::source::Source;

/// What was measured with more and more clients.
#[derive(Clone, Debug)]
pub(super) struct Curve(pub(super) Vec<Measured>);

/// Throughput that grows by less has stopped growing.
const GROWTH: f64 = 1.04;

impl Curve {
    /// Begins with so many clients, and doubles their number.
    pub(super) fn of<S: Source>(
        laboratory: &Laboratory<'_>,
        name: &str,
        cluster: &mut VirtualCluster<S>,
        think: Duration,
        first: usize,
    ) -> Curve {
        let (warm_up, window) = laboratory.times();
        let mut steps: Vec<Measured> = Vec::new();
        let mut clients = first;
        while steps.len() < laboratory.pick(4, 7) {
            cluster.set_clients(clients);
            let measured = cluster.measure(warm_up + think, window);
            (laboratory.tell)(&format!("{name}: {measured}"));
            let grows =
                steps.last().is_none_or(|last| measured.per_second() > GROWTH * last.per_second());
            steps.push(measured);
            if !grows {
                break;
            }
            clients *= 2;
        }
        Curve(steps)
    }

    /// What was measured where throughput was greatest.
    pub(super) fn peak(&self) -> &Measured {
        let most = self.0.iter().max_by(|a, b| a.per_second().total_cmp(&b.per_second()));
        most.expect("there is one step at least")
    }
}
