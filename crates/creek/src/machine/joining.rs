//! Transfer of a member's data to a site that joins.
//!
//! The joining site first waits until all members know that it joins, so that none of them removes
//! anything that it may lack. Then it fetches the data of one of them, as of one moment, piece by
//! piece. Later operations and decisions reach it as they reach any other site.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use solera_machine::{Machine, Now};
use solera_time::{Monotonic, SiteId};

use super::{Creek, Loading};
use crate::checkpoint::{Checkpoint, PartOf};
use crate::config::Rule;
use crate::message::{Message, Piece, Transfer};
use crate::object::Procedures;
use crate::rare;
use crate::record::{Encoded, Record};

/// Number of registers or operations in a part.
const KEYS: usize = 4;

/// Number of retry intervals after which the site repeats the request for a piece the first time,
/// because a piece needs some time on a slow link. The time then doubles, up to `MOST_DOUBLED`
/// times: repeated pieces would fill the link.
const PIECE_RETRY: u32 = 10;
const MOST_DOUBLED: u32 = 4;

/// Number of retry intervals without a piece after which the site turns to another donor.
const PATIENCE: u32 = 150;

/// What a joining site has fetched of the data of another site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The other site; `None` until the transfer begins.
    pub donor: Option<SiteId>,
    /// Bytes that have arrived.
    pub bytes: u64,
    /// Approximate number of all bytes; 0 if it is not known.
    pub total: u64,
}

/// A joining site that lacks data.
#[derive(Debug, Default)]
pub(crate) struct Joining {
    /// The stage of the site.
    stage: u64,
    /// The members that know that the site joins, with this stage.
    admitted_by: BTreeSet<SiteId>,
    fetching: Option<Fetching>,
    /// Number of transfers that the site has begun in this run.
    transfers: u64,
    /// When the last request left.
    asked: Option<Monotonic>,
}

#[derive(Debug)]
struct Fetching {
    donor: SiteId,
    transfer: Transfer,
    /// The donor's name of its data as of one moment.
    snapshot: Option<Transfer>,
    /// Encoded parts that have arrived.
    parts: Vec<Encoded>,
    /// Their bytes, and about those of all parts.
    bytes: (u64, u64),
    /// Number of the next piece.
    next: u64,
    /// Number of times that the site has repeated the request for it.
    repeats: u32,
    /// When the last piece arrived, or the transfer began.
    heard: Monotonic,
}

impl Joining {
    /// Notes the size of the data that the site fetches.
    pub(crate) fn on_size(&mut self, from: SiteId, transfer: Transfer, bytes: u64) {
        let fetching = self.fetching.as_mut();
        if let Some(it) = fetching.filter(|it| it.donor == from && it.transfer == transfer) {
            it.bytes.1 = bytes;
        }
    }
}

impl Fetching {
    /// Returns the time after which the request for the next piece is repeated.
    fn pause(&self, retry: Duration) -> Duration {
        retry * (PIECE_RETRY << self.repeats.min(MOST_DOUBLED))
    }
}

/// A transfer at the donor.
pub(crate) struct Donation<P: Procedures> {
    transfer: Transfer,
    /// This site's name of the data. A transfer that goes on after a restart of this site would
    /// combine the data of two moments.
    snapshot: Transfer,
    checkpoint: Checkpoint<P>,
    /// About the bytes of all pieces.
    bytes: u64,
    /// Number of the last piece, and its parts.
    piece: u64,
    parts: Vec<Encoded>,
}

/// Transfers at a donor, by joining site.
pub(crate) type Donations<P> = BTreeMap<SiteId, Donation<P>>;

impl<P: Procedures> Creek<P> {
    /// Returns what a joining site has fetched; `None` if the site has its data.
    pub fn fetched(&self) -> Option<Fetched> {
        if self.replica.is_filled {
            return None;
        }
        let fetching = self.joining.fetching.as_ref();
        let fetched = fetching.map(|it| {
            let (bytes, total) = it.bytes;
            Fetched { donor: Some(it.donor), bytes, total }
        });
        Some(fetched.unwrap_or_default())
    }

    /// Requests what a joining site lacks, or repeats the request.
    pub(crate) fn join(&mut self, now: Monotonic) {
        let retry = self.replica.config.timing.retry;
        let Some(stage) = self.replica.sites.own_joining_stage() else { return };
        if self.replica.is_filled {
            return;
        }
        let joining = &mut self.joining;
        let wait = joining.fetching.as_ref().map_or(retry, |it| it.pause(retry));
        if joining.asked.is_some_and(|at| now < at.after(wait)) {
            return;
        }
        joining.asked = Some(now);
        if joining.stage != stage {
            (joining.stage, joining.admitted_by) = (stage, BTreeSet::new());
        }
        let members: Vec<SiteId> = self.replica.sites.other_members().collect();
        let missing = members.iter().filter(|site| !joining.admitted_by.contains(site));
        let missing: Vec<SiteId> = missing.copied().collect();
        for site in &missing {
            self.replica.send(*site, Message::Join { stage });
        }
        if !missing.is_empty() && self.replica.config.has(Rule::AdmitFirst) {
            return;
        }
        let is_silent =
            |it: &Fetching| now >= it.heard.after(retry * PATIENCE) || !members.contains(&it.donor);
        if joining.fetching.as_ref().is_none_or(is_silent) {
            if joining.fetching.is_some() {
                self.replica.rare(rare::NEXT_DONOR);
            }
            let Some(donor) = members.get(joining.transfers as usize % members.len().max(1)) else {
                return;
            };
            joining.transfers += 1;
            let transfer = Transfer { run: self.replica.run, number: joining.transfers };
            let (donor, parts) = (*donor, Vec::new());
            let (snapshot, bytes, next, repeats) = (None, (0, 0), 0, 0);
            let heard = now;
            let fetching =
                Fetching { donor, transfer, snapshot, parts, bytes, next, repeats, heard };
            joining.fetching = Some(fetching);
        } else if let Some(fetching) = &mut joining.fetching {
            fetching.repeats += 1;
        }
        self.fetch();
    }

    /// Requests the next piece.
    fn fetch(&mut self) {
        if let Some(Fetching { donor, transfer, next, .. }) = &self.joining.fetching {
            let message = Message::Fetch { transfer: *transfer, piece: *next };
            self.replica.send(*donor, message);
        }
    }

    pub(crate) fn on_admitted(&mut self, now: Monotonic, from: SiteId, stage: u64) {
        let joining = &mut self.joining;
        if joining.stage == stage && joining.admitted_by.insert(from) {
            joining.asked = None;
            self.join(now);
        }
    }

    /// Sends a piece to a joining site.
    pub(crate) fn on_fetch(&mut self, from: SiteId, transfer: Transfer, piece: u64) {
        let replica = &self.replica;
        let is_donor = replica.is_filled && replica.sites.is_member(replica.config.me());
        let differs = replica.divergence().is_some_and(|it| it.is_stopped);
        if !is_donor || differs || !replica.sites.joining().iter().any(|(site, _)| *site == from) {
            return;
        }
        let present = self.donations.get(&from).map(|it| it.transfer);
        if piece == 0 && present.is_none_or(|present| present < transfer) {
            let (checkpoint, parts) = (Checkpoint::for_other(), Vec::new());
            self.snapshots += 1;
            let snapshot = Transfer { run: self.replica.run, number: self.snapshots };
            let bytes = self.status().bytes as u64;
            let mut donation = Donation { transfer, snapshot, checkpoint, bytes, piece, parts };
            self.compose(&mut donation);
            self.donations.insert(from, donation);
        }
        let Some(mut donation) = self.donations.remove(&from) else { return };
        if donation.transfer == transfer {
            if piece == donation.piece + 1 && !donation.checkpoint.is_complete() {
                donation.piece = piece;
                self.compose(&mut donation);
            }
            if piece == 0 {
                let bytes = donation.bytes;
                self.replica.send(from, Message::Size { transfer, bytes });
            }
            if piece == donation.piece {
                let (parts, last) = (donation.parts.clone(), donation.checkpoint.is_complete());
                let snapshot = donation.snapshot;
                let answer = Piece { transfer, snapshot, piece, parts, last };
                self.replica.send(from, Message::Piece(answer));
            }
        }
        self.donations.insert(from, donation);
    }

    /// Composes the next piece of a transfer.
    fn compose(&self, donation: &mut Donation<P>) {
        donation.parts.clear();
        let mut bytes = 0;
        while bytes < self.replica.config.limits.piece
            && let Some(part) = donation.checkpoint.next(&self.replica, &self.consensus, KEYS)
        {
            let mut encoded = Vec::new();
            Self::encode_part(&part, &mut encoded);
            bytes += encoded.len();
            donation.parts.push(Encoded(encoded));
        }
    }

    pub(crate) fn on_piece(&mut self, now: Now, from: SiteId, answer: Piece) {
        let Piece { transfer, snapshot, piece, parts, last } = answer;
        let joining = &mut self.joining;
        let Some(fetching) = &mut joining.fetching else { return };
        if fetching.donor != from || fetching.transfer != transfer || fetching.next != piece {
            return;
        }
        if *fetching.snapshot.get_or_insert(snapshot) != snapshot {
            // The donor was restarted, and has lost its data as of the former moment.
            self.replica.rare(rare::FETCHES_AGAIN);
            joining.fetching = None;
            return;
        }
        fetching.bytes.0 += parts.iter().map(|part| part.0.len() as u64).sum::<u64>();
        fetching.parts.extend(parts);
        (fetching.next, fetching.repeats) = (fetching.next + 1, 0);
        fetching.heard = now.monotonic;
        joining.asked = Some(now.monotonic);
        if !last {
            return self.fetch();
        }
        // Nothing that arrives later belongs to this transfer.
        let Some(Fetching { parts, .. }) = joining.fetching.take() else { return };
        let Ok(decoded) = Self::decode_parts(&parts) else {
            // A donor of another version has sent it. Another donor may be older.
            return;
        };
        for part in parts {
            self.replica.record(&Record::Fetched(part));
        }
        self.replica.record(&Record::Filled);
        let emitted = self.replica.outputs();
        self.take_over(decoded);
        // Loading is no step of the protocol.
        self.replica.truncate_outputs(emitted);
        self.replica.begin_filled();
    }

    /// Decodes the parts of another site's data.
    ///
    /// # Errors
    /// The bytes are no parts of this protocol.
    pub(crate) fn decode_parts(parts: &[Encoded]) -> Result<Vec<PartOf<P>>, String> {
        let decoded = parts.iter().map(|part| PartOf::<P>::decode(&part.0));
        decoded.collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    /// Begins with the data of another site.
    pub(crate) fn take_over(&mut self, parts: Vec<PartOf<P>>) {
        let mut loading = Loading::of_other();
        parts.into_iter().for_each(|part| loading.take(self, part));
        self.replica.is_filled = true;
        loading.end(&mut self.replica);
    }
}
