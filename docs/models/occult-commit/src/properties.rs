//! What must hold in every state.

use super::{Decision, HOME_OF, Key, Occult, Phase, Record, SHARDS, SITE_OF, Shard, State, Tid};

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
        let stamp = |version: Option<Tid>, key: &Key| {
            version.map(|tid| self.commit_stamp(state, tid, HOME_OF[*key]))
        };
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
                    self.writes_of(**j, read.key)
                        && stamp(Some(**j), &read.key) > stamp(read.version, &read.key)
                });
                anti.extend(newer.filter(|j| **j != i).map(|j| (i, *j)));
            }
            for &j in &all {
                let [a, b] = [i, j].map(|tid| &self.scenario.transactions[tid]);
                // Versions of one object with one stamp overwrite each other.
                let overwrites = i != j
                    && a.writes.iter().any(|key| {
                        b.writes.contains(key) && stamp(Some(i), key) <= stamp(Some(j), key)
                    });
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

    /// Whether a shown stamp names one state: exactly the writes with stamps up to it are shown,
    /// and no later write can be at or below it.
    pub fn shows_in_order(&self, state: &State) -> bool {
        state.homes.iter().enumerate().all(|(shard, home)| {
            let reported = home.log[home.log.len() - 1].0;
            let stamp = |tid: &Tid| self.commit_stamp(state, *tid, shard);
            home.log.windows(2).all(|pair| pair[0].0 < pair[1].0)
                && home.log.iter().all(|(shown, length)| {
                    let (before, after) = home.shown.split_at(*length);
                    before.iter().all(|t| stamp(t) <= *shown)
                        && after.iter().all(|t| stamp(t) > *shown)
                })
                && home.prepared().all(|(_, assigned)| assigned > reported)
                && home.hidden().all(|tid| stamp(&tid) > reported)
        })
    }

    /// Whether no other stamp of a commit timestamp at a site exceeds the site's commit stamp.
    pub fn stamps_dominate(&self, state: &State) -> bool {
        (0..state.transactions.len()).all(|tid| {
            let ts = self.timestamp(state, Some(tid));
            self.participants(tid).into_iter().all(|shard| {
                (0..SHARDS).all(|s| SITE_OF[s] != SITE_OF[shard] || ts[s] <= ts[shard])
            })
        })
    }

    /// Whether clocks of a site's homes do not follow those of another site, which are 80 ahead in
    /// some scenarios. Without them, no clock advances by 40.
    pub fn sites_are_isolated(&self, state: &State) -> bool {
        (0..SHARDS).all(|shard| {
            let homes = (0..SHARDS).filter(|s| SITE_OF[*s] == SITE_OF[shard]);
            let start = homes.map(|s| self.scenario.start[s]).max();
            start.is_none_or(|start| state.homes[shard].clock < start + 40)
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
                    for message in std::mem::take(&mut state.network) {
                        if matches!(message, Decision { .. }) {
                            self.deliver(&mut state, message, shard);
                        }
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
