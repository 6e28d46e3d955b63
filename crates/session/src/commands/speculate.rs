//! An operation of the speculative space, for server-side code.

use solera_commands::CommandId;
use solera_creek::Level;
use solera_procedures::{Procedure, Returned};

use crate::context::Context;
use crate::returned::Invoked;
use crate::session::ClientSession;
use crate::typed::Typed;

/// Runs an operation of the speculative space, whatever its keys. The caller has checked the
/// client's rights, or they travel with the operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Speculate {
    /// The operation.
    pub operation: Procedure,
    /// Its level; `None` to wait for the final result of a strong one.
    pub level: Option<Level>,
    /// Whether the session for which this one acts gets the answer, too.
    pub reports: bool,
}

impl Typed for Speculate {
    type Answer = Returned;

    fn command(&self) -> CommandId {
        CommandId::SoleraCall
    }

    async fn run<W: Context>(&self, session: &mut ClientSession<W>) -> Result<Returned, String> {
        if !self.operation.is_read_only() {
            if let Some(reason) = session.worker.takes_no_writes() {
                return Err(reason);
            }
            if session.worker.is_memory_full() {
                return Err("OOM command not allowed when used memory > 'maxmemory'.".to_owned());
            }
        }
        let operation = self.operation.clone();
        let invoked = match self.level {
            Some(level) => session.invoke(operation, level).await?,
            None => {
                let returned = session.run_procedure(operation, Level::Strong).await?;
                Invoked { id: None, returned, is_stable: true }
            }
        };
        let returned = invoked.returned.clone();
        if self.reports
            && let Some(delegation) = &session.delegation
        {
            delegation.note_invoked(invoked);
        }
        Ok(returned)
    }
}
