//! Rebuilds the machine from its journal.

use solera_data::Key;
use solera_machine::Now;
use solera_membership::Members;
use solera_time::{Monotonic, Physical, SiteId};

use crate::config::Config;
use crate::machine::Occult;
use crate::outbox::Outbox;
use crate::record::{Part, Record};

/// Rebuilds a machine from the parts of a checkpoint and the records since.
#[derive(Debug)]
pub struct Recovery {
    occult: Occult,
    /// The prefixes of keys and their homes of the last process that wrote to the journal.
    home_of: Option<Vec<(Vec<u8>, Option<SiteId>)>>,
}

impl Recovery {
    /// Creates a recovery without any data. `first` is the list of sites with which the worker's
    /// generation began.
    pub fn new(config: Config, first: &Members) -> Recovery {
        Recovery { occult: Occult::empty(config, first), home_of: None }
    }

    /// Restores a part of a checkpoint.
    ///
    /// # Errors
    /// The reason why the bytes are not a part of this worker's checkpoints.
    pub fn take_part(&mut self, part: &[u8]) -> Result<(), String> {
        let part = Part::decode(part).map_err(|error| error.to_string())?;
        let config = self.occult.config();
        if !part.is_within(config) {
            return Err(foreign(part.moved_key(config), config));
        }
        if let Part::Rest(rest) = &part {
            rest.records.iter().for_each(|record| self.note_homes(record));
        }
        self.occult.restore(part);
        Ok(())
    }

    /// Restores a record of the journal.
    ///
    /// # Errors
    /// The reason why the bytes are not a record of this worker.
    pub fn take_record(&mut self, record: &[u8]) -> Result<(), String> {
        let record = Record::decode(record).map_err(|error| error.to_string())?;
        let config = self.occult.config();
        if !record.is_within(config) {
            return Err(foreign(record.moved_key(config), config));
        }
        self.note_homes(&record);
        self.occult.apply_restored();
        self.occult.replay(record);
        Ok(())
    }

    fn note_homes(&mut self, record: &Record) {
        if let Record::HomeOf(home_of) = record {
            self.home_of = Some(home_of.clone());
        }
    }

    /// Checks that all keys are in the shards to which they belonged when they were written.
    ///
    /// # Errors
    /// The reason why the data cannot be used with this configuration.
    pub fn check(&self) -> Result<(), String> {
        let config = self.occult.config();
        let Some(former) = self.home_of.as_ref().filter(|it| **it != *config.home_of) else {
            return Ok(());
        };
        let former = Config { home_of: former.clone().into(), ..config.clone() };
        let moved = |key: &&Key| former.shard_of(key) != config.shard_of(key);
        self.each_key().find(moved).map_or(Ok(()), |key| Err(foreign(Some(key), config)))
    }

    /// Returns the keys of all versions that were restored so far.
    pub fn each_key(&self) -> impl Iterator<Item = &Key> {
        self.occult.store.each_key()
    }

    /// Returns the machine with the sites `members`.
    pub fn into_machine(mut self, members: &Members) -> Occult {
        self.occult.apply_restored();
        self.occult.recovered(members)
    }
}

/// Returns the reason why data is refused. `moved` is a key in it whose shard is another one now.
fn foreign(moved: Option<&Key>, config: &Config) -> String {
    let Some(key) = moved else {
        return "it belongs to a configuration with other shards or workers".to_owned();
    };
    let spaces = config.home_of.iter().map(|(prefix, _)| prefix);
    let prefix = spaces.into_iter().find(|prefix| key.starts_with(prefix));
    let prefix = String::from_utf8_lossy(prefix.map_or(&[], Vec::as_slice));
    format!(
        "'{key}' was written while the space with the prefix '{prefix}' had another `home` or \
         another prefix. A space that has data keeps them: restore the former value of `home`, \
         and move the homes of its keys with `solera home move`"
    )
}

impl Occult {
    /// Carries out a record again.
    pub(crate) fn replay(&mut self, record: Record) {
        let now = Now { monotonic: Monotonic(0), physical: Physical(0) };
        match record {
            Record::Started(incarnation) => self.note_incarnation(incarnation),
            Record::HomeOf(_) => {}
            Record::Batch(from, batch) => {
                self.replica.recover_batch(&mut self.store, from, batch);
            }
            Record::Copies(from, copies) => {
                let known = (&self.config, &self.homes);
                self.replica.take_copies(known, &mut self.store, from, copies);
            }
            Record::Table(table) => drop(self.apply_table(now, &table)),
            Record::Handover(handover) => self.apply_handover(&handover),
            Record::Took { shard, number, last } => self.took(now, shard, number, last),
            record => self.with_home(now, |home, context| home.recover(context, record)),
        }
        // The messages of this step were sent before the restart, or their sender repeats them.
        self.out = Outbox::default();
    }

    /// Chooses an incarnation above one of an earlier process.
    pub(crate) fn note_incarnation(&mut self, earlier: u64) {
        self.config.incarnation = self.config.incarnation.max(earlier + 1);
    }

    /// Ends the recovery. Open transactions of the worker's clients are lost.
    fn recovered(mut self, members: &Members) -> Occult {
        let now = Now { monotonic: Monotonic(0), physical: Physical(0) };
        self.members = members.clone();
        self.find_targets();
        self.resume_arrivals();
        self.restart_as(self.config.incarnation);
        self.with_home(now, |home, context| home.recovered(context));
        self.forget_gone(now);
        self.start();
        while let Some(out) = self.out.pop() {
            if let crate::outbox::Out::Record(record) = out {
                self.record(*record);
            }
        }
        self
    }
}
