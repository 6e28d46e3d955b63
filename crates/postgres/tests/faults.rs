//! Outcomes of transactions whose server or connection is lost.

mod server;

use std::sync::Arc;
use std::time::Duration;

use server::proxy::{Loss, Proxy};
use server::with_database;
use solera_language::compile::compile;
use solera_mixt::store::{Begin, Connection, Database, NameWrite, ObjectCall, StoreError};
use solera_postgres::Postgres;
use solera_program::ir::Program;
use solera_program::operation::ObjectOp;
use solera_program::types::Type;
use solera_program::value::Value;

struct Session {
    connection: Box<dyn Connection>,
    program: Arc<Program>,
}

impl Session {
    async fn new(postgres: &Postgres) -> Session {
        let source = "store s : linearizable; transaction t(x: handle<counter> in s) { x.add(1); }";
        let program = Arc::new(compile(source).program.unwrap());
        Session { connection: postgres.connect().await.unwrap(), program }
    }

    async fn begin(&mut self) -> Result<(), StoreError> {
        let begin = Begin { strong: true, ..Begin::default() };
        self.connection.begin(&begin).await.map(|_| ())
    }

    async fn ask(&mut self, op: ObjectOp, args: &[i64]) -> Result<Value, StoreError> {
        self.ask_of("x", op, args).await
    }

    async fn ask_of(&mut self, key: &str, op: ObjectOp, args: &[i64]) -> Result<Value, StoreError> {
        let call = ObjectCall {
            program: Arc::clone(&self.program),
            space: "all".into(),
            key: key.into(),
            object: 0,
            op,
            args: args.iter().map(|number| Value::Int(*number)).collect(),
            result: Type::Int,
            look: None,
        };
        self.connection.perform(&call).await.map(|answer| answer.value.unwrap())
    }

    async fn add(&mut self) -> Result<Value, StoreError> {
        self.ask(ObjectOp::Increment, &[1]).await
    }

    /// Begins a transaction, and adds to the counter in it.
    async fn begin_add(&mut self) {
        self.begin().await.unwrap();
        self.add().await.unwrap();
    }

    /// Commits, and checks that the outcome is unknown.
    async fn commit_in_doubt(&mut self) {
        let outcome = self.commit().await;
        assert!(matches!(outcome, Err(StoreError::OutcomeUnknown(_))), "{outcome:?}");
    }

    /// Checks that an addition fails because the server cannot be reached.
    async fn add_in_vain(&mut self) {
        let found = self.add().await;
        assert!(is_unavailable(&found), "{found:?}");
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        self.connection.commit(&[]).await
    }

    /// Reads the value, in a transaction of its own.
    async fn value(&mut self) -> i64 {
        self.begin().await.unwrap();
        let Value::Int(value) = self.ask(ObjectOp::Value, &[]).await.unwrap() else { panic!() };
        self.commit().await.unwrap();
        value
    }

    /// Runs a whole transaction, and checks its effect.
    async fn grows_to(&mut self, value: i64) {
        self.warm_up().await;
        assert_eq!(self.value().await, value);
    }

    /// Runs a whole transaction, so that all statements are prepared.
    async fn warm_up(&mut self) {
        self.begin_add().await;
        self.commit().await.unwrap();
    }
}

/// Ends all sessions except this one.
const END_OTHERS: &str = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity \
     WHERE datname = current_database() AND pid <> pg_backend_pid()";

fn is_unavailable<T: std::fmt::Debug>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Unavailable(_)))
}

/// A session over a proxy that has run a transaction.
async fn warm(url: &server::Url) -> (Proxy, Session) {
    let proxy = Proxy::new(url).await;
    let mut session = Session::new(&proxy.url.postgres()).await;
    session.warm_up().await;
    (proxy, session)
}

#[test]
fn a_commit_whose_answer_is_lost_has_taken_effect_when_the_next_transaction_begins() {
    with_database(|url| async move {
        let (proxy, mut session) = warm(&url).await;
        session.begin_add().await;
        proxy.lose(Loss::CommitAnswer);
        session.commit_in_doubt().await;
        assert!(proxy.has_lost());
        // It answers only when it knows the outcome.
        proxy.lose(Loss::Everything);
        let begun = session.begin().await;
        assert!(is_unavailable(&begun), "{begun:?}");
        proxy.lose(Loss::Nothing);
        assert_eq!(session.value().await, 2);
    });
}

#[test]
fn a_commit_that_never_arrived_never_takes_effect() {
    with_database(|url| async move {
        let (proxy, mut session) = warm(&url).await;
        session.begin_add().await;
        proxy.lose(Loss::NextRequest);
        session.commit_in_doubt().await;
        assert!(proxy.has_lost());
        // The server's session still waits for the commit, and holds the counter's lock. The client
        // ends it.
        assert_eq!(session.value().await, 1);
        session.grows_to(2).await;
    });
}

#[test]
fn a_session_is_for_others_only_when_its_transaction_is_over_and_nothing_is_in_doubt() {
    with_database(|url| async move {
        let proxy = Proxy::new(&url).await;
        let mut session = Session::new(&proxy.url.postgres()).await;
        assert!(session.connection.reusable());
        session.begin_add().await;
        assert!(!session.connection.reusable());
        session.commit().await.unwrap();
        assert!(session.connection.reusable());
        session.begin_add().await;
        session.connection.abort().await.unwrap();
        assert!(session.connection.reusable());
        session.begin_add().await;
        proxy.lose(Loss::CommitAnswer);
        session.commit().await.unwrap_err();
        assert!(!session.connection.reusable());
        proxy.lose(Loss::Nothing);
        assert_eq!(session.value().await, 2);
        assert!(session.connection.reusable());
        // It notices a connection that broke while idle.
        url.client().await.execute(END_OTHERS, &[]).await.unwrap();
        while session.connection.reusable() {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_transaction_whose_session_is_ended_has_no_effect() {
    with_database(|url| async move {
        let admin = url.client().await;
        let mut session = Session::new(&url.postgres()).await;
        session.warm_up().await;
        session.begin_add().await;
        admin.execute(END_OTHERS, &[]).await.unwrap();
        session.add_in_vain().await;
        // The transaction no longer exists.
        let outcome = session.commit().await;
        assert!(matches!(outcome, Err(StoreError::Refused(_))), "{outcome:?}");
        assert_eq!(session.value().await, 1);

        // The connection is lost before the commit. The session then determines its outcome.
        session.begin_add().await;
        admin.execute(END_OTHERS, &[]).await.unwrap();
        session.commit_in_doubt().await;
        assert_eq!(session.value().await, 1);

        // While no transaction is open, the loss has no effect.
        admin.execute(END_OTHERS, &[]).await.unwrap();
        session.grows_to(2).await;
    });
}

#[test]
fn a_transaction_that_is_cut_off_keeps_no_locks() {
    with_database(|url| async move {
        let (proxy, mut session) = warm(&url).await;
        session.begin_add().await;
        proxy.lose(Loss::NextRequest);
        session.add_in_vain().await;
        session.grows_to(2).await;
    });
}

#[test]
fn what_only_reads_is_unavailable_and_leaves_no_doubt() {
    with_database(|url| async move {
        let (proxy, mut session) = warm(&url).await;
        let begin = Begin { strong: true, read_only: true, ..Begin::default() };
        session.connection.begin(&begin).await.unwrap();
        session.ask(ObjectOp::Value, &[]).await.unwrap();
        proxy.lose(Loss::CommitAnswer);
        let outcome = session.commit().await;
        assert!(is_unavailable(&outcome), "{outcome:?}");
        assert_eq!(session.value().await, 1);
    });
}

#[test]
fn a_missing_server_is_reported() {
    with_database(|url| async move {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let error = url.at(address).postgres().connect().await.err().unwrap();
        let refused = format!(
            "it cannot be reached: {address}: error connecting to server: Connection refused"
        );
        assert!(error.to_string().starts_with(&refused), "{error}");

        // The server does not answer.
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap();
        let at = url.at(address);
        let slow = at.builder().space("all").reply_timeout(Duration::from_millis(50));
        let error = slow.build().unwrap().connect().await.err().unwrap();
        let late =
            format!("it cannot be reached: {address}: PostgreSQL has not answered within 50 ms");
        assert_eq!(error.to_string(), late);

        let wrong = server::Url(url.0.replacen("solera:", "solera:wrong", 1));
        let error = wrong.postgres().connect().await.err().unwrap();
        assert!(error.to_string().contains("password authentication failed"), "{error}");
        // The password is not in the text.
        assert!(!format!("{error}{:?}", wrong.postgres()).contains("wrong"), "{error}");
    });
}

#[test]
fn an_answer_that_does_not_come_ends_the_connection() {
    with_database(|url| async move {
        let other = url.client().await;
        let patient = url.builder().space("all").reply_timeout(Duration::from_secs(2));
        let mut session = Session::new(&patient.build().unwrap()).await;
        session.warm_up().await;
        other.batch_execute("BEGIN; LOCK TABLE solera.objects").await.unwrap();
        session.begin().await.unwrap();
        session.add_in_vain().await;
        other.batch_execute("COMMIT").await.unwrap();
        session.grows_to(2).await;
    });
}

#[test]
fn tables_of_another_version_are_refused() {
    with_database(|url| async move {
        Session::new(&url.postgres()).await;
        let client = url.client().await;
        client.batch_execute("UPDATE solera.format SET version = 7").await.unwrap();
        let error = url.postgres().connect().await.err().unwrap();
        let text = "the tables in the schema `solera` are of another version of Solera (7)";
        assert_eq!(error.to_string(), text);
    });
}

#[test]
fn a_user_who_may_not_create_tables_uses_those_there_are() {
    with_database(|url| async move {
        let admin = url.client().await;
        let user = format!("plain_{}", std::process::id());
        let create = format!("CREATE ROLE {user} LOGIN PASSWORD 'plain'");
        admin.batch_execute(&create).await.unwrap();
        let (_, rest) = url.0.split_once('@').unwrap();
        let plain = server::Url(format!("postgresql://{user}:plain@{rest}"));
        let error = plain.postgres().connect().await.err().unwrap();
        assert!(error.to_string().contains("permission denied for database"), "{error}");
        assert!(error.to_string().starts_with("its tables cannot be created"), "{error}");
        Session::new(&url.postgres()).await;
        let grant = format!(
            "GRANT USAGE ON SCHEMA solera TO {user}; \
             GRANT SELECT, INSERT, UPDATE, DELETE ON solera.objects, solera.items, solera.names TO {user}; \
             GRANT SELECT ON solera.format TO {user}"
        );
        admin.batch_execute(&grant).await.unwrap();
        let mut session = Session::new(&plain.postgres()).await;
        session.grows_to(1).await;
        // The user can end its own sessions, which is necessary to find out the outcome of a
        // commit.
        drop(session);
        let (proxy, mut session) = warm(&plain).await;
        session.begin_add().await;
        proxy.lose(Loss::NextRequest);
        session.commit().await.unwrap_err();
        assert_eq!(session.value().await, 2);
        let end = format!("DROP OWNED BY {user}; DROP ROLE {user}");
        drop(session);
        admin.batch_execute(&end).await.unwrap();
    });
}

#[test]
fn keys_that_cannot_be_kept_are_refused() {
    with_database(|url| async move {
        let mut session = Session::new(&url.postgres()).await;
        for (key, why) in [
            ("x".repeat(1025), "a key has at most 1024 bytes, not 1025"),
            ("a\0b".to_owned(), "`a\\0b` cannot be a key: it holds a zero byte"),
        ] {
            session.begin().await.unwrap();
            let found = session.ask_of(&key, ObjectOp::Value, &[]).await;
            assert_eq!(found, Err(StoreError::Refused(why.to_owned())));
        }
        // The longest possible key, with its witness, in characters of two bytes.
        let key = "ü".repeat(512);
        session.begin().await.unwrap();
        let name = solera_mixt::store::Name { space: "all".into(), key: format!("w:{key}").into() };
        let write = NameWrite::Set { name, field: 0, value: Arc::new([]), new: true };
        session.connection.commit(&[write]).await.unwrap();
    });
}
