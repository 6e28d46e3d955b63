//! Replicas other than the home: they apply the history, report how much of it they store, and fill
//! themselves with values.

use std::collections::VecDeque;

use solera_machine::{Now, PartitionId};
use solera_time::SiteId;

use super::{Primary, Replica, Role};
use crate::command::Done;
use crate::config::Rule;
use crate::history::{Entry, Epoch, Held, History};
use crate::list::home_of;
use crate::message::{Body, Piece};
use crate::rare;
use crate::record::Record;

/// Content of a [`Body::Append`].
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) after: u64,
    pub(crate) entries: Vec<Entry>,
    pub(crate) epochs: Vec<Epoch>,
    pub(crate) settled: u64,
    pub(crate) last: u64,
}

/// Pieces of a partition's values that have arrived, from the first on.
#[derive(Debug)]
pub(crate) struct Staging(Vec<Piece>);

impl Primary {
    /// Applies a new part of the history. It comes from the home; at a new home, it comes from the
    /// site with the longest history.
    pub(crate) fn on_append(&mut self, now: Now, from: SiteId, index: usize, sent: Sent) {
        let Sent { after, mut entries, epochs, settled, last } = sent;
        if !self.listens_to(from, index) {
            self.ignored += 1;
            return;
        }
        let replica = &mut self.replicas[index];
        let (id, applied) = (replica.history.id, replica.history.applied);
        if applied < after && self.config.keeps(Rule::InOrder) {
            if let Role::Following = replica.role {
                self.report(id, from, true);
            }
            return;
        }
        let known =
            usize::try_from(applied.saturating_sub(after)).unwrap_or(usize::MAX).min(entries.len());
        entries.drain(..known);
        self.apply(index, entries, &epochs);
        let replica = &mut self.replicas[index];
        replica.settled = replica.settled.max(settled);
        let applied = replica.history.applied;
        if matches!(replica.role, Role::Gathering(_)) {
            return self.gather(now, index, true);
        }
        if !replica.filled && applied >= last {
            replica.filled = true;
            self.record(|| Record::Filled(id));
        }
        // The report also answers a message without entries, which contains other news or requests
        // a report.
        self.report(id, from, false);
    }

    /// Appends entries to a partition's history, records them, and answers the clients of this
    /// worker that sent them. Returns the number of the last update.
    pub(crate) fn apply(
        &mut self,
        index: usize,
        entries: Vec<Entry>,
        epochs: &[Epoch],
    ) -> Option<i64> {
        let history = &mut self.replicas[index].history;
        let before = history.epochs.last().copied();
        history.learn_epochs(epochs);
        if entries.is_empty() && history.epochs.last().copied() == before {
            return None;
        }
        let (partition, after, epochs) = (history.id, history.applied, history.epochs.clone());
        let kept = entries.clone();
        self.record(|| Record::Applied { partition, after, entries: kept, epochs });
        let mut last = None;
        for entry in entries {
            let (origin, request) = (entry.origin, entry.number);
            let history = &mut self.replicas[index].history;
            last = history.apply(entry);
            let done = Done { position: history.position(), number: last };
            if origin == self.config.address {
                self.note_applied(request, done);
            }
        }
        last
    }

    /// Returns whether a replica accepts data from a site. A follower accepts data of its home. A
    /// new home accepts data of all sites that it asks.
    pub(crate) fn listens_to(&self, site: SiteId, index: usize) -> bool {
        let replica = &self.replicas[index];
        match replica.role {
            Role::Home(_) => false,
            Role::Gathering(_) => self.members.members_and_joining().any(|other| other == site),
            Role::Following => home_of(&self.members, replica.history.id) == Some(site),
        }
    }

    /// Reports to a site how much of a partition's history is stored here.
    pub(crate) fn report(&mut self, partition: PartitionId, to: SiteId, asks: bool) {
        let Some(index) = self.index_of(partition) else { return };
        if to != self.config.address.site {
            let applied = self.replicas[index].history.applied;
            self.send(to, partition, Body::Stored { partition, applied, asks });
        }
    }

    /// Takes a piece of a partition's values. With the last piece, the values replace the present
    /// ones, and all pieces are recorded together: if a checkpoint began between two records of
    /// pieces, the first piece would be lost.
    pub(crate) fn on_piece(&mut self, now: Now, from: SiteId, index: usize, piece: Piece) {
        if !self.listens_to(from, index) || piece.applied <= self.replicas[index].history.applied {
            self.ignored += 1;
            return;
        }
        let replica = &mut self.replicas[index];
        let id = replica.history.id;
        let Some(pieces) = replica.stage(piece) else { return };
        for piece in pieces {
            self.record(|| Record::Piece(id, piece));
        }
        self.rare(rare::SNAPSHOT);
        let history = &self.replicas[index].history;
        let own = history.seen.get(&self.config.address).map(|seen| seen.numbers.clone());
        for number in own.unwrap_or_default().into_keys() {
            if let Some(position) = self.replicas[index].history.find(self.config.address, number) {
                self.note_applied(number, Done { position, number: None });
            }
        }
        match self.replicas[index].role {
            Role::Gathering(_) => self.gather(now, index, true),
            // The home may have more updates already.
            _ => self.report(id, from, true),
        }
    }

    /// Empties a replica of a joining site, because it may have updates that otherwise only the
    /// former home had.
    pub(crate) fn begin_anew(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        if replica.history.applied == 0 && replica.staging.is_none() && !replica.filled {
            return;
        }
        replica.empty();
        let id = replica.history.id;
        self.rare(rare::FILLED_ANEW);
        self.record(|| Record::Emptied(id));
    }
}

impl Replica {
    pub(crate) fn empty(&mut self) {
        self.history = self.history.emptied();
        (self.filled, self.staging) = (false, None);
    }

    /// Takes a piece if it is the next one. After the last piece, replaces the values, ends the
    /// staging and returns the pieces.
    pub(crate) fn stage(&mut self, piece: Piece) -> Option<Vec<Piece>> {
        if piece.place == 0 {
            self.staging = Some(Staging(Vec::new()));
        }
        let Staging(pieces) = self.staging.as_mut()?;
        let is_next = pieces.len() as u64 == u64::from(piece.place)
            && pieces.first().is_none_or(|first| first.applied == piece.applied);
        if !is_next {
            return None;
        }
        let is_last = piece.end.is_some();
        pieces.push(piece);
        if !is_last {
            return None;
        }
        let Staging(pieces) = self.staging.take()?;
        self.history.replace(&pieces);
        Some(pieces)
    }
}

impl History {
    fn emptied(&self) -> History {
        History::new(self.id, self.log_limit())
    }

    /// Replaces the values with those at an index. When a journal is replayed, the partition may
    /// come from a checkpoint with later updates, which stay.
    fn replace(&mut self, pieces: &[Piece]) {
        let Some(Piece { applied, end: Some(end), .. }) = pieces.last() else { return };
        self.store.remove_until(*applied);
        for (key, value, at) in pieces.iter().flat_map(|piece| &piece.values) {
            if !self.store.values().contains_key(key) {
                self.store.insert(key.clone(), Held { value: value.clone(), at: *at });
            }
        }
        if *applied > self.applied {
            self.applied = *applied;
            (self.seen, self.epochs) = (end.seen.iter().cloned().collect(), end.epochs.clone());
            self.store.replace_log(VecDeque::new());
        }
    }
}
