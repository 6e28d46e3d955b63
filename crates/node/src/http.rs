//! An HTTP server with limits on the duration and size of requests, and on the time of pending
//! requests when the process ends.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router, body};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::connection_limiter::ConnectionLimiter;

/// Timeout of a request's head, and of an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of a request's body.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest accepted body, in bytes.
const BODY_LIMIT: usize = 64 * 1024;
/// Number of simultaneous connections. When there are more, older ones are closed.
pub(crate) const CONNECTIONS: usize = 128;
/// Time that pending requests have when the process ends.
const GRACE: Duration = Duration::from_secs(1);

/// Address from which a request comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From(pub(crate) SocketAddr);

/// Returns an error response: JSON with the field `error`.
pub(crate) fn refusal(code: StatusCode, error: impl Into<String>) -> Response {
    (code, Json(json!({ "error": error.into() }))).into_response()
}

/// Returns the body of a request as text.
///
/// # Errors
/// The response to a body that is too long, too slow or not UTF-8.
pub(crate) async fn text_of(request: Request) -> Result<String, Response> {
    let too_long = || {
        let reason = format!("the body is longer than {BODY_LIMIT} bytes");
        closing(refusal(StatusCode::PAYLOAD_TOO_LARGE, reason))
    };
    let announced = request.headers().get(header::CONTENT_LENGTH);
    let announced = announced.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > BODY_LIMIT as u64) {
        return Err(too_long());
    }
    let read = body::to_bytes(request.into_body(), BODY_LIMIT);
    let bytes = match timeout(BODY_TIMEOUT, read).await {
        Ok(Ok(bytes)) => bytes,
        // Reading also fails if the connection breaks, but then the response is not read.
        Ok(Err(_)) => return Err(too_long()),
        Err(_) => {
            let reason = format!("the body did not arrive within {} s", BODY_TIMEOUT.as_secs());
            return Err(closing(refusal(StatusCode::REQUEST_TIMEOUT, reason)));
        }
    };
    String::from_utf8(bytes.into())
        .map_err(|_| refusal(StatusCode::BAD_REQUEST, "the body is not UTF-8"))
}

/// Closes the connection after the response, without waiting for the rest of the request.
fn closing(mut answer: Response) -> Response {
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

/// Serves requests, over TLS if `tls` is set, until `end` completes. Pending requests are then
/// answered within [`GRACE`].
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ArcSwap<TlsAcceptor>>>,
    router: Router,
    end: impl Future<Output = ()>,
) {
    let (ending, ended) = watch::channel(false);
    let mut connections = JoinSet::new();
    let limiter = Arc::new(ConnectionLimiter::default());
    tokio::pin!(end);
    loop {
        tokio::select! {
            biased;
            () = &mut end => break,
            // The outcome of a connection does not matter.
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    let tls = tls.as_ref().map(|tls| tls.load_full());
                    let router = router.clone().layer(Extension(From(from)));
                    let permit = limiter.admit(from.ip(), CONNECTIONS);
                    let taking = take(stream, tls, router, ended.clone());
                    connections.spawn(async move {
                        tokio::select! {
                            () = taking => {}
                            () = permit.must_close() => {}
                        }
                    });
                }
                // Most likely no descriptor is free; another connection may end meanwhile.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
        }
    }
    drop(listener);
    ending.send_replace(true);
    let all_gone = async { while connections.join_next().await.is_some() {} };
    // Dropping the set ends the remaining connections.
    let _ = timeout(GRACE, all_gone).await;
}

/// Serves HTTP on a connection.
async fn take(
    stream: TcpStream,
    tls: Option<Arc<TlsAcceptor>>,
    router: Router,
    ended: watch::Receiver<bool>,
) {
    match tls {
        None => talk(stream, router, ended).await,
        Some(tls) => {
            // A client without TLS, or with a slow handshake, gets no response.
            if let Ok(Ok(stream)) = timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
                talk(stream, router, ended).await;
            }
        }
    }
}

async fn talk<S>(stream: S, router: Router, mut ended: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = TowerToHyperService::new(router);
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let end = async {
        // The sender lives as long as this task.
        let _ = ended.wait_for(|ended| *ended).await;
    };
    let done = tokio::select! {
        done = poll_fn(|task| connection.poll_without_shutdown(task)) => done,
        () = end => {
            std::pin::Pin::new(&mut connection).graceful_shutdown();
            poll_fn(|task| connection.poll_without_shutdown(task)).await
        }
    };
    let late = done.is_err_and(|error| error.is_timeout());
    let parts = connection.into_parts();
    let mut stream = parts.io.into_inner();
    // An idle connection has sent no request.
    if late && !parts.read_buf.is_empty() {
        let _ = stream.write_all(late_head().as_bytes()).await;
    }
    let _ = stream.shutdown().await;
}

/// Returns the response to an incomplete head.
fn late_head() -> String {
    let reason = format!("the request did not arrive within {} s", HEAD_TIMEOUT.as_secs());
    let body = json!({ "error": reason }).to_string();
    format!(
        "HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}
