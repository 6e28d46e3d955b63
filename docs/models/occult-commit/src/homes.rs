//! What a home does when it receives a message, and when it shows writes.

use super::*;

impl Occult {
    /// Shown stamp of a home: nothing can appear at or below it any more, because stamps that are
    /// assigned later are above the clock.
    pub fn shown_stamp(&self, home: &Home) -> Stamp {
        let lowest = home.prepared().map(|(_, assigned)| assigned - 1).min();
        lowest.filter(|_| self.has(Rule::ShowInOrder)).unwrap_or(home.clock)
    }

    /// Returns the latest version of a key among shown transactions.
    pub fn shown_version(&self, shown: &[Tid], key: Key) -> Option<Tid> {
        shown.iter().rev().copied().find(|tid| self.writes_of(*tid, key))
    }

    /// Returns the latest committed version of a key, shown or not.
    fn latest_version(&self, state: &State, shard: Shard, key: Key) -> Option<Tid> {
        let home = &state.homes[shard];
        let hidden = home.hidden().filter(|tid| self.writes_of(*tid, key));
        let hidden = hidden.max_by_key(|tid| self.commit_stamp(state, *tid, shard));
        hidden
            .filter(|_| self.has(Rule::OverwriteHidden))
            .or_else(|| self.shown_version(&home.shown, key))
    }

    /// Records the outcome of a transaction, which releases its locks.
    pub fn end_at(&self, state: &mut State, shard: Shard, tid: Tid, commit: bool) {
        let stamp = self.commit_stamp(state, tid, shard);
        let home = &mut state.homes[shard];
        if commit {
            home.records[tid] = Record::Hidden;
            home.committed.insert(tid);
            if self.has(Rule::AboveCommitted) {
                home.clock = home.clock.max(stamp);
            }
        } else {
            let keeps = self.keeps_outcome(tid, shard);
            home.records[tid] = if keeps { Record::Aborted } else { Record::None };
            // A repeated PREPARE of a transaction that the home has committed is no abort.
            if !home.committed.contains(&tid) {
                home.aborted.insert(tid);
            }
        }
        self.show(state, shard);
    }

    /// Shows committed writes in the order of their stamps, as far as no undecided write can get a
    /// lower one (App. A, note below Listing 2). Writes with one stamp are one entry of the log.
    pub fn show(&self, state: &mut State, shard: Shard) {
        let stamp_of = |tid| self.commit_stamp(state, tid, shard);
        let mut hidden: Vec<Tid> = state.homes[shard].hidden().collect();
        hidden.sort_by_key(|tid| (stamp_of(*tid), *tid));
        let stamps: Vec<Stamp> = hidden.iter().map(|tid| stamp_of(*tid)).collect();
        let home = &mut state.homes[shard];
        let shown_stamp = self.shown_stamp(home);
        for (i, tid) in hidden.into_iter().enumerate() {
            if stamps[i] > shown_stamp {
                break;
            }
            let keeps = self.keeps_outcome(tid, shard);
            home.records[tid] = if keeps { Record::Shown } else { Record::None };
            home.shown.push(tid);
            if stamps.get(i + 1) != Some(&stamps[i]) || !self.has(Rule::EqualTogether) {
                home.log.push((stamps[i], home.shown.len()));
            }
        }
        // The last batch for the replica contains the shown stamp.
        if let Some(last) = home.log.last_mut() {
            last.0 = last.0.max(shown_stamp);
        }
    }

    /// Whether a home keeps a record of an outcome that it has applied. With FIFO links, the
    /// decision home suffices.
    fn keeps_outcome(&self, tid: Tid, shard: Shard) -> bool {
        shard == self.decision_home(tid) || self.scenario.deadlines
    }

    pub fn deliver(&self, state: &mut State, message: Message, shard: Shard) {
        let record = |tid: Tid| state.homes[shard].records[tid];
        let prepared = |tid: Tid| matches!(record(tid), Record::Prepared { .. });
        match message {
            Prepare { tid, max_ss } => {
                let answer = self.prepare(state, tid, shard, max_ss);
                state.network.extend(answer.map(|answer| Prepared { tid, shard, answer }));
            }
            Execute { tid, cli_ts } => self.execute(state, tid, shard, cli_ts),
            // A PREPARE may arrive later.
            Message::Abort(tid)
                if self.scenario.deadlines
                    && record(tid) == Record::None
                    && !state.homes[shard].ended.contains(&tid) =>
            {
                self.end_at(state, shard, tid, false);
            }
            Message::Abort(tid) if prepared(tid) => self.end_at(state, shard, tid, false),
            Commit(tid) if prepared(tid) => {
                self.end_at(state, shard, tid, true);
                state.network.extend([Decision { tid, commit: true }, Committed(tid)]);
            }
            // A late commit.
            Commit(tid) if record(tid) == Record::Aborted => {
                state.network.insert(Refused(tid));
            }
            Resolve(tid) => self.resolve(state, tid, shard),
            Decision { tid, commit } => self.learn(state, tid, shard, commit),
            Later(tid) => _ = state.homes[shard].ended.insert(tid),
            _ => {}
        }
    }

    /// Takes locks and assigns a stamp.
    fn prepare(&self, state: &mut State, tid: Tid, shard: Shard, max_ss: Stamp) -> Option<Answer> {
        let home = &state.homes[shard];
        let late = self.scenario.deadlines && home.ended.contains(&tid);
        if home.records[tid] != Record::None || late && self.has(Rule::RefuseLate) {
            return None;
        }
        let here = || self.writes(tid).iter().filter(|key| HOME_OF[**key] == shard);
        let locked = home.prepared().any(|(t, _)| here().any(|key| self.writes_of(t, *key)));
        // The answer LOCKED is left out: a client may give up at any time.
        if locked && self.has(Rule::Locks) {
            return None;
        }
        let versions = here().map(|key| self.latest_version(state, shard, *key));
        let overwritten =
            versions.map(|v| self.timestamp(state, v)).fold(Timestamp::default(), merge);
        let assigned = home.clock.max(max_ss) + 1;
        let home = &mut state.homes[shard];
        home.clock = assigned;
        home.records[tid] = Record::Prepared { assigned };
        self.show(state, shard);
        Some((assigned, overwritten))
    }

    /// Prepares, validates and decides a transaction of one home in one step.
    fn execute(&self, state: &mut State, tid: Tid, shard: Shard, cli_ts: Timestamp) {
        let max_ss = self.at_site(cli_ts, shard);
        if let Some(answer) = self.prepare(state, tid, shard, max_ss) {
            let ts = self.commit_timestamp(state, tid, cli_ts, [(shard, answer)].into());
            state.transactions[tid].commit_ts = ts;
            if state.transactions[tid].commit_ts.is_none() {
                self.end_at(state, shard, tid, false);
            }
        }
        self.deliver(state, Commit(tid), shard);
    }

    /// A home receives an outcome.
    fn learn(&self, state: &mut State, tid: Tid, shard: Shard, commit: bool) {
        let Record::Prepared { assigned } = state.homes[shard].records[tid] else { return };
        let stamp = self.commit_stamp(state, tid, shard);
        // Every stamp that was assigned before the commit is at most the commit stamp. So the home
        // has applied the commit, forgotten it, and received a repeated PREPARE.
        let repeated = commit && assigned > stamp && self.has(Rule::DropRepeated);
        self.end_at(state, shard, tid, commit && !repeated);
    }

    /// Decides about an expired prepare at the decision home, and answers.
    pub fn resolve(&self, state: &mut State, tid: Tid, shard: Shard) {
        let home = &state.homes[shard];
        match home.records[tid] {
            Record::Prepared { .. } if self.has(Rule::AbortRecord) => {
                self.end_at(state, shard, tid, false);
            }
            Record::None if !self.has(Rule::DecideUnprepared) => return,
            // A later message of the client has arrived, so that neither PREPARE nor COMMIT can, or
            // the deadline has passed. If the home had committed, it would have the record: a home
            // that asks has not applied the commit, or asks about a repeated PREPARE.
            Record::None if home.ended.contains(&tid) => {}
            Record::None if self.has(Rule::RecordUnknown) => {
                self.end_at(state, shard, tid, false);
            }
            _ => {}
        }
        let record = state.homes[shard].records[tid];
        let commit = matches!(record, Record::Hidden | Record::Shown);
        state.network.insert(Decision { tid, commit });
        if record == Record::Aborted {
            state.network.insert(Refused(tid));
        }
    }

    /// Whether a home may forget an outcome.
    pub fn may_forget(&self, state: &State, tid: Tid, shard: Shard) -> bool {
        let home = &state.homes[shard];
        let applied = |s: &Shard| state.homes[*s].committed.contains(&tid);
        let ended = home.ended.contains(&tid)
            || !self.has(Rule::ForgetAfterOldest)
            || !self.has(Rule::OldestInOrder) && self.has_ended(state, tid);
        ended
            && match home.records[tid] {
                Record::Aborted => true,
                Record::Shown => {
                    shard != self.decision_home(tid)
                        || !self.has(Rule::ForgetAfterApplied)
                        || self.participants(tid).iter().all(applied)
                }
                _ => false,
            }
    }
}
