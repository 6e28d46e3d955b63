//! Replicas converge to the declarative meaning of the types, for any number of replicas and any
//! causal delivery order. Every snapshot shows the meaning of the transactions that it contains.

mod declared;
mod world;

use declared::Meaning;
use proptest::prelude::*;
use solera_data::{Context, Dot, Op, OpError, Outcome, State, View, execute};
use solera_time::{SiteId, Timestamp, Vector};
use world::{World, all_reads, answers, any_ages, any_history, any_ops};

fn meaning(transactions: &[&world::Transaction]) -> Vec<Result<Outcome, OpError>> {
    let meaning = Meaning::of(transactions);
    all_reads().iter().map(|op| meaning.read(op)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn replicas_converge_to_the_declared_meaning((sites, steps) in any_history()) {
        let mut world = World::new(sites);
        steps.iter().for_each(|step| world.run(step));
        world.deliver_all();
        let declared = meaning(&world.transactions.iter().collect::<Vec<_>>());
        for (at, site) in world.sites.iter().enumerate() {
            prop_assert_eq!(&answers(&View::new(&site.arrived)), &declared);
            for bytes in [1, 100, 1000] {
                let parts = site.arrived.clone().split(bytes);
                let mut whole = State::new();
                parts.into_iter().for_each(|part| whole.absorb(part));
                prop_assert_eq!(&whole, &site.arrived);
            }
            let newest = world.snapshot(at, &[]);
            prop_assert_eq!(&world.at(at, &newest, answers), &declared);
        }
    }

    #[test]
    fn a_snapshot_shows_the_meaning_of_its_transactions(
        (sites, steps) in any_history(),
        at in 0usize..4,
        ages in any_ages(4),
    ) {
        let mut world = World::new(sites);
        steps.iter().for_each(|step| world.run(step));
        let at = at % sites;
        let snap = world.snapshot(at, &ages);
        prop_assert_eq!(world.at(at, &snap, answers), meaning(&world.within(&snap)));
    }

    #[test]
    fn a_transaction_reads_its_own_writes(
        (sites, steps) in any_history(),
        at in 0usize..4,
        ages in any_ages(4),
        ops in any_ops(),
    ) {
        let mut world = World::new(sites);
        steps.iter().for_each(|step| world.run(step));
        let at = at % sites;
        let observed = world.snapshot(at, &ages);
        let (own, read) = world.at(at, &observed, |view| {
            let (_, own) = World::compose(view, &ops);
            let read = answers(&view.own(own.as_ref()));
            (own, read)
        });
        // Other sites read the same, once they have the observed transactions and this one.
        let mut state = State::new();
        let mut seen = world.within(&observed);
        seen.sort_by_key(|transaction| transaction.dot);
        seen.iter().for_each(|t| state.apply(&t.effect, t.context()));
        let dot = Dot::of(SiteId(0), Timestamp(observed.max_entry().0 + 1));
        if let Some(effect) = &own {
            state.apply(effect, Context { dot, observed: &observed });
        }
        prop_assert_eq!(read, answers(&View::new(&state)));
    }
}

#[test]
fn an_add_wins_over_a_concurrent_removal() {
    let (mut one, mut two) = (State::new(), State::new());
    let zero = Vector::zero(2);
    let add = |state: &State, op| execute(&op, &View::new(state)).unwrap().1.unwrap();
    let first = Dot::of(SiteId(0), Timestamp(1));
    let added = add(&one, Op::SetAdd(vec!["x".into()]));
    let context = Context { dot: first, observed: &zero };
    one.apply(&added, context);
    two.apply(&added, context);
    // At the same time, one replica removes the element and the other adds it again.
    let seen = zero.with(SiteId(0), Timestamp(1));
    let removed = add(&one, Op::SetRemove(vec!["x".into()]));
    let again = add(&two, Op::SetAdd(vec!["x".into()]));
    let removal = Context { dot: Dot::of(SiteId(0), Timestamp(2)), observed: &seen };
    let addition = Context { dot: Dot::of(SiteId(1), Timestamp(2)), observed: &seen };
    one.apply(&removed, removal);
    one.apply(&again, addition);
    two.apply(&again, addition);
    two.apply(&removed, removal);
    for state in [&one, &two] {
        let outcome = execute(&Op::SetContains("x".into()), &View::new(state)).unwrap().0;
        assert_eq!(outcome, Outcome::Int(1));
    }
}

#[test]
fn an_old_but_unobserved_add_survives_a_removal() {
    // The add is old enough for the snapshot's entry, but was not within the snapshot.
    let zero = Vector::zero(2);
    let dot = Dot::of(SiteId(1), Timestamp(1));
    let mut state = State::new();
    let add = execute(&Op::SetAdd(vec!["x".into()]), &View::new(&state)).unwrap().1.unwrap();
    state.apply(&add, Context { dot, observed: &zero });
    let empty = State::new();
    let unseen = [dot];
    let view = View::with_pending(&empty, &[], &unseen);
    let set = execute(&Op::Set("v".into()), &view).unwrap().1.unwrap();
    let observed = zero.with(SiteId(1), Timestamp(5));
    let later = Dot::of(SiteId(0), Timestamp(6));
    state.apply(&set, Context { dot: later, observed: &observed });
    let members = execute(&Op::SetMembers, &View::new(&state)).unwrap().0;
    assert_eq!(members, Outcome::Members(vec!["x".into()]));
}
