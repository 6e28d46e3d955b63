//! Sessions within the process that act for another session: what they take over from it, and what
//! they may do beyond their user's rights.

use std::sync::{Arc, Mutex, PoisonError};

use solera_commands::CommandId;
use solera_config::{Spaces, User};
use solera_data::RESERVED;
use solera_unistore::Pasts;

/// What a session in this process takes over from the one for which it was opened.
#[derive(Clone)]
pub struct Lent {
    /// Who it is. Nobody, and allowed everything, if it is the server's own.
    pub(crate) user: Option<Arc<User>>,
    /// Whether it is the server's own.
    pub(crate) own: bool,
    pasts: Arc<Mutex<Pasts>>,
}

impl Lent {
    /// Acts for a user who has seen this.
    pub fn new(user: Option<Arc<User>>, pasts: Pasts) -> Lent {
        Lent { user, own: false, pasts: Arc::new(Mutex::new(pasts)) }
    }

    /// Who it is; `None` if it is nobody, or the server's own.
    pub fn user(&self) -> Option<&Arc<User>> {
        self.user.as_ref()
    }

    /// The same session's past, for another user.
    pub fn with_user(&self, user: Option<Arc<User>>) -> Lent {
        Lent { user, own: false, pasts: self.pasts.clone() }
    }

    /// The same session's past, for the server itself.
    pub fn for_server(&self) -> Lent {
        Lent { user: None, own: true, pasts: self.pasts.clone() }
    }

    /// What the sessions have seen and written.
    pub fn pasts(&self) -> Pasts {
        *self.pasts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session has seen and written this.
    pub(crate) fn note(&self, pasts: &Pasts) {
        self.pasts.lock().unwrap_or_else(PoisonError::into_inner).join(pasts);
    }

    /// Whether the session may send a command, whatever its user may: what every transaction needs,
    /// and all on keys that are not for users.
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
        let reserved = |key: &[u8]| is_reserved(spaces, key);
        self.own || needed || (keys.peek().is_some() && keys.all(reserved))
    }
}

/// Whether a key is not for the data of users.
pub fn is_reserved(spaces: &Spaces, key: &[u8]) -> bool {
    let prefix = spaces.space_of(key).prefix.len();
    key[prefix..].starts_with(RESERVED.as_bytes())
}

#[cfg(test)]
mod tests {
    use solera_config::Space;
    use solera_levels::Level;

    use super::*;

    #[test]
    fn a_lent_session_may_more_only_on_reserved_keys() {
        let spaces = vec![Space::new("mail", "mail:", Level::Causal)];
        let spaces = Spaces::new(spaces).unwrap();
        let lent = Lent::new(None, Pasts::none(1));
        let may =
            |command, keys: &[&'static [u8]]| lent.may(command, keys.iter().copied(), &spaces);
        assert!(may(CommandId::SoleraBegin, &[]));
        assert!(may(CommandId::Hset, &[b"mail:solera:mixt:w:a"]));
        assert!(may(CommandId::Hget, &[b"solera:modules"]));
        assert!(!may(CommandId::Hget, &[b"mail:a"]));
        assert!(!may(CommandId::Hget, &[b"a:solera:b"]));
        assert!(!may(CommandId::Mget, &[b"solera:modules", b"a"]));
        assert!(!may(CommandId::SoleraExport, &[]));
        assert!(lent.for_server().may(CommandId::Get, [&b"a"[..]], &spaces));
    }
}
