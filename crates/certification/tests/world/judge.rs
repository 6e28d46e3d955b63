//! Checks of a world at its end, of its logs, its outcomes, and what is lost.

use std::collections::{BTreeMap, BTreeSet};

use solera_certification::{GroupId, Outcome, TransactionId};
use solera_time::Timestamp;

use super::{Delivered, Log, World};

impl World {
    /// Checks everything that was delivered, and all reported outcomes.
    pub(super) fn judge_history(&self) -> Result<(), String> {
        self.judge_logs()?;
        self.judge_outcomes()?;
        self.judge_conflicts()?;
        self.judge_dependencies()
    }

    /// Checks that all sites have the same log of each group.
    fn judge_logs(&self) -> Result<(), String> {
        for group in self.groups() {
            let logs: Vec<&Log> = (0..self.shape.sites)
                .filter_map(|site| self.hosts[&self.member(group, site)].as_ref())
                .map(|host| &host.logs[&group])
                .collect();
            for log in &logs {
                if !log.items.is_sorted_by(|a, b| a.ts < b.ts) {
                    return Err(format!("{group:?} is not in the order of strong timestamps"));
                }
                let tids: BTreeSet<_> = log.items.iter().map(|item| item.tid).collect();
                if tids.len() != log.items.len() {
                    return Err(format!("{group:?} has delivered a transaction twice"));
                }
                let upto = log.known.min(logs[0].known);
                let within = |log: &Log| -> Vec<Delivered> {
                    log.items.iter().filter(|item| item.ts <= upto).cloned().collect()
                };
                let (mine, first) = (within(log), within(logs[0]));
                if mine != first {
                    let differs = mine.iter().zip(&first).find(|(a, b)| a != b);
                    let (a, b) = (mine.len(), first.len());
                    return Err(format!("{group:?} differs, {a} and {b}: {differs:?}"));
                }
            }
        }
        Ok(())
    }

    fn delivered(&self) -> BTreeMap<TransactionId, BTreeMap<GroupId, Timestamp>> {
        let mut delivered: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for group in self.groups() {
            let mut sites = 0..self.shape.sites;
            let log = sites.find_map(|site| {
                let host = self.hosts[&self.member(group, site)].as_ref()?;
                Some(&host.logs[&group])
            });
            for item in log.iter().flat_map(|log| &log.items) {
                delivered.entry(item.tid).or_default().insert(group, item.ts);
            }
        }
        delivered
    }

    /// Checks that each transaction is delivered in all its groups with one timestamp or in none,
    /// as was reported.
    fn judge_outcomes(&self) -> Result<(), String> {
        let delivered = self.delivered();
        for (tid, groups) in &delivered {
            let times: BTreeSet<_> = groups.values().collect();
            let all = self.submitted[tid].keys().collect::<Vec<_>>();
            if times.len() != 1 || groups.keys().collect::<Vec<_>>() != all {
                return Err(format!("{tid:?} of {all:?} is delivered as {groups:?}"));
            }
        }
        for (tid, outcome) in &self.outcomes {
            let ts = delivered.get(tid).and_then(|groups| groups.values().next());
            let said = match outcome {
                Outcome::Committed(ts) => Some(ts),
                Outcome::Aborted(_) => None,
            };
            if ts != said {
                return Err(format!("{tid:?} was reported as {outcome:?} and is at {ts:?}"));
            }
        }
        for (tid, committed) in &self.answered {
            if delivered.contains_key(tid) != *committed {
                let outcome = if *committed { "committed" } else { "aborted" };
                return Err(format!("{tid:?} was reported as {outcome}, which is wrong"));
            }
        }
        for (tid, groups) in &delivered {
            let (late, until) = (groups.values().max().unwrap(), self.until[tid]);
            if *late > until {
                return Err(format!("{tid:?} is at {late}, and could come until {until}"));
            }
        }
        Ok(())
    }

    /// Checks Conflict Ordering: of two transactions that conflict, the later has seen the earlier.
    fn judge_conflicts(&self) -> Result<(), String> {
        let mut committed: Vec<(Timestamp, TransactionId)> = self
            .delivered()
            .into_iter()
            .map(|(tid, groups)| (*groups.values().next().unwrap(), tid))
            .collect();
        committed.sort_unstable();
        let mut times: Vec<_> = committed.iter().map(|(ts, _)| ts).collect();
        times.dedup();
        if times.len() != committed.len() {
            return Err("two transactions have one strong timestamp".into());
        }
        for (i, (ts, tid)) in committed.iter().enumerate() {
            for (later_ts, later) in &committed[i + 1..] {
                for (group, payload) in &self.submitted[tid] {
                    let Some(later_share) = self.submitted[later].get(group) else { continue };
                    let conflict = payload.accesses.iter().any(|access| {
                        access.update
                            && later_share.accesses.iter().any(|other| access.conflicts_with(other))
                    });
                    if conflict && !later_share.snap_vec.covers(&payload.commit_vec(*ts)) {
                        let snap = later_share.snap_vec;
                        return Err(format!(
                            "{later:?} at {later_ts} on {snap:?} has not seen {tid:?} at {ts}"
                        ));
                    }
                }
                // An earlier reader cannot have seen a later change: its snapshot is below its own
                // timestamp.
            }
        }
        Ok(())
    }

    /// Checks that the dependencies of committed transactions survive.
    fn judge_dependencies(&self) -> Result<(), String> {
        for (tid, groups) in self.delivered() {
            let payload = groups.keys().find_map(|group| self.submitted[&tid].get(group));
            if let Some(site) = payload.and_then(|payload| self.causal.lacks(&payload.snap_vec)) {
                return Err(format!("{tid:?} depends on what is lost with {site:?}"));
            }
        }
        Ok(())
    }

    /// Checks that nothing is remembered for ever or left undecided.
    pub(super) fn judge_memory(&self) -> Result<(), String> {
        for (address, host) in &self.hosts {
            let Some(host) = host else { continue };
            let (entries, _) = host.service.remembered();
            let coordinators = self.hosts.len() * usize::from(self.shape.groups);
            if entries > coordinators {
                return Err(format!("{address:?} still remembers {entries} transactions"));
            }
            if host.service.pending() > 0 {
                return Err(format!("{address:?} still coordinates {}", host.service.pending()));
            }
        }
        Ok(())
    }
}
