//! What a customer does.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use solera::{Client, Error};

use super::super::{Random, Untrue};

/// An order, and what it takes.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) name: String,
    pub(super) lines: Vec<(String, i64)>,
}

/// How shopping went.
#[derive(Debug, Default)]
pub(super) struct Sale {
    /// Orders that were answered.
    pub(super) accepted: Vec<Order>,
    /// Orders of which it was not told whether they are done, or not yet in full.
    pub(super) doubtful: Vec<Order>,
    /// How many orders took more than was there.
    pub(super) refused: u64,
    /// How often a call had no effect, as others were in the way.
    pub(super) again: u64,
    /// How long it took to put a line into a cart.
    pub(super) puts: Vec<Duration>,
    /// How long the accepted orders took.
    pub(super) orders: Vec<Duration>,
}

impl Sale {
    pub(super) fn take(&mut self, other: Sale) {
        self.accepted.extend(other.accepted);
        self.doubtful.extend(other.doubtful);
        self.refused += other.refused;
        self.again += other.again;
        self.puts.extend(other.puts);
        self.orders.extend(other.orders);
    }
}

/// Buys until nothing is left, or time is up.
pub(super) async fn shop(
    mut client: Client,
    number: usize,
    stock: BTreeMap<String, i64>,
    until: Instant,
) -> Result<Sale, Untrue> {
    // How many are wanted at once, at most: first a tenth of what there is.
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
                sale.refused += 1;
                // Less may be there. If there is not even one, there never will be.
                match count / 2 {
                    0 => drop(most.remove(&product)),
                    half => drop(most.insert(product, half)),
                }
            }
        }
    }
    Ok(sale)
}

/// A product or two, and how many of them.
fn choose(most: &BTreeMap<String, i64>, random: &mut Random) -> Vec<(String, i64)> {
    let lines = 1 + random.below(most.len().min(2) as u64) as usize;
    let first = random.below(most.len() as u64) as usize;
    let chosen = most.iter().cycle().skip(first).take(lines);
    chosen.map(|(product, most)| (product.clone(), 1 + random.below(*most as u64) as i64)).collect()
}

/// Orders, again and again if others are in the way: how long the call took that did it. None: time
/// is up.
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
                sale.again += 1;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The line of an order of which too little was there, if that is why it was refused.
fn out_of_stock<'o>(error: &Error, order: &'o Order) -> Option<&'o (String, i64)> {
    let text = error.to_string();
    let (_, told) = text.split_once("out of stock: ").filter(|_| error.code() == Some("FAILED"))?;
    order.lines.iter().find(|(product, _)| told.starts_with(product.as_str()))
}
