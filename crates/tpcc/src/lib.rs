//! Experimental: TPC-C (Standard Specification, revision 5.11) as procedures of `solera-creek`, for
//! simulations and measurements.
//!
//! The tables have the size of the specification. Initial rows are not stored: a register without a
//! value stands for its initial row, which is a function of the register's name. A replica needs no
//! memory before the first operation. Clones of [`Tpcc`] share the few rows that they keep: sites,
//! last names, and the customers of each district by last name.
//!
//! | module | subject |
//! |---|---|
//! | `register`, `value` | names and values of registers |
//! | `population`, `permutation`, `nurand`, `text` | the initial rows (clause 4.3) |
//! | `operation`, `response` | inputs and outputs of the transactions |
//! | `procedures`, `rows`, `transactions` | their execution (clauses 2.4–2.8) |
//! | `costs` | the time that executions take in simulations |
//! | `mix` | random operations |
//! | `consistency` | the consistency conditions (clause 3.3.2) |
//!
//! # How the tables are stored
//! - A register contains the columns of a row that the same transactions write. `W_YTD` and `D_YTD`
//!   are therefore apart from `D_NEXT_O_ID`, and a customer's balance is apart from its payments.
//! - Columns that no transaction writes are in no register, because they cannot conflict. ITEM
//!   therefore has no registers.
//! - The lines of an order are in one register, because all transactions use them together.
//! - Rows are found by name only. Three indexes replace searches: a customer's last order, the
//!   oldest new order of a district, and `C_PAYMENT_CNT`, which numbers a customer's rows of
//!   HISTORY.
//!
//! # Departures from the specification
//! - Texts that no transaction displays are left out: the names of warehouses and districts,
//!   `H_DATA`, `S_DIST_xx` and `OL_DIST_INFO`. Of `I_DATA` and `S_DATA`, the crate computes only
//!   whether they contain "ORIGINAL".
//! - Dates of initial rows are 0.
//! - New-Order looks up all items before it reads the stock, so a New-Order that is rolled back
//!   reads no register but `D_NEXT_O_ID`.
//! - Delivery is executed at once, and its response is what the specification writes to a file.
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use solera_creek::Procedures;
//! use solera_random::Random;
//! use solera_tpcc::{Mix, Tpcc};
//!
//! let (tpcc, mix) = (Tpcc::new(5), Mix::new(5));
//! let (mut random, mut registers) = (Random::new(1), BTreeMap::new());
//! for date in 1..=100 {
//!     tpcc.execute(&mix.draw(date, &mut random), &mut registers);
//! }
//! let registers = registers.iter().map(|(name, value)| (&name[..], value));
//! assert_eq!(tpcc.violations(registers), []);
//! ```

mod consistency;
mod costs;
mod mix;
mod nurand;
mod operation;
mod permutation;
mod population;
mod procedures;
mod register;
mod response;
mod rows;
#[cfg(test)]
mod tests;
mod text;
mod transactions;
mod value;

pub use consistency::{Condition, Violation};
pub use costs::Costs;
pub use mix::{Mix, Weights, is_strong};
pub use operation::{
    Delivery, NewOrder, Operation, OrderStatus, Ordered, Payment, StockLevel, Transaction, Who,
};
pub use population::{CUSTOMERS, DISTRICTS, ITEMS};
pub use procedures::Tpcc;
pub use register::{Customer, District, OrderId, Register};
pub use response::{Address, Details, Paid, Placed, PlacedLine, Response, RolledBack, Status};
pub use value::{Date, History, Line, Order, Payments, Stock, Value};
