//! Plain commands on a server or cluster, as applications send them.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, NodeAddress};
use redis::cluster_async::ClusterConnection;
use redis::cluster_read_routing::{
    ReadCandidates, ReadRoutingStrategy, ReadRoutingStrategyFactory, Replicas,
};
use redis::{Cmd, Pipeline, RedisError, RedisResult};

pub use redis::Value as Reply;

use crate::failure::Failure;
use crate::server::connect_single;
use crate::target::Target;

/// Reads of a Redis Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The masters answer.
    Masters,
    /// The first of these nodes (host and port, as the cluster announces them) that has the key
    /// answers: as a replica, with READONLY, or as its master. If none of them has it, any replica
    /// answers.
    Near(Vec<(String, u16)>),
}

/// A connection for plain commands. It sends no command twice, except after the cluster has
/// redirected it.
pub struct Plain(Link);

enum Link {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// Reason why a command failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlainError {
    /// The connection could not be opened, or broke. The command may have taken effect.
    #[error("{0}")]
    Connection(String),
    /// The server replied with this error.
    #[error("{0}")]
    Reply(String),
    /// Several commands cannot be one transaction in a cluster.
    #[error("a cluster runs no transaction over keys of several slots")]
    NoTransaction,
}

impl Plain {
    /// Connects. Requests that take longer than `timeout` fail.
    ///
    /// # Errors
    /// The server cannot be reached, or denies access.
    pub async fn connect(
        target: &Target,
        reads: &Reads,
        timeout: Duration,
    ) -> Result<Plain, PlainError> {
        let failed = |error: RedisError| {
            PlainError::Connection(Failure::of_connecting(&target.address(), &error).into_text())
        };
        if !target.cluster {
            let connected = connect_single(target, Some(timeout)).await;
            return connected.map(|link| Plain(Link::Single(link))).map_err(failed);
        }
        let mut builder = ClusterClient::builder(target.nodes.clone())
            .connection_timeout(timeout)
            .response_timeout(timeout);
        if let Reads::Near(nodes) = reads {
            let near = nodes.iter().map(|(host, port)| NodeAddress::new(host.as_str(), *port));
            builder = builder.read_routing_strategy(Near(near.collect()));
        }
        let client = builder.build().map_err(failed)?;
        client.get_async_connection().await.map(|link| Plain(Link::Cluster(link))).map_err(failed)
    }

    /// Runs a command.
    ///
    /// # Errors
    /// See [`PlainError`].
    pub async fn run<A: AsRef<[u8]>>(&mut self, command: &[A]) -> Result<Reply, PlainError> {
        let command = cmd(command);
        let answer = match &mut self.0 {
            Link::Single(link) => link.req_packed_command(&command).await,
            Link::Cluster(link) => link.req_packed_command(&command).await,
        };
        answered(answer)
    }

    /// Runs commands between MULTI and EXEC. Returns whether they were executed: a server may also
    /// abort the transaction.
    ///
    /// # Errors
    /// See [`PlainError`].
    pub async fn transaction<A: AsRef<[u8]>>(
        &mut self,
        commands: &[Vec<A>],
    ) -> Result<bool, PlainError> {
        let Link::Single(link) = &mut self.0 else { return Err(PlainError::NoTransaction) };
        let mut pipeline = Pipeline::new();
        pipeline.atomic();
        for command in commands {
            pipeline.add_command(cmd(command));
        }
        let answer: RedisResult<Option<Vec<Reply>>> = pipeline.query_async(link).await;
        answer.map(|replies| replies.is_some()).map_err(|error| failed(&error))
    }
}

fn cmd<A: AsRef<[u8]>>(words: &[A]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(word.as_ref());
    }
    command
}

fn answered(answer: RedisResult<Reply>) -> Result<Reply, PlainError> {
    match answer {
        Ok(Reply::ServerError(error)) => Err(failed(&error.into())),
        Ok(reply) => Ok(reply),
        Err(error) => Err(failed(&error)),
    }
}

fn failed(error: &RedisError) -> PlainError {
    match Failure::of_command(error) {
        Failure::ErrorReply { text, .. } => PlainError::Reply(text),
        other => PlainError::Connection(other.into_text()),
    }
}

/// Strategy that reads at near nodes.
struct Near(Arc<[NodeAddress]>);

impl Near {
    fn choose<'a>(
        &self,
        primary: Option<&'a NodeAddress>,
        replicas: &Replicas<'a>,
    ) -> &'a NodeAddress {
        let all = || primary.into_iter().chain(replicas.iter());
        let found = self.0.iter().find_map(|near| all().find(|node| *node == near));
        found.unwrap_or_else(|| replicas.choose_random())
    }
}

impl ReadRoutingStrategy for Near {
    fn route_read<'a>(&self, candidates: &ReadCandidates<'a>) -> &'a NodeAddress {
        match candidates {
            ReadCandidates::AnyNode(nodes) => self.choose(Some(nodes.primary()), nodes.replicas()),
            ReadCandidates::ReplicasOnly(nodes) => self.choose(None, nodes.replicas()),
        }
    }
}

impl ReadRoutingStrategyFactory for Near {
    fn create_strategy(&self) -> Box<dyn ReadRoutingStrategy> {
        Box::new(Near(Arc::clone(&self.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_near_node_that_has_the_key_answers() {
        let node = |port| NodeAddress::new("h", port);
        let near = Near([node(9), node(2), node(1)].into());
        let (master, others) = (node(1), [node(3), node(2)]);
        let replicas = Replicas::new(&others).unwrap();
        assert_eq!(near.choose(Some(&master), &replicas), &node(2));
        let others = [node(3)];
        let replicas = Replicas::new(&others).unwrap();
        assert_eq!(near.choose(Some(&master), &replicas), &master);
        assert_eq!(near.choose(None, &replicas), &node(3), "no near node has the key");
    }
}
