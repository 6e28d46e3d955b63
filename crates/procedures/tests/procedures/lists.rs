//! The order of the elements of lists.

use solera_creek::Procedures;
use solera_data::{Key, Op, OpError, Outcome, Value as Bytes, is_stamp, stamp};
use solera_procedures::{KeyValue, Procedure, Shown, SpaceProcedures, next_element};

use crate::space::{PREFIX, Space};

const LISTS: &str = "store shop : speculative;
transaction append(l: handle<list<int>> in shop, numbers: list<int>) -> list<int> {
    for number in numbers { l.append(number); }
    return l.values();
}
";

fn push(elements: &[&str]) -> Op {
    let named =
        (0..).zip(elements).map(|(number, element)| (next_element(number), Bytes::from(*element)));
    Op::HashSet(named.collect())
}

/// Returns the fields and elements of a list.
fn fields(space: &mut Space, key: &str) -> Vec<(Bytes, String)> {
    match space.on_key(key, Op::HashGetAll) {
        Ok(Outcome::Pairs(pairs)) => {
            pairs.into_iter().map(|(field, value)| (field, value.to_string())).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn elements(space: &mut Space, key: &str) -> Vec<String> {
    fields(space, key).into_iter().map(|(_, element)| element).collect()
}

#[test]
fn elements_have_the_order_of_the_operations() {
    let mut space = Space::with(LISTS);
    assert_eq!(space.on_key("l", push(&["9", "8", "7"])), Ok(Outcome::Int(3)));
    let numbers = |numbers: &[i64]| Shown::List(numbers.iter().copied().map(Shown::Int).collect());
    assert_eq!(space.run(LISTS, "append", &["l", "[6,5]"]), numbers(&[9, 8, 7, 6, 5]));
    assert_eq!(space.on_key("l", push(&["4"])), Ok(Outcome::Int(1)));
    let many: Vec<String> = (0..300).map(|number| (1_000 - number).to_string()).collect();
    let all: Vec<String> = many.iter().take(30).cloned().collect();
    space.run(LISTS, "append", &["m", &format!("[{}]", many.join(","))]);
    assert_eq!(elements(&mut space, "l"), ["9", "8", "7", "6", "5", "4"]);
    assert_eq!(elements(&mut space, "m")[..30], all);
    let stamps = fields(&mut space, "l");
    assert!(stamps.iter().all(|(field, _)| is_stamp(field)), "{stamps:?}");
    let newest = vec![Some("4".into()), Some("5".into())];
    assert_eq!(space.on_key("l", Op::HashNewest(2)), Ok(Outcome::Values(newest)));
}

#[test]
fn numbers_of_new_elements_decide_their_order() {
    let mut space = Space::default();
    let Op::HashSet(mut new) = push(&["1", "2", "3"]) else { panic!("it is a hash") };
    new.rotate_left(2);
    space.on_key("l", Op::HashSet(new)).unwrap();
    assert_eq!(elements(&mut space, "l"), ["1", "2", "3"]);
}

#[test]
fn names_of_removed_elements_are_not_used_again() {
    let mut space = Space::with(LISTS);
    space.on_key("l", push(&["1", "2", "3"])).unwrap();
    let removed: Vec<Bytes> =
        fields(&mut space, "l").into_iter().skip(1).map(|(field, _)| field).collect();
    assert_eq!(space.on_key("l", Op::HashDelete(removed.clone())), Ok(Outcome::Int(2)));
    space.on_key("l", push(&["4"])).unwrap();
    let now = fields(&mut space, "l");
    assert!(now.iter().all(|(field, _)| !removed.contains(field)), "{now:?}");
    assert_eq!(elements(&mut space, "l"), ["1", "4"]);
}

#[test]
fn elements_follow_those_that_were_named_by_a_clock() {
    let mut space = Space::with(LISTS);
    let clock = 1_800_000_000_000_000;
    let named = |time: u64, value: &str| vec![(stamp(time, 7), value.into())];
    space.on_key("l", push(&["1"])).unwrap();
    space.on_key("l", Op::HashSet(named(clock, "2"))).unwrap();
    space.on_key("l", push(&["3"])).unwrap();
    assert_eq!(elements(&mut space, "l"), ["1", "2", "3"]);
    // There is no position after the last one.
    space.on_key("l", Op::HashSet(named(u64::MAX - 2, "4"))).unwrap();
    space.on_key("l", push(&["5"])).unwrap();
    let before = space.registers.clone();
    assert_eq!(space.on_key("l", push(&["6"])), Err(OpError::Overflow));
    assert_eq!(space.registers, before);
    let full = space.call(crate::space::call(LISTS, "append", &["l", "[6]"])).unwrap_err();
    let why = "`append` of list<int> failed: the list `l` takes no more elements (in transaction \
               `append`, line 3)";
    assert_eq!(full.to_string(), why);
}

#[test]
fn an_operation_that_fails_takes_no_position() {
    let mut value = KeyValue::default();
    value.execute(&Op::SetAdd(vec!["x".into()])).unwrap();
    let before = value.clone();
    assert_eq!(value.execute(&push(&["1"])), Err(OpError::WrongType));
    assert_eq!(value, before);
}

#[test]
fn other_fields_keep_their_names() {
    let mut space = Space::default();
    let mut mixed = vec![(Bytes::from("name"), Bytes::from("n"))];
    let Op::HashSet(new) = push(&["1"]) else { panic!("it is a hash") };
    mixed.extend(new);
    let steps = vec![(Key::from(format!("{PREFIX}l").as_str()), Op::HashSet(mixed))];
    let procedure = Procedure::of_steps(steps);
    assert!(!SpaceProcedures::default().is_read_only(&procedure));
    space.execute(&procedure);
    let expected = [(stamp(1, 0), "1".to_owned()), ("name".into(), "n".to_owned())];
    assert_eq!(fields(&mut space, "l"), expected);
}
