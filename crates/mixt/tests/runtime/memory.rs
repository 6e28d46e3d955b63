//! Guarantees of the database in memory at each level.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use solera_language::compile::compile;
use solera_levels::Level;
use solera_mixt::binding::{Bindings, Module};
use solera_mixt::conformance;
use solera_mixt::coordinator::{Coordinator, TransactionId};
use solera_mixt::executor::{Clock, Connections, run};
use solera_mixt::memory::Memory;
use solera_mixt::outcome::{Limits, Outcome};
use solera_mixt::store::{
    Begin, BoxFuture, Connection, Database, Name, NameWrite, ObjectCall, StoreError,
};
use solera_program::ir::{Program, VERSION};
use solera_program::operation::ObjectOp;
use solera_program::types::{Object, StoreId, Type};
use solera_program::value::{Handle, Value};

const REGISTER: u32 = 0;
const COUNTER: u32 = 1;

struct Session {
    connection: Box<dyn Connection>,
    program: Arc<Program>,
}

impl Session {
    fn new(memory: &Memory) -> Session {
        let program = Program {
            version: VERSION,
            stores: vec![],
            structs: vec![],
            objects: vec![Object::Register(Type::Int), Object::Counter],
            functions: vec![],
            transactions: vec![],
        };
        let connection = now(memory.connect()).unwrap();
        Session { connection, program: Arc::new(program) }
    }

    fn begin(&mut self, strong: bool) {
        let begin = Begin { strong, ..Begin::default() };
        now(self.connection.begin(&begin)).unwrap();
    }

    fn ask(
        &mut self,
        key: &str,
        (object, op): (u32, ObjectOp),
        args: &[i64],
    ) -> Result<Value, StoreError> {
        let call = ObjectCall {
            program: Arc::clone(&self.program),
            space: "all".into(),
            key: key.into(),
            object,
            op,
            args: args.iter().map(|number| Value::Int(*number)).collect(),
            result: Type::Unknown,
            look: None,
        };
        let answer = now(self.connection.perform(&call))?;
        answer.value.ok_or(StoreError::Missing)
    }

    fn get(&mut self, key: &str) -> Value {
        self.ask(key, (REGISTER, ObjectOp::Get), &[]).unwrap()
    }

    fn put(&mut self, key: &str, value: i64) {
        self.ask(key, (REGISTER, ObjectOp::Put), &[value]).unwrap();
    }

    fn commit(&mut self, writes: &[NameWrite]) -> Result<(), StoreError> {
        now(self.connection.commit(writes))
    }
}

/// Returns the result of a future that a database in memory completes at once.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("a database in memory does not wait"),
    }
}

fn pair(level: Level) -> (Memory, Session, Session) {
    let memory = Memory::new("m", &[("all", level)]);
    let (one, other) = (Session::new(&memory), Session::new(&memory));
    (memory, one, other)
}

fn some(number: i64) -> Value {
    Value::some(Value::Int(number))
}

/// Runs two sessions, each of which reads what the other writes. Returns whether both commit;
/// serializable transactions do not.
fn write_skew(level: Level) -> bool {
    let (_memory, mut one, mut other) = pair(level);
    one.begin(level == Level::Linearizable);
    other.begin(level == Level::Linearizable);
    assert_eq!((one.get("a"), other.get("b")), (Value::NONE, Value::NONE));
    one.put("b", 1);
    other.put("a", 1);
    one.commit(&[]).unwrap();
    other.commit(&[]).is_ok()
}

#[test]
fn linearizable_spaces_are_serializable_and_causal_ones_are_not() {
    assert!(!write_skew(Level::Linearizable));
    assert!(write_skew(Level::Causal));
}

#[test]
fn transactions_read_a_snapshot_and_their_own_writes() {
    let (_memory, mut one, mut other) = pair(Level::Causal);
    one.begin(false);
    other.begin(false);
    other.put("a", 7);
    assert_eq!(other.get("a"), some(7));
    other.commit(&[]).unwrap();
    assert_eq!(one.get("a"), Value::NONE);
    one.begin(false);
    assert_eq!(one.get("a"), some(7));
}

#[test]
fn concurrent_increments_add_up() {
    let (_memory, mut one, mut other) = pair(Level::Causal);
    let add = (COUNTER, ObjectOp::Increment);
    one.begin(false);
    other.begin(false);
    one.ask("n", add, &[1]).unwrap();
    other.ask("n", add, &[2]).unwrap();
    one.commit(&[]).unwrap();
    other.commit(&[]).unwrap();
    one.begin(false);
    assert_eq!(one.ask("n", (COUNTER, ObjectOp::Value), &[]), Ok(Value::Int(3)));
}

#[test]
fn pcpsi_loses_no_update() {
    let (_memory, mut one, mut other) = pair(Level::PcPsi);
    one.begin(false);
    other.begin(false);
    one.put("a", 1);
    other.put("a", 2);
    one.commit(&[]).unwrap();
    assert_eq!(other.commit(&[]), Err(StoreError::Conflict));
}

#[test]
fn operations_of_levels_without_snapshots_take_effect_at_once() {
    for level in [Level::Eventual, Level::Quorum, Level::LocalQuorum] {
        let (_memory, mut one, mut other) = pair(level);
        other.begin(false);
        assert_eq!(other.get("a"), Value::NONE);
        one.begin(false);
        one.put("a", 1);
        assert_eq!(other.get("a"), some(1), "{level}");
        now(one.connection.abort()).unwrap();
        assert_eq!(other.get("a"), some(1), "{level}");
    }
}

#[test]
fn the_database_in_memory_passes_the_conformance_tests() {
    for level in [Level::Linearizable, Level::Por, Level::PcPsi, Level::Causal, Level::Speculative]
    {
        let memory = Memory::new("m", &[("all", level)]);
        now(conformance::all(&memory, "all"));
    }
}

#[test]
fn a_lagging_site_shows_its_own_commits_and_received_ones() {
    let memory = Memory::lagging("m", &[("all", Level::Causal)], 2);
    let (mut here, mut there) = (Session::new(&memory.at(0)), Session::new(&memory.at(1)));
    here.begin(false);
    here.put("a", 1);
    here.commit(&[]).unwrap();
    here.begin(false);
    assert_eq!(here.get("a"), some(1));
    there.begin(false);
    assert_eq!(there.get("a"), Value::NONE);
    memory.at(1).catch_up();
    there.begin(false);
    assert_eq!(there.get("a"), some(1));
}

#[test]
fn a_name_is_created_only_once_and_can_be_removed() {
    let (memory, mut one, mut other) = pair(Level::Linearizable);
    let name = Name { space: "all".into(), key: "r".into() };
    let create = NameWrite::Set { name: name.clone(), field: 0, value: Arc::new([1]), new: true };
    one.begin(false);
    other.begin(false);
    one.commit(std::slice::from_ref(&create)).unwrap();
    assert_eq!(other.commit(&[create]), Err(StoreError::Conflict));
    assert_eq!(memory.names("all").len(), 1);
    other.begin(false);
    one.begin(false);
    one.commit(&[NameWrite::Remove { name, field: 0 }]).unwrap();
    assert_eq!(memory.names("all").len(), 0);
}

/// The sites behave like replicas of a database that have not yet received each other's commits.
#[test]
fn sites_may_create_the_same_name_where_commits_merge() {
    let (_memory, mut one, mut other) = pair(Level::Causal);
    let name = Name { space: "all".into(), key: "r".into() };
    let create = NameWrite::Set { name, field: 0, value: Arc::new([1]), new: true };
    one.begin(false);
    other.begin(false);
    one.commit(std::slice::from_ref(&create)).unwrap();
    other.commit(std::slice::from_ref(&create)).unwrap();
    other.begin(false);
    assert_eq!(other.commit(&[create]), Err(StoreError::Conflict));
}

#[test]
fn an_operation_on_an_object_of_another_kind_is_rejected() {
    let (_memory, mut one, _) = pair(Level::Causal);
    one.begin(false);
    one.put("a", 1);
    one.commit(&[]).unwrap();
    one.begin(false);
    let error = one.ask("a", (COUNTER, ObjectOp::Increment), &[1]).unwrap_err();
    assert_eq!(error.to_string(), "`a` holds a register, not a counter");
    let add = (COUNTER, ObjectOp::Increment);
    one.ask("n", add, &[i64::MAX]).unwrap();
    one.ask("n", add, &[1]).unwrap();
    assert!(matches!(one.commit(&[]), Err(StoreError::Refused(_))));
    one.begin(false);
    assert_eq!(one.ask("n", (COUNTER, ObjectOp::Exists), &[]), Ok(Value::Bool(false)));
}

const CONTEST: &str = "
store mail : causal { query strong_size(of: *set<string>) -> int; }
transaction add(a: handle<set<string>> in mail, text: string) { a.add(text); }
transaction size(a: handle<set<string>> in mail) -> int { return a.size(); }
transaction strong(a: handle<set<string>> in mail) -> int { return mail.strong_size(a); }
";

#[test]
fn a_strong_size_includes_the_newest_commits_of_all_sites() {
    let memory = Memory::lagging("m", &[("all", Level::Causal)], 2);
    let program = Arc::new(compile(CONTEST).program.unwrap());
    now(memory.check_operations(&program, StoreId(0), "all")).unwrap();
    let databases: [Arc<dyn Database>; 2] = [Arc::new(memory.at(0)), Arc::new(memory.at(1))];
    let module = Module::new("contest", program.clone()).unwrap();
    let mut number = 0;
    let mut call = |site: usize, name: &str, text: Option<&str>| {
        let database = &databases[site..=site];
        let bindings = Bindings::new(&program, database, &[("mail", 0, "all")]).unwrap();
        let handle = Value::Handle(Handle { store: "mail".into(), key: "a".into() });
        let args = [handle].into_iter().chain(text.map(Value::string)).collect();
        number += 1;
        let (id, known) = (TransactionId::new(number), (Arc::default(), Limits::default()));
        let start = (module.clone(), module.transaction(name).unwrap());
        let mut made = Coordinator::new(start, args, bindings, id, known, 0).unwrap();
        let mut connections = Connections::new(database.iter().cloned());
        match now(run(&mut made, &mut connections, &Still)) {
            Outcome::Done { result, .. } => result,
            other => panic!("{name}: {other}"),
        }
    };
    call(0, "add", Some("x"));
    call(1, "add", Some("y"));
    // The other site has not received anything.
    assert_eq!(call(0, "size", None), Value::Int(0));
    assert_eq!(call(0, "strong", None), Value::Int(2));
}

#[test]
fn unknown_or_misdeclared_operations_are_rejected() {
    let memory = Memory::new("m", &[("all", Level::Causal)]);
    for (operation, reason) in [
        ("query size(of: *set<string>) -> int;", "it has no operation `size`"),
        ("query strong_size(of: *counter) -> int;", "is a query of one `*set<T>`"),
        ("operation strong_size(of: *set<string>) -> int;", "is a query of one `*set<T>`"),
        ("query strong_size(of: *set<string>) -> bool;", "is a query of one `*set<T>`"),
    ] {
        let source = format!("store mail : causal {{ {operation} }}");
        let program = compile(&source).program.unwrap();
        let reported = now(memory.check_operations(&program, StoreId(0), "all")).unwrap_err();
        assert!(reported.to_string().contains(reason), "{operation}: {reported}");
    }
}

/// A clock for tests in which nothing waits.
struct Still;

impl Clock for Still {
    fn now_ms(&self) -> u64 {
        0
    }

    fn sleep(&self, _ms: u64) -> BoxFuture<'_, ()> {
        unreachable!("nobody is in the way")
    }
}
