//! Recording how far workers of other sites have told of their own histories.

use solera_machine::Address;
use solera_time::Timestamp;

use super::Replica;
use crate::heard::Heard;
use crate::record::Record;

impl Replica {
    /// A worker of another site has told a time of its own.
    pub(crate) fn hear(&mut self, worker: Address, ts: Timestamp) {
        let life = self.worker.dissemination.members.life(worker.site);
        self.heard_of.raise(Heard { worker, life, ts });
    }

    /// Records what was heard since the last record.
    pub(crate) fn record_heard(&mut self) {
        if let Some(heard) = self.heard_of.take_news() {
            self.worker.record(|| Record::Heard(heard));
        }
    }
}
