//! Client of a running cluster's HTTP interface.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use data_encoding::BASE64;
use serde_json::Value;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

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
    /// Use TLS, and trust certificates signed by an authority in this file (PEM)
    #[arg(long, global = true)]
    ca: Option<PathBuf>,
}

impl AdminArgs {
    /// Sends one request and returns the JSON response.
    ///
    /// # Errors
    /// Fails with a message for users when the server cannot be reached or rejects the request.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Result<Value, String> {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n",
            self.host,
            self.port,
            body.len()
        );
        if let Some(user) = &self.user {
            let password = std::env::var(PASSWORD).map_err(|_| {
                format!("there is no password for user '{user}'; set the environment variable {PASSWORD}")
            })?;
            let credentials = BASE64.encode(format!("{user}:{password}").as_bytes());
            head += &format!("Authorization: Basic {credentials}\r\n");
        }
        let stream = self.connect()?;
        let answer = match &self.ca {
            None => self.exchange(stream, &head, body)?,
            Some(_) => self.exchange(StreamOwned::new(self.tls()?, stream), &head, body)?,
        };
        let not_solera = || {
            format!(
                "the server on port {} is not the HTTP interface of a cluster; `solera up` serves it on \
                 its --port, 7100 by default. If it uses TLS, name its certificate authority with --ca",
                self.port
            )
        };
        if !answer.starts_with("HTTP/") {
            return Err(not_solera());
        }
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let value: Value = serde_json::from_str(body).map_err(|_| not_solera())?;
        match value.get("error").and_then(Value::as_str) {
            Some(error) => Err(error.to_owned()),
            None => Ok(value),
        }
    }

    fn failed(&self, error: &std::io::Error) -> String {
        let port = self.port;
        format!("no cluster answers on port {port} ({error}); is `solera up` running there?")
    }

    fn connect(&self) -> Result<TcpStream, String> {
        let failed = |error| self.failed(&error);
        let mut last = std::io::Error::from(ErrorKind::NotFound);
        for address in (self.host.as_str(), self.port).to_socket_addrs().map_err(failed)? {
            match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(self.failed(&last))
    }

    fn tls(&self) -> Result<ClientConnection, String> {
        let Some(ca) = &self.ca else { return Err("TLS requires --ca".to_owned()) };
        let unusable = |reason: String| format!("{} (--ca): {reason}", ca.display());
        let mut roots = RootCertStore::empty();
        let read =
            CertificateDer::pem_file_iter(ca).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        for certificate in read.map_err(|error| unusable(error.to_string()))? {
            roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(unusable("the file contains no PEM certificate".to_owned()));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let host = ServerName::try_from(self.host.clone());
        let host = host.map_err(|_| format!("'{}' is not a host name", self.host))?;
        ClientConnection::new(Arc::new(config), host).map_err(|error| error.to_string())
    }

    fn exchange(
        &self,
        mut stream: impl Read + Write,
        head: &str,
        body: &str,
    ) -> Result<String, String> {
        let request = format!("{head}\r\n{body}");
        let mut answer = Vec::new();
        let exchanged =
            stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_end(&mut answer));
        exchanged.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => format!(
                "the server on port {} accepted the connection and did not respond within {} s; is it \
                 suspended, overloaded, or not a Solera cluster?",
                self.port,
                ANSWER_TIMEOUT.as_secs()
            ),
            _ => self.failed(&error),
        })?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}
