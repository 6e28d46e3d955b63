//! §8 on real servers: reads and updates through `solera occult` and plain ones, side by side, on a
//! Redis Cluster of two sites.

use std::time::{Duration, Instant};

use solera_redis::Reads;

use super::redis_cluster::{RTT, RedisCluster, Running, is_installed};
use super::{Effort, Findings, Laboratory};
use crate::closed_loop::Pace;
use crate::error::BenchError;
use crate::pairs::{alternate, median};
use crate::papers::Row;
use crate::requests::processor_time;
use crate::ycsb::{self, Distribution, Sending, Target, Ycsb, YcsbReport};

const FIGURE: &str = "Redis";
/// Number of entries of causal timestamps.
const ENTRIES: u16 = 8;
/// Number of keys.
const KEYS: u64 = 2_000;
/// Clients of the runs that do not use up the processors, and their pauses.
const WITH_PAUSES: (usize, Duration) = (16, Duration::from_millis(10));
/// Clients of the runs that measure the goodput.
const WITHOUT_PAUSES: (usize, Duration) = (64, Duration::ZERO);

/// One run on one side.
struct Side {
    report: YcsbReport,
    /// Processor time of the servers and the gateway for an operation, in µs.
    processor_us: f64,
    /// Use of all processors of the computer, in percent.
    used: f64,
}

pub(super) fn run(laboratory: &Laboratory<'_>) -> Result<Findings, BenchError> {
    let mut findings = Findings::default();
    if !is_installed() {
        let note = "redis-server and redis-cli are not installed, so the rows of a real Redis \
                    Cluster are left out.";
        (laboratory.report)(note);
        findings.notes.push(note.to_owned());
        return Ok(findings);
    }
    (laboratory.report)("Redis Cluster: starting three masters and three replicas");
    let cluster = RedisCluster::start()?;
    let (gateway, through) = cluster.gateway(ENTRIES)?;
    let (target, reads) = cluster.plain()?;
    let servers: Vec<u32> = cluster.servers.iter().map(Running::id).collect();
    let with_gateway = [&servers[..], &[gateway.id()]].concat();
    let sides = [
        (Target::Redis(target, reads), servers, "plain:"),
        (Target::Redis(through, Reads::Masters), with_gateway, "occult:"),
    ];
    for (target, _, prefix) in &sides {
        // Loading is a part of a run, and does not count.
        let pace = pace(laboratory.effort, WITH_PAUSES);
        let pace = Pace { warm_up: Duration::ZERO, window: Duration::from_millis(500), ..pace };
        ycsb::run(&workload(95, prefix, true), target, &pace, &|_| {})?;
    }
    for (reads, clients) in [(95, WITH_PAUSES), (75, WITH_PAUSES), (95, WITHOUT_PAUSES)] {
        let pace = pace(laboratory.effort, clients);
        let count = laboratory.effort.pick(1, 3);
        let rounds = alternate(count, |round, side| {
            let (target, processes, prefix) = &sides[side];
            let what = format!("{reads}% reads, {} clients, {prefix}", pace.clients);
            (laboratory.report)(&format!("Redis Cluster: {what} round {} of {count}", round + 1));
            measure(&workload(reads, prefix, false), target, processes, &pace)
        })?;
        findings.rows.extend(rows(reads, pace.think.is_zero(), &rounds));
    }
    findings.notes.push(format!(
        "Redis Cluster: three masters and three replicas of the installed redis-server on this \
         computer, one master and the replicas of the other two at the first site, the other \
         nodes behind proxies with a round trip of {} ms, whose ports they announce. Clients and \
         `solera occult` are at the first site; plain clients read there, too. {KEYS} keys of 1000 \
         bytes, by Zipf's law; {ENTRIES} entries in timestamps. {} clients with pauses of {} ms, and \
         {} without pauses for the goodput.",
        RTT.as_millis(),
        WITH_PAUSES.0,
        WITH_PAUSES.1.as_millis(),
        WITHOUT_PAUSES.0,
    ));
    Ok(findings)
}

fn workload(reads: u8, prefix: &str, load: bool) -> Ycsb {
    Ycsb {
        keys: KEYS,
        prefix: prefix.to_owned(),
        value_bytes: 1000,
        reads,
        distribution: Distribution::Zipfian,
        operations: 1,
        sending: Sending::Interactive,
        load,
        seed: 1,
    }
}

fn pace(effort: Effort, (clients, think): (usize, Duration)) -> Pace {
    let seconds = Duration::from_secs;
    let (warm_up, window) = effort.pick((seconds(2), seconds(4)), (seconds(4), seconds(15)));
    Pace { clients, threads: 1, think, ramp_up: Duration::ZERO, warm_up, window }
}

fn measure(
    ycsb: &Ycsb,
    target: &Target,
    processes: &[u32],
    pace: &Pace,
) -> Result<Side, BenchError> {
    let seconds = |pids: &[u32]| {
        let times = pids.iter().map(|pid| processor_time(*pid));
        let sum = times.sum::<Result<u64, String>>().map_err(BenchError::Settings)?;
        Ok::<_, BenchError>(sum as f64 / 1e9)
    };
    let own = [std::process::id()];
    let before = (seconds(processes)?, seconds(&own)?, Instant::now());
    let report = ycsb::run(ycsb, target, pace, &|_| {})?;
    let (took, own) = (seconds(processes)? - before.0, seconds(&own)? - before.1);
    let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
    let all = pace.warm_up + pace.window;
    let operations = report.goodput() * all.as_secs_f64();
    Ok(Side {
        report,
        processor_us: took / operations.max(1.0) * 1e6,
        used: 100.0 * (took + own) / before.2.elapsed().as_secs_f64() / cores,
    })
}

/// Returns the rows of runs on both sides: plain and through the gateway.
fn rows(reads: u8, saturates: bool, rounds: &[[Side; 2]]) -> Vec<Row> {
    let title = format!("{reads}/{}", 100 - reads);
    let row = |what: &str, paper: Option<f64>, of: &dyn Fn(&[Side; 2]) -> f64, unit| {
        let values = rounds.iter().map(of);
        let quantity = format!("{title}: {what}");
        Row::new(FIGURE, quantity, paper, median(values.clone()), unit).of_rounds(values)
    };
    let change =
        |[plain, occult]: &[Side; 2], of: fn(&Side) -> f64| 100.0 * (of(occult) / of(plain) - 1.0);
    let goodput = |side: &Side| side.report.goodput();
    let quantile = |side: &Side, q: f64| {
        let of = side.report.kinds.first().and_then(|(_, count)| count.latency.quantile(q));
        super::ms(of)
    };
    let added = |q: f64| move |pair: &[Side; 2]| quantile(&pair[1], q) - quantile(&pair[0], q);
    if saturates {
        let changed = |pair: &[Side; 2]| change(pair, goodput);
        return vec![
            row("goodput without pauses, plain", None, &|pair| goodput(&pair[0]), "1/s"),
            row("change of goodput without pauses", None, &changed, "%"),
            row("added to the median of reads without pauses", None, &added(0.5), "ms"),
        ];
    }
    let near = |pair: &[Side; 2]| {
        let counter = |name: &str| pair[1].report.counters.get(name).copied().unwrap_or(0) as f64;
        let (near, home) = (counter("replica_reads"), counter("home_reads"));
        100.0 * near / (near + home).max(1.0)
    };
    let processor = |pair: &[Side; 2]| change(pair, |side| side.processor_us);
    vec![
        row("use of the processors, with Occult", None, &|pair| pair[1].used, "%"),
        row("median of plain reads", None, &|pair| quantile(&pair[0], 0.5), "ms"),
        row("added to the median of reads", Some(0.05), &added(0.5), "ms").at_most(0.05),
        row("99th percentile of plain reads", None, &|pair| quantile(&pair[0], 0.99), "ms"),
        row("added to the 99th percentile of reads", None, &added(0.99), "ms"),
        row("reads that nodes of the site answer", None, &near, "%"),
        row("processor time of a plain operation", None, &|pair| pair[0].processor_us, "us"),
        row("added processor time of an operation", None, &processor, "%"),
        row("change of goodput", None, &|pair| change(pair, goodput), "%"),
    ]
}
