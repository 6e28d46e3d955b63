//! Recording of the times that workers of other sites have sent of their own histories.

use solera_machine::Address;
use solera_time::Timestamp;

use super::Replica;
use crate::heard::Heard;
use crate::record::Record;

impl Replica {
    /// Notes a time that a worker of another site has sent of its own history.
    pub(crate) fn hear(&mut self, worker: Address, ts: Timestamp) {
        let generation = self.worker.dissemination.members.generation(worker.site);
        self.heard_of.raise(Heard { worker, generation, ts });
    }

    /// Records the times that were received since the last record.
    pub(crate) fn record_heard(&mut self) {
        if let Some(heard) = self.heard_of.take_news() {
            self.worker.record(|| Record::Heard(heard));
        }
    }
}
