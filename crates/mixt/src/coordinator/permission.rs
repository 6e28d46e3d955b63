//! Asks whether the users in whose names a transaction runs may do what is known of it, before it
//! does anything.
//!
//! Of a new one it is asked where something would have taken effect before a right is missed; of
//! one that is gone on with, always, and before a turn is taken.

use std::sync::Arc;

use super::{Ask, Coordinator, Stage};
use crate::access::{Access, Denial};
use crate::outcome::Why;
use crate::request::calls::StoreError;
use crate::request::{Reply, Request};
use crate::rights::accesses;

/// What is still to be asked, by database.
#[derive(Debug)]
pub(super) struct Permission {
    rest: Vec<(Arc<str>, Vec<Access>)>,
}

impl Permission {
    pub(super) fn new(of: &Coordinator) -> Permission {
        let due = !of.guarded.is_empty() && (!of.fresh || of.may_stop_halfway());
        if !due {
            return Permission { rest: Vec::new() };
        }
        let mut all = accesses(&of.job, &of.state);
        // A user who is gone may do nothing any more, in whatever stores.
        let asked = of.guarded.iter().filter(|name| of.job.users.contains_key(*name));
        for database in asked {
            all.entry(Arc::clone(database)).or_default();
        }
        all.retain(|database, _| of.guarded.contains(database));
        Permission { rest: all.into_iter().collect() }
    }
}

impl Coordinator {
    /// Whether something may have taken effect when it is denied something.
    fn may_stop_halfway(&self) -> bool {
        let groups = &self.job.plan.groups;
        let last = groups.len().saturating_sub(1);
        groups.iter().enumerate().any(|(at, group)| group.writes() && (at < last || !group.atomic))
    }

    pub(super) fn ask_permission(&mut self, asked: Permission) -> Option<Ask> {
        let (database, accesses) = asked.rest.last()?.clone();
        self.stage = Stage::Permission(asked);
        Some(Ask::Store { database, request: Request::Permits(accesses) })
    }

    pub(super) fn permission(
        &mut self,
        mut asked: Permission,
        reply: Option<Result<Reply, StoreError>>,
    ) -> Option<Ask> {
        let (database, _) = asked.rest.pop().expect("it was asked for");
        match reply {
            Some(Ok(Reply::Permits(Some(Denial { phase, reason })))) => {
                self.stop(Why::Denied { database, phase, reason })
            }
            // What cannot be asked now is not known beforehand.
            _ => self.ask_permission(asked),
        }
    }
}
