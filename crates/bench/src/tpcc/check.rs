//! The consistency conditions (clause 3.3.2), checked by reading the tables after a run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use solera::{Client, Error, Value};
use tokio::time::{Instant, sleep};

use super::rows::{Account, DISTRICTS, Delivered, History, Keys, Order, Sizes, Stock};
use super::{Acknowledged, read};
use crate::invariant::Invariant;
use crate::place::TargetCluster;

/// Time after a run in which all sites must agree.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Number of keys that are read at once.
const TOGETHER: usize = 500;

/// Sums that show whether acknowledged transactions are stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    /// Number of orders.
    orders: i64,
    /// Sum of all payments, in cents.
    paid: i64,
}

/// The rules that are checked.
struct Rules {
    /// Conditions 3.3.2.1 to 3.3.2.10 and 3.3.2.12. Condition 3.3.2.11 holds only for the initial
    /// rows.
    conditions: BTreeMap<u8, Invariant>,
    indexes: Invariant,
    stock: Invariant,
}

const CONDITIONS: [(u8, &str); 11] = [
    (1, "1: W_YTD is the sum of D_YTD"),
    (2, "2: D_NEXT_O_ID follows the last order and the last new order"),
    (3, "3: new orders have consecutive numbers"),
    (4, "4: orders count all their lines"),
    (5, "5: an order has a carrier unless it is new"),
    (6, "6: each order has the lines that it counts"),
    (7, "7: lines have a delivery date if the order has a carrier"),
    (8, "8: W_YTD is the sum of H_AMOUNT"),
    (9, "9: D_YTD is the sum of H_AMOUNT"),
    (10, "10: C_BALANCE is what was delivered without what was paid"),
    (12, "12: C_BALANCE and C_YTD_PAYMENT are what was delivered"),
];

impl Rules {
    fn new() -> Rules {
        Rules {
            conditions: CONDITIONS.map(|(number, rule)| (number, Invariant::new(rule))).into(),
            indexes: Invariant::new("indexes contain what the rows imply"),
            stock: Invariant::new("S_YTD and S_ORDER_CNT are those of all lines"),
        }
    }

    /// Checks that two values of a row are equal.
    fn equal<T: PartialEq + std::fmt::Debug>(
        &mut self,
        condition: u8,
        row: impl FnOnce() -> String,
        found: T,
        expected: T,
    ) {
        let rule = self.conditions.get_mut(&condition).expect("the condition is in the list");
        equal(rule, row, found, expected);
    }

    fn all(self) -> Vec<Invariant> {
        self.conditions.into_values().chain([self.indexes, self.stock]).collect()
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(
    rule: &mut Invariant,
    row: impl FnOnce() -> String,
    found: T,
    expected: T,
) {
    let is_wrong = found != expected;
    rule.check(is_wrong.then(|| format!("{}: {found:?} instead of {expected:?}", row())));
}

/// Reads rows of the tables.
struct Reader<'a> {
    client: &'a mut Client,
}

impl Reader<'_> {
    async fn texts(&mut self, keys: &[String]) -> Result<Vec<Option<String>>, Error> {
        let mut all = Vec::with_capacity(keys.len());
        for some in keys.chunks(TOGETHER) {
            all.extend(read(self.client, some).await?);
        }
        Ok(all)
    }

    /// Reads rows in JSON. Numbers are rows in JSON, too.
    async fn rows<T: DeserializeOwned>(
        &mut self,
        keys: &[String],
    ) -> Result<Vec<Option<T>>, Error> {
        let row = |(text, key): (Option<String>, &String)| match text {
            None => Ok(None),
            Some(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|error| Error::UnexpectedReply(format!("the row {key}: {error}"))),
        };
        self.texts(keys).await?.into_iter().zip(keys).map(row).collect()
    }

    /// Reads rows that must exist.
    async fn existing<T: DeserializeOwned>(&mut self, keys: &[String]) -> Result<Vec<T>, Error> {
        let rows = self.rows(keys).await?.into_iter().zip(keys);
        let row = |(row, key): (Option<T>, &String)| {
            row.ok_or_else(|| Error::UnexpectedReply(format!("there is no row {key}")))
        };
        rows.map(row).collect()
    }
}

/// Returns sums over all tables.
pub(super) async fn sums(client: &mut Client, keys: &Keys, sizes: Sizes) -> Result<Sums, Error> {
    let mut reader = Reader { client };
    let next: Vec<String> = sizes.districts().map(|district| keys.next_order(district)).collect();
    let next: Vec<i64> = reader.existing(&next).await?;
    let paid: Vec<String> = (1..=sizes.warehouses).map(|w| keys.warehouse_ytd(w)).collect();
    let paid: Vec<i64> = reader.existing(&paid).await?;
    Ok(Sums { orders: next.iter().map(|next| next - 1).sum(), paid: paid.iter().sum() })
}

/// Checks that all acknowledged orders and payments are stored. Others may be, too: their clients
/// had no answer.
pub(super) fn acknowledged(acknowledged: &Acknowledged, before: Sums, after: Sums) -> Invariant {
    let mut rule = Invariant::new("acknowledged orders and payments are stored");
    let all = [
        ("orders", acknowledged.orders, after.orders - before.orders),
        ("cents", acknowledged.paid, after.paid - before.paid),
    ];
    for (what, acknowledged, stored) in all {
        let is_lost = stored < acknowledged;
        rule.check(is_lost.then(|| format!("{stored} {what} stored, {acknowledged} acknowledged")));
    }
    rule
}

/// Checks that all sites have executed the same operations with the same results.
pub(super) async fn agreement(place: &TargetCluster, space: &str) -> Result<Invariant, Error> {
    let mut rule = Invariant::new("all sites have the same final operations and results");
    let mut clients = Vec::new();
    for site in 0..place.sites().len() {
        clients.push(place.connect(site).await?);
    }
    let end = Instant::now() + PATIENCE;
    loop {
        let mut states = Vec::new();
        for client in &mut clients {
            states.push(state(client, space).await?);
        }
        let is_settled =
            |(count, tentative, _): &(i64, i64, String)| (*count, *tentative) == (states[0].0, 0);
        if states.iter().all(is_settled) || Instant::now() >= end {
            let first = states[0].clone();
            for (site, found) in place.sites().iter().zip(states) {
                equal(&mut rule, || site.clone(), found, first.clone());
            }
            return Ok(rule);
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Returns the number of final operations of a site, that of tentative ones, and the digest.
async fn state(client: &mut Client, space: &str) -> Result<(i64, i64, String), Error> {
    let reply = client.command(&["SOLERA.STATE", space]).await?;
    let Value::Map(fields) = &reply else { return Err(Error::unexpected(&reply)) };
    let field = |name: &str| {
        let is_field =
            |field: &&(Value, Value)| matches!(&field.0, Value::Bulk(it) if it == name.as_bytes());
        fields.iter().find(is_field).map(|(_, value)| value)
    };
    match (field("final"), field("tentative"), field("digest")) {
        (
            Some(Value::Integer(count)),
            Some(Value::Integer(tentative)),
            Some(Value::Bulk(digest)),
        ) => Ok((*count, *tentative, String::from_utf8_lossy(digest).into_owned())),
        _ => Err(Error::unexpected(&reply)),
    }
}

/// Sums over the orders of all districts of all warehouses.
#[derive(Default)]
struct Sold {
    /// Quantities and numbers of new lines, by the supplying warehouse and the item.
    stock: BTreeMap<(u64, u64), (i64, i64)>,
}

/// Checks the conditions. The client's site must have all operations, and none may follow.
///
/// # Errors
/// Fails if rows cannot be read.
pub(super) async fn check(
    client: &mut Client,
    keys: &Keys,
    sizes: Sizes,
    report: &dyn Fn(&str),
) -> Result<Vec<Invariant>, Error> {
    let (mut rules, mut reader, mut sold) = (Rules::new(), Reader { client }, Sold::default());
    let mut paid_to: BTreeMap<(u64, u64), i64> = BTreeMap::new();
    let mut due = Instant::now() + Duration::from_secs(2);
    for (number, district) in sizes.districts().enumerate() {
        if Instant::now() >= due {
            report(&format!("checking: {}%", number * 100 / sizes.districts().count()));
            due = Instant::now() + Duration::from_secs(2);
        }
        let orders =
            check_orders(&mut reader, keys, sizes, district, &mut rules, &mut sold).await?;
        let paid = check_customers(&mut reader, keys, sizes, district, &mut rules, orders).await?;
        for (to, amount) in paid {
            *paid_to.entry(to).or_default() += amount;
        }
    }
    check_payments(&mut reader, keys, sizes, &mut rules, &paid_to).await?;
    check_stock(&mut reader, keys, sizes, &mut rules, &sold).await?;
    Ok(rules.all())
}

/// State of a customer that the orders of its district imply.
#[derive(Clone, Copy, Debug, Default)]
struct Ordered {
    last: u64,
    /// Sum of the lines that were delivered, in cents.
    delivered: i64,
    /// Number of orders that were delivered after the initial ones.
    deliveries: u64,
}

/// Checks the orders of a district: conditions 2 to 7.
async fn check_orders(
    reader: &mut Reader<'_>,
    keys: &Keys,
    sizes: Sizes,
    district: (u64, u64),
    rules: &mut Rules,
    sold: &mut Sold,
) -> Result<BTreeMap<u64, Ordered>, Error> {
    let at = || format!("district {district:?}");
    let next = reader.existing::<u64>(&[keys.next_order(district)]).await?[0];
    // Reads further than the next order, which must not exist.
    let ids: Vec<u64> = (1..=next + 1).collect();
    let all = |key: fn(&Keys, (u64, u64), u64) -> String| -> Vec<String> {
        ids.iter().map(|id| key(keys, district, *id)).collect()
    };
    let orders: Vec<Option<Order>> = reader.rows(&all(Keys::order)).await?;
    let new: Vec<Option<bool>> = reader.rows(&all(Keys::new_order)).await?;
    let delivered: Vec<Option<Delivered>> = reader.rows(&all(Keys::delivered)).await?;
    let is_new: Vec<u64> =
        ids.iter().zip(&new).filter(|(_, new)| new.is_some()).map(|(id, _)| *id).collect();
    let last = ids.iter().zip(&orders).rfind(|(_, order)| order.is_some()).map(|(id, _)| *id);
    rules.equal(2, at, last, Some(next - 1));
    if let (Some(oldest), Some(newest)) = (is_new.first(), is_new.last()) {
        rules.equal(2, at, *newest, next - 1);
        rules.equal(3, at, is_new.len() as u64, newest - oldest + 1);
    }
    let oldest = reader.existing::<u64>(&[keys.oldest_new_order(district)]).await?[0];
    equal(&mut rules.indexes, at, oldest, is_new.first().copied().unwrap_or(next));
    let count: u64 = orders.iter().flatten().map(|order| order.count).sum();
    let lines: usize = orders.iter().flatten().map(|order| order.lines.len()).sum();
    rules.equal(4, at, lines as u64, count);
    let mut of: BTreeMap<u64, Ordered> = BTreeMap::new();
    for (((id, order), new), delivered) in ids.iter().zip(&orders).zip(&new).zip(&delivered) {
        let row = || format!("order {district:?} {id}");
        let Some(order) = order else {
            // No order: no other row of it.
            rules.equal(5, row, (new.is_some(), delivered.is_some()), (false, false));
            continue;
        };
        rules.equal(5, row, delivered.is_none(), new.is_some());
        rules.equal(6, row, order.lines.len() as u64, order.count);
        // Both columns are one value here.
        rules.equal(7, row, delivered.is_some_and(|it| it.carrier == 0), false);
        let of = of.entry(order.customer).or_default();
        of.last = *id;
        if delivered.is_some() {
            of.delivered += order.lines.iter().map(|line| line.amount).sum::<i64>();
            of.deliveries += u64::from(*id >= sizes.first_new_order());
        }
        for line in order.lines.iter().filter(|_| *id > sizes.customers) {
            let sum = sold.stock.entry((line.supply, line.item)).or_default();
            *sum = (sum.0 + line.quantity, sum.1 + 1);
        }
    }
    Ok(of)
}

/// Checks the customers of a district: conditions 10 and 12. Returns the sums of their payments by
/// the district that received them.
async fn check_customers(
    reader: &mut Reader<'_>,
    keys: &Keys,
    sizes: Sizes,
    district: (u64, u64),
    rules: &mut Rules,
    orders: BTreeMap<u64, Ordered>,
) -> Result<BTreeMap<(u64, u64), i64>, Error> {
    let ids: Vec<u64> = (1..=sizes.customers).collect();
    let accounts: Vec<String> = ids.iter().map(|c| keys.account(district, *c)).collect();
    let accounts: Vec<Account> = reader.existing(&accounts).await?;
    let last: Vec<String> = ids.iter().map(|c| keys.last_order(district, *c)).collect();
    let last: Vec<u64> = reader.existing(&last).await?;
    // One row more than the customer has, which must not exist.
    let rows: Vec<(u64, u64)> = ids
        .iter()
        .zip(&accounts)
        .flat_map(|(c, account)| (1..=account.payments + 1).map(|number| (*c, number)))
        .collect();
    let names: Vec<String> =
        rows.iter().map(|(c, number)| keys.history(district, *c, *number)).collect();
    let history: Vec<Option<History>> = reader.rows(&names).await?;
    let mut paid: BTreeMap<u64, (i64, u64)> = BTreeMap::new();
    let mut paid_to: BTreeMap<(u64, u64), i64> = BTreeMap::new();
    for ((c, _), row) in rows.iter().zip(&history) {
        let Some(row) = row else { continue };
        let of = paid.entry(*c).or_default();
        *of = (of.0 + row.amount, of.1 + 1);
        *paid_to.entry((row.warehouse, row.district)).or_default() += row.amount;
    }
    for ((c, account), last) in ids.iter().zip(accounts).zip(last) {
        let row = || format!("customer {district:?} {c}");
        let ordered = orders.get(c).copied().unwrap_or_default();
        let (paid, payments) = paid.get(c).copied().unwrap_or_default();
        rules.equal(10, row, account.balance, ordered.delivered - paid);
        rules.equal(12, row, account.balance + account.paid, ordered.delivered);
        let found = (last, account.payments, account.deliveries);
        equal(&mut rules.indexes, row, found, (ordered.last, payments, ordered.deliveries));
    }
    Ok(paid_to)
}

/// Checks the sums of payments: conditions 1, 8 and 9.
async fn check_payments(
    reader: &mut Reader<'_>,
    keys: &Keys,
    sizes: Sizes,
    rules: &mut Rules,
    paid_to: &BTreeMap<(u64, u64), i64>,
) -> Result<(), Error> {
    for w in 1..=sizes.warehouses {
        let row = || format!("warehouse {w}");
        let of_warehouse = reader.existing::<i64>(&[keys.warehouse_ytd(w)]).await?[0];
        let districts: Vec<String> = (1..=DISTRICTS).map(|d| keys.district_ytd((w, d))).collect();
        let districts: Vec<i64> = reader.existing(&districts).await?;
        rules.equal(1, row, of_warehouse, districts.iter().sum());
        let paid = (1..=DISTRICTS).map(|d| paid_to.get(&(w, d)).copied().unwrap_or_default());
        rules.equal(8, row, of_warehouse, paid.clone().sum());
        for ((d, found), paid) in (1..=DISTRICTS).zip(districts).zip(paid) {
            rules.equal(9, || format!("district ({w}, {d})"), found, paid);
        }
    }
    Ok(())
}

/// Checks that the stock has counted all new lines.
async fn check_stock(
    reader: &mut Reader<'_>,
    keys: &Keys,
    sizes: Sizes,
    rules: &mut Rules,
    sold: &Sold,
) -> Result<(), Error> {
    for w in 1..=sizes.warehouses {
        let names: Vec<String> = (1..=sizes.items).map(|i| keys.stock(w, i)).collect();
        let rows: Vec<Stock> = reader.existing(&names).await?;
        for (i, row) in (1..).zip(rows) {
            let expected = sold.stock.get(&(w, i)).copied().unwrap_or_default();
            let name = || format!("stock ({w}, {i})");
            equal(&mut rules.stock, name, (row.sold, row.orders), expected);
        }
    }
    Ok(())
}
