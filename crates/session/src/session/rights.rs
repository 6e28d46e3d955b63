//! Rights of the client.

use solera_commands::{COMMANDS, Command as Described, CommandId, Unit};
use solera_config::Denied;
use solera_data::BOUNDS;
use solera_resp::Arguments;

use super::ClientSession;
use crate::context::Context;
use crate::delegation::Delegation;
use crate::identity::Refused;

impl<W: Context> ClientSession<W> {
    /// Makes the session act for another one. Must be called before the first command.
    pub fn act_for(&mut self, delegation: Delegation) {
        self.pasts.join(&delegation.pasts());
        (self.occult.past, self.occult.epoch) = delegation.occult();
        if let Some(user) = &delegation.user {
            self.identity.become_user(user.clone());
        }
        self.delegation = Some(delegation);
    }

    /// Checks that the client may send a request. The number of arguments has been checked before.
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

    /// Checks that the client may run a command, or a subcommand, on keys.
    pub(crate) fn may_use<'a>(
        &self,
        unit: Unit,
        keys: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Result<(), Refused> {
        // Every site trusts the agreements on error bounds.
        if self.worker.spec().spaces.have_bounds()
            && unit.command().has_flag("write")
            && keys.clone().any(|key| key.starts_with(BOUNDS.as_bytes()))
        {
            return Err(Refused::Denied(Denied::Key));
        }
        if !self.worker.is_guarded() {
            return Ok(());
        }
        let spaces = &self.worker.spec().spaces;
        let command = unit.command().id;
        if self
            .delegation
            .as_ref()
            .is_some_and(|delegation| delegation.may(command, keys.clone(), spaces))
        {
            return Ok(());
        }
        self.identity.may(unit, keys.clone())?;
        // Servers trust the records that transactions and modules keep under reserved keys, and
        // complete transactions from these records with the servers' own rights.
        if keys.clone().any(|key| spaces.is_reserved(key)) && !self.identity.may_coordinate() {
            return Err(Refused::Denied(Denied::Key));
        }
        Ok(())
    }

    /// Returns whether the client may read a key, with GET.
    pub(crate) fn may_read(&self, key: &[u8]) -> bool {
        let get = &COMMANDS[CommandId::Get as usize];
        self.may_use(Unit::of(get, None), std::iter::once(key)).is_ok()
    }

    /// Returns whether the client must authenticate and has not done so.
    pub fn is_unknown(&self) -> bool {
        self.worker.is_guarded() && !self.identity.is_known()
    }
}
