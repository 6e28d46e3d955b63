//! Users, and what they may do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use solera_mixt::store::StoreError;

/// Who calls, and which databases there are.
pub(super) const USERS: [&str; 3] = ["alice", "bob", "carol"];
pub(super) const DATABASES: [&str; 3] = ["directory", "mail", "shop"];

/// The rights of all users, and who has begun which transaction. Copies are the same.
#[derive(Clone)]
pub(super) struct Users(Arc<Mutex<Inner>>);

struct Inner {
    /// Pairs of a user and a database.
    rights: BTreeSet<(&'static str, &'static str)>,
    /// Who has begun the transaction that writes a number.
    callers: BTreeMap<i64, &'static str>,
    /// How often rights have changed.
    changes: u32,
    violations: Vec<String>,
}

impl Users {
    /// Users who may use all databases.
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

    /// What a session of a user is told. The host, which has no name, may do everything.
    pub(super) fn check(&self, user: Option<&str>, database: &str) -> Result<(), StoreError> {
        match user {
            Some(user) if !self.may(user, database) => {
                Err(StoreError::Denied(format!("user '{user}' may not use it")))
            }
            _ => Ok(()),
        }
    }

    /// Notes who has begun a transaction.
    pub(super) fn begins(&self, number: i64, user: &'static str) {
        self.lock().callers.insert(number, user);
    }

    /// Judges a write of a number, which its caller must have a right to, whoever does it.
    pub(super) fn judge(&self, number: i64, database: &str) {
        let caller = self.lock().callers.get(&number).copied();
        if let Some(caller) = caller.filter(|caller| !self.may(caller, database)) {
            let told = format!("{number} of {caller} was written in {database} without a right");
            self.lock().violations.push(told);
        }
    }

    /// What was done without a right.
    pub(super) fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }
}
