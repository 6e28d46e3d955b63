//! Delivery (clause 2.7.4).

use std::array;

use crate::operation::Delivery;
use crate::register::{Customer, District, OrderId, Register};
use crate::response::Response;
use crate::rows::{Rows, Tables};
use crate::value::{Date, Value};

/// Delivers the oldest new order of each district.
pub(crate) fn deliver(input: &Delivery, date: Date, rows: &mut Rows<'_>) -> Response {
    let &Delivery { warehouse, carrier } = input;
    Response::Delivery(array::from_fn(|index| {
        let district = District { warehouse, id: index as u8 + 1 };
        deliver_oldest(district, carrier, date, rows)
    }))
}

/// Delivers the oldest new order of a district. Returns its id, or `None` if there is none.
fn deliver_oldest(district: District, carrier: u8, date: Date, rows: &mut Rows<'_>) -> Option<u32> {
    // The new orders of a district have consecutive ids (clause 3.3.2.3). So if the order with the
    // oldest id is not new, the district has no new order.
    let oldest = Register::OldestNewOrder(district);
    let id = rows.number(oldest)?;
    let order = OrderId { district, id };
    if !rows.exists(Register::NewOrder(order)) {
        return None;
    }
    rows.write(oldest, Value::Number(id.saturating_add(1)));
    rows.write(Register::NewOrder(order), Value::Exists(false));
    rows.write(Register::Carrier(order), Value::Number(carrier.into()));
    rows.write(Register::DeliveryDate(order), Value::Date(date));
    let customer = Customer { district, id: rows.order(order)?.customer };
    let sum: i64 = rows.lines(order).iter().map(|line| i64::from(line.amount)).sum();
    let balance = rows.amount(Register::Balance(customer)).saturating_add(sum);
    rows.write(Register::Balance(customer), Value::Amount(balance));
    let deliveries = rows.number(Register::Deliveries(customer)).unwrap_or_default();
    rows.write(Register::Deliveries(customer), Value::Number(deliveries.saturating_add(1)));
    Some(id)
}
