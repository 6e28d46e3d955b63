//! The lives of masters, and the check whether a session depends on writes that were lost at the
//! end of a life.

use std::collections::BTreeMap;

use crate::risk::{Life, Risk};
use crate::stored::{Gap, Record};

/// Report of a master in INFO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) life: Life,
    /// The life before the promotion, and the offset from which its writes are lost.
    pub(crate) before: Option<(Life, u64)>,
    /// Identifier of the process.
    pub(crate) run: String,
    /// Offset that all replicas of the master have; `None` if a replica is missing, or if there are
    /// none.
    pub(crate) replicated: Option<u64>,
}

/// State of a life, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// A master continues the life.
    Alive,
    /// The life has ended, and everything from this offset on is lost.
    Ended(u64),
    /// No master has the life, and it is unknown at which offset it ended.
    Unknown,
}

/// The lives of the cluster's masters, as their reports show them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lives {
    /// Last report of each node that is a master.
    masters: BTreeMap<String, Report>,
    ended: BTreeMap<Life, u64>,
    /// Offset of each life that all replicas have had at some time.
    replicated: BTreeMap<Life, u64>,
}

impl Lives {
    /// Adds a report of the master at this address.
    pub(crate) fn report(&mut self, address: &str, report: Report) {
        if let Some((life, end)) = report.before {
            self.ended.insert(life, end);
        }
        if let Some(last) = self.masters.get(address)
            && last.life != report.life
        {
            // A running master takes another replication id after a long time without replicas, and
            // loses nothing. A process that starts without data has nothing of the former life.
            let end = if last.run == report.run { u64::MAX } else { 0 };
            self.ended.entry(last.life).or_insert(end);
        }
        if let Some(offset) = report.replicated {
            let greatest = self.replicated.entry(report.life).or_default();
            *greatest = offset.max(*greatest);
        }
        self.masters.insert(address.to_owned(), report);
    }

    /// Removes nodes that are not masters any more.
    pub(crate) fn keep(&mut self, is_master: impl Fn(&str) -> bool) {
        self.masters.retain(|address, _| is_master(address));
    }

    pub(crate) fn state(&self, life: Life) -> State {
        match self.ended.get(&life) {
            Some(end) => State::Ended(*end),
            None if self.masters.values().any(|report| report.life == life) => State::Alive,
            None => State::Unknown,
        }
    }

    /// Returns the lives that have ended, with the offsets from which they are lost.
    pub(crate) fn ended(&self) -> impl Iterator<Item = (Life, u64)> {
        self.ended.iter().map(|(life, end)| (*life, *end))
    }

    /// Removes writes that cannot be lost any more from a risk.
    pub(crate) fn settle(&self, risk: &mut Risk) {
        risk.retain(|life, offset| !self.is_settled(life, offset));
    }

    fn is_settled(&self, life: Life, offset: u64) -> bool {
        let ended = self.ended.get(&life).is_some_and(|end| offset < *end);
        ended || self.replicated.get(&life).is_some_and(|all| offset <= *all)
    }
}

/// Result of the check whether a session can depend on a copy of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No write on which the session depends is known to be lost there.
    Whole,
    /// A write on which the session depends was lost when this life ended.
    Lost(Life),
    /// The life has ended at an unknown offset, so such a write may be lost.
    Unsure(Life),
}

/// Checks a session's dependencies against the record of a slot that it reads.
pub(crate) fn judge(record: &Record, risk: &Risk, lives: &Lives) -> Verdict {
    let mut verdict = Verdict::Whole;
    for (life, offset) in risk.iter().filter(|(life, _)| *life != record.life) {
        let state = lives.state(life);
        if state == State::Ended(0) {
            return Verdict::Lost(life);
        }
        let gap = record.gaps.iter().find(|gap| gap.life == Some(life));
        let end = match (gap, state) {
            (Some(Gap { end: Some(end), .. }), _) => Some(*end),
            (_, State::Ended(end)) if gap.is_some() => Some(end),
            // The slot has moved to another master, and nothing was lost.
            (_, State::Alive) => None,
            (Some(gap), _) if offset <= gap.last => None,
            (Some(_), _) => {
                verdict = Verdict::Unsure(life);
                None
            }
            (None, State::Unknown) if record.gaps.iter().any(|gap| gap.life.is_none()) => {
                verdict = Verdict::Unsure(life);
                None
            }
            (None, _) => None,
        };
        if end.is_some_and(|end| end <= offset) {
            return Verdict::Lost(life);
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(number: u8) -> Life {
        Life([number; 8])
    }

    fn record(gaps: &str) -> Record {
        Record::parse(format!("S1 100 0303030303030303 50{gaps}").as_bytes()).unwrap()
    }

    fn risk(of: u8, offset: u64) -> Risk {
        let mut risk = Risk::default();
        risk.add(life(of), offset);
        risk
    }

    fn master(of: u8, before: Option<(u8, u64)>, run: &str) -> Report {
        let before = before.map(|(before, end)| (life(before), end));
        Report { life: life(of), before, run: run.to_owned(), replicated: None }
    }

    #[test]
    fn a_promotion_loses_what_the_replica_did_not_have() {
        let known = record(" 0101010101010101:40:3:8:30");
        let lives = Lives::default();
        assert_eq!(judge(&known, &risk(1, 39), &lives), Verdict::Whole);
        assert_eq!(judge(&known, &risk(1, 40), &lives), Verdict::Lost(life(1)));
        assert_eq!(judge(&known, &risk(3, 99), &lives), Verdict::Whole, "its own life");
        assert_eq!(judge(&known, &risk(2, 99), &lives), Verdict::Whole, "another master's life");
    }

    #[test]
    fn an_unknown_end_is_looked_up() {
        let unknown = record(" 0101010101010101:?:3:8:30");
        let mut lives = Lives::default();
        assert_eq!(judge(&unknown, &risk(1, 30), &lives), Verdict::Whole);
        assert_eq!(judge(&unknown, &risk(1, 31), &lives), Verdict::Unsure(life(1)));
        lives.report("a", master(1, None, "a"));
        assert_eq!(judge(&unknown, &risk(1, 31), &lives), Verdict::Whole, "the slot has moved");
        lives.report("b", master(2, Some((1, 35)), "b"));
        assert_eq!(judge(&unknown, &risk(1, 34), &lives), Verdict::Whole);
        assert_eq!(judge(&unknown, &risk(1, 35), &lives), Verdict::Lost(life(1)));
        let forgotten = record(" *:?:0:8:0");
        assert_eq!(judge(&forgotten, &risk(7, 1), &lives), Verdict::Unsure(life(7)));
    }

    #[test]
    fn a_master_that_starts_empty_has_lost_everything() {
        let mut lives = Lives::default();
        lives.report("a", master(1, None, "first"));
        lives.report("a", master(2, None, "second"));
        assert_eq!(judge(&record(""), &risk(1, 1), &lives), Verdict::Lost(life(1)));
        lives.report("a", master(4, None, "second"));
        assert_eq!(lives.state(life(2)), State::Ended(u64::MAX), "the same process");
    }

    #[test]
    fn replicated_writes_are_no_risk() {
        let mut lives = Lives::default();
        lives.report("a", Report { replicated: Some(10), ..master(1, None, "a") });
        let mut seen = risk(1, 10);
        seen.merge(&risk(2, 5));
        lives.settle(&mut seen);
        assert_eq!(seen, risk(2, 5));
        let mut later = risk(1, 11);
        lives.settle(&mut later);
        assert_eq!(later, risk(1, 11));
    }
}
