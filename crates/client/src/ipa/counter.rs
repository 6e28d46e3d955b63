//! Counters.

use super::{CountPolicy, Declared, opened};
use crate::client::Client;
use crate::error::Error;

/// A counter, in a space of type `counter` or without a type.
#[derive(Clone, Debug)]
pub struct Counter<P> {
    key: String,
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
        let key = opened(client, key.into(), ("counter", true), check).await?;
        Ok(Counter { key, policy })
    }

    /// Adds a number, which may be negative.
    ///
    /// # Errors
    /// See [`Client::command`]. The code is `TRYAGAIN` if the error bound does not permit the
    /// update now.
    pub async fn add(&self, client: &mut Client, number: i64) -> Result<(), Error> {
        client.incr_by(&self.key, number).await.map(drop)
    }

    /// Reads the value.
    ///
    /// # Errors
    /// See [`CountPolicy::count`].
    pub async fn read(&self, client: &mut Client) -> Result<P::Count, Error> {
        self.policy.count(client, &self.key, "GET").await
    }
}
