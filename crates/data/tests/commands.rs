//! Checks replies and errors against those of Redis, however a sequence of commands is executed:
//! each command as its own transaction, all commands in one transaction, or over effects that are
//! not folded yet.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use solera_data::{Context, Dot, Effect, Op, OpError, Outcome, State, Type, Value, View, execute};
use solera_time::{SiteId, Timestamp, Vector};

type Reply = Result<Outcome, OpError>;

const HERE: SiteId = SiteId(0);

fn observed(transactions: usize) -> Vector {
    Vector::zero(1).with(HERE, Timestamp(transactions as u64))
}

/// Executes each command as its own transaction and folds it.
fn run_apart(ops: &[Op]) -> (Vec<Reply>, State) {
    let mut state = State::new();
    let mut replies = Vec::new();
    for (i, op) in ops.iter().enumerate() {
        let executed = execute(op, &View::new(&state));
        if let Ok((_, Some(effect))) = &executed {
            let dot = Dot::of(HERE, Timestamp(i as u64 + 1));
            state.apply(effect, Context { dot, observed: &observed(i) });
            if i % 2 == 0 {
                state.settle(effect, dot);
            }
        }
        replies.push(executed.map(|(outcome, _)| outcome));
    }
    (replies, state)
}

/// Executes the first commands as separate transactions and the others in one transaction.
fn run_together(ops: &[Op], first: usize) -> Vec<Reply> {
    let (first, rest) = ops.split_at(first);
    let (mut replies, state) = run_apart(first);
    let mut own: Option<Effect> = None;
    for op in rest {
        let executed = execute(op, &View::new(&state).own(own.as_ref()));
        replies.push(executed.map(|(outcome, effect)| {
            if let Some(effect) = effect {
                own = Some(own.take().unwrap_or_default().then(effect));
            }
            outcome
        }));
    }
    replies
}

/// Executes each command as its own transaction; folds only the first.
fn run_unfolded(ops: &[Op], first: usize) -> Vec<Reply> {
    let (mut replies, state) = run_apart(&ops[..first]);
    let snapshots: Vec<Vector> = (0..ops.len()).map(observed).collect();
    let mut done: Vec<(usize, Effect)> = Vec::new();
    for (i, op) in ops.iter().enumerate().skip(first) {
        let context = |i: usize| Context {
            dot: Dot::of(HERE, Timestamp(i as u64 + 1)),
            observed: &snapshots[i],
        };
        let pending: Vec<_> = done.iter().map(|(i, effect)| (effect, context(*i))).collect();
        let executed = execute(op, &View::with_pending(&state, &pending, &[]));
        replies.push(executed.map(|(outcome, effect)| {
            done.extend(effect.map(|effect| (i, effect)));
            outcome
        }));
    }
    replies
}

/// Model of a Redis key.
#[derive(Default)]
enum Model {
    #[default]
    Nothing,
    Text(Value),
    Set(BTreeSet<Value>),
    Hash(BTreeMap<Value, Value>),
}

impl Model {
    fn kind(&self) -> Option<Type> {
        match self {
            Model::Nothing => None,
            Model::Text(_) => Some(Type::String),
            Model::Set(_) => Some(Type::Set),
            Model::Hash(_) => Some(Type::Hash),
        }
    }

    fn run(&mut self, op: &Op) -> Reply {
        let reply = match op {
            Op::Get | Op::IncrBy(_) => self.run_text(op),
            Op::Set(value) => {
                *self = Model::Text(value.clone());
                Ok(Outcome::Ok)
            }
            Op::Exists => Ok(Outcome::Int(self.kind().map_or(0, |_| 1))),
            Op::Type => Ok(Outcome::Type(self.kind())),
            Op::Delete => Ok(Outcome::Int(std::mem::take(self).kind().map_or(0, |_| 1))),
            Op::SetAdd(_) | Op::SetRemove(_) | Op::SetMembers | Op::SetContains(_) | Op::SetLen => {
                self.run_set(op)
            }
            _ => self.run_hash(op),
        };
        let hollow = match self {
            Model::Set(set) => set.is_empty(),
            Model::Hash(hash) => hash.is_empty(),
            _ => false,
        };
        if hollow {
            *self = Model::Nothing;
        }
        reply
    }

    fn run_text(&mut self, op: &Op) -> Reply {
        let text = match self {
            Model::Nothing => None,
            Model::Text(text) => Some(text.clone()),
            _ => return Err(OpError::WrongType),
        };
        let Op::IncrBy(by) = op else { return Ok(text.map_or(Outcome::Nil, Outcome::Bulk)) };
        let sum = incremented(text.as_ref(), *by, OpError::NotAnInteger)?;
        *self = Model::Text(decimal(sum));
        Ok(Outcome::Int(sum))
    }

    fn run_set(&mut self, op: &Op) -> Reply {
        if let Model::Nothing = self {
            *self = Model::Set(BTreeSet::new());
        }
        let Model::Set(set) = self else { return Err(OpError::WrongType) };
        let before = set.len();
        Ok(match op {
            Op::SetAdd(elements) => {
                set.extend(elements.iter().cloned());
                Outcome::Int((set.len() - before) as i64)
            }
            Op::SetRemove(elements) => {
                set.retain(|element| !elements.contains(element));
                Outcome::Int((before - set.len()) as i64)
            }
            Op::SetContains(element) => Outcome::Int(i64::from(set.contains(element))),
            Op::SetMembers => Outcome::Members(set.iter().cloned().collect()),
            _ => Outcome::Int(before as i64),
        })
    }

    fn run_hash(&mut self, op: &Op) -> Reply {
        if let Model::Nothing = self {
            *self = Model::Hash(BTreeMap::new());
        }
        let Model::Hash(hash) = self else { return Err(OpError::WrongType) };
        let before = hash.len();
        Ok(match op {
            Op::HashSet(pairs) => {
                hash.extend(pairs.iter().cloned());
                Outcome::Int((hash.len() - before) as i64)
            }
            Op::HashDelete(fields) => {
                hash.retain(|field, _| !fields.contains(field));
                Outcome::Int((before - hash.len()) as i64)
            }
            Op::HashIncrBy(field, by) => {
                let sum = incremented(hash.get(field), *by, OpError::FieldNotAnInteger)?;
                hash.insert(field.clone(), decimal(sum));
                Outcome::Int(sum)
            }
            Op::HashGet(field) => hash.get(field).cloned().map_or(Outcome::Nil, Outcome::Bulk),
            Op::HashGetMany(fields) => {
                Outcome::Values(fields.iter().map(|field| hash.get(field).cloned()).collect())
            }
            Op::HashNewest(most) => {
                let newest = hash.values().rev().take(*most as usize);
                Outcome::Values(newest.cloned().map(Some).collect())
            }
            _ => Outcome::Pairs(hash.clone().into_iter().collect()),
        })
    }
}

fn incremented(text: Option<&Value>, by: i64, otherwise: OpError) -> Result<i64, OpError> {
    let parse = |text: &Value| {
        let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        (decimal(number) == *text).then_some(number)
    };
    let number = text.map_or(Some(0), parse).ok_or(otherwise)?;
    number.checked_add(by).ok_or(OpError::Overflow)
}

fn decimal(number: i64) -> Value {
    Value::from(number.to_string().as_str())
}

fn any_of(texts: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop::sample::select(texts).prop_map(Value::from)
}

/// Names as those of the elements of a list.
const FIRST: &str = "0005e9d2a4b3c0f1-00000000deadbeef";
const SECOND: &str = "0005e9d2a4b3c0f2-0000000000000001";

fn any_op() -> impl Strategy<Value = Op> {
    let element = || any_of(&["", "x", "y", "z"]);
    let field = || any_of(&["", "f", "g", FIRST, SECOND]);
    let elements = move || prop::collection::vec(element(), 0..4);
    let fields = move || prop::collection::vec(field(), 0..4);
    let text =
        || any_of(&["a", "", "7", "07", "-0", "+1", "9223372036854775805", "-9223372036854775807"]);
    let by = || -9i64..10;
    prop_oneof![
        2 => text().prop_map(Op::Set),
        2 => Just(Op::Delete),
        4 => by().prop_map(Op::IncrBy),
        4 => elements().prop_map(Op::SetAdd),
        3 => elements().prop_map(Op::SetRemove),
        3 => prop::collection::vec((field(), text()), 0..4).prop_map(Op::HashSet),
        4 => (field(), by()).prop_map(|(field, by)| Op::HashIncrBy(field, by)),
        3 => fields().prop_map(Op::HashDelete),
        1 => prop::sample::select(vec![Op::Get, Op::Exists, Op::Type]),
        1 => prop::sample::select(vec![Op::SetMembers, Op::SetLen, Op::HashGetAll]),
        1 => (1u64..4).prop_map(Op::HashNewest),
        1 => element().prop_map(Op::SetContains),
        1 => field().prop_map(Op::HashGet),
        1 => fields().prop_map(Op::HashGetMany),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn replies_match_redis(
        ops in prop::collection::vec(any_op(), 1..25),
        first in any::<prop::sample::Index>(),
    ) {
        let mut model = Model::default();
        let expected: Vec<Reply> = ops.iter().map(|op| model.run(op)).collect();
        let first = first.index(ops.len());
        let (apart, state) = run_apart(&ops);
        prop_assert_eq!(&apart, &expected);
        prop_assert_eq!(state.is_empty(), model.kind().is_none());
        prop_assert_eq!(&run_together(&ops, first), &expected);
        prop_assert_eq!(&run_unfolded(&ops, first), &expected);
    }
}

fn values(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| Value::from(*text)).collect()
}

fn pair(field: &str, value: &str) -> (Value, Value) {
    (field.into(), value.into())
}

/// Checks the reply to each of a sequence of commands on one key, for every way of executing them.
fn check(script: Vec<(Op, Reply)>) {
    let (ops, expected): (Vec<Op>, Vec<Reply>) = script.into_iter().unzip();
    assert_eq!(run_apart(&ops).0, expected);
    assert_eq!(run_together(&ops, 0), expected);
    assert_eq!(run_unfolded(&ops, 0), expected);
}

#[test]
fn string_commands_reply_as_in_redis() {
    check(vec![
        (Op::Get, Ok(Outcome::Nil)),
        (Op::Type, Ok(Outcome::Type(None))),
        (Op::Delete, Ok(Outcome::Int(0))),
        (Op::Set("v".into()), Ok(Outcome::Ok)),
        (Op::Get, Ok(Outcome::Bulk("v".into()))),
        (Op::Type, Ok(Outcome::Type(Some(Type::String)))),
        (Op::IncrBy(1), Err(OpError::NotAnInteger)),
        (Op::SetLen, Err(OpError::WrongType)),
        (Op::HashGet("f".into()), Err(OpError::WrongType)),
        (Op::Delete, Ok(Outcome::Int(1))),
        (Op::Exists, Ok(Outcome::Int(0))),
    ]);
}

#[test]
fn counter_commands_reply_as_in_redis() {
    check(vec![
        (Op::IncrBy(0), Ok(Outcome::Int(0))),
        (Op::Get, Ok(Outcome::Bulk("0".into()))),
        (Op::Set("10".into()), Ok(Outcome::Ok)),
        (Op::IncrBy(-13), Ok(Outcome::Int(-3))),
        (Op::IncrBy(5), Ok(Outcome::Int(2))),
        (Op::Get, Ok(Outcome::Bulk("2".into()))),
        (Op::Set("9223372036854775807".into()), Ok(Outcome::Ok)),
        (Op::IncrBy(1), Err(OpError::Overflow)),
        (Op::Set("-9223372036854775808".into()), Ok(Outcome::Ok)),
        (Op::IncrBy(-1), Err(OpError::Overflow)),
        (Op::Set("9223372036854775808".into()), Ok(Outcome::Ok)),
        (Op::IncrBy(-1), Err(OpError::NotAnInteger)),
    ]);
    for text in ["", "-", "01", "-0", "+1", " 1", "1 ", "1.0", "0x1", "-01", "99999999999999999999"]
    {
        check(vec![
            (Op::Set(text.into()), Ok(Outcome::Ok)),
            (Op::IncrBy(1), Err(OpError::NotAnInteger)),
            (Op::Get, Ok(Outcome::Bulk(text.into()))),
        ]);
    }
}

#[test]
fn set_commands_reply_as_in_redis() {
    check(vec![
        (Op::SetAdd(values(&["b", "a", "b"])), Ok(Outcome::Int(2))),
        (Op::SetAdd(values(&["b", "c"])), Ok(Outcome::Int(1))),
        (Op::SetMembers, Ok(Outcome::Members(values(&["a", "b", "c"])))),
        (Op::SetRemove(values(&["a", "a", "z"])), Ok(Outcome::Int(1))),
        (Op::SetContains("a".into()), Ok(Outcome::Int(0))),
        (Op::SetLen, Ok(Outcome::Int(2))),
        (Op::Get, Err(OpError::WrongType)),
        (Op::IncrBy(1), Err(OpError::WrongType)),
        (Op::HashSet(vec![pair("f", "v")]), Err(OpError::WrongType)),
        (Op::Type, Ok(Outcome::Type(Some(Type::Set)))),
        (Op::SetRemove(values(&["b", "c"])), Ok(Outcome::Int(2))),
        (Op::Exists, Ok(Outcome::Int(0))),
    ]);
}

#[test]
fn hash_commands_reply_as_in_redis() {
    check(vec![
        (Op::HashSet(vec![pair("f", "1"), pair("g", "x"), pair("f", "2")]), Ok(Outcome::Int(2))),
        (Op::HashGet("f".into()), Ok(Outcome::Bulk("2".into()))),
        (Op::HashIncrBy("f".into(), 5), Ok(Outcome::Int(7))),
        (Op::HashIncrBy("n".into(), -4), Ok(Outcome::Int(-4))),
        (Op::HashIncrBy("g".into(), 1), Err(OpError::FieldNotAnInteger)),
        (Op::HashIncrBy("f".into(), i64::MAX), Err(OpError::Overflow)),
        (Op::HashGetAll, Ok(Outcome::Pairs(vec![pair("f", "7"), pair("g", "x"), pair("n", "-4")]))),
        (Op::HashDelete(values(&["f", "f", "z"])), Ok(Outcome::Int(1))),
        (Op::HashGetMany(values(&["f", "g"])), Ok(Outcome::Values(vec![None, Some("x".into())]))),
        (Op::Type, Ok(Outcome::Type(Some(Type::Hash)))),
        (Op::SetAdd(values(&["a"])), Err(OpError::WrongType)),
        (Op::Set("v".into()), Ok(Outcome::Ok)),
        (Op::Get, Ok(Outcome::Bulk("v".into()))),
    ]);
}

#[test]
fn newest_values_are_those_of_the_greatest_fields() {
    let newest = |most, values: &[&str]| {
        let values = values.iter().map(|value| Some(Value::from(*value))).collect();
        (Op::HashNewest(most), Ok(Outcome::Values(values)))
    };
    let third = FIRST.replace("0005e9", "0007e9");
    check(vec![
        newest(3, &[]),
        (Op::HashSet(vec![pair(SECOND, "b"), pair(FIRST, "a")]), Ok(Outcome::Int(2))),
        newest(1, &["b"]),
        (Op::HashSet(vec![pair(&third, "c")]), Ok(Outcome::Int(1))),
        newest(2, &["c", "b"]),
        newest(u64::MAX, &["c", "b", "a"]),
        // Fields that are no stamps are in the same order, before, between and after them.
        (Op::HashSet(vec![pair("", "0"), pair("0006", "m"), pair("x", "z")]), Ok(Outcome::Int(3))),
        newest(9, &["z", "c", "m", "b", "a", "0"]),
        (Op::HashDelete(values(&["x", &third])), Ok(Outcome::Int(2))),
        newest(1, &["m"]),
        (Op::HashDelete(values(&["0006"])), Ok(Outcome::Int(1))),
        newest(2, &["b", "a"]),
        (Op::Set("v".into()), Ok(Outcome::Ok)),
        (Op::HashNewest(1), Err(OpError::WrongType)),
    ]);
}

#[test]
fn increments_of_one_transaction_add_up() {
    let replies = run_together(
        &[Op::Set("-5".into()), Op::HashGetAll, Op::IncrBy(i64::MAX), Op::IncrBy(5), Op::Get],
        1,
    );
    let sum = i64::MAX - 5;
    assert_eq!(replies[2..4], [Ok(Outcome::Int(sum)), Err(OpError::Overflow)]);
    assert_eq!(replies[4], Ok(Outcome::Bulk(decimal(sum))));
}

#[test]
fn updates_that_change_nothing_have_no_effect() {
    let state = State::new();
    for op in [Op::Delete, Op::SetRemove(values(&["a"])), Op::HashDelete(values(&["f"]))] {
        let executed = execute(&op, &View::new(&state));
        assert_eq!(executed, Ok((Outcome::Int(0), None)), "{op:?}");
    }
}

#[test]
fn adding_an_element_again_is_an_effect() {
    let (_, state) = run_apart(&[Op::SetAdd(values(&["a", "b"]))]);
    let again = Op::SetAdd(values(&["b", "a", "b"]));
    let (outcome, effect) = execute(&again, &View::new(&state)).unwrap();
    assert_eq!(outcome, Outcome::Int(0));
    assert_eq!(effect.unwrap().set.unwrap().added, values(&["a", "b"]));
}
