//! Stock-Level (clause 2.8.2).

use crate::operation::StockLevel;
use crate::register::{OrderId, Register};
use crate::response::Response;
use crate::rows::{Rows, Tables};

/// Number of orders whose items are examined.
const ORDERS: u32 = 20;

/// Counts the items of the last orders of a district whose stock is below a threshold.
pub(crate) fn count_low_stock(input: &StockLevel, rows: &Rows<'_>) -> Response {
    let &StockLevel { district, threshold } = input;
    let next = rows.number(Register::NextOrder(district)).unwrap_or_default();
    let mut items: Vec<u32> = (next.saturating_sub(ORDERS)..next)
        .flat_map(|id| {
            rows.lines(OrderId { district, id }).iter().map(|it| it.item).collect::<Vec<_>>()
        })
        .collect();
    items.sort_unstable();
    items.dedup();
    let is_low = |item: &&u32| rows.stock(district.warehouse, **item).quantity < threshold;
    Response::StockLevel(items.iter().filter(is_low).count() as u32)
}
