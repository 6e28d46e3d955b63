//! Delegation: sessions within the process that act for another session. They take over its user
//! and its pasts, and have some rights beyond the user's.

use std::sync::{Arc, Mutex, PoisonError};

use solera_commands::CommandId;
use solera_config::{Spaces, User};
use solera_creek::Past;
use solera_occult::CausalTimestamp;
use solera_unistore::Pasts;

use crate::returned::Invoked;

/// User and pasts that a session in this process takes over from the session for which it acts.
#[derive(Clone)]
pub struct Delegation {
    /// The user. `None` means an unauthenticated session, or the server itself, which may do
    /// everything.
    pub(crate) user: Option<Arc<User>>,
    /// Whether the session acts for the server itself.
    pub(crate) own: bool,
    pasts: Arc<Mutex<Pasts>>,
    /// Causal past of the sessions on keys that Occult holds, and the number of moves of homes
    /// against which it was checked.
    occult: Arc<Mutex<(CausalTimestamp, u64)>>,
    /// Past of the sessions in the speculative space, and the last operation there.
    speculative: Arc<Mutex<(Past, Option<Invoked>)>>,
}

impl Delegation {
    /// Creates a delegation for a user whose session has seen `pasts`, and `occult` of keys that
    /// Occult holds, which was checked against so many moves of homes.
    pub fn new(
        user: Option<Arc<User>>,
        pasts: Pasts,
        occult: (CausalTimestamp, u64),
    ) -> Delegation {
        let (pasts, occult) = (Arc::new(Mutex::new(pasts)), Arc::new(Mutex::new(occult)));
        Delegation { user, own: false, pasts, occult, speculative: Arc::default() }
    }

    /// Returns the user; `None` for an unauthenticated session and for the server itself.
    pub fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }

    /// Returns a delegation with the same pasts for another user.
    pub fn with_user(&self, user: Option<Arc<User>>) -> Delegation {
        Delegation { user, own: false, ..self.clone() }
    }

    /// Returns a delegation with the same pasts for the server itself.
    pub fn for_server(&self) -> Delegation {
        Delegation { user: None, own: true, ..self.clone() }
    }

    /// Returns what the sessions have seen and written.
    pub fn pasts(&self) -> Pasts {
        *self.pasts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records what a session has seen and written.
    pub(crate) fn note(&self, pasts: &Pasts) {
        self.pasts.lock().unwrap_or_else(PoisonError::into_inner).join(pasts);
    }

    /// Returns what the sessions have seen of keys that Occult holds, and the number of moves
    /// against which it was checked.
    pub(crate) fn occult(&self) -> (CausalTimestamp, u64) {
        self.occult.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records by `join` what a session has seen of keys that Occult holds.
    pub(crate) fn note_occult(&self, join: impl FnOnce(&mut (CausalTimestamp, u64))) {
        join(&mut self.occult.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Records what a session has seen of the speculative space.
    pub(crate) fn note_speculative(&self, past: &Past) {
        self.speculative.lock().unwrap_or_else(PoisonError::into_inner).0.join(past);
    }

    /// Records the first answer to an operation of the speculative space.
    pub(crate) fn note_invoked(&self, invoked: Invoked) {
        self.speculative.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(invoked);
    }

    /// Returns what the sessions have seen of the speculative space, and removes and returns the
    /// first answer to the last operation there, if there was one.
    pub(crate) fn take_speculative(&self) -> (Past, Option<Invoked>) {
        let mut speculative = self.speculative.lock().unwrap_or_else(PoisonError::into_inner);
        (speculative.0.clone(), speculative.1.take())
    }

    /// Returns whether the session may run a command even if its user may not. It may always run
    /// the commands that every transaction needs, and all commands on reserved keys.
    pub(crate) fn may<'a>(
        &self,
        command: CommandId,
        keys: impl IntoIterator<Item = &'a [u8]>,
        spaces: &Spaces,
    ) -> bool {
        let needed = matches!(
            command,
            CommandId::SoleraBegin
                | CommandId::SoleraCommit
                | CommandId::SoleraAbort
                | CommandId::SoleraTxid
                | CommandId::SoleraOutcome
                | CommandId::SoleraToken
                | CommandId::SoleraAttach
        );
        let mut keys = keys.into_iter().peekable();
        self.own || needed || (keys.peek().is_some() && keys.all(|key| spaces.is_reserved(key)))
    }
}

#[cfg(test)]
mod tests {
    use solera_config::Space;
    use solera_levels::Level;
    use solera_occult::Scheme;

    use super::*;

    #[test]
    fn a_delegate_has_more_rights_only_on_reserved_keys() {
        let spaces = vec![Space::new("mail", "mail:", Level::Causal)];
        let spaces = Spaces::new(spaces).unwrap();
        let past = CausalTimestamp::new(Scheme::PerSite(1));
        let delegation = Delegation::new(None, Pasts::none(1), (past, 0));
        let may = |command, keys: &[&'static [u8]]| {
            delegation.may(command, keys.iter().copied(), &spaces)
        };
        assert!(may(CommandId::SoleraBegin, &[]));
        assert!(may(CommandId::Hset, &[b"mail:solera:mixt:w:a"]));
        assert!(may(CommandId::Hget, &[b"solera:modules"]));
        assert!(!may(CommandId::Hget, &[b"mail:a"]));
        assert!(!may(CommandId::Hget, &[b"a:solera:b"]));
        assert!(!may(CommandId::Mget, &[b"solera:modules", b"a"]));
        assert!(!may(CommandId::SoleraExport, &[]));
        assert!(delegation.for_server().may(CommandId::Get, [&b"a"[..]], &spaces));
    }
}
