//! Payment (clause 2.5.2).

use std::sync::Arc;

use crate::operation::Payment;
use crate::population::{DISTRICT_YTD, WAREHOUSE_YTD, terms};
use crate::register::{Customer, District, Register};
use crate::response::{Paid, Response};
use crate::rows::{Rows, Tables};
use crate::value::{Date, History, Value};

/// Most characters of `C_DATA`.
const MOST_DATA: usize = 500;

/// Characters of `C_DATA` that the terminal displays.
const DISPLAYED_DATA: usize = 200;

/// Records a payment of a customer.
pub(crate) fn pay(input: &Payment, date: Date, rows: &mut Rows<'_>) -> Response {
    let &Payment { district, customer_district, customer, amount } = input;
    let customer = rows.customer(customer_district, customer);
    let paid = i64::from(amount);
    rows.add(Register::WarehouseYtd(district.warehouse), paid, |before, change| {
        sum(before, WAREHOUSE_YTD, change)
    });
    rows.add(Register::DistrictYtd(district), paid, |before, change| {
        sum(before, DISTRICT_YTD, change)
    });
    let balance = rows.amount(Register::Balance(customer)).saturating_sub(paid);
    rows.write(Register::Balance(customer), Value::Amount(balance));
    let mut payments = rows.payments(customer);
    payments.year_to_date = payments.year_to_date.saturating_add(paid);
    payments.count = payments.count.saturating_add(1);
    rows.write(Register::Payments(customer), Value::Payments(payments));
    let District { warehouse, id } = district;
    let history = History { warehouse, district: id, amount, date };
    rows.write(Register::History(customer, payments.count), Value::History(history));
    let terms = terms(customer);
    let data = (!terms.good_credit).then(|| extend_data(customer, input, rows));
    Response::Payment(Box::new(Paid {
        warehouse: Arc::clone(&rows.population.warehouse(warehouse).address),
        district: Arc::clone(&rows.population.district(district).address),
        customer: customer.id,
        details: rows.population.details(customer, terms),
        good_credit: terms.good_credit,
        discount: terms.discount,
        balance,
        data,
        date,
    }))
}

/// Adds a change to an amount. Before the first change, the amount is `initial`.
fn sum(before: Option<Value>, initial: i64, change: &Value) -> Value {
    let amount = |value: &Value| if let Value::Amount(amount) = value { *amount } else { 0 };
    Value::Amount(before.map_or(initial, |before| amount(&before)).saturating_add(amount(change)))
}

/// Inserts the payment in front of the data about the customer, and returns what the terminal
/// displays of it.
fn extend_data(customer: Customer, input: &Payment, rows: &mut Rows<'_>) -> Box<str> {
    let District { warehouse, id: district } = customer.district;
    let Payment { district: paid_to, amount, .. } = input;
    let (units, cents) = (amount / 100, amount % 100);
    let mut data = format!(
        "{} {district} {warehouse} {} {} {units}.{cents:02} ",
        customer.id, paid_to.id, paid_to.warehouse
    );
    data.extend(rows.data(customer).chars().take(MOST_DATA - data.len()));
    let displayed = data.chars().take(DISPLAYED_DATA).collect();
    rows.write(Register::Data(customer), Value::Data(data.into()));
    displayed
}
