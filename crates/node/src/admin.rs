//! The HTTP endpoints: `/status`, `/metrics`, `/health`, `/ready` and `/faults`.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use serde::Deserialize;
use serde_json::json;
use solera_config::User;
use solera_time::SiteId;
use solera_unistore::StrongCounts;

use crate::attempts::Attempts;
use crate::cluster::{Cluster, Fault, FaultError};
use crate::http::{self, refusal};
use crate::http_auth::{Guard, guard};
use crate::modules::Incomplete;
use crate::network::NoWrites;
use crate::status::{
    JournalSample, MemoryStatus, PeerStatus, PrimaryStatus, ReachedSite, SiteStatus,
};

/// Reason why the HTTP server cannot run.
#[derive(Debug)]
pub struct AdminError {
    /// Address of the HTTP port.
    pub address: SocketAddr,
    /// Reason.
    pub error: std::io::Error,
}

impl fmt::Display for AdminError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AdminError { address, error } = self;
        match error.kind() {
            std::io::ErrorKind::AddrInUse => write!(
                f,
                "HTTP cannot listen on {address}: the port is in use by another program; choose \
                 another base with --port"
            ),
            _ => write!(f, "HTTP cannot listen on {address}: {error}"),
        }
    }
}

impl std::error::Error for AdminError {}

/// Port of the HTTP server. It is bound before the cluster starts, so that a port in use is
/// reported early.
pub struct AdminListener {
    listener: tokio::net::TcpListener,
}

impl AdminListener {
    /// Binds the port.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn bind(address: SocketAddr) -> Result<AdminListener, AdminError> {
        let listener = tokio::net::TcpListener::bind(address).await;
        match listener {
            Ok(listener) => Ok(AdminListener { listener }),
            Err(error) => Err(AdminError { address, error }),
        }
    }

    /// Registers a port that is already bound with this thread's event loop.
    ///
    /// # Errors
    /// The event loop rejects the port.
    pub fn from_std(listener: std::net::TcpListener) -> std::io::Result<AdminListener> {
        listener.set_nonblocking(true)?;
        Ok(AdminListener { listener: tokio::net::TcpListener::from_std(listener)? })
    }

    /// Serves status and metrics of a cluster to authorised users, and faults if this process runs
    /// the whole cluster. Returns after `end` completes; pending requests then have one more
    /// second.
    pub async fn serve(self, cluster: Arc<Cluster>, end: impl Future<Output = ()>) {
        let mut router = Router::new()
            .route("/", get(index))
            .route("/status", get(status))
            .route("/metrics", get(metrics))
            .route("/health", get(async || "alive\n"))
            .route("/ready", get(ready));
        if cluster.here.is_none() {
            router = router.route("/faults", post(faults));
        }
        let attempts = Arc::new(Mutex::new(Attempts::default()));
        let tls = cluster.admin_tls.clone();
        let guarded = Guard { cluster: cluster.clone(), attempts };
        let router = router
            .fallback(unknown)
            .method_not_allowed_fallback(not_allowed)
            .layer(from_fn_with_state(guarded, guard))
            .with_state(cluster);
        http::serve(self.listener, tls, router, end).await;
    }
}

#[derive(Deserialize)]
struct Detail {
    #[serde(default)]
    detailed: bool,
}

async fn index() -> &'static str {
    "Solera\n\nGET  /status    what is going on, as JSON (?detailed=true counts versions and bytes)\n\
     GET  /metrics   the same for Prometheus; of a single node only its own\n\
     GET  /health    200 while the process lives\n\
     GET  /ready     200 while it can serve all keys of its site, else 503\n\
     POST /faults    (`solera up` only) let something go wrong: {\"fault\": \"cut\", \"a\": \"1\", \"b\": \"2\"},\n\
     \x20               heal, kill {site}, restart {site}, delay {a, b, ms}\n"
}

async fn unknown(uri: Uri) -> Response {
    refusal(StatusCode::NOT_FOUND, format!("there is no {}; / lists the endpoints", uri.path()))
}

async fn not_allowed(method: Method, uri: Uri) -> Response {
    let reason = format!("{} does not support {method}; / lists the endpoints", uri.path());
    refusal(StatusCode::METHOD_NOT_ALLOWED, reason)
}

async fn status(
    State(cluster): State<Arc<Cluster>>,
    Extension(user): Extension<Arc<User>>,
    detail: Result<Query<Detail>, QueryRejection>,
) -> Response {
    let detail = match detail {
        Ok(Query(detail)) => detail,
        Err(error) => return refusal(StatusCode::BAD_REQUEST, error.body_text()),
    };
    // Many users may read the status, but keys are user data.
    let names_keys = user.may_run("solera.at-risk");
    if let Some(mut status) = cluster.node_status(detail.detailed).await {
        if let Some(here) = cluster.here.as_ref().filter(|_| names_keys) {
            let (site, missing) = (here.id.site, &status.missing_nodes);
            cluster.name_keys_at_risk(site, &mut status.own_site, missing).await;
        }
        return Json(status).into_response();
    }
    let mut status = cluster.status(detail.detailed).await;
    if names_keys {
        for (site, status) in SiteId::all(status.sites.len()).zip(&mut status.sites) {
            cluster.name_keys_at_risk(site, status, &[]).await;
        }
    }
    Json(status).into_response()
}

async fn ready(State(cluster): State<Arc<Cluster>>) -> (StatusCode, Cow<'static, str>) {
    // Anyone may ask, so the answer names no files.
    let failing = cluster.network.no_writes().map(|why| match why {
        NoWrites::Full(_) => {
            "this process takes no writes: a disk is nearly full; see takes_no_writes in /status\n"
        }
        NoWrites::Failed(_) => {
            "a journal of this process has failed: until the process is restarted, it takes no writes and \
             may answer no reads; see takes_no_writes in /status\n"
        }
    });
    if let Some(reason) = failing {
        return (StatusCode::SERVICE_UNAVAILABLE, reason.into());
    }
    if cluster.is_ready() {
        return (StatusCode::OK, "ready\n".into());
    }
    let reason = if cluster.network.is_draining() {
        "the process is stopping\n".into()
    } else if let Some(refused) = cluster.refused() {
        format!("{refused}\n").into()
    } else if !cluster.network.serves() {
        "the site is copying its data from the other sites\n".into()
    } else {
        "another node of the site cannot be reached\n".into()
    };
    (StatusCode::SERVICE_UNAVAILABLE, reason)
}

async fn faults(State(cluster): State<Arc<Cluster>>, request: Request) -> Response {
    if let Err((code, reason)) = is_from_no_web_page(request.headers()) {
        return refusal(code, reason);
    }
    let body = match http::text_of(request).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    let fault: Fault = match serde_json::from_str(&body) {
        Ok(fault) => fault,
        Err(error) => {
            return refusal(StatusCode::BAD_REQUEST, format!("this is not a valid fault: {error}"));
        }
    };
    match cluster.inject(fault).await {
        Ok(()) => Json(json!({ "ok": true })).into_response(),
        Err(error) => {
            let code = match error {
                FaultError::NoSuchSite(..) => StatusCode::NOT_FOUND,
                FaultError::SameSite(_) | FaultError::DelayTooLong(_) => StatusCode::BAD_REQUEST,
                FaultError::AlreadyDead(_)
                | FaultError::Alive(_)
                | FaultError::CannotListen(..) => StatusCode::CONFLICT,
            };
            refusal(code, error.to_string())
        }
    }
}

/// Rejects requests that a web page may have made a browser send. A page may send text to any
/// address without permission, but not JSON, and browsers add the page's origin. A host name that
/// resolves to this host may belong to the page.
fn is_from_no_web_page(headers: &HeaderMap) -> Result<(), (StatusCode, &'static str)> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if headers.contains_key(header::ORIGIN) {
        return Err((StatusCode::FORBIDDEN, "faults are not accepted from web pages"));
    }
    let host = text(header::HOST).and_then(|host| host.parse::<Authority>().ok());
    let is_own = host.is_some_and(|host| {
        let bare = host.host().trim_start_matches('[').trim_end_matches(']');
        bare.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
    });
    if !is_own {
        let reason = "faults are accepted only under the address of this host, or as localhost";
        return Err((StatusCode::FORBIDDEN, reason));
    }
    let kind = text(header::CONTENT_TYPE).unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let reason = "a fault is JSON: send it with content-type: application/json";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
    }
    Ok(())
}

async fn metrics(State(cluster): State<Arc<Cluster>>) -> Response {
    let (sites, reached) = cluster.measured().await;
    let text = render(&sites)
        + &render_journals(&sites)
        + &render_memory(cluster.memory_status())
        + &render_incomplete(cluster.incomplete())
        + &render_links(&reached);
    ([("content-type", "text/plain; version=0.0.4")], text).into_response()
}

type Counter = (&'static str, &'static str, fn(&SiteStatus) -> u64);

const COUNTERS: [Counter; 6] = [
    (
        "solera_certification_ignored_total",
        "Certification messages that were duplicates, too late, or from the future.",
        |s| s.strong.ignored,
    ),
    (
        "solera_certification_reserved_total",
        "Votes for which leaders of the site reserved keys after an abort.",
        |s| s.strong.reserved,
    ),
    (
        "solera_certification_waited_total",
        "Transactions that leaders of the site delayed for one that was aborted before.",
        |s| s.strong.waited,
    ),
    ("solera_errors_total", "Error replies.", |s| s.errors),
    ("solera_failed_logins_total", "Attempts to authenticate that failed.", |s| s.failed_logins),
    (
        "solera_refused_connections_total",
        "Connections that were rejected: failed TLS handshakes, or too many clients.",
        |s| s.refused_connections,
    ),
];

type Gauge = (&'static str, &'static str, fn(&SiteStatus) -> Option<f64>);

const GAUGES: [Gauge; 10] = [
    ("solera_site_alive", "Whether the site runs.", |s| Some(f64::from(u8::from(s.alive)))),
    ("solera_keys", "Keys stored at the site.", |s| Some(s.keys as f64)),
    ("solera_versions", "Versions of keys stored at the site.", |s| {
        s.versions.map(|versions| versions as f64)
    }),
    ("solera_data_bytes", "Approximate bytes of keys and versions.", |s| {
        s.bytes.map(|bytes| bytes as f64)
    }),
    ("solera_connections", "Client connections.", |s| Some(s.connections as f64)),
    (
        "solera_uniformity_delay_seconds",
        "Age of the newest own state that is durable elsewhere.",
        |s| s.uniformity_ms.map(|ms| ms / 1000.0),
    ),
    ("solera_open_transactions", "Open transactions.", |s| Some(s.open_transactions as f64)),
    ("solera_prepared_transactions", "Transactions between prepare and commit.", |s| {
        Some(s.prepared_transactions as f64)
    }),
    ("solera_at_risk_transactions", "Transactions that the loss of sites could undo.", |s| {
        Some(s.at_risk as f64)
    }),
    ("solera_unsettled_updates", "Updates that some site may still need.", |s| {
        Some(s.unsettled_updates as f64)
    }),
];

/// Writing to a string cannot fail, so results are dropped.
fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Escapes the value of a label for Prometheus.
fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn render(sites: &[SiteStatus]) -> String {
    let mut text = String::new();
    head(&mut text, "solera_build_info", "Always 1; its label is the version.", "gauge");
    let version = env!("CARGO_PKG_VERSION");
    let _ = writeln!(text, "solera_build_info{{version=\"{version}\"}} 1");
    for (name, help, value) in GAUGES {
        let one = |site: &SiteStatus| value(site).map(|value| (String::new(), value));
        render_metric(&mut text, sites, (name, help, "gauge"), one);
    }
    for (name, help, value) in COUNTERS {
        let one = |site: &SiteStatus| [(String::new(), value(site))];
        render_metric(&mut text, sites, (name, help, "counter"), one);
    }
    render_primary(&mut text, sites);
    render_labelled(&mut text, sites);
    head(&mut text, "solera_batch_seconds", "Time to process a batch of commands.", "histogram");
    for site in sites {
        let metric = ("solera_batch_seconds", &*site.name);
        render_histogram(&mut text, metric, &site.batch_us, site.batch_sum_us);
    }
    text
}

/// Renders the metrics with further labels besides the site.
fn render_labelled(text: &mut String, sites: &[SiteStatus]) {
    let metric = ("solera_space_keys", "Keys stored at the site, by space.", "gauge");
    render_metric(text, sites, metric, |site| {
        let keys = site.space_keys.iter();
        keys.map(|(space, keys)| (format!(",space=\"{}\"", label(space)), *keys))
    });
    let help = "Partitions, by the site that leads their strong transactions.";
    render_metric(text, sites, ("solera_led_partitions", help, "gauge"), |site| {
        let leaders = site.leaders.iter();
        leaders.map(|(leader, led)| (format!(",leader=\"{leader}\""), *led))
    });
    let help = "Strong transactions of the site's clients, by outcome.";
    let metric = ("solera_strong_transactions_total", help, "counter");
    render_metric(text, sites, metric, |site| {
        let StrongCounts { committed, aborted, unavailable, .. } = site.strong;
        [("committed", committed), ("aborted", aborted), ("unavailable", unavailable)]
            .map(|(outcome, count)| (format!(",outcome=\"{outcome}\""), count))
    });
    let help = "Messages that were dropped: sent by no correct worker, too late, or of a protocol that the site does not run.";
    render_metric(text, sites, ("solera_ignored_messages_total", help, "counter"), |site| {
        let ignored = site.ignored_messages.iter();
        ignored.map(|(protocol, count)| (format!(",protocol=\"{protocol}\""), *count))
    });
    let metric = ("solera_commands_total", "Commands processed.", "counter");
    render_metric(text, sites, metric, |site| {
        let commands = site.commands.iter();
        commands.map(|(command, count)| (format!(",command=\"{command}\""), *count))
    });
    let help = "Lag of the site's visible state behind another site.";
    render_metric(text, sites, ("solera_lag_seconds", help, "gauge"), |site| {
        let known = site.lag_ms.iter().filter_map(|(other, lag)| Some((other, (*lag)?)));
        known.map(|(other, lag)| (format!(",behind=\"{other}\""), lag / 1000.0))
    });
}

/// Renders the metrics of `primary`, if a space needs it.
fn render_primary(text: &mut String, sites: &[SiteStatus]) {
    type Metric = (&'static str, &'static str, &'static str, fn(&PrimaryStatus) -> u64);
    const METRICS: [Metric; 5] = [
        ("keys", "gauge", "Keys of spaces that primary runs.", |it| it.keys),
        ("pending_updates", "gauge", "Updates of clients that wait for their home.", |it| {
            it.pending_updates
        }),
        (
            "unsettled_updates",
            "gauge",
            "Updates at the site that f + 1 sites are not known to store.",
            |it| it.unsettled_updates,
        ),
        ("home_partitions", "gauge", "Partitions of which the site is the home.", |it| it.home_of),
        ("dropped_replies_total", "counter", "Replies that nobody waited for.", |it| {
            it.dropped_replies
        }),
    ];
    if sites.iter().all(|site| site.primary.is_none()) {
        return;
    }
    for (name, kind, help, value) in METRICS {
        let one = |site: &SiteStatus| site.primary.map(|it| (String::new(), value(&it)));
        render_metric(text, sites, (&format!("solera_primary_{name}"), help, kind), one);
    }
}

/// Renders a metric with its values at each site, and with the further labels of each value.
fn render_metric<'a, V: fmt::Display, I: IntoIterator<Item = (String, V)>>(
    text: &mut String,
    sites: &'a [SiteStatus],
    (name, help, kind): (&str, &str, &str),
    values: impl Fn(&'a SiteStatus) -> I,
) {
    head(text, name, help, kind);
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

type JournalMetric = (&'static str, &'static str, &'static str, fn(&JournalSample) -> Option<f64>);

const JOURNAL_METRICS: [JournalMetric; 9] = [
    ("solera_journal_records_total", "counter", "Records appended.", |journal| {
        Some(journal.stats.records as f64)
    }),
    ("solera_journal_bytes_total", "counter", "Bytes appended.", |journal| {
        Some(journal.stats.bytes as f64)
    }),
    ("solera_journal_waiting_bytes", "gauge", "Bytes that wait for the disk.", |journal| {
        Some(journal.stats.waiting_bytes as f64)
    }),
    ("solera_journal_segments", "gauge", "Segments on the disk.", |journal| {
        Some(journal.stats.segments as f64)
    }),
    ("solera_journal_disk_bytes", "gauge", "Bytes of the journals' files.", |journal| {
        Some(journal.disk_bytes as f64)
    }),
    ("solera_checkpoints_total", "counter", "Checkpoints made.", |journal| {
        Some(journal.checkpoints as f64)
    }),
    (
        "solera_checkpoint_timestamp_seconds",
        "gauge",
        "Time of the last checkpoint; of several workers, the earliest.",
        |journal| journal.checkpoint_at_s,
    ),
    (
        "solera_checkpoint_duration_seconds",
        "gauge",
        "Duration of the last checkpoint; of several workers, the longest.",
        |journal| journal.checkpoint_took_s,
    ),
    (
        "solera_journal_records_since_checkpoint",
        "gauge",
        "Records that a recovery would replay.",
        |journal| Some(journal.since_checkpoint as f64),
    ),
];

/// Renders the metrics of the journals; empty without journals.
fn render_journals(sites: &[SiteStatus]) -> String {
    let mut text = String::new();
    let journals: Vec<(&str, &JournalSample)> =
        sites.iter().filter_map(|site| Some((&*site.name, site.journal.as_ref()?))).collect();
    if journals.is_empty() {
        return text;
    }
    for (name, kind, help, value) in JOURNAL_METRICS {
        head(&mut text, name, help, kind);
        for (site, journal) in &journals {
            if let Some(value) = value(journal) {
                let _ = writeln!(text, "{name}{{site=\"{site}\"}} {value}");
            }
        }
    }
    let metric = "solera_journal_sync_seconds";
    head(&mut text, metric, "Time to make written records durable.", "histogram");
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
        ("solera_memory_bytes", "Bytes of memory that the process uses.", Some(memory.used_bytes)),
        ("solera_memory_limit_bytes", "Limit of the bytes of memory.", memory.max_bytes),
    ];
    for (name, help, value) in gauges {
        head(&mut text, name, help, "gauge");
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
    let help = "Transactions of modules that have begun to take effect and are not complete.";
    head(&mut text, name, help, "gauge");
    let states =
        [("open", open), ("denied", denied), ("failed", failed), ("unreadable", unreadable)];
    for (state, count) in states {
        let _ = writeln!(text, "{name}{{state=\"{state}\"}} {count}");
    }
    let name = "solera_incomplete_unasked_spaces";
    let help = "Spaces that could not be searched for them, because their stores did not answer.";
    head(&mut text, name, help, "gauge");
    let _ = writeln!(text, "{name} {unasked_spaces}");
    let name = "solera_recovered_transactions_total";
    let help = "Transactions that the process has completed because their callers did not.";
    head(&mut text, name, help, "counter");
    let _ = writeln!(text, "{name} {recovered}");
    text
}

type LinkGauge = (&'static str, &'static str, &'static str, fn(&PeerStatus) -> u64);

const LINK_GAUGES: [LinkGauge; 4] = [
    ("solera_link_up", "gauge", "Whether messages pass to another node and back.", |link| {
        u64::from(link.up)
    }),
    ("solera_link_queue_bytes", "gauge", "Bytes that wait to be sent to another node.", |link| {
        link.queue_bytes as u64
    }),
    (
        "solera_link_dropped_total",
        "counter",
        "Batches dropped because the queue was full.",
        |link| link.dropped_batches,
    ),
    ("solera_link_reconnects_total", "counter", "Reconnects.", |link| link.reconnects),
];

/// Renders the metrics of a node's links; empty for a whole cluster, whose links are in memory.
fn render_links(sites: &[ReachedSite]) -> String {
    let mut text = String::new();
    if sites.is_empty() {
        return text;
    }
    for (name, kind, help, value) in LINK_GAUGES {
        head(&mut text, name, help, kind);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use solera_config::ClusterSpec;
    use solera_journal::Stats;
    use solera_machine::Address;

    use super::*;

    /// Anyone may ask whether a process is ready, so the answer names no files.
    #[tokio::test]
    async fn readiness_of_a_process_without_writes_gives_the_reason() {
        let spec = ClusterSpec::local(1).unwrap();
        let cluster = Arc::new(Cluster::start(spec, None).unwrap());
        let worker = Address { site: SiteId(0), worker: 0 };
        let file = || "/data/eu".to_owned();
        for (why, start) in [
            (NoWrites::Full(file()), "this process takes no writes: a disk is nearly full;"),
            (
                NoWrites::Failed(file()),
                "a journal of this process has failed: until the process is",
            ),
        ] {
            cluster.network.refuse_writes(worker, why);
            let (code, reason) = ready(State(cluster.clone())).await;
            assert_eq!(code, StatusCode::SERVICE_UNAVAILABLE);
            assert!(reason.starts_with(start) && !reason.contains("/data"), "{reason}");
            assert!(reason.ends_with("; see takes_no_writes in /status\n"), "{reason}");
        }
        cluster.network.withdraw_refusal(worker);
        assert_eq!(ready(State(cluster)).await.0, StatusCode::OK);
    }

    fn everything() -> String {
        let mut journal = JournalSample { checkpoint_at_s: Some(9.0), ..JournalSample::default() };
        let other = Stats { records: 3, syncs: vec![1, 0, 2], sync_sum_us: 7, ..Stats::default() };
        let other = JournalSample { stats: other, checkpoint_at_s: Some(5.0), ..journal.clone() };
        journal.add(&other);
        let site = SiteStatus {
            primary: Some(PrimaryStatus::default()),
            name: "eu".to_owned(),
            versions: Some(3),
            bytes: Some(100),
            space_keys: [("a\"b".to_owned(), 2)].into(),
            commands: [("get", 1)].into(),
            batch_us: vec![(1, 2), (2, 3), (4, 5)],
            batch_sum_us: 1_500_000,
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
            standing: "member".to_owned(),
            reached: true,
            nodes: vec![link],
        };
        let memory = MemoryStatus { used_bytes: 7, max_bytes: Some(9), full: false };
        let sites = [site];
        render(&sites)
            + &render_journals(&sites)
            + &render_memory(memory)
            + &render_incomplete(Some(Incomplete::default()))
            + &render_links(&[reached])
    }

    #[test]
    fn web_pages_make_no_faults() {
        let sent = |lines: &[(&'static str, &str)]| {
            let lines = lines.iter().map(|(name, value)| {
                (name.parse::<header::HeaderName>().unwrap(), value.parse().unwrap())
            });
            is_from_no_web_page(&lines.collect()).map_err(|(code, _)| code.as_u16())
        };
        let json = ("content-type", "application/json; charset=utf-8");
        for host in
            ["127.0.0.1:7100", "localhost:7100", "LocalHost", "[::1]:7100", "[::1]", "10.0.0.1"]
        {
            assert_eq!(sent(&[("host", host), json]), Ok(()), "{host}");
        }
        for host in ["evil.example:7100", "localhost.evil.example", "", "127.0.0.1.evil"] {
            assert_eq!(sent(&[("host", host), json]), Err(403), "{host}");
        }
        let host = ("host", "127.0.0.1:7100");
        assert_eq!(sent(&[json]), Err(403));
        assert_eq!(sent(&[host]), Err(415));
        assert_eq!(sent(&[host, ("content-type", "text/plain")]), Err(415));
        assert_eq!(sent(&[host, json, ("origin", "null")]), Err(403));
    }

    #[test]
    fn the_reference_names_every_metric_and_no_other() {
        let text = everything();
        let shown: BTreeSet<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect();
        let reference = include_str!("../../../docs/reference/README.md");
        let named: BTreeSet<&str> = reference
            .lines()
            .filter(|line| line.starts_with("| `solera_"))
            .flat_map(|line| line.split(" | ").next().unwrap_or("").split('`'))
            .filter(|word| word.starts_with("solera_"))
            .map(|word| word.split('{').next().unwrap_or(word))
            .collect();
        assert_eq!(shown, named);
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
