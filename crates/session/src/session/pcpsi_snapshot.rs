//! Snapshots of all keys that Occult holds, for SOLERA.EXPORT.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use solera_data::{Key, Outcome};
use solera_machine::{Address, PartitionId};
use solera_occult::{Command, Peaks, Response, SnapshotAnswer, SnapshotStep, Stamp};
use solera_time::SiteId;

use super::ClientSession;
use crate::context::{Context, Unreachable};
use crate::scan::Page;

/// Maximal time in which a snapshot must begin.
const PATIENCE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(5);

/// Reason why a snapshot has not begun.
enum NotBegun {
    /// Another try may succeed; the error reply if none does in time.
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
        // Requests are numbered by each worker.
        let id = u64::from(self.worker.address().worker) << 48 | self.worker.new_request().0;
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

    /// Makes the three steps of a beginning at all workers of the site.
    async fn try_begin_snapshot(&self, id: u64, began: Instant) -> Result<(), NotBegun> {
        let lasts_ms = self.worker.spec().transaction_max_age.as_millis() as u64;
        let mut marks = Peaks::new();
        for worker in self.worker.workers() {
            match self.step(worker, SnapshotStep::Mark { id, lasts_ms }).await? {
                SnapshotAnswer::Marked(peaks) => {
                    for (site, stamp) in peaks {
                        let mark = marks.entry(site).or_default();
                        *mark = stamp.max(*mark);
                    }
                }
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
        let shown = loop {
            let lacking = match self.poll(id, &marks).await? {
                Ok(shown) => break shown,
                Err(lacking) => lacking,
            };
            if began.elapsed() >= PATIENCE {
                return Err(NotBegun::Yet(lacking));
            }
            tokio::time::sleep(AGAIN).await;
        };
        for worker in self.worker.workers() {
            match self.step(worker, SnapshotStep::Fix { id, shown: shown.clone() }).await? {
                SnapshotAnswer::Done => {}
                _ => return Err(NotBegun::Yet(self.gone(worker))),
            }
        }
        Ok(())
    }

    /// Returns the stamps up to which the site's copies show the writes of each site, and of all
    /// sites, once they have reached the marks; before that, the error reply that names what is
    /// missing.
    async fn poll(&self, id: u64, marks: &Peaks) -> Result<Result<Peaks, String>, NotBegun> {
        let mut least: BTreeMap<SiteId, Stamp> = BTreeMap::new();
        for worker in self.worker.workers() {
            let shown = match self
                .step(worker, SnapshotStep::Poll { id, marks: marks.clone() })
                .await?
            {
                SnapshotAnswer::Shown(shown) => shown,
                SnapshotAnswer::Arriving => {
                    return Ok(Err(
                        "TRYAGAIN data of level pcpsi whose home has moved is on its way to this site"
                            .to_owned(),
                    ));
                }
                _ => return Err(NotBegun::Yet(self.gone(worker))),
            };
            for (site, stamp) in shown {
                let known = least.entry(site).or_insert(stamp);
                *known = stamp.min(*known);
            }
        }
        for (site, mark) in marks {
            let behind = match site {
                Some(site) => least.get(site).is_some_and(|shown| shown < mark).then_some(*site),
                None => least.iter().find(|(_, shown)| *shown < mark).map(|(site, _)| *site),
            };
            if let Some(site) = behind {
                let (name, here) = (
                    self.worker.site_name(site),
                    self.worker.site_name(self.worker.address().site),
                );
                return Ok(Err(format!(
                    "TRYAGAIN site '{here}' lacks writes of site '{name}' on which its keys of level pcpsi depend; \
                     '{name}' may be cut off, or its clock behind"
                )));
            }
        }
        let all = least.values().copied().min().unwrap_or_default();
        let mut shown = marks.clone();
        // A site that is no home any more writes nothing, and keeps its mark.
        shown.extend(least.into_iter().map(|(site, stamp)| (Some(site), stamp)));
        shown.insert(None, all);
        Ok(Ok(shown))
    }

    /// Reads a page of a partition in the snapshot: keys with their contents, and the last key if
    /// others follow.
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
            "TRYAGAIN {node} has not heard of site '{site}' since it started, and may lack writes of \
             level pcpsi that its clients know; '{site}' may be cut off"
        )
    }

    fn gone(&self, worker: Address) -> String {
        let name = self.worker.node_name(worker);
        format!("TRYAGAIN {name} has given up the snapshot of keys of level pcpsi; start again")
    }
}
