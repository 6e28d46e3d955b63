//! Conformance checks for databases of mixed transactions, for their tests to call.
//!
//! Each check panics at the first violation of the contract in [`store`](crate::store). A check
//! takes an empty space. [`all`] runs those that a space of its level must pass.
//!
//! No check lets two open transactions write the same object, because one of them would wait for
//! the other in databases that lock.

use std::sync::Arc;

use solera_levels::Level;
use solera_program::ir::{Program, Store, Struct, VERSION};
use solera_program::objects;
use solera_program::operation::ObjectOp;
use solera_program::types::{Object, StoreId, StructId, Type};
use solera_program::value::{Handle, Value};

use crate::location::{Fields, Name};
use crate::request::calls::{Answer, Begin, List, NameWrite, ObjectCall, StoreError};
use crate::store::{Connection, Database};

/// Runs the checks that a space of its level must pass.
///
/// # Panics
/// If one fails.
pub async fn all(database: &dyn Database, space: &str) {
    let level = database.level(space).expect("the space exists");
    assert_eq!(database.level("no such space"), None);
    objects_do_what_the_language_says(database, space).await;
    a_key_holds_one_kind_of_object(database, space).await;
    if level.at_least(Level::Causal) {
        transactions_are_atomic(database, space).await;
    }
    names_are_kept(database, space).await;
    what_is_certified_has_no_effect(database, space).await;
    match level {
        Level::Linearizable => transactions_are_serializable(database, space).await,
        Level::PcPsi => updates_are_not_lost(database, space).await,
        _ => {}
    }
}

/// Runs the checks for a space whose objects are kept as types of Redis. There, registers of
/// numbers and counters are both strings, so a key may be taken for either. A strong transaction
/// may read old data, and then it does not commit. Eventual operations cannot be undone.
///
/// # Panics
/// If one fails.
pub async fn of_redis_types(database: &dyn Database, space: &str) {
    objects_do_what_the_language_says(database, space).await;
    match database.level(space) {
        Some(Level::Linearizable) => transactions_are_serializable(database, space).await,
        Some(Level::Causal) => {
            transactions_are_atomic(database, space).await;
            names_are_kept(database, space).await;
        }
        Some(Level::PcPsi) => {
            transactions_are_atomic(database, space).await;
            names_are_kept(database, space).await;
            what_is_certified_has_no_effect(database, space).await;
            updates_are_not_lost(database, space).await;
        }
        _ => {}
    }
}

/// Checks every operation on every kind of object, within one transaction and in later ones.
///
/// # Panics
/// If an answer is wrong.
pub async fn objects_do_what_the_language_says(database: &dyn Database, space: &str) {
    // First all steps run in one transaction, which reads its own writes. Then each step runs in
    // its own transaction, which is declared as read-only if the step only reads.
    for apart in [false, true] {
        let mut session = ConformanceSession::new(database, space).await;
        let key = |name: &str| format!("objects-{name}-{apart}");
        if !apart {
            session.begin().await;
        }
        for (name, object, steps) in story() {
            for (op, args, answer) in steps {
                match op.mutates() {
                    _ if !apart => {}
                    true => session.begin().await,
                    false => session.begin_once().await,
                }
                let found = session.ask(&key(name), object, op, &args).await;
                let found = found.unwrap_or_else(|error| panic!("{name}: {op:?}: {error}"));
                assert_eq!(found, answer, "{name}: {op:?}{args:?}");
                if apart {
                    session.commit(&[]).await.expect("no transaction conflicts");
                }
            }
        }
        if !apart {
            session.commit(&[]).await.expect("no transaction conflicts");
        }
        // Other sessions see all that was written, of every kind.
        let mut other = ConformanceSession::new(database, space).await;
        let mut wrong = None;
        // The reads may be old; then the commit fails.
        loop {
            other.begin().await;
            for (name, object) in [("counter", COUNTER), ("list", LIST), ("struct", STRUCT)] {
                let found = other.ask(&key(name), object, ObjectOp::Exists, &[]).await;
                if found != Ok(Some(Value::Bool(true))) {
                    wrong = Some((name, found));
                }
            }
            match other.commit(&[]).await {
                Err(StoreError::Conflict) => wrong = None,
                committed => break committed.expect("no transaction conflicts"),
            }
        }
        assert_eq!(wrong, None);
    }
}

/// Checks that a key which holds an object rejects operations on other kinds of objects, and keeps
/// its object. The transaction continues or ends without effect.
///
/// # Panics
/// If the check fails.
pub async fn a_key_holds_one_kind_of_object(database: &dyn Database, space: &str) {
    let mut session = ConformanceSession::new(database, space).await;
    session.begin().await;
    session.done("kind", REGISTER, ObjectOp::Put, &[Value::Int(7)]).await;
    session.commit(&[]).await.expect("no transaction conflicts");
    let text = || vec![Value::string("a")];
    let wrong = [
        (COUNTER, ObjectOp::Increment, vec![Value::Int(1)]),
        (COUNTER, ObjectOp::Value, vec![]),
        (SET, ObjectOp::Insert, text()),
        (SET, ObjectOp::Contains, text()),
        (SET, ObjectOp::Elements, vec![]),
        (MAP, ObjectOp::PutKey, vec![Value::string("a"), Value::Int(1)]),
        (MAP, ObjectOp::RemoveKey, text()),
        (LIST, ObjectOp::Append, vec![Value::Int(1)]),
        (STRUCT, ObjectOp::PutField(0), text()),
        (STRUCT, ObjectOp::Create, vec![Value::string("a"), Value::Int(1)]),
    ];
    for (object, op, args) in wrong {
        session.begin().await;
        let found = session.ask("kind", object, op, &args).await;
        let rejected = matches!(&found, Err(StoreError::WrongData { key, .. }) if **key == *"kind");
        assert!(rejected, "{op:?} of a register as {object}: {found:?}");
        session.abort().await;
    }
    session.begin().await;
    let found = session.ask("kind", REGISTER, ObjectOp::Load, &[]).await;
    assert_eq!(found, Ok(Some(Value::Int(7))));
    session.abort().await;

    session.begin().await;
    session.done("limit", COUNTER, ObjectOp::Increment, &[Value::Int(i64::MAX)]).await;
    // The database may report this at once, or when the transaction commits.
    let more = session.ask("limit", COUNTER, ObjectOp::Increment, &[Value::Int(1)]).await;
    let end = session.commit(&[]).await;
    let refused = [more.map(|_| ()), end];
    let first = refused.iter().find_map(|result| result.as_ref().err());
    let is_overflow = |error: &StoreError| error.to_string().contains("would not fit 64 bits");
    assert!(first.is_some_and(is_overflow), "{refused:?}");
}

/// Checks that transactions read their own writes, and that other sessions do not read these writes
/// before the commit, after an abort, or after the end of the session without a commit.
///
/// # Panics
/// If the check fails.
pub async fn transactions_are_atomic(database: &dyn Database, space: &str) {
    let mut one = ConformanceSession::new(database, space).await;
    let mut other = ConformanceSession::new(database, space).await;
    let one_put = Value::Int(1);
    one.begin().await;
    one.done("atomic-a", REGISTER, ObjectOp::Put, std::slice::from_ref(&one_put)).await;
    one.done("atomic-b", REGISTER, ObjectOp::Put, std::slice::from_ref(&one_put)).await;
    assert_eq!(one.get("atomic-a").await, Value::some(one_put.clone()));
    other.begin().await;
    assert_eq!(other.get("atomic-a").await, Value::NONE);
    one.commit(&[]).await.expect("no transaction conflicts");
    // The snapshot of the other session is older. At level pcpsi, it is validated only at the end.
    let seen = other.get("atomic-b").await;
    let certified = other.connection.certify().await;
    let is_pcpsi = database.level(space) == Some(Level::PcPsi);
    let is_refused = is_pcpsi && certified == Err(StoreError::Conflict);
    assert!(seen == Value::NONE || is_refused, "{seen:?} is certified: {certified:?}");
    other.begin().await;
    assert_eq!(other.get("atomic-b").await, Value::some(one_put.clone()));
    other.abort().await;

    one.begin().await;
    one.done("atomic-a", REGISTER, ObjectOp::Put, &[Value::Int(2)]).await;
    one.abort().await;
    one.begin().await;
    one.done("atomic-b", REGISTER, ObjectOp::Put, &[Value::Int(3)]).await;
    drop(one);
    for key in ["atomic-a", "atomic-b"] {
        other.begin().await;
        assert_eq!(other.get(key).await, Value::some(one_put.clone()), "{key}");
        other.abort().await;
    }
}

/// Checks that transactions read named objects when they begin and along with operations, and
/// change them when they commit, and that the database lists named objects.
///
/// # Panics
/// If the check fails.
#[expect(
    clippy::too_many_lines,
    reason = "a story in which each step goes on where the one before ended"
)]
pub async fn names_are_kept(database: &dyn Database, space: &str) {
    let mut one = ConformanceSession::new(database, space).await;
    let mut other = ConformanceSession::new(database, space).await;
    let fields = |pairs: &[(u64, &[u8])]| -> Fields {
        pairs.iter().map(|(field, value)| (*field, Arc::from(*value))).collect()
    };
    let name = |key: &str| Name { space: space.into(), key: key.into() };
    let set = |key: &str, field, value: &[u8], new| NameWrite::Set {
        name: name(key),
        field,
        value: value.into(),
        new,
    };
    let remove = |key: &str, field| NameWrite::Remove { name: name(key), field };

    one.begin().await;
    one.done("names", COUNTER, ObjectOp::Increment, &[Value::Int(1)]).await;
    let writes = [
        set("w:names", u64::MAX, &[0, 255], false),
        set("w:names", 1, &[], false),
        set("r:1", 0, b"one", true),
    ];
    one.commit(&writes).await.expect("no transaction conflicts");

    let names = [name("r:1"), name("nothing"), name("w:names")];
    let wanted =
        vec![fields(&[(0, b"one")]), Fields::new(), fields(&[(1, b""), (u64::MAX, &[0, 255])])];
    let begin =
        Begin { strong: one.strong, read_only: true, names: names.to_vec(), ..Begin::default() };
    assert_eq!(other.connection.begin(&begin).await, Ok(wanted.clone()));
    let answer = other.look("names", COUNTER, ObjectOp::Value, Some(name("w:names"))).await;
    let seen = wanted[2].clone();
    assert_eq!(answer, Ok(Answer { value: Some(Value::Int(1)), seen }));
    other.abort().await;
    // A transaction may consist of one reading operation, or of none. Both may be committed or
    // aborted.
    for end in [true, false] {
        other.begin_once().await;
        let look = other.look("names", COUNTER, ObjectOp::Value, Some(name("w:names"))).await;
        assert_eq!(look, answer);
        match end {
            true => other.commit(&[]).await.expect("no transaction conflicts"),
            false => other.abort().await,
        }
        other.begin_once().await;
        match end {
            true => other.commit(&[]).await.expect("an empty transaction commits"),
            false => other.abort().await,
        }
    }
    assert_eq!(other.connection.begin(&begin).await, Ok(wanted.clone()));
    // The transaction is read-only, but may write names.
    other.commit(&[set("r:2", 0, b"two", true)]).await.expect("no transaction conflicts");

    // A field that exists is not new: the transaction has no effect.
    one.begin().await;
    one.done("names", COUNTER, ObjectOp::Increment, &[Value::Int(1)]).await;
    let again = one.commit(&[set("r:3", 0, b"", false), set("r:2", 0, b"", true)]).await;
    assert_eq!(again, Err(StoreError::Conflict));
    one.begin().await;
    assert_eq!(one.ask("names", COUNTER, ObjectOp::Value, &[]).await, Ok(Some(Value::Int(1))));
    one.abort().await;

    // An aborted transaction writes no names, and the last of several writes of a name counts.
    one.begin().await;
    one.abort().await;
    one.begin().await;
    let writes = [
        set("w:names", 1, b"x", false),
        set("w:names", 1, b"y", false),
        remove("w:names", u64::MAX),
        remove("w:names", 5),
        remove("r:1", 0),
        remove("nothing", 0),
        set("r:10", 0, b"", true),
        // This name does not have the prefix, and would be last in another order.
        set("s", 0, b"", false),
    ];
    one.commit(&writes).await.expect("no transaction conflicts");
    let begin = Begin { names: names.to_vec(), strong: one.strong, ..Begin::default() };
    let wanted = vec![Fields::new(), Fields::new(), fields(&[(1, b"y")])];
    assert_eq!(one.connection.begin(&begin).await, Ok(wanted));
    one.abort().await;

    for (after, limit, found) in
        [("", 9, &["r:10", "r:2"][..]), ("", 1, &["r:10"]), ("r:10", 9, &["r:2"]), ("r:2", 9, &[])]
    {
        let (prefix, after) = ("r:".into(), after.into());
        let list = List { space: space.into(), prefix, after, limit };
        let listed = other.connection.list(&list).await.expect("names can be listed");
        assert_eq!(listed.iter().map(|key| &**key).collect::<Vec<_>>(), found, "{list:?}");
    }
}

/// Checks that a transaction which aborts after certification has no effect in an atomic space, and
/// that the session can continue.
///
/// # Panics
/// If the check fails.
pub async fn what_is_certified_has_no_effect(database: &dyn Database, space: &str) {
    let mut session = ConformanceSession::new(database, space).await;
    let is_atomic = database.level(space).is_some_and(|level| level.at_least(Level::Causal));
    for (op, args) in [(ObjectOp::Get, vec![]), (ObjectOp::Put, vec![Value::Int(1)])] {
        session.begin().await;
        assert_eq!(session.get("certified").await, Value::NONE);
        session.ask("certified", REGISTER, op, &args).await.expect("no transaction conflicts");
        assert_eq!(session.connection.certify().await, Ok(()), "{op:?}");
        // A transaction that has done nothing, or has ended with its only operation, has nothing to
        // certify.
        session.begin().await;
        assert_eq!(session.connection.certify().await, Ok(()));
        session.begin_once().await;
        let found = session.get("certified").await;
        assert!(found == Value::NONE || !is_atomic, "{op:?}");
        assert_eq!(session.connection.certify().await, Ok(()), "{op:?}");
    }
    let closed = session.connection.certify().await;
    assert!(matches!(closed, Err(StoreError::Refused(_))), "{closed:?}");
    session.begin().await;
    session.done("certified", REGISTER, ObjectOp::Put, &[Value::Int(2)]).await;
    session.commit(&[]).await.expect("no transaction conflicts");
}

/// Checks that of two transactions, each of which reads what the other writes, one fails.
///
/// # Panics
/// If both succeed.
pub async fn transactions_are_serializable(database: &dyn Database, space: &str) {
    let mut one = ConformanceSession::new(database, space).await;
    let mut other = ConformanceSession::new(database, space).await;
    one.begin().await;
    other.begin().await;
    assert_eq!(one.get("skew-a").await, Value::NONE);
    assert_eq!(other.get("skew-b").await, Value::NONE);
    let (first, second) = {
        // The database chooses which call reports the conflict.
        let write = one.ask("skew-b", REGISTER, ObjectOp::Put, &[Value::Int(1)]).await;
        let first = write.is_ok() && one.commit(&[]).await.is_ok();
        let write = other.ask("skew-a", REGISTER, ObjectOp::Put, &[Value::Int(1)]).await;
        let result = match write {
            Ok(_) => other.commit(&[]).await,
            Err(error) => Err(error),
        };
        (first, result)
    };
    assert!(first, "the first transaction has no conflict");
    assert_eq!(second, Err(StoreError::Conflict));
}

/// Checks that of two concurrent transactions that change an object, or create a name, one fails.
/// Both have read it before.
///
/// # Panics
/// If both succeed.
pub async fn updates_are_not_lost(database: &dyn Database, space: &str) {
    let mut one = ConformanceSession::new(database, space).await;
    let mut other = ConformanceSession::new(database, space).await;
    one.begin().await;
    other.begin().await;
    for session in [&mut one, &mut other] {
        assert_eq!(session.get("updated").await, Value::NONE);
        session.done("updated", REGISTER, ObjectOp::Put, &[Value::Int(1)]).await;
    }
    one.commit(&[]).await.expect("the first transaction has no conflict");
    assert_eq!(other.commit(&[]).await, Err(StoreError::Conflict));

    let name = Name { space: space.into(), key: "r:updated".into() };
    let begin = Begin { names: vec![name.clone()], strong: one.strong, ..Begin::default() };
    for session in [&mut one, &mut other] {
        assert_eq!(session.connection.begin(&begin).await, Ok(vec![Fields::new()]));
    }
    let create = [NameWrite::Set { name, field: 0, value: b"".as_slice().into(), new: true }];
    one.commit(&create).await.expect("the first transaction has no conflict");
    assert_eq!(other.commit(&create).await, Err(StoreError::Conflict));
}

const REGISTER: u32 = 0;
const COUNTER: u32 = 1;
const SET: u32 = 2;
const MAP: u32 = 3;
const LIST: u32 = 4;
const LOG: u32 = 5;
const STRUCT: u32 = 6;
const REMOTE_LIST: u32 = 7;

fn program() -> Program {
    let store = Store {
        name: "s".into(),
        level: "eventual".into(),
        accepts: vec![],
        atomic: true,
        operations: vec![],
    };
    let fields = vec![("name".into(), Type::String), ("count".into(), Type::Int)];
    Program {
        version: VERSION,
        stores: vec![store],
        structs: vec![Struct { name: "Line".into(), fields }],
        objects: vec![
            Object::Register(Type::Int),
            Object::Counter,
            Object::Set(Type::String),
            Object::Map(Type::String, Type::Int),
            Object::List(Type::Int),
            Object::Log(Type::Bytes),
            Object::Struct(StructId(0)),
            Object::RemoteList(Type::Float),
        ],
        functions: vec![],
        transactions: vec![],
    }
}

/// An operation, its arguments, and the expected result.
type Step = (ObjectOp, Vec<Value>, Option<Value>);

/// Returns a sequence of operations on an object of each kind.
#[expect(clippy::too_many_lines, reason = "a table, by type and operation")]
fn story() -> Vec<(&'static str, u32, Vec<Step>)> {
    use ObjectOp::{
        Append, At, Contains, ContainsKey, Create, Delete, Elements, Entries, Exists, Field, Get,
        GetKey, Increment, Insert, Load, Put, PutField, PutKey, Remove, RemoveKey, Size, Values,
    };
    let text = |text: &str| Value::string(text);
    let int = Value::Int;
    let change = |op, args: Vec<Value>| (op, args, Some(Value::Unit));
    let ask = |op, args: Vec<Value>, answer| (op, args, Some(answer));
    let missing = |op| (op, vec![], None);
    let is = |there| ask(Exists, vec![], Value::Bool(there));
    let set = |values: &[&str]| Value::Set(Arc::new(values.iter().map(|one| text(one)).collect()));
    let map = |pairs: &[(&str, i64)]| {
        Value::Map(Arc::new(pairs.iter().map(|(key, value)| (text(key), int(*value))).collect()))
    };
    let next = |key: &str| Value::Handle(Handle { store: "s".into(), key: key.into() });
    let bytes = |bytes: &[u8]| Value::Bytes(bytes.into());
    let long = "a long element ".repeat(1000);
    vec![
        (
            "register",
            REGISTER,
            vec![
                is(false),
                ask(Get, vec![], Value::NONE),
                missing(Load),
                change(Put, vec![int(1)]),
                change(Put, vec![int(-2)]),
                ask(Get, vec![], Value::some(int(-2))),
                ask(Load, vec![], int(-2)),
                is(true),
                change(Delete, vec![]),
                is(false),
                missing(Load),
                change(Delete, vec![]),
            ],
        ),
        (
            "counter",
            COUNTER,
            vec![
                ask(ObjectOp::Value, vec![], int(0)),
                change(Increment, vec![int(5)]),
                change(Increment, vec![int(-7)]),
                ask(ObjectOp::Value, vec![], int(-2)),
                change(Delete, vec![]),
                ask(ObjectOp::Value, vec![], int(0)),
                change(Increment, vec![int(i64::MAX)]),
                ask(ObjectOp::Value, vec![], int(i64::MAX)),
            ],
        ),
        (
            "set",
            SET,
            vec![
                ask(Contains, vec![text("a")], Value::Bool(false)),
                ask(Elements, vec![], set(&[])),
                ask(Size, vec![], int(0)),
                change(Remove, vec![text("a")]),
                change(Insert, vec![text("b")]),
                change(Insert, vec![text("a")]),
                change(Insert, vec![text("a")]),
                change(Insert, vec![text("")]),
                change(Insert, vec![text(&long)]),
                ask(Contains, vec![text(&long)], Value::Bool(true)),
                ask(Size, vec![], int(4)),
                change(Remove, vec![text(&long)]),
                change(Remove, vec![text("z")]),
                ask(Elements, vec![], set(&["", "a", "b"])),
                change(Remove, vec![text("a")]),
                ask(Contains, vec![text("a")], Value::Bool(false)),
                change(Delete, vec![]),
                ask(Elements, vec![], set(&[])),
            ],
        ),
        (
            "map",
            MAP,
            vec![
                ask(GetKey, vec![text("a")], Value::NONE),
                ask(ContainsKey, vec![text("a")], Value::Bool(false)),
                ask(Entries, vec![], map(&[])),
                change(PutKey, vec![text("b"), int(1)]),
                change(PutKey, vec![text("a"), int(2)]),
                change(PutKey, vec![text("b"), int(3)]),
                ask(GetKey, vec![text("b")], Value::some(int(3))),
                ask(ContainsKey, vec![text("b")], Value::Bool(true)),
                ask(Entries, vec![], map(&[("a", 2), ("b", 3)])),
                ask(Size, vec![], int(2)),
                change(RemoveKey, vec![text("b")]),
                ask(Entries, vec![], map(&[("a", 2)])),
                change(Delete, vec![]),
                ask(Size, vec![], int(0)),
            ],
        ),
        (
            "list",
            LIST,
            vec![
                ask(At, vec![int(0)], Value::NONE),
                ask(Values, vec![], Value::list([])),
                change(Append, vec![int(9)]),
                change(Append, vec![int(8)]),
                change(Delete, vec![]),
                change(Append, vec![int(1)]),
                change(Append, vec![int(2)]),
                change(Append, vec![int(1)]),
                ask(Values, vec![], Value::list([int(1), int(2), int(1)])),
                ask(Size, vec![], int(3)),
                ask(At, vec![int(1)], Value::some(int(2))),
                ask(At, vec![int(3)], Value::NONE),
                ask(At, vec![int(-1)], Value::NONE),
            ],
        ),
        (
            "log",
            LOG,
            vec![
                change(Append, vec![bytes(&[0, 255])]),
                change(Append, vec![bytes(&[])]),
                ask(Values, vec![], Value::list([bytes(&[0, 255]), bytes(&[])])),
                ask(Size, vec![], int(2)),
                is(true),
            ],
        ),
        (
            "struct",
            STRUCT,
            vec![
                missing(Field(0)),
                change(PutField(0), vec![text("first")]),
                ask(Field(0), vec![], text("first")),
                missing(Field(1)),
                change(Create, vec![text("second"), int(2)]),
                ask(Field(0), vec![], text("second")),
                change(PutField(1), vec![int(3)]),
                ask(Field(1), vec![], int(3)),
                change(Delete, vec![]),
                missing(Field(1)),
                change(Create, vec![text("third"), int(4)]),
                is(true),
            ],
        ),
        (
            "remote-list",
            REMOTE_LIST,
            vec![
                missing(Field(1)),
                change(Create, vec![Value::Float(0.1), next("end")]),
                ask(Field(0), vec![], Value::Float(0.1)),
                ask(Field(1), vec![], next("end")),
            ],
        ),
    ]
}

/// A session that uses objects of [`program`].
struct ConformanceSession {
    connection: Box<dyn Connection>,
    program: Arc<Program>,
    space: Arc<str>,
    strong: bool,
}

impl ConformanceSession {
    async fn new(database: &dyn Database, space: &str) -> ConformanceSession {
        let connection = database.connect().await.expect("the database can be reached");
        let level = database.level(space);
        let strong = matches!(level, Some(Level::Linearizable | Level::Por));
        ConformanceSession { connection, program: Arc::new(program()), space: space.into(), strong }
    }

    async fn begin(&mut self) {
        let begin = Begin { strong: self.strong, ..Begin::default() };
        self.connection.begin(&begin).await.expect("a transaction can begin");
    }

    /// Begins a transaction for one operation that only reads.
    async fn begin_once(&mut self) {
        let begin = Begin { strong: self.strong, read_only: true, once: true, ..Begin::default() };
        self.connection.begin(&begin).await.expect("a transaction can begin");
    }

    async fn look(
        &mut self,
        key: &str,
        object: u32,
        op: ObjectOp,
        look: Option<Name>,
    ) -> Result<Answer, StoreError> {
        let call = self.call(key, object, op, &[], look);
        self.connection.perform(&call).await
    }

    async fn ask(
        &mut self,
        key: &str,
        object: u32,
        op: ObjectOp,
        args: &[Value],
    ) -> Result<Option<Value>, StoreError> {
        let call = self.call(key, object, op, args, None);
        let answer = self.connection.perform(&call).await?;
        assert_eq!(answer.seen, Fields::new(), "no name was read");
        Ok(answer.value)
    }

    fn call(
        &self,
        key: &str,
        object: u32,
        op: ObjectOp,
        args: &[Value],
        look: Option<Name>,
    ) -> ObjectCall {
        let of = &self.program.objects[object as usize];
        let signature = objects::signature(&self.program, of, StoreId(0), op);
        ObjectCall {
            program: Arc::clone(&self.program),
            space: Arc::clone(&self.space),
            key: key.into(),
            object,
            op,
            args: args.to_vec(),
            result: signature.expect("the object has the operation").result,
            look,
        }
    }

    async fn done(&mut self, key: &str, object: u32, op: ObjectOp, args: &[Value]) {
        let answer = self.ask(key, object, op, args).await;
        assert_eq!(answer, Ok(Some(Value::Unit)), "{op:?} of `{key}`");
    }

    async fn get(&mut self, key: &str) -> Value {
        let answer = self.ask(key, REGISTER, ObjectOp::Get, &[]).await;
        answer.expect("a register can be read").expect("`get` returns an option")
    }

    async fn commit(&mut self, writes: &[NameWrite]) -> Result<(), StoreError> {
        self.connection.commit(writes).await
    }

    async fn abort(&mut self) {
        self.connection.abort().await.expect("a transaction can be aborted");
    }
}
