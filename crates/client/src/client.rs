//! A session with one site.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use solera_resp::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::connection::{self, Connection};
use crate::declared::Declared;
use crate::endpoint::Endpoint;
use crate::error::Error;

/// A session's causal and durability past, which any site of the same cluster can attach. Opaque.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token(pub(crate) Vec<u8>);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl From<&str> for Token {
    fn from(text: &str) -> Self {
        Token(text.as_bytes().to_vec())
    }
}

type Open = dyn Fn() -> std::io::Result<Connection> + Send + Sync;

/// Target of a client's connections.
#[derive(Clone)]
pub(crate) enum Target {
    Remote(SocketAddr),
    Named(Endpoint),
    /// Streams that a callback opens.
    Opened(Arc<Open>),
    /// A stream that the caller has opened.
    Given,
}

/// Credentials of a client.
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// One session with one site.
///
/// When the connection breaks, the failing call reports it. [`Client::reconnect`] continues with
/// the last known causal past, at the same site.
pub struct Client {
    target: Target,
    connection: Connection,
    login: Option<Login>,
    /// The last token that was taken or attached, for reconnecting.
    last_token: Option<Token>,
    /// The spaces, once they are known.
    declared: Vec<Declared>,
}

impl Client {
    /// Connects to a site by its address.
    ///
    /// # Errors
    /// No server listens at the address, or the server is not Solera.
    pub async fn connect(address: SocketAddr) -> Result<Client, Error> {
        Client::open(Target::Remote(address)).await
    }

    /// Connects to a site by its address, as one of its users.
    ///
    /// # Errors
    /// See [`Client::connect`]; also `WRONGPASS`.
    pub async fn connect_as(
        address: SocketAddr,
        user: &str,
        password: &str,
    ) -> Result<Client, Error> {
        let login = Login { user: user.to_owned(), password: password.to_owned() };
        Client::open_as(Target::Remote(address), Some(login)).await
    }

    /// Connects to an [`Endpoint`], which may have a host name, TLS and a user.
    ///
    /// # Errors
    /// See [`Client::connect_as`]; also errors of TLS.
    pub async fn connect_to(endpoint: &Endpoint) -> Result<Client, Error> {
        let login = endpoint
            .login
            .as_ref()
            .map(|(user, password)| Login { user: user.clone(), password: password.clone() });
        Client::open_as(Target::Named(endpoint.clone()), login).await
    }

    pub(crate) async fn open(target: Target) -> Result<Client, Error> {
        Client::open_as(target, None).await
    }

    pub(crate) async fn open_as(target: Target, login: Option<Login>) -> Result<Client, Error> {
        let connection = dial(&target, login.as_ref()).await?;
        Ok(Client::new(target, connection, login))
    }

    fn new(target: Target, connection: Connection, login: Option<Login>) -> Client {
        Client { target, connection, login, last_token: None, declared: Vec::new() }
    }

    /// Creates a session over a stream to a site. The session cannot
    /// [reconnect](Client::reconnect).
    ///
    /// # Errors
    /// See [`Client::connect`].
    pub async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Client, Error> {
        let connection = greet(Connection::new(stream), None).await?;
        Ok(Client::new(Target::Given, connection, None))
    }

    /// Creates a session over streams that `open` returns: one now, and another for each
    /// [`Client::reconnect`].
    ///
    /// # Errors
    /// See [`Client::connect_as`]; an error of `open` is [`Error::Connection`].
    pub async fn through<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        open: impl Fn() -> std::io::Result<S> + Send + Sync + 'static,
        login: Option<(&str, &str)>,
    ) -> Result<Client, Error> {
        let open = move || open().map(Connection::new);
        let login =
            login.map(|(user, pass)| Login { user: user.to_owned(), password: pass.to_owned() });
        Client::open_as(Target::Opened(Arc::new(open)), login).await
    }

    /// Sends any command and returns its reply.
    ///
    /// # Errors
    /// The connection broke, or the server returned an error.
    pub async fn command<A: AsRef<[u8]>>(&mut self, command: &[A]) -> Result<Value, Error> {
        let arguments: Vec<&[u8]> = command.iter().map(AsRef::as_ref).collect();
        self.call(&arguments).await
    }

    pub(crate) async fn call(&mut self, command: &[&[u8]]) -> Result<Value, Error> {
        match self.connection.call(command).await? {
            Value::Error(text) => Err(Error::server(&text)),
            value => Ok(value),
        }
    }

    /// Sends commands without waiting for each reply, and returns the replies in order. Errors of
    /// the server are [`Value::Error`]s. Meant for many commands with short replies.
    ///
    /// # Errors
    /// The connection broke. Any of the commands may have been executed.
    pub async fn pipeline(&mut self, commands: &[Vec<&[u8]>]) -> Result<Vec<Value>, Error> {
        self.connection.call_all(commands).await
    }

    /// Returns a token of the session's causal and durability past, to attach it at another site.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn token(&mut self) -> Result<Token, Error> {
        match self.call(&[b"SOLERA.TOKEN"]).await? {
            Value::Bulk(bytes) => {
                self.last_token = Some(Token(bytes.clone()));
                Ok(Token(bytes))
            }
            other => Err(Error::unexpected(&other)),
        }
    }

    /// Waits until this site holds all of a token's causal past, which becomes part of the
    /// session's. The call does not wait for writes to eventual spaces; [`Client::barrier`] covers
    /// them from then on.
    ///
    /// # Errors
    /// `TIMEOUT` if the past has not arrived, `LOST` if part of it was lost with a site.
    pub async fn attach(&mut self, token: &Token) -> Result<(), Error> {
        self.call(&[b"SOLERA.ATTACH", &token.0]).await?;
        self.last_token = Some(token.clone());
        Ok(())
    }

    /// Waits until everything that this session has seen and written survives the loss of `f`
    /// sites, writes to eventual spaces included.
    ///
    /// # Errors
    /// `TIMEOUT` after `timeout`; the call may be repeated.
    pub async fn barrier(&mut self, timeout: Option<Duration>) -> Result<(), Error> {
        let ms = timeout.map_or(0, |timeout| timeout.as_millis()).to_string();
        self.call(&[b"SOLERA.BARRIER", ms.as_bytes()]).await?;
        Ok(())
    }

    /// Returns the space of a key. Only the first call on a connection asks the server: spaces do
    /// not change while nodes run.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn declared(&mut self, key: &str) -> Result<&Declared, Error> {
        let spaces = self.spaces().await?.iter();
        let matching = spaces.filter(|space| key.starts_with(&space.prefix));
        let space = matching.max_by_key(|space| space.prefix.len());
        space.ok_or_else(|| Error::Policy(format!("no space has the key '{key}'")))
    }

    /// Returns the spaces. Only the first call on a connection asks the server.
    pub(crate) async fn spaces(&mut self) -> Result<&[Declared], Error> {
        if self.declared.is_empty() {
            let reply = self.call(&[b"SOLERA.SPACES"]).await?;
            let parsed = Declared::parse(&reply);
            self.declared = parsed.ok_or_else(|| Error::unexpected(&reply))?;
        }
        Ok(&self.declared)
    }

    /// Returns the present connection.
    pub(crate) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Returns the shortest time that a reply took on this connection.
    pub(crate) fn round_trip(&self) -> Duration {
        self.connection.round_trip
    }

    /// Returns the user that the client acts as, as far as it knows. Without access control every
    /// client is the default user.
    pub(crate) fn user(&self) -> &str {
        self.login.as_ref().map_or("default", |login| &login.user)
    }

    /// Returns the name of the cluster.
    pub(crate) fn cluster(&self) -> &str {
        &self.connection.cluster
    }

    /// Returns the name of the site, if the server reported it.
    pub(crate) fn connected_site(&self) -> Option<&str> {
        self.connection.site.as_deref()
    }

    /// Returns whether [`Client::reconnect`] can succeed.
    pub(crate) fn can_reconnect(&self) -> bool {
        !matches!(self.target, Target::Given)
    }

    /// Returns whether nothing unexpected has arrived, not even the end of the connection.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.connection.is_quiet()
    }

    /// Returns the name of the site.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn site(&mut self) -> Result<String, Error> {
        match self.call(&[b"SOLERA.SITE"]).await? {
            Value::Bulk(name) => Ok(String::from_utf8_lossy(&name).into_owned()),
            other => Err(Error::unexpected(&other)),
        }
    }

    /// Reconnects after a failure and attaches the last token that was taken or attached, so that
    /// the session continues. An open transaction is lost.
    ///
    /// # Errors
    /// The site cannot be reached, or cannot attach the past (see [`Client::attach`]).
    pub async fn reconnect(&mut self) -> Result<(), Error> {
        self.connection = dial(&self.target, self.login.as_ref()).await?;
        self.declared.clear();
        if let Some(token) = self.last_token.clone() {
            self.attach(&token).await?;
        }
        Ok(())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Remote(address) => write!(f, "Client({address})"),
            Target::Named(endpoint) => write!(f, "Client({endpoint})"),
            Target::Opened(_) | Target::Given => write!(f, "Client"),
        }
    }
}

async fn dial(target: &Target, login: Option<&Login>) -> Result<Connection, Error> {
    let connection = match target {
        Target::Remote(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Connection::new(stream)
        }
        Target::Named(endpoint) => {
            let opening = connection::bounded(endpoint.timeout, open(endpoint));
            let mut connection = opening.await?;
            connection.timeout = endpoint.timeout;
            connection
        }
        Target::Opened(open) => open()?,
        Target::Given => {
            return Err(Error::Connection(std::io::ErrorKind::NotConnected.into()));
        }
    };
    greet(connection, login).await
}

async fn open(endpoint: &Endpoint) -> std::io::Result<Connection> {
    let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await?;
    stream.set_nodelay(true)?;
    Ok(match &endpoint.tls {
        None => Connection::new(stream),
        Some(tls) => Connection::new(tls.connect(&endpoint.host, stream).await?),
    })
}

/// Sends HELLO, with the protocol version and the credentials.
async fn greet(mut connection: Connection, login: Option<&Login>) -> Result<Connection, Error> {
    let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
    if let Some(Login { user, password }) = login {
        hello.extend([b"AUTH".as_slice(), user.as_bytes(), password.as_bytes()]);
    }
    match connection.call(&hello).await? {
        Value::Map(pairs) => {
            for pair in pairs {
                let (Value::Bulk(key), Value::Bulk(name)) = pair else { continue };
                let name = String::from_utf8_lossy(&name).into_owned();
                match &key[..] {
                    b"solera_cluster" => connection.cluster = name,
                    b"solera_site" => connection.site = Some(name),
                    _ => {}
                }
            }
            Ok(connection)
        }
        Value::Error(text) => Err(Error::server(&text)),
        other => Err(Error::Protocol(format!("unexpected answer to HELLO: {other:?}"))),
    }
}
