//! Checks the rights of a transaction's users to the accesses that are known in advance, before the
//! transaction makes any access.
//!
//! The coordinator checks a new transaction only if something could take effect before a missing
//! right is noticed. It always checks a resumed one, before it acquires the lease.

use std::sync::Arc;

use super::{Ask, Coordinator, Stage};
use crate::access::{Access, Denial};
use crate::outcome::Why;
use crate::request::calls::StoreError;
use crate::request::{Reply, Request};
use crate::rights::accesses;

/// Accesses that are still to be checked, by database.
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
        // Also asks databases that this transaction does not access: a deleted user has no rights
        // in any store.
        let asked = of.guarded.iter().filter(|name| of.job.users.contains_key(*name));
        for database in asked {
            all.entry(Arc::clone(database)).or_default();
        }
        all.retain(|database, _| of.guarded.contains(database));
        Permission { rest: all.into_iter().collect() }
    }
}

impl Coordinator {
    /// Returns whether something may have taken effect when a right is found missing.
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
        let (database, _) = asked.rest.pop().expect("a request to it is pending");
        match reply {
            Some(Ok(Reply::Permits(Some(Denial { phase, reason })))) => {
                self.stop(Why::Denied { database, phase, reason })
            }
            // A right that cannot be checked now is checked at the access.
            _ => self.ask_permission(asked),
        }
    }
}
