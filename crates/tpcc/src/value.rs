//! Values of registers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A date and time in milliseconds. Operations contain it; the initial rows have the date 0.
pub type Date = u64;

/// Value of a register.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Value {
    /// An amount of money in cents.
    Amount(i64),
    /// An id or a count.
    Number(u32),
    /// A date.
    Date(Date),
    /// Whether a row exists that has no other columns than its key.
    Exists(bool),
    /// A customer's payments.
    Payments(Payments),
    /// Text about a customer.
    Data(Arc<str>),
    /// A row of HISTORY.
    History(History),
    /// A row of ORDER.
    Order(Order),
    /// Rows of ORDER-LINE.
    Lines(Arc<[Line]>),
    /// A row of STOCK.
    Stock(Stock),
}

/// A customer's payments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Payments {
    /// `C_YTD_PAYMENT` in cents.
    pub year_to_date: i64,
    /// `C_PAYMENT_CNT`.
    pub count: u32,
}

/// A row of HISTORY. Its name contains the customer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// `H_W_ID`.
    pub warehouse: u16,
    /// `H_D_ID`.
    pub district: u8,
    /// `H_AMOUNT` in cents.
    pub amount: u32,
    /// `H_DATE`.
    pub date: Date,
}

/// A row of ORDER.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// `O_C_ID`.
    pub customer: u16,
    /// `O_ENTRY_D`.
    pub entry: Date,
    /// `O_OL_CNT`.
    pub lines: u8,
    /// `O_ALL_LOCAL`.
    pub all_local: bool,
}

/// A row of ORDER-LINE.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// `OL_I_ID`.
    pub item: u32,
    /// `OL_SUPPLY_W_ID`.
    pub supply: u16,
    /// `OL_QUANTITY`.
    pub quantity: u8,
    /// `OL_AMOUNT` in cents.
    pub amount: u32,
}

/// The columns of STOCK that New-Order writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stock {
    /// `S_QUANTITY`.
    pub quantity: u8,
    /// `S_YTD`.
    pub year_to_date: u32,
    /// `S_ORDER_CNT`.
    pub orders: u32,
    /// `S_REMOTE_CNT`.
    pub remote: u32,
}
