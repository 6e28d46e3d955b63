//! New-Order (clause 2.4.2).

use crate::operation::{NewOrder, Ordered};
use crate::population::{Item, is_original, item, terms};
use crate::register::{Customer, OrderId, Register};
use crate::response::{Placed, PlacedLine, Response, RolledBack};
use crate::rows::{Rows, Tables};
use crate::value::{Date, Line, Order, Value};

/// Places an order, or changes nothing if it contains an unused item.
pub(crate) fn place_order(input: &NewOrder, date: Date, rows: &mut Rows<'_>) -> Response {
    let &NewOrder { district, customer, ref lines } = input;
    let customer = Customer { district, id: customer };
    let terms = terms(customer);
    let last = rows.population.last_name(terms.last);
    let good_credit = terms.good_credit;
    let id = rows.number(Register::NextOrder(district)).unwrap_or_default();
    // Nothing has been written before the last item is known, so nothing has to be undone.
    let items: Option<Vec<Item>> = lines.iter().map(|line| item(line.item)).collect();
    let Some(items) = items else {
        return Response::RolledBack(RolledBack { order: id, last, good_credit });
    };
    rows.write(Register::NextOrder(district), Value::Number(id.saturating_add(1)));
    let order = OrderId { district, id };
    let home = district.warehouse;
    let row = Order {
        customer: customer.id,
        entry: date,
        lines: lines.len() as u8,
        all_local: lines.iter().all(|line| line.supply == home),
    };
    rows.write(Register::Order(order), Value::Order(row));
    rows.write(Register::NewOrder(order), Value::Exists(true));
    rows.write(Register::LastOrder(customer), Value::Number(id));
    let placed: Vec<PlacedLine> =
        lines.iter().zip(items).map(|(line, item)| take(line, item, home, rows)).collect();
    let stored = lines.iter().zip(&placed).map(|(line, placed)| {
        let &Ordered { item, supply, quantity } = line;
        Line { item, supply, quantity, amount: placed.amount }
    });
    rows.write(Register::Lines(order), Value::Lines(stored.collect()));
    let warehouse_tax = rows.population.warehouse(home).tax;
    let district_tax = rows.population.district(district).tax;
    let sum: u64 = placed.iter().map(|line| u64::from(line.amount)).sum();
    let taxed = 10_000 + u64::from(warehouse_tax) + u64::from(district_tax);
    let total = sum * (10_000 - u64::from(terms.discount)) * taxed;
    Response::NewOrder(Box::new(Placed {
        order: id,
        entry: date,
        last,
        good_credit,
        discount: terms.discount,
        warehouse_tax,
        district_tax,
        // Rounded to whole cents.
        total: (total + 50_000_000) / 100_000_000,
        lines: placed,
    }))
}

/// Takes an item from the stock.
fn take(line: &Ordered, item: Item, home: u16, rows: &mut Rows<'_>) -> PlacedLine {
    let &Ordered { item: id, supply, quantity } = line;
    let mut stock = rows.stock(supply, id);
    // The stock is refilled by 91 if fewer than 10 would remain.
    let remains = stock.quantity.checked_sub(quantity).filter(|remains| *remains >= 10);
    stock.quantity = remains.unwrap_or_else(|| stock.quantity.saturating_add(91) - quantity);
    stock.year_to_date = stock.year_to_date.saturating_add(quantity.into());
    stock.orders = stock.orders.saturating_add(1);
    if supply != home {
        stock.remote = stock.remote.saturating_add(1);
    }
    rows.write(Register::Stock(supply, id), Value::Stock(stock));
    PlacedLine {
        name: item.name,
        price: item.price,
        stock: stock.quantity,
        brand: item.original && is_original(supply, id),
        amount: u32::from(quantity) * item.price,
    }
}
