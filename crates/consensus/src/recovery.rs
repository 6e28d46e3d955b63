//! Recovery from parts of a checkpoint and records, and the parts.

use crate::ids::{Held, Slot};
use crate::member::Member;
use crate::record::{Checkpoint, Delivery, NotRestored, Part, Record};
use crate::runs::Runs;
use crate::state::State;

impl<B: Clone> Member<B> {
    /// Restores a part of a checkpoint. All parts are restored before the records.
    pub fn restore_part(&mut self, part: Part) {
        let state = self.restored();
        match part {
            Part::Slots(slots) => {
                for Held { slot, accepted, batch } in slots {
                    let Some(entry) = state.log.slot(slot) else { continue };
                    match accepted {
                        Some(ballot) => entry.accepted = Some((ballot, batch)),
                        None => {
                            state.log.decide(slot, batch);
                        }
                    }
                }
            }
            Part::Rest { promised, established, forgotten, delivered, runs } => {
                state.election.promise(promised);
                state.established = established;
                state.log.deliver(delivered);
                state.log.forget(forgotten);
                state.runs = Runs::new(runs);
            }
        }
    }

    /// Restores a record. Records are restored in their order. Returns the delivery that the record
    /// contains, unless the checkpoint contains it: the owner repeats it in its own state.
    ///
    /// # Errors
    /// The journal lacks records.
    pub fn restore(&mut self, record: Record) -> Result<Option<Delivery>, NotRestored> {
        let config = self.config.clone();
        let state = self.restored();
        match record {
            Record::Promised(ballot) => {
                state.election.promise(ballot);
            }
            Record::Accepted { ballot, slot, batch } => {
                state.election.promise(ballot);
                if let Some(entry) = state.log.slot(slot).filter(|entry| entry.decided.is_none()) {
                    entry.accepted = Some((ballot, batch));
                }
            }
            Record::Delivered { slot, batch } => {
                let after = state.log.delivered;
                if slot > after.next() {
                    return Err(NotRestored::Gap { after, found: slot });
                }
                let Some(entry) = state.log.slot(slot) else { return Ok(None) };
                let accepted = entry.accepted.take().map(|(_, batch)| batch);
                let known = batch.or(entry.decided.take()).or(accepted);
                let batch = known.ok_or(NotRestored::NoBatch(slot))?;
                entry.decided = Some(batch.clone());
                if slot <= after {
                    return Ok(None);
                }
                let ids = state.runs.select(&batch, &config);
                state.log.deliver(slot);
                state.runs.advance(&ids);
                return Ok(Some(Delivery { slot, ids }));
            }
            Record::Established(configuration) => {
                state.established = state.established.max(configuration)
            }
            Record::Installed(snapshot) => {
                if snapshot.delivered > state.log.delivered {
                    state.install(snapshot);
                }
            }
        }
        Ok(None)
    }

    fn restored(&mut self) -> &mut State {
        self.restored = true;
        &mut self.participant.state
    }

    /// Returns the next part of a checkpoint, with at most `slots` slots; `None` if the checkpoint
    /// is complete. The last part contains what was delivered: the owner takes it together with its
    /// own state of what was delivered, before the member has another input.
    pub fn next_part(&self, checkpoint: &mut Checkpoint, slots: usize) -> Option<Part> {
        let state = &self.participant.state;
        let after = match *checkpoint {
            Checkpoint::Begins => Slot::default(),
            Checkpoint::After(slot) => slot,
            Checkpoint::Complete => return None,
        };
        let slots: Vec<Held> = state.log.held(after).take(slots.max(1)).collect();
        if let Some(last) = slots.last() {
            *checkpoint = Checkpoint::After(last.slot);
            return Some(Part::Slots(slots));
        }
        *checkpoint = Checkpoint::Complete;
        Some(Part::Rest {
            promised: state.election.ballot(),
            established: state.established,
            forgotten: state.log.forgotten,
            delivered: state.log.delivered,
            runs: state.runs.iter().collect(),
        })
    }
}
