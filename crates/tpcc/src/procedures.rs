//! TPC-C as procedures of Creek.

use std::sync::Arc;
use std::time::Duration;

use solera_creek::{Access, Procedures};

use crate::costs::Costs;
use crate::operation::{Operation, Transaction};
use crate::population::Population;
use crate::response::Response;
use crate::rows::Rows;
use crate::transactions::{count_low_stock, deliver, pay, place_order, show_status};
use crate::value::Value;

/// The transactions of TPC-C. Clones share rows that have been computed.
#[derive(Clone, Debug)]
pub struct Tpcc {
    /// The times that executions take in simulations.
    pub costs: Costs,
    population: Arc<Population>,
}

impl Tpcc {
    /// Returns TPC-C with a number of warehouses.
    pub fn new(warehouses: u16) -> Tpcc {
        Tpcc { costs: Costs::default(), population: Arc::new(Population::new(warehouses)) }
    }

    /// Returns the number of warehouses.
    pub fn warehouses(&self) -> u16 {
        self.population.warehouses()
    }
}

impl Procedures for Tpcc {
    type Operation = Operation;
    type Value = Value;
    type Response = Response;

    fn execute(&self, operation: &Operation, registers: &mut dyn Access<Value>) -> Response {
        if !operation.is_valid(self.warehouses()) {
            return Response::Invalid;
        }
        let rows = &mut Rows::new(registers, &self.population);
        let date = operation.date;
        match &operation.transaction {
            Transaction::NewOrder(input) => place_order(input, date, rows),
            Transaction::Payment(input) => pay(input, date, rows),
            Transaction::OrderStatus(input) => show_status(input, rows),
            Transaction::Delivery(input) => deliver(input, date, rows),
            Transaction::StockLevel(input) => count_low_stock(input, rows),
        }
    }

    fn is_read_only(&self, operation: &Operation) -> bool {
        matches!(operation.transaction, Transaction::OrderStatus(_) | Transaction::StockLevel(_))
    }

    fn is_short(&self, _: &Operation) -> bool {
        false
    }

    fn classes(&self, operation: &Operation) -> Vec<u64> {
        operation.classes()
    }

    fn cost(&self, operation: &Operation) -> Duration {
        self.costs.of(operation)
    }
}
