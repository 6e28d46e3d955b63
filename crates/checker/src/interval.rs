//! Judges histories of a counter whose reads are answered with intervals, independently of the
//! other checkers.
//!
//! [`check`] decides whether there is one order of all updates and reads, in which
//! - each operation takes effect at a moment between its beginning and its end,
//! - each read's interval contains the value of its moment,
//! - no update leaves a value below the history's floor, if it has one.
//!
//! An update without an end has an unknown outcome: it may take effect at any moment after its
//! beginning, or never. An exact read is an interval with equal bounds. Operations whose times are
//! equal overlap.
//!
//! The check is sound and complete while it needs no more than the given number of states at a
//! time: an error proves that there is no such order, and `Ok(true)` that there is one. A state is
//! the set of unfinished updates that have taken effect, and the unfinished reads that still need a
//! moment. Two things keep the states few. Operations take effect as late as the next end of an
//! operation allows. Among updates by the same amount, the one that ends first takes effect first,
//! because exchanging two of them changes no value. Beyond the limit, the check compares each read
//! with the least and the greatest value that it could have seen, and returns `Ok(false)` if that
//! does not disprove the history. Sums that leave the range of the type stay at its limits.

use std::collections::BTreeSet;

/// An update by an amount, which may be negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The amount.
    pub amount: i128,
    /// Time at which it began.
    pub begin: u64,
    /// Time at which its client learned that it has taken effect; `None` if the outcome is unknown.
    pub end: Option<u64>,
}

/// A read that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Least value that the answer allows.
    pub least: i128,
    /// Greatest value that the answer allows.
    pub greatest: i128,
    /// Time at which it began.
    pub begin: u64,
    /// Time at which it was answered.
    pub end: u64,
}

/// The operations on a counter. Updates that certainly have no effect are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Value before all operations.
    pub start: i128,
    /// The updates.
    pub updates: Vec<Update>,
    /// The answered reads.
    pub reads: Vec<Read>,
    /// Least value that updates may leave; `None` if every value is allowed.
    pub floor: Option<i128>,
}

/// A history without a valid order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The first operation at whose end no order is left.
    pub operation: Operation,
    /// Values that the counter could have had just before this end, at most some of them.
    pub values: Vec<i128>,
}

/// An operation of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A read.
    Read(Read),
    /// An update.
    Update(Update),
}

/// Number of values that a violation lists.
const LISTED: usize = 8;

/// Decides whether a history has a valid order. Returns whether it was decided with at most
/// `most_states` states at a time.
///
/// # Errors
/// The history has no valid order.
pub fn check(history: &History, most_states: usize) -> Result<bool, Violation> {
    match Search::new(history, most_states).run() {
        Ok(()) => Ok(true),
        Err(Stop::Violation(violation)) => Err(violation),
        Err(Stop::TooMany) => {
            history.reads.iter().try_for_each(|read| compare(history, read))?;
            compare_with_floor(history)?;
            Ok(false)
        }
    }
}

/// A moment at which something begins or ends. Beginnings come before ends of the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    BeginUpdate(usize),
    BeginRead(usize),
    EndUpdate(usize),
    EndRead(usize),
}

/// State of the unfinished operations: the updates that have taken effect, and the reads that have
/// not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    applied: Vec<usize>,
    unread: Vec<usize>,
    value: i128,
}

enum Stop {
    Violation(Violation),
    TooMany,
}

struct Search<'a> {
    history: &'a History,
    most_states: usize,
    /// Unfinished updates.
    open: Vec<usize>,
    states: BTreeSet<State>,
}

impl<'a> Search<'a> {
    fn new(history: &'a History, most_states: usize) -> Search<'a> {
        let start = State { applied: Vec::new(), unread: Vec::new(), value: history.start };
        Search { history, most_states, open: Vec::new(), states: BTreeSet::from([start]) }
    }

    fn run(mut self) -> Result<(), Stop> {
        let updates = self.history.updates.iter().enumerate();
        let reads = self.history.reads.iter().enumerate();
        let mut events: Vec<(u64, Event)> = Vec::new();
        for (place, update) in updates {
            events.push((update.begin, Event::BeginUpdate(place)));
            events.extend(update.end.map(|end| (end, Event::EndUpdate(place))));
        }
        for (place, read) in reads {
            events.push((read.begin, Event::BeginRead(place)));
            events.push((read.end, Event::EndRead(place)));
        }
        events.sort_unstable();
        for (_, event) in events {
            match event {
                Event::BeginUpdate(place) => self.open.push(place),
                Event::BeginRead(place) => self.begin_read(place),
                Event::EndUpdate(place) => self.end_update(place)?,
                Event::EndRead(place) => self.end_read(place)?,
            }
            if self.states.len() > self.most_states {
                return Err(Stop::TooMany);
            }
        }
        Ok(())
    }

    fn begin_read(&mut self, place: usize) {
        let read = self.history.reads[place];
        let states = std::mem::take(&mut self.states).into_iter().map(|mut state| {
            if !contains(&read, state.value) {
                state.unread.push(place);
            }
            state
        });
        self.states = states.collect();
    }

    fn end_update(&mut self, place: usize) -> Result<(), Stop> {
        let mut next = BTreeSet::new();
        for state in &self.states {
            if state.applied.contains(&place) {
                next.insert(state.clone());
                continue;
            }
            let direct = Some(self.apply(state, place)).filter(|state| self.allows(state));
            if let Some(direct) = direct.as_ref().filter(|_| state.unread.is_empty()) {
                next.insert(direct.clone());
                continue;
            }
            // Others may take effect before, if a read then finds a moment, or if the update would
            // leave a value below the floor.
            let all = self.closure(state, |state| state.applied.contains(&place))?;
            match direct {
                Some(direct) => {
                    let unread = direct.unread.clone();
                    next.insert(direct);
                    let helps =
                        |state: &State| unread.iter().any(|read| !state.unread.contains(read));
                    next.extend(all.into_iter().filter(helps));
                }
                None => next.extend(all),
            }
        }
        if next.is_empty() {
            return Err(self.violation(Operation::Update(self.history.updates[place])));
        }
        self.open.retain(|open| *open != place);
        let finished = next.into_iter().map(|mut state| {
            state.applied.retain(|applied| *applied != place);
            state
        });
        self.states = finished.collect();
        Ok(())
    }

    fn end_read(&mut self, place: usize) -> Result<(), Stop> {
        let mut next = BTreeSet::new();
        for state in &self.states {
            next.extend(self.closure(state, |state| !state.unread.contains(&place))?);
            if next.len() > self.most_states {
                return Err(Stop::TooMany);
            }
        }
        if next.is_empty() {
            return Err(self.violation(Operation::Read(self.history.reads[place])));
        }
        self.states = next;
        Ok(())
    }

    fn violation(&self, operation: Operation) -> Stop {
        let values: BTreeSet<i128> = self.states.iter().map(|state| state.value).collect();
        let values = values.into_iter().take(LISTED).collect();
        Stop::Violation(Violation { operation, values })
    }

    fn allows(&self, state: &State) -> bool {
        self.history.floor.is_none_or(|floor| state.value >= floor)
    }

    /// Lets updates take effect one after the other, in all orders. Returns the first state of each
    /// order that reaches the goal.
    fn closure(&self, from: &State, goal: impl Fn(&State) -> bool) -> Result<Vec<State>, Stop> {
        let (mut reached, mut seen) = (Vec::new(), BTreeSet::from([from.clone()]));
        let mut waiting = vec![from.clone()];
        while let Some(state) = waiting.pop() {
            if goal(&state) {
                reached.push(state);
                continue;
            }
            for place in self.next_updates(&state) {
                let next = self.apply(&state, place);
                if self.allows(&next) && seen.insert(next.clone()) {
                    waiting.push(next);
                }
            }
            if seen.len() > self.most_states {
                return Err(Stop::TooMany);
            }
        }
        Ok(reached)
    }

    /// Returns, for each amount, the update that ends first among those that may take effect.
    fn next_updates(&self, state: &State) -> Vec<usize> {
        let updates = &self.history.updates;
        let end = |place: usize| (updates[place].end.unwrap_or(u64::MAX), place);
        let mut next: Vec<usize> = Vec::new();
        for place in self.open.iter().copied().filter(|place| !state.applied.contains(place)) {
            match next.iter_mut().find(|other| updates[**other].amount == updates[place].amount) {
                Some(other) if end(place) < end(*other) => *other = place,
                Some(_) => {}
                None => next.push(place),
            }
        }
        next
    }

    fn apply(&self, state: &State, place: usize) -> State {
        let value = state.value.saturating_add(self.history.updates[place].amount);
        let mut applied = state.applied.clone();
        let at = applied.partition_point(|other| *other < place);
        applied.insert(at, place);
        let unread = state.unread.iter().copied();
        let unread = unread.filter(|read| !contains(&self.history.reads[*read], value));
        State { applied, unread: unread.collect(), value }
    }
}

fn contains(read: &Read, value: i128) -> bool {
    (read.least..=read.greatest).contains(&value)
}

/// Compares a read with the least and the greatest value of each moment in which it may have taken
/// effect.
fn compare(history: &History, read: &Read) -> Result<(), Violation> {
    let updates = || history.updates.iter();
    let times = updates().flat_map(|update| [Some(update.begin), update.end]).flatten();
    let moments = times.chain([read.begin]).filter(|at| (read.begin..=read.end).contains(at));
    let mut values = Vec::new();
    for at in moments {
        let (mut least, mut greatest) = (history.start, history.start);
        for update in updates().filter(|update| update.begin <= at) {
            let certain = update.end.is_some_and(|end| end < at);
            let (low, high) = match certain {
                true => (update.amount, update.amount),
                false => (update.amount.min(0), update.amount.max(0)),
            };
            least = least.saturating_add(low);
            greatest = greatest.saturating_add(high);
        }
        if least <= read.greatest && greatest >= read.least {
            return Ok(());
        }
        values.extend([least, greatest]);
    }
    values.truncate(LISTED);
    Err(Violation { operation: Operation::Read(*read), values })
}

/// Compares the greatest value that each update may have left with the floor.
fn compare_with_floor(history: &History) -> Result<(), Violation> {
    let Some(floor) = history.floor else { return Ok(()) };
    for (update, end) in history.updates.iter().filter_map(|it| Some((it, it.end?))) {
        let mut greatest = history.start;
        for other in history.updates.iter().filter(|other| other.begin <= end) {
            let certain = other.end.is_some_and(|other| other < end) || other == update;
            let high = if certain { other.amount } else { other.amount.max(0) };
            greatest = greatest.saturating_add(high);
        }
        if greatest < floor {
            let operation = Operation::Update(*update);
            return Err(Violation { operation, values: vec![greatest] });
        }
    }
    Ok(())
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "no order explains {:?}; just before, the value was one of {:?}",
            self.operation, self.values
        )
    }
}
