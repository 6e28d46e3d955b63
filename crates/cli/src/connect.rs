//! Connecting to a running site: login and TLS options.

use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
use std::path::PathBuf;

use clap::Args;
use solera::{Client, Endpoint, Error, Tls};
use solera_tls::Refused;

const NEEDS_TLS: &str = "the reply is not that of Solera without TLS; if the server uses TLS on this port, \
                         name the authority that signed its certificate with --cacert";

const NEEDS_USER: &str = "the cluster has users; log in with --user NAME, and the password in the environment \
                          variable SOLERA_PASSWORD";

/// Login and TLS options of commands that connect to a site.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// User to log in as, where the cluster has users
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Password of the user. Other users of this machine can see it; prefer the environment
    /// variable SOLERA_PASSWORD
    #[arg(long)]
    password: Option<String>,
    /// Use TLS, and trust certificates that this authority signed (PEM)
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// Client certificate, where the cluster requires one (PEM)
    #[arg(long, value_name = "FILE", requires = "cacert", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl LoginArgs {
    /// Connects to a site and logs in.
    ///
    /// # Errors
    /// Fails with a message for users.
    pub(crate) async fn connect(&self, endpoint: &Endpoint) -> Result<Client, String> {
        let endpoint = self.apply(endpoint)?;
        let connected = Client::connect_to(&endpoint).await;
        connected.map_err(|error| format!("{endpoint}: {}", self.explain(&error)))
    }

    /// Adds the login and TLS options to an endpoint.
    ///
    /// # Errors
    /// Fails with a message for users.
    pub(crate) fn apply(&self, endpoint: &Endpoint) -> Result<Endpoint, String> {
        let mut endpoint = endpoint.clone();
        let password = self.password.clone().or_else(|| std::env::var("SOLERA_PASSWORD").ok());
        match (&self.user, password) {
            (Some(user), Some(password)) => endpoint = endpoint.user(user, &password),
            (Some(_), None) => return Err("--user needs SOLERA_PASSWORD or --password".to_owned()),
            (None, _) if self.password.is_some() => {
                return Err("--password needs --user".to_owned());
            }
            (None, _) => {}
        }
        if let Some(authority) = &self.cacert {
            let own = self.cert.as_deref().zip(self.key.as_deref());
            endpoint = endpoint.tls(Tls::new(authority, own).map_err(|error| error.to_string())?);
        }
        Ok(endpoint)
    }

    /// Explains why connecting failed. The most common mistake is TLS on one side only.
    fn explain(&self, error: &Error) -> String {
        let uses_tls = self.cacert.is_some();
        match error.code() {
            Some("NOAUTH") => return NEEDS_USER.to_owned(),
            Some("WRONGPASS") => {
                return "the user or the password is wrong, or the user is disabled".to_owned();
            }
            _ => {}
        }
        match error {
            Error::Protocol(_) if !uses_tls => NEEDS_TLS.to_owned(),
            Error::Connection(error)
                if !uses_tls && matches!(error.kind(), UnexpectedEof | ConnectionReset) =>
            {
                NEEDS_TLS.to_owned()
            }
            Error::Connection(error) if uses_tls && speaks_no_tls(error) => {
                "it does not speak TLS there, which --cacert is for; clients' TLS has a port of its own, \
                 resp_tls"
                    .to_owned()
            }
            other => other.to_string(),
        }
    }
}

/// Returns whether the server replied with something other than TLS.
fn speaks_no_tls(error: &std::io::Error) -> bool {
    let reason = error.get_ref().and_then(|error| error.downcast_ref());
    reason.is_some_and(Refused::speaks_no_tls)
}
