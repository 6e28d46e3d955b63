//! The time that executions take in simulations.

use std::time::Duration;

use crate::operation::{Operation, Transaction};

/// Times that executions occupy a core in virtual time: mean times with a deterministic variation.
#[derive(Clone, Debug, PartialEq)]
pub struct Costs {
    /// Mean of New-Order.
    pub new_order: Duration,
    /// Mean of Payment.
    pub payment: Duration,
    /// Mean of Order-Status.
    pub order_status: Duration,
    /// Mean of Delivery.
    pub delivery: Duration,
    /// Mean of Stock-Level.
    pub stock_level: Duration,
    /// Factor of all times.
    pub factor: u32,
    /// How far times may be from the mean, in percent of it, at most 100. The operation's
    /// [`variation`](Operation::variation) determines where it lies.
    pub variation_percent: u32,
}

impl Default for Costs {
    /// Returns the times of Creek's evaluation: 0.1 ms for Payment, 0.5 ms for the others (§6.2).
    fn default() -> Costs {
        let other = Duration::from_micros(500);
        Costs {
            new_order: other,
            payment: Duration::from_micros(100),
            order_status: other,
            delivery: other,
            stock_level: other,
            factor: 1,
            variation_percent: 20,
        }
    }
}

impl Costs {
    /// Returns the time of an execution.
    pub(crate) fn of(&self, operation: &Operation) -> Duration {
        let mean = match operation.transaction {
            Transaction::NewOrder(_) => self.new_order,
            Transaction::Payment(_) => self.payment,
            Transaction::OrderStatus(_) => self.order_status,
            Transaction::Delivery(_) => self.delivery,
            Transaction::StockLevel(_) => self.stock_level,
        };
        let most = u64::from(u16::MAX);
        let percent = u64::from(self.variation_percent.min(100));
        // From 100 - percent to 100 + percent, in units of 1 / most of a percent.
        let share = (100 - percent) * most + 2 * percent * u64::from(operation.variation);
        let nanos = mean.as_nanos() * u128::from(self.factor) * u128::from(share);
        let nanos = nanos / u128::from(100 * most);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Delivery;

    fn delivery(variation: u16) -> Operation {
        let transaction = Transaction::Delivery(Delivery { warehouse: 1, carrier: 1 });
        Operation { transaction, date: 0, variation }
    }

    #[test]
    fn times_are_up_to_20_percent_from_the_mean() {
        let costs = Costs::default();
        assert_eq!(costs.of(&delivery(0)), Duration::from_micros(400));
        assert_eq!(costs.of(&delivery(u16::MAX)), Duration::from_micros(600));
        let five = Costs { factor: 5, variation_percent: 0, ..costs };
        assert_eq!(five.of(&delivery(9)), Duration::from_micros(2500));
    }
}
