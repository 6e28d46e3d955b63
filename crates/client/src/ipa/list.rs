//! Lists.

use solera_resp::Value;

use super::{Declared, Opened, Policy, Strengthen, Stronger};
use crate::client::Client;
use crate::commands;
use crate::error::Error;

/// A list of texts in the order of their times, in a space of type `list` or without a type.
#[derive(Clone, Debug)]
pub struct List<P> {
    at: Opened,
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
        let at = Opened::new(client, key.into(), ("list", true), check).await?;
        Ok(List { at, policy })
    }

    /// Returns the list with a further policy for its reads. Of two policies that conflict, the
    /// [stronger](super::Strengthen) one holds.
    ///
    /// # Errors
    /// [`Error::Policy`] if the key's space contradicts the policy.
    pub fn under<Q: Policy>(&self, policy: Q) -> Result<List<Stronger<P, Q>>, Error>
    where
        P: Strengthen<Q>,
        Stronger<P, Q>: Policy,
    {
        let policy = self.at.strengthen(self.policy, policy)?;
        Ok(List { at: self.at.clone(), policy })
    }

    /// Appends an element. The server's clock determines its place among those of other sites.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn push(&self, client: &mut Client, element: &str) -> Result<(), Error> {
        let request = [b"SOLERA.PUSH", self.at.key.as_bytes(), element.as_bytes()];
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
        client.read_under(&self.policy, &self.at.key, &command, elements).await
    }
}

/// Returns a reply as elements in its order.
fn elements(reply: Value) -> Result<Vec<String>, Error> {
    let Value::Array(elements) = reply else { return Err(Error::unexpected(&reply)) };
    elements.into_iter().map(commands::text).collect()
}
