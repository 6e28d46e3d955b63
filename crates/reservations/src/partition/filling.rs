//! Sites without data get the state of another site.
//!
//! The other site captures its state in one step, so that its parts fit each other: a value is the
//! sum of the updates up to the prefixes, and the record is the one of the version. It sends the
//! parts one after the other, each when it is asked for it. The requester installs all of them in
//! one step. From then on, it is like a site that has received the streams and the versions itself.
//! It has confirmed nothing before, so that nothing depends on what it had.
//!
//! The size of a set may contain later updates of the other site. The host replaces the sizes when
//! the requester has received the updates up to the prefixes.

use std::collections::BTreeMap;

use solera_machine::codec;
use solera_membership::Members;
use solera_time::{Monotonic, SiteId};

use super::Partition;
use crate::message::{Body, StatePart};
use crate::numbers::Nonce;
use crate::outbox::Step;
use crate::rare;
use crate::record::{KeyPart, PartitionPart, Record, Sponsored};

/// Greatest size of the keys of a part in bytes, except that a part has at least one key.
const PART_BYTES: usize = 64 << 10;

/// A state that this site sends.
#[derive(Debug)]
struct Outgoing {
    transfer: Nonce,
    parts: Vec<StatePart>,
    /// When the receiver last asked for a part.
    asked: Monotonic,
}

/// A state that this site receives.
#[derive(Debug)]
struct Incoming {
    transfer: Nonce,
    from: SiteId,
    parts: Vec<StatePart>,
    /// When the last part has arrived, or the first request was sent.
    progress: Monotonic,
    next_request: Monotonic,
}

#[derive(Debug, Default)]
pub(crate) struct Filling {
    filled: bool,
    /// Whether the host's streams continue the state.
    continues: bool,
    /// Number of transfers that were begun.
    begun: usize,
    incoming: Option<Incoming>,
    outgoing: BTreeMap<SiteId, Outgoing>,
}

impl Filling {
    pub(crate) fn new(filled: bool) -> Filling {
        Filling { filled, continues: filled, ..Filling::default() }
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.filled
    }

    pub(crate) fn continues(&self) -> bool {
        self.filled && self.continues
    }
}

impl Partition {
    pub(crate) fn set_members(&mut self, members: &Members) {
        self.end_counts(members);
        self.members = members.clone();
    }

    /// The host's streams continue the state.
    pub(crate) fn continue_filled(&mut self, step: &mut Step<'_>) {
        if self.filling.filled && !self.filling.continues {
            step.record(&Record::Continued(self.id));
            self.restore_continued();
        }
    }

    /// Restores that the host's streams continue the state.
    pub(crate) fn restore_continued(&mut self) {
        self.filling.continues = true;
    }

    /// The state is of no use: the host cannot continue it. The site gets another one.
    pub(crate) fn empty(&mut self, step: &mut Step<'_>) {
        if std::mem::take(&mut self.filling.filled) {
            step.record(&Record::Emptied(self.id));
        }
        self.look_after_filling(step);
    }

    /// Requests the state, and forgets those that nobody asks for any more.
    pub(super) fn look_after_filling(&mut self, step: &mut Step<'_>) {
        let over = step.config.timing.exclusion;
        self.filling.outgoing.retain(|_, outgoing| step.now.since(outgoing.asked) < over);
        if self.filling.filled {
            return;
        }
        // Sites that may have the state.
        let members: Vec<SiteId> = self.members.members().filter(|site| *site != self.me).collect();
        if members.is_empty() {
            return;
        }
        let incoming = self.filling.incoming.as_ref();
        if incoming.is_none_or(|incoming| step.now.since(incoming.progress) >= over) {
            let from = members[self.filling.begun % members.len()];
            self.filling.begun += 1;
            self.filling.incoming = Some(Incoming {
                transfer: step.nonce(),
                from,
                parts: Vec::new(),
                progress: step.now,
                next_request: step.now,
            });
        }
        self.request_part(step);
    }

    fn request_part(&mut self, step: &mut Step<'_>) {
        let Some(incoming) = &mut self.filling.incoming else { return };
        if incoming.next_request > step.now {
            return;
        }
        incoming.next_request = step.now.after(step.config.timing.retry);
        let (transfer, from) = (incoming.transfer, incoming.from);
        let place = u32::try_from(incoming.parts.len()).unwrap_or(u32::MAX);
        step.send(self.id, from, Body::StateRequest { transfer, place });
    }

    /// Sends a part of the state.
    pub(super) fn on_state_request(
        &mut self,
        step: &mut Step<'_>,
        from: SiteId,
        transfer: Nonce,
        place: u32,
    ) {
        let known = self.filling.outgoing.get(&from).map(|outgoing| outgoing.transfer);
        // A late request for the first part of an earlier state must not replace the present one.
        if place == 0 && known.is_none_or(|known| known < transfer) {
            let (parts, asked) = (self.capture(), step.now);
            self.filling.outgoing.insert(from, Outgoing { transfer, parts, asked });
        }
        let outgoing = self.filling.outgoing.get_mut(&from);
        let Some(outgoing) = outgoing.filter(|it| it.transfer == transfer) else { return };
        outgoing.asked = step.now;
        let of = u32::try_from(outgoing.parts.len()).unwrap_or(u32::MAX);
        let Some(part) = outgoing.parts.get(place as usize).cloned() else { return };
        step.send(self.id, from, Body::State { transfer, place, of, part });
    }

    /// Returns the parts of the state, without what concerns this site alone.
    fn capture(&self) -> Vec<StatePart> {
        let rest = PartitionPart { pin: None, sponsored: Vec::new(), ..self.as_part(self.id) };
        let mut parts = vec![StatePart::Rest(Box::new(rest))];
        let (mut keys, mut bytes) = (Vec::new(), 0);
        for part in self.key_parts(self.id, std::ops::Bound::Unbounded, usize::MAX) {
            let part = KeyPart {
                unseen: Vec::new(),
                stopped: Default::default(),
                tally: Default::default(),
                pasts: Default::default(),
                ..part
            };
            bytes += codec::encoded_bytes(&part);
            if bytes > PART_BYTES && !keys.is_empty() {
                parts.push(StatePart::Keys(std::mem::take(&mut keys)));
                bytes = codec::encoded_bytes(&part);
            }
            keys.push(part);
        }
        if !keys.is_empty() {
            parts.push(StatePart::Keys(keys));
        }
        parts
    }

    /// Takes a part of the state, and installs the state with the last one.
    pub(super) fn on_state(
        &mut self,
        step: &mut Step<'_>,
        from: SiteId,
        (transfer, place, of): (Nonce, u32, u32),
        part: StatePart,
    ) {
        let Some(incoming) = &mut self.filling.incoming else { return };
        let is_next = incoming.parts.len() == place as usize;
        if incoming.from != from || incoming.transfer != transfer || !is_next {
            return;
        }
        incoming.parts.push(part);
        (incoming.progress, incoming.next_request) = (step.now, step.now);
        if incoming.parts.len() < of as usize {
            return self.request_part(step);
        }
        let Some(incoming) = self.filling.incoming.take() else { return };
        let (mut rest, mut keys) = (None, Vec::new());
        for part in incoming.parts {
            match part {
                StatePart::Rest(part) => rest = Some(part),
                StatePart::Keys(part) => keys.push(part),
            }
        }
        // What this site has confirmed must stay true.
        let Some(rest) = rest.filter(|rest| self.is_older_than(rest)) else { return };
        for part in keys {
            step.record(&Record::FilledKeys(part.clone()));
            part.into_iter().for_each(|key| self.fill_key(key));
        }
        step.record(&Record::Filled(rest.clone()));
        self.fill(*rest);
        step.rare(rare::FILLED);
        self.end_spent(step);
        self.after_recovery(step.config);
        self.serve_all(step);
    }

    fn is_older_than(&self, rest: &PartitionPart) -> bool {
        let mut prefixes = self.known.iter().enumerate();
        self.agreed.version <= rest.version
            && prefixes
                .all(|(place, own)| rest.known.get(place).copied().unwrap_or_default() >= *own)
    }

    /// Installs a state without its keys. Recovery calls it, too.
    pub(crate) fn fill(&mut self, rest: PartitionPart) {
        let before = self.agreed.version;
        let (pin, mut sponsored) = (self.pin.take(), std::mem::take(&mut self.sponsored));
        let filling = std::mem::take(&mut self.filling);
        for (place, reader) in rest.readers.iter().enumerate() {
            if let Some(reader) = reader
                && reader.sponsor == self.me
                && reader.admitted > before
            {
                let (site, since) = (SiteId(place as u8), reader.since.clone());
                sponsored.push(Sponsored { version: reader.admitted, site, since });
            }
        }
        self.restore(rest);
        self.filling = Filling { filled: true, continues: false, ..filling };
        self.sponsored = sponsored;
        let right = self.agreed.reader(self.me).map(|reader| (reader.term, reader.renewals));
        self.pin = pin.filter(|pin| right == Some((pin.term, pin.renewals)));
    }

    /// Installs a key. What concerns this site alone stays. Recovery calls it, too.
    pub(crate) fn fill_key(&mut self, part: KeyPart) {
        let own = self.counters.get(&part.key);
        let part = KeyPart {
            unseen: own.map_or(Vec::new(), |own| own.unseen.iter().collect()),
            stopped: own.map_or(Default::default(), |own| own.stopped),
            tally: own.map_or(Default::default(), |own| own.rights.tally.clone()),
            pasts: own.map_or(Default::default(), |own| own.rights.pasts.clone()),
            ..part
        };
        self.restore_key(part);
    }

    /// Restores that the state is of no use.
    pub(crate) fn restore_emptied(&mut self) {
        self.filling.filled = false;
    }
}
