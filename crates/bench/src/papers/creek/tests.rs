//! Small runs of all schemes.

use std::time::Duration;

use solera_creek::Scheme;

use super::measured::{Measured, OfClass};
use super::setting::Setting;
use super::world::run;

fn setting(scheme: Scheme) -> Setting {
    let ms = Duration::from_millis;
    let (warm_up, window) = (ms(10), ms(100));
    Setting { replicas: 3, cores: 2, warm_up, window, ..Setting::of(scheme, 1_500.0) }
}

/// Returns what does not depend on the real time of the run.
fn outcome(scheme: Scheme) -> String {
    let measured = run(&setting(scheme)).unwrap();
    format!("{:?}", Measured { machine: Duration::ZERO, ..measured })
}

const SCHEMES: [Scheme; 4] = [Scheme::Creek, Scheme::Archie, Scheme::Bayou, Scheme::Smr];

/// A run fails if replicas disagree, if a stable reply is not final, or if a consistency condition
/// is violated.
#[test]
fn all_schemes_keep_their_promises_and_no_reply_is_faster_than_an_execution() {
    for scheme in SCHEMES {
        let measured = run(&setting(scheme)).unwrap();
        // The backlog of so short a window varies too much for `is_sustained`.
        assert!(measured.backlog.1 < 50, "{measured}");
        assert!(measured.submitted() > 100, "{measured}");
        assert!(measured.execution_ratio() >= 1.0, "{measured}");
        let least = |of: &OfClass, cost: u64| {
            let least = of.first.quantile(0.0).unwrap();
            assert!(least >= Duration::from_micros(cost), "{measured}");
        };
        // The shortest executions take 20% less than the mean ones.
        least(&measured.strong, 80);
        least(&measured.update, 400);
        least(&measured.read_only, 400);
        // A stable reply takes at least a message to another replica and back. Bayou's primary
        // alone orders operations.
        let stable = measured.strong.stable.quantile(0.0).unwrap();
        let agrees = scheme != Scheme::Bayou;
        assert!(!agrees || stable >= Duration::from_micros(400), "{measured}");
        assert_eq!(measured.strong.stable.count(), measured.strong.count, "{measured}");
    }
}

#[test]
fn equal_seeds_give_equal_results() {
    for scheme in SCHEMES {
        assert_eq!(outcome(scheme), outcome(scheme));
    }
    let other = Setting { seed: 2, ..setting(Scheme::Creek) };
    assert_ne!(run(&other).unwrap().bytes, run(&setting(Scheme::Creek)).unwrap().bytes);
}

#[test]
fn loads_beyond_the_capacity_are_not_sustained() {
    for scheme in SCHEMES {
        let measured = run(&Setting { load: 15_000.0, ..setting(scheme) }).unwrap();
        assert!(!measured.is_sustained(), "{measured}");
        assert!(measured.backlog.1 > 100, "{measured}");
    }
}

#[test]
fn speculation_answers_before_agreement() {
    let measured = run(&setting(Scheme::Creek)).unwrap();
    let (first, stable) = (&measured.strong.first, &measured.strong.stable);
    assert!(first.quantile(0.5).unwrap() < Duration::from_micros(300), "{measured}");
    assert!(stable.quantile(0.5).unwrap() > Duration::from_micros(500), "{measured}");
    assert_eq!(measured.update.stable.count(), 0, "weak operations get one reply");
    assert!(measured.update.accuracy.percent() > 80.0, "{measured}");
}
