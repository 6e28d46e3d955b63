//! The HTTP side: `/status`, `/metrics`, `/health`, `/ready`, `/faults`.

use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;

use crate::cluster::{Cluster, Fault, FaultError};
use crate::status::{PeerStatus, ReachedSite, SiteStatus};

/// Why the HTTP side does not run.
#[derive(Debug)]
pub struct AdminError {
    /// Where it should listen.
    pub address: SocketAddr,
    /// Why it cannot.
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

/// The HTTP side's port. Taken before the cluster starts, so that a port in use is found out early.
pub struct AdminListener {
    listener: tokio::net::TcpListener,
    address: SocketAddr,
}

impl AdminListener {
    /// Takes the port.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn bind(address: SocketAddr) -> Result<AdminListener, AdminError> {
        let listener = tokio::net::TcpListener::bind(address).await;
        match listener {
            Ok(listener) => Ok(AdminListener { listener, address }),
            Err(error) => Err(AdminError { address, error }),
        }
    }

    /// Serves on a port that was taken before, on this thread's event loop.
    ///
    /// # Errors
    /// The event loop does not take it.
    pub fn from_std(listener: std::net::TcpListener) -> std::io::Result<AdminListener> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok(AdminListener { listener: tokio::net::TcpListener::from_std(listener)?, address })
    }

    /// Serves a cluster's status and metrics, and faults if it is all in this process, until `end`
    /// is done.
    ///
    /// # Errors
    /// The server broke down.
    pub async fn serve(
        self,
        cluster: Arc<Cluster>,
        end: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), AdminError> {
        let mut router = Router::new()
            .route("/", get(index))
            .route("/status", get(status))
            .route("/metrics", get(metrics))
            .route("/health", get(async || "alive\n"))
            .route("/ready", get(ready));
        if cluster.here.is_none() {
            router = router.route("/faults", post(faults));
        }
        let router = router.with_state(cluster);
        let address = self.address;
        axum::serve(self.listener, router)
            .with_graceful_shutdown(end)
            .await
            .map_err(|error| AdminError { address, error })
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

async fn status(State(cluster): State<Arc<Cluster>>, Query(detail): Query<Detail>) -> Response {
    match cluster.node_status(detail.detailed).await {
        Some(status) => Json(status).into_response(),
        None => Json(cluster.status(detail.detailed).await).into_response(),
    }
}

async fn ready(State(cluster): State<Arc<Cluster>>) -> (StatusCode, &'static str) {
    if cluster.is_ready() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "another node of the site cannot be reached\n")
    }
}

async fn faults(State(cluster): State<Arc<Cluster>>, body: String) -> Response {
    let fault: Fault = match serde_json::from_str(&body) {
        Ok(fault) => fault,
        Err(error) => {
            let answer = Json(json!({ "error": format!("this is no fault: {error}") }));
            return (StatusCode::BAD_REQUEST, answer).into_response();
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
            (code, Json(json!({ "error": error.to_string() }))).into_response()
        }
    }
}

async fn metrics(State(cluster): State<Arc<Cluster>>) -> Response {
    let (sites, reached) = cluster.measured().await;
    let text = render(&sites) + &render_links(&reached);
    ([("content-type", "text/plain; version=0.0.4")], text).into_response()
}

type Gauge = (&'static str, &'static str, fn(&SiteStatus) -> f64);

const GAUGES: [Gauge; 9] = [
    ("solera_site_alive", "Whether the site runs.", |s| f64::from(u8::from(s.alive))),
    ("solera_keys", "Keys stored at the site.", |s| s.keys as f64),
    ("solera_versions", "Versions of keys stored at the site.", |s| s.versions.unwrap_or(0) as f64),
    ("solera_data_bytes", "Approximate bytes of keys and versions.", |s| {
        s.bytes.unwrap_or(0) as f64
    }),
    ("solera_connections", "Client connections.", |s| s.connections as f64),
    (
        "solera_uniformity_delay_seconds",
        "Age of the newest own state that is durable elsewhere.",
        |s| s.uniformity_ms / 1000.0,
    ),
    ("solera_open_transactions", "Open transactions.", |s| s.open_transactions as f64),
    ("solera_prepared_transactions", "Transactions between prepare and commit.", |s| {
        s.prepared_transactions as f64
    }),
    ("solera_unsettled_updates", "Updates that some site may still need.", |s| {
        s.unsettled_updates as f64
    }),
];

/// Writing to a string cannot fail, so results are dropped.
fn render(sites: &[SiteStatus]) -> String {
    let mut text = String::new();
    let head = |text: &mut String, name: &str, help: &str, kind: &str| {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    };
    for (name, help, value) in GAUGES {
        head(&mut text, name, help, "gauge");
        for site in sites {
            let _ = writeln!(text, "{name}{{site=\"{}\"}} {}", site.name, value(site));
        }
    }
    head(&mut text, "solera_commands_total", "Commands processed.", "counter");
    for site in sites {
        for (command, count) in &site.commands {
            let _ = writeln!(
                text,
                "solera_commands_total{{site=\"{}\",command=\"{command}\"}} {count}",
                site.name
            );
        }
    }
    head(&mut text, "solera_errors_total", "Error replies.", "counter");
    for site in sites {
        let _ = writeln!(text, "solera_errors_total{{site=\"{}\"}} {}", site.name, site.errors);
    }
    head(
        &mut text,
        "solera_failed_logins_total",
        "Attempts to authenticate that failed.",
        "counter",
    );
    for site in sites {
        let (name, failed) = (&site.name, site.failed_logins);
        let _ = writeln!(text, "solera_failed_logins_total{{site=\"{name}\"}} {failed}");
    }
    head(
        &mut text,
        "solera_lag_seconds",
        "How far the site's visible state is behind another site.",
        "gauge",
    );
    for site in sites {
        for (other, lag) in &site.lag_ms {
            let _ = writeln!(
                text,
                "solera_lag_seconds{{site=\"{}\",behind=\"{other}\"}} {}",
                site.name,
                lag / 1000.0
            );
        }
    }
    head(&mut text, "solera_batch_seconds", "Time to process a batch of commands.", "histogram");
    for site in sites {
        let mut sum = 0;
        for (upper, count) in &site.batch_us {
            sum += count;
            let _ = writeln!(
                text,
                "solera_batch_seconds_bucket{{site=\"{}\",le=\"{}\"}} {sum}",
                site.name,
                *upper as f64 / 1e6
            );
        }
        let name = &site.name;
        let _ = writeln!(text, "solera_batch_seconds_bucket{{site=\"{name}\",le=\"+Inf\"}} {sum}");
        let _ = writeln!(text, "solera_batch_seconds_count{{site=\"{name}\"}} {sum}");
    }
    text
}

type LinkGauge = (&'static str, &'static str, &'static str, fn(&PeerStatus) -> u64);

const LINK_GAUGES: [LinkGauge; 4] = [
    ("solera_link_up", "gauge", "Whether messages pass to another node and back.", |link| {
        u64::from(link.up)
    }),
    ("solera_link_queue_bytes", "gauge", "What waits to be sent to another node.", |link| {
        link.queue_bytes as u64
    }),
    ("solera_link_dropped_total", "counter", "Batches dropped because too much waited.", |link| {
        link.dropped_batches
    }),
    ("solera_link_reconnects_total", "counter", "Connections made again.", |link| link.reconnects),
];

/// The links of a node; nothing for a whole cluster, whose links are in memory.
fn render_links(sites: &[ReachedSite]) -> String {
    let mut text = String::new();
    if sites.is_empty() {
        return text;
    }
    for (name, kind, help, value) in LINK_GAUGES {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
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
