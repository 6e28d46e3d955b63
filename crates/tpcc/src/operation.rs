//! Operations: the inputs of the five transactions.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::population::{CUSTOMERS, DISTRICTS, LAST_NAMES};
use crate::register::District;
use crate::value::Date;

/// A transaction with its inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Operation {
    /// The transaction.
    pub transaction: Transaction,
    /// Date that the transaction writes: `O_ENTRY_D`, `H_DATE`, `OL_DELIVERY_D`.
    pub date: Date,
    /// A number that determines how far the time of an execution is from the mean. See
    /// [`Costs`](crate::Costs).
    pub variation: u16,
}

/// Inputs of a transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Transaction {
    /// Clause 2.4.
    NewOrder(NewOrder),
    /// Clause 2.5.
    Payment(Payment),
    /// Clause 2.6.
    OrderStatus(OrderStatus),
    /// Clause 2.7.
    Delivery(Delivery),
    /// Clause 2.8.
    StockLevel(StockLevel),
}

/// Inputs of New-Order (clause 2.4.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewOrder {
    /// Home district of the customer.
    pub district: District,
    /// `C_ID`.
    pub customer: u16,
    /// Items that the customer orders, 1 to 15.
    pub lines: Arc<[Ordered]>,
}

/// An item that a customer orders.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ordered {
    /// `OL_I_ID`. An item that does not exist rolls the transaction back.
    pub item: u32,
    /// `OL_SUPPLY_W_ID`.
    pub supply: u16,
    /// `OL_QUANTITY`, from 1 to 10.
    pub quantity: u8,
}

/// A customer as a transaction names it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Who {
    /// `C_ID`.
    Id(u16),
    /// `C_LAST` as the number below 1,000 of which it is made (clause 4.3.2.3).
    LastName(u16),
}

/// Inputs of Payment (clause 2.5.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payment {
    /// District that receives the payment.
    pub district: District,
    /// Home district of the customer.
    pub customer_district: District,
    /// Customer that pays.
    pub customer: Who,
    /// `H_AMOUNT` in cents, from 1.00 to 5,000.00.
    pub amount: u32,
}

/// Inputs of Order-Status (clause 2.6.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OrderStatus {
    /// Home district of the customer.
    pub district: District,
    /// Customer whose last order is displayed.
    pub customer: Who,
}

/// Inputs of Delivery (clause 2.7.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delivery {
    /// `W_ID`.
    pub warehouse: u16,
    /// `O_CARRIER_ID`, from 1 to 10.
    pub carrier: u8,
}

/// Inputs of Stock-Level (clause 2.8.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StockLevel {
    /// District whose last orders are looked at.
    pub district: District,
    /// Stock below this quantity is counted, from 10 to 20.
    pub threshold: u8,
}

impl Operation {
    /// Returns the rows that the transaction reads and writes and that many others do, as numbers:
    /// `D_NEXT_O_ID`, and the new orders of a warehouse.
    pub(crate) fn classes(&self) -> Vec<u64> {
        match &self.transaction {
            Transaction::NewOrder(NewOrder { district, .. }) => {
                vec![u64::from(district.warehouse) << 8 | u64::from(district.id)]
            }
            Transaction::Delivery(delivery) => vec![1 << 32 | u64::from(delivery.warehouse)],
            Transaction::Payment(_) | Transaction::OrderStatus(_) | Transaction::StockLevel(_) => {
                Vec::new()
            }
        }
    }

    /// Returns whether all inputs are in the ranges of the specification, with this number of
    /// warehouses.
    pub(crate) fn is_valid(&self, warehouses: u16) -> bool {
        let warehouse = |id: u16| (1..=warehouses).contains(&id);
        let district = |it: District| warehouse(it.warehouse) && (1..=DISTRICTS).contains(&it.id);
        match &self.transaction {
            Transaction::NewOrder(it) => {
                let line = |it: &Ordered| warehouse(it.supply) && (1..=10).contains(&it.quantity);
                district(it.district)
                    && Who::Id(it.customer).is_valid()
                    && (1..=15).contains(&it.lines.len())
                    && it.lines.iter().all(line)
            }
            Transaction::Payment(it) => {
                district(it.district)
                    && district(it.customer_district)
                    && it.customer.is_valid()
                    && (100..=500_000).contains(&it.amount)
            }
            Transaction::OrderStatus(it) => district(it.district) && it.customer.is_valid(),
            Transaction::Delivery(it) => warehouse(it.warehouse) && (1..=10).contains(&it.carrier),
            Transaction::StockLevel(it) => {
                district(it.district) && (10..=20).contains(&it.threshold)
            }
        }
    }
}

impl Who {
    fn is_valid(self) -> bool {
        match self {
            Who::Id(id) => (1..=CUSTOMERS).contains(&id),
            Who::LastName(number) => number < LAST_NAMES,
        }
    }
}
