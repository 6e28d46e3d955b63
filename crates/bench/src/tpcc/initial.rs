//! The initial rows (clause 4.3), which are functions of a seed and their ids.

use std::collections::BTreeMap;

use serde::Serialize;
use solera_random::Random;

use super::rows::{
    Account, Customer, DISTRICTS, Delivered, History, Item, Keys, Line, Order, Sizes, Stock,
    StockInfo, WarehouseOrDistrict,
};

/// `C_YTD_PAYMENT` and `H_AMOUNT` of each customer, in cents.
const FIRST_PAYMENT: i64 = 1_000;

/// Number of rows of STOCK or ITEM that a [`Part`] contains.
const ITEMS_TOGETHER: u64 = 100;

/// Number of customers or orders that a [`Part`] contains.
const CUSTOMERS_TOGETHER: u64 = 30;

/// Rows that are written together: keys with their values.
pub(super) type Rows = Vec<(String, String)>;

/// A part of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// Items from this one on.
    Items(u64),
    /// A warehouse with its districts.
    Warehouse(u64),
    /// Stock of a warehouse, from this item on.
    Stock(u64, u64),
    /// The index of customers of a district by their last names.
    Names((u64, u64)),
    /// Customers of a district, from this one on.
    Customers((u64, u64), u64),
    /// Orders of a district, from this one on.
    Orders((u64, u64), u64),
}

/// The initial rows.
#[derive(Debug)]
pub(super) struct Population {
    sizes: Sizes,
    seed: u64,
    /// For each district, the customers in the order in which they placed their orders.
    placed: BTreeMap<(u64, u64), Vec<u64>>,
}

impl Population {
    pub(super) fn new(sizes: Sizes, seed: u64) -> Population {
        let mut population = Population { sizes, seed, placed: BTreeMap::new() };
        for district in sizes.districts() {
            let mut random = population.random(b'p', district, 0);
            let mut customers: Vec<u64> = (1..=sizes.customers).collect();
            for last in (1..customers.len()).rev() {
                customers.swap(last, random.index(last + 1));
            }
            population.placed.insert(district, customers);
        }
        population
    }

    /// Returns all parts.
    pub(super) fn parts(&self) -> Vec<Part> {
        let Sizes { warehouses, items, customers } = self.sizes;
        let from = |count: u64, step: u64| (1..=count).step_by(step as usize);
        let mut parts: Vec<Part> = from(items, ITEMS_TOGETHER).map(Part::Items).collect();
        for w in 1..=warehouses {
            parts.push(Part::Warehouse(w));
            parts.extend(from(items, ITEMS_TOGETHER).map(|i| Part::Stock(w, i)));
        }
        for district in self.sizes.districts() {
            parts.push(Part::Names(district));
            let all = || from(customers, CUSTOMERS_TOGETHER);
            parts.extend(all().map(|c| Part::Customers(district, c)));
            parts.extend(all().map(|o| Part::Orders(district, o)));
        }
        parts
    }

    /// Returns the rows of a part.
    pub(super) fn rows(&self, part: Part, keys: &Keys) -> Rows {
        let Sizes { items, customers, .. } = self.sizes;
        let mut rows = Rows::new();
        match part {
            Part::Items(first) => {
                for i in first..=items.min(first + ITEMS_TOGETHER - 1) {
                    rows.push((keys.item(i), json(&self.item(i))));
                }
            }
            Part::Warehouse(w) => self.warehouse(w, keys, &mut rows),
            Part::Stock(w, first) => {
                for i in first..=items.min(first + ITEMS_TOGETHER - 1) {
                    self.stock(w, i, keys, &mut rows);
                }
            }
            Part::Names(district) => self.names(district, keys, &mut rows),
            Part::Customers(district, first) => {
                for c in first..=customers.min(first + CUSTOMERS_TOGETHER - 1) {
                    self.customer(district, c, keys, &mut rows);
                }
            }
            Part::Orders(district, first) => {
                for o in first..=customers.min(first + CUSTOMERS_TOGETHER - 1) {
                    self.order(district, o, keys, &mut rows);
                }
            }
        }
        rows
    }

    /// Returns the generator of the columns of a row.
    fn random(&self, table: u8, (w, d): (u64, u64), id: u64) -> Random {
        let key = u64::from(table) << 56 | w << 40 | d << 32 | id;
        Random::new(Random::new(self.seed ^ key).draw())
    }

    fn item(&self, i: u64) -> Item {
        let random = &mut self.random(b'i', (0, 0), i);
        Item {
            image: 1 + random.below(10_000),
            name: text(random, 14, 24),
            price: 100 + random.below(9_901),
            data: data(random),
        }
    }

    fn warehouse(&self, w: u64, keys: &Keys, rows: &mut Rows) {
        let of_district = FIRST_PAYMENT * self.sizes.customers as i64;
        let place = place(&mut self.random(b'w', (w, 0), 0));
        rows.push((keys.warehouse(w), json(&place)));
        rows.push((keys.warehouse_ytd(w), (of_district * DISTRICTS as i64).to_string()));
        for d in 1..=DISTRICTS {
            let district = (w, d);
            let place = self::place(&mut self.random(b'd', district, 0));
            rows.push((keys.district(district), json(&place)));
            rows.push((keys.district_ytd(district), of_district.to_string()));
            rows.push((keys.next_order(district), (self.sizes.customers + 1).to_string()));
            let first = self.sizes.first_new_order();
            rows.push((keys.oldest_new_order(district), first.to_string()));
        }
    }

    fn stock(&self, w: u64, i: u64, keys: &Keys, rows: &mut Rows) {
        let random = &mut self.random(b's', (w, 0), i);
        let stock = Stock { quantity: 10 + random.below(91) as i64, sold: 0, orders: 0, remote: 0 };
        let districts = (0..DISTRICTS).map(|_| text(random, 24, 24)).collect();
        rows.push((keys.stock(w, i), json(&stock)));
        rows.push((keys.stock_info(w, i), json(&StockInfo { districts, data: data(random) })));
    }

    /// Returns the first and the last name of a customer.
    fn name(&self, district: (u64, u64), c: u64) -> (String, String) {
        let random = &mut self.random(b'n', district, c);
        let names = self.sizes.last_names();
        // The first customers have one last name each (clause 4.3.3.1).
        let number = match c - 1 {
            number if number < names => number,
            // NURand(255, 0, 999). `C` is that of `solera_tpcc` for initial rows, and differs from
            // that of its inputs as clause 2.1.6.1 demands.
            _ => ((random.below(256) | random.below(1_000)) + 123) % 1_000 % names,
        };
        (text(random, 8, 16), last_name(number))
    }

    fn names(&self, district: (u64, u64), keys: &Keys, rows: &mut Rows) {
        let mut all: BTreeMap<String, Vec<(String, u64)>> = BTreeMap::new();
        for c in 1..=self.sizes.customers {
            let (first, last) = self.name(district, c);
            all.entry(last).or_default().push((first, c));
        }
        for (last, mut customers) in all {
            customers.sort();
            let ids: Vec<u64> = customers.into_iter().map(|(_, c)| c).collect();
            rows.push((keys.namesakes(district, &last), json(&ids)));
        }
    }

    fn customer(&self, district: (u64, u64), c: u64, keys: &Keys, rows: &mut Rows) {
        let random = &mut self.random(b'c', district, c);
        let (first, last) = self.name(district, c);
        let WarehouseOrDistrict { street_1, street_2, city, state, zip, .. } = place(random);
        let row = Customer {
            first,
            middle: "OE",
            last,
            street_1,
            street_2,
            city,
            state,
            zip,
            phone: digits(random, 16),
            since: 0,
            credit: if random.chance(10) { "BC" } else { "GC" },
            credit_limit: 5_000_000,
            discount: random.below(5_001),
        };
        rows.push((keys.customer(district, c), json(&row)));
        let account =
            Account { balance: -FIRST_PAYMENT, paid: FIRST_PAYMENT, payments: 1, deliveries: 0 };
        rows.push((keys.account(district, c), json(&account)));
        rows.push((keys.about(district, c), text(random, 300, 500)));
        let history = History {
            warehouse: district.0,
            district: district.1,
            amount: FIRST_PAYMENT,
            date: 0,
            data: text(random, 12, 24),
        };
        rows.push((keys.history(district, c, 1), json(&history)));
    }

    fn order(&self, district: (u64, u64), o: u64, keys: &Keys, rows: &mut Rows) {
        let random = &mut self.random(b'o', district, o);
        let is_delivered = o < self.sizes.first_new_order();
        let count = 5 + random.below(11);
        let line = |_| Line {
            item: 1 + random.below(self.sizes.items),
            supply: district.0,
            quantity: 5,
            amount: if is_delivered { 0 } else { 1 + random.below(999_999) as i64 },
            info: text(random, 24, 24),
        };
        let lines = (0..count).map(line).collect();
        let customer = self.placed[&district][o as usize - 1];
        let row = Order { customer, entry: 0, count, all_local: true, lines };
        rows.push((keys.order(district, o), json(&row)));
        rows.push((keys.last_order(district, customer), o.to_string()));
        if is_delivered {
            let delivered = Delivered { carrier: 1 + random.below(10), date: 0 };
            rows.push((keys.delivered(district, o), json(&delivered)));
        } else {
            rows.push((keys.new_order(district, o), "true".to_owned()));
        }
    }
}

fn json(row: &impl Serialize) -> String {
    serde_json::to_string(row).expect("rows have names and values that JSON has")
}

fn place(random: &mut Random) -> WarehouseOrDistrict {
    WarehouseOrDistrict {
        name: text(random, 6, 10),
        street_1: text(random, 10, 20),
        street_2: text(random, 10, 20),
        city: text(random, 10, 20),
        state: text(random, 2, 2),
        zip: digits(random, 4) + "11111",
        tax: random.below(2_001),
    }
}

/// Returns `C_LAST` for a number below 1,000 (clause 4.3.2.3).
pub(super) fn last_name(number: u64) -> String {
    const PARTS: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    [number / 100, number / 10, number].map(|digit| PARTS[(digit % 10) as usize]).concat()
}

/// Returns a text for `I_DATA` or `S_DATA`, of which 10% contain "ORIGINAL".
fn data(random: &mut Random) -> String {
    let mut data = text(random, 26, 50);
    if random.chance(10) {
        let at = random.index(data.len() - 8);
        data.replace_range(at..at + 8, "ORIGINAL");
    }
    data
}

/// Returns a text of letters and digits, with a length between two numbers.
fn text(random: &mut Random, least: u64, most: u64) -> String {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let length = least + random.below(most - least + 1);
    (0..length).map(|_| char::from(LETTERS[random.index(62)])).collect()
}

fn digits(random: &mut Random, length: u64) -> String {
    (0..length).map(|_| char::from(b'0' + random.below(10) as u8)).collect()
}
