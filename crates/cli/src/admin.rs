//! Client of a running cluster's HTTP interface.

use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use data_encoding::BASE64;
use http_body_util::BodyExt;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use solera_node::REALM;
use solera_tls::Tls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::Builder;
use tokio::time::timeout;

/// Timeout of a connection to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of a response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Environment variable with the password. Other users of the machine could see it on the command
/// line.
const PASSWORD: &str = "SOLERA_PASSWORD";

/// Address of the HTTP interface, and the user to log in as.
#[derive(Debug, Args)]
pub(crate) struct AdminArgs {
    /// Port of the HTTP interface: that of `solera up`, or of a node's `admin`
    #[arg(long, default_value_t = 7100, global = true)]
    port: u16,
    /// Host of the HTTP interface
    #[arg(long, default_value = "127.0.0.1", global = true)]
    host: String,
    /// User to log in as, where users are configured. The password is read from SOLERA_PASSWORD
    #[arg(long, global = true)]
    user: Option<String>,
    /// Use TLS, and trust certificates that this authority signed (PEM)
    #[arg(long, value_name = "FILE", alias = "ca", global = true)]
    cacert: Option<PathBuf>,
}

/// Response of a server.
struct Answer {
    code: StatusCode,
    /// Whether the response asks for a user of a Solera cluster.
    is_login: bool,
    body: Bytes,
}

/// Returns whether a header `WWW-Authenticate` asks for a user of a Solera cluster. Other servers
/// may answer with the same status code.
fn is_of_solera(how: &[u8]) -> bool {
    let realm = format!("realm=\"{REALM}\"");
    how.windows(realm.len()).any(|part| part == realm.as_bytes())
}

impl AdminArgs {
    /// Sends one request and returns the JSON response.
    ///
    /// # Errors
    /// Fails with a message for users when the server cannot be reached or rejects the request.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Result<Value, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.address())
            .header(header::CONTENT_TYPE, "application/json");
        if let Some(user) = &self.user {
            let password = std::env::var(PASSWORD).map_err(|_| {
                format!("there is no password for user '{user}'; set the environment variable {PASSWORD}")
            })?;
            let credentials = BASE64.encode(format!("{user}:{password}").as_bytes());
            request = request.header(header::AUTHORIZATION, format!("Basic {credentials}"));
        }
        let request = request.body(body.to_owned()).map_err(|error| error.to_string())?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let Answer { code, is_login, body } = runtime.block_on(self.exchange(request))?;
        if code == StatusCode::UNAUTHORIZED && !is_login {
            return Err(self.not_solera());
        }
        if code == StatusCode::UNAUTHORIZED {
            return Err(match &self.user {
                Some(user) => format!(
                    "{}: the user '{user}' or the password in {PASSWORD} is wrong",
                    self.address()
                ),
                None => format!(
                    "{}: the cluster has users; log in with --user, and the password in {PASSWORD}",
                    self.address()
                ),
            });
        }
        let value: Value = serde_json::from_slice(&body).map_err(|_| self.not_solera())?;
        match value.get("error").and_then(Value::as_str) {
            Some(error) => Err(error.to_owned()),
            None => Ok(value),
        }
    }

    /// Returns host and port, as in URLs.
    fn address(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    fn not_solera(&self) -> String {
        format!(
            "the server on {} is not the HTTP interface of a cluster; `solera up` serves it on \
             its --port, 7100 by default. If it uses TLS, name its certificate authority with --cacert",
            self.address()
        )
    }

    fn failed(&self, error: &std::io::Error) -> String {
        let address = self.address();
        format!("no cluster answers on {address} ({error}); is `solera up` running there?")
    }

    /// Connects, sends the request, and returns the response.
    async fn exchange(&self, request: Request<String>) -> Result<Answer, String> {
        let stream = self.connect().await.map_err(|error| self.failed(&error))?;
        let answered = async {
            let Some(ca) = &self.cacert else { return self.send(stream, request).await };
            let tls = Tls::new(ca, None).map_err(|error| format!("--cacert: {error}"))?;
            let stream = tls.connect(&self.host, stream).await;
            self.send(stream.map_err(|error| self.failed(&error))?, request).await
        };
        timeout(ANSWER_TIMEOUT, answered).await.unwrap_or_else(|_| {
            Err(format!(
                "the server on {} accepted the connection and did not respond within {} s; is it \
                 suspended, overloaded, or not a Solera cluster?",
                self.address(),
                ANSWER_TIMEOUT.as_secs()
            ))
        })
    }

    /// Connects to the first address of the host that accepts within the timeout.
    async fn connect(&self) -> io::Result<TcpStream> {
        let mut last = ErrorKind::NotFound.into();
        for address in lookup_host((&*self.host, self.port)).await? {
            let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
            match connected.unwrap_or_else(|late| Err(late.into())) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn send(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        request: Request<String>,
    ) -> Result<Answer, String> {
        // An error that does not come from the connection shows that the server does not use HTTP.
        let why = |error: hyper::Error| match error.source().and_then(|why| why.downcast_ref()) {
            Some(error) => self.failed(error),
            None => self.not_solera(),
        };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(why)?;
        let answered = async move {
            let response = sender.send_request(request).await?;
            let code = response.status();
            let how = response.headers().get(header::WWW_AUTHENTICATE);
            let is_login = how.is_some_and(|how| is_of_solera(how.as_bytes()));
            let body = response.into_body().collect().await?.to_bytes();
            Ok(Answer { code, is_login, body })
        };
        // The connection ends when its sender is dropped; the answer reports its errors.
        tokio::join!(answered, connection).0.map_err(why)
    }
}
