//! Increases the number of clients until throughput stops growing.

use std::time::Duration;

use super::Laboratory;
use crate::virtual_cluster::cluster::{Measured, VirtualCluster};
use crate::virtual_cluster::source::Source;

/// Measurements with increasing numbers of clients.
#[derive(Clone, Debug)]
pub(super) struct Curve(pub(super) Vec<Point>);

/// Measurement with one number of clients.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) measured: Measured,
    /// Whether the load is sustainable. Otherwise transactions pile up, and the protocol cannot
    /// sustain the measured throughput.
    pub(super) settled: bool,
}

impl Point {
    /// Returns the sustainable transactions per second.
    fn sustained(&self) -> f64 {
        if self.settled { self.measured.per_second() } else { 0.0 }
    }
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.measured.fmt(f)?;
        if self.settled { Ok(()) } else { f.write_str(", and has not settled") }
    }
}

/// Minimum growth factor; throughput that grows by less has stopped growing.
const GROWTH: f64 = 1.04;
/// Average number of transactions per client before a load counts as settled.
const TURNS: f64 = 2.0;
/// Minimum ratio between the shares of strong transactions among those that end and those that
/// begin, in both directions. Otherwise strong transactions pile up, or a backlog shrinks, which is
/// not sustainable.
const SETTLED: f64 = 0.85;
/// Maximum number of windows until a load must settle.
const MOST_WINDOWS: usize = 20;

/// Load of a cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Pause of clients.
    pub(super) think: Duration,
    /// Initial number of clients.
    pub(super) first: usize,
    /// Maximum number of measurements, each with twice as many clients as the previous one.
    pub(super) steps: usize,
    /// Share of strong transactions among those that clients begin.
    pub(super) strong: f64,
    /// Length of a measuring window.
    pub(super) window: Duration,
}

impl Curve {
    /// Doubles the number of clients until the sustainable throughput stops growing.
    pub(super) fn of<S: Source>(
        laboratory: &Laboratory<'_>,
        name: &str,
        cluster: &mut VirtualCluster<S>,
        load: Load,
    ) -> Curve {
        let mut steps: Vec<Point> = Vec::new();
        let mut clients = load.first;
        while steps.len() < load.steps {
            cluster.set_clients(clients);
            let point = settle(laboratory, cluster, load);
            (laboratory.report)(&format!("{name}: {point}"));
            let grows =
                steps.last().is_none_or(|last| point.sustained() > GROWTH * last.sustained());
            steps.push(point);
            if !grows {
                break;
            }
            clients *= 2;
        }
        let inexact = steps.last().map_or(0.0, |point| point.measured.charged.inexact_share());
        (laboratory.report)(&format!(
            "{name}: {:.1}% of all steps are of classes that the table of costs has not",
            100.0 * inexact
        ));
        Curve(steps)
    }

    /// Searches the number of clients with the greatest sustainable throughput: doubles it until
    /// the throughput falls, then tries both sides of the best. Measures each number on a new
    /// cluster, because an overloaded one may not recover.
    pub(super) fn search<S: Source>(
        laboratory: &Laboratory<'_>,
        name: &str,
        mut cluster: impl FnMut() -> VirtualCluster<S>,
        load: Load,
    ) -> Curve {
        let steps = best_load(load.first, load.steps, |clients| {
            let mut cluster = cluster();
            cluster.set_clients(clients);
            let point = settle(laboratory, &mut cluster, load);
            (laboratory.report)(&format!("{name}: {point}"));
            point
        });
        Curve(steps)
    }

    /// Returns whether the load of [`peak`](Self::peak) is sustainable.
    pub(super) fn has_settled(&self) -> bool {
        self.0.iter().any(|point| point.settled)
    }

    /// Returns the measurement with the greatest throughput, among settled loads if there are any.
    pub(super) fn peak(&self) -> &Measured {
        let most = self.0.iter().max_by(|a, b| {
            let faster = a.measured.per_second().total_cmp(&b.measured.per_second());
            a.settled.cmp(&b.settled).then(faster)
        });
        &most.expect("there is one step at least").measured
    }
}

/// Measures with fewer clients until the load settles, then with more until throughput falls, and
/// then with 25% fewer and 50% more clients than in the best measurement. Returns all measurements
/// in the order of their numbers of clients.
fn best_load(
    first: usize,
    most_steps: usize,
    mut measure: impl FnMut(usize) -> Point,
) -> Vec<Point> {
    let mut steps = vec![measure(first)];
    let mut best = (steps[0].sustained(), first);
    while best.0 == 0.0 && best.1 > 1 && steps.len() < most_steps {
        best.1 /= 2;
        steps.push(measure(best.1));
        best.0 = steps[steps.len() - 1].sustained();
    }
    let mut clients = first;
    // If the number was halved, a measurement has shown that twice the best is too much.
    let settled = best.1 == first;
    while settled && steps.len() < most_steps {
        clients *= 2;
        steps.push(measure(clients));
        let per_second = steps[steps.len() - 1].sustained();
        if per_second <= best.0 {
            break;
        }
        best = (per_second, clients);
    }
    steps.extend([best.1 * 3 / 4, best.1 * 3 / 2].map(measure));
    steps.sort_by_key(|point| point.measured.clients);
    steps
}

/// Measures windows until the load has settled. The result is the second half of the windows: a
/// single window varies a lot, because virtual cores take long for each batch.
fn settle<S: Source>(
    laboratory: &Laboratory<'_>,
    cluster: &mut VirtualCluster<S>,
    load: Load,
) -> Point {
    let mut warm_up = laboratory.warm_up() + load.think;
    let mut passed = warm_up;
    let mut windows: Vec<Measured> = Vec::new();
    loop {
        windows.push(cluster.measure(std::mem::take(&mut warm_up), load.window));
        passed += load.window;
        let measured = Measured::together(&windows[windows.len() / 2..]);
        let settled = has_settled(&measured, passed, load.strong);
        // A load may make no progress at all.
        if settled || windows.len() == MOST_WINDOWS {
            return Point { measured, settled };
        }
    }
}

/// Returns whether a measurement after this time is sustainable.
fn has_settled(measured: &Measured, passed: Duration, strong: f64) -> bool {
    let ended = measured.per_second().max(f64::MIN_POSITIVE);
    let turn = measured.clients as f64 / ended;
    let share = measured.strong_share();
    passed.as_secs_f64() >= TURNS * turn && share >= SETTLED * strong && strong >= SETTLED * share
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::tally::{Class, Count};
    use crate::virtual_cluster::meter::Charged;

    fn measured(clients: usize, read: u32, strong: u32) -> Measured {
        let of = |ended: u32| {
            let mut count = Count::default();
            (0..ended).for_each(|_| count.latency.record(Duration::from_millis(1)));
            vec![count]
        };
        let counts = BTreeMap::from([(Class::Read, of(read)), (Class::Strong, of(strong))]);
        let window = Duration::from_secs(1);
        Measured {
            clients,
            window,
            counts,
            busy: (0.5, 1.0),
            charged: Charged::default(),
            traffic: Vec::new(),
        }
    }

    #[test]
    fn the_best_number_of_clients_is_found_although_throughput_collapses() {
        // Throughput grows up to 300 clients, and collapses beyond.
        let measure = |clients: usize| {
            let served = if clients <= 300 { clients } else { 10 };
            Point { measured: measured(clients, served as u32, 0), settled: true }
        };
        let clients_of =
            |steps: &[Point]| steps.iter().map(|it| it.measured.clients).collect::<Vec<_>>();
        let steps = best_load(50, 7, measure);
        assert_eq!(clients_of(&steps), [50, 100, 150, 200, 300, 400]);
        assert_eq!(Curve(steps).peak().clients, 300);
        assert_eq!(clients_of(&best_load(500, 7, measure)), [375, 500, 750, 1000]);
    }

    #[test]
    fn an_unsettled_load_is_no_peak() {
        let measure = |clients: usize| Point {
            measured: measured(clients, clients as u32, 0),
            settled: clients <= 150,
        };
        let steps = best_load(50, 7, measure);
        assert_eq!(Curve(steps).peak().clients, 150);
        let steps = best_load(800, 7, measure);
        assert_eq!(Curve(steps).peak().clients, 150, "from above, too");
        let unsettled = [400, 300].map(measure);
        assert!(!Curve(unsettled.clone().into()).has_settled());
        assert_eq!(Curve(unsettled.into()).peak().clients, 400, "if nothing settles");
    }

    #[test]
    fn a_load_has_settled_when_no_transactions_pile_up() {
        let seconds = Duration::from_secs;
        let settled = measured(200, 90, 10);
        assert!(has_settled(&settled, seconds(4), 0.1));
        assert!(!has_settled(&settled, seconds(3), 0.1), "some have had one turn only");
        assert!(!has_settled(&measured(200, 98, 2), seconds(4), 0.1), "strong ones pile up");
        assert!(!has_settled(&measured(200, 80, 20), seconds(4), 0.1), "they are worked off");
        assert!(has_settled(&measured(200, 100, 0), seconds(4), 0.0));
        assert!(!has_settled(&measured(200, 0, 0), seconds(1000), 0.0), "nothing has ended");
    }
}
