//! Keys and values of the tables, as `examples/tpcc.mixt` declares them.

use serde::{Deserialize, Serialize};

use crate::rubis::Scale;

/// Number of districts of a warehouse.
pub(super) const DISTRICTS: u64 = 10;

/// Sizes of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) warehouses: u64,
    /// Number of items, and of rows of STOCK of a warehouse.
    pub(super) items: u64,
    /// Number of customers of a district, and of its initial orders.
    pub(super) customers: u64,
}

impl Sizes {
    pub(super) fn of(warehouses: u16, scale: Scale) -> Sizes {
        let (items, customers) = match scale.to_string().as_str() {
            "tiny" => (100, 30),
            "small" => (1_000, 300),
            "medium" => (10_000, 1_000),
            _ => (100_000, 3_000),
        };
        Sizes { warehouses: warehouses.into(), items, customers }
    }

    /// Returns the number of different last names.
    pub(super) fn last_names(self) -> u64 {
        self.customers.min(1_000)
    }

    /// Returns the first initial order that has not been delivered: 70% have been (clause 4.3.3.1).
    pub(super) fn first_new_order(self) -> u64 {
        self.customers * 7 / 10 + 1
    }

    /// Iterates over all districts, as pairs of a warehouse and a district.
    pub(super) fn districts(self) -> impl Iterator<Item = (u64, u64)> {
        (1..=self.warehouses).flat_map(|w| (1..=DISTRICTS).map(move |d| (w, d)))
    }
}

/// Keys of the rows.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    pub(super) fn new(prefix: String) -> Keys {
        Keys { prefix }
    }

    fn key(&self, table: &str, ids: &[u64]) -> String {
        let mut key = format!("{}{table}", self.prefix);
        ids.iter().for_each(|id| key.push_str(&format!(":{id}")));
        key
    }

    /// Key that states what was loaded.
    pub(super) fn loaded(&self) -> String {
        self.key("loaded", &[])
    }

    pub(super) fn warehouse(&self, w: u64) -> String {
        self.key("w", &[w])
    }

    pub(super) fn warehouse_ytd(&self, w: u64) -> String {
        self.key("wy", &[w])
    }

    pub(super) fn district(&self, (w, d): (u64, u64)) -> String {
        self.key("d", &[w, d])
    }

    pub(super) fn district_ytd(&self, (w, d): (u64, u64)) -> String {
        self.key("dy", &[w, d])
    }

    pub(super) fn next_order(&self, (w, d): (u64, u64)) -> String {
        self.key("dn", &[w, d])
    }

    pub(super) fn oldest_new_order(&self, (w, d): (u64, u64)) -> String {
        self.key("do", &[w, d])
    }

    pub(super) fn customer(&self, (w, d): (u64, u64), c: u64) -> String {
        self.key("c", &[w, d, c])
    }

    pub(super) fn account(&self, (w, d): (u64, u64), c: u64) -> String {
        self.key("ca", &[w, d, c])
    }

    pub(super) fn about(&self, (w, d): (u64, u64), c: u64) -> String {
        self.key("cd", &[w, d, c])
    }

    pub(super) fn last_order(&self, (w, d): (u64, u64), c: u64) -> String {
        self.key("cl", &[w, d, c])
    }

    pub(super) fn namesakes(&self, (w, d): (u64, u64), last: &str) -> String {
        format!("{}:{last}", self.key("cn", &[w, d]))
    }

    pub(super) fn history(&self, (w, d): (u64, u64), c: u64, number: u64) -> String {
        self.key("h", &[w, d, c, number])
    }

    pub(super) fn item(&self, i: u64) -> String {
        self.key("i", &[i])
    }

    pub(super) fn stock(&self, w: u64, i: u64) -> String {
        self.key("s", &[w, i])
    }

    pub(super) fn stock_info(&self, w: u64, i: u64) -> String {
        self.key("si", &[w, i])
    }

    pub(super) fn new_order(&self, (w, d): (u64, u64), o: u64) -> String {
        self.key("no", &[w, d, o])
    }

    pub(super) fn order(&self, (w, d): (u64, u64), o: u64) -> String {
        self.key("o", &[w, d, o])
    }

    pub(super) fn delivered(&self, (w, d): (u64, u64), o: u64) -> String {
        self.key("od", &[w, d, o])
    }
}

/// A warehouse or district.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WarehouseOrDistrict {
    pub(super) name: String,
    pub(super) street_1: String,
    pub(super) street_2: String,
    pub(super) city: String,
    pub(super) state: String,
    pub(super) zip: String,
    pub(super) tax: u64,
}

/// Columns of a customer that no transaction writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Customer {
    pub(super) first: String,
    pub(super) middle: &'static str,
    pub(super) last: String,
    pub(super) street_1: String,
    pub(super) street_2: String,
    pub(super) city: String,
    pub(super) state: String,
    pub(super) zip: String,
    pub(super) phone: String,
    pub(super) since: u64,
    pub(super) credit: &'static str,
    pub(super) credit_limit: u64,
    pub(super) discount: u64,
}

/// A customer's account.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Account {
    pub(super) balance: i64,
    pub(super) paid: i64,
    pub(super) payments: u64,
    pub(super) deliveries: u64,
}

/// A row of HISTORY.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct History {
    pub(super) warehouse: u64,
    pub(super) district: u64,
    pub(super) amount: i64,
    pub(super) date: u64,
    pub(super) data: String,
}

/// A row of ITEM.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Item {
    pub(super) image: u64,
    pub(super) name: String,
    pub(super) price: u64,
    pub(super) data: String,
}

/// Columns of STOCK that New-Order writes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Stock {
    pub(super) quantity: i64,
    pub(super) sold: i64,
    pub(super) orders: i64,
    pub(super) remote: i64,
}

/// Columns of STOCK that no transaction writes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct StockInfo {
    pub(super) districts: Vec<String>,
    pub(super) data: String,
}

/// A row of ORDER with its rows of ORDER-LINE.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) customer: u64,
    pub(super) entry: u64,
    pub(super) count: u64,
    pub(super) all_local: bool,
    pub(super) lines: Vec<Line>,
}

/// A row of ORDER-LINE.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) item: u64,
    pub(super) supply: u64,
    pub(super) quantity: i64,
    pub(super) amount: i64,
    pub(super) info: String,
}

/// `O_CARRIER_ID` and `OL_DELIVERY_D`.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Delivered {
    pub(super) carrier: u64,
    pub(super) date: u64,
}
