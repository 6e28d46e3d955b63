//! Decides when to retry a group that has made no progress.

use super::rescue::Rescue;
use super::{Ask, Coordinator, Stage};
use crate::location::Location;
use crate::outcome::Why;
use crate::record::State;
use crate::witness::TransactionId;

impl Coordinator {
    pub(super) fn come_further(&mut self) {
        (self.failures, self.polls) = (0, 0);
        self.trouble = None;
        self.blocked_ms = None;
    }

    /// Discards the reads and restarts after a pause.
    pub(super) fn start_over(&mut self, why: Why) -> Option<Ask> {
        let worklist = std::mem::take(&mut self.state.worklist);
        self.state = State { worklist, ..State::default() };
        self.reads.clear();
        self.visibility.suspicious = false;
        // Reading again resets the count of failures, so restarts are counted separately.
        self.restarts += 1;
        if self.restarts >= self.job.limits.attempts { self.stop(why) } else { self.retry(why) }
    }

    /// Retries the group after a pause, until the limits of attempts or time are reached.
    pub(super) fn retry(&mut self, why: Why) -> Option<Ask> {
        self.failures += 1;
        let enough = match self.commit_status.since_ms() {
            Some(since) => self.now_ms.saturating_sub(since) >= self.job.limits.finish_ms,
            None => self.failures >= self.job.limits.attempts,
        };
        if enough {
            return self.stop(why);
        }
        self.trouble = Some(why);
        self.wait()
    }

    pub(super) fn wait(&mut self) -> Option<Ask> {
        let limits = &self.job.limits;
        let tried = self.failures.max(self.restarts).max(self.polls);
        let doubled = limits.backoff_first_ms << tried.saturating_sub(1).min(20);
        let most = doubled.min(limits.backoff_last_ms).max(1);
        // Transactions that conflicted must not conflict again.
        let ms = 1 + self.random.draw() % most;
        self.stage = Stage::Start;
        Some(Ask::Wait { ms })
    }

    pub(super) fn blocked(&mut self, missing: Vec<(Location, TransactionId)>) -> Option<Ask> {
        // A clock may be set back.
        let since_ms = *self.blocked_ms.get_or_insert(self.now_ms);
        let waited = self.now_ms.saturating_sub(since_ms);
        // This wait is limited by time and uses no attempts, so it does not reduce the retries of
        // later failures.
        self.polls += 1;
        let limits = &self.job.limits;
        let (place, id) = missing.into_iter().next().expect("something is missing");
        let finish = |since: u64| self.now_ms.saturating_sub(since) >= limits.finish_ms;
        if waited >= limits.blocked_ms || self.commit_status.since_ms().is_some_and(finish) {
            return self.stop(Why::Blocked { by: id, place });
        }
        // Most commit witnesses arrive within this time.
        if waited < limits.on_the_way_ms() {
            return self.wait();
        }
        self.stage = Stage::Rescue(Box::new(Rescue::new((place, id))));
        None
    }
}
