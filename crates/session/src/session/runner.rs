//! The protocol that runs the keys of a command or transaction.

use super::ClientSession;
use super::mode::Current;
use super::queue::Runner;
use crate::context::Context;
use crate::plan::Plan;

impl<W: Context> ClientSession<W> {
    /// Returns the protocol that runs a key.
    fn runner_of_key(&self, key: &[u8]) -> Runner {
        let spaces = &self.worker.spec().spaces;
        if spaces.is_of_occult(key) {
            Runner::Occult
        } else if spaces.is_speculative(key) {
            Runner::Speculative
        } else {
            Runner::UniStore
        }
    }

    /// Returns the protocol that runs these keys.
    ///
    /// # Errors
    /// The error reply, if the keys are of several protocols, or another protocol runs the open
    /// transaction.
    pub(crate) fn runner_of<'a>(
        &self,
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Runner, String> {
        let spaces = &self.worker.spec().spaces;
        if !spaces.run_occult() && !spaces.run_speculative() {
            return Ok(Runner::UniStore);
        }
        let mut found: Option<(Runner, &[u8])> = None;
        for key in keys {
            let runner = self.runner_of_key(key);
            match found {
                None => found = Some((runner, key)),
                Some((first, _)) if first == runner => {}
                Some((first, of_first)) => {
                    let (one, level, other) = match (first.level(), runner.level()) {
                        (Some(level), _) => (of_first, level, key),
                        (None, level) => (key, level.unwrap_or_default(), of_first),
                    };
                    return Err(format!(
                        "ERR {} is of level {level}, and {} is not: one transaction cannot span both",
                        self.key_in_space(one),
                        self.key_in_space(other)
                    ));
                }
            }
        }
        let Some((runner, key)) = found else { return Ok(Runner::UniStore) };
        let key = || self.key_in_space(key);
        match (self.mode.current(), runner) {
            (Some(_), Runner::Speculative) => Err(format!(
                "ERR {} is of level speculative, and such keys take part in no open transaction; use MULTI",
                key()
            )),
            (Some(Current::UniStore(_)), Runner::Occult) => Err(format!(
                "ERR {} is of level pcpsi, and the open transaction is not: one transaction cannot span both; use \
                 SOLERA.BEGIN PCPSI",
                key()
            )),
            (Some(Current::Occult(_)), Runner::UniStore) => Err(format!(
                "ERR {} is not of level pcpsi, and the open transaction is: one transaction cannot span both",
                key()
            )),
            _ => Ok(runner),
        }
    }

    /// Formats a key and its space for an error.
    pub(super) fn key_in_space(&self, key: &[u8]) -> String {
        let space = self.worker.spec().spaces.space_of(key);
        format!("'{}' (space '{}')", String::from_utf8_lossy(key), space.name)
    }

    /// Notes in the queue between MULTI and EXEC which protocol runs a command.
    ///
    /// # Errors
    /// The error reply, if another protocol runs earlier commands.
    pub(super) fn note_runner(&mut self, plan: &Plan<'_>) -> Result<(), String> {
        let runner = self.runner_of(plan.keys())?;
        let key = plan.keys().next().map(|key| self.key_in_space(key)).unwrap_or_default();
        let Some(queue) = self.mode.queue_mut() else { return Ok(()) };
        let earlier = *queue.runner.get_or_insert(runner);
        if earlier == runner {
            return Ok(());
        }
        let (is, are, level) = match runner.level() {
            Some(level) => ("is", "are not", level),
            None => ("is not", "are", earlier.level().unwrap_or_default()),
        };
        Err(format!(
            "ERR {key} {is} of level {level}, and earlier keys since MULTI {are}: one transaction cannot span both"
        ))
    }
}
