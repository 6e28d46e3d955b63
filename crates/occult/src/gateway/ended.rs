//! Outcomes of transactions, for clients that have not received the reply.

use super::{Gateway, Stage};
use crate::command::{Fate, Response};

/// Number of outcomes that are kept: those of the latest transactions.
pub(super) const KEPT: usize = 65_536;

impl Gateway {
    /// Notes the outcome of a transaction, if this reply contains it.
    pub(super) fn note_end(&mut self, number: u64, reply: &Response) {
        let committed = match reply {
            Response::Committed { .. } => true,
            // It may still commit.
            Response::Unknown(_) => return,
            _ => false,
        };
        if self.open.get(&number).is_some_and(|open| !open.single) {
            self.ended.add(number, committed);
        }
    }

    /// Returns the outcome of a transaction of this worker's clients, as far as it is known.
    pub(crate) fn fate(&self, incarnation: u64, number: u64) -> Fate {
        if incarnation != self.id.incarnation {
            return Fate::Restarted;
        }
        let open = self.open.get(&number).filter(|open| !open.single);
        match (self.ended.get(&number), open.map(|open| &open.stage)) {
            (Some(true), _) | (None, Some(Stage::Ended(Response::Committed { .. }))) => {
                Fate::Committed
            }
            // Its home was taken by force, or its site was removed.
            (None, Some(Stage::Ended(Response::Unknown(_)))) => Fate::Forgotten,
            (Some(false), _) | (None, Some(Stage::Ended(_))) => Fate::Aborted,
            (None, Some(_)) => Fate::Undecided,
            (None, None) => Fate::Forgotten,
        }
    }
}
