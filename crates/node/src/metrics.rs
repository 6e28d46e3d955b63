//! Metrics in the text format of Prometheus.

mod table;

use std::fmt::{self, Write};

use solera_reservations::{CHANGES, Counts, REFUSALS};
use solera_session::{Attempts, INTERVAL_FAILURES, READ_LEVELS};
use solera_unistore::StrongCounts;

use self::table::metric;
pub use self::table::{METRICS, Metric};
use crate::modules::Incomplete;
use crate::status::{
    JournalSample, MemoryStatus, OccultStatus, PeerStatus, PrimaryStatus, ReachedSite, SiteStatus,
    SpeculativeStatus,
};

/// Renders all metrics of a process.
pub(crate) fn render(
    sites: &[SiteStatus],
    reached: &[ReachedSite],
    memory: MemoryStatus,
    incomplete: Option<Incomplete>,
    refused: Option<[Vec<RefusedCount>; 2]>,
) -> String {
    render_sites(sites)
        + &render_journals(sites)
        + &render_memory(memory)
        + &render_incomplete(incomplete)
        + &render_links(reached)
        + &refused.map_or_else(String::new, |refused| render_refused(&refused))
}

type Counter = (&'static str, fn(&SiteStatus) -> u64);

const COUNTERS: [Counter; 6] = [
    ("solera_certification_ignored_total", |s| s.strong.ignored),
    ("solera_certification_reserved_total", |s| s.strong.reserved),
    ("solera_certification_waited_total", |s| s.strong.waited),
    ("solera_errors_total", |s| s.errors),
    ("solera_failed_logins_total", |s| s.failed_logins),
    ("solera_refused_connections_total", |s| s.refused_connections),
];

type Gauge = (&'static str, fn(&SiteStatus) -> Option<f64>);

const GAUGES: [Gauge; 10] = [
    ("solera_site_alive", |s| Some(f64::from(u8::from(s.alive)))),
    ("solera_keys", |s| Some(s.keys as f64)),
    ("solera_versions", |s| s.versions.map(|versions| versions as f64)),
    ("solera_data_bytes", |s| s.bytes.map(|bytes| bytes as f64)),
    ("solera_connections", |s| Some(s.connections as f64)),
    ("solera_uniformity_delay_seconds", |s| s.uniformity_ms.map(|ms| ms / 1000.0)),
    ("solera_open_transactions", |s| Some(s.open_transactions as f64)),
    ("solera_prepared_transactions", |s| Some(s.prepared_transactions as f64)),
    ("solera_at_risk_transactions", |s| Some(s.at_risk as f64)),
    ("solera_unsettled_updates", |s| Some(s.unsettled_updates as f64)),
];

/// Writing to a string cannot fail, so results are dropped.
fn head(text: &mut String, name: &str) {
    let Metric { help, kind, .. } = metric(name);
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Escapes the value of a label for Prometheus.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Renders the metrics of sites.
fn render_sites(sites: &[SiteStatus]) -> String {
    let mut text = String::new();
    head(&mut text, "solera_build_info");
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(text, "solera_build_info{{version=\"{version}\"}} 1");
    for (name, value) in GAUGES {
        let one = |site: &SiteStatus| value(site).map(|value| (String::new(), value));
        render_metric(&mut text, sites, name, one);
    }
    for (name, value) in COUNTERS {
        let one = |site: &SiteStatus| [(String::new(), value(site))];
        render_metric(&mut text, sites, name, one);
    }
    render_reads(&mut text, sites);
    render_bounds(&mut text, sites);
    render_primary(&mut text, sites);
    render_occult(&mut text, sites);
    render_speculative(&mut text, sites);
    render_labelled(&mut text, sites);
    head(&mut text, "solera_batch_seconds");
    for site in sites {
        let metric = ("solera_batch_seconds", &*site.name);
        render_histogram(&mut text, metric, &site.batch_us, site.batch_sum_us);
    }
    text
}

/// Renders the metrics with further labels besides the site.
fn render_labelled(text: &mut String, sites: &[SiteStatus]) {
    render_metric(text, sites, "solera_space_keys", |site| {
        let keys = site.space_keys.iter();
        labelled("space", keys.map(|(space, keys)| (label(space), *keys)))
    });
    render_metric(text, sites, "solera_led_partitions", |site| {
        labelled("leader", site.leaders.iter().map(|(leader, led)| (leader, *led)))
    });
    render_metric(text, sites, "solera_strong_transactions_total", |site| {
        let StrongCounts { committed, aborted, unavailable, .. } = site.strong;
        let counts = [("committed", committed), ("aborted", aborted), ("unavailable", unavailable)];
        labelled("outcome", counts)
    });
    render_metric(text, sites, "solera_ignored_messages_total", |site| {
        labelled("protocol", site.ignored_messages.iter().map(|(protocol, it)| (protocol, *it)))
    });
    render_metric(text, sites, "solera_commands_total", |site| {
        labelled("command", site.commands.iter().map(|(command, count)| (command, *count)))
    });
    render_metric(text, sites, "solera_lag_seconds", |site| {
        let known = site.lag_ms.iter().filter_map(|(other, lag)| Some((other, (*lag)?)));
        labelled("behind", known.map(|(other, lag)| (other, lag / 1000.0)))
    });
}

/// Returns values, each with the text of one more label. The text of a label is not escaped.
fn labelled<L: fmt::Display, V>(
    name: &'static str,
    values: impl IntoIterator<Item = (L, V)>,
) -> impl Iterator<Item = (String, V)> {
    values.into_iter().map(move |(of, value)| (format!(",{name}=\"{of}\""), value))
}

/// Renders the metrics of reads at a chosen level and of intervals.
fn render_reads(text: &mut String, sites: &[SiteStatus]) {
    render_metric(text, sites, "solera_reads_total", |site| {
        let of = |bound: &'static str, counts: [u64; READ_LEVELS.len()]| {
            let counts = READ_LEVELS.into_iter().zip(counts);
            counts
                .map(move |(level, count)| (format!(",bound=\"{bound}\",level=\"{level}\""), count))
        };
        of("at", site.reads.at).chain(of("within", site.reads.within))
    });
    render_metric(text, sites, "solera_read_attempts_total", |site| {
        let Attempts { answered, cancelled, failed } = site.reads.attempts;
        labelled("outcome", [("answered", answered), ("cancelled", cancelled), ("failed", failed)])
    });
}

/// Renders the metrics of keys with bounds, if a space has one.
fn render_bounds(text: &mut String, sites: &[SiteStatus]) {
    type Value = (&'static str, fn(&Counts) -> u64);
    const VALUES: [Value; 3] = [
        ("solera_bound_updates_total", |it| it.updates),
        ("solera_bound_waits_total", |it| it.waits),
        ("solera_bound_ended_grants_total", |it| it.ended),
    ];
    if sites.iter().all(|site| site.bounds.is_none()) {
        return;
    }
    render_metric(text, sites, "solera_intervals_total", |site| {
        [(String::new(), site.reads.intervals)]
    });
    render_metric(text, sites, "solera_interval_failures_total", |site| {
        labelled("reason", INTERVAL_FAILURES.into_iter().zip(site.reads.interval_failures))
    });
    let bounds = |site: &SiteStatus| site.bounds.unwrap_or_default();
    for (name, value) in VALUES {
        render_metric(text, sites, name, |site| [(String::new(), value(&bounds(site)))]);
    }
    render_metric(text, sites, "solera_bound_wait_seconds_total", |site| {
        [(String::new(), bounds(site).waited.as_secs_f64())]
    });
    render_metric(text, sites, "solera_bound_refusals_total", |site| {
        labelled("reason", REFUSALS.into_iter().zip(bounds(site).refused))
    });
    render_metric(text, sites, "solera_bound_changes_total", |site| {
        labelled("change", CHANGES.into_iter().zip(bounds(site).changes))
    });
    render_metric(text, sites, "solera_bound_moved_rights_total", |site| {
        let bounds = bounds(site);
        labelled("direction", [("given", bounds.given), ("received", bounds.received)])
    });
    render_metric(text, sites, "solera_bound_held", |site| {
        let held = bounds(site).held;
        let rights = u128::try_from(held.rights).unwrap_or_default();
        let tokens = [("increments", held.increments), ("decrements", held.decrements)];
        labelled("kind", tokens.into_iter().chain([("rights", rights)]))
    });
}

/// Renders the metrics of `primary`, if a space needs it.
fn render_primary(text: &mut String, sites: &[SiteStatus]) {
    type Value = (&'static str, fn(&PrimaryStatus) -> u64);
    const VALUES: [Value; 5] = [
        ("solera_primary_keys", |it| it.keys),
        ("solera_primary_pending_updates", |it| it.pending_updates),
        ("solera_primary_unsettled_updates", |it| it.unsettled_updates),
        ("solera_primary_home_partitions", |it| it.home_of),
        ("solera_primary_dropped_replies_total", |it| it.dropped_replies),
    ];
    if sites.iter().all(|site| site.primary.is_none()) {
        return;
    }
    for (name, value) in VALUES {
        let one = |site: &SiteStatus| site.primary.map(|it| (String::new(), value(&it)));
        render_metric(text, sites, name, one);
    }
}

/// Renders the metrics of Occult, if a space needs it.
fn render_occult(text: &mut String, sites: &[SiteStatus]) {
    type Value = (&'static str, fn(&OccultStatus) -> u64);
    const VALUES: [Value; 7] = [
        ("solera_occult_keys", |it| it.keys),
        ("solera_occult_home_shards", |it| it.home_shards),
        ("solera_occult_arriving_shards", |it| it.arriving_shards),
        ("solera_occult_open_transactions", |it| it.open_transactions),
        ("solera_occult_prepared_transactions", |it| it.prepared_transactions),
        ("solera_occult_outcome_records", |it| it.outcome_records),
        ("solera_occult_hidden_writes", |it| it.hidden_writes),
    ];
    if sites.iter().all(|site| site.occult.is_none()) {
        return;
    }
    for (name, value) in VALUES {
        let one = |site: &SiteStatus| site.occult.map(|it| (String::new(), value(&it)));
        render_metric(text, sites, name, one);
    }
}

/// Renders the metrics of the space of level `speculative`, if there is one.
fn render_speculative(text: &mut String, sites: &[SiteStatus]) {
    type Value = (&'static str, fn(&SpeculativeStatus) -> u64);
    const VALUES: [Value; 9] = [
        ("solera_speculative_committed_operations_total", |it| it.committed),
        ("solera_speculative_final_operations_total", |it| it.final_operations),
        ("solera_speculative_tentative_operations", |it| it.tentative),
        ("solera_speculative_executions_total", |it| it.executions),
        ("solera_speculative_predicted_operations_total", |it| it.predicted),
        ("solera_speculative_accurate_operations_total", |it| it.accurate),
        ("solera_speculative_kept_operations", |it| it.kept),
        ("solera_speculative_leads", |it| it.leads),
        ("solera_speculative_differing_sites", |it| it.differing_sites),
    ];
    if sites.iter().all(|site| site.speculative.is_none()) {
        return;
    }
    for (name, value) in VALUES {
        let one = |site: &SiteStatus| site.speculative.map(|it| (String::new(), value(&it)));
        render_metric(text, sites, name, one);
    }
}

/// Renders a metric with its values at each site, and with the further labels of each value.
fn render_metric<'a, V: fmt::Display, I: IntoIterator<Item = (String, V)>>(
    text: &mut String,
    sites: &'a [SiteStatus],
    name: &str,
    values: impl Fn(&'a SiteStatus) -> I,
) {
    head(text, name);
    for site in sites {
        for (labels, value) in values(site) {
            let _ = writeln!(text, "{name}{{site=\"{}\"{labels}}} {value}", site.name);
        }
    }
}

/// Renders a histogram of durations. Each bucket is an upper bound in microseconds and a count; the
/// last bucket has no upper bound.
fn render_histogram(
    text: &mut String,
    (metric, site): (&str, &str),
    buckets: &[(u64, u64)],
    sum_us: u64,
) {
    let mut count = 0;
    for (upper, more) in buckets.iter().take(buckets.len().saturating_sub(1)) {
        count += more;
        let le = *upper as f64 / 1e6;
        let _ = writeln!(text, "{metric}_bucket{{site=\"{site}\",le=\"{le}\"}} {count}");
    }
    count += buckets.last().map_or(0, |(_, more)| *more);
    let _ = writeln!(text, "{metric}_bucket{{site=\"{site}\",le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "{metric}_sum{{site=\"{site}\"}} {}", sum_us as f64 / 1e6);
    let _ = writeln!(text, "{metric}_count{{site=\"{site}\"}} {count}");
}

type JournalMetric = (&'static str, fn(&JournalSample) -> Option<f64>);

const JOURNAL_METRICS: [JournalMetric; 9] = [
    ("solera_journal_records_total", |it| Some(it.stats.records as f64)),
    ("solera_journal_bytes_total", |it| Some(it.stats.bytes as f64)),
    ("solera_journal_waiting_bytes", |it| Some(it.stats.waiting_bytes as f64)),
    ("solera_journal_segments", |it| Some(it.stats.segments as f64)),
    ("solera_journal_disk_bytes", |it| Some(it.disk_bytes as f64)),
    ("solera_checkpoints_total", |it| Some(it.checkpoints as f64)),
    ("solera_checkpoint_timestamp_seconds", |it| it.checkpoint_at_s),
    ("solera_checkpoint_duration_seconds", |it| it.checkpoint_took_s),
    ("solera_journal_records_since_checkpoint", |it| Some(it.since_checkpoint as f64)),
];

/// Renders the metrics of the journals; empty without journals.
fn render_journals(sites: &[SiteStatus]) -> String {
    let mut text = String::new();
    let journals: Vec<(&str, &JournalSample)> =
        sites.iter().filter_map(|site| Some((&*site.name, site.journal.as_ref()?))).collect();
    if journals.is_empty() {
        return text;
    }
    for (name, value) in JOURNAL_METRICS {
        head(&mut text, name);
        for (site, journal) in &journals {
            if let Some(value) = value(journal) {
                let _ = writeln!(text, "{name}{{site=\"{site}\"}} {value}");
            }
        }
    }
    let metric = "solera_journal_sync_seconds";
    head(&mut text, metric);
    for (site, journal) in &journals {
        let counts = journal.stats.syncs.iter().enumerate();
        let buckets: Vec<_> = counts.map(|(i, count)| (1 << i, *count)).collect();
        render_histogram(&mut text, (metric, site), &buckets, journal.stats.sync_sum_us);
    }
    text
}

fn render_memory(memory: MemoryStatus) -> String {
    let mut text = String::new();
    let gauges = [
        ("solera_memory_bytes", Some(memory.used_bytes)),
        ("solera_memory_limit_bytes", memory.max_bytes),
    ];
    for (name, value) in gauges {
        head(&mut text, name);
        if let Some(value) = value {
            let _ = writeln!(text, "{name} {value}");
        }
    }
    text
}

fn render_incomplete(incomplete: Option<Incomplete>) -> String {
    let mut text = String::new();
    let Some(incomplete) = incomplete else { return text };
    let Incomplete { open, denied, failed, unreadable, unasked_spaces, recovered } = incomplete;
    let name = "solera_incomplete_transactions";
    head(&mut text, name);
    let states =
        [("open", open), ("denied", denied), ("failed", failed), ("unreadable", unreadable)];
    for (state, count) in states {
        let _ = writeln!(text, "{name}{{state=\"{state}\"}} {count}");
    }
    let name = "solera_incomplete_unasked_spaces";
    head(&mut text, name);
    let _ = writeln!(text, "{name} {unasked_spaces}");
    let name = "solera_recovered_transactions_total";
    head(&mut text, name);
    let _ = writeln!(text, "{name} {recovered}");
    text
}

type LinkMetric = (&'static str, fn(&PeerStatus) -> u64);

const LINK_METRICS: [LinkMetric; 4] = [
    ("solera_link_up", |link| u64::from(link.up)),
    ("solera_link_queue_bytes", |link| link.queue_bytes as u64),
    ("solera_link_dropped_total", |link| link.dropped_batches),
    ("solera_link_reconnects_total", |link| link.reconnects),
];

/// Renders the metrics of a node's links; empty for a whole cluster, whose links are in memory.
fn render_links(sites: &[ReachedSite]) -> String {
    let mut text = String::new();
    if sites.is_empty() {
        return text;
    }
    for (name, value) in LINK_METRICS {
        head(&mut text, name);
        for site in sites {
            for link in &site.nodes {
                let (to, node) = (&site.name, link.node);
                let _ =
                    writeln!(text, "{name}{{to_site=\"{to}\",to_node=\"{node}\"}} {}", value(link));
            }
        }
    }
    text
}

/// A number of refusals, with the other node's site, empty if unknown, and the reason.
pub(crate) type RefusedCount = (String, &'static str, u64);

/// Renders the counts of refused handshakes and frames.
fn render_refused([handshakes, frames]: &[Vec<RefusedCount>; 2]) -> String {
    let mut text = String::new();
    let metrics =
        [("solera_refused_handshakes_total", handshakes), ("solera_refused_frames_total", frames)];
    for (name, counts) in metrics {
        head(&mut text, name);
        for (site, reason, count) in counts {
            let labels = format!("peer_site=\"{site}\",reason=\"{reason}\"");
            let _ = writeln!(text, "{name}{{{labels}}} {count}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use solera_journal::Stats;

    use super::*;

    fn everything() -> String {
        let mut journal = JournalSample { checkpoint_at_s: Some(9.0), ..JournalSample::default() };
        let other = Stats { records: 3, syncs: vec![1, 0, 2], sync_sum_us: 7, ..Stats::default() };
        let other = JournalSample { stats: other, checkpoint_at_s: Some(5.0), ..journal.clone() };
        journal.add(&other);
        let site = SiteStatus {
            primary: Some(PrimaryStatus::default()),
            occult: Some(OccultStatus::default()),
            speculative: Some(SpeculativeStatus::default()),
            bounds: Some(Counts::default()),
            name: "eu".to_owned(),
            versions: Some(3),
            bytes: Some(100),
            space_keys: [("a\"b".to_owned(), 2)].into(),
            commands: [("get", 1)].into(),
            batch_us: vec![(1, 2), (2, 3), (4, 5)],
            batch_sum_us: 1_500_000,
            leaders: [("us".to_owned(), 4)].into(),
            ignored_messages: [("unistore", 0)].into(),
            lag_ms: [("us".to_owned(), Some(2.0)), ("asia".to_owned(), None)].into(),
            uniformity_ms: None,
            journal: Some(journal),
            ..SiteStatus::default()
        };
        let link = PeerStatus {
            node: 1,
            address: "h:1".to_owned(),
            up: true,
            up_ms: 0,
            queue_bytes: 0,
            dropped_batches: 0,
            reconnects: 0,
            problem: None,
        };
        let reached = ReachedSite {
            name: "us".to_owned(),
            status: "member".to_owned(),
            reached: true,
            nodes: vec![link],
        };
        let memory = MemoryStatus { used_bytes: 7, max_bytes: Some(9), full: false };
        let refused = || vec![("us".to_owned(), "damaged", 1)];
        let refused = Some([refused(), refused()]);
        render(&[site], &[reached], memory, Some(Incomplete::default()), refused)
    }

    #[test]
    fn the_table_has_every_metric_and_no_other() {
        let text = everything();
        let shown: BTreeSet<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        assert_eq!(shown, METRICS.iter().map(|metric| metric.name).collect());
    }

    #[test]
    fn values_have_the_labels_of_the_table() {
        let mut seen = BTreeSet::new();
        for line in everything().lines().filter(|line| !line.starts_with('#')) {
            let series = line.rsplit_once(' ').unwrap().0;
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let of = |metric: &&Metric| match metric.kind {
                "histogram" => name.starts_with(metric.name),
                _ => name == metric.name,
            };
            let metric = METRICS.iter().find(of).unwrap();
            let labels = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0));
            let labels: Vec<_> = labels.filter(|label| !["site", "le"].contains(label)).collect();
            assert_eq!(labels, metric.labels, "{line}");
            seen.insert(metric.name);
        }
        let unseen: Vec<_> = METRICS.iter().filter(|metric| !seen.contains(metric.name)).collect();
        assert!(unseen.iter().all(|metric| metric.labels.is_empty()), "{unseen:?}");
    }

    #[test]
    fn every_line_is_one_that_prometheus_reads() {
        let text = everything();
        let mut described = String::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                described = rest.split(' ').next().unwrap().to_owned();
            } else if !line.starts_with('#') {
                let (series, value) = line.rsplit_once(' ').unwrap();
                let name = series.split('{').next().unwrap();
                assert!(name.starts_with(&described), "{line}");
                assert!(
                    (series == name || series.ends_with('}')) && value.parse::<f64>().is_ok(),
                    "{line}"
                );
            }
        }
        assert!(text.contains(r#"solera_space_keys{site="eu",space="a\"b"} 2"#), "{text}");
    }

    #[test]
    fn unknown_values_are_not_rendered() {
        let text = everything();
        assert!(text.contains(r#"solera_lag_seconds{site="eu",behind="us"} 0.002"#), "{text}");
        assert!(!text.contains("asia") && !text.contains("solera_uniformity_delay_seconds{"));
    }

    #[test]
    fn the_journals_of_several_workers_are_added() {
        let text = everything();
        for line in [
            r#"solera_journal_records_total{site="eu"} 3"#,
            r#"solera_checkpoint_timestamp_seconds{site="eu"} 5"#,
            r#"solera_journal_sync_seconds_bucket{site="eu",le="0.000002"} 1"#,
            r#"solera_journal_sync_seconds_bucket{site="eu",le="+Inf"} 3"#,
            r#"solera_journal_sync_seconds_sum{site="eu"} 0.000007"#,
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
        assert!(!text.contains("solera_checkpoint_duration_seconds{"));
        assert_eq!(render_journals(&[SiteStatus::default()]), "");
    }

    #[test]
    fn a_histogram_is_cumulative_and_has_its_sum() {
        let text = everything();
        let batches: Vec<&str> =
            text.lines().filter(|line| line.starts_with("solera_batch_seconds")).collect();
        assert_eq!(
            batches,
            [
                r#"solera_batch_seconds_bucket{site="eu",le="0.000001"} 2"#,
                r#"solera_batch_seconds_bucket{site="eu",le="0.000002"} 5"#,
                r#"solera_batch_seconds_bucket{site="eu",le="+Inf"} 10"#,
                r#"solera_batch_seconds_sum{site="eu"} 1.5"#,
                r#"solera_batch_seconds_count{site="eu"} 10"#,
            ]
        );
    }
}
