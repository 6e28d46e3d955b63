//! Records of updates that the replica does not keep in memory.

use serde::Serialize;
use solera_data::{Dot, Effect, Key};
use solera_machine::PartitionId;
use solera_time::Vector;

/// A [`Record::Stored`](crate::Record::Stored) of updates that are serialised by reference, because
/// the replica does not keep them. The bytes are the same.
#[derive(Debug, Serialize)]
pub(crate) enum Passing<'a> {
    Stored(&'a [(PartitionId, PassingUpdate<'a>)]),
}

/// An [`Update`](crate::Update), by reference.
#[derive(Debug, Serialize)]
pub(crate) struct PassingUpdate<'a> {
    pub(crate) dot: Dot,
    pub(crate) snap_vec: &'a Vector,
    pub(crate) writes: &'a [PassingWrite<'a>],
    pub(crate) eventual: bool,
}

/// A [`Write`](crate::Write), by reference.
#[derive(Debug, Serialize)]
pub(crate) struct PassingWrite<'a> {
    pub(crate) key: &'a Key,
    pub(crate) effect: &'a Effect,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use smallvec::smallvec;
    use solera_data::{CellChange, Value};
    use solera_machine::Records;
    use solera_time::{SiteId, Timestamp};

    use super::*;
    use crate::message::{Update, Write};
    use crate::protocol::PROTOCOL;
    use crate::record::Record;

    #[test]
    fn a_record_by_reference_decodes_as_the_owned_one() {
        let partition = PartitionId(300);
        let dot = Dot::of(SiteId(1), Timestamp(1 << 60));
        let snap_vec = Vector::zero(3).with(SiteId(2), Timestamp(7));
        let cell = CellChange { assign: Some(Value::from("value")), add: None };
        let effect = Effect { unseen: vec![dot], clear: true, cell, ..Effect::default() };
        let key = Key::from("key");
        let mut records = Records::default();
        let write = [PassingWrite { key: &key, effect: &effect }];
        let update = PassingUpdate { dot, snap_vec: &snap_vec, writes: &write, eventual: false };
        records.push_with(|bytes| {
            PROTOCOL.append_record(&Passing::Stored(&[(partition, update)]), bytes)
        });
        let writes = vec![Write { key, effect }];
        let update = Update { dot, snap_vec, writes, eventual: false };
        let kept = Record::Stored(smallvec![(partition, Arc::new(update))]);
        records.push_with(|bytes| kept.encode(bytes));
        let read: Vec<_> = records.iter().map(|bytes| Record::decode(bytes).unwrap()).collect();
        assert_eq!(read, [kept.clone(), kept]);
    }
}
