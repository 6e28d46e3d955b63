//! Single operations as direct calls: the hot path.

use smallvec::smallvec;
use solera_data::{Dot, Key, Op, OpError, Outcome};
use solera_levels::Level;
use solera_machine::{Guarded, Now, PartitionId, RequestId};
use solera_time::Vector;

use super::Replica;
use super::participant::Execute;
use crate::command::ExecuteGuarded;
use crate::config::{MAX_UPDATE, Rule};
use crate::message::{Event, Message};
use crate::partition::{Done, Storing};
use crate::passing::{Passing, PassingUpdate};
use crate::pasts::Pasts;
use crate::record::Record;
use crate::worker::{ReplyTo, push_record};

impl Replica {
    /// Executes a single-operation transaction for a client of this worker.
    ///
    /// Returns the outcome at once if this worker owns the key and nothing blocks the read; `pasts`
    /// then contains the transaction. Otherwise returns `None`, and later emits a reply for
    /// `request`.
    #[expect(
        clippy::too_many_arguments,
        reason = "one per field of the command, which is borrowed here"
    )]
    pub fn execute(
        &mut self,
        now: Now,
        request: RequestId,
        pasts: &mut Pasts,
        level: Level,
        key: &[u8],
        op: &Op,
    ) -> Option<Result<Outcome, OpError>> {
        if op.is_update() && self.worker.config.is_guarded(key) {
            let (past, key, op) = (pasts.causal, Key::from(key), op.clone());
            let guards = Guarded::default();
            self.execute_guarded(now, request, ExecuteGuarded { past, level, key, op, guards });
            return None;
        }
        let partition = self.worker.partition_of(key);
        let owner = self.worker.config.topology.owner(self.worker.me, partition);
        if owner != self.worker.config.address {
            if key.len() + op.size() > MAX_UPDATE {
                return Some(Err(OpError::TooLarge));
            }
            let (key, op, past) = (Key::from(key), op.clone(), pasts.causal);
            self.worker.send(owner, Message::Execute { request, past, level, key, op });
            return None;
        }
        if let Some(result) =
            self.try_execute(now, ReplyTo::Client(request), pasts, level, partition, key, op)
        {
            return Some(result);
        }
        let (to, past) = (ReplyTo::Client(request), pasts.causal);
        self.wait_for_strong(past.strong);
        let execute = Execute { to, past, level, key: Key::from(key), op: op.clone() };
        self.participant.park_execute(now.monotonic, execute);
        None
    }

    /// Like [`Replica::execute`], but has no effect if the outcome is not available at once.
    pub fn execute_at_once(
        &mut self,
        now: Now,
        pasts: &mut Pasts,
        level: Level,
        key: &[u8],
        op: &Op,
    ) -> Option<Result<Outcome, OpError>> {
        if op.is_update() && self.worker.config.is_guarded(key) {
            return None;
        }
        let partition = self.worker.partition_of(key);
        self.worker.index_of(partition)?;
        self.try_execute(now, ReplyTo::Nobody, pasts, level, partition, key, op)
    }

    /// Changes a key of [`GuardedKeys`](crate::GuardedKeys) for a caller that has the guard's
    /// consent. Has no effect if the outcome is not available at once.
    pub fn execute_with_consent(
        &mut self,
        now: Now,
        pasts: &mut Pasts,
        key: &[u8],
        op: &Op,
    ) -> Option<Result<Outcome, OpError>> {
        let partition = self.worker.partition_of(key);
        self.worker.index_of(partition)?;
        self.try_execute(now, ReplyTo::Nobody, pasts, Level::Causal, partition, key, op)
    }

    /// Executes a single-operation transaction on an owned key. Returns `None` if a prepared
    /// transaction blocks the read.
    #[expect(clippy::too_many_arguments, reason = "the hot path passes everything in registers")]
    pub(crate) fn try_execute(
        &mut self,
        now: Now,
        reply_to: ReplyTo,
        pasts: &mut Pasts,
        level: Level,
        partition: PartitionId,
        key: &[u8],
        op: &Op,
    ) -> Option<Result<Outcome, OpError>> {
        if key.len() + op.size() > MAX_UPDATE {
            return Some(Err(OpError::TooLarge));
        }
        let eventual = level == Level::Eventual;
        let index = self.worker.index_of(partition).expect("callers route by owner");
        let snap_vec = if eventual {
            self.worker.owned(partition).arrived
        } else {
            let snap_vec = self.worker.start_snapshot(now, &pasts.causal);
            if self.is_blocked(index, key, &snap_vec) {
                return None;
            }
            snap_vec
        };
        let storing = if eventual {
            Storing::Eventual
        } else if !self.snapshots_are_fresh(&snap_vec) {
            Storing::Pending
        } else if self.worker.config.topology.sites() == 1
            && self.worker.config.guarded_keys.is_none()
        {
            Storing::Alone
        } else {
            Storing::Visible
        };
        // Prepares and commits in one step, because no other worker takes part.
        let (clock, site) = (&mut self.worker.clock, self.worker.me);
        let passing = self.worker.config.journal.then_some(|update: PassingUpdate<'_>| {
            push_record(&mut self.worker.outputs, &Passing::Stored(&[(partition, update)]));
        });
        let Done { result, dependency, stored } =
            self.worker.partitions[index].execute(key, op, &snap_vec, storing, passing, || {
                clock.observe(snap_vec.max_entry());
                Dot::of(site, clock.tick(now.physical))
            });
        self.trace_snapshot(reply_to, &snap_vec, eventual);
        if let Some((dot, kept)) = stored {
            if let Some(update) = kept {
                self.worker.record(|| match eventual {
                    true => Record::StoredEventual(partition, update),
                    false => Record::Stored(smallvec![(partition, update)]),
                });
            }
            self.worker.last_activity = now.monotonic;
            self.worker.trace(|| Event::Stored { partition, dot });
            self.trace_commit(reply_to, dot, &snap_vec, partition, eventual);
            self.demand.want_stored(self.worker.me, dot.ts);
            match eventual {
                true => pasts.add_eventual(self.worker.me, &snap_vec.with(self.worker.me, dot.ts)),
                false => pasts.causal.raise(self.worker.me, dot.ts),
            }
        }
        if !eventual {
            pasts.causal.raise(self.worker.me, dependency);
            self.worker.add_remote_entries(&mut pasts.causal, &snap_vec);
        }
        Some(result)
    }

    /// Returns whether every live and future snapshot of the site contains all transactions that
    /// have committed here, and the transaction that commits on this snapshot. True if this worker
    /// is alone at its site and has no open transaction.
    pub(crate) fn snapshots_are_fresh(&self, snap_vec: &Vector) -> bool {
        let uniform_vec = &self.worker.dissemination.view.uniform_vec;
        snap_vec.strong <= uniform_vec.strong
            && self.strong.is_within(uniform_vec)
            && self.worker.config.topology.workers[self.worker.me.index()] == 1
            && self.coordinator.is_idle()
            && (self.donor.is_idle() || !self.worker.config.keeps(Rule::DonorHoldsSnapshot))
    }
}
