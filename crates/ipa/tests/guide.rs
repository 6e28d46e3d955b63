//! Rust code of the guide, in `docs/guide/rust.md`. `tests/guide/run` checks that the page shows
//! parts of this file.

use solera_ipa::{Answer, Causal, Consistent, Interval, Overflow, Quorum, Rushed};

/// Returns whether the tickets that are left suffice. They must be counted at level `quorum` or a
/// stronger one.
fn enough(left: impl Into<Quorum<i64>>, wanted: i64) -> Quorum<bool> {
    left.into().map(|left| left >= wanted)
}

#[test]
fn values_state_their_levels() {
    let counted = Quorum::new(12_i64);
    let reserved = Consistent::new(2_i64);
    let left: Quorum<i64> = counted - reserved;
    let shown: Quorum<String> = left.map(|left| format!("{left} left"));
    assert_eq!(format!("{shown:?}"), "quorum(..)");
    assert!(*enough(left, 10).endorse());
    assert!(*enough(Consistent::new(10), 10).endorse());
}

fn show(left: Rushed<i64>) -> String {
    match left {
        Rushed::Consistent(left) => format!("{left} left"),
        Rushed::Quorum(left) => format!("{} left a moment ago", left.endorse()),
        rest => format!("about {} left", rest.weaken().endorse()),
    }
}

#[test]
fn a_rushed_value_is_matched() {
    assert_eq!(show(Consistent::new(7).into()), "7 left");
    assert_eq!(show(Quorum::new(7).into()), "7 left a moment ago");
    assert_eq!(show(Causal::new(7).into()), "about 7 left");
}

fn sell(left: Interval<i64>, wanted: i64) -> Result<&'static str, Overflow> {
    let after = left.checked_sub(wanted)?;
    Ok(match after.at_least(0) {
        Answer::Yes => "sold",
        Answer::No => "not enough tickets",
        Answer::Perhaps => "ask all sites first",
    })
}

#[test]
fn an_interval_gives_three_answers() {
    let left = Interval::new(95, 105).unwrap();
    assert_eq!(sell(left, 95), Ok("sold"));
    assert_eq!(sell(left, 106), Ok("not enough tickets"));
    assert_eq!(sell(left, 100), Ok("ask all sites first"));
    assert!(sell(Interval::exact(i64::MIN), 1).is_err());
}
