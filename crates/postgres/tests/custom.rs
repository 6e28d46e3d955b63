//! Custom operations: statements on tables that other programs use, too.

mod server;

use std::sync::Arc;

use server::{Url, with_database};
use solera_language::compile::compile;
use solera_mixt::store::{
    Begin, Connection, CustomCall, Database, Name, NameWrite, ObjectCall, StoreError,
};
use solera_postgres::{Builder, ConfigError, Postgres};
use solera_program::ir::Program;
use solera_program::operation::ObjectOp;
use solera_program::types::StoreId;
use solera_program::value::{Handle, Value};

const SOURCE: &str = r#"
struct Line { product: string, left: int }

store stock : linearizable {
    operation take(product: string, count: int) -> bool;
    operation add(product: string, count: int) -> int;
    operation note(text: option<string>, at: float, raw: bytes, wanted: bool);
    query left(product: string) -> int;
    query find(product: string) -> option<int>;
    query names() -> list<string>;
    query lines() -> list<Line>;
    query line(product: string) -> Line;
    query prices() -> map<string, int>;
    query among(products: list<string>) -> set<string>;
    query total(counts: *list<int>) -> int;
    query keys(prices: *map<string, int>) -> list<string>;
    query sneaky() -> int;
}

transaction t(counts: handle<list<int>> in stock) { counts.push(1); }
"#;

const TABLE: &str = "CREATE TABLE stock (product text PRIMARY KEY, count int4 NOT NULL CHECK (count >= 0)); \
     INSERT INTO stock VALUES ('pen', 5), ('ink', 2); \
     CREATE TABLE notes (text varchar(9), at float8, raw bytea, wanted bool)";

fn builder(url: &Url) -> Builder {
    url.builder()
        .space("stock")
        .operation("take", "UPDATE stock SET count = count - $2 WHERE product = $1 AND count >= $2")
        .operation("add", "UPDATE stock SET count = count + $2 WHERE product = $1 RETURNING count")
        .operation("note", "INSERT INTO notes VALUES ($1, $2, $3, $4)")
        .operation("left", "SELECT count FROM stock WHERE product = $1")
        .operation("find", "SELECT count FROM stock WHERE product = $1")
        .operation("names", "SELECT product FROM stock ORDER BY product")
        .operation("lines", "SELECT count AS left, product FROM stock ORDER BY product")
        .operation("line", "SELECT product, count::int8 AS left FROM stock WHERE product = $1")
        .operation("prices", "SELECT product, count FROM stock")
        .operation("among", "SELECT product FROM stock WHERE product = ANY ($1)")
        .operation("total", "SELECT coalesce(sum(n), 0)::int8 FROM unnest($1::int8[]) n")
        .operation("keys", "SELECT pair ->> 0 FROM jsonb_array_elements($1) pair ORDER BY 1")
        .operation(
            "sneaky",
            "WITH none AS (UPDATE stock SET count = 0 RETURNING count) SELECT count FROM none",
        )
        .operation("rash", "UPDATE stock SET count = 0 RETURNING count")
}

struct Session {
    program: Arc<Program>,
    connection: Box<dyn Connection>,
}

impl Session {
    async fn new(postgres: &Postgres) -> Session {
        Session { program: program(SOURCE), connection: postgres.connect().await.unwrap() }
    }

    async fn begin(&mut self, read_only: bool) {
        let begin = Begin { strong: true, read_only, ..Begin::default() };
        self.connection.begin(&begin).await.unwrap();
    }

    async fn call(&mut self, name: &str, args: &[Value]) -> Result<Value, StoreError> {
        let operations = &self.program.stores[0].operations;
        let operation = operations.iter().position(|found| *found.name == *name).unwrap();
        let call = CustomCall {
            program: Arc::clone(&self.program),
            store: StoreId(0),
            operation: operation.try_into().unwrap(),
            space: "stock".into(),
            args: args.to_vec(),
            look: vec![],
        };
        self.connection.custom(&call).await.map(|answer| answer.value.unwrap())
    }

    async fn commit(&mut self) {
        self.connection.commit(&[]).await.unwrap();
    }
}

fn program(source: &str) -> Arc<Program> {
    let compiled = compile(source);
    assert!(compiled.program.is_some(), "{:?}", compiled.diagnostics);
    Arc::new(compiled.program.unwrap())
}

fn text(text: &str) -> Value {
    Value::string(text)
}

fn texts(all: &[&str]) -> Vec<Value> {
    all.iter().map(|one| text(one)).collect()
}

#[test]
fn statements_answer_what_is_declared() {
    with_database(|url| async move {
        url.client().await.batch_execute(TABLE).await.unwrap();
        let mut session = Session::new(&builder(&url).build().unwrap()).await;
        session.begin(false).await;
        let int = Value::Int;
        let line = |name: &str, left| Value::Struct(Arc::new(vec![text(name), int(left)]));
        let pairs = [(text("ink"), int(2)), (text("pen"), int(3))];
        for (name, args, wanted) in [
            ("take", vec![text("pen"), int(2)], Value::Bool(true)),
            ("take", vec![text("pen"), int(4)], Value::Bool(false)),
            ("left", vec![text("pen")], int(3)),
            ("find", vec![text("pen")], Value::some(int(3))),
            ("find", vec![text("cap")], Value::NONE),
            ("names", vec![], Value::list(texts(&["ink", "pen"]))),
            ("lines", vec![], Value::list([line("ink", 2), line("pen", 3)])),
            ("line", vec![text("ink")], line("ink", 2)),
            ("prices", vec![], Value::Map(Arc::new(pairs.into_iter().collect()))),
            (
                "among",
                vec![Value::list(texts(&["pen", "cap"]))],
                Value::Set(Arc::new(texts(&["pen"]).into_iter().collect())),
            ),
            ("add", vec![text("ink"), int(-1)], int(1)),
        ] {
            assert_eq!(session.call(name, &args).await, Ok(wanted), "{name}");
        }
        let note = |text: Value, raw: &[u8]| {
            vec![text, Value::Float(0.1), Value::Bytes(raw.into()), Value::Bool(true)]
        };
        let some = Value::some(text("it's; --"));
        assert_eq!(session.call("note", &note(some, &[0, 255])).await, Ok(Value::Unit));
        assert_eq!(session.call("note", &note(Value::NONE, &[])).await, Ok(Value::Unit));
        session.commit().await;
        let rows =
            url.client().await.query("SELECT * FROM notes ORDER BY text", &[]).await.unwrap();
        let (first, second) = (&rows[0], &rows[1]);
        assert_eq!(first.get::<_, &str>(0), "it's; --");
        assert_eq!((first.get::<_, f64>(1), first.get::<_, bool>(3)), (0.1, true));
        assert_eq!(first.get::<_, &[u8]>(2), [0, 255]);
        assert_eq!(second.get::<_, Option<&str>>(0), None);
    });
}

#[test]
fn failed_operations_are_reported_and_end_the_transaction() {
    with_database(|url| async move {
        url.client().await.batch_execute(TABLE).await.unwrap();
        let mut session = Session::new(&builder(&url).build().unwrap()).await;
        let int = Value::Int;
        for (name, args, why) in [
            (
                "add",
                vec![text("pen"), int(-9)],
                "the operation `add`: new row for relation \"stock\" violates check constraint \"stock_count_check\" \
                 (SQLSTATE 23514)",
            ),
            (
                "left",
                vec![text("cap")],
                "the operation `left`: it has found no row; if that is possible, declare its result as an option",
            ),
            (
                "take",
                vec![text("pen"), int(1 << 40)],
                "`count` of the operation `take`: 1099511627776 does not fit the parameter's type",
            ),
            (
                "left",
                vec![text("a\0")],
                "`product` of the operation `left`: PostgreSQL cannot store a text with a zero byte",
            ),
            (
                "sneaky",
                vec![],
                "the query `sneaky` writes, so it must be declared as an operation: cannot execute SELECT in a \
                 read-only transaction (SQLSTATE 25006)",
            ),
        ] {
            // A query does not write in a read-only transaction, nor in another one.
            for read_only in [false, true] {
                if read_only && !["left", "sneaky"].contains(&name) {
                    continue;
                }
                session.begin(read_only).await;
                let found = session.call(name, &args).await;
                assert_eq!(found, Err(StoreError::Refused(why.to_owned())), "{name}");
                session.connection.abort().await.unwrap();
            }
        }
        // After an error of the server nothing continues, but the next transaction succeeds.
        session.begin(false).await;
        session.call("take", &[text("pen"), int(1)]).await.unwrap();
        session.call("add", &[text("pen"), int(-9)]).await.unwrap_err();
        assert!(matches!(session.call("names", &[]).await, Err(StoreError::Refused(_))));
        let committed = session.connection.commit(&[]).await;
        assert!(matches!(committed, Err(StoreError::Refused(_))), "{committed:?}");
        session.begin(true).await;
        assert_eq!(session.call("left", &[text("pen")]).await, Ok(int(5)));
    });
}

#[test]
fn queries_beside_writes_see_them_and_write_nothing() {
    with_database(|url| async move {
        url.client().await.batch_execute(TABLE).await.unwrap();
        let mut session = Session::new(&builder(&url).build().unwrap()).await;
        session.begin(false).await;
        session.call("take", &[text("pen"), Value::Int(5)]).await.unwrap();
        assert_eq!(session.call("left", &[text("pen")]).await, Ok(Value::Int(0)));
        // An operation may write after a query.
        session.call("add", &[text("pen"), Value::Int(1)]).await.unwrap();
        session.commit().await;
        session.begin(true).await;
        assert_eq!(session.call("left", &[text("pen")]).await, Ok(Value::Int(1)));
    });
}

#[test]
fn dereferenced_parameters_are_what_the_handle_leads_to() {
    with_database(|url| async move {
        url.client().await.batch_execute(TABLE).await.unwrap();
        let mut session = Session::new(&builder(&url).build().unwrap()).await;
        let handle = |key: &str| Value::Handle(Handle { store: "stock".into(), key: key.into() });
        session.begin(false).await;
        assert_eq!(session.call("total", &[handle("none")]).await, Ok(Value::Int(0)));
        for number in [20, 22] {
            let call = ObjectCall {
                program: Arc::clone(&session.program),
                space: "stock".into(),
                key: "counts".into(),
                object: 0,
                op: ObjectOp::Append,
                args: vec![Value::Int(number)],
                result: solera_program::types::Type::Unit,
                look: None,
            };
            session.connection.perform(&call).await.unwrap();
        }
        assert_eq!(session.call("total", &[handle("counts")]).await, Ok(Value::Int(42)));
        assert_eq!(session.call("keys", &[handle("none")]).await, Ok(Value::list([])));
        let wrong = session.call("keys", &[handle("counts")]).await.unwrap_err();
        assert_eq!(wrong.to_string(), "`counts` holds a list, not a map");
    });
}

#[test]
fn names_are_looked_at_along_with_an_operation() {
    with_database(|url| async move {
        url.client().await.batch_execute(TABLE).await.unwrap();
        let mut session = Session::new(&builder(&url).build().unwrap()).await;
        session.begin(false).await;
        let name = |key: &str| Name { space: "stock".into(), key: key.into() };
        let set = |key: &str, field| NameWrite::Set {
            name: name(key),
            field,
            value: Arc::new([1]),
            new: false,
        };
        session.connection.commit(&[set("a", 1), set("w:x", 2), set("b", 3)]).await.unwrap();
        session.begin(false).await;
        for (operation, args) in [(3_u16, vec![text("pen")]), (0, vec![text("pen"), Value::Int(1)])]
        {
            let call = CustomCall {
                program: Arc::clone(&session.program),
                store: StoreId(0),
                operation,
                space: "stock".into(),
                args,
                look: vec![name("a"), name("w:x")],
            };
            let answer = session.connection.custom(&call).await.unwrap();
            assert_eq!(answer.seen.keys().copied().collect::<Vec<_>>(), [1, 2], "{operation}");
        }
    });
}

#[test]
fn other_users_of_the_table_conflict_or_not() {
    with_database(|url| async move {
        let other = url.client().await;
        other.batch_execute(TABLE).await.unwrap();
        let mut session = Session::new(&builder(&url).build().unwrap()).await;
        // Another transaction has committed between our snapshot and our write.
        session.begin(false).await;
        assert_eq!(session.call("left", &[text("ink")]).await, Ok(Value::Int(2)));
        other.batch_execute("UPDATE stock SET count = 4 WHERE product = 'pen'").await.unwrap();
        let taken = session.call("take", &[text("pen"), Value::Int(5)]).await;
        assert_eq!(taken, Err(StoreError::Conflict));
        // The next attempt succeeds.
        session.begin(false).await;
        let taken = session.call("take", &[text("pen"), Value::Int(4)]).await;
        assert_eq!(taken, Ok(Value::Bool(true)));
        session.commit().await;
        let left: i32 = other
            .query_one("SELECT count FROM stock WHERE product = 'pen'", &[])
            .await
            .unwrap()
            .get(0);
        assert_eq!(left, 0);
        assert_eq!(url.count("stock").await, 2);
    });
}

#[test]
fn tables_that_change_are_noticed() {
    with_database(|url| async move {
        url.client().await.batch_execute(TABLE).await.unwrap();
        let mut session = Session::new(&builder(&url).build().unwrap()).await;
        session.begin(true).await;
        session.call("left", &[text("pen")]).await.unwrap();
        session.commit().await;
        let change = "ALTER TABLE stock ALTER count TYPE int8";
        url.client().await.batch_execute(change).await.unwrap();
        session.begin(true).await;
        let error = session.call("left", &[text("pen")]).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        session.begin(true).await;
        assert_eq!(session.call("left", &[text("pen")]).await, Ok(Value::Int(5)));
    });
}

#[test]
fn declarations_that_do_not_match_are_reported() {
    with_database(|url| async move {
        url.client().await.batch_execute(TABLE).await.unwrap();
        let postgres = builder(&url).build().unwrap();
        postgres.check(&program(SOURCE), "stock", "stock").await.unwrap();
        let with =
            |declared: &str| program(&format!("store stock : linearizable {{ {declared} }}"));
        for (declared, why) in [
            (
                "query other() -> int;",
                "the operation `other` of the store `stock`: its space has no statement for it",
            ),
            (
                "query left() -> int;",
                "the operation `left` of the store `stock`: 0 parameters are declared, but the statement has 1",
            ),
            (
                "query left(product: int) -> int;",
                "the operation `left` of the store `stock`: the parameter `product` is declared int, but the statement \
                 takes text; a cast of the parameter may help, as in `$1::text::uuid`",
            ),
            (
                "query left(product: string) -> string;",
                "the operation `left` of the store `stock`: the column `count` is int4, but declared string; a cast may \
                 help, as in `count::int8`",
            ),
            (
                "query lines() -> list<int>;",
                "the operation `lines` of the store `stock`: its result is declared list<int>, which needs 1 columns, but \
                 the statement returns 2",
            ),
            (
                "operation take(product: string, count: int) -> string;",
                "the operation `take` of the store `stock`: its result is declared string, but the statement returns no \
                 columns: add a RETURNING clause",
            ),
        ] {
            let error = postgres.check(&with(declared), "stock", "stock").await.unwrap_err();
            assert_eq!(error.to_string(), why);
        }
        let other = "struct L { product: string, price: int } store stock : linearizable { query lines() -> list<L>; }";
        let error = postgres.check(&program(other), "stock", "stock").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the operation `lines` of the store `stock`: its result is declared list<L>, but the statement returns no \
             column `price`"
        );
        let error = postgres.check(&with(""), "shop", "stock").await.unwrap_err();
        assert_eq!(error.to_string(), "the module declares no store `shop`");

        let error = postgres.check(&with("query rash() -> int;"), "stock", "stock").await;
        assert_eq!(
            error.unwrap_err().to_string(),
            "the operation `rash` of the store `stock`: it is declared as a query, but its statement begins with \
             `UPDATE` and writes: declare it as an operation"
        );
    });
}

/// An operation whose statement the server does not prepare fails when it is called. The rest of
/// the database works, and so does the statement once its table exists.
#[test]
fn a_statement_that_cannot_be_prepared_affects_no_other() {
    with_database(|url| async move {
        let other = url.client().await;
        other.batch_execute(TABLE).await.unwrap();
        other.batch_execute("ALTER TABLE notes RENAME TO elsewhere").await.unwrap();
        let postgres = builder(&url).build().unwrap();
        let why = "the operation `note` of the store `stock`: its statement cannot be prepared: relation \"notes\" \
                   does not exist (SQLSTATE 42P01)";
        let error = postgres.check(&program(SOURCE), "stock", "stock").await.unwrap_err();
        assert_eq!(error.to_string(), why);
        let without = program("store stock : linearizable { query left(product: string) -> int; }");
        postgres.check(&without, "stock", "stock").await.unwrap();

        let mut session = Session::new(&postgres).await;
        let args = [Value::NONE, Value::Float(1.0), Value::Bytes(Arc::new([])), Value::Bool(true)];
        for there in [false, true] {
            session.begin(false).await;
            assert_eq!(session.call("left", &[text("pen")]).await, Ok(Value::Int(5)));
            let noted = session.call("note", &args).await;
            if there {
                assert_eq!(noted, Ok(Value::Unit));
                session.commit().await;
            } else {
                assert_eq!(noted, Err(StoreError::Refused(why.to_owned())));
                session.connection.abort().await.unwrap();
                other.batch_execute("ALTER TABLE elsewhere RENAME TO notes").await.unwrap();
            }
        }
        assert_eq!(url.count("notes").await, 1);
    });
}

#[test]
fn an_invalid_configuration_is_rejected_before_a_connection() {
    let builder = || Postgres::builder("postgresql://someone@127.0.0.1:1/x");
    let error = builder().operation("a", "SELECT 1").build().unwrap_err();
    assert_eq!(error, ConfigError::OperationWithoutSpace("a".to_owned()));
    let error = builder().space("s").operation("a", "COMMIT").build().unwrap_err();
    assert!(error.to_string().contains("begins with `COMMIT`"), "{error}");
    let twice = builder().space("s").operation("a", "SELECT 1").operation("a", "SELECT 2");
    assert!(matches!(twice.build(), Err(ConfigError::OperationTwice { .. })));
    assert_eq!(
        builder().space("s").space("s").build().unwrap_err(),
        ConfigError::SpaceTwice("s".to_owned())
    );
    assert!(matches!(builder().space("").build(), Err(ConfigError::Space(_))));
    assert!(matches!(builder().schema(&"x".repeat(64)).build(), Err(ConfigError::Schema(_))));
    for url in ["", "postgresql://", "http://x", "postgresql://h/d?nonsense=1"] {
        let error = Postgres::builder(url).build().unwrap_err();
        assert!(matches!(error, ConfigError::Url(_)), "{url}: {error}");
    }
}
