//! Streams, versions of the record, and messages.

use solera_time::SiteId;

use super::{Heard, Partition};
use crate::agreed::{Change, Key};
use crate::command::{Entry, Placed};
use crate::config::{Config, Rule};
use crate::message::{Body, Need};
use crate::numbers::{Position, Tokens, Version};
use crate::outbox::Step;
use crate::rare;
use crate::record::{Pin, Record, Sponsored};

impl Partition {
    /// Takes entries of a stream. Returns how much of it the site has.
    pub(crate) fn on_stream(
        &mut self,
        step: &mut Step<'_>,
        origin: SiteId,
        after: Position,
        mut entries: Vec<Placed>,
        mut upto: Position,
    ) -> Position {
        let Some(known) = self.known.get(origin.index()).copied() else { return Position(0) };
        if !self.filling.is_filled() {
            return known;
        }
        let own = origin == self.me;
        if own && !self.knows_begin(step.config) {
            return known;
        }
        if after > known {
            step.rare(rare::GAP);
            return known;
        }
        if let Some(remains) = self.agreed.remains(origin).filter(|_| origin != self.me) {
            upto = upto.min(remains);
        }
        entries.retain(|placed| placed.position > known && placed.position <= upto);
        if own {
            self.burn(step.config, &mut entries);
        }
        if upto <= known {
            return known;
        }
        // A prefix without new entries needs no record: a restarted process has a lower prefix with
        // the same entries. It may have reported the higher one. This stays true, because the site
        // has all entries up to it, and the host passes the prefix again.
        if !entries.is_empty() {
            let partition = self.id;
            step.record(&Record::Stream { partition, origin, entries: entries.clone(), upto });
        }
        let was_ready = self.is_ready(step.config);
        for placed in &entries {
            self.apply_new_entry(step, origin, placed);
        }
        self.known[origin.index()] = upto;
        for placed in &entries {
            self.note_available(step.config, &placed.key);
            if own {
                self.recycle(step.config, &placed.key);
            }
            match &placed.entry {
                Entry::Ended(_) => {
                    self.visit_soon(step, &placed.key);
                    self.report_to_eager(step, &placed.key, None);
                }
                Entry::Update(_) | Entry::Resized(..) if !own => {
                    self.report_to_eager(step, &placed.key, Some(origin));
                }
                Entry::Given(gift, _) if own => self.end_giving(&placed.key, gift),
                Entry::Update(_) | Entry::Created(..) | Entry::Resized(..) | Entry::Given(..) => {}
            }
        }
        if own {
            self.end_spent(step);
        }
        if !was_ready && self.is_ready(step.config) {
            self.serve_all(step);
        } else {
            for placed in &entries {
                self.serve(step, &placed.key);
            }
        }
        upto
    }

    /// Reports to a site that waits for reports about a key because it has got an entry of the
    /// key, or to all such sites.
    fn report_to_eager(&mut self, step: &mut Step<'_>, key: &Key, only: Option<SiteId>) {
        let Some(counter) = self.counters.get_mut(key) else { return };
        let eager = counter.eager_at(step.now).filter(|site| only.is_none_or(|only| only == *site));
        for site in eager.collect::<Vec<_>>() {
            self.report_soon(step, site);
        }
    }

    /// Applies an entry to its key. Recovery calls it, too.
    pub(crate) fn apply_entry(&mut self, config: &Config, origin: SiteId, placed: &Placed) {
        let own = origin == self.me;
        let position = placed.position;
        let counter = self.counter(&placed.key);
        match &placed.entry {
            Entry::Update(amount) => {
                counter.value = counter.value.saturating_add((*amount).into());
                if own && config.has_rights(&placed.key) {
                    counter.rights.tally.note_spent(amount.unsigned_abs());
                } else if own {
                    counter.unseen.push(position, Tokens::of(*amount));
                }
            }
            Entry::Resized(tokens, size) => {
                counter.value = (*size).into();
                if own {
                    counter.unseen.push(position, *tokens);
                }
            }
            Entry::Ended(epoch) => {
                let ended = counter.ended.entry(origin).or_default();
                *ended = (ended.0.max(*epoch), position);
            }
            Entry::Created(amount, past) => {
                counter.value = counter.value.saturating_add((*amount).into());
                if own {
                    counter.rights.tally.note_created(*amount);
                    counter.rights.depend_on(past);
                }
            }
            Entry::Given(gift, past) => self.apply_gift(config, &placed.key, own, (gift, past)),
        }
    }

    /// Raises the version of the copy without a change. No record keeps this: after a restart, the
    /// version may be lower than one that was confirmed, and there is no change in between.
    pub(crate) fn on_unchanged(&mut self, upto: Version) -> Version {
        if self.filling.is_filled() {
            self.agreed.version = self.agreed.version.max(upto);
        }
        self.agreed.version
    }

    /// Takes the next version of the record. Returns the version of the copy.
    pub(crate) fn on_changed(
        &mut self,
        step: &mut Step<'_>,
        previous: Version,
        version: Version,
        (read, change): (Version, Change),
    ) -> Version {
        let own = self.agreed.version;
        if !self.filling.is_filled() {
            return own;
        }
        if previous > own {
            step.rare(rare::VERSION_GAP);
            return own;
        }
        if version <= own {
            return own;
        }
        if step.config.has(Rule::DurableCopies) {
            let (partition, change) = (self.id, change.clone());
            step.record(&Record::Changed { partition, version, read, change });
        }
        if self.agreed.takes_effect(read, &change) {
            self.take_effect(step, version, &change);
        } else {
            step.rare(rare::INEFFECTIVE);
            self.agreed.version = version;
        }
        if let Some(key) = change.key() {
            self.visit_soon(step, key);
        }
        self.serve_all(step);
        version
    }

    fn take_effect(&mut self, step: &mut Step<'_>, version: Version, change: &Change) {
        step.out.counts.note_change(change);
        self.apply_to_readers(step.config, version, change);
        match change.key() {
            None => self.apply_to_key(step.config, version, change),
            Some(key) => {
                self.changing_tokens(key, |it| it.apply_to_key(step.config, version, change));
            }
        }
        self.note_right(step, change);
        match change {
            Change::Admit { .. } => step.rare(rare::ADMITTED),
            Change::Exclude { .. } => step.rare(rare::EXCLUDED),
            Change::Remove { .. } => step.rare(rare::REMOVED),
            Change::Return { site, .. } => {
                step.rare(rare::RETURNED);
                // The reports were those of a process whose data is gone.
                let heard = self.heard.get_mut(site.index());
                if let Some(heard) = heard.filter(|_| step.config.has(Rule::ForgetReports)) {
                    *heard = Heard::nothing(self.known.len());
                }
            }
            Change::Close { .. } => {
                step.rare(rare::CLOSED);
                self.end_after_closing(step.now);
            }
            Change::Found { .. } => {
                step.rare(rare::FOUNDED);
                self.agreed.clear_grants(|_| true);
                self.right.restart_silence(step.now);
            }
            Change::Raise { .. } => step.rare(rare::RAISED),
            Change::Lower { .. } => step.rare(rare::LOWERED),
            _ => {}
        }
        if matches!(change, Change::Remove { .. } | Change::Return { .. } | Change::Found { .. }) {
            self.count_holdings(step.config);
        }
        if let Some(key) = change.key() {
            // What others could not end before may be possible now.
            self.counter(key).next_needs.retain(|need, _| *need == Need::Reports);
        }
        // Holders wait until readers confirm the version. A grant concerns its holder alone.
        let others = self.others().collect::<Vec<_>>().into_iter();
        match change {
            Change::Renew { .. } | Change::Reclaim { .. } => {}
            Change::Grant { site: holder, .. } => {
                others.filter(|site| site == holder).for_each(|site| self.report_soon(step, site))
            }
            _ => others.for_each(|site| self.report_soon(step, site)),
        }
    }

    /// Applies a change of the readers. Recovery calls it, too.
    pub(crate) fn apply_to_readers(&mut self, config: &Config, version: Version, change: &Change) {
        self.agreed.apply_to_readers(version, change);
        if let Change::Admit { site, sponsor, since, .. } = change
            && *sponsor == self.me
        {
            let (site, since) = (*site, since.clone());
            self.sponsored.push(Sponsored { version, site, since });
        }
        let right = self.agreed.reader(self.me).map(|reader| (reader.term, reader.renewals));
        let is_open = |pin: &Pin| right.is_some_and(|right| right == (pin.term, pin.renewals));
        if !self.pin.as_ref().is_none_or(is_open) && config.has(Rule::EndOffers) {
            self.pin = None;
        }
    }

    /// Applies a change of a key. Recovery calls it, too.
    pub(crate) fn apply_to_key(&mut self, config: &Config, version: Version, change: &Change) {
        self.agreed.apply_to_key(version, change);
        let Some(key) = change.key() else { return };
        let Some(record) = self.agreed.keys.get(key) else { return };
        let floor = if config.has(Rule::RespectRaise) { record.respected() } else { record.floor };
        let oldest = self.oldest(config);
        let floors = &mut self.counter(key).floors;
        if floors.last().and_then(|(_, floor)| *floor) != floor {
            floors.push((version, floor));
        }
        // Only the last of those that every reader may use is needed.
        let first = floors.iter().rposition(|(version, _)| *version <= oldest).unwrap_or(0);
        floors.drain(..first);
    }

    pub(crate) fn on_message(&mut self, step: &mut Step<'_>, from: SiteId, body: Body) {
        if !self.filling.is_filled() && !matches!(body, Body::State { .. }) {
            return;
        }
        match body {
            Body::Report { version, seen, ended, used } => {
                if used {
                    self.note_use_elsewhere(step);
                }
                if let Some(heard) = self.heard.get_mut(from.index()) {
                    heard.ended = heard.ended.max(ended);
                }
                self.on_report(step, from, version, &seen);
            }
            Body::Ask { key, need } => self.on_need(step, from, &key, need),
            Body::StateRequest { transfer, place } => {
                self.on_state_request(step, from, transfer, place);
            }
            Body::State { transfer, place, of, part } => {
                self.on_state(step, from, (transfer, place, of), part);
            }
            Body::Want { key, to, amount, has, waits, received } => {
                self.on_want(step, (&key, to), (amount, has, waits), received);
            }
            Body::CountRequest { key, nonce } => self.on_count_request(step, from, (&key, nonce)),
            Body::Counted { key, nonce, counted, seen, stages } => {
                self.on_counted(step, from, (&key, nonce, counted), (&seen, &stages));
            }
            Body::ExpiryRequest { key, nonce } => self.on_expiry_request(step, from, (key, nonce)),
            Body::Expiry { key, nonce, expiry } => {
                self.on_expiry(step, from, (&key, nonce, expiry))
            }
            Body::OfferRequest => self.on_offer_request(step, from),
            Body::Offer { term, renewals, seen } => {
                self.on_offer(step, from, Pin { seen, term, renewals });
            }
        }
    }

    fn on_report(
        &mut self,
        step: &mut Step<'_>,
        from: SiteId,
        version: Version,
        seen: &[Position],
    ) {
        let Some(heard) = self.heard.get_mut(from.index()) else { return };
        // Reports state facts that stay true, so that the greatest of each kind counts.
        let is_news = heard.version < version
            || heard.seen.iter().zip(seen).any(|(heard, seen)| heard < seen);
        heard.version = heard.version.max(version);
        for (heard, seen) in heard.seen.iter_mut().zip(seen) {
            *heard = (*heard).max(*seen);
        }
        let confirmed: Vec<Version> = self.others().map(|site| self.version_of(site)).collect();
        let oldest = confirmed.into_iter().min().unwrap_or(self.agreed.version);
        self.sponsored.retain(|sponsored| sponsored.version > oldest);
        self.serve_all(step);
        if is_news && !self.waiting.is_empty() {
            self.soon.extend(self.waiting.iter().cloned());
            step.wake_at(step.now, self.id);
        }
    }

    pub(super) fn version_of(&self, site: SiteId) -> Version {
        let Heard { version, .. } = self.heard[site.index()];
        version
    }

    /// Handles what another site needs of a key.
    fn on_need(&mut self, step: &mut Step<'_>, from: SiteId, key: &Key, need: Need) {
        self.note_use_elsewhere(step);
        if matches!(need, Need::Reports | Need::Room) && step.config.policy(key).is_some() {
            // What it waits for may arrive here later. It asks again before this time.
            let until = step.now.after(2 * step.config.timing.retry);
            self.counter(key).eager.insert(from, until);
        }
        match need {
            Need::Reports => {}
            Need::Narrow => self.end_for_reader(step, key),
            Need::Room => self.end_for_holder(step, key),
        }
        self.report_soon(step, from);
    }
}
