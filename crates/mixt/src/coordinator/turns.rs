//! Who may go on with a transaction that has begun to take effect: one at a time, in turns
//! (decision 0021).
//!
//! The first turn, number 0, is that of the coordinator that has begun it. Who takes over puts the
//! number of the next turn next to the record: where the database lets only one of two create the
//! same value of a name, only one has it. In a turn commits are asked for within
//! [`Limits::finish_ms`](crate::outcome::Limits::finish_ms), and take effect within
//! [`IN_DOUBT_MS`](crate::outcome::IN_DOUBT_MS) more. The next one may be taken when its holder has
//! said that it has stopped and has an answer to all that it has asked for, as most tickets do; or,
//! where it has stopped with a commit in doubt, when that is seen to have taken effect; or after
//! [`Limits::orphan_ms`](crate::outcome::Limits::orphan_ms), by one who sees what was committed
//! until then: a site that is cut off may have gone on.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Ask, Coordinator, Stage};
use crate::form::Unreadable;
use crate::outcome::Why;
use crate::place::{Fields, Name};
use crate::record::{Record, Turn};
use crate::request::calls::{Begin, Commits, NameWrite, StoreError};
use crate::request::{Reply, Request};
use crate::witness;

/// How far taking a turn has come.
#[derive(Debug)]
pub(super) enum Taking {
    Start,
    Reading,
    /// The open transaction is given up, as this is in the way.
    Leaving(Obstacle),
    /// Whether these databases show what others did in their turns.
    Looking {
        number: u32,
        rest: Vec<(Arc<str>, Commits)>,
    },
    Writing {
        since_ms: u64,
    },
    /// Whether the commit has taken effect that was in doubt when the last holder stopped.
    Doubting,
    /// The same, when it is known.
    Doubted {
        settled: bool,
    },
}

/// Why there is no turn to take.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// Somebody has it.
    Taken,
    /// This is to be seen first, before turn `number` is taken.
    Unseen {
        number: u32,
        commits: Vec<(Arc<str>, Commits)>,
    },
    /// Others have completed the transaction.
    Completed,
    Unreadable(String),
}

impl Coordinator {
    /// Takes the turn that it wants.
    pub(super) fn take_turn(
        &mut self,
        taking: Taking,
        reply: Option<Result<Reply, StoreError>>,
    ) -> Option<Ask> {
        let Some(place) = self.job.record_place() else {
            self.standing.need_no_turn();
            return None;
        };
        let (database, name) = (place.database.clone(), witness::record(&place.space, self.job.id));
        let first = self.job.plan.first_writer.expect("what has a record has a group that writes");
        let group = &self.job.plan.groups[first];
        let (taking, request) = match (taking, reply) {
            (Taking::Start, _) => {
                let begin = Begin { strong: group.strong, names: vec![name], ..Begin::default() };
                (Taking::Reading, Request::Begin(begin))
            }
            (Taking::Reading, Some(Ok(Reply::Began(fields)))) => {
                let new = group.atomic;
                match self.next_turn(&fields.into_iter().next().unwrap_or_default()) {
                    Ok(turn) => {
                        self.turn = turn.number;
                        let (field, value) = (u64::from(turn.number), turn.encode());
                        let write = NameWrite::Set { name, field, value, new };
                        let since_ms = turn.since_ms;
                        (Taking::Writing { since_ms }, Request::Commit(vec![write]))
                    }
                    Err(obstacle) => (Taking::Leaving(obstacle), Request::Abort),
                }
            }
            (Taking::Leaving(obstacle), Some(_)) => return self.leave(obstacle),
            (Taking::Looking { number, mut rest }, Some(Ok(Reply::Sees(true)))) => {
                rest.pop();
                return self.look(number, rest);
            }
            (Taking::Looking { rest, .. }, Some(reply)) => {
                let reason = match reply {
                    Err(error) => error.to_string(),
                    Ok(_) => "not all that was committed at other sites has come here".to_owned(),
                };
                let (database, _) = rest.into_iter().next_back().expect("it was asked");
                return self.retry(Why::Unavailable { database, reason });
            }
            (Taking::Writing { since_ms }, Some(Ok(Reply::Committed))) => {
                self.standing.hold(since_ms);
                return None;
            }
            (Taking::Writing { .. }, Some(Err(StoreError::Conflict))) => {
                return self.leave(Obstacle::Taken);
            }
            (Taking::Doubting, Some(Ok(Reply::Began(fields)))) => {
                let settled = fields.iter().any(|mark| mark.contains_key(&0));
                let (database, _) = self.doubted().expect("it was asked for");
                self.stage = Stage::Taking(Taking::Doubted { settled });
                return Some(Ask::Store { database, request: Request::Abort });
            }
            (Taking::Doubted { settled: true }, Some(_)) => {
                self.after_stopped = true;
                self.stage = Stage::Taking(Taking::Start);
                return None;
            }
            // Time will tell.
            (Taking::Doubted { settled: false } | Taking::Doubting, Some(_)) => {
                return self.retry(Why::Taken);
            }
            // If the turn was created all the same, nobody has it until its time is over.
            (_, Some(Err(error))) => {
                return self.retry(Why::Unavailable { database, reason: error.to_string() });
            }
            (taking, reply) => {
                unreachable!("{reply:?} is no answer to what was asked ({taking:?})")
            }
        };
        self.stage = Stage::Taking(taking);
        Some(Ask::Store { database, request })
    }

    /// The turn to take now, from what is kept under the record's name.
    fn next_turn(&self, fields: &Fields) -> Result<Turn, Obstacle> {
        let unreadable = |error: Unreadable| Obstacle::Unreadable(error.to_string());
        let age_ms = |since_ms: u64| self.now_ms.saturating_sub(since_ms);
        let record = fields.get(&0).map(|bytes| Record::decode(bytes));
        let record = record.transpose().map_err(unreadable)?;
        let is_complete = match &record {
            Some(record) => record.complete,
            // A young one cannot have been removed: it has not come here yet.
            None => age_ms(self.asked_ms) >= self.job.limits.keep_ms,
        };
        if is_complete {
            return Err(Obstacle::Completed);
        }
        // The first group that writes may have been run from the same ticket by somebody else.
        let first = record.map(|record| record.turn);
        let taken = Turn::taken(fields).map_err(unreadable)?;
        let before: Vec<_> = first.into_iter().chain(taken).collect();
        // What the ticket tells of may not be here yet.
        let told = (self.turn.saturating_sub(1), self.asked_ms);
        let seen = before.iter().map(|turn| (turn.number, turn.since_ms));
        let (last, since_ms) = seen.chain([told]).max().expect("there is what was told");
        let is_over = self.after_stopped && last < self.turn;
        if !is_over && age_ms(since_ms) < self.job.limits.orphan_ms {
            return Err(Obstacle::Taken);
        }
        let number = last.saturating_add(1);
        if self.caught_up == Some(number) {
            return Ok(Turn { number, ..self.turn_of_now() });
        }
        Err(Obstacle::Unseen { number, commits: self.of_others(&before) })
    }

    /// What others may have committed in their turns, in databases where commits merge: who does
    /// not see a mark there would do again what it stands for.
    fn of_others(&self, turns: &[Turn]) -> Vec<(Arc<str>, Commits)> {
        let groups = &self.job.plan.groups[self.state.next as usize..];
        let merging = groups.iter().filter(|group| group.writes() && !group.strong);
        let databases: BTreeSet<_> = merging.filter_map(|group| group.database.as_ref()).collect();
        let commits = databases.into_iter().map(|database| {
            let whence = turns.iter().map(|turn| turn.whence.get(database).cloned()).collect();
            // Without the record it is not known who had turns.
            let whence = if turns.is_empty() { None } else { whence };
            (Arc::clone(database), Commits { until_ms: self.now_ms, whence })
        });
        commits.collect()
    }

    /// Asks the databases that are left, and then for the turn.
    fn look(&mut self, number: u32, rest: Vec<(Arc<str>, Commits)>) -> Option<Ask> {
        let Some((database, commits)) = rest.last().cloned() else {
            self.caught_up = Some(number);
            self.stage = Stage::Taking(Taking::Start);
            return None;
        };
        self.stage = Stage::Taking(Taking::Looking { number, rest });
        Some(Ask::Store { database, request: Request::Sees(commits) })
    }

    /// The database and the mark of the group whose commit was in doubt when the holder of the
    /// ticket stopped. Whoever sees the mark does not run the group again, so that nothing else is
    /// to be waited for; but only where one of two that create the same turn fails: where commits
    /// merge, time alone keeps those apart who see it.
    fn doubted(&self) -> Option<(Arc<str>, Name)> {
        let index = self.state.next as usize;
        let groups = &self.job.plan.groups;
        let first = &groups[self.job.plan.first_writer?];
        let group = groups.get(index).filter(|group| group.writes())?;
        if self.after_stopped || !(first.strong && first.atomic) {
            return None;
        }
        Some((group.database.clone()?, self.job.mark(index)?))
    }

    fn leave(&mut self, obstacle: Obstacle) -> Option<Ask> {
        match obstacle {
            Obstacle::Unseen { number, commits } => self.look(number, commits),
            Obstacle::Taken if self.is_patient => match self.doubted() {
                Some((database, mark)) => {
                    self.stage = Stage::Taking(Taking::Doubting);
                    let begin = Begin { read_only: true, names: vec![mark], ..Begin::default() };
                    Some(Ask::Store { database, request: Request::Begin(begin) })
                }
                None => self.retry(Why::Taken),
            },
            Obstacle::Taken => self.stop(Why::Taken),
            Obstacle::Completed => self.completed_by_others(),
            Obstacle::Unreadable(reason) => {
                let database = self.job.record_place().map(|place| place.database.clone());
                self.stop(Why::Refused { database: database.unwrap_or_default(), reason })
            }
        }
    }
}
