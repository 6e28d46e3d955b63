//! Counters.

use super::{CountPolicy, Declared, Opened, Strengthen, Stronger};
use crate::client::Client;
use crate::error::Error;

/// A counter, in a space of type `counter` or without a type.
#[derive(Clone, Debug)]
pub struct Counter<P> {
    at: Opened,
    policy: P,
}

impl<P: CountPolicy> Counter<P> {
    /// Opens the counter under a key.
    ///
    /// # Errors
    /// [`Error::Policy`] if the key's space contradicts the type or the policy; see also
    /// [`Client::command`].
    pub async fn open(
        client: &mut Client,
        key: impl Into<String>,
        policy: P,
    ) -> Result<Counter<P>, Error> {
        let check = |space: &Declared| policy.check(space);
        let at = Opened::new(client, key.into(), ("counter", true), check).await?;
        Ok(Counter { at, policy })
    }

    /// Returns the counter with a further policy for its reads. Of two policies that conflict, the
    /// [stronger](super::Strengthen) one holds.
    ///
    /// # Errors
    /// [`Error::Policy`] if the key's space contradicts the policy.
    pub fn under<Q: CountPolicy>(&self, policy: Q) -> Result<Counter<Stronger<P, Q>>, Error>
    where
        P: Strengthen<Q>,
        Stronger<P, Q>: CountPolicy,
    {
        let policy = self.at.strengthen(self.policy, policy)?;
        Ok(Counter { at: self.at.clone(), policy })
    }

    /// Adds a number, which may be negative.
    ///
    /// # Errors
    /// See [`Client::command`]. The code is `TRYAGAIN` if the error bound does not permit the
    /// update now.
    pub async fn add(&self, client: &mut Client, number: i64) -> Result<(), Error> {
        client.incr_by(&self.at.key, number).await.map(drop)
    }

    /// Reads the value.
    ///
    /// # Errors
    /// See [`CountPolicy::count`].
    pub async fn read(&self, client: &mut Client) -> Result<P::Count, Error> {
        self.policy.count(client, &self.at.key, "GET").await
    }
}
