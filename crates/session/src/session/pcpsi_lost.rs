//! Sessions that depend on writes that were lost with a home of keys of level `pcpsi`.

use solera_occult::{CausalTimestamp, Occult};

use super::occult::{OccultSession, lost_reply, of_other_spaces};

impl OccultSession {
    /// Checks that the session depends on nothing that was lost with a home. While a transaction is
    /// open, the session's past lacks the transaction's reads, so the past after the commit is
    /// checked against the same moves again.
    ///
    /// # Errors
    /// The error reply.
    pub(super) fn check_lost(&mut self, occult: &Occult, is_open: bool) -> Result<(), String> {
        if occult.has_lost(&self.past, self.epoch) {
            return Err(lost_reply());
        }
        // The past must be checked again against moves whose losses are unknown. An update whose
        // outcome is unknown may add a past that was valid before the last moves.
        if !is_open && self.pending.is_none() {
            self.epoch = occult.homes().decided_through().max(self.epoch);
        }
        Ok(())
    }

    /// Adds a token's past, which was checked against the first `epoch` moves.
    ///
    /// # Errors
    /// The error reply, if the past depends on lost writes, or belongs to another configuration.
    pub(super) fn join(
        &mut self,
        occult: &Occult,
        past: &CausalTimestamp,
        epoch: u64,
    ) -> Result<(), String> {
        self.check_lost(occult, false)?;
        if occult.has_lost(past, epoch) {
            return Err(lost_reply());
        }
        let is_new = self.past.is_empty() && self.pending.is_none();
        if !occult.join(&mut self.past, past) {
            return Err(of_other_spaces());
        }
        // A new session must not check the token against moves that the token has seen: the site
        // may be a home again, and its stamps after the loss are above those that are lost.
        let epoch = occult.homes().decided_through().max(epoch);
        self.epoch = if is_new { epoch } else { self.epoch.min(epoch) };
        Ok(())
    }

    /// Adds what another session of this server has seen. If it depends on lost writes, the next
    /// command fails.
    pub(super) fn absorb(&mut self, occult: &Occult, (past, epoch): &(CausalTimestamp, u64)) {
        if self.join(occult, past, *epoch).is_err() {
            occult.join(&mut self.past, past);
            self.epoch = self.epoch.min(*epoch);
        }
    }

    /// Adds what the session has seen to a past that sessions of this server share.
    pub(super) fn share(&self, occult: &Occult, (past, epoch): &mut (CausalTimestamp, u64)) {
        occult.join(past, &self.past);
        // If the session has seen the whole past, it has checked the whole past.
        *epoch = if *past == self.past { self.epoch } else { self.epoch.min(*epoch) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use solera_machine::{Address, Machine, Now, Topology};
    use solera_membership::Members;
    use solera_occult::{Body, Config, Input, Message, Move, Scheme, ShardId, Stamp, Table};
    use solera_time::{Monotonic, Physical, SiteId};

    use super::*;

    const LAST: Stamp = Stamp(100);

    fn at(site: u8) -> Address {
        Address { site: SiteId(site), worker: 0 }
    }

    /// Returns a worker of the site 2 that has learned that site 1 has taken shard 0 from site 0,
    /// whose writes up to `LAST` are not lost.
    fn worker() -> Occult {
        let shards = vec![(ShardId(0), ShardId(0))];
        let (from, to) = (Some(SiteId(0)), vec![SiteId(1)]);
        let moves = vec![Move { shards, from, to, forced: true }];
        let worker = worker_with(moves, vec![(ShardId(0), 1, LAST)]);
        assert_eq!(worker.homes().epoch(), 1);
        worker
    }

    /// Returns a worker of the site 2 that has learned of these moves, and of what was not lost.
    fn worker_with(moves: Vec<Move>, lasts: Vec<(ShardId, u64, Stamp)>) -> Occult {
        let topology = Arc::new(Topology { partitions: 1, workers: vec![1, 1, 1] });
        let mut worker = Occult::new(Config::new(at(2), topology, 3), &Members::new(3));
        let table = Table { founders: 3, moves, lasts };
        let message = Message { epoch: 1, body: Body::Table(Box::new(table)) };
        let now = Now { monotonic: Monotonic(1), physical: Physical(1) };
        worker.handle(now, Input::Message { from: at(1), generation: 0, message });
        worker
    }

    fn past(stamp: Stamp) -> CausalTimestamp {
        let mut past = CausalTimestamp::new(Scheme::PerSite(2));
        past.raise(ShardId(0), SiteId(0), stamp);
        past
    }

    /// A transaction has read a write that is lost, and commits after the worker has learned it.
    /// The transaction's later operations checked only the session's past, which lacks that read.
    #[test]
    fn a_session_learns_that_its_transaction_has_read_what_is_lost() {
        let (worker, mut session) = (worker(), OccultSession::with(Scheme::PerSite(2)));
        assert_eq!(session.check_lost(&worker, true), Ok(()));
        session.past = past(LAST.next());
        assert!(session.check_lost(&worker, false).is_err_and(|error| error.starts_with("LOST")));
    }

    #[test]
    fn a_session_that_depends_on_nothing_lost_is_checked_once_for_each_move() {
        let (worker, mut session) = (worker(), OccultSession::with(Scheme::PerSite(2)));
        session.past = past(LAST);
        assert_eq!(session.check_lost(&worker, false), Ok(()));
        assert_eq!(session.epoch, 1);
    }

    /// The token depends on a write of site 0 after the site has become a home again.
    #[test]
    fn a_new_session_takes_a_token_with_later_writes_of_a_site_that_had_failed() {
        let (worker, mut session) = (worker(), OccultSession::with(Scheme::PerSite(2)));
        let lost = session.join(&worker, &past(LAST.next()), 0);
        assert!(lost.is_err_and(|error| error.starts_with("LOST")));
        assert_eq!(session.join(&worker, &past(LAST.next()), 1), Ok(()));
        assert_eq!(session.check_lost(&worker, false), Ok(()));
        assert!(!session.past.is_empty());
    }

    /// A session of a module has read a write of site 0 after the site has become a home again.
    #[test]
    fn sessions_that_share_a_past_share_what_it_was_checked_against() {
        let (worker, mut caller) = (worker(), OccultSession::with(Scheme::PerSite(2)));
        let mut called = OccultSession::with(Scheme::PerSite(2));
        assert_eq!(called.check_lost(&worker, false), Ok(()));
        called.past = past(LAST.next());
        let mut shared = (caller.past.clone(), caller.epoch);
        called.share(&worker, &mut shared);
        assert_eq!(shared, (called.past.clone(), 1));
        caller.absorb(&worker, &shared);
        assert_eq!(caller.check_lost(&worker, false), Ok(()));
        // What is lost is reported to the caller's next command.
        let mut caller = OccultSession::with(Scheme::PerSite(2));
        caller.absorb(&worker, &(past(LAST.next()), 0));
        assert!(caller.check_lost(&worker, false).is_err_and(|error| error.starts_with("LOST")));
    }

    /// The update's commit arrives after a move by force that has lost it.
    #[test]
    fn a_past_that_arrives_late_is_checked_against_moves_since_the_update() {
        let (worker, mut session) = (worker(), OccultSession::with(Scheme::PerSite(2)));
        session.pending = Some(7);
        assert_eq!(session.check_lost(&worker, false), Ok(()));
        (session.past, session.pending) = (past(LAST.next()), None);
        assert!(session.check_lost(&worker, false).is_err_and(|error| error.starts_with("LOST")));
    }

    /// Site 0 is a home again after a move by force, and the losses of a later one are unknown.
    #[test]
    fn a_new_session_is_not_checked_against_moves_before_an_undecided_one() {
        let moves = [(0, 1), (1, 0), (0, 2)].map(|(from, to)| Move {
            shards: vec![(ShardId(0), ShardId(0))],
            from: Some(SiteId(from)),
            to: vec![SiteId(to)],
            forced: from == 0,
        });
        let worker =
            worker_with(moves.to_vec(), vec![(ShardId(0), 1, LAST), (ShardId(0), 2, LAST)]);
        assert_eq!((worker.homes().epoch(), worker.homes().decided_through()), (3, 2));
        let mut session = OccultSession::with(Scheme::PerSite(2));
        assert_eq!(session.check_lost(&worker, false), Ok(()));
        assert_eq!(session.epoch, 2);
        // It reads a write of site 0 between the moves.
        session.past = past(LAST.next());
        assert_eq!(session.check_lost(&worker, false), Ok(()));
    }
}
