//! A database in memory, for tests.

use std::collections::BTreeMap;

use solera_creek::{Access, Procedures};

use crate::operation::{NewOrder, Operation, Ordered, Payment, Transaction, Who};
use crate::population::initial;
use crate::procedures::Tpcc;
use crate::register::{Customer, District, Register};
use crate::response::{Paid, Placed, Response};
use crate::rows::Tables;
use crate::value::Value;

pub(crate) const DISTRICT: District = District { warehouse: 1, id: 3 };

pub(crate) const CUSTOMER: Customer = Customer { district: DISTRICT, id: 77 };

/// Registers in one map.
pub(crate) type Registers = BTreeMap<Vec<u8>, Value>;

/// A database with two warehouses.
pub(crate) struct Database {
    pub(crate) tpcc: Tpcc,
    pub(crate) registers: Registers,
    pub(crate) date: u64,
}

impl Tables for Database {
    fn read(&self, register: Register) -> Option<Value> {
        self.registers.read(&register.name()).or_else(|| initial(register))
    }
}

impl Database {
    pub(crate) fn new() -> Database {
        Database { tpcc: Tpcc::new(2), registers: Registers::default(), date: 0 }
    }

    pub(crate) fn set(&mut self, register: Register, value: Value) {
        self.registers.write(&register.name(), Some(value));
    }

    pub(crate) fn run(&mut self, transaction: Transaction) -> Response {
        self.date += 1;
        let operation = Operation { transaction, date: self.date, variation: 0 };
        self.tpcc.execute(&operation, &mut self.registers)
    }

    pub(crate) fn submit(&mut self, customer: Customer, lines: &[(u32, u16, u8)]) -> Response {
        let line = |&(item, supply, quantity): &_| Ordered { item, supply, quantity };
        self.run(Transaction::NewOrder(NewOrder {
            district: customer.district,
            customer: customer.id,
            lines: lines.iter().map(line).collect(),
        }))
    }

    pub(crate) fn placed(&mut self, customer: Customer, lines: &[(u32, u16, u8)]) -> Placed {
        match self.submit(customer, lines) {
            Response::NewOrder(placed) => *placed,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn pay(&mut self, district: District, customer: Customer, amount: u32) -> Paid {
        let (customer_district, customer) = (customer.district, Who::Id(customer.id));
        let payment = Payment { district, customer_district, customer, amount };
        match self.run(Transaction::Payment(payment)) {
            Response::Payment(paid) => *paid,
            other => panic!("{other:?}"),
        }
    }
}
