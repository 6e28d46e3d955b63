//! The HTTP endpoints: `/status`, `/metrics`, `/health`, `/ready` and `/faults`.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Extension, Json, Router};
use serde::Deserialize;
use serde_json::json;
use solera_config::User;
use solera_time::SiteId;

use crate::attempts::Attempts;
use crate::cluster::{Cluster, Fault, FaultError};
use crate::http::{self, refusal};
use crate::http_auth::{Guard, guard};
use crate::metrics;
use crate::network::NoWrites;

/// Error of a request for faults to a node of `solera serve`.
pub const NO_FAULTS: &str = "this is a node of `solera serve`, which has no injected faults; faults are for a \
                             cluster of `solera up`";

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
            .route("/metrics", get(measurements))
            .route("/health", get(async || "alive\n"))
            .route("/ready", get(ready));
        router = match cluster.here {
            None => router.route("/faults", post(faults)),
            Some(_) => router.route("/faults", any(no_faults)),
        };
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
    "Solera\n\nGET  /status    state as JSON (?detailed=true counts versions and bytes)\n\
     GET  /metrics   the same for Prometheus; of a single node only its own\n\
     GET  /health    200 while the process runs\n\
     GET  /ready     200 while it can serve all keys of its site, else 503\n\
     POST /faults    (`solera up` only) inject a fault: {\"fault\": \"cut\", \"a\": \"1\", \"b\": \"2\"},\n\
     \x20               heal, kill {site}, restart {site}, delay {a, b, ms}, skew {site, ms},\n\
     \x20               slow {site, shard, ms}\n"
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
        // No other part of the query can be invalid.
        Err(_) => {
            let reason = "detailed is true or false, as in /status?detailed=true";
            return refusal(StatusCode::BAD_REQUEST, reason);
        }
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
    // Anyone may send this request, so the response names no files.
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

async fn no_faults() -> Response {
    refusal(StatusCode::NOT_FOUND, NO_FAULTS)
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
                FaultError::NoSuchSite(..) | FaultError::NoSuchShard(..) | FaultError::NoShards => {
                    StatusCode::NOT_FOUND
                }
                FaultError::SameSite(_)
                | FaultError::DelayTooLong(_)
                | FaultError::SkewTooLong(_)
                | FaultError::SlownessTooLong(_) => StatusCode::BAD_REQUEST,
                FaultError::AlreadyDead(_)
                | FaultError::HomeOfShard(..)
                | FaultError::NoAnswer(..)
                | FaultError::Alive(_)
                | FaultError::CannotListen(..) => StatusCode::CONFLICT,
            };
            refusal(code, error.to_string())
        }
    }
}

/// Rejects requests that a browser may have sent for a web page. Without permission, a page can
/// make a browser send text to any address, but not JSON, and the browser adds the page's origin.
/// Requests must name the host by its address or as localhost, because a page's own host name may
/// resolve to this host.
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

async fn measurements(State(cluster): State<Arc<Cluster>>) -> Response {
    let (sites, reached) = cluster.measured().await;
    let text = metrics::render(
        &sites,
        &reached,
        cluster.memory_status(),
        cluster.incomplete(),
        cluster.refused_of_peers(),
    );
    ([("content-type", "text/plain; version=0.0.4")], text).into_response()
}

#[cfg(test)]
mod tests {
    use solera_config::ClusterSpec;
    use solera_machine::Address;

    use super::*;

    /// Anyone may request whether a process is ready, so the response names no files.
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
}
