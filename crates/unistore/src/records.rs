//! Records on their way to a journal.

use serde::Serialize;
use solera_data::{Dot, Effect, Key};
use solera_time::Vector;

use crate::partitioning::PartitionId;
use crate::record::append;

/// Stands before each record: how long it is.
const LENGTH_BYTES: usize = 8;
/// Room for the records of what a client sends at once, most often.
const ROOM: usize = 4 << 10;

/// Records in the order in which they were made, each in the bytes of
/// [`Record::encode`](crate::Record::encode).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Records {
    bytes: Vec<u8>,
}

impl Records {
    /// The bytes of each.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (length, from) = rest.split_first_chunk::<LENGTH_BYTES>()?;
            let (record, after) = from.split_at(u64::from_le_bytes(*length) as usize);
            rest = after;
            Some(record)
        })
    }

    /// Takes a [`Record`](crate::Record), or something with its serialised form.
    pub(crate) fn push(&mut self, record: &impl Serialize) {
        let start = self.bytes.len();
        if start == 0 {
            self.bytes.reserve(ROOM);
        }
        self.bytes.extend_from_slice(&[0; LENGTH_BYTES]);
        let from = self.bytes.len();
        append(record, &mut self.bytes);
        let length = (self.bytes.len() - from) as u64;
        self.bytes[start..from].copy_from_slice(&length.to_le_bytes());
    }
}

/// A [`Record::Stored`](crate::Record::Stored) of updates that nobody keeps, and serialised as it is.
#[derive(Debug, Serialize)]
pub(crate) enum Passing<'a> {
    Stored(&'a [(PartitionId, PassingUpdate<'a>)]),
}

/// An [`Update`](crate::Update) by its parts.
#[derive(Debug, Serialize)]
pub(crate) struct PassingUpdate<'a> {
    pub(crate) dot: Dot,
    pub(crate) snap_vec: &'a Vector,
    pub(crate) writes: &'a [PassingWrite<'a>],
    pub(crate) eventual: bool,
}

/// A [`Write`](crate::Write) by its parts.
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
    use solera_time::{SiteId, Timestamp};

    use super::*;
    use crate::message::{Update, Write};
    use crate::record::Record;

    #[test]
    fn what_passes_is_read_as_what_was_kept() {
        let partition = PartitionId(300);
        let dot = Dot { ts: Timestamp(1 << 60), site: SiteId(1) };
        let snap_vec = Vector::zero(3).with(SiteId(2), Timestamp(7));
        let cell = CellChange { assign: Some(Value::from("value")), add: None };
        let effect = Effect { unseen: vec![dot], clear: true, cell, ..Effect::default() };
        let key = Key::from("key");
        let mut records = Records::default();
        let write = [PassingWrite { key: &key, effect: &effect }];
        let update = PassingUpdate { dot, snap_vec: &snap_vec, writes: &write, eventual: false };
        records.push(&Passing::Stored(&[(partition, update)]));
        let writes = vec![Write { key, effect }];
        let update = Update { dot, snap_vec, writes, eventual: false };
        let kept = Record::Stored(smallvec![(partition, Arc::new(update))]);
        records.push(&kept);
        let read: Vec<_> = records.iter().map(|bytes| Record::decode(bytes).unwrap()).collect();
        assert_eq!(read, [kept.clone(), kept]);
    }
}
