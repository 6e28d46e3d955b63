//! Calls of the transactions.
//!
//! `solera_tpcc` draws their inputs for tables of the specification's size. In smaller tables, the
//! ids are taken modulo the size, which keeps the distributions skewed.

use serde::Serialize;
use solera_tpcc::{Operation, Ordered, Transaction, Who};

use super::MODULE;
use super::initial::last_name;
use super::rows::Sizes;

/// An item of New-Order, as the module declares it.
#[derive(Serialize)]
struct Item {
    item: u64,
    supply: u16,
    quantity: u8,
}

/// Returns the words of the command that runs an operation: Payment is strong, and the others are
/// weak.
pub(super) fn call(operation: &Operation, sizes: Sizes) -> Vec<String> {
    let date = operation.date.to_string();
    let (level, name, arguments) = match &operation.transaction {
        Transaction::NewOrder(it) => {
            let item = |ordered: &Ordered| Item {
                item: item(ordered.item.into(), sizes),
                supply: ordered.supply,
                quantity: ordered.quantity,
            };
            let lines: Vec<Item> = it.lines.iter().map(item).collect();
            let lines = serde_json::to_string(&lines).expect("numbers are values in JSON");
            let customer = within(it.customer.into(), sizes.customers);
            let district = it.district;
            let ids = [district.warehouse.to_string(), district.id.to_string(), customer];
            ("WEAK", "new_order", [&ids[..], &[lines, date]].concat())
        }
        Transaction::Payment(it) => {
            let (at, of) = (it.district, it.customer_district);
            let places = [at.warehouse, at.id.into(), of.warehouse, of.id.into()];
            let [id, last] = who(it.customer, sizes);
            let rest = [id, last, it.amount.to_string(), date];
            ("STRONG", "payment", [&places.map(|id: u16| id.to_string())[..], &rest].concat())
        }
        Transaction::OrderStatus(it) => {
            let [id, last] = who(it.customer, sizes);
            let places = [it.district.warehouse.to_string(), it.district.id.to_string()];
            ("WEAK", "order_status", [&places[..], &[id, last]].concat())
        }
        Transaction::Delivery(it) => {
            let arguments = vec![it.warehouse.to_string(), it.carrier.to_string(), date];
            ("WEAK", "delivery", arguments)
        }
        Transaction::StockLevel(it) => {
            let (w, d) = (it.district.warehouse.to_string(), it.district.id.to_string());
            ("WEAK", "stock_level", vec![w, d, it.threshold.to_string()])
        }
    };
    let words = ["SOLERA.CALL".to_owned(), level.to_owned(), format!("{MODULE}.{name}")];
    words.into_iter().chain(arguments).collect()
}

/// Returns an item; the unused one remains unused.
fn item(id: u64, sizes: Sizes) -> u64 {
    match id > u64::from(solera_tpcc::ITEMS) {
        true => sizes.items + 1,
        false => (id - 1) % sizes.items + 1,
    }
}

fn within(id: u64, count: u64) -> String {
    ((id - 1) % count + 1).to_string()
}

/// Returns the arguments that name a customer: an option of the id, and the last name.
fn who(who: Who, sizes: Sizes) -> [String; 2] {
    match who {
        Who::Id(id) => [format!("[{}]", within(id.into(), sizes.customers)), String::new()],
        Who::LastName(number) => {
            ["null".to_owned(), last_name(u64::from(number) % sizes.last_names())]
        }
    }
}
