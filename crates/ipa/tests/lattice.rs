//! Compares the order, the joins and the meets of levels as types with those of `solera_levels`,
//! and checks which traits values of each level implement.

use std::marker::PhantomData;

use solera_ipa::level::{
    AtLeast, Causal, Eventual, Join, LevelMarker, Linearizable, LocalQuorum, Meet, PcPsi, Por,
    Quorum, Speculative,
};
use solera_ipa::{Answer, At, Interval, Rushed};
use solera_levels::{Lattice, Level};

/// Returns whether a type implements a trait.
macro_rules! implements {
    ($type:ty: $($bound:tt)+) => {{
        #[allow(dead_code, reason = "the type has no values")]
        struct Type<T>(PhantomData<T>);
        #[allow(dead_code, reason = "it is used if the type does not implement the trait")]
        trait Otherwise {
            const HOLDS: bool = false;
        }
        impl<T> Otherwise for Type<T> {}
        // Where its bound holds, this constant is used instead of that of the trait.
        #[allow(dead_code, reason = "it is used if the type implements the trait")]
        impl<T: $($bound)+> Type<T> {
            const HOLDS: bool = true;
        }
        <Type<$type>>::HOLDS
    }};
}

/// Calls a macro with each of the levels.
macro_rules! each_level {
    ($macro:ident $($more:ident)?) => {
        each_level!($macro $($more)?: Linearizable Por PcPsi Quorum LocalQuorum Causal Speculative
            Eventual)
    };
    ($macro:ident $more:ident: $($level:ident)*) => {$($macro!($more $level);)*};
    ($macro:ident: $($level:ident)*) => {$($macro!($level);)*};
}

#[test]
fn there_is_a_type_for_each_level() {
    let mut found = Vec::new();
    macro_rules! note {
        ($level:ident) => {
            found.push($level::LEVEL)
        };
    }
    each_level!(note);
    assert_eq!(found, Level::ALL);
}

#[test]
fn order_joins_and_meets_are_those_of_the_lattice() {
    let lattice = Lattice::builtin();
    let mut pairs = 0;
    macro_rules! compare {
        ($one:ident $other:ident) => {{
            let (one, other) = ($one::LEVEL, $other::LEVEL);
            let join = <Join<$one, $other> as LevelMarker>::LEVEL;
            assert_eq!(join, one.join(other), "{one} {other}");
            let [one_label, other_label] = [one, other].map(|level| lattice.of(level));
            assert_eq!(lattice.of(join), lattice.join(one_label, other_label), "{one} {other}");
            let meet = <Meet<$one, $other> as LevelMarker>::LEVEL;
            assert_eq!(meet, one.meet(other), "{one} {other}");
            assert_eq!(lattice.of(meet), lattice.meet(one_label, other_label), "{one} {other}");
            let is_at_least = implements!($one: AtLeast<$other>);
            assert_eq!(is_at_least, one.at_least(other), "{one} {other}");
            assert_eq!(is_at_least, lattice.at_least(one_label, other_label), "{one} {other}");
            let converts = implements!(At<u8, $other>: From<At<u8, $one>>);
            assert_eq!(converts, is_at_least, "{one} {other}");
            pairs += 1;
        }};
    }
    macro_rules! with_others {
        ($one:ident) => {
            each_level!(compare $one)
        };
    }
    each_level!(with_others);
    assert_eq!(pairs, Level::ALL.len() * Level::ALL.len());
}

/// IPA §3.4. Each assertion compares with the strongest level, so that it fails for the intended
/// reason.
#[test]
fn only_values_of_the_strongest_level_can_be_seen() {
    macro_rules! check {
        ($level:ident) => {{
            let is_visible = $level::LEVEL == Level::Linearizable;
            for (is_implemented, of) in [
                (implements!(At<i64, $level>: std::ops::Deref), "Deref"),
                (implements!(At<i64, $level>: std::fmt::Display), "Display"),
                (implements!(At<i64, $level>: PartialEq), "PartialEq"),
                (implements!(At<i64, $level>: Eq), "Eq"),
                (implements!(At<i64, $level>: PartialOrd), "PartialOrd"),
                (implements!(At<i64, $level>: Ord), "Ord"),
                (implements!(At<i64, $level>: std::hash::Hash), "Hash"),
            ] {
                assert_eq!(is_implemented, is_visible, "{of} at {}", $level::LEVEL);
            }
            for (is_implemented, of) in [
                (implements!(At<i64, $level>: std::ops::DerefMut), "DerefMut"),
                (implements!(At<i64, $level>: PartialEq<i64>), "PartialEq<i64>"),
                (implements!(At<i64, $level>: PartialOrd<i64>), "PartialOrd<i64>"),
                (implements!(At<i64, $level>: AsRef<i64>), "AsRef"),
                (implements!(At<i64, $level>: std::borrow::Borrow<i64>), "Borrow"),
                (implements!(At<i64, $level>: Into<i64>), "Into"),
                (implements!(At<bool, $level>: std::ops::Not), "Not"),
                (implements!(At<i64, $level>: std::ops::Div), "Div"),
                (implements!(At<[u8; 1], $level>: IntoIterator), "IntoIterator"),
                (implements!(At<[u8; 1], $level>: std::ops::Index<usize>), "Index"),
            ] {
                assert!(!is_implemented, "{of} at {}", $level::LEVEL);
            }
            assert!(implements!(At<i64, $level>: Clone) && implements!(At<i64, $level>: Copy));
            assert!(implements!(At<i64, $level>: Send) && implements!(At<i64, $level>: Sync));
        }};
    }
    each_level!(check);
}

#[test]
fn debug_of_a_weak_value_shows_its_level_alone() {
    macro_rules! check {
        ($level:ident) => {{
            let shown = format!("{:?} {:#?}", At::<_, $level>::new(7), At::<_, $level>::new(7));
            match $level::LEVEL {
                Level::Linearizable => assert_eq!(shown, "7 7"),
                weak => assert_eq!(shown, format!("{weak}(..) {weak}(..)")),
            }
        }};
    }
    each_level!(check);
    let weak: Rushed<i64> = At::<_, Causal>::new(7).into();
    assert_eq!(format!("{weak:?}"), "Causal(causal(..))");
}

/// The same traits are implemented for integers, so the question is asked correctly.
#[test]
fn intervals_and_answers_are_not_compared_to_a_bool() {
    assert!(implements!(i64: PartialEq) && implements!(i64: PartialOrd));
    assert!(implements!(i64: PartialEq<i64>) && implements!(i64: PartialOrd<i64>));
    assert!(!implements!(Interval<i64>: PartialEq) && !implements!(Interval<i64>: PartialOrd));
    assert!(!implements!(Interval<i64>: PartialEq<i64>));
    assert!(!implements!(Interval<i64>: PartialOrd<i64>));
    assert!(!implements!(i64: PartialEq<Interval<i64>>));
    assert!(!implements!(i64: PartialOrd<Interval<i64>>));
    assert!(!implements!(Interval<i64>: std::ops::Deref));
    assert!(!implements!(Interval<i64>: std::ops::Add<i64>));
    assert!(!implements!(Answer: PartialEq) && !implements!(Answer: Into<bool>));
    assert!(implements!(bool: Into<bool>));
}
