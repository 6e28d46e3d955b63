//! Small histories, valid and invalid: the checkers report each anomaly under its own name.
//!
//! `T(session, site).on([..]).commits(time)` with operations written as they are read.

use solera_checker::{
    Answer, FinalRead, History, Level, Op, Operation, Origin, Status, Transaction, Violation,
    Witness, check,
};

struct T(Transaction);

fn t(session: usize, site: usize) -> T {
    T(Transaction {
        session,
        site,
        status: Status::Committed,
        operations: Vec::new(),
        witness: None,
        interval: None,
        lost: false,
    })
}

impl T {
    fn on(mut self, snapshot: [u64; 2]) -> Self {
        self.0.witness = Some(Witness { snapshot: snapshot.to_vec(), strong: 0, dot: None });
        self
    }

    fn commits(mut self, time: u64) -> Self {
        let site = self.0.site;
        self.0.witness.as_mut().unwrap().dot = Some((time, Origin::Site(site)));
        self
    }

    fn does(mut self, key: &str, op: Op, answer: Answer) -> Self {
        let answer = Some(answer);
        self.0.operations.push(Operation { key: key.into(), op, answer, level: Level::Causal });
        self
    }

    fn adds(self, key: &str, element: &str) -> Self {
        self.does(key, Op::SetAdd(vec![element.into()]), Answer::Int(1))
    }

    fn reads(self, key: &str, elements: &[&str]) -> Self {
        let members = elements.iter().map(|element| (*element).to_owned()).collect();
        self.does(key, Op::Members, Answer::Members(members))
    }

    fn sets(self, key: &str, value: &str) -> Self {
        self.does(key, Op::Set(value.into()), Answer::Ok)
    }

    fn gets(self, key: &str, value: Option<&str>) -> Self {
        self.does(key, Op::Get, Answer::Values(vec![value.map(str::to_owned)]))
    }
}

fn history(transactions: impl IntoIterator<Item = T>) -> History {
    let transactions = transactions.into_iter().map(|t| t.0).collect();
    History { sites: 2, transactions, ..History::default() }
}

/// Returns the violations of a history, which must be of one kind.
fn caught(transactions: impl IntoIterator<Item = T>, kind: impl Fn(&Violation) -> bool) {
    let violations = check(&history(transactions));
    assert!(violations.iter().any(kind), "{violations:?}");
}

#[test]
fn good_histories_pass() {
    let good = [
        t(0, 0).on([0, 0]).commits(1).adds("a", "x").sets("r", "5"),
        t(0, 0).on([1, 0]).reads("a", &["x"]).gets("r", Some("5")),
        t(1, 1).on([0, 0]).commits(1).adds("a", "y"),
        t(1, 1).on([1, 1]).commits(2).does("r", Op::Add(2), Answer::Int(7)),
        t(2, 0).on([1, 2]).reads("a", &["x", "y"]).gets("r", Some("7")),
    ];
    assert_eq!(check(&history(good)), []);
}

#[test]
fn a_wrong_answer_is_caught_for_every_type() {
    let write = |op, answer| t(0, 0).on([0, 0]).commits(1).does("k", op, answer);
    let read = |op, answer| t(1, 0).on([1, 0]).does("k", op, answer);
    let wrong = |violation: &Violation| matches!(violation, Violation::WrongAnswer { .. });
    let values = |value: &str| Answer::Values(vec![Some(value.to_owned())]);
    let field = || Op::FieldSet("f".into(), "1".into());
    caught([write(Op::Set("1".into()), Answer::Ok), read(Op::Get, values("2"))], wrong);
    caught([write(Op::Add(1), Answer::Int(1)), read(Op::Get, values("2"))], wrong);
    caught(
        [write(field(), Answer::Int(1)), read(Op::Fields(vec!["f".into()]), values("2"))],
        wrong,
    );
    let add = Op::SetAdd(vec!["x".into()]);
    caught([write(add, Answer::Int(1)), read(Op::Len, Answer::Int(2))], wrong);
}

#[test]
fn an_add_wins_and_an_observed_removal_removes() {
    let add = |session, site, snapshot, time| t(session, site).on(snapshot).commits(time);
    let remove = |answer| (Op::SetRemove(vec!["x".into()]), Answer::Int(answer));
    let (op, answer) = remove(1);
    let concurrent = [
        add(0, 0, [0, 0], 1).adds("a", "x"),
        add(1, 1, [1, 0], 2).does("a", op.clone(), answer.clone()),
        add(0, 0, [1, 0], 2).does("a", Op::SetAdd(vec!["x".into()]), Answer::Int(0)),
        t(2, 0).on([2, 2]).reads("a", &["x"]),
    ];
    assert_eq!(check(&history(concurrent)), []);
    let observed = [
        add(0, 0, [0, 0], 1).adds("a", "x"),
        add(1, 1, [1, 0], 2).does("a", op, answer),
        t(2, 0).on([1, 2]).reads("a", &["x"]),
    ];
    caught(observed, |violation| matches!(violation, Violation::WrongAnswer { .. }));
}

#[test]
fn a_lost_own_write_is_caught() {
    let lost = [t(0, 0).on([0, 0]).commits(1).adds("a", "x"), t(0, 1).on([0, 0]).reads("a", &[])];
    let violations = check(&history(lost));
    assert!(violations.contains(&Violation::SessionOrder { earlier: 0, later: 1 }));
    let stale = Violation::StaleRead { reader: 1, writer: 0, key: "a".into() };
    assert!(violations.contains(&stale), "the black box sees it too: {violations:?}");
}

#[test]
fn a_read_that_goes_back_is_caught() {
    let back = [
        t(0, 0).on([0, 0]).commits(1).adds("a", "x"),
        t(1, 1).on([1, 0]).reads("a", &["x"]),
        t(1, 1).on([0, 0]).reads("b", &[]),
    ];
    caught(back, |violation| matches!(violation, Violation::NonMonotonicRead { write: 0, .. }));
}

#[test]
fn a_dependency_left_behind_is_caught() {
    let left = [
        t(0, 0).on([0, 0]).commits(1).adds("a", "x"),
        t(1, 1).on([1, 0]).commits(2).reads("a", &["x"]).adds("b", "y"),
        t(2, 0).on([0, 2]).reads("b", &[]),
    ];
    // The claimed snapshot has the second transaction without the first: then it does not cover the
    // second one at all.
    assert_eq!(check(&history(left)), []);
    let read = [
        t(0, 0).on([0, 0]).commits(1).adds("a", "x"),
        t(1, 1).on([1, 0]).commits(2).reads("a", &["x"]).adds("b", "y"),
        t(2, 0).on([0, 2]).reads("b", &["y"]).reads("a", &[]),
    ];
    caught(read, |violation| {
        matches!(violation, Violation::StaleRead { reader: 2, writer: 0, .. })
    });
}

#[test]
fn a_fractured_read_is_caught() {
    let fractured = [
        t(0, 0).on([0, 0]).commits(1).adds("a", "x").adds("b", "y"),
        t(1, 0).on([1, 0]).reads("a", &["x"]).reads("b", &[]),
    ];
    caught(fractured, |violation| {
        matches!(violation, Violation::FracturedRead { reader: 1, writer: 0, .. })
    });
}

#[test]
fn thin_air_and_cycles_are_caught() {
    let thin = [t(0, 0).on([0, 0]).reads("a", &["ghost"])];
    caught(thin, |violation| matches!(violation, Violation::ThinAir { transaction: 0, .. }));
    let cycle = [
        t(0, 0).on([0, 0]).commits(1).reads("b", &["y"]).adds("a", "x"),
        t(1, 1).on([0, 0]).commits(1).reads("a", &["x"]).adds("b", "y"),
    ];
    caught(cycle, |violation| matches!(violation, Violation::CyclicCausality { .. }));
}

#[test]
fn places_must_be_unique_and_in_time() {
    let same = [
        t(0, 0).on([0, 0]).commits(1).adds("a", "x"),
        t(1, 0).on([0, 0]).commits(1).adds("a", "y"),
    ];
    caught(same, |violation| matches!(violation, Violation::SameDot { .. }));
    let early = [
        t(0, 0).on([0, 0]).commits(9).adds("a", "x"),
        t(1, 1).on([9, 0]).commits(3).adds("b", "y"),
    ];
    caught(early, |violation| matches!(violation, Violation::TimeAgainstCausality { .. }));
}

#[test]
fn divergence_and_loss_are_caught() {
    let nothing = Answer::Values(vec![None]);
    let read = |site, elements: &[&str]| FinalRead {
        site,
        key: "a".into(),
        answers: [
            if elements.is_empty() { nothing.clone() } else { Answer::Error },
            Answer::Members(elements.iter().map(|e| (*e).to_owned()).collect()),
            if elements.is_empty() { Answer::Pairs(vec![]) } else { Answer::Error },
        ],
    };
    let written = || history([t(0, 0).on([0, 0]).commits(1).adds("a", "x")]);
    let judged = |finals: Vec<FinalRead>| check(&History { finals, ..written() });
    assert_eq!(judged(vec![read(0, &["x"]), read(1, &["x"])]), []);
    let diverged = judged(vec![read(0, &["x"]), read(1, &[])]);
    let (gone_somewhere, differs) =
        (Violation::Lost { transaction: 0 }, |violation: &Violation| {
            matches!(violation, Violation::Divergence { .. })
        });
    assert!(diverged.contains(&gone_somewhere) && diverged.iter().any(differs), "{diverged:?}");
    let gone = judged(vec![read(0, &[]), read(1, &[])]);
    let wrong = |violation: &Violation| matches!(violation, Violation::WrongFinalState { .. });
    assert!(gone.contains(&gone_somewhere) && gone.iter().any(wrong), "{gone:?}");

    let mut lost = written();
    lost.transactions[0].lost = true;
    lost.finals = vec![read(1, &[])];
    assert_eq!(check(&lost), [Violation::Lost { transaction: 0 }]);
    lost.destroyed = vec![0];
    assert_eq!(check(&lost), [], "a destroyed site may take its last transactions with it");
}

mod properties {
    use solera_checker::properties::{Access, Broken, Ledger, Vectors};
    use solera_checker::{Origin, Witness};

    fn vectors(known: [[u64; 2]; 2], stable: [[u64; 2]; 2], uniform: [[u64; 2]; 2]) -> Vectors {
        let one = |vector: [u64; 2]| vec![vector.to_vec()];
        Vectors {
            known_vec: known.map(one).to_vec(),
            stable_vec: stable.map(one).to_vec(),
            uniform_vec: uniform.map(one).to_vec(),
            ..Vectors::default()
        }
    }

    #[test]
    fn each_property_is_noticed_when_broken() {
        let zero = [[0, 0]; 2];
        let mut ledger = Ledger::new(2, 1);
        ledger.committed(0, 5, vec![5, 0], &[0]);
        ledger.stored(0, 0, 0, 5);
        let all_at_origin = [[5, 0], [0, 0]];
        assert_eq!(ledger.check(&vectors(all_at_origin, all_at_origin, zero)), Ok(()));
        let known = ledger.check(&vectors([[5, 0], [5, 0]], zero, zero));
        assert_eq!(known, Err(Broken::Known { replica: (1, 0), origin: Origin::Site(0), time: 5 }));
        let stable = ledger.check(&vectors(all_at_origin, [[6, 0], [0, 0]], zero));
        assert_eq!(stable, Err(Broken::Stable { site: 0, partition: 0, origin: Origin::Site(0) }));
        let uniform = ledger.check(&vectors(all_at_origin, zero, all_at_origin));
        assert_eq!(uniform, Err(Broken::Uniform { site: 0, origin: 0 }));
        ledger.stored(1, 0, 0, 5);
        assert_eq!(ledger.check(&vectors([[5, 0]; 2], [[5, 0]; 2], [[5, 0]; 2])), Ok(()));
    }

    #[test]
    fn a_uniform_transaction_that_too_few_sites_store_is_noticed() {
        // It wrote a partition whose vectors are not given, so Properties 1–3 do not apply.
        let mut ledger = Ledger::new(2, 1);
        ledger.committed(0, 5, vec![5, 0], &[1]);
        ledger.stored(0, 1, 0, 5);
        let all = [[5, 0]; 2];
        let broken = Broken::NotUniform { site: 0, origin: 0, time: 5 };
        assert_eq!(ledger.check(&vectors(all, all, all)), Err(broken));
        ledger.stored(1, 1, 0, 5);
        assert_eq!(ledger.check(&vectors(all, all, all)), Ok(()));
    }

    #[test]
    fn vectors_that_are_not_given_claim_nothing_and_back_nothing() {
        let mut ledger = Ledger::new(2, 1);
        ledger.committed(0, 5, vec![5, 0], &[0]);
        assert_eq!(ledger.check(&Vectors::default()), Ok(()));
        let claim = Vectors { uniform_vec: vec![vec![vec![1, 0]]], ..Vectors::default() };
        assert_eq!(ledger.check(&claim), Err(Broken::Uniform { site: 0, origin: 0 }));
    }

    #[test]
    fn a_strong_transaction_that_a_replica_claims_and_misses_is_noticed() {
        let claims = |known: [[u64; 2]; 2], stable: [[u64; 1]; 2]| Vectors {
            known_strong: known.map(|site| site.to_vec()).to_vec(),
            stable_strong: stable.map(|site| site.to_vec()).to_vec(),
            ..Vectors::default()
        };
        let mut ledger = Ledger::new(2, 1);
        // Some replicas report that they store a transaction before its commit is reported.
        ledger.stored(0, 0, Origin::Strong, 5);
        ledger.committed(Origin::Strong, 5, vec![0, 0], &[0, 1]);
        assert_eq!(ledger.check(&claims([[5, 4], [4, 4]], [[4], [4]])), Ok(()));
        let missing = |replica| Err(Broken::Known { replica, origin: Origin::Strong, time: 5 });
        assert_eq!(ledger.check(&claims([[5, 5], [4, 4]], [[4], [4]])), missing((0, 1)));
        assert_eq!(ledger.check(&claims([[5, 4], [5, 4]], [[4], [4]])), missing((1, 0)));
        let ahead = Broken::Stable { site: 0, partition: 1, origin: Origin::Strong };
        assert_eq!(ledger.check(&claims([[5, 4], [4, 4]], [[5], [4]])), Err(ahead));
        ledger.stored(0, 1, Origin::Strong, 5);
        ledger.filled_strong(1, 0, 5);
        assert_eq!(ledger.check(&claims([[5, 5], [5, 4]], [[5], [4]])), Ok(()));
        assert_eq!(ledger.check(&claims([[5, 5], [5, 5]], [[5], [4]])), missing((1, 1)));
    }

    fn certified(snapshot: [u64; 2], strong: u64, time: u64) -> Witness {
        Witness { snapshot: snapshot.to_vec(), strong, dot: Some((time, Origin::Strong)) }
    }

    fn access(key: &str, update: bool, kind: u8, conflicts: u64) -> Vec<Access> {
        vec![Access { key: key.into(), update, kind, conflicts }]
    }

    #[test]
    fn conflicting_strong_transactions_out_of_order_are_noticed() {
        let broken = |first, second| Err(Broken::Conflict { first, second, key: "k".into() });
        let mut ledger = Ledger::new(2, 1);
        let withdraw = || access("k", true, 1, 1 << 1);
        assert_eq!(ledger.certified(certified([3, 0], 0, 5), withdraw()), Ok(()));
        assert_eq!(ledger.certified(certified([3, 0], 5, 6), withdraw()), Ok(()));
        // Its strong entry covers the timestamps, but its snapshot lacks a transaction on which the
        // first depends.
        assert_eq!(ledger.certified(certified([0, 0], 6, 7), withdraw()), broken(5, 7));
        // Reports may come in any order.
        assert_eq!(ledger.certified(certified([9, 9], 0, 2), withdraw()), broken(2, 5));
        assert_eq!(
            ledger.certified(certified([9, 9], 5, 6), withdraw()),
            Err(Broken::SameTime { time: 6 })
        );
        // Other transactions do not conflict, by key or by kind.
        assert_eq!(ledger.certified(certified([0, 0], 0, 8), access("j", true, 1, 2)), Ok(()));
        assert_eq!(ledger.certified(certified([0, 0], 0, 9), access("k", true, 0, 1)), Ok(()));
        // It is enough that one of them declares the conflict.
        assert_eq!(
            ledger.certified(certified([0, 0], 0, 10), access("k", true, 2, 1)),
            broken(9, 10)
        );
    }

    #[test]
    fn a_read_must_see_and_need_not_be_seen() {
        let mut ledger = Ledger::new(2, 1);
        let read = || access("k", false, 0, 1 << 1);
        let write = || access("k", true, 1, 1 << 1);
        assert_eq!(ledger.certified(certified([0, 0], 0, 5), read()), Ok(()));
        assert_eq!(ledger.certified(certified([0, 0], 0, 6), write()), Ok(()));
        let broken = Broken::Conflict { first: 6, second: 7, key: "k".into() };
        assert_eq!(ledger.certified(certified([0, 0], 5, 7), read()), Err(broken));
    }
}
