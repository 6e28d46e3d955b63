//! Measures how a saturated protocol slows the other protocols of its worker, for `solera papers
//! calibrate --turns`.

use std::fmt::Write as _;
use std::time::Duration;

use crate::micro::Micro;
use crate::tally::Class;
use crate::virtual_cluster::cluster::{Measured, VirtualCluster};
use crate::virtual_cluster::cost::Costs;
use crate::virtual_cluster::meter::Meter;
use crate::virtual_cluster::shape::Shape;
use crate::virtual_cluster::three_items::ThreeItems;

const PARTITIONS: u16 = 16;
/// Number of clients that run causal transactions, and their pause. Together these clients use
/// about a tenth of a worker's capacity.
const CLIENTS: usize = 30;
const THINK: Duration = Duration::from_millis(10);
/// Number of clients of `primary` at each worker, which do not pause.
const FLOOD: usize = 4000;

/// Durations of a worker's turns, with their labels. Servers use 25 µs.
const TURNS: [(Duration, &str); 5] = [
    (Duration::MAX, "no end"),
    (Duration::from_micros(200), "200 µs"),
    (Duration::from_micros(100), "100 µs"),
    (Duration::from_micros(50), "50 µs"),
    (Duration::from_micros(25), "25 µs"),
];

/// Measures causal transactions at three sites of one worker each, alone and beside clients of
/// `primary` that overload the workers. Returns a table.
pub fn turns() -> String {
    let mut text =
        "    turn  updates of primary/s  busy   median      99%     mean  median to that alone\n"
            .to_owned();
    for (turn, name) in TURNS {
        let mut alone = None;
        for flood in [0, FLOOD] {
            let (measured, flooded) = measure(turn, flood);
            let causal = measured.of(&[Class::Causal, Class::Read]).latency;
            let ms = |time: Option<Duration>| 1000.0 * time.unwrap_or_default().as_secs_f64();
            let median = ms(causal.quantile(0.5));
            let ratio = median / *alone.get_or_insert(median);
            let _ = writeln!(
                text,
                "{name:>8} {flooded:>21.0} {:>4.0}% {median:>5.3} ms {:>5.3} ms {:>5.3} ms {ratio:>21.2}",
                100.0 * measured.busy.0,
                ms(causal.quantile(0.99)),
                ms(causal.mean()),
            );
        }
    }
    text.push_str(
        "turn: how long a worker serves what waits before clients have theirs. busy: share of the worker's time that is used.\n\
         median, 99%, mean: latency of causal transactions, beside clients of `primary` that ask for more than the workers can do, and alone.\n",
    );
    text
}

fn measure(turn: Duration, flood: usize) -> (Measured, f64) {
    let shape = Shape { primary: true, turn, ..Shape::three_sites(PARTITIONS, 1) };
    let meter = Meter::Table(Costs::shipped().of(shape.variant));
    let micro = Micro { keys: 10_000, updates: 50, strong: 0, hot: 0, value_bytes: 100, seed: 1 };
    let items = ThreeItems::new(micro, PARTITIONS, true);
    let mut cluster = VirtualCluster::new(shape, meter, items, THINK);
    cluster.set_clients(CLIENTS);
    if flood > 0 {
        cluster.flood(flood);
    }
    let window = Duration::from_secs(1);
    let measured = cluster.measure(Duration::from_millis(500), window);
    (measured, cluster.flooded() as f64 / window.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses the table of costs, and the turn length of servers, from `worker/event_loop.rs` of
    /// `node`.
    #[test]
    fn a_saturated_protocol_makes_causal_transactions_slower_by_less_than_a_tenth() {
        let turn = Duration::from_micros(25);
        let median = |flood| {
            let (measured, flooded) = measure(turn, flood);
            let causal = measured.of(&[Class::Causal, Class::Read]).latency;
            (causal.quantile(0.5).unwrap().as_secs_f64(), measured.busy.0, flooded)
        };
        let ((alone, ..), (beside, busy, flooded)) = (median(0), median(FLOOD));
        assert!(busy > 0.99 && flooded > 50_000.0, "{busy} {flooded}");
        assert!(beside / alone < 1.1, "{alone} {beside}");
    }
}
