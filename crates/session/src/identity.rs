//! The user of a connection, and its authentication.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};
use solera_commands::Unit;
use solera_config::{DEFAULT_USER, Denied, PasswordHash, User, Users};
use subtle::{Choice, ConstantTimeEq};
use tokio::sync::watch;

/// Reason why a connection may not run a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The connection has not authenticated.
    Unknown,
    /// The user does not have the right.
    Denied(Denied),
}

impl Refused {
    /// Returns the error reply of a queued command that the user was allowed to send but may not
    /// run now.
    pub(crate) fn in_exec(&self) -> String {
        let reason = match self {
            Refused::Unknown => return self.to_string(),
            Refused::Denied(Denied::Command(_)) => {
                "no permission to execute the command or subcommand"
            }
            Refused::Denied(Denied::Key) => "no permission to touch the specified keys",
        };
        format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
             call. This command is no longer allowed for the following reason: {reason}"
        )
    }
}

impl fmt::Display for Refused {
    /// Formats the error in Redis' words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Unknown => f.write_str("NOAUTH Authentication required."),
            Refused::Denied(denied) => denied.fmt(f),
        }
    }
}

/// Returns the SHA-256 of a password in hexadecimal, as `password_sha256` expects it.
pub fn hash_password(password: &[u8]) -> String {
    HEXLOWER.encode(&sha256(password))
}

fn sha256(password: &[u8]) -> PasswordHash {
    let mut hash = PasswordHash::default();
    hash.copy_from_slice(digest(&SHA256, password).as_ref());
    hash
}

/// Returns the user of this name if the password is right. The time does not depend on how much of
/// a hash is right, and hardly on whether the user exists.
pub fn verify(users: &Users, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
    let hash = sha256(password);
    let user = std::str::from_utf8(name).ok().and_then(|name| users.get(name))?;
    let equal = user.hashes.iter().fold(Choice::from(0), |equal, own| equal | own.ct_eq(&hash));
    let right = (user.nopass | bool::from(equal)) & user.enabled;
    right.then(|| user.clone())
}

/// The user of a connection; none until the connection has authenticated.
#[derive(Debug)]
pub struct Identity {
    user: RefCell<Option<Arc<User>>>,
    /// Time when the connection was last left without a user.
    since: Cell<Instant>,
}

impl Identity {
    /// Creates the identity of a new connection: the default user if that needs no password, none
    /// otherwise.
    pub fn new(users: &Users) -> Identity {
        let identity = Identity { user: RefCell::default(), since: Cell::new(Instant::now()) };
        identity.reset(users);
        identity
    }

    /// Returns to the identity of a new connection.
    pub(crate) fn reset(&self, users: &Users) {
        let default = users.get(DEFAULT_USER).filter(|user| user.nopass && user.enabled);
        *self.user.borrow_mut() = default.cloned();
        self.since.set(Instant::now());
    }

    /// Makes `user` the connection's user.
    pub fn become_user(&self, user: Arc<User>) {
        *self.user.borrow_mut() = Some(user);
    }

    pub(crate) fn is_known(&self) -> bool {
        self.user.borrow().is_some()
    }

    /// Returns the user with the current rules.
    pub(crate) fn user(&self) -> Option<Arc<User>> {
        self.user.borrow().clone()
    }

    /// Returns the user's name; empty if there is none.
    pub(crate) fn name(&self) -> String {
        self.user.borrow().as_ref().map_or_else(String::new, |user| user.name.clone())
    }

    /// Checks that the connection may run a command, or a subcommand, on keys.
    pub(crate) fn may<'a>(
        &self,
        unit: Unit,
        keys: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), Refused> {
        match &*self.user.borrow() {
            Some(user) => user.may(unit, keys).map_err(Refused::Denied),
            None if unit.command().has_flag("no_auth") => Ok(()),
            None => Err(Refused::Unknown),
        }
    }

    /// Returns whether the user may run transactions whose coordinator is elsewhere.
    pub(crate) fn may_coordinate(&self) -> bool {
        self.user.borrow().as_ref().is_some_and(|user| user.may_run("solera.phase"))
    }

    /// Returns whether the user may read all keys.
    pub(crate) fn reads_all_keys(&self) -> bool {
        self.user.borrow().as_ref().is_some_and(|user| user.reads_all_keys())
    }

    /// Completes when the connection has been unauthenticated for `limit`.
    pub async fn stays_unknown(&self, limit: Duration) {
        loop {
            let waited = if self.is_known() { Duration::ZERO } else { self.since.get().elapsed() };
            if waited >= limit {
                return;
            }
            tokio::time::sleep(limit - waited).await;
        }
    }

    /// Applies changes of the users to this identity. Completes when the user is removed, is
    /// disabled, or newly needs a password.
    pub async fn ends(&self, mut users: watch::Receiver<Arc<Users>>) {
        while users.changed().await.is_ok() {
            let users = users.borrow_and_update().clone();
            let mut own = self.user.borrow_mut();
            if let Some(known) = own.as_ref() {
                let now = users.get(&known.name).filter(|user| user.enabled);
                match now.filter(|now| now.nopass || !known.nopass) {
                    Some(now) => *own = Some(now.clone()),
                    None => return,
                }
            }
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Made = (&'static str, fn(&mut User));

    fn users(made: &[Made]) -> Users {
        let user = |(name, change): &Made| {
            let mut user = User::new(name);
            change(&mut user);
            user
        };
        Users::new(made.iter().map(user).collect())
    }

    fn with_password(user: &mut User) {
        user.add_hash(&hash_password(b"other")).unwrap();
        user.add_hash(&hash_password(b"pw")).unwrap();
    }

    #[test]
    fn a_password_is_hashed_as_by_redis() {
        let hash = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";
        assert_eq!(hash_password(b"pw"), hash);
    }

    #[test]
    fn only_the_right_password_of_an_enabled_user_opens() {
        let users = users(&[
            ("alice", with_password),
            ("off", |user| {
                with_password(user);
                user.enabled = false;
            }),
            ("anybody", |user| user.nopass = true),
            ("nobody", |_| ()),
        ]);
        for (name, password, expected) in [
            ("alice", "pw", true),
            ("alice", "other", true),
            ("alice", "", false),
            ("alice", "PW", false),
            ("Alice", "pw", false),
            ("off", "pw", false),
            ("anybody", "x", true),
            ("nobody", "", false),
            ("default", "", false),
            ("x", "pw", false),
        ] {
            let found = verify(&users, name.as_bytes(), password.as_bytes());
            assert_eq!(found.map(|user| user.name.clone()), expected.then(|| name.to_owned()));
        }
        assert_eq!(verify(&users, b"\xff", b"pw"), None);
    }

    #[tokio::test]
    async fn only_unauthenticated_connections_time_out() {
        let users = users(&[("alice", with_password)]);
        let identity = Identity::new(&users);
        let given_up = async |identity: &Identity| {
            tokio::select! {
                biased;
                () = identity.stays_unknown(Duration::from_secs(60)) => true,
                () = std::future::ready(()) => false,
            }
        };
        assert!(!given_up(&identity).await);
        let Some(long_ago) = Instant::now().checked_sub(Duration::from_secs(61)) else { return };
        identity.since.set(long_ago);
        assert!(given_up(&identity).await);
        identity.become_user(users.get("alice").unwrap().clone());
        assert!(!given_up(&identity).await);
        identity.reset(&users);
        assert!(!given_up(&identity).await, "it has a minute again");
    }

    #[test]
    fn a_connection_ends_with_its_user() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ends = |before: &Users, name: &str, after: Users| {
            let sender = watch::Sender::new(Arc::new(before.clone()));
            let identity = Identity::new(before);
            if let Some(user) = before.get(name) {
                identity.become_user(user.clone());
            }
            let receiver = sender.subscribe();
            sender.send_replace(Arc::new(after));
            drop(sender);
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = identity.ends(receiver) => true,
                    () = std::future::ready(()) => false,
                }
            })
        };
        let alice = users(&[("alice", with_password)]);
        let open = Users::default();
        assert!(!ends(&alice, "alice", alice.clone()));
        assert!(ends(&alice, "alice", users(&[("bob", with_password)])));
        assert!(ends(&alice, "alice", open.clone()));
        assert!(ends(&alice, "alice", users(&[("alice", |user| user.enabled = false)])));
        assert!(ends(&open, "default", alice.clone()), "the default user now needs a password");
        assert!(ends(&open, "default", users(&[("default", with_password)])));
        assert!(!ends(&open, "default", users(&[("default", |user| user.nopass = true)])));
        assert!(!ends(&alice, "", open), "an unauthenticated connection stays so");
    }
}
