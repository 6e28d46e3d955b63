//! Intervals, compared with all values that they contain.

use proptest::prelude::*;
use solera_ipa::{Answer, Causal, Integer, Interval, Rushed};
use solera_levels::Level;

fn interval<T: Integer>(one: T, other: T) -> Interval<T> {
    Interval::new(one.min(other), one.max(other)).unwrap()
}

/// Returns the answer for the number of cases in which a comparison holds, and fails to hold.
fn expected(holds: usize, fails: usize) -> Answer {
    match (holds, fails) {
        (_, 0) => Answer::Yes,
        (0, _) => Answer::No,
        _ => Answer::Perhaps,
    }
}

fn name(answer: Answer) -> String {
    format!("{answer:?}")
}

/// Comparison of intervals, of integers, and its name.
type Comparison = (fn(Interval<i8>, Interval<i8>) -> Answer, fn(&i8, &i8) -> bool, &'static str);

const COMPARISONS: [Comparison; 5] = [
    (Interval::less_than, i8::lt, "less_than"),
    (Interval::at_most, i8::le, "at_most"),
    (Interval::greater_than, i8::gt, "greater_than"),
    (Interval::at_least, i8::ge, "at_least"),
    (Interval::equals, i8::eq, "equals"),
];

/// Arithmetic of intervals, of wide integers, and its name.
type Arithmetic = (
    fn(Interval<i8>, Interval<i8>) -> Result<Interval<i8>, solera_ipa::Overflow>,
    fn(i64, i64) -> i64,
    &'static str,
);

const ARITHMETIC: [Arithmetic; 3] = [
    (Interval::checked_add, |one, other| one + other, "sum"),
    (Interval::checked_sub, |one, other| one - other, "difference"),
    (Interval::checked_mul, |one, other| one * other, "product"),
];

/// Generates bounds, of which every other one is small enough that its products fit.
fn bound() -> impl Strategy<Value = i8> {
    prop_oneof![any::<i8>(), -9..=9_i8]
}

/// Returns all pairs of values of two intervals.
fn pairs(one: Interval<i8>, other: Interval<i8>) -> impl Iterator<Item = (i8, i8)> {
    let ((a, b), (c, d)) = (one.bounds(), other.bounds());
    (a..=b).flat_map(move |x| (c..=d).map(move |y| (x, y)))
}

proptest! {
    /// An answer is yes or no exactly if all values give this answer.
    #[test]
    fn answers_hold_for_all_values(a: i8, b: i8, c: i8, d: i8) {
        let (one, other) = (interval(a, b), interval(c, d));
        for (compare, on_values, what) in COMPARISONS {
            let holds = pairs(one, other).filter(|(x, y)| on_values(x, y)).count();
            let all = pairs(one, other).count();
            let found = compare(one, other);
            prop_assert_eq!(name(found), name(expected(holds, all - holds)), "{} {}", one, what);
        }
    }

    /// Results are the smallest intervals that contain the results for all values; overflow is
    /// reported exactly if one of them does not fit.
    #[test]
    fn arithmetic_contains_all_results(a in bound(), b in bound(), c in bound(), d in bound()) {
        let (one, other) = (interval(a, b), interval(c, d));
        for (compute, on_values, what) in ARITHMETIC {
            let results = || pairs(one, other).map(|(x, y)| on_values(x.into(), y.into()));
            let (min, max) = (results().min().unwrap(), results().max().unwrap());
            match (i8::try_from(min), i8::try_from(max), compute(one, other)) {
                (Ok(min), Ok(max), Ok(found)) => prop_assert_eq!(found.bounds(), (min, max)),
                (Ok(_), Ok(_), Err(error)) => prop_assert!(false, "{}", error),
                (_, _, found) => {
                    let error = found.unwrap_err().to_string();
                    prop_assert!(error.contains(what) && error.contains("i8"), "{}", error);
                }
            }
        }
    }

    #[test]
    fn no_bounds_make_arithmetic_panic(a: i64, b: i64, c: i64, d: i64) {
        let (one, other) = (interval(a, b), interval(c, d));
        let wide = |(min, max): (i64, i64)| (i128::from(min), i128::from(max));
        let ((a, b), (c, d)) = (wide(one.bounds()), wide(other.bounds()));
        let fits = |min: i128, max: i128| i64::try_from(min).is_ok() && i64::try_from(max).is_ok();
        prop_assert_eq!(one.checked_add(other).is_ok(), fits(a + c, b + d));
        prop_assert_eq!(one.checked_sub(other).is_ok(), fits(a - d, b - c));
        match one.checked_neg() {
            Ok(negated) => prop_assert_eq!(wide(negated.bounds()), (-b, -a)),
            Err(_) => prop_assert!(!fits(-b, -a)),
        }
        let products = [a * c, a * d, b * c, b * d];
        let (min, max) = (products.iter().min().unwrap(), products.iter().max().unwrap());
        prop_assert_eq!(one.checked_mul(other).is_ok(), fits(*min, *max));
        prop_assert_eq!(i128::from(one.width()), b - a);
    }

    #[test]
    fn combined_answers_hold_for_all_values(a: i8, b: i8, c: i8, d: i8) {
        let (value, (low, high)) = (interval(a, b), interval(c, d).bounds());
        let inside = value.at_least(low).and(value.at_most(high));
        let (holds, fails): (Vec<i8>, Vec<i8>) =
            (value.min()..=value.max()).partition(|value| low <= *value && *value <= high);
        prop_assert_eq!(name(inside), name(expected(holds.len(), fails.len())));
        let outside = value.less_than(low).or(value.greater_than(high));
        prop_assert_eq!(name(outside), name(!inside));
    }
}

#[test]
fn each_pair_of_answers_is_combined() {
    use Answer::{No, Perhaps, Yes};
    for (one, other, and, or) in [
        (Yes, Yes, Yes, Yes),
        (Yes, Perhaps, Perhaps, Yes),
        (Yes, No, No, Yes),
        (Perhaps, Perhaps, Perhaps, Perhaps),
        (Perhaps, No, No, Perhaps),
        (No, No, No, No),
    ] {
        for (one, other) in [(one, other), (other, one)] {
            assert_eq!(name(one.and(other)), name(and), "{one:?} and {other:?}");
            assert_eq!(name(one.or(other)), name(or), "{one:?} or {other:?}");
        }
    }
}

#[test]
fn yes_and_no_are_facts_and_perhaps_is_weak() {
    for (answer, level, chosen) in [
        (Answer::Yes, Level::Linearizable, "yes"),
        (Answer::No, Level::Linearizable, "no"),
        (Answer::Perhaps, Level::Eventual, "perhaps"),
    ] {
        assert_eq!(answer.level(), level);
        let labelled: Rushed<&str> = answer.choose("yes", "no", "perhaps");
        assert_eq!((labelled.level(), *labelled.weaken().endorse()), (level, chosen));
    }
    // An interval that holds in a causal snapshot only gives answers of that level.
    let count = Causal::new(interval(3, 5));
    let enough: Causal<Answer> = count.map(|count| count.at_least(3));
    assert!(matches!(*enough.endorse(), Answer::Yes));
}

#[test]
fn bounds_are_checked_and_shown() {
    let count = Interval::new(-5_i64, 7).unwrap();
    assert_eq!((count.min(), count.max(), count.width()), (-5, 7, 12));
    assert_eq!(format!("{count} {count:?}"), "[-5, 7] [-5, 7]");
    assert!(count.contains(-5) && count.contains(7) && !count.contains(8));
    assert!(count.value().is_none());
    assert_eq!(Interval::exact(4).value(), Some(4.into()));
    let all = Interval::new(i64::MIN, i64::MAX).unwrap();
    assert_eq!(all.width(), u64::MAX);
    assert!(all.checked_neg().is_err() && all.checked_add(1).is_err());
    assert!(all.checked_mul(-1).is_err() && all.checked_mul(0).is_ok());
    assert!(Interval::exact(3_u32).checked_sub(5).is_err());
    let reversed = Interval::new(2, 1).unwrap_err();
    assert_eq!(reversed.to_string(), "an interval cannot begin at 2 and end at 1, which is less");
}
