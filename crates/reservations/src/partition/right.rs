//! The right to answer: renewals, exclusion, admission; reports.

use std::collections::BTreeMap;

use solera_time::{Monotonic, SiteId};

use super::Partition;
use crate::agreed::{Change, Key};
use crate::command::Question;
use crate::config::Rule;
use crate::message::{Body, Need};
use crate::numbers::{Nonce, Position, Term, Version};
use crate::outbox::{Step, Subject};
use crate::rare;
use crate::record::{Pin, Record};

/// A lease of the site's right, by its own clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub(crate) term: Term,
    pub(crate) until: Monotonic,
}

/// State of a site that depends on time. A restart forgets it.
#[derive(Debug)]
pub(crate) struct Right {
    pub(crate) lease: Option<Lease>,
    /// When this process has sent its renewals and admissions.
    sent: BTreeMap<Nonce, Monotonic>,
    /// Sites that leave or have left, with their generations.
    leaving: BTreeMap<SiteId, u32>,
    /// Prefixes that remain of the streams of sites that leave, as far as the members have agreed.
    removing: BTreeMap<SiteId, Position>,
    /// Whether an answer to a question about the site's right, or about an exclusion, is awaited.
    asking: bool,
    excluding: bool,
    next_renewal: Option<Monotonic>,
    /// Since when the site lacks what its sponsor had, without interruption.
    behind: Option<Monotonic>,
    /// When the site has last learned of a renewal of each site.
    renewed: Vec<Option<Monotonic>>,
    /// Number of offers that the site has requested.
    requests: usize,
    next_request: Option<Monotonic>,
    /// The copy must reach this version before the next question.
    wait_for: Version,
}

impl Right {
    pub(crate) fn new(sites: usize) -> Right {
        Right {
            lease: None,
            sent: BTreeMap::new(),
            leaving: BTreeMap::new(),
            removing: BTreeMap::new(),
            asking: false,
            excluding: false,
            next_renewal: None,
            behind: None,
            renewed: vec![None; sites],
            requests: 0,
            next_request: None,
            wait_for: Version(0),
        }
    }

    pub(crate) fn answered(&mut self, subject: &Subject, version: Option<Version>) {
        match subject {
            Subject::Right => self.asking = false,
            _ => self.excluding = false,
        }
        self.wait_for = self.wait_for.max(version.unwrap_or_default());
    }

    pub(super) fn is_excluding(&self) -> bool {
        self.excluding
    }

    pub(super) fn begin_exclusion(&mut self) {
        self.excluding = true;
    }

    /// Returns whether the removal of some site is not in the record yet.
    pub(super) fn removes(&self) -> bool {
        !self.removing.is_empty()
    }

    pub(super) fn is_removing(&self, site: SiteId) -> bool {
        self.removing.contains_key(&site)
    }

    /// Returns whether the lease of a reader has certainly ended: no renewal was seen for a time
    /// that is longer than a lease by any clock.
    pub(super) fn is_silent(&mut self, step: &Step<'_>, site: SiteId) -> bool {
        let Some(renewed) = self.renewed.get_mut(site.index()) else { return false };
        let silence = match step.config.has(Rule::WaitForLease) {
            true => step.config.timing.exclusion,
            false => step.config.timing.right / 2,
        };
        step.now.since(*renewed.get_or_insert(step.now)) >= silence
    }

    /// Counts the silence of all sites from now on.
    pub(super) fn restart_silence(&mut self, now: Monotonic) {
        self.renewed.fill(Some(now));
    }
}

fn is_due(at: Option<Monotonic>, now: Monotonic) -> bool {
    at.is_none_or(|at| at <= now)
}

impl Partition {
    /// Records when the site learns of renewals, and begins its own leases.
    pub(super) fn note_right(&mut self, step: &Step<'_>, change: &Change) {
        let (site, term, nonce) = match change {
            Change::Renew { site, term, nonce } | Change::Admit { site, term, nonce, .. } => {
                (*site, *term, *nonce)
            }
            _ => return,
        };
        if let Some(renewed) = self.right.renewed.get_mut(site.index()) {
            *renewed = Some(step.now);
        }
        if site != self.me {
            return;
        }
        // A renewal of an earlier process was sent at an unknown time.
        let sent = self.right.sent.remove(&nonce);
        let from = if step.config.has(Rule::LeaseFromSending) { sent } else { Some(step.now) };
        let Some(from) = from else { return };
        let until = from.after(step.config.timing.right);
        let longer = self.right.lease.is_none_or(|lease| lease.term < term || lease.until < until);
        if longer {
            self.right.lease = Some(Lease { term, until });
        }
    }

    /// Gives a restarted reader a new lease. Used without `LeaseIsVolatile` alone.
    pub(crate) fn count_lease_anew(&mut self, step: &Step<'_>) {
        let until = step.now.after(step.config.timing.right);
        let term = self.agreed.reader(self.me).map(|reader| reader.term);
        self.right.lease = term.map(|term| Lease { term, until });
    }

    /// Does what is due about rights and reports.
    pub(super) fn look_after_right(&mut self, step: &mut Step<'_>) {
        if !self.note_activity(step) {
            return;
        }
        if self.agreed.version >= self.right.wait_for {
            if self.agreed.reader(self.me).is_some() {
                self.renew(step);
            } else {
                self.request_offer(step);
            }
            self.exclude(step);
            self.remove_agreed(step);
            self.close_or_found(step);
        }
        if is_due(self.next_report, step.now) {
            self.next_report = Some(step.now.after(step.config.timing.report));
            for site in self.others().collect::<Vec<_>>() {
                self.report(step, site);
            }
        }
    }

    /// Renews the site's right. A site that lacks what its sponsor had for a long time does not
    /// renew: perhaps only a failed site has it. A ready reader then excludes the site, and may
    /// sponsor it.
    fn renew(&mut self, step: &mut Step<'_>) {
        let Some(reader) = self.agreed.reader(self.me) else { return };
        match self.ready(step.config) {
            Ok(_) => self.right.behind = None,
            Err(_) => {
                let since = *self.right.behind.get_or_insert(step.now);
                if step.now.since(since) >= step.config.timing.exclusion {
                    return;
                }
            }
        }
        if self.right.asking || !is_due(self.right.next_renewal, step.now) {
            return;
        }
        let term = reader.term;
        self.right.next_renewal = Some(step.now.after(step.config.timing.right / 3));
        let nonce = step.nonce();
        self.ask_for_right(step, nonce, Change::Renew { site: self.me, term, nonce });
    }

    fn ask_for_right(&mut self, step: &mut Step<'_>, nonce: Nonce, change: Change) {
        self.right.sent.insert(nonce, step.now);
        // Only recent ones can begin a lease.
        while self.right.sent.len() > 8 {
            self.right.sent.pop_first();
        }
        self.right.asking = true;
        self.change(step, Subject::Right, change);
    }

    pub(super) fn change(&mut self, step: &mut Step<'_>, subject: Subject, change: Change) {
        let (partition, read) = (self.id, self.agreed.version);
        step.ask(partition, subject, Question::Change { partition, read, change });
    }

    /// Excludes a reader whose lease has certainly ended (S3).
    fn exclude(&mut self, step: &mut Step<'_>) {
        if self.right.excluding || !step.config.has(Rule::Exclude) {
            return;
        }
        let ready = self.is_ready(step.config);
        for site in self.others().collect::<Vec<_>>() {
            let Some(reader) = self.agreed.reader(site) else { continue };
            let term = reader.term;
            if self.right.is_silent(step, site) && ready {
                self.right.excluding = true;
                return self.change(step, Subject::Exclusion, Change::Exclude { site, term });
            }
        }
    }

    /// Takes note of the sites that leave or have left, and their generations.
    pub(crate) fn set_leaving(&mut self, leaving: &[(SiteId, u32)]) {
        self.right.leaving = leaving.iter().copied().collect();
    }

    /// Takes note of what the members have agreed to remain of a site's stream. A site that does
    /// not leave is not removed.
    pub(crate) fn remove(&mut self, site: SiteId, upto: Position) {
        self.right.removing.insert(site, upto);
    }

    /// Removes a site as a holder when it is no reader any more (S6).
    fn remove_agreed(&mut self, step: &mut Step<'_>) {
        let (agreed, leaving) = (&self.agreed, &self.right.leaving);
        self.right.removing.retain(|site, _| {
            leaving.get(site).is_some_and(|generation| !agreed.is_removed(*site, *generation))
        });
        if self.right.excluding {
            return;
        }
        let mut removing = self.right.removing.iter();
        let has_no_right = |site: SiteId| {
            self.agreed.reader(site).is_none() || !step.config.has(Rule::RemoveAfterExclusion)
        };
        let Some((site, upto)) = removing.find(|(site, _)| has_no_right(**site)) else { return };
        let (site, upto) = (*site, *upto);
        let Some(generation) = self.right.leaving.get(&site).copied() else { return };
        self.right.excluding = true;
        self.change(step, Subject::Exclusion, Change::Remove { site, generation, upto });
    }

    // Admission.

    /// Asks a reader for an offer, each time another one (S4).
    fn request_offer(&mut self, step: &mut Step<'_>) {
        self.right.behind = None;
        if self.right.asking || !is_due(self.right.next_request, step.now) {
            return;
        }
        self.right.next_request = Some(step.now.after(step.config.timing.retry));
        if let Some(removal) = self.agreed.removed.get(&self.me)
            && removal.returned.is_none()
        {
            // An earlier generation was removed, or this one.
            let (site, generation) = (self.me, step.config.generation);
            if generation > removal.generation {
                self.right.asking = true;
                self.change(step, Subject::Right, Change::Return { site, generation });
            }
            return;
        }
        let readers: Vec<SiteId> = self.agreed.reader_sites().collect();
        self.right.requests += 1;
        if let Some(reader) = readers.get(self.right.requests % readers.len().max(1)) {
            step.send(self.id, *reader, Body::OfferRequest);
        }
    }

    /// Offers what the site has seen, and reports no more until the offer ends (S4, R5).
    pub(super) fn on_offer_request(&mut self, step: &mut Step<'_>, from: SiteId) {
        self.note_use_elsewhere(step);
        // A renewal on its way would end the offer before the site could use it.
        if self.right.asking || self.agreed.version < self.right.wait_for {
            return;
        }
        let Ok(reader) = self.ready(step.config) else { return };
        let (term, renewals) = (reader.term, reader.renewals);
        if self.pin.is_none() {
            let pin = Pin { seen: self.known.clone(), term, renewals };
            if step.config.has(Rule::DurablePins) {
                step.record(&Record::Pinned { partition: self.id, pin: pin.clone() });
            }
            self.pin = Some(pin);
            // The next renewal ends the offer. It can wait so long without a risk for the lease.
            let renewal = step.now.after(step.config.timing.right / 4);
            self.right.next_renewal = self.right.next_renewal.max(Some(renewal));
        }
        let Some(pin) = self.pin.clone() else { return };
        let Pin { seen, term, renewals } = pin;
        step.send(self.id, from, Body::Offer { term, renewals, seen });
    }

    pub(super) fn on_offer(&mut self, step: &mut Step<'_>, from: SiteId, pin: Pin) {
        let Some(sponsor) = self.agreed.reader(from) else { return };
        let is_current = sponsor.term == pin.term && sponsor.renewals == pin.renewals;
        let removed = self.agreed.remains(self.me).is_some();
        let mine = self.agreed.reader(self.me).is_some() || self.right.asking || removed;
        if !is_current || mine || self.agreed.version < self.right.wait_for {
            return;
        }
        let last = self.agreed.terms.get(self.me.index()).copied().unwrap_or_default();
        let nonce = step.nonce();
        let change = Change::Admit {
            site: self.me,
            term: Term(last.0.saturating_add(1)),
            since: pin.seen,
            sponsor: from,
            nonce,
        };
        self.ask_for_right(step, nonce, change);
    }

    pub(crate) fn right_answered(&mut self, subject: &Subject, version: Option<Version>) {
        self.right.answered(subject, version);
    }

    // Reports.

    /// Reports to a site.
    pub(super) fn report(&mut self, step: &mut Step<'_>, to: SiteId) {
        let (seen, capped) = self.report_to(step.config, to);
        if capped {
            step.rare(rare::CAPPED);
        }
        let version = self.agreed.version;
        let ended = self.ended();
        let used = self.is_used(step);
        self.report_at.remove(&to);
        self.reported_at.insert(to, step.now);
        step.send(self.id, to, Body::Report { version, seen, ended, used });
    }

    /// Reports to a site without waiting for the timer, but not too often.
    pub(super) fn report_soon(&mut self, step: &mut Step<'_>, to: SiteId) {
        let last = self.reported_at.get(&to);
        let at = last.map_or(step.now, |last| last.after(step.config.timing.spacing));
        let at = *self.report_at.entry(to).or_insert(at);
        step.wake_at(at, self.id);
    }

    /// Sends the reports that are due to sites that wait for them.
    pub(super) fn send_due_reports(&mut self, step: &mut Step<'_>) {
        if !self.filling.is_filled() {
            return self.report_at.clear();
        }
        let due = self.report_at.iter().filter(|(_, at)| **at <= step.now);
        for to in due.map(|(to, _)| *to).collect::<Vec<_>>() {
            self.report(step, to);
        }
        if let Some(at) = self.report_at.values().min() {
            step.wake_at(*at, self.id);
        }
    }

    /// Sends all others what this site needs, but not too often.
    pub(super) fn need(&mut self, step: &mut Step<'_>, key: &Key, need: Need) {
        let counter = self.counter(key);
        if !is_due(counter.next_needs.get(&need).copied(), step.now) {
            return;
        }
        counter.next_needs.insert(need, step.now.after(step.config.timing.retry));
        for site in self.others().collect::<Vec<_>>() {
            step.send(self.id, site, Body::Ask { key: key.clone(), need });
        }
    }
}
