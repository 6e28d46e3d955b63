//! Interactive transactions: as guards and as closures.

use std::ops::{Deref, DerefMut};

use crate::client::Client;
use crate::error::Error;

/// An open transaction: all its reads are from one snapshot, and its writes become visible together.
///
/// Offers every command of [`Client`]. Must be ended by [`Transaction::commit`] or
/// [`Transaction::abort`]; one that is dropped without stays open on the connection, and the next call
/// of [`Client::begin`] aborts it first.
#[derive(Debug)]
pub struct Transaction<'a> {
    client: &'a mut Client,
}

impl Client {
    /// Opens a causal transaction.
    ///
    /// # Errors
    /// As [`Client::command`].
    pub async fn begin(&mut self) -> Result<Transaction<'_>, Error> {
        match self.call(&[b"SOLERA.BEGIN"]).await {
            // One that was dropped is still open.
            Err(error) if error.code() == Some("ERR") => {
                self.call(&[b"SOLERA.ABORT"]).await?;
                self.call(&[b"SOLERA.BEGIN"]).await?;
            }
            other => {
                other?;
            }
        }
        Ok(Transaction { client: self })
    }

    /// Runs a closure in a transaction: commits if it succeeds, aborts if it fails.
    ///
    /// # Errors
    /// Those of the closure, and of the commit.
    pub async fn transaction<R>(
        &mut self,
        body: impl AsyncFnOnce(&mut Client) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut transaction = self.begin().await?;
        match body(&mut transaction).await {
            Ok(result) => {
                transaction.commit().await?;
                Ok(result)
            }
            Err(error) => {
                // The first error is the one to report.
                let _ = transaction.abort().await;
                Err(error)
            }
        }
    }
}

impl Transaction<'_> {
    /// Makes the writes visible, all at once.
    ///
    /// # Errors
    /// `TRYAGAIN` or `NOTX` if the transaction had no effect; a broken connection leaves it unknown.
    pub async fn commit(self) -> Result<(), Error> {
        self.client.call(&[b"SOLERA.COMMIT"]).await.map(drop)
    }

    /// Drops the writes.
    ///
    /// # Errors
    /// As [`Client::command`].
    pub async fn abort(self) -> Result<(), Error> {
        self.client.call(&[b"SOLERA.ABORT"]).await.map(drop)
    }
}

impl Deref for Transaction<'_> {
    type Target = Client;
    fn deref(&self) -> &Client {
        self.client
    }
}

impl DerefMut for Transaction<'_> {
    fn deref_mut(&mut self) -> &mut Client {
        self.client
    }
}
