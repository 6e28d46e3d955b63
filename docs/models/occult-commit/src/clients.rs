//! What a client does: reads, validation, commit and outcomes.

use super::*;

impl Occult {
    /// Sends a message of a client, and repeats some.
    pub fn send(&self, state: &mut State, message: Message, shard: Shard) {
        let (tid, repeats) = match message {
            Prepare { tid, .. } | Execute { tid, .. } => {
                (tid, self.scenario.forgets && !self.scenario.deadlines)
            }
            Message::Abort(tid) | Commit(tid) | Resolve(tid) | Later(tid) => (tid, false),
            _ => unreachable!("a client does not send {message:?}"),
        };
        let link = &mut state.links[self.client(tid)][shard];
        link.extend(std::iter::repeat_n(message, if repeats { 2 } else { 1 }));
    }

    pub fn abort(&self, state: &mut State, tid: Tid) {
        for shard in self.participants(tid) {
            self.send(state, Message::Abort(tid), shard);
        }
        self.end(state, tid, Phase::Aborted);
    }

    /// Ends a transaction. An aborted one gives the session's timestamp back (Listing 3 l. 36),
    /// which means here that the session does not take the transaction's.
    pub fn end(&self, state: &mut State, tid: Tid, phase: Phase) {
        let keep = match phase {
            Phase::Committed => true,
            Phase::Unknown => self.has(Rule::KeepUnknown),
            _ => false,
        };
        if keep {
            let unknown = phase == Phase::Unknown && self.has_one_home(tid);
            let ts = state.transactions[tid].commit_ts.filter(|_| !unknown).unwrap_or_default();
            state.sessions[self.client(tid)] = merge(self.cli_ts(state, tid), ts);
        }
        if self.scenario.forgets && !self.scenario.deadlines && !self.writes(tid).is_empty() {
            self.send(state, Later(tid), self.decision_home(tid));
        }
        let transaction = &mut state.transactions[tid];
        transaction.phase = phase;
        // Remove what no step and no property needs any more, so that states are equal.
        if phase != Phase::Unknown {
            transaction.reads.iter_mut().for_each(|read| read.shardstamp = 0);
        }
        transaction.reads.sort();
        if phase == Phase::Aborted {
            transaction.reads.clear();
        }
    }

    pub fn read(&self, state: &mut State, tid: Tid, key: Key, replica: bool) {
        let shard = HOME_OF[key];
        let cli_ss = self.cli_ts(state, tid)[shard];
        if !replica && self.has(Rule::CheckHomes) {
            let home = &mut state.homes[shard];
            // A transaction that the client has seen may be undecided here. The read waits.
            if home.prepared().any(|(_, assigned)| assigned <= cli_ss) {
                return;
            }
            home.clock = home.clock.max(cli_ss);
            self.show(state, shard);
        }
        let home = &state.homes[shard];
        let (shardstamp, length) =
            if replica { home.log[0] } else { (self.shown_stamp(home), home.shown.len()) };
        if replica && shardstamp < cli_ss {
            return; // Stale (§4.3): the client retries, or reads at the home.
        }
        let version = self.shown_version(&home.shown[..length], key);
        state.transactions[tid].reads.push(Read { key, version, shardstamp });
        // A read-only transaction commits without a message.
        let all = self.scenario.transactions[tid].reads.len();
        if self.writes(tid).is_empty() && state.transactions[tid].reads.len() == all {
            let phase =
                if self.read_set_valid(state, tid) { Phase::Committed } else { Phase::Aborted };
            self.end(state, tid, phase);
        }
    }

    /// Validates the read set pairwise (§6.2).
    fn read_set_valid(&self, state: &State, tid: Tid) -> bool {
        let reads = state.transactions[tid].reads.iter();
        let ts = reads.map(|read| self.timestamp(state, read.version));
        !self.has(Rule::ValidateReadSet)
            || self.covers(state, tid, ts.fold(Timestamp::default(), merge))
    }

    pub fn validate(&self, state: &mut State, tid: Tid) {
        let cli_ts = self.cli_ts(state, tid);
        if !self.read_set_valid(state, tid) {
            self.end(state, tid, Phase::Aborted);
        } else if self.has_one_home(tid) {
            state.transactions[tid].phase = Phase::Committing;
            self.send(state, Execute { tid, cli_ts }, self.decision_home(tid));
        } else {
            state.transactions[tid].phase = Phase::Preparing;
            for shard in self.participants(tid) {
                let max_ss = self.at_site(cli_ts, shard);
                self.send(state, Prepare { tid, max_ss }, shard);
            }
        }
    }

    /// Answers of participants that the client has received.
    pub fn answers(&self, state: &State, tid: Tid) -> Answers {
        let answers = state.network.iter().filter_map(|message| match *message {
            Prepared { tid: t, shard, answer } if t == tid => Some((shard, answer)),
            _ => None,
        });
        // The first answer of each.
        answers.rev().collect()
    }

    /// Makes the commit timestamp from PREPARED of all homes; `None` if the read set is not as
    /// recent as the overwrite set.
    pub fn commit_timestamp(
        &self,
        state: &State,
        tid: Tid,
        cli_ts: Timestamp,
        answers: Answers,
    ) -> Option<Timestamp> {
        let overwrite_set = answers.values().map(|a| a.1).fold(Timestamp::default(), merge);
        if self.has(Rule::ValidateOverwriteSet) && !self.covers(state, tid, overwrite_set) {
            return None;
        }
        let mut depends = cli_ts;
        if self.has(Rule::OverwrittenTimestamps) {
            depends = merge(depends, overwrite_set);
        }
        let mut assigned = Timestamp::default();
        answers.iter().for_each(|(shard, answer)| assigned[*shard] = answer.0);
        // One stamp at all homes of a site: at least each home's own, and each on which the
        // transaction depends.
        let floor = if self.has(Rule::AboveDependencies) { depends } else { Timestamp::default() };
        let mut ts = depends;
        for shard in self.participants(tid) {
            ts[shard] = self.at_site(merge(assigned, floor), shard);
        }
        Some(ts)
    }

    /// Sends COMMIT, or gives up.
    pub fn decide(&self, state: &mut State, tid: Tid) {
        let cli_ts = self.cli_ts(state, tid);
        if let Some(ts) = self.commit_timestamp(state, tid, cli_ts, self.answers(state, tid)) {
            state.transactions[tid].commit_ts = Some(ts);
            state.transactions[tid].phase = Phase::Committing;
            let all = self.participants(tid).into_iter();
            let decides =
                |s: &Shard| *s == self.decision_home(tid) || !self.has(Rule::CommitRecord);
            all.filter(decides).for_each(|shard| self.send(state, Commit(tid), shard));
        } else {
            self.abort(state, tid);
        }
    }
}
