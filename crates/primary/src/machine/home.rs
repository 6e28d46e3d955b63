//! A home: orders updates, sends them to all sites, and takes over partitions.

use std::collections::{BTreeMap, BTreeSet};

use solera_machine::{Address, Now, PartitionId};
use solera_time::{Monotonic, SiteId};

use super::{Primary, Role};
use crate::command::{Done, Failure};
use crate::config::Rule;
use crate::history::Entry;
use crate::message::{Answer, Body, End, Piece, Request};
use crate::rare;
use crate::record::Record;

/// Number of entries in one message.
const ENTRIES: usize = 256;
/// Number of entries that may be in transit to a site.
const WINDOW: u64 = 4096;
/// Factor by which values may take longer than entries before they are sent again.
const PIECES_RETRY: u32 = 10;

/// State of a home: the progress of the other sites.
#[derive(Debug, Default)]
pub(crate) struct Home {
    followers: BTreeMap<SiteId, Follower>,
    /// Updates that were rejected and may arrive again; their clients have been answered.
    refused: BTreeMap<Address, BTreeMap<u64, Failure>>,
}

/// Progress of one site, as its home knows it.
#[derive(Clone, Copy, Debug, Default)]
struct Follower {
    /// Index of the site's last update, as it has reported since the present list of sites took
    /// effect.
    stored: Option<u64>,
    /// The index of the last entry that was sent to the site.
    sent: u64,
    /// The index from which the site's last request was answered.
    answered: Option<u64>,
    /// Time after which the entries in transit count as lost.
    lost_at: Monotonic,
}

/// State of a new home that collects the other sites' histories.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    applied: BTreeMap<SiteId, u64>,
    /// The index after which it last requested the end of the history.
    taking: Option<u64>,
    /// Time when it may send requests again.
    next: Option<Monotonic>,
}

impl Primary {
    /// Orders the updates of another site's clients.
    pub(crate) fn on_forward(&mut self, now: Now, from: Address, requests: Vec<Request>) {
        let (mut answers, mut ordered) = (Vec::new(), BTreeSet::new());
        for request in requests {
            let number = request.number;
            let id = PartitionId::of(&request.key, self.config.topology.partitions);
            if let Some(result) = self.order(from, request) {
                answers.push(Answer { number, result });
                ordered.extend(self.index_of(id));
            }
        }
        if !answers.is_empty() {
            self.send_to(from, Body::Answers(answers));
        }
        // Sends the answers before the entries, because a client must not receive "accepted" for an
        // update after it has received "applied".
        for index in ordered {
            self.push(now, index);
        }
    }

    /// Appends an update to its partition's history, unless the history contains it. Returns `None`
    /// if this worker is not the partition's home now, or the update's origin no longer waits for
    /// it. The caller must push the history.
    pub(crate) fn order(
        &mut self,
        origin: Address,
        request: Request,
    ) -> Option<Result<Done, Failure>> {
        let Request { number, oldest, key, update } = request;
        let id = PartitionId::of(&key, self.config.topology.partitions);
        let index = self.index_of(id)?;
        let replica = &self.replicas[index];
        if !matches!(replica.role, Role::Home(_)) || replica.history.is_over(origin, number) {
            return None;
        }
        if let Some(position) = replica.history.find(origin, number)
            && self.config.keeps(Rule::Once)
        {
            self.rare(rare::ORDERED_BEFORE);
            return Some(Ok(Done { position, number: None }));
        }
        let refusal = self.refusal_of(index, (origin, number, oldest));
        let refusal = refusal.or(self.replicas[index].history.preview(&key, &update).err());
        if let Some(failure) = refusal {
            if let Role::Home(home) = &mut self.replicas[index].role {
                home.refused.entry(origin).or_default().insert(number, failure);
            }
            return Some(Err(failure));
        }
        let entry = Entry { origin, number, oldest, key, update };
        let number = self.apply(index, vec![entry], &[]);
        Some(Ok(Done { position: self.replicas[index].history.position(), number }))
    }

    /// Returns the reason for which an update was rejected before. Forgets rejections for which the
    /// origin no longer waits.
    fn refusal_of(
        &mut self,
        index: usize,
        (origin, number, oldest): (Address, u64, u64),
    ) -> Option<Failure> {
        let Role::Home(home) = &mut self.replicas[index].role else { return None };
        let refused = home.refused.get_mut(&origin)?;
        *refused = refused.split_off(&oldest);
        let failure = refused.get(&number).copied();
        if refused.is_empty() {
            home.refused.remove(&origin);
        }
        failure
    }

    /// Sends the other sites the entries that were not sent to them yet.
    pub(crate) fn push(&mut self, now: Now, index: usize) {
        let sites: Vec<SiteId> = self.others().collect();
        let applied = self.replicas[index].history.applied;
        self.settle(now, index);
        for site in sites {
            let Some(follower) = self.follower(index, site) else { return };
            // A site that has not reported yet is asked at the next tick.
            let Follower { stored: Some(stored), sent, .. } = *follower else { continue };
            if sent < applied && sent < stored + WINDOW {
                self.append_to(now, index, site, sent);
            }
        }
    }

    fn follower(&mut self, index: usize, site: SiteId) -> Option<&mut Follower> {
        let Role::Home(home) = &mut self.replicas[index].role else { return None };
        Some(home.followers.entry(site).or_default())
    }

    /// Sends a site the entries after an index, or the values if the log no longer has these
    /// entries.
    fn append_to(&mut self, now: Now, index: usize, site: SiteId, after: u64) {
        let retry = self.config.timing.retry;
        let entries = self.replicas[index].history.since(after, ENTRIES);
        let (sent, wait) = match entries {
            Some(entries) => {
                let sent = after + entries.len() as u64;
                self.send_entries(index, site, (after, entries));
                (sent, retry)
            }
            None => {
                self.send_pieces(index, site);
                (self.replicas[index].history.applied, retry * PIECES_RETRY)
            }
        };
        if let Some(follower) = self.follower(index, site) {
            follower.sent = sent;
            follower.lost_at = now.monotonic.after(wait);
        }
    }

    fn send_entries(&mut self, index: usize, site: SiteId, (after, entries): (u64, Vec<Entry>)) {
        let replica = &self.replicas[index];
        let (partition, epochs) = (replica.history.id, replica.history.epochs.clone());
        let (settled, last) = (replica.settled, replica.history.applied);
        let body = Body::Append { partition, after, entries, epochs, settled, last };
        self.send(site, partition, body);
    }

    fn send_pieces(&mut self, index: usize, site: SiteId) {
        let history = &self.replicas[index].history;
        let (id, applied) = (history.id, history.applied);
        let mut pieces = vec![Vec::new()];
        let mut bytes = 0;
        for (key, held) in history.store.values() {
            if bytes >= self.config.piece_bytes {
                pieces.push(Vec::new());
                bytes = 0;
            }
            bytes += key.len() + held.value.len();
            let piece = pieces.last_mut().expect("there is one from the beginning");
            piece.push((key.clone(), held.value.clone(), held.at));
        }
        let seen = history.seen.iter().map(|(origin, seen)| (*origin, seen.clone())).collect();
        let mut end = Some(End { seen, epochs: history.epochs.clone() });
        let last = pieces.len() - 1;
        for (place, values) in pieces.into_iter().enumerate() {
            let end = if place == last { end.take() } else { None };
            let piece = Piece { applied, place: place as u32, values, end };
            self.send(site, id, Body::Piece(id, piece));
        }
    }

    /// Handles a site's report about its history.
    pub(crate) fn on_stored(
        &mut self,
        now: Now,
        from: SiteId,
        index: usize,
        (applied, asks): (u64, bool),
    ) {
        // A leaving site may have a history that the new home would not accept from it.
        let heard = self.listens_to(from, index);
        if let Role::Gathering(gathering) = &mut self.replicas[index].role {
            if !heard {
                self.ignored += 1;
                return;
            }
            gathering.applied.insert(from, applied);
            return self.gather(now, index, true);
        }
        let last = self.replicas[index].history.applied;
        let Some(follower) = self.follower(index, from) else { return };
        follower.stored = Some(applied.min(last));
        // The answer to this request is in transit: it is sent again only when it counts as lost.
        let is_new = follower.answered != Some(applied) || applied >= last;
        let sends_again = asks && (is_new || now.monotonic >= follower.lost_at);
        if sends_again {
            follower.answered = Some(applied);
        }
        follower.sent = if sends_again { applied } else { follower.sent.max(applied) };
        let sent = follower.sent;
        self.settle(now, index);
        if sends_again || sent < last {
            self.append_to(now, index, from, sent.min(last));
        }
    }

    /// Determines the index up to which f + 1 sites store the history, and sends it to the other
    /// sites if it has changed.
    fn settle(&mut self, now: Now, index: usize) {
        let members: Vec<SiteId> = self.members.members().collect();
        let me = self.config.address.site;
        let replica = &self.replicas[index];
        let Role::Home(home) = &replica.role else { return };
        let stored = |site: &SiteId| match *site == me {
            true => replica.history.applied,
            false => home.followers.get(site).and_then(|it| it.stored).unwrap_or(0),
        };
        let mut stored: Vec<u64> = members.iter().map(stored).collect();
        stored.sort_unstable_by(|a, b| b.cmp(a));
        let enough = if self.config.keeps(Rule::Quorum) { self.config.f } else { 0 };
        let settled = stored.get(enough.min(stored.len().saturating_sub(1))).copied().unwrap_or(0);
        if settled <= replica.settled {
            return;
        }
        self.replicas[index].settled = settled;
        let sites: Vec<SiteId> = self.others().collect();
        for site in sites {
            let Some(Follower { stored: Some(_), sent, .. }) = self.follower(index, site) else {
                continue;
            };
            let sent = *sent;
            if sent >= self.replicas[index].history.applied {
                self.append_to(now, index, site, sent);
            }
        }
    }

    /// Sends entries again that count as lost. Must be called at a tick. Returns whether some site
    /// lacks entries.
    pub(crate) fn replicate(&mut self, now: Now, index: usize) -> bool {
        match self.replicas[index].role {
            Role::Following => return false,
            Role::Gathering(_) => return true,
            Role::Home(_) => {}
        }
        let applied = self.replicas[index].history.applied;
        let sites: Vec<SiteId> = self.others().collect();
        let mut is_missing = false;
        for site in sites {
            let Some(follower) = self.follower(index, site) else { return false };
            if follower.stored == Some(applied) {
                continue;
            }
            is_missing = true;
            if now.monotonic >= follower.lost_at {
                let after = follower.stored.unwrap_or(applied);
                self.append_to(now, index, site, after);
            }
        }
        is_missing
    }

    /// Continues a takeover: asks the other sites for the lengths of their histories, requests the
    /// longest, and becomes the home when it has that. `is_news` is true after a message.
    pub(crate) fn gather(&mut self, now: Now, index: usize, is_news: bool) {
        let me = self.config.address.site;
        // Asks joining sites, too: a site may be a member already according to another list, and
        // may have updates that otherwise only the former home had.
        let asked: Vec<SiteId> =
            self.members.members_and_joining().filter(|site| *site != me).collect();
        let replica = &mut self.replicas[index];
        let (id, applied) = (replica.history.id, replica.history.applied);
        let Role::Gathering(gathering) = &mut replica.role else { return };
        let silent: Vec<SiteId> =
            asked.into_iter().filter(|it| !gathering.applied.contains_key(it)).collect();
        let longest = gathering.applied.iter().max_by_key(|(_, applied)| **applied);
        let longest = longest.map(|(site, applied)| (*site, *applied));
        if !self.config.keeps(Rule::Gather) {
            return self.become_home(now, index);
        }
        let may_ask = gathering.next.is_none_or(|next| now.monotonic >= next);
        if silent.is_empty() && longest.is_none_or(|(_, longest)| longest <= applied) {
            return self.become_home(now, index);
        }
        let takes = is_news && silent.is_empty() && gathering.taking != Some(applied);
        if !(may_ask || takes) {
            return;
        }
        gathering.taking = silent.is_empty().then_some(applied);
        gathering.next = Some(now.monotonic.after(self.config.timing.retry));
        match longest {
            Some((site, _)) if silent.is_empty() => {
                self.rare(rare::TAKEN_OVER);
                self.send(site, id, Body::Take(id, applied));
            }
            _ => silent.into_iter().for_each(|site| self.send(site, id, Body::Ask(id))),
        }
    }

    fn become_home(&mut self, now: Now, index: usize) {
        let replica = &mut self.replicas[index];
        replica.history.begin_epoch(self.list.changes());
        replica.role = Role::Home(Home::default());
        self.note_home(index);
        self.replicate(now, index);
    }

    /// Records that this worker is the home for the present list.
    pub(crate) fn note_home(&mut self, index: usize) {
        let list = self.list.clone();
        let replica = &mut self.replicas[index];
        replica.home_for = Some(list.clone());
        let (partition, epochs) = (replica.history.id, replica.history.epochs.clone());
        self.record(|| Record::Home { partition, list, epochs });
    }

    /// Sends a new home the end of the history.
    pub(crate) fn on_take(&mut self, from: SiteId, partition: PartitionId, after: u64) {
        let Some(index) = self.index_of(partition) else { return };
        match self.replicas[index].history.since(after, ENTRIES) {
            Some(entries) => self.send_entries(index, from, (after, entries)),
            None => self.send_pieces(index, from),
        }
    }
}
