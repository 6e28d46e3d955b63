//! What must hold in every state.

use super::{Decision, HOME_OF, Occult, Phase, Record, SHARDS, Shard, State, Tid, max_ss};

impl Occult {
    /// Whether a transaction is a node of the direct serialization graph (§6.1).
    pub fn committed(&self, state: &State, tid: Tid) -> bool {
        state.transactions[tid].phase == Phase::Committed && self.writes(tid).is_empty()
            || state.homes.iter().any(|home| home.committed.contains(&tid))
    }

    /// Whether no anomaly of PC-PSI occurs (§6.1): no aborted read, no cycle of ww, wr and sd
    /// edges, and none with one rw edge. No transaction writes a key twice, so that there are no
    /// intermediate reads.
    pub fn is_pc_psi(&self, state: &State) -> bool {
        let tids = 0..state.transactions.len();
        let all: Vec<Tid> = tids.filter(|tid| self.committed(state, *tid)).collect();
        let stamp = |version: Option<Tid>| version.map(|tid| self.commit_stamp(state, tid));
        let mut reach = vec![0_u8; state.transactions.len()];
        let mut anti = Vec::new();
        for &i in &all {
            for read in &state.transactions[i].reads {
                match read.version {
                    Some(writer) if !self.committed(state, writer) => return false,
                    Some(writer) => reach[writer] |= 1 << i,
                    None => {}
                }
                let newer = all.iter().filter(|j| {
                    self.writes_of(**j, read.key) && stamp(Some(**j)) > stamp(read.version)
                });
                anti.extend(newer.filter(|j| **j != i).map(|j| (i, *j)));
            }
            for &j in &all {
                let [a, b] = [i, j].map(|tid| &self.scenario.transactions[tid]);
                let overwrites = a.writes.iter().any(|key| b.writes.contains(key))
                    && stamp(Some(i)) < stamp(Some(j));
                if overwrites || (a.client == b.client && i < j) {
                    reach[i] |= 1 << j;
                }
            }
        }
        for k in all.iter() {
            for i in all.iter() {
                if reach[*i] & (1 << k) != 0 {
                    reach[*i] |= reach[*k];
                }
            }
        }
        all.iter().all(|i| reach[*i] & (1 << i) == 0)
            && anti.iter().all(|(from, to)| reach[*to] & (1 << from) == 0)
    }

    /// Whether nothing below a shown stamp can appear, and shown stamps grow.
    pub fn shows_in_order(&self, state: &State) -> bool {
        state.homes.iter().all(|home| {
            home.log.windows(2).all(|pair| pair[0].0 < pair[1].0)
                && home.prepared().all(|(_, bound)| bound > home.shown())
        })
    }

    /// Whether no other stamp of a commit timestamp exceeds the commit stamp.
    pub fn stamps_dominate(&self, state: &State) -> bool {
        (0..state.transactions.len()).all(|tid| {
            let ts = self.timestamp(state, Some(tid));
            self.writes(tid).is_empty() || max_ss(ts) == self.commit_stamp(state, tid)
        })
    }

    /// Whether timeouts alone release every lock and show every committed write, if all clients
    /// are dead and all messages in transit are lost.
    pub fn locks_are_released(&self, state: &State) -> bool {
        let mut state = state.clone();
        for tid in 0..state.transactions.len() {
            let waiting = |state: &State, shard: Shard| {
                matches!(state.homes[shard].records[tid], Record::Prepared { .. })
            };
            for shard in 0..SHARDS {
                if waiting(&state, shard) {
                    state.network.clear();
                    self.resolve(&mut state, tid, self.decision_home(tid));
                    let commit = state.homes[self.decision_home(tid)].committed.contains(&tid);
                    let answers = commit || state.network.contains(&Decision { tid, commit });
                    if answers {
                        self.deliver(&mut state, Decision { tid, commit }, shard);
                    }
                }
            }
        }
        let open = |record: &Record| matches!(record, Record::Prepared { .. } | Record::Hidden);
        !state.homes.iter().any(|home| home.records.iter().any(open))
    }

    /// Whether no two undecided transactions write the same object.
    pub fn locks_exclude(&self, state: &State) -> bool {
        state.homes.iter().enumerate().all(|(shard, home)| {
            let shares = |a, b| {
                self.writes(a).iter().any(|key| HOME_OF[*key] == shard && self.writes_of(b, *key))
            };
            home.prepared().all(|(a, _)| home.prepared().all(|(b, _)| a == b || !shares(a, b)))
        })
    }

    /// Whether no home commits what another one aborts.
    pub fn is_atomic(&self, state: &State) -> bool {
        let aborted = |tid: &Tid| state.homes.iter().any(|home| home.aborted.contains(tid));
        !state.homes.iter().any(|home| home.committed.iter().any(aborted))
    }

    /// Whether homes and clients agree.
    pub fn clients_agree(&self, state: &State) -> bool {
        state.transactions.iter().enumerate().all(|(tid, transaction)| match transaction.phase {
            Phase::Committed => self.committed(state, tid),
            Phase::Aborted => !self.committed(state, tid),
            _ => true,
        })
    }
}
