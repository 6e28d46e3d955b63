//! Tests `solera up` with external databases as stores: loads a module, calls it over RESP, and
//! checks the data in the databases. `scripts/with-stores` starts the databases.

mod common;

use std::process::{Command, Stdio};

use common::{Folder, Process, SOLERA, Up, eventually, free_ports};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use solera::{Client, Error, Value};
use tokio_postgres::NoTls;

const CHECKOUT: &str = include_str!("../../../examples/checkout.mixt");
const TABLE: &str = include_str!("../../../examples/checkout.sql");

/// A program with a store in each of the two databases; the level of one is weaker than that of the
/// table.
const SHOP: &str = "
store stock : linearizable {
    operation take(product: string, count: int) -> bool;
    query left(product: string) -> int;
}
store sold : eventual;

transaction sell(product: string, count: int, sold: handle<counter> in sold) -> int {
    if !stock.take(product, count) { abort \"out of stock: \" + product; }
    sold.add(count);
    return stock.left(product);
}
";

fn server(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "this test needs {variable}: run it as `scripts/with-stores cargo test -p solera-cli`"
        )
    })
}

/// A test's own schema in the PostgreSQL server. It is dropped when the test has passed.
struct Shop {
    client: tokio_postgres::Client,
    schema: String,
}

impl Shop {
    async fn create(name: &str) -> Shop {
        let (client, connection) =
            tokio_postgres::connect(&server("SOLERA_TEST_POSTGRES"), NoTls).await.unwrap();
        tokio::spawn(connection);
        let schema = format!("solera_cli_{name}_{}", std::process::id());
        let made = format!("CREATE SCHEMA {schema}; SET search_path TO {schema}; {TABLE}");
        client.batch_execute(&made).await.unwrap();
        Shop { client, schema }
    }

    /// Returns the configuration of a cluster whose modules may use the schema, and a separate
    /// prefix in Redis.
    fn settings(&self) -> String {
        let (schema, postgres, redis) =
            (&self.schema, server("SOLERA_TEST_POSTGRES"), server("SOLERA_TEST_REDIS"));
        format!(
            "
[[space]]
name = 'carts'
prefix = 'shop:'
level = 'causal'
[[store]]
name = 'shop'
kind = 'postgres'
url = '{postgres}'
schema = '{schema}'
[[store.space]]
name = 'stock'
[store.space.operations]
take = 'UPDATE {schema}.stock SET count = count - $2 WHERE product = $1 AND count >= $2'
left = 'SELECT count FROM {schema}.stock WHERE product = $1'
[[store.space]]
name = 'odd'
[store.space.operations]
take = 'UPDATE {schema}.stock SET count = count - 1 WHERE product = $1'
left = 'SELECT count FROM {schema}.stock WHERE product = $1'
[[store]]
name = 'cache'
kind = 'redis'
url = '{redis}'
[[store.space]]
name = 'statistics'
prefix = '{schema}:'
[[store]]
name = 'away'
kind = 'postgres'
url = 'postgresql://127.0.0.1:1/none'
timeout_ms = 3000
[[store.space]]
name = 'stock'
[store.space.operations]
take = 'SELECT true'
"
        )
    }

    async fn count(&self, product: &str) -> i32 {
        let sql = "SELECT count FROM stock WHERE product = $1";
        self.client.query_one(sql, &[&product]).await.unwrap().get(0)
    }

    async fn drop(self) {
        self.client.batch_execute(&format!("DROP SCHEMA {} CASCADE", self.schema)).await.unwrap();
    }
}

async fn load(client: &mut Client, source: &str, binds: &[&str]) -> Result<Value, Error> {
    let mut words = vec!["SOLERA.MODULE", "LOAD", "shop", source, "REPLACE"];
    words.extend(binds.iter().flat_map(|bind| ["BIND", bind]));
    client.command(&words).await
}

#[tokio::test]
async fn modules_use_postgres_and_redis_together() {
    let shop = Shop::create("both").await;
    let folder = Folder::new();
    let file = folder.file("s.toml", &shop.settings());
    let up = Up::start(&["--config", file.to_str().unwrap()]);
    let mut client = up.client(1).await;

    for (bind, code, reason) in [
        ("stock=shop/none", "BADBIND", "to shop/none: there is no such space"),
        ("stock=cash/stock", "BADBIND", "there are shop, cache, away"),
        (
            "stock=shop/odd",
            "BADBIND",
            "the store `stock` cannot be shop/odd: the operation `take` of the store `stock`: \
             2 parameters are declared, but the statement has 1",
        ),
        ("stock=carts", "BADBIND", "is causal: it must be linearizable"),
        ("stock=cache/statistics", "BADBIND", "is eventual: it must be linearizable"),
        ("stock=away/stock", "UNAVAILABLE", "nothing was loaded"),
    ] {
        let binds = [bind, "sold=cache/statistics"];
        let error = load(&mut client, SHOP, &binds).await.unwrap_err();
        let text = error.to_string();
        assert!(error.code() == Some(code) && text.contains(reason), "{bind}: {text}");
    }
    let modules = client.command(&["SOLERA.MODULE", "LIST"]).await.unwrap();
    assert_eq!(modules, Value::Array(vec![]), "what was refused is not loaded");

    load(&mut client, SHOP, &["stock=shop/stock", "sold=cache/statistics"]).await.unwrap();
    let sell = ["SOLERA.CALL", "shop.sell", "ink", "7", "ink"];
    assert_eq!(client.command(&sell).await.unwrap(), Value::Integer(33));
    let sell = ["SOLERA.CALL", "shop.sell", "ink", "34", "ink"];
    let error = client.command(&sell).await.unwrap_err().to_string();
    assert!(error.contains("out of stock: ink"), "{error}");
    assert_eq!(shop.count("ink").await, 33);
    assert_eq!(in_redis(&format!("{}:ink", shop.schema)), "7");
    drop(up);
    shop.drop().await;
}

/// Creates certificates: the authorities `ca` and `other`, and those that `ca` has signed for two
/// sites on this machine.
fn certificates(folder: &Folder) {
    let authority = |name: &str| {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        folder.file(&format!("{name}.pem"), &params.self_signed(&key).unwrap().pem());
        Issuer::new(params, key)
    };
    let (ca, _) = (authority("ca"), authority("other"));
    for name in ["site", "us"] {
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let pem = params.signed_by(&key, &ca).unwrap().pem();
        folder.file(&format!("{name}.pem"), &pem);
        folder.file(&format!("{name}.key"), &key.serialize_pem());
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one scenario, in the order of its steps")]
async fn stores_are_reached_over_tls_and_their_certificates_are_verified() {
    let shop = Shop::create("tls").await;
    let folder = Folder::new();
    certificates(&folder);
    let tls = std::path::PathBuf::from(server("SOLERA_TEST_TLS"));
    for name in ["ca.pem", "other.pem"] {
        std::fs::copy(tls.join(name), folder.at(&format!("stores-{name}"))).unwrap();
    }
    // This cluster requires certificates of its clients.
    let port = free_ports(&["127.0.0.1"]);
    let [plain, secure, peer, admin] = [0, 1, 2, 3].map(|purpose| port + purpose);
    let far = format!(
        "cluster = 'far'\n[tls]\ncert = 'site.pem'\nkey = 'site.key'\nclient_ca = 'ca.pem'\n[[site]]\n\
         name = 'eu'\n[[site.node]]\nresp = '127.0.0.1:{plain}'\nresp_tls = '127.0.0.1:{secure}'\n\
         peer = '127.0.0.1:{peer}'\nadmin = '127.0.0.1:{admin}'\n"
    );
    let far = folder.file("far.toml", &far);
    let mut serve = Command::new(SOLERA);
    serve.args(["serve", "--site", "eu", "--config"]).arg(&far).stderr(Stdio::piped());
    let far = Process::start(&mut serve);
    far.says("(resp_tls)");

    let postgres = server("SOLERA_TEST_POSTGRES");
    let redis = server("SOLERA_TEST_REDIS_TLS");
    let schema = &shop.schema;
    let settings = shop
        .settings()
        .replacen(
            &format!("'{postgres}'"),
            &format!(
                "'{postgres}?sslmode=verify-full&application_name={schema}'\nca = 'stores-ca.pem'"
            ),
            1,
        )
        .replacen(
            &format!("'{}'", server("SOLERA_TEST_REDIS")),
            &format!("'{redis}'\nca = 'stores-ca.pem'"),
            1,
        );
    let settings = format!(
        "{settings}[[store]]\nname = 'far'\nkind = 'solera'\nurl = 'solera://127.0.0.1:{secure}'\n\
         ca = 'ca.pem'\ncert = 'us.pem'\nkey = 'us.key'\n[[store.space]]\nname = 'default'\nlevel = 'causal'\n"
    );
    let file = folder.file("s.toml", &settings);
    {
        let up = Up::start(&["--config", file.to_str().unwrap()]);
        let mut client = up.client(1).await;
        for sold in ["cache/statistics", "far/default"] {
            load(&mut client, SHOP, &["stock=shop/stock", &format!("sold={sold}")]).await.unwrap();
            let before = i64::from(shop.count("ink").await);
            let sell = ["SOLERA.CALL", "shop.sell", "ink", "1", "ink"];
            assert_eq!(client.command(&sell).await.unwrap(), Value::Integer(before - 1), "{sold}");
        }
        assert_eq!(in_redis(&format!("{schema}:ink")), "1");
        let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = $1";
        let encrypted: bool = shop.client.query_one(sql, &[schema]).await.unwrap().get(0);
        assert!(encrypted);
    }
    // None of the stores' certificates is signed by a configured authority.
    let file = settings.replace("ca = 'stores-ca.pem'", "ca = 'stores-other.pem'");
    let file = folder.file("s.toml", &file.replace("ca = 'ca.pem'", "ca = 'other.pem'"));
    let up = Up::start(&["--config", file.to_str().unwrap()]);
    let mut client = up.client(1).await;
    let at =
        |url: &str| url.split(['@', '/']).find(|part| part.starts_with("127.")).unwrap().to_owned();
    let strange = "its certificate is not signed by an authority in";
    let error = load(&mut client, SHOP, &["stock=shop/stock", "sold=far/default"]).await;
    let error = error.unwrap_err().to_string();
    let password = postgres.split([':', '@']).nth(2).unwrap();
    let expected = [at(&postgres), strange.to_owned(), "stores-other.pem".to_owned()];
    let names = |text: &str, wanted: &[String]| wanted.iter().all(|part| text.contains(part));
    assert!(names(&error, &expected) && error.contains("shop/stock"), "{error}");
    assert!(!error.contains(password), "{error}");
    for (name, space, address, file) in [
        ("cache", "statistics", at(&redis), "stores-other.pem"),
        ("far", "default", format!("127.0.0.1:{secure}"), "other.pem"),
    ] {
        let source = "store m : eventual; transaction t(x: handle<counter> in m) { x.add(1); }";
        let loaded = load(&mut client, source, &[&format!("m={name}/{space}")]).await;
        let called = match loaded {
            Ok(_) => client.command(&["SOLERA.CALL", "shop.t", "x"]).await,
            refused => refused,
        };
        let error = called.unwrap_err().to_string();
        let expected = [address, strange.to_owned(), file.to_owned(), name.to_owned()];
        assert!(names(&error, &expected), "{error}");
    }
    drop((up, far));
    shop.drop().await;
}

#[tokio::test]
async fn concurrent_calls_share_a_limited_number_of_connections() {
    let shop = Shop::create("pool").await;
    let folder = Folder::new();
    let postgres = server("SOLERA_TEST_POSTGRES");
    let schema = &shop.schema;
    let named = format!("'{postgres}?application_name={schema}'\nmax_connections = 2");
    let settings = shop.settings().replacen(&format!("'{postgres}'"), &named, 1);
    let file = folder.file("s.toml", &settings);
    let up = Up::start(&["--config", file.to_str().unwrap()]);
    let mut client = up.client(1).await;
    load(&mut client, SHOP, &["stock=shop/stock", "sold=cache/statistics"]).await.unwrap();
    let loaded = client.token().await.unwrap();
    let before = shop.count("ink").await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let mut client = up.client(1).await;
        client.attach(&loaded).await.unwrap();
        calls.spawn(async move {
            let sell = ["SOLERA.CALL", "shop.sell", "ink", "1", "ink"];
            client.command(&sell).await.map(drop)
        });
    }
    for called in calls.join_all().await {
        called.unwrap();
    }
    assert_eq!(shop.count("ink").await, before - 8);
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    let kept: i64 = shop.client.query_one(sql, &[schema]).await.unwrap().get(0);
    assert!((1..=2).contains(&kept), "{kept} connections");
    drop(up);
    shop.drop().await;
}

#[tokio::test]
async fn the_checkout_of_the_guide_runs_at_every_site() {
    let shop = Shop::create("guide").await;
    let folder = Folder::new();
    let file = folder.file("s.toml", &shop.settings());
    let up = Up::start(&["--config", file.to_str().unwrap()]);
    let mut client = up.client(1).await;
    load(&mut client, CHECKOUT, &["stock=shop/stock"]).await.unwrap();
    let token = client.token().await.unwrap();
    let lines = r#"[{"product":"pen","count":1},{"product":"paper","count":100}]"#;
    for (site, accepted) in [(2, true), (3, true), (1, false)] {
        let mut client = up.client(site).await;
        client.attach(&token).await.unwrap();
        let cart = format!("carts:cart-{site}");
        client.command(&["SOLERA.CALL", "shop.put", &cart, "pen", "1"]).await.unwrap();
        let order = format!("order-{site}");
        let call = ["SOLERA.CALL", "shop.checkout", &order, lines, &cart, "carts:orders"];
        let done = client.command(&call).await;
        assert_eq!(done.is_ok(), accepted, "{done:?}");
        let key = format!("shop:cart-{site}");
        assert_eq!(client.hgetall(&key).await.unwrap().is_empty(), accepted);
    }
    // The pen that the rejected order had taken before the paper ran out is back in stock.
    assert_eq!((shop.count("pen").await, shop.count("paper").await), (3, 0));
    eventually("both orders are in the log here", async || {
        let mut orders: Vec<_> =
            client.hgetall("shop:orders").await.unwrap().into_values().collect();
        orders.sort();
        orders == ["order-2", "order-3"]
    })
    .await;
    drop(up);
    shop.drop().await;
}

#[test]
fn the_demo_explains_how_to_start_a_server_and_removes_its_schema() {
    let demo = |server: Option<&str>| {
        let mut command = Command::new(SOLERA);
        command.args(["demo", "checkout", "--seconds", "5"]).env_remove("SOLERA_TEST_POSTGRES");
        command.args(server.iter().flat_map(|url| ["--postgres", url])).output().unwrap()
    };
    let without = demo(None);
    let errors = String::from_utf8(without.stderr).unwrap();
    assert!(!without.status.success() && errors.contains("scripts/with-stores solera"), "{errors}");
    let away = demo(Some("postgresql://127.0.0.1:1/none"));
    let errors = String::from_utf8(away.stderr).unwrap();
    assert!(!away.status.success() && errors.contains("PostgreSQL: "), "{errors}");

    let with = demo(Some(&server("SOLERA_TEST_POSTGRES")));
    let (said, errors) =
        (String::from_utf8(with.stdout).unwrap(), String::from_utf8(with.stderr).unwrap());
    assert!(with.status.success() && said.contains("Nothing was sold twice"), "{said}{errors}");
    let (_, schema) = said.split_once("The table is in the schema ").unwrap();
    let (schema, _) = schema.split_once(',').unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let left: i64 = runtime.block_on(async {
        let url = server("SOLERA_TEST_POSTGRES");
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
        tokio::spawn(connection);
        let sql = "SELECT count(*) FROM information_schema.schemata WHERE schema_name = $1";
        client.query_one(sql, &[&schema]).await.unwrap().get(0)
    });
    assert_eq!(left, 0, "{schema}");
}

/// Returns the value of a key of the Redis server.
fn in_redis(key: &str) -> String {
    let url = server("SOLERA_TEST_REDIS");
    let asked = Command::new("redis-cli").args(["-u", &url, "GET", key]).output().unwrap();
    String::from_utf8(asked.stdout).unwrap().trim().to_owned()
}
