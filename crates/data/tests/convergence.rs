//! Any causal delivery order at any number of replicas converges, to what the declarative meaning of
//! the types says.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use solera_data::{Context, Dot, Effect, Op, Outcome, State, Value, View, execute};
use solera_time::{SiteId, Timestamp, Vector};

/// A step of a random history: a site executes operations as one transaction, or receives the next
/// transaction of another, if it has what that one observed.
#[derive(Clone, Debug)]
enum Step {
    Execute(usize, Vec<Op>),
    Deliver { at: usize, from: usize },
    Settle(usize),
}

#[derive(Clone, Debug)]
struct Transaction {
    dot: Dot,
    observed: Vector,
    /// The operations that were not refused.
    ops: Vec<Op>,
    effect: Effect,
}

impl Transaction {
    fn context(&self) -> Context<'_> {
        Context { dot: self.dot, observed: &self.observed }
    }
}

fn value(text: &str) -> Value {
    Value::from(text)
}

fn any_op() -> impl Strategy<Value = Op> {
    let element = || prop::sample::select(vec!["x", "y", "z"]).prop_map(value);
    let field = || prop::sample::select(vec!["f", "g"]).prop_map(value);
    let text = || prop::sample::select(vec!["a", "7", "-3", "b"]).prop_map(value);
    prop_oneof![
        3 => text().prop_map(Op::Set),
        2 => Just(Op::Delete),
        4 => (-5i64..9).prop_map(Op::IncrBy),
        4 => prop::collection::vec(element(), 1..3).prop_map(Op::SetAdd),
        3 => prop::collection::vec(element(), 1..3).prop_map(Op::SetRemove),
        3 => (field(), text()).prop_map(|pair| Op::HashSet(vec![pair])),
        3 => (field(), -5i64..9).prop_map(|(field, by)| Op::HashIncrBy(field, by)),
        2 => prop::collection::vec(field(), 1..3).prop_map(Op::HashDelete),
    ]
}

fn any_step(sites: usize) -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..sites, prop::collection::vec(any_op(), 1..4))
            .prop_map(|(site, ops)| Step::Execute(site, ops)),
        5 => (0..sites, 0..sites).prop_map(|(at, from)| Step::Deliver { at, from }),
        1 => (0..sites).prop_map(Step::Settle),
    ]
}

fn any_history() -> impl Strategy<Value = (usize, Vec<Step>)> {
    (1usize..5).prop_flat_map(|sites| {
        prop::collection::vec(any_step(sites), 1..40).prop_map(move |steps| (sites, steps))
    })
}

/// One replica per site, and all transactions so far.
struct World {
    transactions: Vec<Transaction>,
    /// By site, the transactions it committed, in order.
    by_origin: Vec<Vec<usize>>,
    states: Vec<State>,
    known: Vec<Vector>,
    applied: Vec<Vec<usize>>,
}

impl World {
    fn new(sites: usize) -> Self {
        World {
            transactions: Vec::new(),
            by_origin: vec![Vec::new(); sites],
            states: vec![State::new(); sites],
            known: vec![Vector::zero(sites); sites],
            applied: vec![Vec::new(); sites],
        }
    }

    fn run(&mut self, step: &Step) {
        match step {
            Step::Execute(site, ops) => self.execute(*site, ops),
            Step::Deliver { at, from } => {
                self.deliver(*at, *from);
            }
            Step::Settle(site) => self.settle(*site),
        }
    }

    fn execute(&mut self, site: usize, ops: &[Op]) {
        let observed = self.known[site];
        let (mut own, mut done): (Option<Effect>, Vec<Op>) = (None, Vec::new());
        for op in ops {
            let view = View::new(&self.states[site]).own(own.as_ref());
            if let Ok((_, Some(effect))) = execute(op, &view) {
                done.push(op.clone());
                own = Some(own.take().unwrap_or_default().then(effect));
            }
        }
        let Some(effect) = own else { return };
        let ts = Timestamp(observed.max_entry().0 + 1);
        let dot = Dot { ts, site: SiteId(site as u8) };
        self.by_origin[site].push(self.transactions.len());
        self.transactions.push(Transaction { dot, observed, ops: done, effect });
        self.apply(site, self.transactions.len() - 1);
    }

    fn deliver(&mut self, at: usize, from: usize) -> bool {
        let next = self.by_origin[from]
            .iter()
            .copied()
            .find(|t| self.transactions[*t].dot.ts > self.known[at][SiteId(from as u8)]);
        match next {
            Some(t) if at != from && self.known[at].covers(&self.transactions[t].observed) => {
                self.apply(at, t);
                true
            }
            _ => false,
        }
    }

    fn apply(&mut self, at: usize, t: usize) {
        let transaction = &self.transactions[t];
        self.states[at].apply(&transaction.effect, transaction.context());
        self.known[at].raise(transaction.dot.site, transaction.dot.ts);
        self.applied[at].push(t);
    }

    /// Settles at a site what is causally stable there: known everywhere, and nothing that did not
    /// observe it can still arrive.
    fn settle(&mut self, at: usize) {
        for t in self.applied[at].clone() {
            let transaction = &self.transactions[t];
            let dot = transaction.dot;
            let everywhere = self.known.iter().all(|known| dot.ts <= known[dot.site]);
            let last_word = (0..self.transactions.len()).all(|other| {
                self.applied[at].contains(&other)
                    || dot.ts <= self.transactions[other].observed[dot.site]
            });
            if everywhere && last_word {
                let effect = transaction.effect.clone();
                self.states[at].settle(&effect, dot);
            }
        }
    }

    fn deliver_all(&mut self) {
        let sites = self.states.len();
        loop {
            let mut moved = false;
            for at in 0..sites {
                for from in 0..sites {
                    moved |= self.deliver(at, from);
                }
            }
            if !moved {
                return;
            }
        }
    }
}

/// Everything a client can read of a key.
fn reads(view: &View<'_>) -> Vec<Result<Outcome, solera_data::OpError>> {
    [Op::Get, Op::SetMembers, Op::SetLen, Op::HashGetAll, Op::Exists, Op::Type]
        .iter()
        .map(|op| execute(op, view).map(|(outcome, _)| outcome))
        .collect()
}

/// The declarative meaning: a written fact lives unless a removal that observed it is there.
mod declared {
    use super::*;

    #[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
    enum Part {
        Text,
        Element(Value),
        Field(Value),
    }

    #[derive(Clone)]
    struct Fact {
        part: Part,
        assigned: Option<Value>,
        added: Option<i64>,
        dot: Dot,
        writer: usize,
    }

    pub(super) struct Meaning {
        pub(super) members: BTreeSet<Value>,
        pub(super) fields: BTreeMap<Value, Value>,
        pub(super) text: Option<Value>,
    }

    pub(super) fn meaning(transactions: &[Transaction]) -> Meaning {
        let mut order: Vec<usize> = (0..transactions.len()).collect();
        order.sort_by_key(|t| transactions[*t].dot);
        let mut facts: Vec<Fact> = Vec::new();
        for t in order {
            let Transaction { dot, observed, ops, .. } = &transactions[t];
            let saw = |fact: &Fact| fact.writer == t || fact.dot.ts <= observed[fact.dot.site];
            for op in ops {
                let mut remove = |which: &dyn Fn(&Part) -> bool| {
                    facts.retain(|fact| !(which(&fact.part) && saw(fact)));
                };
                match op {
                    Op::Set(_) | Op::Delete => remove(&|_| true),
                    Op::SetRemove(gone) => {
                        remove(&|part| matches!(part, Part::Element(e) if gone.contains(e)));
                    }
                    Op::HashDelete(gone) => {
                        remove(&|part| matches!(part, Part::Field(f) if gone.contains(f)));
                    }
                    Op::HashSet(pairs) => {
                        let set = |f: &Value| pairs.iter().any(|(field, _)| field == f);
                        remove(&|part| matches!(part, Part::Field(f) if set(f)));
                    }
                    _ => {}
                }
                let mut write = |part, assigned: Option<Value>, added| {
                    facts.push(Fact { part, assigned, added, dot: *dot, writer: t });
                };
                match op {
                    Op::Set(value) => write(Part::Text, Some(value.clone()), None),
                    Op::IncrBy(by) => write(Part::Text, None, Some(*by)),
                    Op::SetAdd(elements) => {
                        elements.iter().for_each(|e| write(Part::Element(e.clone()), None, None));
                    }
                    Op::HashSet(pairs) => pairs.iter().for_each(|(field, value)| {
                        write(Part::Field(field.clone()), Some(value.clone()), None);
                    }),
                    Op::HashIncrBy(field, by) => write(Part::Field(field.clone()), None, Some(*by)),
                    _ => {}
                }
            }
        }
        let parts: BTreeSet<Part> = facts.iter().map(|fact| fact.part.clone()).collect();
        let mut meaning = Meaning { members: BTreeSet::new(), fields: BTreeMap::new(), text: None };
        for part in parts {
            let shown = show(facts.iter().filter(|fact| fact.part == part));
            match (part, shown) {
                (Part::Element(element), _) => {
                    meaning.members.insert(element);
                }
                (Part::Field(field), Some(value)) => {
                    meaning.fields.insert(field, value);
                }
                (Part::Text, shown) => meaning.text = shown,
                (Part::Field(_), None) => {}
            }
        }
        meaning
    }

    fn show<'a>(facts: impl Iterator<Item = &'a Fact>) -> Option<Value> {
        let (mut assigned, mut sum): (Option<(Dot, Value)>, Option<i64>) = (None, None);
        for fact in facts {
            if let Some(value) = &fact.assigned
                && assigned.as_ref().is_none_or(|(dot, _)| fact.dot >= *dot)
            {
                assigned = Some((fact.dot, value.clone()));
            }
            if let Some(by) = fact.added {
                sum = Some(sum.unwrap_or(0) + by);
            }
        }
        let number = |value: &Value| std::str::from_utf8(value).ok()?.parse::<i64>().ok();
        match (assigned, sum) {
            (Some((_, value)), Some(sum)) => Some(match number(&value) {
                Some(base) => self::value(&(base + sum).to_string()),
                None => value,
            }),
            (Some((_, value)), None) => Some(value),
            (None, sum) => sum.map(|sum| self::value(&sum.to_string())),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn replicas_converge_to_the_declared_meaning((sites, steps) in any_history()) {
        let mut world = World::new(sites);
        steps.iter().for_each(|step| world.run(step));
        world.deliver_all();
        let expected = reads(&View::new(&world.states[0]));
        for state in &world.states {
            prop_assert_eq!(&reads(&View::new(state)), &expected);
        }
        let meaning = declared::meaning(&world.transactions);
        let members: Vec<Value> = meaning.members.into_iter().collect();
        let pairs: Vec<(Value, Value)> = meaning.fields.into_iter().collect();
        if !members.is_empty() {
            prop_assert_eq!(&expected[1], &Ok(Outcome::Members(members)));
        } else if !pairs.is_empty() {
            prop_assert_eq!(&expected[3], &Ok(Outcome::Pairs(pairs)));
        } else {
            let text = meaning.text.map_or(Outcome::Nil, Outcome::Bulk);
            prop_assert_eq!(&expected[0], &Ok(text));
        }
    }

    #[test]
    fn a_view_reads_what_folding_would_show(
        (sites, steps) in any_history(),
        cut in 0usize..40,
    ) {
        let mut world = World::new(sites);
        steps.iter().for_each(|step| world.run(step));
        world.deliver_all();
        let mut order: Vec<&Transaction> = world.transactions.iter().collect();
        order.sort_by_key(|transaction| transaction.dot);
        let (folded, pending) = order.split_at(cut.min(order.len()));
        let mut base = State::new();
        folded.iter().for_each(|t| base.apply(&t.effect, t.context()));
        let pending: Vec<_> = pending.iter().map(|t| (&t.effect, t.context())).collect();
        let mut whole = base.clone();
        pending.iter().for_each(|(effect, context)| whole.apply(effect, *context));
        let view = View::with_pending(&base, &pending, &[]);
        prop_assert_eq!(reads(&view), reads(&View::new(&whole)));
    }

    #[test]
    fn a_transaction_reads_its_own_writes(
        (sites, steps) in any_history(),
        ops in prop::collection::vec(any_op(), 1..6),
    ) {
        let mut world = World::new(sites);
        steps.iter().for_each(|step| world.run(step));
        let state = &world.states[0];
        let mut own: Option<Effect> = None;
        for op in &ops {
            if let Ok((_, Some(effect))) = execute(op, &View::new(state).own(own.as_ref())) {
                own = Some(own.take().unwrap_or_default().then(effect));
            }
        }
        let before = reads(&View::new(state).own(own.as_ref()));
        let observed = world.known[0];
        let dot = Dot { ts: Timestamp(observed.max_entry().0 + 1), site: SiteId(0) };
        let mut after = state.clone();
        if let Some(effect) = &own {
            after.apply(effect, Context { dot, observed: &observed });
        }
        prop_assert_eq!(before, reads(&View::new(&after)));
    }
}

#[test]
fn an_add_wins_over_a_removal_that_did_not_see_it() {
    let (mut one, mut two) = (State::new(), State::new());
    let zero = Vector::zero(2);
    let add = |state: &State, op| execute(&op, &View::new(state)).unwrap().1.unwrap();
    let first = Dot { ts: Timestamp(1), site: SiteId(0) };
    let added = add(&one, Op::SetAdd(vec![value("x")]));
    let context = Context { dot: first, observed: &zero };
    one.apply(&added, context);
    two.apply(&added, context);
    // One removes, the other adds again, at the same time.
    let seen = zero.with(SiteId(0), Timestamp(1));
    let removed = add(&one, Op::SetRemove(vec![value("x")]));
    let again = add(&two, Op::SetAdd(vec![value("x")]));
    let removal = Context { dot: Dot { ts: Timestamp(2), site: SiteId(0) }, observed: &seen };
    let addition = Context { dot: Dot { ts: Timestamp(2), site: SiteId(1) }, observed: &seen };
    one.apply(&removed, removal);
    one.apply(&again, addition);
    two.apply(&again, addition);
    two.apply(&removed, removal);
    for state in [&one, &two] {
        let outcome = execute(&Op::SetContains(value("x")), &View::new(state)).unwrap().0;
        assert_eq!(outcome, Outcome::Int(1));
    }
}

#[test]
fn what_is_old_enough_but_unseen_survives_a_removal() {
    // The add is old enough for the snapshot's entry, but was not within the snapshot.
    let zero = Vector::zero(2);
    let dot = Dot { ts: Timestamp(1), site: SiteId(1) };
    let mut state = State::new();
    let add = execute(&Op::SetAdd(vec![value("x")]), &View::new(&state)).unwrap().1.unwrap();
    state.apply(&add, Context { dot, observed: &zero });
    let empty = State::new();
    let unseen = [dot];
    let view = View::with_pending(&empty, &[], &unseen);
    let set = execute(&Op::Set(value("v")), &view).unwrap().1.unwrap();
    let observed = zero.with(SiteId(1), Timestamp(5));
    let later = Dot { ts: Timestamp(6), site: SiteId(0) };
    state.apply(&set, Context { dot: later, observed: &observed });
    let members = execute(&Op::SetMembers, &View::new(&state)).unwrap().0;
    assert_eq!(members, Outcome::Members(vec![value("x")]));
}
