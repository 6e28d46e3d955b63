//! The connection to a server or cluster, which all sessions share.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, RedisError, RedisResult,
    Value,
};
use solera_tls::Tls;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::failure::Failure;
use crate::target::Target;

/// Number of attempts after a broken connection or a moved key in a cluster.
const CLUSTER_RETRIES: u32 = 3;

pub(crate) struct Server {
    target: Target,
    timeout: Duration,
    /// The connection, and the number of connections so far. `None` if it has broken.
    link: Mutex<(u64, Option<Link>)>,
}

#[derive(Clone)]
enum Link {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Server {
    pub(crate) fn new(target: Target, timeout: Duration) -> Server {
        Server { target, timeout, link: Mutex::new((0, None)) }
    }

    /// Sends a command, within the time limit. Does not send it again if its answer is lost, except
    /// to other nodes of a cluster.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, Failure> {
        let mut used = None;
        let asked = async {
            let (number, link) = self.link().await?;
            used = Some(number);
            let answer = match link {
                Link::Single(mut link) => command.query_async(&mut link).await,
                Link::Cluster(mut link) => command.query_async(&mut link).await,
            };
            answer.map_err(|error: RedisError| Failure::of_command(&error))
        };
        let answer = tokio::time::timeout(self.timeout, asked).await;
        let answer = answer.unwrap_or_else(|_| {
            let text = format!("it has not answered within {} ms", self.timeout.as_millis());
            Err(match used {
                Some(_) => Failure::Lost(text),
                None => Failure::NotSent(format!("{}: {text}", self.target.address())),
            })
        });
        if let (Err(Failure::Lost(_)), Some(number)) = (&answer, used) {
            self.forget(number).await;
        }
        answer
    }

    /// Returns a connection that is not known to be broken, and its number.
    async fn link(&self) -> Result<(u64, Link), Failure> {
        let mut held = self.link.lock().await;
        if held.1.is_none() {
            let failed = |error| Failure::of_connecting(&self.target.address(), &error);
            let link = self.connect().await.map_err(failed)?;
            *held = (held.0 + 1, Some(link));
        }
        Ok((held.0, held.1.clone().expect("it was just opened")))
    }

    /// Drops a broken connection, unless another session has already replaced it.
    async fn forget(&self, number: u64) {
        let mut held = self.link.lock().await;
        if held.0 == number {
            held.1 = None;
        }
    }

    async fn connect(&self) -> RedisResult<Link> {
        if self.target.cluster {
            let client = ClusterClient::builder(self.target.nodes.clone())
                .retries(CLUSTER_RETRIES)
                .connection_timeout(self.timeout)
                .response_timeout(self.timeout)
                .build()?;
            return client.get_async_connection().await.map(Link::Cluster);
        }
        // `ask` limits the time.
        connect_single(&self.target, None).await.map(Link::Single)
    }
}

/// Connects to a single server.
pub(crate) async fn connect_single(
    target: &Target,
    timeout: Option<Duration>,
) -> RedisResult<MultiplexedConnection> {
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(timeout).set_response_timeout(timeout);
    let node = &target.nodes[0];
    if let Some(tls) = &target.tls {
        return connect_tls(tls, node, config).await;
    }
    let client = Client::open(node.clone())?;
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// Connects with TLS. The code of the `redis` crate would read all certificate authorities of the
/// system each time, and fail if one of them is unreadable.
async fn connect_tls(
    tls: &Tls,
    node: &ConnectionInfo,
    config: AsyncConnectionConfig,
) -> RedisResult<MultiplexedConnection> {
    let ConnectionAddr::Tcp(host, port) = node.addr() else {
        unreachable!("a target has addresses of TCP")
    };
    let stream = TcpStream::connect((host.as_str(), *port)).await?;
    stream.set_nodelay(true)?;
    let stream = tls.connect(host, stream).await?;
    let settings = node.redis_settings();
    let (link, driver) = MultiplexedConnection::new_with_config(settings, stream, config).await?;
    tokio::spawn(driver);
    Ok(link)
}
