//! Detection of failed sites (§5.5: "provided by a separate module").

use std::time::Duration;

use solera_time::{Monotonic, SiteId};

/// Suspects sites that have sent nothing for too long. Every site sends heartbeats to every replica
/// all the time, so silence means that a site has failed or is unreachable. A wrong suspicion costs
/// duplicate messages, and can make an attach fail that would still have succeeded.
#[derive(Debug)]
pub(crate) struct FailureDetector {
    me: SiteId,
    suspect_after: Duration,
    /// Time of the last message of each site; `None` before the first tick.
    last_heard: Vec<Option<Monotonic>>,
    /// Time since which this replica suspects each site.
    suspected_since: Vec<Option<Monotonic>>,
    /// Sites that each site suspects, as last reported.
    suspects_of: Vec<Vec<SiteId>>,
}

impl FailureDetector {
    pub(crate) fn new(me: SiteId, sites: usize, suspect_after: Duration) -> Self {
        FailureDetector {
            me,
            suspect_after,
            last_heard: vec![None; sites],
            suspected_since: vec![None; sites],
            suspects_of: vec![Vec::new(); sites],
        }
    }

    /// Notes a message of `site`.
    pub(crate) fn heard(&mut self, site: SiteId, now: Monotonic) {
        self.last_heard[site.index()] = Some(now);
        self.suspected_since[site.index()] = None;
    }

    /// Notes the sites that `site` suspects.
    pub(crate) fn heard_suspicions(&mut self, site: SiteId, suspects: Vec<SiteId>) {
        self.suspects_of[site.index()] = suspects;
    }

    /// Updates the suspicions.
    pub(crate) fn on_tick(&mut self, now: Monotonic) {
        for site in SiteId::all(self.last_heard.len()).filter(|site| *site != self.me) {
            let heard = *self.last_heard[site.index()].get_or_insert(now);
            if now.since(heard) >= self.suspect_after {
                self.suspected_since[site.index()].get_or_insert(now);
            }
        }
    }

    /// Clears all suspicions after this replica was itself paused, because it could not receive
    /// messages.
    pub(crate) fn clear_suspicions(&mut self, now: Monotonic) {
        self.last_heard.fill(Some(now));
        self.suspected_since.fill(None);
    }

    /// Returns whether `site` is suspected here.
    pub(crate) fn suspects(&self, site: SiteId) -> bool {
        self.suspected_since[site.index()].is_some()
    }

    /// Returns how long `site` has been suspected here.
    pub(crate) fn suspected_for(&self, site: SiteId, now: Monotonic) -> Option<Duration> {
        self.suspected_since[site.index()].map(|since| now.since(since))
    }

    /// Returns the sites that are suspected here.
    pub(crate) fn suspected(&self) -> Vec<SiteId> {
        SiteId::all(self.last_heard.len()).filter(|site| self.suspects(*site)).collect()
    }

    /// Returns whether `dest` may lack transactions of `origin` that it will not get from `origin`
    /// itself, because `origin` is suspected here or at `dest`.
    pub(crate) fn should_forward(&self, dest: SiteId, origin: SiteId) -> bool {
        !self.suspects(dest)
            && (self.suspects(origin) || self.suspects_of[dest.index()].contains(&origin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn silence_raises_suspicion_and_a_message_ends_it() {
        let mut detector = FailureDetector::new(SiteId(0), 3, Duration::from_millis(100));
        detector.on_tick(Monotonic(0));
        detector.heard(SiteId(1), Monotonic(60 * MS));
        detector.on_tick(Monotonic(120 * MS));
        assert_eq!(detector.suspected(), [SiteId(2)]);
        detector.heard(SiteId(2), Monotonic(130 * MS));
        detector.on_tick(Monotonic(140 * MS));
        assert_eq!(detector.suspected(), []);
    }

    #[test]
    fn forwarding_follows_own_and_reported_suspicions() {
        let mut detector = FailureDetector::new(SiteId(0), 3, Duration::from_millis(100));
        detector.heard(SiteId(1), Monotonic(0));
        detector.heard(SiteId(2), Monotonic(0));
        assert!(!detector.should_forward(SiteId(1), SiteId(2)));
        detector.heard_suspicions(SiteId(1), vec![SiteId(2)]);
        assert!(detector.should_forward(SiteId(1), SiteId(2)));
        assert!(!detector.should_forward(SiteId(2), SiteId(1)));
        detector.heard(SiteId(1), Monotonic(99 * MS));
        detector.on_tick(Monotonic(100 * MS));
        assert!(detector.should_forward(SiteId(1), SiteId(2)), "now suspected here too");
        assert!(!detector.should_forward(SiteId(2), SiteId(1)), "not to a suspect");
    }
}
