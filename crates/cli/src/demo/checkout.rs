//! `solera demo checkout`: carts and orders of a shop at three sites, and its stock in a table of
//! PostgreSQL.

mod customer;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use solera::{Client, Error, Token};
use solera_embedded::{ClusterSpec, Embedded, Overrides, Settings};
use tokio::task::JoinSet;

use self::customer::{Order, Sale};
use self::table::Table;
use super::{Told, Untrue, check, percentile};
use crate::stop::Stop;
use crate::stores;

const SOURCE: &str = include_str!("../../../../examples/checkout.mixt");
const SITES: [&str; 3] = ["virginia", "california", "frankfurt"];
const CUSTOMERS_PER_SITE: usize = 3;
/// Where the orders are for Redis clients: the prefix of their space, and the key of their handle.
const ORDERS: &str = "shop:orders";

const NO_SERVER: &str = "\
It needs a PostgreSQL server, in which it makes a schema of its own and removes it at the end:
  solera demo checkout --postgres postgresql://USER:PASSWORD@HOST:5432/DATABASE
Without one, in Solera's repository, this starts a server that keeps nothing, and stops it afterwards:
  scripts/with-stores solera demo checkout";

/// Tells the story; fails if any of it turns out not to be true.
pub(super) fn main(url: Option<&str>, seconds: u64) -> ExitCode {
    let Some(url) = stores::test_postgres(url) else {
        eprintln!("{NO_SERVER}");
        return ExitCode::FAILURE;
    };
    super::end(super::in_runtime(with_table(&url, Duration::from_secs(seconds))))
}

/// The story, with a table that is gone afterwards, also if the story is not true or is stopped.
async fn with_table(url: &str, time: Duration) -> Told {
    let stop = Stop::new().map_err(|error| Untrue(error.to_string()))?;
    let table = Table::create(url).await?;
    let told = tokio::select! {
        told = tell(&table, time) => told,
        () = stop.asked() => Err(Untrue("it was stopped".to_owned())),
    };
    let removed = table.remove().await;
    told.and(removed)
}

async fn tell(table: &Table, time: Duration) -> Told {
    let stock = table.counts().await?;
    say!(
        "A shop in three regions sells what is in one table of PostgreSQL (examples/checkout.sql)."
    );
    say!(
        "Carts and orders are in Solera, causal: at every site, and at local speed. One transaction"
    );
    say!(
        "takes from the table and logs the order (examples/checkout.mixt), all of it or nothing.\n"
    );
    say!(
        "The table is in the schema {}, which is removed at the end. In stock: {}.",
        table.schema(),
        told(&stock)
    );
    say!(
        "Three sites: virginia ─61 ms─ california, virginia ─90 ms─ frankfurt, california ─147 ms─ frankfurt;\n\
         {CUSTOMERS_PER_SITE} customers at each, who order until nothing is left, {} s at most. PostgreSQL is near all of them.\n",
        time.as_secs()
    );
    let cluster = start(table)?;
    let mut first = cluster.client(0).await?;
    first.command(&["SOLERA.MODULE", "LOAD", "shop", SOURCE, "BIND", "stock=shop/stock"]).await?;
    let loaded = first.token().await?;
    let sales = sell(&cluster, &loaded, &stock, time).await?;
    latencies(&sales);
    let left = table.counts().await?;
    balance(&cluster, &sales, &stock, &left).await
}

/// A cluster whose modules use the table.
fn start(table: &Table) -> Result<Embedded, Untrue> {
    let wrong = |error: solera_config::ConfigError| Untrue(error.to_string());
    let over = Overrides { wan: Some("aws".into()), ..Overrides::default() };
    let spec = ClusterSpec::parse("the demo's settings", &table.settings(), over).map_err(wrong)?;
    let settings = Settings::configured(&spec.modules).map_err(wrong)?;
    let stores = stores::all(&spec).map_err(wrong)?;
    Ok(Embedded::with_modules(spec, settings, stores)?)
}

/// What the customers of each site have bought.
async fn sell(
    cluster: &Embedded,
    loaded: &Token,
    stock: &BTreeMap<String, i64>,
    time: Duration,
) -> Result<[Sale; SITES.len()], Untrue> {
    let until = Instant::now() + time;
    let mut customers = JoinSet::new();
    for number in 0..SITES.len() * CUSTOMERS_PER_SITE {
        let site = number % SITES.len();
        let mut client = cluster.client(site).await?;
        // The module may have been loaded a moment ago, at another site.
        client.attach(loaded).await?;
        let shopping = customer::shop(client, number, stock.clone(), until);
        customers.spawn(async move { (site, shopping.await) });
    }
    let mut sales = <[Sale; SITES.len()]>::default();
    while let Some(done) = customers.join_next().await {
        let (site, sale) = done.map_err(|error| Untrue(error.to_string()))?;
        sales[site].take(sale?);
    }
    Ok(sales)
}

fn latencies(sales: &[Sale]) {
    say!("  site           put in a cart             order");
    say!("                 median       p99         median       p99");
    for (site, sale) in SITES.iter().zip(sales) {
        let of = |times: &[Duration]| {
            let shown = |percent| percentile(times, percent).map_or("-".to_owned(), super::ms);
            format!("{:>9} {:>9}", shown(50), shown(99))
        };
        say!("  {site:<12} {}      {}", of(&sale.puts), of(&sale.orders));
    }
}

/// Holds the orders against the stock, and tells.
async fn balance(
    cluster: &Embedded,
    sales: &[Sale],
    stock: &BTreeMap<String, i64>,
    left: &BTreeMap<String, i64>,
) -> Told {
    let all = |of: fn(&Sale) -> &Vec<Order>| sales.iter().flat_map(move |sale| of(sale).iter());
    let accepted: BTreeSet<&str> = all(|sale| &sale.accepted).map(|order| &*order.name).collect();
    let lines: BTreeMap<&str, &Order> = all(|sale| &sale.accepted)
        .chain(all(|sale| &sale.doubtful))
        .map(|order| (&*order.name, order))
        .collect();
    let taken: BTreeMap<&str, i64> = stock
        .iter()
        .map(|(product, count)| (&**product, count - left.get(product).copied().unwrap_or(0)))
        .collect();
    check(left.values().all(|count| *count >= 0), "more was sold than there was")?;
    for (site, name) in SITES.iter().enumerate().map(|(site, name)| (site, *name)) {
        let mut client = cluster.client(site).await?;
        let mut logged = Vec::new();
        // What is accepted elsewhere arrives here, and what was left incomplete is completed.
        super::wait_until(async || {
            logged = orders(&mut client).await?;
            Ok(accepted.iter().all(|order| logged.iter().any(|found| found == order))
                && sold(&logged, &lines, stock) == taken)
        })
        .await
        .map_err(|_| {
            Untrue(format!("the orders at {name} are not what was taken from the stock"))
        })?;
        let once: BTreeSet<&str> = logged.iter().map(|order| &**order).collect();
        check(once.len() == logged.len(), "an order is in the log twice")?;
    }
    let count = |of: fn(&Sale) -> u64| sales.iter().map(of).sum::<u64>();
    say!(
        "\n{} orders were accepted, {} refused as too little was left.",
        accepted.len(),
        count(|sale| sale.refused)
    );
    say!(
        "{} calls changed nothing, as others were in the way, and were made again.",
        count(|sale| sale.again)
    );
    match all(|sale| &sale.doubtful).count() {
        0 => {}
        doubtful => say!("{doubtful} calls did not tell whether they were done; the log does."),
    }
    say!("Left in the table: {}.", told(left));
    say!(
        "\nChecked, at each site: every accepted order is in the log exactly once, no refused one is,"
    );
    say!("and together they are what is missing in the table. Nothing was sold twice.");
    Ok(())
}

/// The orders that a site has in its log, in any order.
async fn orders(client: &mut Client) -> Result<Vec<String>, Error> {
    Ok(client.hgetall(ORDERS).await?.into_values().collect())
}

/// How much the logged orders take of each product.
fn sold<'s>(
    logged: &[String],
    lines: &BTreeMap<&str, &Order>,
    stock: &'s BTreeMap<String, i64>,
) -> BTreeMap<&'s str, i64> {
    let mut sold: BTreeMap<&str, i64> = stock.keys().map(|product| (&**product, 0)).collect();
    for order in logged.iter().filter_map(|order| lines.get(&**order)) {
        for (product, count) in &order.lines {
            if let Some(sold) = sold.get_mut(&**product) {
                *sold += count;
            }
        }
    }
    sold
}

fn told(counts: &BTreeMap<String, i64>) -> String {
    let counts: Vec<_> =
        counts.iter().map(|(product, count)| format!("{count} {product}")).collect();
    counts.join(", ")
}
