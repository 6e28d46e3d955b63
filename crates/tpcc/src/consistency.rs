//! The consistency conditions (clause 3.3.2).
//!
//! Only rows that can have changed are checked: the conditions hold for the initial rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Debug, Display};

use crate::population::{
    CUSTOMERS, DISTRICT_YTD, DISTRICTS, FIRST_NEW_ORDER, ITEMS, ORDERS, WAREHOUSE_YTD, first_order,
    initial,
};
use crate::procedures::Tpcc;
use crate::register::{Customer, District, OrderId, Register};
use crate::rows::Tables;
use crate::value::{Order, Value};

/// A consistency condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// A condition of the specification, by the last number of its clause: 3.3.2.1 to 3.3.2.12.
    ///
    /// Clause 3.3.2.11 holds for the initial database only. The check counts the orders that are
    /// not new instead: they must be the 2,100 initial ones and those that `C_DELIVERY_CNT` counts.
    Clause(u8),
    /// An index contains what the rows imply. The indexes are
    /// [`OldestNewOrder`](Register::OldestNewOrder), [`LastOrder`](Register::LastOrder), and
    /// `C_PAYMENT_CNT`, which numbers the rows of HISTORY.
    Index,
    /// A name belongs to a row of a table.
    Name,
}

/// A violation of a consistency condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// The condition.
    pub condition: Condition,
    /// The row, with what it contains and what it should contain.
    pub what: String,
}

impl Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.condition {
            Condition::Clause(number) => write!(f, "condition 3.3.2.{number}: {}", self.what),
            Condition::Index => write!(f, "index: {}", self.what),
            Condition::Name => write!(f, "name: {}", self.what),
        }
    }
}

impl Tpcc {
    /// Checks the consistency conditions. `registers` are those that have a value. The conditions
    /// hold between operations, in any final or tentative order.
    pub fn violations<'a>(
        &self,
        registers: impl IntoIterator<Item = (&'a [u8], &'a Value)>,
    ) -> Vec<Violation> {
        let mut check = Check::default();
        for (name, value) in registers {
            match Register::decode(name).filter(|it| it.exists(self.warehouses())) {
                Some(register) => {
                    check.changed.insert(register, value.clone());
                }
                None => check.report(Condition::Name, format!("{name:?} is no row of a table")),
            }
        }
        check.run();
        check.violations
    }
}

impl Register {
    /// Returns whether the ids are in the ranges of the tables.
    fn exists(self, warehouses: u16) -> bool {
        let (warehouse, district) = self.place();
        let customer = self.customer().is_none_or(|it| (1..=CUSTOMERS).contains(&it.id));
        let item = match self {
            Register::Stock(_, item) => (1..=ITEMS).contains(&item),
            _ => true,
        };
        (1..=warehouses).contains(&warehouse)
            && district.is_none_or(|it| (1..=DISTRICTS).contains(&it.id))
            && customer
            && self.order().is_none_or(|it| it.id > 0)
            && item
    }
}

/// A check of the tables.
#[derive(Debug, Default)]
struct Check {
    /// Registers with a value.
    changed: BTreeMap<Register, Value>,
    violations: Vec<Violation>,
}

impl Tables for Check {
    fn read(&self, register: Register) -> Option<Value> {
        self.changed.get(&register).cloned().or_else(|| initial(register))
    }
}

/// New payments of warehouses and districts, in cents.
#[derive(Debug, Default)]
struct Paid {
    warehouses: BTreeMap<u16, i64>,
    districts: BTreeMap<District, i64>,
}

impl Paid {
    fn add(&mut self, row: Option<&Value>, sign: i64) {
        let Some(Value::History(row)) = row else { return };
        let amount = sign * i64::from(row.amount);
        let district = District { warehouse: row.warehouse, id: row.district };
        *self.warehouses.entry(row.warehouse).or_default() += amount;
        *self.districts.entry(district).or_default() += amount;
    }
}

impl Check {
    fn report(&mut self, condition: Condition, what: String) {
        self.violations.push(Violation { condition, what });
    }

    /// Reports a row that is not as a condition demands.
    fn expect<T: PartialEq + Debug>(
        &mut self,
        condition: Condition,
        row: impl Debug,
        found: T,
        expected: T,
    ) {
        if found != expected {
            self.report(condition, format!("{row:?}: {found:?} instead of {expected:?}"));
        }
    }

    fn run(&mut self) {
        let changed = self.changed.keys();
        let warehouses: BTreeSet<u16> = changed.clone().map(|it| it.place().0).collect();
        let districts: BTreeSet<District> = changed.clone().filter_map(|it| it.place().1).collect();
        let orders: BTreeSet<OrderId> = changed.clone().filter_map(|it| it.order()).collect();
        let mut customers: BTreeSet<Customer> = changed.filter_map(|it| it.customer()).collect();
        customers.extend(orders.iter().filter_map(|order| self.customer_of(*order)));
        self.sums_of_payments(warehouses, &districts);
        districts.into_iter().for_each(|district| self.orders_of_district(district));
        orders.into_iter().for_each(|order| self.order_and_lines(order));
        let placed = self.placed();
        for customer in customers {
            self.balance(customer, placed.get(&customer).map_or(&[], Vec::as_slice));
        }
    }

    fn customer_of(&self, order: OrderId) -> Option<Customer> {
        let Order { customer: id, .. } = self.order(order)?;
        (1..=CUSTOMERS).contains(&id).then_some(Customer { district: order.district, id })
    }

    /// Returns the new orders of each customer.
    fn placed(&self) -> BTreeMap<Customer, Vec<OrderId>> {
        let mut placed: BTreeMap<Customer, Vec<OrderId>> = BTreeMap::new();
        for register in self.changed.keys() {
            if let Register::Order(order) = *register
                && order.id > ORDERS
                && let Some(customer) = self.customer_of(order)
            {
                placed.entry(customer).or_default().push(order);
            }
        }
        placed
    }

    /// Checks 3.3.2.1, 3.3.2.8 and 3.3.2.9: the sums of payments.
    fn sums_of_payments(&mut self, warehouses: BTreeSet<u16>, districts: &BTreeSet<District>) {
        let mut paid = Paid::default();
        for (register, value) in &self.changed {
            if let Register::History(..) = register {
                paid.add(Some(value), 1);
                paid.add(initial(*register).as_ref(), -1);
            }
        }
        for district in districts.iter().chain(paid.districts.keys()) {
            let row = Register::DistrictYtd(*district);
            let new = paid.districts.get(district).copied().unwrap_or_default();
            self.expect(Condition::Clause(9), row, self.amount(row), DISTRICT_YTD + new);
        }
        for warehouse in warehouses {
            let row = Register::WarehouseYtd(warehouse);
            let found = self.amount(row);
            let districts = (1..=DISTRICTS).map(|id| District { warehouse, id });
            let sum = districts.map(|it| self.amount(Register::DistrictYtd(it))).sum();
            self.expect(Condition::Clause(1), row, found, sum);
            let new = paid.warehouses.get(&warehouse).copied().unwrap_or_default();
            self.expect(Condition::Clause(8), row, found, WAREHOUSE_YTD + new);
        }
    }

    /// Returns the orders of a district for which the register that `register` names has a value,
    /// with this value.
    fn of_district(
        &self,
        district: District,
        register: fn(OrderId) -> Register,
    ) -> impl Iterator<Item = (u32, &Value)> {
        let name = |id| register(OrderId { district, id });
        let range = self.changed.range(name(0)..=name(u32::MAX));
        range.filter_map(|(register, value)| Some((register.order()?.id, value)))
    }

    /// Checks 3.3.2.2, 3.3.2.3, 3.3.2.4 and 3.3.2.11 for a district.
    fn orders_of_district(&mut self, district: District) {
        let orders: BTreeSet<u32> =
            self.of_district(district, Register::Order).map(|(id, _)| id).collect();
        let last = orders.last().copied().unwrap_or_default().max(ORDERS);
        let count = ORDERS as usize + orders.iter().filter(|id| **id > ORDERS).count();
        let mut new: BTreeSet<u32> = (FIRST_NEW_ORDER..=ORDERS).collect();
        for (id, value) in self.of_district(district, Register::NewOrder) {
            match value {
                Value::Exists(true) => new.insert(id),
                _ => new.remove(&id),
            };
        }
        let row = Register::NextOrder(district);
        let next = self.number(row).unwrap_or_default();
        self.expect(Condition::Clause(2), row, next, last.saturating_add(1));
        if let (Some(oldest), Some(newest)) = (new.first(), new.last()) {
            self.expect(Condition::Clause(2), row, next, newest.saturating_add(1));
            let range = (newest - oldest) as usize + 1;
            self.expect(Condition::Clause(3), district, new.len(), range);
        }
        let row = Register::OldestNewOrder(district);
        let oldest = self.number(row).unwrap_or_default();
        self.expect(Condition::Index, row, oldest, new.first().copied().unwrap_or(next));
        let with_lines = self.of_district(district, Register::Lines).map(|(id, _)| id);
        let ids: BTreeSet<u32> = orders.into_iter().chain(with_lines).collect();
        let ids = ids.iter().map(|id| OrderId { district, id: *id });
        let lines = ids.clone().map(|it| self.lines(it).len()).sum();
        let counts: usize = ids.map(|it| self.count_lines(it)).sum();
        self.expect(Condition::Clause(4), district, lines, counts);
        let customers = (1..=CUSTOMERS).map(|id| Customer { district, id });
        let deliveries = customers
            .filter_map(|it| self.number(Register::Deliveries(it)))
            .map(|count| count as usize)
            .sum::<usize>();
        let delivered = FIRST_NEW_ORDER as usize - 1 + deliveries;
        self.expect(Condition::Clause(11), district, count, new.len() + delivered);
    }

    /// Returns `O_OL_CNT`; 0 without a row.
    fn count_lines(&self, order: OrderId) -> usize {
        self.order(order).map_or(0, |order| order.lines.into())
    }

    /// Checks 3.3.2.5, 3.3.2.6 and 3.3.2.7 for an order.
    fn order_and_lines(&mut self, order: OrderId) {
        let carrier = self.number(Register::Carrier(order));
        let is_new = self.exists(Register::NewOrder(order));
        self.expect(Condition::Clause(5), order, carrier.is_none(), is_new);
        let (lines, count) = (self.lines(order).len(), self.count_lines(order));
        self.expect(Condition::Clause(6), order, lines, count);
        let delivered = self.date(Register::DeliveryDate(order));
        self.expect(Condition::Clause(7), order, delivered.is_none(), carrier.is_none());
    }

    /// Checks 3.3.2.10 and 3.3.2.12 for a customer who has placed these new orders.
    fn balance(&mut self, customer: Customer, placed: &[OrderId]) {
        let district = customer.district;
        let orders = [OrderId { district, id: first_order(customer) }];
        let orders = orders.iter().chain(placed);
        let last = orders.clone().map(|order| order.id).max();
        let delivered: i64 = orders
            .filter(|order| self.date(Register::DeliveryDate(**order)).is_some())
            .flat_map(|order| self.lines(*order).to_vec())
            .map(|line| i64::from(line.amount))
            .sum();
        let payments = self.payments(customer);
        let name = |payment| Register::History(customer, payment);
        let rows = self.changed.range(name(2)..=name(u32::MAX)).filter_map(|(row, _)| match row {
            Register::History(_, payment) => Some(*payment),
            _ => None,
        });
        let rows: Vec<u32> = [1].into_iter().chain(rows).collect();
        let paid: i64 = rows
            .iter()
            .filter_map(|payment| self.history(customer, *payment))
            .map(|row| i64::from(row.amount))
            .sum();
        let row = Register::Balance(customer);
        let balance = self.amount(row);
        self.expect(Condition::Clause(10), row, balance, delivered - paid);
        let sum = balance.saturating_add(payments.year_to_date);
        self.expect(Condition::Clause(12), row, sum, delivered);
        let row = Register::LastOrder(customer);
        self.expect(Condition::Index, row, self.number(row), last);
        let row = Register::Payments(customer);
        self.expect(Condition::Index, row, payments.count as usize, rows.len());
    }
}

#[cfg(test)]
mod tests;
