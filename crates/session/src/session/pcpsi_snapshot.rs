//! Snapshots of all keys that Occult holds, for SOLERA.EXPORT.

use std::rc::Rc;
use std::time::{Duration, Instant};

use solera_data::{Key, Outcome};
use solera_machine::{Address, PartitionId};
use solera_occult::{Beginning, Command, Response, SnapshotAnswer, SnapshotStep};
use solera_time::SiteId;

use super::ClientSession;
use crate::context::{Context, Unreachable};
use crate::scan::Page;

/// Maximal time in which a snapshot must begin.
const PATIENCE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(5);

/// Reason why a snapshot has not begun.
enum NotBegun {
    /// Another try may succeed. Contains the error reply for the case that none succeeds in time.
    Yet(String),
    /// The error reply.
    Failed(String),
}

impl<W: Context> ClientSession<W> {
    /// Begins the snapshot of the open transaction, unless it has begun, and returns its number.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn begin_pcpsi_snapshot(&mut self) -> Result<u64, String> {
        if let Some(id) = self.occult.snapshot {
            return Ok(id);
        }
        let id = self.new_export();
        self.occult.snapshot = Some(id);
        let began = Instant::now();
        loop {
            match self.try_begin_snapshot(id, began).await {
                Ok(()) => return Ok(id),
                Err(NotBegun::Yet(_)) if began.elapsed() < PATIENCE => {
                    tokio::time::sleep(AGAIN).await;
                }
                Err(NotBegun::Yet(error) | NotBegun::Failed(error)) => {
                    self.drop_pcpsi_snapshot();
                    return Err(error);
                }
            }
        }
    }

    /// Makes the three steps that begin a snapshot, at all workers of the site.
    async fn try_begin_snapshot(&self, id: u64, began: Instant) -> Result<(), NotBegun> {
        let lasts_ms = self.worker.spec().transaction_max_age.as_millis() as u64;
        let mut beginning = Beginning::default();
        for worker in self.worker.workers() {
            match self.step(worker, SnapshotStep::Mark { id, lasts_ms }).await? {
                SnapshotAnswer::Marked(peaks) => beginning.on_marked(peaks),
                SnapshotAnswer::Unheard(site) => {
                    return Err(NotBegun::Yet(self.unheard(site, worker)));
                }
                SnapshotAnswer::TooMany => {
                    return Err(NotBegun::Failed(
                        "TRYAGAIN too many transactions read all keys of this site at a time"
                            .to_owned(),
                    ));
                }
                _ => return Err(NotBegun::Failed(self.unanswered())),
            }
        }
        while let Some(lacking) = self.poll(id, &mut beginning).await? {
            if began.elapsed() >= PATIENCE {
                return Err(NotBegun::Yet(lacking));
            }
            tokio::time::sleep(AGAIN).await;
        }
        let shown = beginning.bounds();
        for worker in self.worker.workers() {
            match self.step(worker, SnapshotStep::Fix { id, shown: shown.clone() }).await? {
                SnapshotAnswer::Done => {}
                _ => return Err(NotBegun::Yet(self.gone(worker))),
            }
        }
        Ok(())
    }

    /// Asks all workers how far their copies show the writes of homes. Returns an error reply that
    /// names the missing data; `None` if the snapshot can be fixed.
    async fn poll(&self, id: u64, beginning: &mut Beginning) -> Result<Option<String>, NotBegun> {
        beginning.poll();
        for worker in self.worker.workers() {
            let marks = beginning.marks().clone();
            match self.step(worker, SnapshotStep::Poll { id, marks }).await? {
                SnapshotAnswer::Shown(shown) => beginning.on_shown(shown),
                SnapshotAnswer::Arriving => {
                    return Ok(Some(
                        "TRYAGAIN data of level pcpsi whose home has moved is on its way to this site"
                            .to_owned(),
                    ));
                }
                _ => return Err(NotBegun::Yet(self.gone(worker))),
            }
        }
        Ok(beginning.behind().map(|site| {
            let here = self.worker.site_name(self.worker.address().site);
            let name = self.worker.site_name(site);
            format!(
                "TRYAGAIN site '{here}' lacks writes of site '{name}' on which its keys of level pcpsi depend; \
                 '{name}' may be cut off, or its clock behind"
            )
        }))
    }

    /// Reads a page of a partition in the snapshot: keys with their contents, and the last key if
    /// more keys follow.
    ///
    /// # Errors
    /// The error reply.
    pub(crate) async fn pcpsi_page(
        &mut self,
        partition: PartitionId,
        after: Option<Key>,
    ) -> Result<(Vec<(Key, Outcome)>, Option<Key>), String> {
        if !self.worker.spec().spaces.run_occult() {
            return Err("ERR invalid cursor".to_owned());
        }
        let id = self.begin_pcpsi_snapshot().await?;
        let owner = self.worker.with(|replica| replica.holder_of(partition));
        match self.step(owner, SnapshotStep::Page { id, partition, after }).await {
            Ok(SnapshotAnswer::Page(entries, next)) => {
                let page = Page { entries, next: None };
                // A page from another node may contain anything.
                if page.is_sound() { Ok((page.entries, next)) } else { Err(self.unanswered()) }
            }
            Ok(_) => Err(self.gone(owner)),
            Err(NotBegun::Yet(error) | NotBegun::Failed(error)) => Err(error),
        }
    }

    /// Ends the snapshot of the open transaction, if it has one.
    pub(crate) fn drop_pcpsi_snapshot(&mut self) {
        let Some(id) = self.occult.snapshot.take() else { return };
        let worker = Rc::clone(&self.worker);
        tokio::task::spawn_local(async move {
            for other in worker.workers() {
                // A worker that does not answer drops the snapshot when its time is over.
                worker.ask_occult(other, Command::Snapshot(SnapshotStep::Drop { id })).await;
            }
        });
    }

    async fn step(&self, worker: Address, step: SnapshotStep) -> Result<SnapshotAnswer, NotBegun> {
        match self.worker.ask_occult(worker, Command::Snapshot(step)).await {
            Some(Response::Snapshot(answer)) => Ok(answer),
            _ => Err(NotBegun::Yet(Unreachable(self.worker.node_name(worker)).to_string())),
        }
    }

    fn unheard(&self, site: SiteId, worker: Address) -> String {
        let (site, node) = (self.worker.site_name(site), self.worker.node_name(worker));
        format!(
            "TRYAGAIN {node} has not received the clocks of all nodes of site '{site}' since it started, and may \
             lack writes of level pcpsi that its clients know; '{site}' may be cut off"
        )
    }

    fn gone(&self, worker: Address) -> String {
        let name = self.worker.node_name(worker);
        format!("TRYAGAIN {name} has given up the snapshot of keys of level pcpsi; start again")
    }
}
