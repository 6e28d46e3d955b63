//! Which running site a command talks to, and how it is let in.

use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
use std::path::PathBuf;

use clap::Args;
use solera::{Client, Endpoint, Error, Tls};
use solera_tls::Refused;

const NEEDS_TLS: &str = "it does not answer as Solera does without TLS; if it speaks TLS there, name the \
                         authority that signed its certificate by --cacert";

/// How a site lets the command in.
#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The user to be, where the cluster has users
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The user's password. Others on this machine can see it; SOLERA_PASSWORD in the environment
    /// is better
    #[arg(long)]
    password: Option<String>,
    /// Speak TLS, and trust certificates that this authority signed (PEM)
    #[arg(long, value_name = "FILE")]
    cacert: Option<PathBuf>,
    /// The certificate to show, where the cluster wants one (PEM)
    #[arg(long, value_name = "FILE", requires = "cacert", requires = "key")]
    cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

impl LoginArgs {
    /// Connects to a site.
    ///
    /// # Errors
    /// In words for people.
    pub(crate) async fn connect(&self, endpoint: &Endpoint) -> Result<Client, String> {
        let endpoint = self.apply(endpoint)?;
        let connected = Client::connect_to(&endpoint).await;
        connected.map_err(|error| format!("{endpoint}: {}", self.explain(&error)))
    }

    /// The same site, with what it takes to be let in.
    ///
    /// # Errors
    /// In words for people.
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

    /// Why no connection came about; whether TLS is spoken is what people mistake most easily.
    fn explain(&self, error: &Error) -> String {
        let spoken = self.cacert.is_some();
        match error {
            Error::Protocol(_) if !spoken => NEEDS_TLS.to_owned(),
            Error::Connection(error)
                if !spoken && matches!(error.kind(), UnexpectedEof | ConnectionReset) =>
            {
                NEEDS_TLS.to_owned()
            }
            Error::Connection(error) if spoken && is_no_tls(error) => {
                "it does not speak TLS there, which --cacert is for; clients' TLS has a port of its own, \
                 resp_tls"
                    .to_owned()
            }
            other => other.to_string(),
        }
    }
}

/// Whether the other side has answered with something else than TLS.
fn is_no_tls(error: &std::io::Error) -> bool {
    let reason = error.get_ref().and_then(|error| error.downcast_ref());
    reason.is_some_and(Refused::speaks_no_tls)
}
