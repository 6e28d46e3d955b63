//! Sets.

use std::collections::BTreeSet;

use super::{CountPolicy, Declared, Opened, Policy, Strengthen, Stronger};
use crate::client::Client;
use crate::commands;
use crate::error::Error;

/// A set of texts. Its size may have another policy than its elements.
#[derive(Clone, Debug)]
pub struct Set<P, S = P> {
    at: Opened,
    policy: P,
    size: S,
}

impl<P: Policy> Set<P> {
    /// Opens the set under a key, with one policy for all reads.
    ///
    /// # Errors
    /// See [`Counter::open`](super::Counter::open).
    pub async fn open(
        client: &mut Client,
        key: impl Into<String>,
        policy: P,
    ) -> Result<Set<P>, Error> {
        Set::open_with_size(client, key, policy, policy).await
    }
}

impl<P: Policy, S: CountPolicy> Set<P, S> {
    /// Opens the set under a key, with a policy for its elements and one for its size.
    ///
    /// # Errors
    /// See [`Counter::open`](super::Counter::open).
    pub async fn open_with_size(
        client: &mut Client,
        key: impl Into<String>,
        policy: P,
        size: S,
    ) -> Result<Set<P, S>, Error> {
        let check = |space: &Declared| {
            Policy::check(&policy, space)?;
            size.check(space)
        };
        let at = Opened::new(client, key.into(), ("set", true), check).await?;
        Ok(Set { at, policy, size })
    }

    /// Returns the set with a further policy for all its reads. Of two policies that conflict, the
    /// [stronger](super::Strengthen) one holds.
    ///
    /// # Errors
    /// [`Error::Policy`] if the key's space contradicts the policy.
    #[expect(clippy::type_complexity, reason = "a name would hide which policies are combined")]
    pub fn under<Q: Policy>(&self, policy: Q) -> Result<Set<Stronger<P, Q>, Stronger<S, Q>>, Error>
    where
        P: Strengthen<Q>,
        S: Strengthen<Q>,
        Stronger<P, Q>: Policy,
        Stronger<S, Q>: CountPolicy,
    {
        let size = self.at.strengthen(self.size, policy)?;
        let policy = self.at.strengthen(self.policy, policy)?;
        Ok(Set { at: self.at.clone(), policy, size })
    }

    /// Returns the set with a further policy for its size only.
    ///
    /// # Errors
    /// See [`Set::under`].
    pub fn size_under<Q: CountPolicy>(&self, policy: Q) -> Result<Set<P, Stronger<S, Q>>, Error>
    where
        S: Strengthen<Q>,
        Stronger<S, Q>: CountPolicy,
    {
        let size = self.at.strengthen(self.size, policy)?;
        Ok(Set { at: self.at.clone(), policy: self.policy, size })
    }

    /// Adds an element.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn add(&self, client: &mut Client, element: &str) -> Result<(), Error> {
        client.sadd(&self.at.key, element).await.map(drop)
    }

    /// Removes an element. An addition at another site at the same time wins.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn remove(&self, client: &mut Client, element: &str) -> Result<(), Error> {
        client.srem(&self.at.key, element).await.map(drop)
    }

    /// Reads whether the set has an element.
    ///
    /// # Errors
    /// See [`Client::read_under`].
    pub async fn contains(
        &self,
        client: &mut Client,
        element: &str,
    ) -> Result<P::Read<bool>, Error> {
        let command = [b"SISMEMBER", element.as_bytes()];
        let decode = |reply| Ok(commands::number(reply)? > 0);
        client.read_under(&self.policy, &self.at.key, &command, decode).await
    }

    /// Reads the elements.
    ///
    /// # Errors
    /// See [`Client::read_under`].
    pub async fn elements(&self, client: &mut Client) -> Result<P::Read<BTreeSet<String>>, Error> {
        client.read_under(&self.policy, &self.at.key, &[b"SMEMBERS"], commands::texts).await
    }

    /// Reads the number of elements.
    ///
    /// # Errors
    /// See [`CountPolicy::count`].
    pub async fn size(&self, client: &mut Client) -> Result<S::Count, Error> {
        self.size.count(client, &self.at.key, "SCARD").await
    }
}
