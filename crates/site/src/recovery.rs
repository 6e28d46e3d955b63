//! Rebuilds a worker's machine from its journal.

use std::sync::Arc;

use solera_data::{Key, RESERVED};
use solera_machine::{Foreign, Protocol};
use solera_procedures::SpaceProcedures;
use solera_reservations::{misfit_of_part, misfit_of_record};

use crate::machine::{Host, Others};
use crate::{Config, PROTOCOLS, Site};

/// Passes each part and record to the protocol whose number it begins with.
pub struct Recovery {
    unistore: solera_unistore::Recovery,
    primary: Option<solera_primary::Recovery>,
    occult: Option<solera_occult::Recovery>,
    reservations: Option<solera_reservations::Recovery>,
    creek: Option<solera_creek::Recovery<SpaceProcedures>>,
    trial: Option<solera_trial::Recovery>,
    host: Host,
    /// See [`Config::occult_spaces`].
    occult_spaces: Arc<[(Vec<u8>, bool)]>,
    /// Whether the data contains some of `reservations`.
    has_reservations: bool,
    /// Difference between the data and a configuration without bounds.
    misfit: Option<String>,
}

impl Recovery {
    /// Creates a recovery that has taken nothing yet. `seed` only affects the placement of keys in
    /// hash tables.
    pub fn new(config: impl Into<Config>, seed: u64) -> Recovery {
        let config = config.into();
        let first = config.first_members();
        let primary = config.primary.map(|it| solera_primary::Recovery::new(it, &first));
        let occult = config.occult.map(|it| solera_occult::Recovery::new(it, &first));
        let reservations = config.reservations.map(solera_reservations::Recovery::new);
        let creek =
            config.creek.map(|it| solera_creek::Recovery::new(it, SpaceProcedures::default()));
        let host = Host::of(&config.unistore);
        let unistore = solera_unistore::Recovery::new(config.unistore, seed);
        let trial = config.trial.map(solera_trial::Recovery::new);
        let occult_spaces = config.occult_spaces;
        Recovery {
            unistore,
            primary,
            occult,
            reservations,
            creek,
            trial,
            host,
            occult_spaces,
            has_reservations: false,
            misfit: None,
        }
    }

    /// Returns the recovery of `primary`.
    fn primary(&mut self) -> Result<&mut solera_primary::Recovery, String> {
        self.primary.as_mut().ok_or_else(|| {
            "bytes of protocol 2 (primary), which this node does not run: the [[space]] of level 'primary' whose \
             keys are in this data is missing in solera.toml, or [development] examples = true. A data directory that \
             holds data of primary cannot drop the protocol: add the missing lines again. To get rid of the space, \
             then run `solera backup`, which leaves its keys out, and `solera restore --allow-other-spaces` into a \
             new cluster without it"
                .into()
        })
    }

    /// Returns the recovery of `occult`.
    fn occult(&mut self) -> Result<&mut solera_occult::Recovery, String> {
        self.occult.as_mut().ok_or_else(|| {
            "bytes of protocol 3 (occult), which this node does not run: the [[space]] of level 'pcpsi' whose keys \
             are in this data is missing in solera.toml. A data directory that holds data of occult cannot drop the \
             protocol: add the missing lines again. To get rid of the space, then run `solera backup` and `solera \
             restore` into a new cluster in which these keys have another level"
                .into()
        })
    }

    /// Returns the recovery of `reservations`; `None` if no space has a bound.
    fn reservations(&mut self) -> Option<&mut solera_reservations::Recovery> {
        self.has_reservations = true;
        self.reservations.as_mut()
    }

    /// Takes a part of `reservations`.
    fn take_part_of_bounds(&mut self, lsn: u64, part: &[u8]) -> Result<(), String> {
        match self.reservations() {
            Some(recovery) => recovery.take_part(lsn, part),
            None => {
                self.misfit = self.misfit.take().or(misfit_of_part(part));
                Ok(())
            }
        }
    }

    /// Takes a record of `reservations`.
    fn take_record_of_bounds(&mut self, lsn: u64, record: &[u8]) -> Result<(), String> {
        match self.reservations() {
            Some(recovery) => recovery.take_record(lsn, record),
            None => {
                self.misfit = self.misfit.take().or(misfit_of_record(record));
                Ok(())
            }
        }
    }

    /// Returns the recovery of `creek`.
    fn creek(&mut self) -> Result<&mut solera_creek::Recovery<SpaceProcedures>, String> {
        let not_here = || "bytes of protocol 5 (creek), which this worker does not run".into();
        self.creek.as_mut().ok_or_else(not_here)
    }

    /// Returns the recovery of `trial`.
    fn trial(&mut self) -> Result<&mut solera_trial::Recovery, String> {
        let not_here = || "bytes of protocol 255 (trial), which this worker does not run".into();
        self.trial.as_mut().ok_or_else(not_here)
    }

    /// Checks that keys have not lost or gained the level `pcpsi`: their data would be hidden.
    fn check_occult(&self) -> Result<(), String> {
        let Some(occult) = &self.occult else { return Ok(()) };
        occult.check()?;
        let runs = |key: &Key| {
            let of = self.occult_spaces.iter().find(|(prefix, _)| key.starts_with(prefix));
            of.map(|(_, runs)| *runs)
        };
        let own = |key: &&Key| !key.starts_with(RESERVED.as_bytes());
        let gained = self.unistore.each_key().filter(own).find(|key| runs(key) == Some(true));
        let lost = occult.each_key().find(|key| runs(key) == Some(false));
        let (key, level) = match (gained, lost) {
            (Some(key), _) => (key, "another level than 'pcpsi'"),
            (_, Some(key)) => (key, "level 'pcpsi'"),
            (None, None) => return Ok(()),
        };
        Err(format!(
            "'{key}' was written while its space had {level}, and with the present one its data would be hidden. \
             Restore the level in solera.toml. To change it, then run `solera backup`, and `solera restore` into a new \
             cluster in which the space has the new level"
        ))
    }

    /// Checks that the machine of error bounds has all updates of its keys.
    fn check_bounds(&self) -> Result<(), String> {
        match &self.reservations {
            Some(recovery) => recovery.check()?,
            None if self.has_reservations => {
                let unnamed =
                    || "a space had a bound when the data was written, and none has one".into();
                return Err(self.misfit.clone().unwrap_or_else(unnamed));
            }
            None => {}
        }
        let Some(guarded) = self.host.guarded.as_ref().filter(|_| !self.has_reservations) else {
            return Ok(());
        };
        match self.unistore.each_key().find(|key| guarded.contains(key.as_bytes())) {
            None => Ok(()),
            Some(key) => Err(format!(
                "'{key}' was written before its space had a bound. Remove `error`, or the type of a bounded \
                 counter or a pool, from the space again, or run `solera backup` without it and `solera restore` \
                 into a new cluster with it"
            )),
        }
    }
}

/// Returns the protocol whose number bytes begin with.
fn protocol_of(bytes: &[u8]) -> Result<Protocol, String> {
    let unreadable = |foreign: Foreign| format!("bytes that cannot be read: {foreign}");
    Ok(Protocol::read_records(PROTOCOLS, bytes).map_err(unreadable)?.0)
}

impl solera_machine::Recovery for Recovery {
    type Machine = Site;

    fn take_part(&mut self, lsn: u64, part: &[u8]) -> Result<(), String> {
        match protocol_of(part)? {
            solera_primary::PROTOCOL => self.primary()?.take_part(part),
            solera_occult::PROTOCOL => self.occult()?.take_part(part),
            solera_reservations::PROTOCOL => self.take_part_of_bounds(lsn, part),
            solera_creek::PROTOCOL => self.creek()?.take_part(part),
            solera_trial::PROTOCOL => self.trial()?.take_part(lsn, part),
            _ => self.unistore.take_part(lsn, part),
        }
    }

    fn take_record(&mut self, lsn: u64, record: &[u8]) -> Result<(), String> {
        match protocol_of(record)? {
            solera_primary::PROTOCOL => self.primary()?.take_record(record),
            solera_occult::PROTOCOL => self.occult()?.take_record(record),
            solera_reservations::PROTOCOL => self.take_record_of_bounds(lsn, record),
            solera_creek::PROTOCOL => self.creek()?.take_record(record),
            solera_trial::PROTOCOL => self.trial()?.take_record(lsn, record),
            _ => self.unistore.take_record(lsn, record),
        }
    }

    fn check(&self) -> Result<(), String> {
        self.check_occult()?;
        self.check_bounds()
    }

    fn into_machine(self) -> Site {
        let unistore = self.unistore.into_machine();
        let primary = self.primary.map(|primary| primary.into_machine(unistore.members()));
        let occult = self.occult.map(|occult| occult.into_machine(unistore.members()));
        let trial = self.trial.map(solera_trial::Recovery::into_machine);
        let reservations = self.reservations.map(solera_reservations::Recovery::into_machine);
        let creek = self.creek.map(solera_creek::Recovery::into_machine);
        Site::of(unistore, Others { primary, occult, reservations, creek, trial }, self.host)
    }
}
