//! Values with levels, and values of levels that are known only at run time.

use proptest::prelude::*;
use solera_ipa::level::{self, LevelMarker};
use solera_ipa::{
    At, Causal, Consistent, Inconsistent, LocalQuorum, PcPsi, Por, Quorum, Rushed, Speculative,
};
use solera_levels::Level;

/// Accepts values of any level that is at least `quorum`.
fn fresh(value: impl Into<Quorum<i64>>) -> Quorum<i64> {
    value.into()
}

#[test]
fn a_consistent_value_is_used_like_the_value() {
    let name = Consistent::new("Ann".to_owned());
    assert_eq!(name.len(), 3);
    assert_eq!(format!("{name} {name:?} {name:>4}"), "Ann \"Ann\"  Ann");
    assert_eq!(name, "Ann".to_owned().into());
    assert!(Consistent::new(1) < Consistent::new(2));
    assert_eq!(name.into_inner(), "Ann");
}

#[test]
fn a_weaker_value_is_accepted_where_it_suffices() {
    assert_eq!(fresh(Consistent::new(1)).endorse(), 1.into());
    assert_eq!(fresh(Quorum::new(1)).endorse(), 1.into());
    let local: LocalQuorum<i64> = fresh(Quorum::new(1)).into();
    let any: Inconsistent<i64> = local.weaken();
    assert_eq!(any.level(), Level::Eventual);
    assert_eq!(*any.endorse(), 1);
}

#[test]
fn mixed_values_have_the_join() {
    let one: Causal<i64> = Por::new(1_i64) + PcPsi::new(2);
    let two: LocalQuorum<i64> = Quorum::new(5_i64) - LocalQuorum::new(1);
    let three: Inconsistent<(i64, i64)> = one.zip(two);
    assert_eq!(*three.endorse(), (3, 4));
    let four: Causal<i64> = -one * Consistent::new(2);
    assert_eq!(*four.endorse(), -6);
    let name: Inconsistent<String> = Quorum::new(2)
        .and_then(|id| Speculative::new(format!("user {id}")))
        .map2(Quorum::new('!'), |name, end| format!("{name}{end}"));
    assert_eq!(*name.as_ref().endorse(), "user 2!");
}

/// IPA §3.4.1.
#[test]
fn a_rushed_value_knows_its_level() {
    for (read, level) in [
        (Rushed::from(Consistent::new(1)), Level::Linearizable),
        (Por::new(1).into(), Level::Por),
        (Quorum::new(1).into(), Level::Quorum),
        (LocalQuorum::new(1).into(), Level::LocalQuorum),
        (Causal::new(1).into(), Level::Causal),
        (Inconsistent::new(1).into(), Level::Eventual),
    ] {
        assert_eq!(read.level(), level);
        let next = read.map(|value| value + 1);
        assert_eq!((next.level(), *next.weaken().endorse()), (level, 2));
    }
}

/// Checks a conversion of each rushed value to one of a level.
fn check_at_least<L: LevelMarker>() {
    for read in [
        Rushed::Consistent(At::new(1)),
        Rushed::Por(At::new(1)),
        Rushed::Quorum(At::new(1)),
        Rushed::LocalQuorum(At::new(1)),
        Rushed::Causal(At::new(1)),
        Rushed::Inconsistent(At::new(1)),
    ] {
        match read.at_least::<L>() {
            Ok(value) => {
                assert!(read.level().at_least(L::LEVEL), "{read:?} {}", L::LEVEL);
                assert_eq!(value.endorse(), 1.into());
            }
            Err(same) => {
                assert!(!read.level().at_least(L::LEVEL), "{read:?} {}", L::LEVEL);
                assert_eq!(same.level(), read.level());
            }
        }
    }
}

#[test]
fn a_rushed_value_has_each_level_that_it_is_at_least() {
    check_at_least::<level::Linearizable>();
    check_at_least::<level::Por>();
    check_at_least::<level::PcPsi>();
    check_at_least::<level::Quorum>();
    check_at_least::<level::LocalQuorum>();
    check_at_least::<level::Causal>();
    check_at_least::<level::Speculative>();
    check_at_least::<level::Eventual>();
}

proptest! {
    /// Labels do not change results.
    #[test]
    fn labelled_values_are_computed_like_plain_ones(a: i32, b: i32, c: i32) {
        let (a, b, c) = (i64::from(a), i64::from(b), i64::from(c));
        let sum = Quorum::new(a) + Causal::new(b) - Por::new(c);
        prop_assert_eq!(*sum.endorse(), a + b - c);
        let product = PcPsi::new(a).map2(Consistent::new(b), |a, b| a * b);
        prop_assert_eq!(*product.endorse(), a * b);
    }
}
