//! Statuses of the sites, as far as this process knows them, for links and clients. The replicas
//! decide on the statuses.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use solera_config::ClusterSpec;
use solera_links::{Admission, NodeRole, Origin, Run, Unwelcome};
use solera_machine::NodeId;
use solera_membership::{Members, SiteStatus};
use solera_time::{SiteId, Timestamp};
use solera_unistore::Progress;
use tokio::sync::watch;

use crate::peers::Peers;

/// Membership state that the workers and links of a process share.
#[derive(Debug)]
pub(crate) struct Membership {
    /// Generation of the site that this process belongs to.
    pub(crate) generation: u32,
    known: Mutex<Admission>,
    /// Locked while the file of the peers is written; locked before `known`.
    peers: Mutex<Peers>,
    /// Whether no other site accepts this node. Every command checks this first.
    refused: AtomicBool,
    /// Greatest time that a worker of this process has seen, in microseconds since 1970.
    hybrid_us: AtomicU64,
    /// Reason why this process must end; set when its site no longer takes part.
    expelled: watch::Sender<Option<String>>,
}

/// Recovered state of each worker of a node when its process began, see [`Replica::begin_run`].
///
/// [`Replica::begin_run`]: solera_unistore::Replica::begin_run
pub(crate) type Runs = Vec<Run>;

/// Changes of the members.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct MembersNews {
    /// Whether this node accepts writes, if that has changed.
    pub(crate) accepts: Option<bool>,
    /// Sites that have changed, each with its new status and generation.
    pub(crate) changed: Vec<(SiteId, SiteStatus, u32)>,
}

impl Membership {
    /// Creates the state from the members at the start; `peers` stores the nodes that were
    /// accepted.
    pub(crate) fn new(members: Members, role: NodeRole, mut peers: Peers) -> Self {
        Membership {
            generation: role.generation,
            known: Mutex::new(Admission::new(role, members, peers.take_known())),
            peers: Mutex::new(peers),
            refused: AtomicBool::new(false),
            hybrid_us: AtomicU64::new(0),
            expelled: watch::Sender::new(None),
        }
    }

    fn known(&self) -> MutexGuard<'_, Admission> {
        self.known.lock().expect("nothing panics with the lock")
    }

    /// Notes the members that a worker's replica knows. Returns the changes.
    pub(crate) fn note(&self, members: &Members) -> MembersNews {
        let mut known = self.known();
        if known.members() == members {
            return MembersNews::default();
        }
        let former = known.members().clone();
        if !known.note(members) {
            return MembersNews::default();
        }
        let now = known.members();
        let state =
            |members: &Members, site| (site, members.status(site), members.generation(site));
        let sites = SiteId::all(now.sites());
        let changed = sites.filter(|site| {
            site.index() >= former.sites() || state(&former, *site) != state(now, *site)
        });
        let changed = changed.map(|site| state(now, site)).collect();
        MembersNews { accepts: self.judge(&known), changed }
    }

    /// Returns the status of a site.
    pub(crate) fn status(&self, site: SiteId) -> SiteStatus {
        self.known().members().status(site)
    }

    /// See [`Admission::admits`].
    pub(crate) fn admits(&self, site: SiteId, generation: u32) -> Result<(), Unwelcome> {
        self.known().admits(site, generation)
    }

    /// See [`Admission::may_enter`].
    pub(crate) fn may_enter(
        &self,
        node: NodeId,
        origin: Origin,
        listed: usize,
    ) -> Result<(), Unwelcome> {
        self.known().may_enter(node, origin, listed)
    }

    /// See [`Admission::has_lost_data`].
    pub(crate) fn has_lost_data(&self, site: SiteId, run: Run, heard: Timestamp) -> bool {
        self.known().has_lost_data(site, run, heard)
    }

    /// See [`Admission::note_lacking`].
    pub(crate) fn note_lacking(&self, node: NodeId) {
        self.known().note_lacking(node);
    }

    /// See [`Admission::accepts_messages`].
    pub(crate) fn accepts_messages(&self, node: NodeId, generation: u32) -> Result<(), Unwelcome> {
        self.known().accepts_messages(node, generation)
    }

    /// See [`Admission::survives`].
    pub(crate) fn survives(&self, f: usize) -> usize {
        self.known().survives(f)
    }

    /// Notes that this node accepts another node, which lists `listed` sites.
    /// [`Self::keep_entries`] makes that durable.
    pub(crate) fn note_entry(&self, node: NodeId, origin: Origin, listed: usize) {
        self.known().note_entry(node, origin, listed);
    }

    /// Writes changes of the peers' identities to the file. Blocks on the disk; other methods do
    /// not block meanwhile.
    ///
    /// # Errors
    /// The file cannot be written. The changes are lost with this process unless a later call
    /// succeeds.
    pub(crate) fn keep_entries(&self) -> Result<(), String> {
        let mut peers = self.peers.lock().expect("nothing panics with the lock");
        let (changes, unwritten) = {
            let known = self.known();
            (known.changes(), peers.unwritten(&known))
        };
        let Some(unwritten) = unwritten else { return Ok(()) };
        unwritten.write()?;
        peers.note_written(changes);
        Ok(())
    }

    /// See [`Admission::without`].
    pub(crate) fn without(&self, site: SiteId, nodes: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
        self.known().without(site, nodes)
    }

    /// Notes that a node of another site has accepted this one, or refused it with this reason.
    /// Returns whether this node accepts writes, if that has changed.
    pub(crate) fn heard(&self, node: NodeId, answer: Result<(), String>) -> Option<bool> {
        let mut known = self.known();
        known.heard(node, answer);
        self.judge(&known)
    }

    /// Notes that a node has not answered for a long time. Returns whether this node accepts
    /// writes, if that has changed.
    pub(crate) fn note_timeout(&self, node: NodeId) -> Option<bool> {
        let mut known = self.known();
        known.note_timeout(node);
        self.judge(&known)
    }

    fn judge(&self, known: &Admission) -> Option<bool> {
        let refused = known.refusal().is_some();
        (self.refused.swap(refused, Relaxed) != refused).then_some(!refused)
    }

    /// Returns whether no other site accepts this node, so it rejects writes.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Relaxed)
    }

    /// Returns the node that refuses this one, and its reason; `None` if another site accepts this
    /// node.
    pub(crate) fn refusal(&self) -> Option<(NodeId, String)> {
        if !self.is_refused() {
            return None;
        }
        self.known().refusal().map(|(node, reason)| (node, reason.to_owned()))
    }

    /// Notes a time that a worker of this process has seen.
    pub(crate) fn note_clock(&self, clock: Timestamp) {
        self.hybrid_us.fetch_max(clock.micros(), Relaxed);
    }

    /// Returns the greatest time that a worker of this process has seen, in microseconds
    /// since 1970.
    pub(crate) fn hybrid_us(&self) -> u64 {
        self.hybrid_us.load(Relaxed)
    }

    /// Notes that this process' site no longer takes part.
    pub(crate) fn expel(&self, reason: String) {
        self.expelled.send_replace(Some(reason));
    }

    /// Completes, with the reason, when this process' site no longer takes part.
    pub(crate) async fn expelled(&self) -> String {
        let mut expelled = self.expelled.subscribe();
        match expelled.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }
}

/// Explains why a node that no other site accepts rejects writes.
pub(crate) fn refused_by(spec: &ClusterSpec, node: NodeId, reason: &str) -> String {
    format!("no other site accepts this node; {} reports: {reason}", spec.name_of(node))
}

/// Returns the progress of the workers of a joining site, together, from 0 to 1.
pub(crate) fn share(progress: &[Progress]) -> f64 {
    let (done, all) = progress.iter().fold((0.0, 0), |(done, all), progress| {
        (done + progress.filled as f64 + progress.current, all + progress.partitions)
    });
    if all == 0 { 1.0 } else { done / all as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId { site: SiteId(1), node: 0 };
    const ROLE: NodeRole = NodeRole { site: Some(SiteId(0)), durable: true, generation: 0 };

    #[test]
    fn failed_writes_of_peers_are_repeated() {
        let root = std::env::temp_dir().join(format!("solera-entries-{}", std::process::id()));
        let sites = ["eu".to_owned(), "us".to_owned()];
        let peers = Peers::open(&root, &sites).unwrap();
        let membership = Membership::new(Members::new(2), ROLE, peers);
        let origin = Origin { generation: 0, data: 7, starts: 1, incarnation: 1 };
        membership.note_entry(NODE, origin, 2);
        assert!(membership.keep_entries().is_err(), "the folder is not there");
        std::fs::create_dir_all(&root).unwrap();
        membership.keep_entries().unwrap();
        let known = Peers::open(&root, &sites).unwrap().take_known();
        assert_eq!(known.get(&NODE), Some(&origin));
        std::fs::remove_dir_all(&root).unwrap();
        membership.keep_entries().unwrap();
    }

    #[test]
    fn a_change_of_a_site_is_reported_once() {
        let us = SiteId(1);
        let membership = Membership::new(Members::new(2), ROLE, Peers::default());
        let members = Members::founded(1, 2);
        assert_eq!(membership.note(&members).changed, [(us, SiteStatus::Gone, 0)]);
        assert_eq!(membership.note(&members), MembersNews::default());
    }

    #[test]
    fn a_change_of_acceptance_is_reported_once() {
        let of_two = Membership::new(Members::new(2), ROLE, Peers::default());
        assert_eq!(of_two.heard(NODE, Err("f".to_owned())), Some(false));
        assert_eq!(of_two.heard(NODE, Err("f".to_owned())), None);
        assert_eq!(of_two.refusal(), Some((NODE, "f".to_owned())));
        assert_eq!(of_two.heard(NODE, Ok(())), Some(true));
        assert!(!of_two.is_refused() && of_two.refusal().is_none());
        assert_eq!(of_two.heard(NODE, Ok(())), None);
    }
}
