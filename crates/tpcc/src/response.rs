//! Responses: what the terminals display.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::value::{Date, Line};

/// Response to an operation. It contains what the terminal displays beside the inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// A New-Order that was executed.
    NewOrder(Box<Placed>),
    /// A New-Order that was rolled back, because an item does not exist.
    RolledBack(RolledBack),
    /// Payment.
    Payment(Box<Paid>),
    /// Order-Status.
    OrderStatus(Box<Status>),
    /// Delivery: the order that was delivered in each district; `None` if there was none. The
    /// specification writes these orders to a result file (clause 2.7.2.2).
    Delivery([Option<u32>; 10]),
    /// Stock-Level: `low_stock`, the number of items below the threshold.
    StockLevel(u32),
    /// An input is not in the range of the specification. The operation has no effect.
    Invalid,
}

/// Output of New-Order (clause 2.4.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// `O_ID`.
    pub order: u32,
    /// `O_ENTRY_D`.
    pub entry: Date,
    /// `C_LAST`.
    pub last: Arc<str>,
    /// Whether `C_CREDIT` is "GC".
    pub good_credit: bool,
    /// `C_DISCOUNT` in hundredths of a percent.
    pub discount: u16,
    /// `W_TAX` in hundredths of a percent.
    pub warehouse_tax: u16,
    /// `D_TAX` in hundredths of a percent.
    pub district_tax: u16,
    /// The sum of the lines with discount and taxes, in cents.
    pub total: u64,
    /// The items.
    pub lines: Vec<PlacedLine>,
}

/// An item of a New-Order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacedLine {
    /// `I_NAME`.
    pub name: Box<str>,
    /// `I_PRICE` in cents.
    pub price: u32,
    /// `S_QUANTITY` after the order.
    pub stock: u8,
    /// Whether `brand-generic` is "B": both `I_DATA` and `S_DATA` contain "ORIGINAL".
    pub brand: bool,
    /// `OL_AMOUNT` in cents.
    pub amount: u32,
}

/// Output of a New-Order that was rolled back (clause 2.4.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RolledBack {
    /// `O_ID` that the order would have had.
    pub order: u32,
    /// `C_LAST`.
    pub last: Arc<str>,
    /// Whether `C_CREDIT` is "GC".
    pub good_credit: bool,
}

/// An address.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Address {
    /// The street, in two parts.
    pub street: [Box<str>; 2],
    /// The city.
    pub city: Box<str>,
    /// The state.
    pub state: Box<str>,
    /// The zip code.
    pub zip: Box<str>,
}

/// Output of Payment (clause 2.5.3). `W_YTD` and `D_YTD` are not displayed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paid {
    /// Address of the warehouse.
    pub warehouse: Arc<Address>,
    /// Address of the district.
    pub district: Arc<Address>,
    /// `C_ID`.
    pub customer: u16,
    /// Names and address of the customer.
    pub details: Details,
    /// Whether `C_CREDIT` is "GC".
    pub good_credit: bool,
    /// `C_DISCOUNT` in hundredths of a percent.
    pub discount: u16,
    /// `C_BALANCE` after the payment, in cents.
    pub balance: i64,
    /// The first 200 characters of `C_DATA` after the payment, if `C_CREDIT` is "BC".
    pub data: Option<Box<str>>,
    /// `H_DATE`.
    pub date: Date,
}

/// Columns of a customer that no transaction writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// `C_FIRST`.
    pub first: Box<str>,
    /// `C_MIDDLE`.
    pub middle: Box<str>,
    /// `C_LAST`.
    pub last: Arc<str>,
    /// The address.
    pub address: Address,
    /// `C_PHONE`.
    pub phone: Box<str>,
    /// `C_SINCE`.
    pub since: Date,
    /// `C_CREDIT_LIM` in cents.
    pub credit_limit: u64,
}

/// Output of Order-Status (clause 2.6.3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// `C_ID`.
    pub customer: u16,
    /// `C_FIRST`.
    pub first: Box<str>,
    /// `C_MIDDLE`.
    pub middle: Box<str>,
    /// `C_LAST`.
    pub last: Arc<str>,
    /// `C_BALANCE` in cents.
    pub balance: i64,
    /// `O_ID`.
    pub order: u32,
    /// `O_ENTRY_D`.
    pub entry: Date,
    /// `O_CARRIER_ID`; `None` if the order has not been delivered.
    pub carrier: Option<u32>,
    /// The lines of the order.
    pub lines: Arc<[Line]>,
    /// `OL_DELIVERY_D` of all lines; `None` if the order has not been delivered.
    pub delivered: Option<Date>,
}
