//! Bounded counters and pools: values that no failure makes negative (IPA §4.4).

use solera_ipa::Interval;

use super::{CountPolicy, Declared, Opened, Strengthen, Stronger, Taken};
use crate::client::Client;
use crate::error::Error;

/// A counter that is never negative, in a space of type `bounded-counter`.
#[derive(Clone, Debug)]
pub struct BoundedCounter<P> {
    at: Opened,
    policy: P,
}

impl<P: CountPolicy> BoundedCounter<P> {
    /// Opens the counter under a key.
    ///
    /// # Errors
    /// See [`Counter::open`](super::Counter::open).
    pub async fn open(
        client: &mut Client,
        key: impl Into<String>,
        policy: P,
    ) -> Result<BoundedCounter<P>, Error> {
        let check = |space: &Declared| policy.check(space);
        let at = Opened::new(client, key.into(), ("bounded-counter", false), check).await?;
        Ok(BoundedCounter { at, policy })
    }

    /// Returns the counter with a further policy for its reads. Of two policies that conflict, the
    /// [stronger](super::Strengthen) one holds.
    ///
    /// # Errors
    /// [`Error::Policy`] if the key's space contradicts the policy.
    pub fn under<Q: CountPolicy>(&self, policy: Q) -> Result<BoundedCounter<Stronger<P, Q>>, Error>
    where
        P: Strengthen<Q>,
        Stronger<P, Q>: CountPolicy,
    {
        let policy = self.at.strengthen(self.policy, policy)?;
        Ok(BoundedCounter { at: self.at.clone(), policy })
    }

    /// Adds a number.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn add(&self, client: &mut Client, number: u32) -> Result<(), Error> {
        client.incr_by(&self.at.key, number.into()).await.map(drop)
    }

    /// Subtracts a number, if the value is at least as great.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn subtract(&self, client: &mut Client, number: u32) -> Result<Taken<()>, Error> {
        Taken::of(client.incr_by(&self.at.key, -i64::from(number)).await.map(drop))
    }

    /// Reads the value.
    ///
    /// # Errors
    /// See [`CountPolicy::count`].
    pub async fn read(&self, client: &mut Client) -> Result<P::Count, Error> {
        self.policy.count(client, &self.at.key, "GET").await
    }

    /// Asks all sites for their units. The interval is exact while nobody changes the counter.
    ///
    /// # Errors
    /// See [`Client::interval`].
    pub async fn count(&self, client: &mut Client) -> Result<Interval<i64>, Error> {
        client.interval(&self.at.key).await
    }
}

/// A pool of units, each with an identifier that no other client gets, in a space of type `pool`.
#[derive(Clone, Debug)]
pub struct Pool<P> {
    at: Opened,
    policy: P,
}

impl<P: CountPolicy> Pool<P> {
    /// Opens the pool under a key.
    ///
    /// # Errors
    /// See [`Counter::open`](super::Counter::open).
    pub async fn open(
        client: &mut Client,
        key: impl Into<String>,
        policy: P,
    ) -> Result<Pool<P>, Error> {
        let check = |space: &Declared| policy.check(space);
        let at = Opened::new(client, key.into(), ("pool", false), check).await?;
        Ok(Pool { at, policy })
    }

    /// Returns the pool with a further policy for its reads. Of two policies that conflict, the
    /// [stronger](super::Strengthen) one holds.
    ///
    /// # Errors
    /// [`Error::Policy`] if the key's space contradicts the policy.
    pub fn under<Q: CountPolicy>(&self, policy: Q) -> Result<Pool<Stronger<P, Q>>, Error>
    where
        P: Strengthen<Q>,
        Stronger<P, Q>: CountPolicy,
    {
        let policy = self.at.strengthen(self.policy, policy)?;
        Ok(Pool { at: self.at.clone(), policy })
    }

    /// Adds units.
    ///
    /// # Errors
    /// See [`Client::command`].
    pub async fn grow(&self, client: &mut Client, units: u32) -> Result<(), Error> {
        client.grow(&self.at.key, units).await
    }

    /// Takes 1 to 10,000 units, all or none, and returns their identifiers: UUIDs. In a
    /// transaction, they are valid if it commits.
    ///
    /// # Errors
    /// See [`Client::command`]. After a connection that broke, and after the code `UNKNOWN`, units
    /// may have been taken whose identifiers nobody gets.
    pub async fn take(&self, client: &mut Client, units: u32) -> Result<Taken<Vec<String>>, Error> {
        client.take(&self.at.key, units).await
    }

    /// Reads the number of units that are left.
    ///
    /// # Errors
    /// See [`CountPolicy::count`].
    pub async fn left(&self, client: &mut Client) -> Result<P::Count, Error> {
        self.policy.count(client, &self.at.key, "GET").await
    }

    /// Asks all sites for their units. The interval is exact while nobody changes the pool.
    ///
    /// # Errors
    /// See [`Client::interval`].
    pub async fn count(&self, client: &mut Client) -> Result<Interval<i64>, Error> {
        client.interval(&self.at.key).await
    }
}
