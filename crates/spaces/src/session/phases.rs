//! Execution of groups of phases at the server.

use solera_mixt::shipment::{Shipment, Shipped};
use solera_mixt::store::StoreError;

use super::Session;
use super::doubt::{Doubted, Lost};
use crate::port::Port;

impl<P: Port> Session<P> {
    /// Makes the server run a group of phases.
    pub(super) async fn execute(&mut self, shipment: &Shipment) -> Result<Shipped, StoreError> {
        self.close().await;
        shipment.spaces().try_for_each(|space| self.layout.validate(space))?;
        self.resolve().await?;
        self.open().await?;
        match self.port.ship(shipment).await {
            Ok(Ok(bytes)) => {
                let shipped = Shipped::decode(&bytes);
                shipped.map_err(|error| self.lost(shipment, error.to_string()))
            }
            Ok(Err(text)) if text.starts_with("UNKNOWN ") => Err(self.lost(shipment, text)),
            Ok(Err(text)) => Err(StoreError::Unavailable(text)),
            Err(broken) => Err(self.lost(shipment, broken.0)),
        }
    }

    fn lost(&mut self, shipment: &Shipment, why: String) -> StoreError {
        let (number, until_ms) = (shipment.number(), shipment.until_ms());
        self.set_doubt(Doubted::Phases(Lost { number, until_ms }));
        StoreError::OutcomeUnknown(why)
    }
}
