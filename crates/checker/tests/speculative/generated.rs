//! Histories of a simulated space.

use std::collections::{BTreeMap, BTreeSet};

use solera_checker::speculative::{History, ReplyKind, check};

use crate::space::{Rule, simulate};

/// Returns the seeds of a test: those of `SEEDS=FROM..TO`, or a fixed range.
pub(crate) fn seeds(fixed: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(given) = std::env::var("SEEDS") else { return fixed };
    let (from, to) = given.split_once("..").expect("SEEDS=FROM..TO");
    from.parse().unwrap()..to.parse().unwrap()
}

#[test]
fn correct_spaces_have_no_violations() {
    let (mut revised, mut stable, mut tentative) = (0, 0, 0);
    for seed in seeds(0..60) {
        let history = simulate(seed, 600, None);
        let violations = check(&history);
        assert!(violations.is_empty(), "seed {seed}: {}\n{history}", violations[0]);
        let again: History = history.to_string().parse().unwrap();
        assert!(again == history, "seed {seed}");
        let replies = history.operations.iter().flat_map(|operation| &operation.replies);
        for reply in replies {
            revised += usize::from(reply.kind == ReplyKind::Revised);
            stable += usize::from(reply.kind == ReplyKind::Stable);
            tentative += reply.order.tentative.len();
        }
    }
    assert!(revised > 100 && stable > 1000 && tentative > 10_000, "{revised} {stable} {tentative}");
}

/// Returns the kinds of violations of a history: their texts up to the colon.
pub(crate) fn kinds(history: &History) -> BTreeSet<String> {
    let texts = check(history).into_iter().map(|violation| violation.to_string());
    texts.map(|text| text.split_once(':').unwrap().0.to_owned()).collect()
}

#[test]
fn each_rule_is_needed() {
    let cases: &[(Rule, &[&str])] = &[
        (Rule::Context, &["context"]),
        (Rule::Stabilise, &["context"]),
        (Rule::Snapshot, &["circle"]),
        (Rule::Hide, &["circle"]),
        (Rule::Attach, &["session forgets"]),
        (Rule::Relay, &["lost"]),
        (Rule::CastOrder, &["order of a run"]),
        (Rule::Decisions, &["no prefix"]),
        (Rule::Clock, &["context", "tentative order"]),
        (Rule::Rollback, &["wrong stable result", "wrong result"]),
    ];
    for (rule, expected) in cases {
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for seed in seeds(0..25) {
            for kind in kinds(&simulate(seed, 600, Some(*rule))) {
                *found.entry(kind).or_default() += 1;
            }
        }
        println!("{rule:?}: {found:?}");
        for kind in *expected {
            assert!(found.contains_key(*kind), "{rule:?}: {found:?}");
        }
    }
}
