//! Outcomes of transactions, for clients that have not received the reply.

use std::collections::{BTreeMap, VecDeque};

use super::{Gateway, Stage};
use crate::command::{Fate, Response};

/// Number of outcomes that are kept.
const MOST: usize = 65_536;

/// The outcomes of the latest transactions that have ended, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Ended {
    committed: BTreeMap<u64, bool>,
    /// The numbers, the latest last.
    order: VecDeque<u64>,
}

impl Ended {
    pub(super) fn note(&mut self, number: u64, committed: bool) {
        if self.committed.insert(number, committed).is_none() {
            self.order.push_back(number);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.committed.remove(&oldest);
        }
    }
}

impl Gateway {
    /// Notes how a transaction ends, if this reply says so.
    pub(super) fn note_end(&mut self, number: u64, reply: &Response) {
        let committed = match reply {
            Response::Committed { .. } => true,
            // It may still commit.
            Response::Unknown(_) => return,
            _ => false,
        };
        if self.open.get(&number).is_some_and(|open| !open.single) {
            self.ended.note(number, committed);
        }
    }

    /// Returns what is known about a transaction of this worker's clients.
    pub(crate) fn fate(&self, incarnation: u64, number: u64) -> Fate {
        if incarnation != self.id.incarnation {
            return Fate::Restarted;
        }
        let open = self.open.get(&number).filter(|open| !open.single);
        match (self.ended.committed.get(&number), open.map(|open| &open.stage)) {
            (Some(true), _) | (None, Some(Stage::Ended(Response::Committed { .. }))) => {
                Fate::Committed
            }
            (Some(false), _) | (None, Some(Stage::Ended(_))) => Fate::Aborted,
            (None, Some(_)) => Fate::Undecided,
            (None, None) => Fate::Forgotten,
        }
    }
}
