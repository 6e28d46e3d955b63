//! Groups of phases that the server runs.

use std::sync::{Arc, PoisonError};

use solera_mixt::shipment::{Shipment, Shipped};
use solera_mixt::store::StoreError;
use solera_resp::Value as Reply;

use super::session::{Doubted, Session, words};
use crate::client::Token;

/// Error code of a site that does not know the module of a shipment; SOLERA.PHASE LEARN teaches it.
pub const UNKNOWN_MODULE: &str = "UNKNOWNMODULE";

/// A shipment whose answer was lost.
#[derive(Clone, Copy)]
pub(super) struct Lost {
    number: u64,
    until_ms: u64,
}

impl Session {
    /// Has the server run a group of phases, which it is taught if it does not know them.
    pub(super) async fn execute(&mut self, shipment: &Shipment) -> Result<Shipped, StoreError> {
        self.close().await;
        shipment.spaces().try_for_each(|space| self.fits(space))?;
        self.resolve().await?;
        self.open().await?;
        let mut source: Option<Arc<str>> = self.sources.as_ref().and_then(|sources| {
            let sources = sources.read().unwrap_or_else(PoisonError::into_inner);
            sources.get(shipment.module()).cloned()
        });
        let run = words(b"SOLERA.PHASE", [b"RUN".to_vec(), shipment.encode().to_vec()]);
        let run = [run, words(b"SOLERA.TOKEN", [])];
        loop {
            let replies = match self.send(&run).await {
                Ok(replies) => replies,
                Err(error) => return Err(self.lost(shipment, error.to_string())),
            };
            let mut replies = replies.into_iter();
            match (replies.next(), replies.next()) {
                (Some(Reply::Bulk(bytes)), token) => {
                    if let Some(Reply::Bulk(token)) = token {
                        self.seen = Some(Token(token));
                    }
                    let shipped = Shipped::decode(&bytes);
                    return shipped.map_err(|error| self.lost(shipment, error.to_string()));
                }
                (Some(Reply::Error(text)), _) => match source.take() {
                    Some(source) if text.starts_with(UNKNOWN_MODULE) => self.teach(&source).await?,
                    _ if text.starts_with("UNKNOWN ") => return Err(self.lost(shipment, text)),
                    _ => return Err(StoreError::Unavailable(text)),
                },
                (other, _) => return Err(self.lost(shipment, format!("it answers {other:?}"))),
            }
        }
    }

    async fn teach(&mut self, source: &str) -> Result<(), StoreError> {
        let learn = words(b"SOLERA.PHASE", [b"LEARN".to_vec(), source.as_bytes().to_vec()]);
        match self.send(&[learn]).await.map(|mut replies| replies.pop()) {
            Ok(Some(Reply::Error(text))) => Err(StoreError::Unavailable(text)),
            Ok(_) => Ok(()),
            Err(error) => Err(StoreError::Unavailable(error.to_string())),
        }
    }

    fn lost(&mut self, shipment: &Shipment, why: String) -> StoreError {
        let (number, until_ms) = (shipment.number(), shipment.until_ms());
        self.doubts(Doubted::Phases(Lost { number, until_ms }));
        StoreError::OutcomeUnknown(why)
    }

    /// Returns if phases whose answer was lost are over.
    pub(super) async fn settle(&mut self, lost: Lost) -> Result<(), StoreError> {
        self.open().await?;
        let numbers = [lost.number, lost.until_ms].map(|number| number.to_string().into_bytes());
        let [number, until_ms] = numbers;
        let settle = words(b"SOLERA.PHASE", [b"SETTLE".to_vec(), number, until_ms]);
        match self.send(&[settle]).await.map(|mut replies| replies.pop()) {
            Ok(Some(Reply::Integer(1))) => Ok(()),
            Ok(Some(Reply::Integer(_))) => {
                let text = "the phases that were sent before are still being run";
                Err(StoreError::Unavailable(text.to_owned()))
            }
            Ok(other) => Err(StoreError::Unavailable(format!("it answers {other:?}"))),
            Err(error) => Err(StoreError::Unavailable(error.to_string())),
        }
    }
}
