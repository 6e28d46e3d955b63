//! Users of a world, their rights, and the clocks of hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use solera_mixt::executor::Clock;
use solera_mixt::store::{BoxFuture, StoreError};

use super::World;

/// Rule that the databases of a world leave out, so that a judge must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lax {
    /// No rule.
    No,
    /// Sessions check no rights.
    Rights,
    /// Hosts complete transactions of others in their own names.
    Names,
    /// Rights are not checked beforehand.
    Beforehand,
}

/// Users by their names. In a world without any, databases know no users.
#[derive(Default)]
pub(crate) struct Users {
    all: Mutex<BTreeMap<Arc<str>, BTreeSet<Arc<str>>>>,
    lax: Mutex<Option<Lax>>,
    /// Callers of the transactions, by the numbers that they write.
    callers: Mutex<BTreeMap<i64, Arc<str>>>,
    /// Writes for callers that had no right to them at that time.
    pub(crate) violations: Mutex<Vec<String>>,
}

impl Users {
    /// Adds users with rights to these databases.
    pub(crate) fn add(&self, names: &[&str], databases: &[&str], lax: Lax) {
        let rights: BTreeSet<_> = databases.iter().map(|name| Arc::from(*name)).collect();
        let users = names.iter().map(|name| (Arc::from(*name), rights.clone()));
        self.all.lock().unwrap().extend(users);
        *self.lax.lock().unwrap() = Some(lax);
    }

    pub(crate) fn are_known(&self) -> bool {
        self.lax.lock().unwrap().is_some()
    }

    pub(crate) fn is_lax(&self, in_what: Lax) -> bool {
        *self.lax.lock().unwrap() == Some(in_what)
    }

    /// Grants a right, or revokes it.
    pub(crate) fn grant(&self, user: &str, database: &str, granted: bool) {
        let mut all = self.all.lock().unwrap();
        let rights = all.get_mut(user).expect("there is such a user");
        if granted {
            rights.insert(database.into());
        } else {
            rights.remove(database);
        }
    }

    pub(crate) fn may(&self, user: &str, database: &str) -> bool {
        self.all.lock().unwrap().get(user).is_some_and(|rights| rights.contains(database))
    }

    /// Records the caller of a transaction.
    pub(crate) fn begins(&self, number: i64, user: Arc<str>) {
        self.callers.lock().unwrap().insert(number, user);
    }

    /// Records that a number is written. Its caller must have a right to that, whichever session
    /// writes it.
    pub(crate) fn judge(&self, number: i64, database: &str) {
        let callers = self.callers.lock().unwrap();
        if let Some(caller) = callers.get(&number)
            && !self.may(caller, database)
        {
            let reported = format!("{number} of {caller} in {database}");
            self.violations.lock().unwrap().push(reported);
        }
    }

    /// Checks that a user's session may execute an operation.
    pub(crate) fn check(&self, user: Option<&str>, database: &str) -> Result<(), StoreError> {
        match user {
            Some(user) if !self.is_lax(Lax::Rights) && !self.may(user, database) => {
                Err(StoreError::Denied(format!("user '{user}' may not use it")))
            }
            _ => Ok(()),
        }
    }
}

/// The clock of one host of the world, ahead of others.
pub(crate) struct HostClock {
    pub(crate) world: Arc<World>,
    pub(crate) ahead_ms: u64,
}

impl Clock for HostClock {
    fn now_ms(&self) -> u64 {
        self.world.now.load(Ordering::Relaxed) + self.ahead_ms
    }

    fn sleep(&self, ms: u64) -> BoxFuture<'_, ()> {
        let until = self.now_ms() + ms;
        Box::pin(std::future::poll_fn(move |_| {
            if self.now_ms() >= until { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
}
