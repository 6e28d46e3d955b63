//! Order-Status (clause 2.6.2).

use crate::operation::OrderStatus;
use crate::population::{first_name, terms};
use crate::register::{OrderId, Register};
use crate::response::{Response, Status};
use crate::rows::{Rows, Tables};

/// Returns the last order of a customer.
pub(crate) fn show_status(input: &OrderStatus, rows: &Rows<'_>) -> Response {
    let customer = rows.customer(input.district, input.customer);
    let id = rows.number(Register::LastOrder(customer)).unwrap_or_default();
    let order = OrderId { district: input.district, id };
    Response::OrderStatus(Box::new(Status {
        customer: customer.id,
        first: first_name(customer),
        middle: "OE".into(),
        last: rows.population.last_name(terms(customer).last),
        balance: rows.amount(Register::Balance(customer)),
        order: id,
        entry: rows.order(order).map_or(0, |order| order.entry),
        carrier: rows.number(Register::Carrier(order)),
        lines: rows.lines(order),
        delivered: rows.date(Register::DeliveryDate(order)),
    }))
}
