//! Writes that are lost when the shards of a failed site are taken by force, and the guarantee
//! about them: a session that has seen one learns of the loss before it reads the key again.

use std::collections::BTreeSet;

use solera_checker::pcpsi::{History, Operation, Outcome, Read, Transaction, Version, Write};
use solera_data::Key;
use solera_occult::Scheme;

use super::{Shape, World};

/// Key and number of lost writes.
#[derive(Default)]
pub(crate) struct Lost {
    /// Writes that the failed site has shown, and that no other site has received.
    shown: BTreeSet<(String, u64)>,
    /// Committed writes that no home was seen to show. Their home or decision home has probably
    /// failed before, or a home has crashed as soon as it showed them.
    unshown: BTreeSet<(String, u64)>,
}

impl Shape {
    /// Returns whether sessions learn that they depend on lost writes. They can do so only with
    /// timestamps that distinguish sites. The judge needs the stamps of all versions, which
    /// deletions do not show.
    pub(crate) fn reports_losses(&self) -> bool {
        self.lost.is_some() && matches!(self.scheme, Scheme::PerSite(_)) && !self.deletes
    }
}

impl World {
    /// Returns the committed writes that only the failed site had.
    pub(crate) fn lost_writes(&self, history: &History) -> Lost {
        let alive = self.workers.iter().find(|(worker, _)| Some(worker.site) != self.dead);
        let (Some(dead), Some((_, alive))) = (self.dead, alive) else { return Lost::default() };
        let mut lost = Lost::default();
        let transactions = history.transactions.iter();
        let writes = transactions
            .flat_map(|transaction| writes_of(transaction).map(move |write| (transaction, write)));
        let is_shown =
            |write: &Write| self.stamps.contains_key(&(Key::from(write.key.as_str()), write.id));
        for (transaction, write) in writes {
            let key = Key::from(write.key.as_str());
            let shard = alive.config().shard_of(key.as_bytes());
            let taken = alive.homes().former(shard).iter();
            let last = taken.filter(|former| former.site == dead && former.forced);
            let last = last.filter_map(|former| former.last).next();
            let name = (write.key.clone(), write.id);
            match (self.stamps.get(&(key, write.id)), last) {
                (Some((site, stamp)), Some(last)) if *site == dead && *stamp > last.0 => {
                    lost.shown.insert(name);
                }
                (Some(_), _) => {}
                (None, _) => {
                    // Only the last write of a key in a transaction is shown.
                    let mut of_key = writes_of(transaction).filter(|it| it.key == write.key);
                    let is_last = of_key.next_back().is_some_and(|last| last.id == write.id);
                    let has_committed = transaction.outcome == Outcome::Committed
                        || writes_of(transaction).any(is_shown);
                    if is_last && has_committed {
                        lost.unshown.insert(name);
                    }
                }
            }
        }
        lost
    }
}

/// Returns the reads in which a session that has read or written a lost write reads another version
/// of its key.
pub(crate) fn read_after_losses(history: &History, lost: &Lost) -> Vec<String> {
    let is_lost = |key: &String, id| lost.shown.contains(&(key.clone(), id));
    let is_unshown = |key: &String, id| lost.unshown.contains(&(key.clone(), id));
    let mut committed: Vec<&Transaction> = history.transactions.iter().collect();
    committed.retain(|transaction| transaction.outcome == Outcome::Committed);
    committed.sort_by_key(|transaction| (transaction.session, transaction.order));
    let mut missed = Vec::new();
    let mut seen: BTreeSet<(usize, &str)> = BTreeSet::new();
    for transaction in committed {
        let Transaction { order, session, .. } = transaction;
        let mut now = Vec::new();
        for operation in &transaction.operations {
            let (key, id) = match operation {
                Operation::Write(write) => (&write.key, Some(write.id)),
                Operation::Read(read) => match read.version {
                    Version::Of(id) => (&read.key, Some(id)),
                    Version::Absent => (&read.key, None),
                },
            };
            let is_gone = id.is_some_and(|id| is_lost(key, id));
            // A transaction may read its own write, which is lost as well.
            let is_own = id.is_some_and(|id| is_unshown(key, id));
            let is_read = matches!(operation, Operation::Read(_)) && !is_own;
            if is_read && !is_gone && seen.contains(&(*session, key.as_str())) {
                missed.push(format!(
                    "session {session} depends on a lost write of {key}, and transaction {order} has read {id:?}"
                ));
            }
            if is_gone {
                now.push((*session, key.as_str()));
            }
        }
        seen.extend(now);
    }
    missed
}

fn writes_of(transaction: &Transaction) -> impl DoubleEndedIterator<Item = &Write> {
    transaction.operations.iter().filter_map(|operation| match operation {
        Operation::Write(write) => Some(write),
        Operation::Read(_) => None,
    })
}

/// Removes lost writes and the reads that returned them, because they have no place in the order of
/// a key's versions.
pub(crate) fn without(mut history: History, lost: &Lost) -> History {
    let is_lost = |key: &String, id| {
        let write = (key.clone(), id);
        lost.shown.contains(&write) || lost.unshown.contains(&write)
    };
    for transaction in &mut history.transactions {
        // The earlier writes of the key by the same transaction are lost, too.
        let keys: BTreeSet<String> = writes_of(transaction)
            .filter(|write| is_lost(&write.key, write.id))
            .map(|write| write.key.clone())
            .collect();
        transaction.operations.retain(|operation| match operation {
            Operation::Write(write) => !keys.contains(&write.key),
            Operation::Read(Read { key, version: Version::Of(id), .. }) => {
                !is_lost(key, *id) && !keys.contains(key)
            }
            Operation::Read(Read { key, version: Version::Absent, .. }) => !keys.contains(key),
        });
    }
    history
}
