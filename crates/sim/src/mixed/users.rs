//! Users and their rights.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use solera_mixt::store::StoreError;

/// Names of the users and of the databases.
pub(super) const USERS: [&str; 3] = ["alice", "bob", "carol"];
pub(super) const DATABASES: [&str; 3] = ["directory", "mail", "shop"];

/// The rights of all users, and the user of each transaction. Copies share their contents.
#[derive(Clone)]
pub(super) struct Users(Arc<Mutex<Inner>>);

struct Inner {
    /// Pairs of a user and a database.
    rights: BTreeSet<(&'static str, &'static str)>,
    /// The user of the transaction that writes each number.
    callers: BTreeMap<i64, &'static str>,
    /// Number of changes of rights.
    changes: u32,
    violations: Vec<String>,
}

impl Users {
    /// Creates users who may use all databases.
    pub(super) fn new() -> Users {
        let (callers, violations) = (BTreeMap::new(), Vec::new());
        let inner = Inner { rights: BTreeSet::new(), callers, changes: 0, violations };
        let users = Users(Arc::new(Mutex::new(inner)));
        users.grant_all();
        users
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("the world has one thread")
    }

    pub(super) fn grant(&self, user: &'static str, database: &'static str, granted: bool) {
        let mut users = self.lock();
        let right = (user, database);
        if granted {
            users.rights.insert(right)
        } else {
            users.rights.remove(&right)
        };
        users.changes += 1;
    }

    pub(super) fn grant_all(&self) {
        for user in USERS {
            DATABASES.iter().for_each(|database| self.grant(user, database, true));
        }
    }

    pub(super) fn changes(&self) -> u32 {
        self.lock().changes
    }

    pub(super) fn may(&self, user: &str, database: &str) -> bool {
        self.lock().rights.iter().any(|right| *right == (user, database))
    }

    /// Checks the rights of a session's user. The host, which has no name, has all rights.
    pub(super) fn check(&self, user: Option<&str>, database: &str) -> Result<(), StoreError> {
        match user {
            Some(user) if !self.may(user, database) => {
                Err(StoreError::Denied(format!("user '{user}' may not use it")))
            }
            _ => Ok(()),
        }
    }

    /// Records the user of a transaction.
    pub(super) fn begins(&self, number: i64, user: &'static str) {
        self.lock().callers.insert(number, user);
    }

    /// Checks a write of a number, for which its user needs a right, regardless of the host that
    /// executes it.
    pub(super) fn judge(&self, number: i64, database: &str) {
        let caller = self.lock().callers.get(&number).copied();
        if let Some(caller) = caller.filter(|caller| !self.may(caller, database)) {
            let violation =
                format!("{number} of {caller} was written in {database} without a right");
            self.lock().violations.push(violation);
        }
    }

    /// Returns the writes without a right.
    pub(super) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }
}
