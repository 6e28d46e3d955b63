//! Execution of groups of phases at the server.

use solera_mixt::remote_group::{RemoteGroup, RemoteReplies};
use solera_mixt::store::StoreError;

use super::SpacesSession;
use super::doubt::{Doubted, Lost};
use crate::port::Port;

impl<P: Port> SpacesSession<P> {
    /// Makes the server run a group of phases.
    pub(super) async fn execute(
        &mut self,
        remote_group: &RemoteGroup,
    ) -> Result<RemoteReplies, StoreError> {
        self.close().await;
        remote_group.spaces().try_for_each(|space| self.layout.validate(space))?;
        self.resolve().await?;
        self.open().await?;
        match self.port.ship(remote_group).await {
            Ok(Ok(bytes)) => {
                let replies = RemoteReplies::decode(&bytes);
                replies.map_err(|error| self.lost(remote_group, error.to_string()))
            }
            Ok(Err(text)) if text.starts_with("UNKNOWN ") => Err(self.lost(remote_group, text)),
            Ok(Err(text)) => Err(StoreError::Unavailable(text)),
            Err(broken) => Err(self.lost(remote_group, broken.0)),
        }
    }

    fn lost(&mut self, remote_group: &RemoteGroup, why: String) -> StoreError {
        let (number, until_ms) = (remote_group.number(), remote_group.until_ms());
        self.set_doubt(Doubted::Phases(Lost { number, until_ms }));
        StoreError::OutcomeUnknown(why)
    }
}
