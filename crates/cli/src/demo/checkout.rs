//! `solera demo checkout`: a shop at three sites with carts and orders in Solera, and its stock in
//! a PostgreSQL table.

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
use super::{CheckFailed, Checked, check, percentile};
use crate::progress::Progress;
use crate::stop::Stop;
use crate::stores;

const SOURCE: &str = include_str!("../../../../examples/checkout.mixt");
const SITES: [&str; 3] = ["virginia", "california", "frankfurt"];
const CUSTOMERS_PER_SITE: usize = 3;
/// Redis key of the orders: the prefix of their space, and the key of their handle.
const ORDERS: &str = "shop:orders";

const NO_SERVER: &str = "\
The demo requires a PostgreSQL server. It creates its own schema there, and removes it at the end:
  solera demo checkout --postgres postgresql://USER:PASSWORD@HOST:5432/DATABASE
In Solera's repository, this starts a temporary server, and stops it afterwards:
  scripts/with-stores solera demo checkout";

/// Runs the demo; fails if a check does.
pub(super) fn main(url: Option<&str>, seconds: u64) -> ExitCode {
    let Some(url) = stores::test_postgres(url) else {
        print_error!("{NO_SERVER}");
        return ExitCode::FAILURE;
    };
    super::exit_code(super::in_runtime(with_table(&url, Duration::from_secs(seconds))))
}

/// Runs the demo with a new table, and removes the table afterwards, even if a check fails or a
/// signal stops the demo.
async fn with_table(url: &str, time: Duration) -> Checked {
    let stop = Stop::new().map_err(|error| CheckFailed(error.to_string()))?;
    let table = Table::create(url).await?;
    let done = tokio::select! {
        done = run(&table, time) => done,
        () = stop.requested() => Err(CheckFailed("stopped by a signal".to_owned())),
    };
    let removed = table.remove().await;
    done.and(removed)
}

async fn run(table: &Table, time: Duration) -> Checked {
    let stock = table.counts().await?;
    output!(
        "A shop in three regions sells what is in one table of PostgreSQL (examples/checkout.sql)."
    );
    output!(
        "Carts and orders are in Solera, causal: at every site, and at local speed. One transaction"
    );
    output!("takes from the table and logs the order (examples/checkout.mixt), atomically.\n");
    output!(
        "The table is in the schema {}, which is removed at the end. In stock: {}.",
        table.schema(),
        listed(&stock)
    );
    output!(
        "Three sites: virginia ─61 ms─ california, virginia ─90 ms─ frankfurt, california ─147 ms─ frankfurt;\n\
         {CUSTOMERS_PER_SITE} customers at each, who order until nothing is left, {} s at most. PostgreSQL is near all of them.\n",
        time.as_secs()
    );
    let cluster = start(table)?;
    let mut first = cluster.client(0).await?;
    first.command(&["SOLERA.MODULE", "LOAD", "shop", SOURCE, "BIND", "stock=shop/stock"]).await?;
    let loaded = first.token().await?;
    let seconds = time.as_secs();
    let progress = Progress::begin(move || format!("the customers shop for at most {seconds} s"));
    let sales = sell(&cluster, &loaded, &stock, time).await?;
    drop(progress);
    latencies(&sales);
    let left = table.counts().await?;
    balance(&cluster, &sales, &stock, &left).await
}

/// Starts a cluster whose modules use the table.
fn start(table: &Table) -> Result<Embedded, CheckFailed> {
    let wrong = |error: solera_config::ConfigError| CheckFailed(error.to_string());
    let over = Overrides { wan: Some("aws".into()), ..Overrides::default() };
    let spec =
        ClusterSpec::parse("examples/checkout.toml", &table.settings(), over).map_err(wrong)?;
    let settings = Settings::configured(&spec.modules).map_err(wrong)?;
    let stores = stores::all(&spec).map_err(wrong)?;
    Ok(Embedded::with_modules(spec, settings, stores)?)
}

/// Runs the customers, and returns the sales of each site.
async fn sell(
    cluster: &Embedded,
    loaded: &Token,
    stock: &BTreeMap<String, i64>,
    time: Duration,
) -> Result<[Sale; SITES.len()], CheckFailed> {
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
        let (site, sale) = done.map_err(|error| CheckFailed(error.to_string()))?;
        sales[site].take(sale?);
    }
    Ok(sales)
}

fn latencies(sales: &[Sale]) {
    output!("  site           put in a cart             order");
    output!("                 median       p99         median       p99");
    for (site, sale) in SITES.iter().zip(sales) {
        let of = |times: &[Duration]| {
            let shown = |percent| percentile(times, percent).map_or("-".to_owned(), super::ms);
            format!("{:>9} {:>9}", shown(50), shown(99))
        };
        output!("  {site:<12} {}      {}", of(&sale.puts), of(&sale.orders));
    }
}

/// Compares the orders with the stock, and prints the result.
async fn balance(
    cluster: &Embedded,
    sales: &[Sale],
    stock: &BTreeMap<String, i64>,
    left: &BTreeMap<String, i64>,
) -> Checked {
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
    let progress = Progress::begin(|| "comparing the orders with the stock".to_owned());
    for (site, name) in SITES.iter().enumerate().map(|(site, name)| (site, *name)) {
        let mut client = cluster.client(site).await?;
        let mut logged = Vec::new();
        // Orders of other sites arrive here, and incomplete transactions are completed.
        super::wait_until(async || {
            logged = orders(&mut client).await?;
            Ok(accepted.iter().all(|order| logged.iter().any(|found| found == order))
                && sold(&logged, &lines, stock) == taken)
        })
        .await
        .map_err(|_| {
            CheckFailed(format!("the orders at {name} are not what was taken from the stock"))
        })?;
        let once: BTreeSet<&str> = logged.iter().map(|order| &**order).collect();
        check(once.len() == logged.len(), "an order is in the log twice")?;
    }
    drop(progress);
    let count = |of: fn(&Sale) -> u64| sales.iter().map(of).sum::<u64>();
    output!(
        "\nOrders accepted: {}. Orders rejected because too little stock was left: {}.",
        accepted.len(),
        count(|sale| sale.rejected)
    );
    output!(
        "Calls that aborted because of conflicts, and were retried: {}.",
        count(|sale| sale.retries)
    );
    match all(|sale| &sale.doubtful).count() {
        0 => {}
        doubtful => output!("Calls with an unknown outcome, which the log decides: {doubtful}."),
    }
    output!("Left in the table: {}.", listed(left));
    output!(
        "\nChecked, at each site: every accepted order is in the log exactly once, no rejected one is,"
    );
    output!("and together they equal what is missing in the table. Nothing was sold twice.");
    Ok(())
}

/// Returns the orders in the log of a site, in any order.
async fn orders(client: &mut Client) -> Result<Vec<String>, Error> {
    Ok(client.hgetall(ORDERS).await?.into_values().collect())
}

/// Returns the number of each product that the logged orders take.
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

fn listed(counts: &BTreeMap<String, i64>) -> String {
    let counts: Vec<_> =
        counts.iter().map(|(product, count)| format!("{count} {product}")).collect();
    counts.join(", ")
}
