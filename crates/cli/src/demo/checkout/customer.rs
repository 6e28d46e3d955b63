//! Customers of the checkout demo.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use solera::{Client, Error};
use solera_random::Random;

use super::super::CheckFailed;

/// An order, with the count of each product.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) name: String,
    pub(super) lines: Vec<(String, i64)>,
}

/// Results of one or more customers.
#[derive(Debug, Default)]
pub(super) struct Sale {
    /// Orders that were acknowledged.
    pub(super) accepted: Vec<Order>,
    /// Orders with an unknown outcome, or that were incomplete when the call returned.
    pub(super) doubtful: Vec<Order>,
    /// Number of orders rejected because the stock was too small.
    pub(super) rejected: u64,
    /// Number of calls that aborted and were retried.
    pub(super) retries: u64,
    /// Latencies of putting a line into a cart.
    pub(super) puts: Vec<Duration>,
    /// Latencies of the accepted orders.
    pub(super) orders: Vec<Duration>,
}

impl Sale {
    pub(super) fn take(&mut self, other: Sale) {
        self.accepted.extend(other.accepted);
        self.doubtful.extend(other.doubtful);
        self.rejected += other.rejected;
        self.retries += other.retries;
        self.puts.extend(other.puts);
        self.orders.extend(other.orders);
    }
}

/// Places orders until nothing is left or the time has passed.
pub(super) async fn shop(
    mut client: Client,
    number: usize,
    stock: BTreeMap<String, i64>,
    until: Instant,
) -> Result<Sale, CheckFailed> {
    // Maximum count of each product per order: at first a tenth of the stock.
    let mut most: BTreeMap<String, i64> =
        stock.into_iter().map(|(product, count)| (product, (count / 10).max(1))).collect();
    let cart = format!("carts:cart-{number}");
    let mut sale = Sale::default();
    let mut random = Random::new(number as u64);
    for turn in 1.. {
        if most.is_empty() || Instant::now() >= until {
            break;
        }
        let order =
            Order { name: format!("order {number}-{turn}"), lines: choose(&most, &mut random) };
        for (product, count) in &order.lines {
            let began = Instant::now();
            let count = count.to_string();
            client.command(&["SOLERA.CALL", "shop.put", &cart, product, &count]).await?;
            sale.puts.push(began.elapsed());
        }
        match checkout(&mut client, &order, &cart, &mut sale, until).await {
            Ok(Some(time)) => {
                sale.orders.push(time);
                sale.accepted.push(order);
            }
            Ok(None) => {}
            Err(error) if matches!(error.code(), Some("UNKNOWN" | "INCOMPLETE")) => {
                sale.doubtful.push(order);
            }
            Err(error) => {
                let missing =
                    out_of_stock(&error, &order).map(|(product, count)| (product.clone(), *count));
                let Some((product, count)) = missing else { return Err(error.into()) };
                sale.rejected += 1;
                // The customer retries with a smaller count. If not even one unit is left, the
                // product stays out of stock.
                match count / 2 {
                    0 => drop(most.remove(&product)),
                    half => drop(most.insert(product, half)),
                }
            }
        }
    }
    Ok(sale)
}

/// Chooses one or two products, and the count of each.
fn choose(most: &BTreeMap<String, i64>, random: &mut Random) -> Vec<(String, i64)> {
    let lines = 1 + random.below(most.len().min(2) as u64) as usize;
    let first = random.below(most.len() as u64) as usize;
    let chosen = most.iter().cycle().skip(first).take(lines);
    chosen.map(|(product, most)| (product.clone(), 1 + random.below(*most as u64) as i64)).collect()
}

/// Places the order, and retries while it aborts. Returns the latency of the successful call, or
/// `None` if the time is up.
async fn checkout(
    client: &mut Client,
    order: &Order,
    cart: &str,
    sale: &mut Sale,
    until: Instant,
) -> Result<Option<Duration>, Error> {
    let lines = order
        .lines
        .iter()
        .map(|(product, count)| serde_json::json!({ "product": product, "count": count }));
    let lines = serde_json::Value::Array(lines.collect()).to_string();
    let call = ["SOLERA.CALL", "shop.checkout", &order.name, &lines, cart, "carts:orders"];
    while Instant::now() < until {
        let began = Instant::now();
        match client.command(&call).await {
            Ok(_) => return Ok(Some(began.elapsed())),
            Err(error) if matches!(error.code(), Some("ABORTED" | "UNAVAILABLE")) => {
                sale.retries += 1;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Returns the line of the order that exceeds the stock, if that is why the order was rejected.
fn out_of_stock<'o>(error: &Error, order: &'o Order) -> Option<&'o (String, i64)> {
    let text = error.to_string();
    let (_, reason) =
        text.split_once("out of stock: ").filter(|_| error.code() == Some("FAILED"))?;
    order.lines.iter().find(|(product, _)| reason.starts_with(product.as_str()))
}
