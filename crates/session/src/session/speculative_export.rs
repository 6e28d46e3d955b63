//! Exports of the speculative space, for SOLERA.EXPORT.

use std::rc::Rc;
use std::time::Duration;

use solera_creek::{Command, Past};
use solera_data::{Key, Outcome};

use super::ClientSession;
use super::followed::ROUND;
use super::speculative::Until;
use crate::context::{Context, FromSpeculative, ToSpeculative};
use crate::finals::{FinalAnswer, FinalState, FinalStep};
use crate::scan::Page;
use crate::ticket::diverged;

/// Maximal time in which the operations that the site has delivered must become final. The state
/// without them is exported after that.
const PATIENCE: Duration = Duration::from_secs(5);

impl<W: Context> ClientSession<W> {
    /// Begins the export of the open transaction, unless it has begun. The operations that the site
    /// has delivered become final before, if enough sites are connected.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn begin_speculative_export(&mut self) -> Result<FinalState, String> {
        if let Some((_, state)) = self.speculative.export {
            return Ok(state);
        }
        // The answer contains all that the site has delivered.
        let command = Command::Attach { past: Past::default() };
        if self.ask_speculative(command, ROUND).await?.is_none() {
            return Err(self.without_export());
        }
        let past = self.speculative.past.clone();
        self.reach_speculative(&past, Until::Final, Some(PATIENCE)).await?;
        let id = self.new_export();
        let lasts = self.worker.spec().transaction_max_age;
        match self.export_step(FinalStep::Begin { id, lasts, past }).await? {
            FinalAnswer::Begun(state) => {
                self.speculative.export = Some((id, state));
                Ok(state)
            }
            FinalAnswer::TooMany => Err(format!(
                "TRYAGAIN too many transactions read all keys of space '{}' at a time",
                self.speculative_space()
            )),
            FinalAnswer::Diverged(divergence) => Err(diverged(&*self.worker, &divergence)),
            _ => Err(self.unanswered()),
        }
    }

    /// Reads a page of the open transaction's export: keys with their contents, and whether more
    /// follow.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn speculative_page(
        &mut self,
        number: u64,
    ) -> Result<(Vec<(Key, Outcome)>, bool), String> {
        let Some((id, _)) = self.speculative.export else {
            return Err("ERR send SOLERA.EXPORT without arguments first".to_owned());
        };
        match self.export_step(FinalStep::Page { id, number }).await? {
            FinalAnswer::Page(entries, more) => {
                let page = Page { entries, next: None };
                // A page from another node may contain anything.
                if page.is_sound() { Ok((page.entries, more)) } else { Err(self.unanswered()) }
            }
            FinalAnswer::Gone => Err(self.without_export()),
            _ => Err(self.unanswered()),
        }
    }

    /// Ends the export of the open transaction, if it has one.
    pub(crate) fn drop_speculative_export(&mut self) {
        let Some((id, _)) = self.speculative.export.take() else { return };
        let worker = Rc::clone(&self.worker);
        tokio::task::spawn_local(async move {
            // A worker that does not answer drops the export when its time is over.
            worker.ask_speculative(ToSpeculative::Export(FinalStep::End { id })).await;
        });
    }

    async fn export_step(&self, step: FinalStep) -> Result<FinalAnswer, String> {
        match self.request_speculative(ToSpeculative::Export(step)).await? {
            FromSpeculative::Exported(answer) => Ok(answer),
            _ => Err(self.unanswered()),
        }
    }

    fn without_export(&self) -> String {
        let name = self.worker.node_name(self.speculative_worker());
        format!(
            "TRYAGAIN {name} does not hold the final state of space '{}' for this transaction; start again",
            self.speculative_space()
        )
    }
}
