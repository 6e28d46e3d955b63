//! Single transactions, step by step.

use std::sync::Arc;

use crate::world::bench::{Bench, handle, ints, is_commit, module};
use crate::world::finish;
use solera_language::compile::compile;
use solera_levels::Level;
use solera_mixt::binding::{BindError, Bindings, Module, Modules};
use solera_mixt::collect::Collector;
use solera_mixt::coordinator::{Ask, Coordinator, Next, Reply, Request, TransactionId};
use solera_mixt::executor::{Clock, run};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Outcome, Why};
use solera_mixt::record::Record;
use solera_mixt::recovery::{forget, recover};
use solera_mixt::store::{Database, Location, StoreError};
use solera_program::value::{Handle, Value};

#[test]
fn stores_are_bound_only_to_spaces_that_are_strong_enough() {
    let memory = Memory::new("m", &[("weak", Level::Causal), ("strong", Level::Linearizable)]);
    let databases: Vec<Arc<dyn Database>> = vec![Arc::new(memory)];
    let module = module();
    let bind = |stores: &[(&str, usize, &str)]| Bindings::new(module.program(), &databases, stores);
    assert!(bind(&[("strong", 0, "strong"), ("weak", 0, "strong")]).is_ok());
    let error = bind(&[("strong", 0, "weak"), ("weak", 0, "weak")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the store `strong` is declared linearizable, but m/weak is causal: it must be linearizable"
    );
    let unbound = BindError::NotBound("weak".to_owned());
    assert_eq!(bind(&[("strong", 0, "strong")]).unwrap_err(), unbound);
    let other = bind(&[("other", 0, "weak")]).unwrap_err();
    assert_eq!(other, BindError::NoSuchStore("other".to_owned()));
    let nowhere = bind(&[("strong", 0, "nowhere"), ("weak", 0, "weak")]).unwrap_err();
    assert!(nowhere.to_string().contains("m/nowhere"), "{nowhere}");
    let beyond = bind(&[("strong", 1, "strong"), ("weak", 0, "weak")]).unwrap_err();
    assert!(matches!(beyond, BindError::NoDatabase { index: 1, .. }));
}

#[test]
fn a_store_of_level_quorum_needs_a_linearizable_space_until_a_store_offers_the_level() {
    let memory = Memory::new("m", &[("weak", Level::Causal), ("strong", Level::Linearizable)]);
    let databases: Vec<Arc<dyn Database>> = vec![Arc::new(memory)];
    for (level, fits) in [
        ("quorum", "linearizable or quorum"),
        ("local_quorum", "linearizable or quorum or local_quorum"),
    ] {
        let source = format!(
            "store s : {level};
             transaction t(c: handle<counter> in s) -> int @ {level} {{ return c.value(); }}"
        );
        let program = Arc::new(compile(&source).program.unwrap());
        let bind = |space| Bindings::new(&program, &databases, &[("s", 0, space)]);
        assert!(bind("strong").is_ok());
        let why = format!(
            "'{level}' is a level of Apache Cassandra, which this version cannot use as a store yet"
        );
        assert_eq!(
            bind("weak").unwrap_err().to_string(),
            format!(
                "the store `s` is declared {level}, but m/weak is causal: it must be {fits}; {why}"
            )
        );
        assert_eq!(
            bind("s").unwrap_err().to_string(),
            format!("the store `s` cannot be bound to m/s: there is no such space; {why}")
        );
    }
}

#[test]
fn atomic_stores_of_one_database_need_no_witnesses() {
    let memory = Memory::new("m", &[("all", Level::Linearizable), ("weak", Level::Causal)]);
    let bench = Bench::new(vec![memory], &[("strong", 0, "all"), ("weak", 0, "weak")]);
    assert_eq!(bench.coordinator("both").plan().groups.len(), 1);
    bench.done("both");
    assert_eq!(bench.done("read"), ints([1, 1]));
    assert_eq!(bench.names(), 0);
    assert_eq!(bench.memories[0].names("weak").len(), 0);
}

#[test]
fn spaces_without_joint_transactions_need_witnesses() {
    let memory = Memory::disjoint("m", &[("all", Level::Linearizable), ("weak", Level::Causal)]);
    let bench = Bench::new(vec![memory], &[("strong", 0, "all"), ("weak", 0, "weak")]);
    assert_eq!(bench.coordinator("both").plan().groups.len(), 2);
    let (outcome, left) = bench.run("both");
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
    // The names are a write witness, the commit witness and the record in one space, and a write
    // witness, the commit witness and the mark in the other.
    assert_eq!((bench.names(), bench.memories[0].names("weak").len()), (3, 3));
    bench.collect(left);
    assert_eq!((bench.names(), bench.memories[0].names("weak").len()), (0, 0));
}

#[test]
fn a_failure_before_the_first_commit_has_no_effect() {
    let bench = Bench::apart();
    assert_eq!(bench.done("one"), Value::Int(1));
    assert_eq!(bench.done("one"), Value::Int(2));
    let (outcome, left) = bench.run("one");
    assert!(matches!(outcome, Outcome::Failed(Why::Program(_))), "{outcome}");
    assert!(outcome.to_string().starts_with("nothing was changed: "), "{outcome}");
    assert_eq!(bench.done("read"), ints([2, 0]));
    assert_eq!((left.len(), bench.names()), (0, 0));
}

#[test]
fn the_time_limit_applies_only_before_the_first_commit() {
    let mut bench = Bench::apart();
    bench.limits.run_ms = bench.limits.finish_ms / 2;
    let (mut late, mut connections) = (bench.coordinator("both"), bench.connections());
    bench.pass(bench.limits.run_ms);
    let outcome = finish(&bench.world, run(&mut late, &mut connections, &bench.clock));
    let Outcome::Failed(Why::Program(failure)) = &outcome else { panic!("{outcome}") };
    let reason = "it takes more than 4000 ms, perhaps in an endless loop (in transaction `both`)";
    assert_eq!(failure.to_string(), reason);
    assert_eq!(bench.done("read"), ints([0, 0]));

    let mut both = bench.coordinator("both");
    let commit = |database: &str, request: &Request| database == "one" && is_commit(request);
    let (database, request) = bench.until(&mut both, &mut connections, None, commit);
    let mut answer = Some(finish(&bench.world, connections.ask(&database, &request)));
    bench.pass(bench.limits.run_ms);
    let ended = loop {
        match both.next(bench.clock.now_ms(), answer.take()) {
            Next::Ask(Ask::Store { database, request }) => {
                answer = Some(finish(&bench.world, connections.ask(&database, &request)));
            }
            Next::Ask(Ask::Wait { .. }) => answer = Some(Ok(Reply::Done)),
            Next::Finished(outcome) => break outcome,
        }
    };
    assert!(matches!(ended, Outcome::Done { .. }), "{ended}");
    assert_eq!(bench.done("read"), ints([1, 1]));
}

#[test]
fn a_failure_after_a_commit_is_reported_and_blocks_no_reader() {
    let bench = Bench::apart();
    bench.done("weakly");
    let (outcome, _) = bench.run("limited");
    let Outcome::Incomplete { ticket: Some(ticket), committed, why: Why::Program(_) } = &outcome
    else {
        panic!("{outcome}")
    };
    assert_eq!(committed, &[0]);
    assert!(ticket.failed().is_some_and(|why| why.contains("would not fit 64 bits")), "{ticket:?}");
    assert!(outcome.to_string().contains("phases 1 have taken effect"), "{outcome}");
    // The transaction has written `a`, so a reader of `a` would wait for the rest.
    let before = bench.clock.now_ms();
    assert_eq!(bench.done("read"), ints([1, 1]));
    assert!(bench.clock.now_ms() - before < bench.limits.finish_ms);

    bench.pass(bench.limits.orphan_ms);
    let place = Location { database: "one".into(), space: "all".into() };
    let recover = || {
        let mut connections = bench.connections();
        let (rules, none) = ((&bench.modules, bench.limits), Collector::new(bench.limits));
        finish(&bench.world, recover(&place, &mut connections, rules, &none, &bench.clock)).unwrap()
    };
    let mut recovered = recover();
    assert_eq!((recovered.failed.len(), recovered.open.len()), (1, 0), "{recovered:?}");
    bench.collect(forget(recovered.failed.remove(0)).into_iter().collect());
    assert_eq!(bench.names(), 0);
    assert_eq!(recover().failed.len(), 0);
}

#[test]
fn endorsed_reads_are_checked_before_the_first_write_commits() {
    let bench = Bench::apart();
    bench.done("weakly");
    let (mut endorsed, mut connections) = (bench.coordinator("endorsed"), bench.connections());
    // The endorsed read is over, and the group that depends on it is ready to commit. The first
    // commit in the strong store is due.
    let wanted = |database: &str, request: &Request| {
        database == "two" && matches!(request, Request::Begin(begin) if begin.read_only)
    };
    let first = bench.until(&mut endorsed, &mut connections, None, wanted);
    let answer = finish(&bench.world, connections.ask(&first.0, &first.1));
    let again = bench.until(&mut endorsed, &mut connections, Some(answer), wanted);
    bench.done("weakly");
    let answer = finish(&bench.world, connections.ask(&again.0, &again.1));
    let commit = |database: &str, request: &Request| database == "one" && is_commit(request);
    let last = bench.until(&mut endorsed, &mut connections, Some(answer), commit);
    assert!(finish(&bench.world, connections.ask(&last.0, &last.1)).is_ok());
    // The result is two, because the transaction has read again.
    assert_eq!(register(&bench), Value::Int(2));
}

/// Returns the value of the register `a` in the strong store.
fn register(bench: &Bench) -> Value {
    let source = "store strong : linearizable; transaction get(a: handle<register<int>> in strong) -> int { \
                  return *a; }";
    let program = compile(source).program.unwrap();
    let module = Module::new("get@1", Arc::new(program)).unwrap();
    let bindings =
        Bindings::new(module.program(), &bench.databases, &[("strong", 0, "all")]).unwrap();
    let (id, shared) = (TransactionId::new(7), (Arc::clone(&bench.modules), bench.limits));
    let now_ms = bench.clock.now_ms();
    let mut get =
        Coordinator::new((module, 0), vec![handle("a")], bindings, id, shared, now_ms).unwrap();
    let outcome = finish(&bench.world, run(&mut get, &mut bench.connections(), &bench.clock));
    let Outcome::Done { result, .. } = outcome else { panic!("{outcome:?}") };
    result
}

/// Puts both stores into one database, of which no transaction spans both.
fn across() -> Bench {
    let memory = Memory::new("m", &[("all", Level::Linearizable), ("carts", Level::PcPsi)]);
    Bench::new(vec![memory], &[("strong", 0, "all"), ("weak", 0, "carts")])
}

#[test]
fn a_pcpsi_space_and_another_one_of_its_database_are_two_groups() {
    let bench = across();
    assert_eq!(bench.coordinator("both").plan().groups.len(), 2);
    let (outcome, left) = bench.run("both");
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
    assert_eq!((bench.names(), bench.memories[0].names("carts").len()), (3, 3));
    bench.collect(left);
    assert_eq!((bench.names(), bench.memories[0].names("carts").len()), (0, 0));

    let spaces = [("all", Level::PcPsi), ("weak", Level::PcPsi)];
    let source = "store strong : pcpsi; store weak : causal;
        transaction both(a: handle<counter> in strong, b: handle<counter> in weak) { a.add(1); b.add(1); }";
    let binds = [("strong", 0, "all"), ("weak", 0, "weak")];
    let bench = Bench::of(source, vec![Memory::new("m", &spaces)], &binds);
    assert_eq!(bench.coordinator("both").plan().groups.len(), 1);
}

#[test]
fn endorsed_reads_that_a_group_cannot_repeat_are_repeated_before_it_begins() {
    let bench = across();
    bench.done("weakly");
    let (mut endorsed, mut connections) = (bench.coordinator("endorsed"), bench.connections());
    let reads = |_: &str, request: &Request| matches!(request, Request::Begin(begin) if begin.read_only && !begin.strong);
    let first = bench.until(&mut endorsed, &mut connections, None, reads);
    let answer = finish(&bench.world, connections.ask(&first.0, &first.1));
    // The endorsed read is over, and is about to be repeated.
    let again = bench.until(&mut endorsed, &mut connections, Some(answer), reads);
    bench.done("weakly");
    let answer = finish(&bench.world, connections.ask(&again.0, &again.1));
    let begins =
        |_: &str, request: &Request| matches!(request, Request::Begin(begin) if begin.strong);
    let begin = bench.until(&mut endorsed, &mut connections, Some(answer), begins);
    let answer = finish(&bench.world, connections.ask(&begin.0, &begin.1));
    let commits = |_: &str, request: &Request| is_commit(request);
    let commit = bench.until(&mut endorsed, &mut connections, Some(answer), commits);
    assert!(finish(&bench.world, connections.ask(&commit.0, &commit.1)).is_ok());
    // The result is two, because the transaction has read again.
    assert_eq!(register(&bench), Value::Int(2));
}

#[test]
fn a_lost_answer_to_the_only_commit_is_reported() {
    let bench = Bench::apart();
    bench.world.faults.lock().unwrap().lost_reply = 1000;
    let (outcome, _) = bench.run("weakly");
    let Outcome::Incomplete { ticket: None, why: Why::Unknown { .. }, .. } = &outcome else {
        panic!("{outcome}")
    };
    assert!(outcome.to_string().starts_with("it may have taken effect, or not"), "{outcome}");
}

/// A coordinator dies between its commits, and a reader that finds its witness completes it.
#[test]
fn a_reader_completes_the_transaction_of_a_dead_coordinator() {
    let bench = Bench::apart();
    let (mut dead, mut connections) = (bench.coordinator("both"), bench.connections());
    let commit = |database: &str, request: &Request| database == "two" && is_commit(request);
    bench.until(&mut dead, &mut connections, None, commit);
    drop((dead, connections));
    let (outcome, left) = bench.run("read");
    assert!(
        matches!(&outcome, Outcome::Done { result, .. } if *result == ints([1, 1])),
        "{outcome:?}"
    );
    assert_eq!(left.len(), 1);
    bench.collect(left);
    assert_eq!(bench.names(), 0);
}

#[test]
fn a_ticket_resumes_an_incomplete_transaction() {
    let mut bench = Bench::apart();
    bench.limits.finish_ms = 5;
    let (mut first, mut connections) = (bench.coordinator("both"), bench.connections());
    let commit = |database: &str, request: &Request| database == "two" && is_commit(request);
    bench.until(&mut first, &mut connections, None, commit);
    finish(&bench.world, connections.ask("two", &Request::Abort)).unwrap();
    let away = Err(StoreError::Unavailable("gone".to_owned()));
    bench.pass(bench.limits.finish_ms);
    let Next::Finished(outcome) = first.next(bench.clock.now_ms(), Some(away)) else {
        panic!("it goes on")
    };
    let Outcome::Incomplete { ticket: Some(ticket), committed, why: Why::Unavailable { .. } } =
        outcome
    else {
        panic!("{outcome}")
    };
    assert_eq!(committed, [0]);
    let ticket = Record::decode(&ticket.encode()).unwrap();
    let resume = |ticket: &Record| {
        let now_ms = bench.clock.now_ms();
        let modules = Arc::clone(&bench.modules);
        let mut resumed =
            Coordinator::resume(ticket.clone(), modules, bench.limits, now_ms).unwrap();
        let outcome =
            finish(&bench.world, run(&mut resumed, &mut bench.connections(), &bench.clock));
        (outcome, resumed.garbage())
    };
    let (outcome, left) = resume(&ticket);
    assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
    // The lease is held until the record states that the transaction is complete. Afterwards
    // another attempt reports completion.
    let (outcome, _) = resume(&ticket);
    assert!(matches!(outcome, Outcome::Incomplete { why: Why::Taken, .. }), "{outcome}");
    let (mut collector, mut connections) = (Collector::new(bench.limits), bench.connections());
    collector.add(left, bench.clock.now_ms());
    finish(&bench.world, collector.collect(&mut connections, bench.clock.now_ms())).unwrap();
    assert!(matches!(resume(&ticket).0, Outcome::Done { .. }));
    assert_eq!(bench.done("read"), ints([1, 1]));
    let unknown = Coordinator::resume(ticket, Arc::new(Modules::new()), bench.limits, 0);
    assert!(unknown.unwrap_err().to_string().contains("`test@1`, which is not loaded"));
}

#[test]
fn damaged_records_are_rejected_or_read_without_a_panic() {
    let bench = Bench::apart();
    let (_, left) = bench.run("both");
    let good = left[0].encode();
    assert_eq!(Record::decode(&good).unwrap(), left[0]);
    assert!(Record::decode(&[]).is_err());
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut bytes = good.to_vec();
        for _ in 0..=bench.world.below(3) {
            let at = bench.world.below(bytes.len() as u64) as usize;
            bytes[at] = bench.world.draw() as u8;
        }
        bytes.truncate(good.len() - (bench.world.below(4) * bench.world.below(20)) as usize);
        match Record::decode(&bytes) {
            Ok(record) => {
                let modules = Arc::clone(&bench.modules);
                drop(Coordinator::resume(record, modules, bench.limits, 0));
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1000, "only {refused} were refused");
}

/// A store that accepts requests and does not answer them is not a loop of the program.
#[test]
fn a_timeout_while_waiting_for_a_store_names_the_store() {
    let mut bench = Bench::apart();
    bench.limits.run_ms = bench.limits.finish_ms / 2;
    let mut connections = bench.connections();
    let operation = |database: &str, request: &Request| {
        database == "one" && matches!(request, Request::Perform(_))
    };
    let end = |coordinator: &mut Coordinator, answer| {
        let Next::Ask(Ask::Store { request: Request::Abort, .. }) =
            coordinator.next(bench.clock.now_ms(), Some(answer))
        else {
            panic!("it gives up what is open")
        };
        match coordinator.next(bench.clock.now_ms(), Some(Ok(Reply::Done))) {
            Next::Finished(outcome) => outcome.to_string(),
            other => panic!("{other:?} although it is over"),
        }
    };
    let silent = || Err(StoreError::Unavailable("it has not answered for 5000 ms".to_owned()));
    let mut both = bench.coordinator("both");
    bench.until(&mut both, &mut connections, None, operation);
    // In the next attempt it reaches its first operation when its time is over.
    let begin = |database: &str, request: &Request| {
        database == "one" && matches!(request, Request::Begin(_))
    };
    let (_, begin_again) = bench.until(&mut both, &mut connections, Some(silent()), begin);
    let began = finish(&bench.world, connections.ask("one", &begin_again));
    bench.pass(bench.limits.run_ms);
    let reason = "the database `one` cannot be used: it has not answered for 5000 ms";
    assert_eq!(end(&mut both, began), format!("nothing was changed: {reason}"));

    // A store that answers again is not the reason any more.
    let mut both = bench.coordinator("one");
    bench.until(&mut both, &mut connections, None, operation);
    let (_, first) = bench.until(&mut both, &mut connections, Some(silent()), operation);
    let answered = finish(&bench.world, connections.ask("one", &first));
    bench.pass(bench.limits.run_ms);
    let reported = end(&mut both, answered);
    assert!(reported.contains("it takes more than 4000 ms"), "{reported}");
}

/// A program must not write what it could not read.
#[test]
fn arguments_that_are_too_large_or_refer_to_no_store_are_rejected() {
    let source = "store strong : linearizable; \
         transaction put(r: handle<register<list<string>>> in strong, x: list<string>) { r.set(x); } \
         transaction get(r: handle<register<list<string>>> in strong) -> list<string> { return *r; }";
    let strong = Memory::new("one", &[("all", Level::Linearizable)]);
    let mut bench = Bench::of(source, vec![strong], &[("strong", 0, "all")]);
    bench.limits.phase.value_bytes = 1_000;
    let call = |transaction: &str, args: Vec<Value>| {
        let transaction = bench.module.transaction(transaction).unwrap();
        let shared = (Arc::clone(&bench.modules), bench.limits);
        let (id, now_ms) = (TransactionId::new(bench.world.draw()), bench.clock.now_ms());
        let start = (bench.module.clone(), transaction);
        let begun = Coordinator::new(start, args, bench.bindings.clone(), id, shared, now_ms);
        let mut coordinator = begun.map_err(|why| why.to_string())?;
        let mut connections = bench.connections();
        match finish(&bench.world, run(&mut coordinator, &mut connections, &bench.clock)) {
            Outcome::Done { result, .. } => Ok(result),
            other => Err(other.to_string()),
        }
    };
    let register = || Value::Handle(Handle { store: "strong".into(), key: "r".into() });
    // A list takes 16 bytes, and so does a text in addition to its characters.
    let texts = |bytes: usize| Value::list([Value::string("x".repeat(bytes - 32))]);
    assert_eq!(
        call("put", vec![register(), texts(1_001)]),
        Err("`test@1` refuses: the argument `x`: it takes 1001 bytes, and a value may take 1000 at most".to_owned())
    );
    assert_eq!(call("put", vec![register(), texts(1_000)]), Ok(Value::Unit));
    assert_eq!(call("get", vec![register()]), Ok(texts(1_000)));
    let keyless = Value::Handle(Handle { store: "strong".into(), key: "".into() });
    assert_eq!(
        call("get", vec![keyless]),
        Err("`test@1` refuses: the argument `r`: a handle's key must not be empty".to_owned())
    );
}

/// The first store decides the key of an object of the second one, which is another database.
#[test]
fn handles_of_computed_keys_are_handed_on_to_later_phases() {
    let source = r#"store strong : linearizable;
        store weak : causal;
        transaction note(a: handle<counter> in strong) -> handle<set<int>> in weak {
            a.add(7);
            var box = handle<set<int>>("box:" + string(a.value())) in weak;
            box.add(a.value());
            (handle<counter>("last") in weak).add(1);
            (handle<counter>("last") in strong).add(1);
            return box;
        }
        transaction read(a: handle<counter> in strong) -> list<int> {
            var last = (handle<counter>("last") in strong).value();
            var boxes = [last, (handle<counter>("last") in weak).value()];
            for number in handle<set<int>>("box:" + string(a.value())) in weak { boxes.push(number); }
            return boxes;
        }
        transaction reserved(a: handle<counter> in strong) {
            a.add(1);
            (handle<counter>("solera:".slice(0, 6 + a.value())) in weak).add(1);
        }"#;
    let strong = Memory::new("one", &[("all", Level::Linearizable)]);
    let weak = Memory::new("two", &[("all", Level::Causal)]);
    let bench = Bench::of(source, vec![strong, weak], &[("strong", 0, "all"), ("weak", 1, "all")]);
    let why = bench.run("reserved").0.to_string();
    assert!(why.contains("keys beginning with `solera:` are reserved: `solera:`"), "{why}");
    assert!(why.contains("nothing was changed"), "{why}");
    let made = Value::Handle(Handle { store: "weak".into(), key: "box:7".into() });
    assert_eq!(bench.done("note"), made);
    assert_eq!(bench.done("read"), Value::list([1, 1, 7].map(Value::Int)));
}
