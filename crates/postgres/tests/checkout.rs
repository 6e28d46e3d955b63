//! The shop of `examples/checkout.mixt`: its stock in PostgreSQL, its carts and orders in a causal
//! store.

mod server;

use std::error::Error;
use std::sync::Arc;

use server::bench::{Bench, handle};
use server::{Url, with_database};
use solera_language::compile::compile;
use solera_mixt::outcome::{Outcome, Why};
use solera_postgres::Postgres;
use solera_program::ir::Program;
use solera_program::value::Value;

const MODULE: &str = include_str!("../../../examples/checkout.mixt");
const TABLES: &str = include_str!("../../../examples/checkout.sql");

/// Binds the statements. `docs/guide/postgres.md` shows this code.
async fn bind(url: &str, program: &Program) -> Result<Postgres, Box<dyn Error>> {
    let shop = Postgres::builder(url)
        .name("shop")
        .space("stock")
        .operation("take", "UPDATE stock SET count = count - $2 WHERE product = $1 AND count >= $2")
        .operation("left", "SELECT count FROM stock WHERE product = $1")
        .build()?;
    shop.check(program, "stock", "stock").await?;
    Ok(shop)
}

#[test]
fn the_code_of_the_guide_binds_all_operations() {
    with_database(|url| async move {
        url.client().await.batch_execute(TABLES).await.unwrap();
        let program = compile(MODULE).program.unwrap();
        bind(&url.0, &program).await.unwrap();
    });
}

/// Binds the same statements.
fn stock(url: &Url) -> Postgres {
    url.builder()
        .space("stock")
        .operation("take", "UPDATE stock SET count = count - $2 WHERE product = $1 AND count >= $2")
        .operation("left", "SELECT count FROM stock WHERE product = $1")
        .build()
        .unwrap()
}

fn line(product: &str, count: i64) -> Value {
    Value::Struct(Arc::new(vec![Value::string(product), Value::Int(count)]))
}

#[test]
fn nothing_is_sold_twice_and_every_order_is_logged_once() {
    with_database(|url| async move {
        let client = url.client().await;
        client.batch_execute(TABLES).await.unwrap();
        let shop = stock(&url);
        let mut bench = Bench::new(MODULE, shop.clone(), "stock");
        shop.check(bench.module.program(), "stock", "stock").await.unwrap();
        bench.limits.attempts = 1000;
        bench.limits.backoff_last_ms = 20;
        let bench = Arc::new(bench);

        // There are five pens, nine customers want one, and another program sells ink beside them.
        let customers = (0..9).map(|customer| {
            let bench = Arc::clone(&bench);
            tokio::spawn(async move {
                let mut connections = bench.connections();
                let cart = handle("carts", &format!("cart-{customer}"));
                let put = vec![cart.clone(), Value::string("pen"), Value::Int(1)];
                let (outcome, _) = bench.run(&mut connections, "put", put).await;
                assert!(matches!(outcome, Outcome::Done { .. }), "{outcome}");
                let order = format!("order-{customer}");
                let lines = Value::list([line("ink", 2), line("pen", 1)]);
                let orders = handle("carts", "orders");
                let args = vec![Value::string(&order), lines, cart, orders];
                let (outcome, left) = bench.run(&mut connections, "checkout", args).await;
                match outcome {
                    Outcome::Done { .. } => (Some(order), left),
                    Outcome::Failed(Why::Program(failure)) => {
                        let text = failure.to_string();
                        assert!(text.contains("out of stock: pen"), "{text}");
                        (None, left)
                    }
                    other => panic!("{other}"),
                }
            })
        });
        let customers: Vec<_> = customers.collect();
        for _ in 0..5 {
            let sell = "UPDATE stock SET count = count - 1 WHERE product = 'ink'";
            client.batch_execute(sell).await.unwrap();
        }
        let (mut accepted, mut left) = (Vec::new(), Vec::new());
        for customer in customers {
            let (order, records) = customer.await.unwrap();
            accepted.extend(order);
            left.extend(records);
        }
        assert_eq!(accepted.len(), 5);
        let count = async |product: &str| -> i32 {
            let sql = "SELECT count FROM stock WHERE product = $1";
            client.query_one(sql, &[&product]).await.unwrap().get(0)
        };
        assert_eq!((count("pen").await, count("ink").await), (0, 40 - 5 - 2 * 5));

        let cart = bench.done("cart", vec![handle("carts", "cart-0")]).await;
        let emptied = accepted.contains(&"order-0".to_owned());
        assert_eq!(cart == Value::Map(Arc::default()), emptied, "{cart:?}");
        assert_eq!(logged(&bench).await, sorted(accepted));
        bench.collect(left).await;
        assert_eq!((url.count("solera.names").await, bench.memory.names("weak").len()), (0, 0));
    });
}

fn sorted(mut orders: Vec<String>) -> Vec<String> {
    orders.sort();
    orders
}

/// Returns the content of the log, read by another module.
async fn logged(bench: &Bench) -> Vec<String> {
    let source = "store stock : linearizable; store carts : causal; \
                  transaction read(orders: handle<log<string>> in carts) -> list<string> { return orders.values(); }";
    let postgres = Postgres::builder("postgresql://127.0.0.1:1/none").name("pg").space("stock");
    let reader = Bench::beside(source, postgres.build().unwrap(), "stock", bench.memory.clone());
    let Value::List(orders) = reader.done("read", vec![handle("carts", "orders")]).await else {
        panic!()
    };
    let orders = orders.iter().map(|order| match order {
        Value::String(order) => order.to_string(),
        other => panic!("{other:?}"),
    });
    sorted(orders.collect())
}
