//! What the client may do.

use solera_commands::{Command as Described, Unit};
use solera_config::Denied;
use solera_resp::Arguments;

use super::Session;
use crate::context::Context;
use crate::identity::Refused;
use crate::lent::{Lent, is_reserved};

impl<W: Context> Session<W> {
    /// Acts for another session from the beginning.
    pub fn act_for(&mut self, lent: Lent) {
        self.pasts.join(&lent.pasts());
        if let Some(user) = &lent.user {
            self.identity.become_user(user.clone());
        }
        self.lent = Some(lent);
    }

    /// Whether the client may send a request. Its number of arguments has been checked.
    pub(crate) fn may(
        &self,
        command: &'static Described,
        arguments: &Arguments<'_>,
    ) -> Result<(), Refused> {
        if !self.worker.is_guarded() {
            return Ok(());
        }
        let unit = Unit::of(command, arguments.from(1).next());
        self.may_use(unit, command.keys(arguments.from(0)))
    }

    /// Whether the client may run a command, or a subcommand, on keys.
    pub(crate) fn may_use<'a>(
        &self,
        unit: Unit,
        keys: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<(), Refused> {
        if !self.worker.is_guarded() {
            return Ok(());
        }
        let spaces = &self.worker.spec().spaces;
        let command = unit.command().id;
        if self.lent.as_ref().is_some_and(|lent| lent.may(command, keys.clone(), spaces)) {
            return Ok(());
        }
        self.identity.may(unit, keys.clone())?;
        // What transactions and modules keep is believed by those that complete them, with the
        // rights of a server.
        if keys.clone().any(|key| is_reserved(spaces, key)) && !self.identity.may_coordinate() {
            return Err(Refused::Denied(Denied::Key));
        }
        Ok(())
    }

    /// Whether the client must say who it is, and has not.
    pub fn is_unknown(&self) -> bool {
        self.worker.is_guarded() && !self.identity.is_known()
    }
}
