//! Certification of the reads of a transaction that fails.

use solera_mixt::store::StoreError;

use solera_mixt::lazy::State;

use super::SpacesSession;
use crate::failure;
use crate::port::{Command, Kind, Port};

impl<P: Port> SpacesSession<P> {
    /// Gives the transaction up. Unless it is causal, the server certifies its reads first.
    ///
    /// # Errors
    /// See [`Connection::certify`](solera_mixt::store::Connection::certify). The server cannot
    /// certify a transaction that it gave up itself because of a rejected command.
    pub(super) async fn certify(&mut self) -> Result<(), StoreError> {
        self.state.check_certifiable()?;
        match &self.state {
            State::Open(open) if open.kind != Kind::Causal => {}
            // There is nothing to certify: a causal transaction has no order, a due one has read
            // nothing, and one that is over has committed.
            _ => {
                self.close().await;
                return Ok(());
            }
        }
        self.state = State::Closed;
        // The transaction was not going to write, so nothing is in doubt.
        match self.ask(Command::Certify).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(text)) => Err(failure::of_command(&text)),
            Err(broken) => Err(failure::of_break(broken)),
        }
    }
}
