//! Numbers that clients count, and the rule about the widths of intervals.

use super::TOLERANCE;
use super::store::Observed;
use crate::invariant::Invariant;
use crate::tally::Counters;

// Names of the numbers that clients count.
pub(super) const SOLD: &str = "sold";
pub(super) const SOLD_OUT: &str = "sold out";
pub(super) const CANNOT_TELL: &str = "cannot tell";
/// Number of intervals.
pub(super) const INTERVALS: &str = "intervals";
/// Sum of their widths.
pub(super) const WIDTHS: &str = "widths";
/// Sum of their widths in millionths of their minimum.
pub(super) const PPM: &str = "widths, ppm";
/// Number of those that are wider than the tolerance.
pub(super) const TOO_WIDE: &str = "too wide";
/// Beginning of the names of the numbers of reads by level.
pub(super) const READ: &str = "read ";

/// Returns what an operation adds to the numbers that a client counts.
pub(super) fn numbers(observed: &Observed) -> Vec<(String, u64)> {
    let levels = observed.levels.iter().map(|level| (format!("{READ}{level}"), 1));
    let intervals = observed.intervals.iter().flat_map(|&(min, max)| {
        let (width, least) = (max.abs_diff(min), min.unsigned_abs().min(max.unsigned_abs()));
        let ppm = (u128::from(width) * 1_000_000 / u128::from(least.max(1))) as u64;
        let too_wide = u128::from(width) * 100 > u128::from(least) * u128::from(TOLERANCE);
        [(INTERVALS, 1), (WIDTHS, width), (PPM, ppm), (TOO_WIDE, u64::from(too_wide))]
            .map(|(name, number)| (name.to_owned(), number))
    });
    levels.chain(intervals).collect()
}

/// Returns the rule about the widths of intervals, if there were any.
pub(super) fn widths(counters: &Counters) -> Option<Invariant> {
    let number = |name| counters.get(name).copied().unwrap_or_default();
    let (checked, broken) = (number(INTERVALS), number(TOO_WIDE));
    let rule = Invariant::new("no interval is wider than its tolerance");
    (checked > 0).then_some(Invariant { checked, broken, ..rule })
}
