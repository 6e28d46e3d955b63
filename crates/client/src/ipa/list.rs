//! Lists.

use solera_resp::Value;

use super::{Declared, Policy, opened};
use crate::client::Client;
use crate::commands;
use crate::error::Error;

/// A list of texts in the order of their times, in a space of type `list` or without a type.
#[derive(Clone, Debug)]
pub struct List<P> {
    key: String,
    policy: P,
}

impl<P: Policy> List<P> {
    /// Opens the list under a key.
    ///
    /// # Errors
    /// See [`Counter::open`](super::Counter::open).
    pub async fn open(
        client: &mut Client,
        key: impl Into<String>,
        policy: P,
    ) -> Result<List<P>, Error> {
        let check = |space: &Declared| policy.check(space);
        let key = opened(client, key.into(), ("list", true), check).await?;
        Ok(List { key, policy })
    }

    /// Appends an element. The server's clock determines its place among those of other sites.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn push(&self, client: &mut Client, element: &str) -> Result<(), Error> {
        let request = [b"SOLERA.PUSH", self.key.as_bytes(), element.as_bytes()];
        client.call(&request).await.map(drop)
    }

    /// Reads at most `most` elements, the newest first. The cost does not depend on the length of
    /// the list.
    ///
    /// # Errors
    /// See [`Client::read_under`]. The server refuses 0 elements.
    pub async fn newest(
        &self,
        client: &mut Client,
        most: u32,
    ) -> Result<P::Read<Vec<String>>, Error> {
        let most = most.to_string();
        let command = [b"SOLERA.NEWEST", most.as_bytes()];
        client.read_under(&self.policy, &self.key, &command, elements).await
    }
}

/// Returns a reply as elements in its order.
fn elements(reply: Value) -> Result<Vec<String>, Error> {
    let Value::Array(elements) = reply else { return Err(Error::unexpected(&reply)) };
    elements.into_iter().map(commands::text).collect()
}
