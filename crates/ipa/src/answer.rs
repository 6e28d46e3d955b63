//! Answers to comparisons of intervals.

use std::ops::Not;

use solera_levels::Level;

use crate::{Consistent, Inconsistent, Rushed};

/// Answer to a comparison of an [`Interval`](crate::Interval). It is not a `bool` and is not
/// compared with `==`, so that a program handles `Perhaps` in a `match`.
///
/// `Yes` and `No` are as reliable as the interval, because every value in the interval gives this
/// answer, the consistent one included. `Perhaps` states nothing about the value: it depends on how
/// wide the interval happens to be. A program must therefore be correct if every answer is
/// `Perhaps`.
#[derive(Clone, Copy, Debug)]
#[must_use = "a comparison has no other effect"]
pub enum Answer {
    /// It holds for each value in the interval.
    Yes,
    /// It holds for no value in the interval.
    No,
    /// It depends on the value.
    Perhaps,
}

impl Answer {
    /// Returns the level of the answer: the strongest for `Yes` and `No`, the weakest for
    /// `Perhaps`. For an interval that holds only at a weaker level, such as a
    /// `Causal<Interval<i64>>`, the answer is a `Causal<Answer>`.
    pub fn level(self) -> Level {
        self.choose((), (), ()).level()
    }

    /// Returns the value for the answer, with the answer's level. An arm of a `match` in the MixT
    /// language has the same level.
    pub fn choose<T>(self, yes: T, no: T, perhaps: T) -> Rushed<T> {
        match self {
            Answer::Yes => Consistent::new(yes).into(),
            Answer::No => Consistent::new(no).into(),
            Answer::Perhaps => Inconsistent::new(perhaps).into(),
        }
    }

    /// Returns whether both answers hold.
    pub fn and(self, other: Answer) -> Answer {
        match (self, other) {
            (Answer::No, _) | (_, Answer::No) => Answer::No,
            (Answer::Yes, Answer::Yes) => Answer::Yes,
            (Answer::Yes | Answer::Perhaps, Answer::Yes | Answer::Perhaps) => Answer::Perhaps,
        }
    }

    /// Returns whether at least one of the two holds. For two answers `Perhaps`, returns `Perhaps`,
    /// even if one of them must hold.
    pub fn or(self, other: Answer) -> Answer {
        !(!self).and(!other)
    }
}

impl Not for Answer {
    type Output = Answer;

    fn not(self) -> Answer {
        match self {
            Answer::Yes => Answer::No,
            Answer::No => Answer::Yes,
            Answer::Perhaps => Answer::Perhaps,
        }
    }
}
