//! Encryption of connections, and trust: `sslmode` with the values of libpq, and the configured
//! files.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use solera_mixt::store::BoxFuture;
use solera_tls::{Files, Tls, TlsError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::client;

use crate::config_error::ConfigError;

/// Removes `sslmode` from a URL, and returns the URL and the mode. tokio-postgres knows fewer
/// modes, and does not distinguish an explicit mode from its default.
pub(crate) fn take_mode(url: &str) -> (String, Option<String>) {
    let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
    if !is_url {
        let (modes, others): (Vec<_>, Vec<_>) =
            url.split(' ').partition(|word| word.starts_with("sslmode="));
        return (others.join(" "), mode(modes));
    }
    // The text before the `@` may contain a `?`, for example in a password.
    let host = url.find('@').map_or(0, |at| at + 1);
    let Some(query) = url[host..].find('?').map(|at| host + at) else {
        return (url.to_owned(), None);
    };
    let (modes, others): (Vec<_>, Vec<_>) =
        url[query + 1..].split('&').partition(|pair| pair.starts_with("sslmode="));
    let rest = if others.is_empty() { String::new() } else { format!("?{}", others.join("&")) };
    (format!("{}{rest}", &url[..query]), mode(modes))
}

/// Returns the last mode, as libpq does.
fn mode(said: Vec<&str>) -> Option<String> {
    said.last().and_then(|pair| pair.split_once('=')).map(|(_, mode)| mode.to_owned())
}

/// Returns the mode for tokio-postgres, and the settings of TLS if it is used.
///
/// # Errors
/// If the mode and the files exclude each other, or a file cannot be used.
pub(crate) fn choose(
    mode: Option<&str>,
    files: Option<&Files>,
) -> Result<(SslMode, Option<Tls>), ConfigError> {
    let read = |tls: Result<Tls, TlsError>| {
        let tls = tls.map_err(|error| ConfigError::Tls(error.to_string()))?;
        Ok((SslMode::Require, Some(tls)))
    };
    match (mode, files) {
        (None | Some("disable"), None) => Ok((SslMode::Disable, None)),
        (Some("prefer"), None) => Ok((SslMode::Prefer, Some(Tls::unverified()))),
        (Some("require"), None) => Ok((SslMode::Require, Some(Tls::unverified()))),
        (Some("require" | "verify-ca"), Some(files)) => read(files.tls_for_any_host()),
        (None | Some("verify-full"), Some(files)) => read(files.tls()),
        (Some(mode @ ("verify-ca" | "verify-full")), None) => Err(ConfigError::Tls(format!(
            "sslmode={mode} needs a file with the authority that signs the server's certificate (`ca`)"
        ))),
        (Some(mode @ ("disable" | "prefer")), Some(_)) => Err(ConfigError::Tls(format!(
            "sslmode={mode} verifies nothing, so that a file with an authority (`ca`) has no effect"
        ))),
        (Some(other), _) => Err(ConfigError::Url(format!(
            "sslmode is disable, prefer, require, verify-ca or verify-full, not `{other}`"
        ))),
    }
}

/// Opens TLS streams for tokio-postgres.
#[derive(Clone)]
pub(crate) struct Connector(pub(crate) Tls);

/// Opens the TLS stream of one host.
pub(crate) struct Handshake {
    tls: Tls,
    host: String,
}

/// A TLS stream.
pub(crate) struct Encrypted<S>(client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Connector {
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        Ok(Handshake { tls: self.0.clone(), host: host.to_owned() })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Encrypted<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { self.tls.connect(&self.host, stream).await.map(Encrypted) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    /// Returns none, because it would need the algorithm of the certificate's signature, which
    /// rustls does not expose.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(url: &str) -> (String, Option<String>) {
        take_mode(url)
    }

    #[test]
    fn the_mode_is_taken_out_of_a_url_and_all_else_stays() {
        let full = Some("verify-full".to_owned());
        for (url, rest, mode) in [
            ("postgresql://u:p@h:1/d?sslmode=verify-full", "postgresql://u:p@h:1/d", &full),
            (
                "postgres://h/d?a=1&sslmode=disable&b=2&sslmode=verify-full",
                "postgres://h/d?a=1&b=2",
                &full,
            ),
            ("postgresql://u:p?sslmode=x@h/d", "postgresql://u:p?sslmode=x@h/d", &None),
            ("postgresql://h/d?options=-c%20x", "postgresql://h/d?options=-c%20x", &None),
            ("host=h sslmode=verify-full user=u", "host=h user=u", &full),
            ("host=h  user=u", "host=h  user=u", &None),
        ] {
            assert_eq!(taken(url), (rest.to_owned(), mode.clone()), "{url}");
        }
    }
}
