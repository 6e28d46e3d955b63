//! The five transactions.

mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;
#[cfg(test)]
mod tests;

pub(crate) use delivery::deliver;
pub(crate) use new_order::place_order;
pub(crate) use order_status::show_status;
pub(crate) use payment::pay;
pub(crate) use stock_level::count_low_stock;
