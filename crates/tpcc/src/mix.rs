//! The load: random operations as the specification distributes them.

use solera_random::Random;

use crate::nurand::{CUSTOMER, ITEM, LAST_NAME_RUN, nurand};
use crate::operation::{
    Delivery, NewOrder, Operation, OrderStatus, Ordered, Payment, StockLevel, Transaction, Who,
};
use crate::population::{CUSTOMERS, DISTRICTS, ITEMS};
use crate::register::District;
use crate::value::Date;

/// A load of transactions on a number of warehouses.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Number of warehouses, at least 1.
    pub warehouses: u16,
    /// How often each transaction is drawn.
    pub weights: Weights,
}

/// How often a mix draws each transaction, as parts of the sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// New-Order.
    pub new_order: u64,
    /// Payment.
    pub payment: u64,
    /// Order-Status.
    pub order_status: u64,
    /// Delivery.
    pub delivery: u64,
    /// Stock-Level.
    pub stock_level: u64,
}

#[derive(Clone, Copy)]
enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl Default for Weights {
    /// Returns the weights of Creek's evaluation (§6.1).
    fn default() -> Weights {
        Weights { new_order: 45, payment: 43, order_status: 4, delivery: 4, stock_level: 4 }
    }
}

impl Weights {
    /// Returns weights with a share of Payment in percent, at most 100, and the default ratios of
    /// the other transactions.
    pub fn with_payments(percent: u64) -> Weights {
        let Weights { new_order, payment, order_status, delivery, stock_level } =
            Weights::default();
        let others = 100 - payment;
        let scale = |weight| weight * (100 - percent.min(100));
        Weights {
            new_order: scale(new_order),
            payment: others * percent.min(100),
            order_status: scale(order_status),
            delivery: scale(delivery),
            stock_level: scale(stock_level),
        }
    }

    fn draw(&self, random: &mut Random) -> Kind {
        random.weighted(&[
            (self.new_order, Kind::NewOrder),
            (self.payment, Kind::Payment),
            (self.order_status, Kind::OrderStatus),
            (self.delivery, Kind::Delivery),
            (self.stock_level, Kind::StockLevel),
        ])
    }
}

/// Returns whether an operation is strong: Payment is, as in Creek's evaluation (§6.1).
pub fn is_strong(operation: &Operation) -> bool {
    matches!(operation.transaction, Transaction::Payment(_))
}

impl Mix {
    /// Returns the load with the default weights.
    pub fn new(warehouses: u16) -> Mix {
        Mix { warehouses, weights: Weights::default() }
    }

    /// Draws an operation of a terminal of any warehouse.
    pub fn draw(&self, date: Date, random: &mut Random) -> Operation {
        let home = 1 + random.below(self.warehouses.into()) as u16;
        self.draw_at(home, date, random)
    }

    /// Draws an operation of a terminal of a warehouse.
    pub fn draw_at(&self, home: u16, date: Date, random: &mut Random) -> Operation {
        let district = District { warehouse: home, id: district(random) };
        let transaction = match self.weights.draw(random) {
            Kind::NewOrder => Transaction::NewOrder(self.new_order(district, random)),
            Kind::Payment => Transaction::Payment(self.payment(district, random)),
            Kind::OrderStatus => {
                Transaction::OrderStatus(OrderStatus { district, customer: who(random) })
            }
            Kind::Delivery => {
                let carrier = 1 + random.below(10) as u8;
                Transaction::Delivery(Delivery { warehouse: home, carrier })
            }
            Kind::StockLevel => {
                let threshold = 10 + random.below(11) as u8;
                Transaction::StockLevel(StockLevel { district, threshold })
            }
        };
        Operation { transaction, date, variation: random.draw() as u16 }
    }

    /// Draws the inputs of New-Order (clause 2.4.1).
    fn new_order(&self, district: District, random: &mut Random) -> NewOrder {
        let customer = customer(random);
        let count = 5 + random.below(11);
        let rolls_back = random.chance(1);
        let line = |number| Ordered {
            item: match number {
                1 if rolls_back => ITEMS + 1,
                _ => nurand(random, ITEM, 8191, 1..=ITEMS.into()) as u32,
            },
            supply: match random.chance(1) {
                true => self.another(district.warehouse, random),
                false => district.warehouse,
            },
            quantity: 1 + random.below(10) as u8,
        };
        // The last line has the number 1: the unused item comes last.
        NewOrder { district, customer, lines: (1..=count).rev().map(line).collect() }
    }

    /// Draws the inputs of Payment (clause 2.5.1).
    fn payment(&self, home: District, random: &mut Random) -> Payment {
        let is_local = random.chance(85) || self.warehouses == 1;
        let customer_district = match is_local {
            true => home,
            false => {
                District { warehouse: self.another(home.warehouse, random), id: district(random) }
            }
        };
        Payment {
            district: home,
            customer_district,
            customer: who(random),
            amount: 100 + random.below(499_901) as u32,
        }
    }

    /// Draws another warehouse than this one; this one if there is no other.
    fn another(&self, warehouse: u16, random: &mut Random) -> u16 {
        let other = 1 + random.below(u64::from(self.warehouses).saturating_sub(1)) as u16;
        match self.warehouses {
            0 | 1 => warehouse,
            _ if other < warehouse => other,
            _ => other + 1,
        }
    }
}

fn district(random: &mut Random) -> u8 {
    1 + random.below(DISTRICTS.into()) as u8
}

fn customer(random: &mut Random) -> u16 {
    nurand(random, CUSTOMER, 1023, 1..=CUSTOMERS.into()) as u16
}

/// Draws a customer, by last name in 60% of the cases.
fn who(random: &mut Random) -> Who {
    match random.chance(60) {
        true => Who::LastName(nurand(random, LAST_NAME_RUN, 255, 0..=999) as u16),
        false => Who::Id(customer(random)),
    }
}

#[cfg(test)]
mod tests;
