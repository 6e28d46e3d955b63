//! Integers of which only bounds are known.

use std::fmt;

use crate::{Answer, Consistent};

mod sealed {
    /// Prevents implementations in other crates.
    pub trait Checked: Sized {
        fn plus(self, other: Self) -> Option<Self>;
        fn minus(self, other: Self) -> Option<Self>;
        fn times(self, other: Self) -> Option<Self>;
        fn negative(self) -> Option<Self>;
    }
}

/// A primitive integer type.
pub trait Integer: sealed::Checked + Copy + Ord + fmt::Debug + fmt::Display + 'static {
    /// Unsigned type that holds the difference of any two values.
    type Width: Integer;

    /// Returns the absolute difference.
    fn distance(self, other: Self) -> Self::Width;
}

macro_rules! integers {
    ($($integer:ident $width:ident;)*) => {$(
        impl sealed::Checked for $integer {
            fn plus(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }

            fn minus(self, other: Self) -> Option<Self> {
                self.checked_sub(other)
            }

            fn times(self, other: Self) -> Option<Self> {
                self.checked_mul(other)
            }

            fn negative(self) -> Option<Self> {
                self.checked_neg()
            }
        }

        impl Integer for $integer {
            type Width = $width;

            fn distance(self, other: Self) -> $width {
                self.abs_diff(other)
            }
        }
    )*};
}

integers! {
    i8 u8;
    i16 u16;
    i32 u32;
    i64 u64;
    i128 u128;
    isize usize;
    u8 u8;
    u16 u16;
    u32 u32;
    u64 u64;
    u128 u128;
    usize usize;
}

/// Bounds of an integer, both included (IPA §3.4.1). The integer that a consistent read would have
/// returned, in some linearizable order of all operations, lies between them.
///
/// An interval does not state which of its values is the right one, so it has no order and is not
/// equal to anything: each comparison returns an [`Answer`]. Arithmetic returns the smallest
/// interval that contains the results for all values of the operands. The operands are independent:
/// `x.checked_sub(x)` is wider than zero.
///
/// ```
/// use solera_ipa::{Answer, Interval};
///
/// let left = Interval::new(95, 105)?;
/// let after = left.checked_sub(96)?;
/// match after.at_least(0) {
///     Answer::Yes => println!("sold"),
///     Answer::No => println!("sold out"),
///     Answer::Perhaps => println!("ask the other sites first"),
/// }
/// assert_eq!(after.bounds(), (-1, 9));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// If two intervals come from two reads, their comparisons concern two moments, as comparisons of
/// consistent values do.
#[derive(Clone, Copy)]
#[must_use = "a value has no effect unless it is used"]
pub struct Interval<T> {
    min: T,
    max: T,
}

impl<T: Integer> Interval<T> {
    /// Creates an interval.
    ///
    /// # Errors
    /// The minimum is greater than the maximum, so that the interval contains no value.
    pub fn new(min: T, max: T) -> Result<Interval<T>, Reversed<T>> {
        match min <= max {
            true => Ok(Interval { min, max }),
            false => Err(Reversed { min, max }),
        }
    }

    /// Creates the interval that contains one value.
    pub fn exact(value: T) -> Interval<T> {
        Interval { min: value, max: value }
    }

    /// Returns the smallest value.
    pub fn min(self) -> T {
        self.min
    }

    /// Returns the greatest value.
    pub fn max(self) -> T {
        self.max
    }

    /// Returns the smallest and the greatest value.
    pub fn bounds(self) -> (T, T) {
        (self.min, self.max)
    }

    /// Returns the difference between the greatest and the smallest value; zero if the interval
    /// contains one value.
    pub fn width(self) -> T::Width {
        self.max.distance(self.min)
    }

    /// Returns the value, if the interval contains only one.
    pub fn value(self) -> Option<Consistent<T>> {
        (self.min == self.max).then(|| Consistent::new(self.min))
    }

    /// Returns whether a value lies between the bounds. To compare with the consistent value, use
    /// [`Interval::equals`].
    pub fn contains(self, value: T) -> bool {
        self.min <= value && value <= self.max
    }

    /// Adds an integer or an interval.
    ///
    /// # Errors
    /// A sum of two of the values overflows.
    pub fn checked_add(self, other: impl Into<Interval<T>>) -> Result<Interval<T>, Overflow> {
        let other = other.into();
        Self::checked(self.min.plus(other.min), self.max.plus(other.max), "sum")
    }

    /// Subtracts an integer or an interval.
    ///
    /// # Errors
    /// A difference of two of the values overflows.
    pub fn checked_sub(self, other: impl Into<Interval<T>>) -> Result<Interval<T>, Overflow> {
        let other = other.into();
        Self::checked(self.min.minus(other.max), self.max.minus(other.min), "difference")
    }

    /// Multiplies by an integer or an interval.
    ///
    /// # Errors
    /// A product of two of the values overflows.
    pub fn checked_mul(self, other: impl Into<Interval<T>>) -> Result<Interval<T>, Overflow> {
        let other = other.into();
        let corners = [
            self.min.times(other.min),
            self.min.times(other.max),
            self.max.times(other.min),
            self.max.times(other.max),
        ];
        // Products are extreme where both factors are. `None` is less than all of them.
        let (min, max) = (corners.into_iter().min().flatten(), corners.into_iter().max().flatten());
        Self::checked(min, max, "product")
    }

    /// Negates the value.
    ///
    /// # Errors
    /// A negated value overflows.
    pub fn checked_neg(self) -> Result<Interval<T>, Overflow> {
        Self::checked(self.max.negative(), self.min.negative(), "negation")
    }

    /// Returns whether the value is less than another.
    pub fn less_than(self, other: impl Into<Interval<T>>) -> Answer {
        let other = other.into();
        match (self.max < other.min, self.min < other.max) {
            (true, _) => Answer::Yes,
            (false, true) => Answer::Perhaps,
            (false, false) => Answer::No,
        }
    }

    /// Returns whether the value is at most another.
    pub fn at_most(self, other: impl Into<Interval<T>>) -> Answer {
        !other.into().less_than(self)
    }

    /// Returns whether the value is greater than another.
    pub fn greater_than(self, other: impl Into<Interval<T>>) -> Answer {
        other.into().less_than(self)
    }

    /// Returns whether the value is at least another.
    pub fn at_least(self, other: impl Into<Interval<T>>) -> Answer {
        !self.less_than(other)
    }

    /// Returns whether the value equals another.
    pub fn equals(self, other: impl Into<Interval<T>>) -> Answer {
        let other = other.into();
        self.at_most(other).and(self.at_least(other))
    }

    fn checked(
        min: Option<T>,
        max: Option<T>,
        result: &'static str,
    ) -> Result<Interval<T>, Overflow> {
        let both = min.zip(max).map(|(min, max)| Interval { min, max });
        both.ok_or(Overflow { result, integer: std::any::type_name::<T>() })
    }
}

impl<T: Integer> From<T> for Interval<T> {
    fn from(value: T) -> Self {
        Interval::exact(value)
    }
}

impl<T: Integer> fmt::Display for Interval<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.min, self.max)
    }
}

impl<T: Integer> fmt::Debug for Interval<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Error of an interval whose minimum is greater than its maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reversed<T> {
    /// Minimum.
    pub min: T,
    /// Maximum.
    pub max: T,
}

impl<T: Integer> fmt::Display for Reversed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an interval cannot begin at {} and end at {}, which is less", self.min, self.max)
    }
}

impl<T: Integer> std::error::Error for Reversed<T> {}

/// Error of arithmetic with intervals: a possible result does not fit into the integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow {
    result: &'static str,
    integer: &'static str,
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} of intervals can be outside of {}", self.result, self.integer)
    }
}

impl std::error::Error for Overflow {}
