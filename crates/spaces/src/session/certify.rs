//! Certification of what a transaction has read that fails.

use solera_mixt::store::StoreError;

use super::{Session, State};
use crate::failure;
use crate::port::{Command, Port};

impl<P: Port> Session<P> {
    /// Gives the transaction up, after the server has certified what it has read if it is a strong
    /// one.
    ///
    /// # Errors
    /// As of [`Connection::certify`](solera_mixt::store::Connection::certify). What the server
    /// itself has given up, because it refused a command, it does not certify any more.
    pub(super) async fn certify(&mut self) -> Result<(), StoreError> {
        match &self.state {
            State::Open(open) if open.strong => {}
            State::Closed => return Err(StoreError::Refused("no transaction is open".to_owned())),
            State::Spoiled(_) => {
                self.state = State::Closed;
                let text = "the transaction has ended with the operation that was refused";
                return Err(StoreError::Refused(text.to_owned()));
            }
            // What is causal has no order to be certified, what is due has read nothing, and what
            // is over has committed.
            State::Open(_) | State::Due { .. } | State::Over => {
                self.close().await;
                return Ok(());
            }
        }
        self.state = State::Closed;
        // Nothing was to be written, so that nothing is in doubt.
        match self.ask(Command::Certify).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(text)) => Err(failure::of_command(&text)),
            Err(broken) => Err(failure::of_break(broken)),
        }
    }
}
