//! Collects the witnesses of others that a group finds, and writes its own (MixT §4.5, §5.4).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Found, GroupRun};
use crate::location::{Fields, Name};
use crate::request::Request;
use crate::request::calls::NameWrite;
use crate::versioned::Unreadable;
use crate::witness::{self, WriteWitness};

impl GroupRun {
    /// Records the witnesses found beside an object, and where this transaction writes its own.
    pub(super) fn witnesses(&mut self, call: &Request, seen: &Fields) -> Result<(), Unreadable> {
        let looks: &[Name] = match call {
            Request::Perform(call) => call.look.as_slice(),
            Request::Custom(call) => &call.look,
            _ => &[],
        };
        let bound = self.job.bindings.of(self.asked_store);
        let witnessed = &self.job.plan.witnessed;
        let marks = call.mutates() && witnessed.contains(&bound.place);
        if marks {
            self.marking.entry(self.asked_store).or_default().extend(looks.iter().cloned());
        }
        for (id, bytes) in seen {
            if *id == self.job.id.number() {
                continue;
            }
            let found = WriteWitness::decode(bytes)?;
            if marks && found.places.iter().all(|place| witnessed.contains(place)) {
                self.replaced.extend(looks.iter().map(|name| (name.clone(), found.id)));
            }
            if !self
                .found
                .iter()
                .any(|other| other.witness.id == found.id && other.place == bound.place)
            {
                self.found.push(Found { witness: found, place: bound.place.clone() });
            }
        }
        Ok(())
    }

    /// Adds the writes of the own witnesses: MixT §5.4, `acquire` for each changed object, and
    /// `release_all`.
    pub(super) fn write_witnesses(&mut self, writes: &mut Vec<NameWrite>) {
        let job = Arc::clone(&self.job);
        let witness = WriteWitness {
            id: job.id,
            places: Arc::clone(&job.plan.witnessed),
            record: job.record_place().expect("a transaction with witnesses has a record").clone(),
        };
        let value = witness.encode();
        for (store, names) in std::mem::take(&mut self.marking) {
            let database = &job.bindings.of(store).place.database;
            for name in names {
                self.state.noted.insert((Arc::clone(database), name.clone()));
                let (field, value) = (job.id.number(), Arc::clone(&value));
                writes.push(NameWrite::Set { name, field, value, new: false });
            }
        }
        for (name, id) in std::mem::take(&mut self.replaced) {
            writes.push(NameWrite::Remove { name, field: id.number() });
        }
        let written = self.group().written.iter().map(|store| &job.bindings.of(*store).place);
        let written: BTreeSet<_> =
            written.filter(|place| job.plan.witnessed.contains(place)).collect();
        for place in written {
            let name = witness::commit(&place.space, job.id);
            writes.push(NameWrite::Set { name, field: 0, value: Arc::new([]), new: false });
        }
    }
}
