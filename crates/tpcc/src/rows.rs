//! Typed access to registers.

use std::sync::Arc;

use solera_creek::{Access, Add};

use crate::operation::Who;
use crate::population::{Population, initial};
use crate::register::{Customer, District, OrderId, Register};
use crate::value::{Date, History, Line, Order, Payments, Stock, Value};

/// The tables: reads of registers, with the initial rows in place of those without a value.
///
/// A register contains a value of the kind that [`Register`] states. Otherwise it reads like one
/// with the default.
pub(crate) trait Tables {
    fn read(&self, register: Register) -> Option<Value>;

    fn amount(&self, register: Register) -> i64 {
        match self.read(register) {
            Some(Value::Amount(amount)) => amount,
            _ => 0,
        }
    }

    fn number(&self, register: Register) -> Option<u32> {
        match self.read(register) {
            Some(Value::Number(number)) => Some(number),
            _ => None,
        }
    }

    fn date(&self, register: Register) -> Option<Date> {
        match self.read(register) {
            Some(Value::Date(date)) => Some(date),
            _ => None,
        }
    }

    fn exists(&self, register: Register) -> bool {
        self.read(register) == Some(Value::Exists(true))
    }

    fn payments(&self, customer: Customer) -> Payments {
        match self.read(Register::Payments(customer)) {
            Some(Value::Payments(payments)) => payments,
            _ => Payments::default(),
        }
    }

    fn data(&self, customer: Customer) -> Arc<str> {
        match self.read(Register::Data(customer)) {
            Some(Value::Data(data)) => data,
            _ => Arc::from(""),
        }
    }

    fn history(&self, customer: Customer, payment: u32) -> Option<History> {
        match self.read(Register::History(customer, payment)) {
            Some(Value::History(history)) => Some(history),
            _ => None,
        }
    }

    fn order(&self, order: OrderId) -> Option<Order> {
        match self.read(Register::Order(order)) {
            Some(Value::Order(order)) => Some(order),
            _ => None,
        }
    }

    fn lines(&self, order: OrderId) -> Arc<[Line]> {
        match self.read(Register::Lines(order)) {
            Some(Value::Lines(lines)) => lines,
            _ => Arc::from([]),
        }
    }

    fn stock(&self, warehouse: u16, item: u32) -> Stock {
        match self.read(Register::Stock(warehouse, item)) {
            Some(Value::Stock(stock)) => stock,
            _ => Stock::default(),
        }
    }
}

/// The tables as a transaction reads and writes them.
pub(crate) struct Rows<'a> {
    registers: &'a mut dyn Access<Value>,
    pub(crate) population: &'a Population,
}

impl Tables for Rows<'_> {
    fn read(&self, register: Register) -> Option<Value> {
        self.registers.read(register.key().as_slice()).or_else(|| initial(register))
    }
}

impl<'a> Rows<'a> {
    pub(crate) fn new(
        registers: &'a mut dyn Access<Value>,
        population: &'a Population,
    ) -> Rows<'a> {
        Rows { registers, population }
    }

    pub(crate) fn write(&mut self, register: Register, value: Value) {
        self.registers.write(register.key().as_slice(), Some(value));
    }

    /// Adds to an amount that no transaction displays. Transactions that only add do not conflict.
    pub(crate) fn add(&mut self, register: Register, amount: i64, add: Add<Value>) {
        self.registers.merge(register.key().as_slice(), Value::Amount(amount), add);
    }

    /// Returns the customer that a transaction names. Of those with one last name it is the one in
    /// the middle, rounded up (clause 2.5.2.2).
    pub(crate) fn customer(&self, district: District, who: Who) -> Customer {
        let id = match who {
            Who::Id(id) => id,
            Who::LastName(last) => {
                let namesakes = self.population.namesakes(district, last);
                namesakes[namesakes.len().div_ceil(2) - 1]
            }
        };
        Customer { district, id }
    }
}
