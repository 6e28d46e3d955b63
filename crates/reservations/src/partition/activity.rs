//! Whether a partition is in use. A partition that nobody uses costs nothing: its readers do not
//! renew their rights, and its sites do not report.
//!
//! A site uses a partition while clients request something of it, and while the site has tokens to
//! give back. It says so in its reports, and the other sites then renew and report as well. Safety
//! does not depend on this: a reader that does not renew has no lease.

use std::time::Duration;

use solera_time::Monotonic;

use super::Partition;
use crate::config::Config;
use crate::outbox::Step;

#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// When a client of this site last used the partition.
    used: Option<Monotonic>,
    /// When another site last reported that it uses the partition, or needed something.
    elsewhere: Option<Monotonic>,
    /// Whether the partition was active at the last tick.
    active: bool,
}

impl Partition {
    /// Notes a request of a client.
    pub(super) fn note_use(&mut self, step: &mut Step<'_>, key: &[u8]) {
        self.note_spending(step, key);
        self.wake(step);
    }

    /// Notes an update that uses tokens of the site. They keep the timer awake. Rights need neither
    /// readers nor reports.
    pub(super) fn note_spending(&mut self, step: &Step<'_>, key: &[u8]) {
        if !step.config.has_rights(key) {
            self.activity.used = Some(step.now);
        }
    }

    /// Notes that another site uses the partition.
    pub(super) fn note_use_elsewhere(&mut self, step: &mut Step<'_>) {
        self.activity.elsewhere = Some(step.now);
        self.wake(step);
    }

    fn wake(&self, step: &mut Step<'_>) {
        step.out.woken |= !self.activity.active;
    }

    /// Returns whether the site needs its right, or reports of others.
    pub(super) fn is_used(&self, step: &Step<'_>) -> bool {
        // Rights need neither readers nor reports.
        let waits = !self.due.is_empty() || !self.waiting.is_empty();
        is_recent(self.activity.used, step, step.config.timing.keep)
            || waits && step.config.has_error_bounds()
            || self.agreed.closed.is_some()
            || self.right.removes()
            || self.must_return(step.config)
    }

    /// Returns whether the site has joined again, and the record does not say so yet. Other sites
    /// ignore its stream until then.
    fn must_return(&self, config: &Config) -> bool {
        let removal = self.agreed.removed.get(&self.me);
        removal.is_some_and(|it| it.returned.is_none() && config.generation > it.generation)
    }

    /// Returns whether some site uses the partition. When that begins, the silence of readers
    /// counts from now on: before, they had no reason to renew.
    pub(super) fn note_activity(&mut self, step: &mut Step<'_>) -> bool {
        let elsewhere = is_recent(self.activity.elsewhere, step, step.config.timing.right);
        let active = elsewhere || self.is_used(step);
        if active && !self.activity.active {
            self.right.restart_silence(step.now);
            self.next_report = Some(step.now);
        }
        self.activity.active = active;
        active
    }

    /// Returns whether the timer has something to do at its next tick.
    pub(crate) fn is_awake(&self) -> bool {
        self.activity.active || !self.due.is_empty() || !self.filling.is_filled()
    }
}

fn is_recent(at: Option<Monotonic>, step: &Step<'_>, span: Duration) -> bool {
    at.is_some_and(|at| step.now.since(at) < span)
}
