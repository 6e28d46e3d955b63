//! The initial database (clause 4.3.3.1), which is computed row by row.

use std::sync::{Arc, OnceLock};

use solera_random::Random;

use crate::nurand::{LAST_NAME_LOAD, nurand};
use crate::permutation::Permutation;
use crate::register::{Customer, District, OrderId, Register};
use crate::response::{Address, Details};
use crate::text::{alphanumeric, digits, last_name};
use crate::value::{History, Line, Order, Payments, Stock, Value};

/// Number of items, and of rows of STOCK in each warehouse.
pub const ITEMS: u32 = 100_000;
/// Number of districts of a warehouse.
pub const DISTRICTS: u8 = 10;
/// Number of customers of a district.
pub const CUSTOMERS: u16 = 3000;
/// Number of different last names.
pub(crate) const LAST_NAMES: u16 = 1000;
/// Number of initial orders of a district, one of each customer.
pub(crate) const ORDERS: u32 = 3000;
/// Id of the first initial order that is not delivered yet.
pub(crate) const FIRST_NEW_ORDER: u32 = 2101;
/// Amount of the initial payment of each customer, in cents.
pub(crate) const FIRST_PAYMENT: u32 = 1000;
/// Initial `D_YTD` in cents: the initial payments of a district.
pub(crate) const DISTRICT_YTD: i64 = CUSTOMERS as i64 * FIRST_PAYMENT as i64;
/// Initial `W_YTD` in cents.
pub(crate) const WAREHOUSE_YTD: i64 = DISTRICTS as i64 * DISTRICT_YTD;

/// Sets of columns whose random values are independent of each other.
#[derive(Clone, Copy, Debug)]
enum Columns {
    Warehouse,
    District,
    Terms,
    First,
    Details,
    Data,
    Item,
    Stock,
    Brand,
    Customers,
    Carrier,
    Lines,
}

/// Address and tax of a warehouse or a district.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) address: Arc<Address>,
    /// Tax in hundredths of a percent.
    pub(crate) tax: u16,
}

/// Columns of a customer that New-Order needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Terms {
    /// `C_LAST` as a number.
    pub(crate) last: u16,
    /// Whether `C_CREDIT` is "GC".
    pub(crate) good_credit: bool,
    /// Discount in hundredths of a percent.
    pub(crate) discount: u16,
}

/// A row of ITEM.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Item {
    pub(crate) name: Box<str>,
    /// Price in cents.
    pub(crate) price: u32,
    /// Whether `I_DATA` contains "ORIGINAL".
    pub(crate) original: bool,
}

/// The customers of a district by last name.
#[derive(Clone, Debug)]
struct Names {
    /// Customers, ordered by last name and `C_FIRST`.
    customers: Box<[u16]>,
    /// Index of the first customer of each last name; the last entry is the number of customers.
    starts: Box<[u16]>,
}

/// Rows that are kept once computed, because many transactions use them. They depend on nothing
/// but their keys.
#[derive(Debug)]
pub(crate) struct Population {
    warehouses: u16,
    last_names: Box<[Arc<str>]>,
    warehouse_sites: Box<[OnceLock<Site>]>,
    districts: Box<[OnceLock<Site>]>,
    names: Box<[OnceLock<Names>]>,
}

impl Population {
    pub(crate) fn new(warehouses: u16) -> Population {
        let districts = usize::from(warehouses) * usize::from(DISTRICTS);
        Population {
            warehouses,
            last_names: (0..LAST_NAMES).map(last_name).collect(),
            warehouse_sites: (0..warehouses).map(|_| OnceLock::new()).collect(),
            districts: (0..districts).map(|_| OnceLock::new()).collect(),
            names: (0..districts).map(|_| OnceLock::new()).collect(),
        }
    }

    pub(crate) fn warehouses(&self) -> u16 {
        self.warehouses
    }

    /// Returns the last name that is made of a number below 1,000.
    pub(crate) fn last_name(&self, number: u16) -> Arc<str> {
        Arc::clone(&self.last_names[usize::from(number)])
    }

    pub(crate) fn warehouse(&self, warehouse: u16) -> &Site {
        let all = District { warehouse, id: 0 };
        let site = || site(&mut random(Columns::Warehouse, all, 0));
        self.warehouse_sites[usize::from(warehouse) - 1].get_or_init(site)
    }

    pub(crate) fn district(&self, district: District) -> &Site {
        let site = || site(&mut random(Columns::District, district, 0));
        self.districts[index(district)].get_or_init(site)
    }

    /// Returns the customers of a district with a last name, ordered by `C_FIRST`.
    pub(crate) fn namesakes(&self, district: District, last: u16) -> &[u16] {
        let names = self.names[index(district)].get_or_init(|| names(district));
        let last = usize::from(last);
        &names.customers[usize::from(names.starts[last])..usize::from(names.starts[last + 1])]
    }

    /// Returns the columns of a customer that no transaction writes.
    pub(crate) fn details(&self, customer: Customer, terms: Terms) -> Details {
        let random = &mut random(Columns::Details, customer.district, customer.id.into());
        Details {
            first: first_name(customer),
            middle: "OE".into(),
            last: self.last_name(terms.last),
            address: address(random),
            phone: digits(random, 16).into(),
            since: 0,
            credit_limit: 5_000_000,
        }
    }
}

/// Returns the position of a district among those of all warehouses.
fn index(district: District) -> usize {
    let warehouse = usize::from(district.warehouse) - 1;
    warehouse * usize::from(DISTRICTS) + usize::from(district.id) - 1
}

/// Returns the generator of the columns of a row.
fn random(columns: Columns, district: District, id: u32) -> Random {
    let District { warehouse, id: number } = district;
    let key = (columns as u64) << 56 | u64::from(warehouse) << 40 | u64::from(number) << 32;
    Random::new(Random::new(key | u64::from(id)).draw())
}

fn site(random: &mut Random) -> Site {
    Site { address: address(random).into(), tax: random.below(2001) as u16 }
}

fn address(random: &mut Random) -> Address {
    let mut text = |least| alphanumeric(random, least, 20);
    let (street, city) = ([text(10), text(10)], text(10));
    let state = alphanumeric(random, 2, 2);
    Address { street, city, state, zip: (digits(random, 4) + "11111").into() }
}

/// Returns `C_LAST`, `C_CREDIT` and `C_DISCOUNT` of a customer.
pub(crate) fn terms(customer: Customer) -> Terms {
    let random = &mut random(Columns::Terms, customer.district, customer.id.into());
    // The first customers have one last name each (clause 4.3.3.1).
    let last = match customer.id - 1 {
        number if number < LAST_NAMES => number,
        _ => nurand(random, LAST_NAME_LOAD, 255, 0..=999) as u16,
    };
    Terms { last, good_credit: !random.chance(10), discount: random.below(5001) as u16 }
}

/// Returns `C_FIRST` of a customer.
pub(crate) fn first_name(customer: Customer) -> Box<str> {
    let random = &mut random(Columns::First, customer.district, customer.id.into());
    alphanumeric(random, 8, 16)
}

fn names(district: District) -> Names {
    let customer = |id| Customer { district, id };
    let mut all: Vec<(u16, Box<str>, u16)> = (1..=CUSTOMERS)
        .map(|id| (terms(customer(id)).last, first_name(customer(id)), id))
        .collect();
    all.sort_unstable();
    let start = |last| all.partition_point(|(other, ..)| *other < last) as u16;
    Names {
        starts: (0..=LAST_NAMES).map(start).collect(),
        customers: all.iter().map(|(.., id)| *id).collect(),
    }
}

/// Returns a row of ITEM; `None` for an unused item id.
pub(crate) fn item(id: u32) -> Option<Item> {
    let everywhere = District { warehouse: 0, id: 0 };
    let random = &mut random(Columns::Item, everywhere, id);
    (1..=ITEMS).contains(&id).then(|| Item {
        name: alphanumeric(random, 14, 24),
        price: 100 + random.below(9901) as u32,
        original: random.chance(10),
    })
}

/// Returns whether `S_DATA` contains "ORIGINAL".
pub(crate) fn is_original(warehouse: u16, item: u32) -> bool {
    random(Columns::Brand, District { warehouse, id: 0 }, item).chance(10)
}

/// Returns the order in which the customers of a district placed the initial orders.
fn customers(district: District) -> Permutation {
    Permutation::new(random(Columns::Customers, district, 0).draw(), ORDERS)
}

/// Returns the initial order of a customer.
pub(crate) fn first_order(customer: Customer) -> u32 {
    customers(customer.district).place(u32::from(customer.id) - 1) + 1
}

/// Returns the initial value of a register; `None` if there is no such row.
pub(crate) fn initial(register: Register) -> Option<Value> {
    match register {
        Register::WarehouseYtd(_) => Some(Value::Amount(WAREHOUSE_YTD)),
        Register::DistrictYtd(_) => Some(Value::Amount(DISTRICT_YTD)),
        Register::NextOrder(_) => Some(Value::Number(ORDERS + 1)),
        Register::OldestNewOrder(_) => Some(Value::Number(FIRST_NEW_ORDER)),
        Register::Balance(_) => Some(Value::Amount(-i64::from(FIRST_PAYMENT))),
        Register::Payments(_) => {
            Some(Value::Payments(Payments { year_to_date: FIRST_PAYMENT.into(), count: 1 }))
        }
        Register::Deliveries(_) => Some(Value::Number(0)),
        Register::Data(it) => {
            let random = &mut random(Columns::Data, it.district, it.id.into());
            Some(Value::Data(alphanumeric(random, 300, 500).into()))
        }
        Register::LastOrder(it) => Some(Value::Number(first_order(it))),
        Register::History(customer, payment) => {
            let District { warehouse, id: district } = customer.district;
            let row = History { warehouse, district, amount: FIRST_PAYMENT, date: 0 };
            (payment == 1).then_some(Value::History(row))
        }
        Register::NewOrder(it) => Some(Value::Exists((FIRST_NEW_ORDER..=ORDERS).contains(&it.id))),
        Register::Stock(warehouse, item) => {
            let random = &mut random(Columns::Stock, District { warehouse, id: 0 }, item);
            let quantity = 10 + random.below(91) as u8;
            Some(Value::Stock(Stock { quantity, ..Stock::default() }))
        }
        Register::Order(it)
        | Register::Carrier(it)
        | Register::Lines(it)
        | Register::DeliveryDate(it) => {
            (1..=ORDERS).contains(&it.id).then(|| initial_order(register, it)).flatten()
        }
    }
}

/// Returns a register of an initial order; `None` for columns that are null.
fn initial_order(register: Register, order: OrderId) -> Option<Value> {
    let delivered = order.id < FIRST_NEW_ORDER;
    let random = |columns| random(columns, order.district, order.id);
    match register {
        Register::Carrier(_) => {
            delivered.then(|| Value::Number(1 + random(Columns::Carrier).below(10) as u32))
        }
        Register::DeliveryDate(_) => delivered.then_some(Value::Date(0)),
        Register::Order(_) => {
            let customer = customers(order.district).at(order.id - 1) as u16 + 1;
            let lines = count_lines(&mut random(Columns::Lines));
            Some(Value::Order(Order { customer, entry: 0, lines, all_local: true }))
        }
        _ => {
            let random = &mut random(Columns::Lines);
            let count = count_lines(random);
            let line = |_| Line {
                item: 1 + random.below(ITEMS.into()) as u32,
                supply: order.district.warehouse,
                quantity: 5,
                amount: if delivered { 0 } else { 1 + random.below(999_999) as u32 },
            };
            Some(Value::Lines((0..count).map(line).collect()))
        }
    }
}

/// Draws the number of lines of an initial order, which is the first number of its generator.
fn count_lines(random: &mut Random) -> u8 {
    5 + random.below(11) as u8
}

#[cfg(test)]
mod tests;
