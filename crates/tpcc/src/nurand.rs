//! The non-uniform random numbers of TPC-C (clause 2.1.6).

use std::ops::RangeInclusive;

use solera_random::Random;

/// `C` for last names in the initial database.
pub(crate) const LAST_NAME_LOAD: u64 = 123;
/// `C` for last names in operations. Clause 2.1.6.1 limits the difference to [`LAST_NAME_LOAD`].
pub(crate) const LAST_NAME_RUN: u64 = 223;
/// `C` for customers.
pub(crate) const CUSTOMER: u64 = 259;
/// `C` for items.
pub(crate) const ITEM: u64 = 7911;

/// Draws `NURand(a, x, y)` with the range from x to y and the constant `c`.
pub(crate) fn nurand(random: &mut Random, c: u64, a: u64, range: RangeInclusive<u64>) -> u64 {
    let (x, y) = range.into_inner();
    let count = y - x + 1;
    ((random.below(a + 1) | (x + random.below(count))) + c) % count + x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_of_last_names_differ_as_the_specification_demands() {
        let difference = LAST_NAME_RUN.abs_diff(LAST_NAME_LOAD);
        assert!((65..=119).contains(&difference) && ![96, 112].contains(&difference));
    }

    #[test]
    fn numbers_are_in_the_range_and_not_uniform() {
        let mut random = Random::new(1);
        let mut drawn = [0_u32; 3001];
        for _ in 0..300_000 {
            drawn[nurand(&mut random, CUSTOMER, 1023, 1..=3000) as usize] += 1;
        }
        assert_eq!(drawn[0], 0);
        let most = drawn.iter().max().copied().unwrap_or_default();
        assert!(most > 500, "a uniform distribution draws each about 100 times, not {most}");
    }
}
