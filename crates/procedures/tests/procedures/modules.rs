//! Transactions of modules, and the ways in which they fail.

use solera_data::{Key, Op, OpError, Operation, Outcome, Value as Bytes};
use solera_machine::codec;
use solera_procedures::{Call, CallError, Procedure, Returned, Right, Shown, is_key};
use solera_program::run::FailureKind;
use solera_program::value::Value;

use crate::space::{Space, call, digest, install};

const ORDERS: &str = include_str!("../../../../examples/orders.mixt");
const GROUPS: &str = include_str!("../../../../examples/message_groups.mixt");

/// Things that fail, each in a line of its own.
const FAILING: &str = "store shop : speculative { query find(name: string) -> int; }
transaction endless(a: handle<counter> in shop) {
    a.add(1);
    var n = 0;
    while true { n = 1; }
}
transaction adds(a: handle<counter> in shop) {
    while true { a.add(1); }
}
transaction grow(a: handle<counter> in shop) {
    a.add(1);
    var text = \"x\";
    while text.len() > 0 { text = text + text; }
}
transaction divide(a: handle<counter> in shop, by: int) -> int {
    a.add(1);
    return quotient(by);
}
fn quotient(by: int) -> int {
    return 7 / by;
}
transaction load(a: handle<counter> in shop, r: handle<int> in shop) -> int {
    a.add(1);
    return *r;
}
transaction custom(a: handle<counter> in shop) -> int {
    a.add(1);
    return shop.find(\"x\");
}
transaction add(a: handle<counter> in shop, count: int) -> int {
    a.add(count);
    return a.value();
}
transaction put(r: handle<string> in shop, text: string) {
    r.set(text);
}
transaction append(l: handle<list<int>> in shop, number: int) -> list<int> {
    l.append(number);
    return l.values();
}
transaction create(text: string) -> handle<string> in shop {
    var made = new string in shop;
    made.set(text);
    return made;
}
transaction has(s: handle<set<int>> in shop, number: int) -> bool {
    return s.contains(number);
}
transaction root(x: float) -> float {
    return sqrt(x);
}
";

fn int(value: i64) -> Shown {
    Shown::Int(value)
}

/// Returns the key of a handle, which is shown with the name of its store.
fn key_of(shown: &Shown) -> String {
    let Shown::Bytes(text) = shown else { panic!("{shown:?}") };
    let text = std::str::from_utf8(text).unwrap();
    text.split_once(':').expect(text).1.to_owned()
}

/// Returns the text of the reply to a failed call.
fn failure(result: Result<Shown, CallError>) -> String {
    match result {
        Err(error) => format!("{} {error}", error.code()),
        Ok(value) => panic!("{value:?}"),
    }
}

#[test]
fn orders_take_effect_as_a_whole_or_not_at_all() {
    let mut space = Space::with(ORDERS);
    assert_eq!(space.run(ORDERS, "restock", &["pens", "3"]), int(3));
    assert_eq!(space.run(ORDERS, "order", &["pens", "log", "Ann", "2"]), int(1));
    let more = space.call(call(ORDERS, "order", &["shop:pens", "log", "Bob", "2"]));
    let why = "FAILED aborted: out of stock: 1 left (in transaction `order`, line 20)";
    assert_eq!(failure(more), why);
    let bytes = |text: &str| Shown::Bytes(text.into());
    let order = vec![(bytes("customer"), bytes("Ann")), (bytes("count"), int(2))];
    let orders = Shown::List(vec![Shown::Map(order)]);
    assert_eq!(space.run(ORDERS, "orders", &["log"]), orders);
    // Commands on keys see the same data.
    assert_eq!(space.on_key("pens", Op::IncrBy(10)), Ok(Outcome::Int(11)));
    assert_eq!(space.run(ORDERS, "left", &["pens"]), int(11));
    // Keys without content have no registers.
    space.on_key("pens", Op::Delete).unwrap();
    space.on_key("log", Op::Delete).unwrap();
    assert!(!space.registers.keys().any(|name| is_key(name)));
}

#[test]
fn all_phases_of_a_transaction_are_one_procedure() {
    let mut space = Space::with(GROUPS);
    let create = |space: &mut Space, names: &str, transaction: &str, name: &str| {
        let call = Call { names: names.into(), ..call(GROUPS, transaction, &[name]) };
        key_of(&space.call(call).unwrap())
    };
    let ann = create(&mut space, "1", "create_user", "Ann");
    let group = create(&mut space, "2", "create_group", "Tea");
    assert_eq!(space.run(GROUPS, "join", &[&group, &ann]), Shown::Bool(true));
    assert_eq!(space.run(GROUPS, "join", &[&group, &ann]), Shown::Bool(false));
    assert_eq!(space.run(GROUPS, "post", &[&group, "log", "hello"]), int(1));
    let hello = Shown::Set(vec![Shown::Bytes("hello".into())]);
    assert_eq!(space.run(GROUPS, "inbox", &[&ann]), hello);
    // The first phases write the inbox, and the last one fails.
    space.on_key("text", Op::Set("x".into())).unwrap();
    let failed = failure(space.call(call(GROUPS, "post", &[&group, "text", "bye"])));
    let why = "FAILED `append` of log<string> failed: `text` holds a string, not a log (hash) \
               (in transaction `post`, line 50)";
    assert_eq!(failed, why);
    assert_eq!(space.run(GROUPS, "inbox", &[&ann]), hello);
}

/// Transactions of [`FAILING`] with arguments, and why they fail.
const FAILURES: &[(&str, &[&str], &str)] = &[
    (
        "endless",
        &["a"],
        "it takes more than 1000000 steps, perhaps in an endless loop (in transaction `endless`, line 5)",
    ),
    (
        "adds",
        &["a"],
        "it takes more than 1000000 steps, perhaps in an endless loop (in transaction `adds`, line 8)",
    ),
    ("divide", &["a", "0"], "an integer is divided by zero (in function `quotient`, line 20)"),
    (
        "load",
        &["a", "none"],
        "shop:none does not exist, so `*` of register<int> fails (in transaction `load`, line \
             24)",
    ),
    (
        "load",
        &["a", "text"],
        "`*` of register<int> failed: `text` holds `x`, not int (in transaction `load`, line \
             24)",
    ),
    (
        "load",
        &["a", "set"],
        "`*` of register<int> failed: `set` holds a set, not a register (string) (in \
             transaction `load`, line 24)",
    ),
    (
        "custom",
        &["a"],
        "`shop.find` failed: it has no operation `find` (in transaction `custom`, line 28)",
    ),
    (
        "add",
        &["much", "1"],
        "`add` of counter failed: the counter `much` would not fit 64 bits (in transaction \
             `add`, line 31)",
    ),
    (
        "add",
        &["text", "1"],
        "`add` of counter failed: `text` holds a string that is not a number, not a counter \
             (string) (in transaction `add`, line 31)",
    ),
    // SET would replace a key of any type.
    (
        "put",
        &["set", "x"],
        "`set` of register<string> failed: `set` holds a set, not a register (string) (in \
             transaction `put`, line 35)",
    ),
    (
        "put",
        &["other:x", "x"],
        "`set` of register<string> failed: the key `shop:other:x` is in another space (in \
             transaction `put`, line 35)",
    ),
    (
        "put",
        &["solera:x", "x"],
        "`set` of register<string> failed: keys beginning with `solera:` are reserved: \
             `solera:x` (in transaction `put`, line 35)",
    ),
];

#[test]
fn failures_of_programs_have_no_effect_and_name_the_line() {
    let mut space = Space::with(FAILING);
    space.on_key("number", Op::Set("7".into())).unwrap();
    space.on_key("text", Op::Set("x".into())).unwrap();
    space.on_key("set", Op::SetAdd(vec!["x".into()])).unwrap();
    space.on_key("much", Op::IncrBy(i64::MAX)).unwrap();
    for (transaction, arguments, why) in FAILURES {
        let failed = failure(space.call(call(FAILING, transaction, arguments)));
        assert_eq!(failed, format!("FAILED {why}"), "{transaction} {arguments:?}");
    }
    assert_eq!(space.run(FAILING, "load", &["a", "number"]), int(7));
}

#[test]
fn limits_are_those_of_the_call() {
    let mut space = Space::with(FAILING);
    let limited = |transaction: &str, fuel: u64| {
        let mut call = call(FAILING, transaction, &["r"]);
        (call.limits.fuel, call.limits.value_bytes) = (fuel, 10_000);
        call
    };
    let kind = |result: Result<Shown, CallError>| match result {
        Err(CallError::Program { failure, .. }) => failure.kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(space.call(limited("endless", 30))), FailureKind::Fuel { limit: 30 });
    assert_eq!(kind(space.call(limited("adds", 100))), FailureKind::Fuel { limit: 100 });
    let limit = 10_000;
    assert_eq!(kind(space.call(limited("grow", 100_000))), FailureKind::TooLarge { limit });
    let put = |length: usize| {
        let mut call = call(FAILING, "put", &["r", &"x".repeat(length)]);
        call.limits.value_bytes = limit;
        call
    };
    space.call(put(9_984)).unwrap();
    let why =
        "BADARG argument 2 (`text`): it takes 10001 bytes, and a value may take 10000 at most";
    assert_eq!(failure(space.call(put(9_985))), why);
    // Two operations cost more than the instructions around them.
    let mut add = call(FAILING, "add", &["n", "1"]);
    add.limits.fuel = 90;
    assert_eq!(kind(space.call(add.clone())), FailureKind::Fuel { limit: 90 });
    add.limits.fuel = 110;
    assert_eq!(space.call(add), Ok(int(1)));
    // Data of the space costs fuel as well, even if the program receives little of it.
    let numbers = (0..10_000).map(|number| (Bytes::from(format!("{number}").as_str()), "1".into()));
    space.on_key("large", Op::HashSet(numbers.collect())).unwrap();
    let numbers = (0..10_000).map(|number| Bytes::from(format!("{number}").as_str()));
    space.on_key("set", Op::SetAdd(numbers.collect())).unwrap();
    for (transaction, key) in [("append", "large"), ("has", "set")] {
        let mut call = call(FAILING, transaction, &[key, "1"]);
        call.limits.fuel = 1_000;
        assert_eq!(kind(space.call(call.clone())), FailureKind::Fuel { limit: 1_000 });
        call.limits.fuel = 100_000;
        space.call(call).unwrap();
    }
}

/// A site that has read its registers from a journal uses as much fuel as the others, though its
/// values take less memory.
#[test]
fn fuel_does_not_depend_on_the_history_of_a_value() {
    let mut space = Space::with(FAILING);
    let names = |from: usize| (from..1_000).map(|at| Bytes::from(at.to_string().as_str()));
    space.on_key("set", Op::SetAdd(names(0).collect())).unwrap();
    space.on_key("set", Op::SetRemove(names(10).collect())).unwrap();
    let fields = names(0).map(|name| (name.clone(), name));
    space.on_key("hash", Op::HashSet(fields.collect())).unwrap();
    space.on_key("hash", Op::HashDelete(names(10).collect())).unwrap();
    let mut restored = space.clone();
    for value in restored.registers.values_mut() {
        let mut bytes = Vec::new();
        codec::append(value, &mut bytes);
        (*value, _) = codec::take(&bytes).unwrap();
    }
    assert_eq!(restored.registers, space.registers);
    let mut done = 0;
    for fuel in 0..1_000 {
        for (transaction, key) in [("has", "set"), ("append", "hash")] {
            let mut call = call(FAILING, transaction, &[key, "1"]);
            call.limits.fuel = fuel;
            let result = space.clone().call(call.clone());
            done += usize::from(result.is_ok());
            assert_eq!(restored.clone().call(call), result, "{transaction} with fuel {fuel}");
        }
    }
    assert!((1..2_000).contains(&done), "{done}");
}

#[test]
fn calls_that_cannot_run_are_refused() {
    let mut space = Space::with(FAILING);
    let unknown = call("store other : causal;", "add", &["a", "1"]);
    let why = format!("NOMODULE the module {} is not installed in the space", unknown.digest);
    assert_eq!(failure(space.call(unknown)), why);
    for (transaction, arguments, why) in [
        ("none", &[][..], "NOTRANSACTION the module has no transaction 'none'"),
        (
            "add",
            &["a"],
            "BADARG 'add' takes 2 arguments (a: handle<counter> in shop, count: int), not 1",
        ),
        ("add", &["a", "x"], "BADARG argument 2 (`count`): expected int, found `x`"),
        ("add", &["shop:", "1"], "BADARG argument 1 (`a`): a handle's key must not be empty"),
    ] {
        assert_eq!(failure(space.call(call(FAILING, transaction, arguments))), why);
    }
    let read_only = |transaction: &str, arguments: &[&str]| Call {
        read_only: true,
        ..call(FAILING, transaction, arguments)
    };
    let why = "ERR 'add' writes, and the call was to read only";
    assert_eq!(failure(space.call(read_only("add", &["a", "1"]))), why);
    assert_eq!(space.call(read_only("root", &["4"])), Ok(Shown::Float(2.0)));
    assert!(Procedure::Call(Box::new(read_only("root", &[]))).is_read_only());
    assert!(!Procedure::Call(Box::new(call(FAILING, "root", &[]))).is_read_only());
}

#[test]
fn callers_need_a_right_for_each_operation() {
    let mut space = Space::with(FAILING);
    let bits = |all: &[Operation]| all.iter().fold(0, |bits, operation| bits | operation.bit());
    let right =
        |pattern: &str, all: &[Operation]| Right { pattern: pattern.into(), operations: bits(all) };
    let rights = vec![
        right("shop:a*", &[Operation::Add, Operation::Get]),
        right("shop:b*", &[Operation::Add]),
        right("shop:c*", &[Operation::Get]),
        right("*", &[Operation::Set]),
    ];
    let run = |space: &mut Space, transaction: &str, key: &str, argument: &str| {
        let mut call = call(FAILING, transaction, &[key, argument]);
        call.scope.rights.clone_from(&rights);
        space.call(call)
    };
    assert_eq!(run(&mut space, "add", "a1", "5"), Ok(int(5)));
    let denied = |key: &str, operation: &str, place: &str| {
        format!("NOPERM the caller may not run {operation} on the key `shop:{key}` ({place})")
    };
    let add = "in transaction `add`, line 32";
    assert_eq!(failure(run(&mut space, "add", "b1", "5")), denied("b1", "GET", add));
    let add = "in transaction `add`, line 31";
    assert_eq!(failure(run(&mut space, "add", "c1", "5")), denied("c1", "INCRBY", add));
    // A register is not written before the type of its key is known.
    let put = "in transaction `put`, line 35";
    assert_eq!(failure(run(&mut space, "put", "a1", "x")), denied("a1", "TYPE", put));
}

#[test]
fn modules_are_installed_once_and_are_no_keys() {
    let mut space = Space::default();
    let name = digest(ORDERS);
    let Procedure::Install { module, .. } = install(FAILING) else { panic!("it is another") };
    let damaged = Procedure::Install { digest: name.clone(), module: Bytes::from(&module[1..]) };
    let Returned::Failed(error) = space.execute(&damaged) else { panic!("it is damaged") };
    let why = "the module cannot be executed: its encoding is damaged";
    assert_eq!((error.code(), error.to_string()), ("BADMODULE", why.to_owned()));
    assert!(space.registers.is_empty());
    let missing = space.registers.clone();

    assert_eq!(space.execute(&install(ORDERS)), Returned::Installed);
    assert_eq!(space.execute(&Procedure::Install { digest: name, module }), Returned::Installed);
    assert_eq!(space.run(ORDERS, "restock", &["pens", "3"]), int(3));
    // After the installation is revoked, the module is unknown, whatever was decoded before.
    let installed = std::mem::replace(&mut space.registers, missing);
    let failed = failure(space.call(call(ORDERS, "left", &["pens"])));
    assert!(failed.starts_with("NOMODULE"), "{failed}");
    space.registers = installed;

    let registers: Vec<_> = space.registers.keys().cloned().collect();
    let modules: Vec<_> = registers.iter().filter(|name| !is_key(name)).collect();
    assert_eq!((registers.len(), modules.len()), (2, 1));
    let before = space.registers.clone();
    for op in [Op::Get, Op::Delete, Op::Set("x".into()), Op::Digest] {
        let steps = vec![(Key::from(&modules[0][..]), op)];
        let outcomes = vec![Err(OpError::WrongType)];
        assert_eq!(space.execute(&Procedure::of_steps(steps)), Returned::Outcomes(outcomes));
    }
    assert_eq!(space.registers, before);
}

#[test]
fn new_objects_have_names_of_the_call() {
    let mut space = Space::with(FAILING);
    let create = |names: &str| Call { names: names.into(), ..call(FAILING, "create", &["x"]) };
    let first = space.call(create("one")).unwrap();
    assert_eq!(space.clone().call(create("one")).unwrap(), first);
    assert_ne!(space.call(create("two")).unwrap(), first);
    let key = key_of(&first);
    assert_eq!(key, "one.0.0");
    assert_eq!(space.on_key(&key, Op::Get), Ok(Outcome::Bulk("x".into())));
}

/// Objects with keys that the transactions compute.
const KEYS: &str = r#"store shop : speculative;
struct Stock { count: int, name: string }
fn stock(shelf: int, item: string) -> handle<Stock> in shop {
    return handle<Stock>("s:" + string(shelf) + ":" + item) in shop;
}
transaction put(shelf: int, item: string, count: int) {
    *stock(shelf, item) = Stock { count, name: item };
    (handle<set<string>>("shelf:" + string(shelf)) in shop).add(item);
}
transaction sum(shelf: int) -> int {
    var sum = 0;
    for item in handle<set<string>>("shelf:" + string(shelf)) in shop {
        sum += stock(shelf, item)->count;
    }
    return sum;
}
transaction mark(key: string) {
    (handle<counter>("marks") in shop).add(1);
    (handle<counter>(key) in shop).add(1);
}
"#;

#[test]
fn keys_of_objects_are_computed() {
    let mut space = Space::with(KEYS);
    for (shelf, item, count) in [("1", "pens", "3"), ("1", "ink", "4"), ("2", "pens", "9")] {
        space.run(KEYS, "put", &[shelf, item, count]);
    }
    assert_eq!(space.run(KEYS, "sum", &["1"]), int(7));
    assert_eq!(space.run(KEYS, "sum", &["3"]), int(0));
    let count = space.on_key("s:2:pens", Op::HashGet("count".into()));
    assert_eq!(count, Ok(Outcome::Bulk("9".into())));
}

#[test]
fn keys_that_no_program_may_use_are_refused_where_the_handle_is_made() {
    let mut space = Space::with(KEYS);
    for (key, why) in [
        ("", "a handle's key must not be empty"),
        ("solera:x", "keys beginning with `solera:` are reserved: `solera:x`"),
    ] {
        let why = format!("FAILED {why} (in transaction `mark`, line 19)");
        assert_eq!(failure(space.call(call(KEYS, "mark", &[key]))), why);
    }
    let why = "FAILED `add` of counter failed: the key `shop:other:x` is in another space \
               (in transaction `mark`, line 19)";
    assert_eq!(failure(space.call(call(KEYS, "mark", &["other:x"]))), why);
    let mut limited = call(KEYS, "mark", &["a"]);
    limited.scope.rights =
        vec![Right { pattern: "shop:mar*".into(), operations: Operation::Add.bit() }];
    let why = "NOPERM the caller may not run INCRBY on the key `shop:a` \
               (in transaction `mark`, line 19)";
    assert_eq!(failure(space.call(limited.clone())), why);
    limited.arguments = vec!["mark".into()];
    assert!(space.call(limited).is_ok());
}

#[test]
fn nan_has_one_form() {
    let mut space = Space::with(FAILING);
    for argument in ["-1", "NaN", "nan", "-nan", "-NaN"] {
        let result = space.call(call(FAILING, "root", &[argument]));
        let Ok(Shown::Float(root)) = result else { panic!("{argument}: {result:?}") };
        assert_eq!(root.to_bits(), f64::NAN.to_bits(), "{argument}");
    }
}

#[test]
fn constants_with_other_nans_are_refused() {
    let mut program = solera_language::compile::compile(FAILING).program.unwrap();
    let nan = Value::Float(f64::from_bits(f64::NAN.to_bits() | 1));
    program.transactions[0].phases[0].code.constants.push(Value::some(Value::list([nan])));
    let error = solera_procedures::Module::new(FAILING, program.into()).unwrap_err();
    assert_eq!(error.to_string(), "a constant is a NaN of another form");
}
