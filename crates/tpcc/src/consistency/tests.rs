//! A load that is executed in sequence: its consistency, and what damages show.

use std::sync::Arc;

use solera_creek::{Access, Procedures};
use solera_random::Random;

use crate::consistency::{Condition, Violation};
use crate::mix::Mix;
use crate::operation::Operation;
use crate::procedures::Tpcc;
use crate::register::{Customer, District, OrderId, Register};
use crate::response::Response;
use crate::tests::{DISTRICT, Registers};
use crate::value::{History, Order, Payments, Value};

/// Registers that must not be written.
struct ReadOnly<'a>(&'a Registers);

impl Access<Value> for ReadOnly<'_> {
    fn read(&self, key: &[u8]) -> Option<Value> {
        self.0.read(key)
    }

    fn write(&mut self, key: &[u8], _: Option<Value>) {
        panic!("an operation that reads only has written {:?}", Register::decode(key));
    }
}

/// Executes a load on new registers.
fn load(tpcc: &Tpcc, count: u64) -> (Vec<(Operation, Response)>, Registers) {
    let (mix, mut random) = (Mix::new(tpcc.warehouses()), Random::new(20));
    let mut registers = Registers::default();
    let run = |date| {
        let operation = mix.draw(date, &mut random);
        let response = match tpcc.is_read_only(&operation) {
            true => tpcc.execute(&operation, &mut ReadOnly(&registers)),
            false => tpcc.execute(&operation, &mut registers),
        };
        (operation, response)
    };
    ((1..=count).map(run).collect(), registers)
}

fn violations(tpcc: &Tpcc, registers: &Registers) -> Vec<Violation> {
    tpcc.violations(registers.iter().map(|(name, value)| (&name[..], value)))
}

#[test]
fn a_load_is_consistent_and_the_same_each_time() {
    let tpcc = Tpcc::new(2);
    let (responses, registers) = load(&tpcc, 4000);
    assert_eq!(violations(&tpcc, &registers), []);
    let rolled_back = |(_, it): &&(Operation, Response)| matches!(it, Response::RolledBack(_));
    assert!(responses.iter().filter(rolled_back).count() > 5);
    assert!(responses.iter().all(|(_, it)| *it != Response::Invalid));
    // Again with rows that are cached, and with none.
    for again in [tpcc.clone(), Tpcc::new(2)] {
        assert_eq!(load(&again, 4000), (responses.clone(), registers.clone()));
    }
}

#[test]
fn another_order_shows_in_responses() {
    let tpcc = Tpcc::new(1);
    let (responses, _) = load(&tpcc, 500);
    let mut registers = Registers::default();
    let backwards = responses
        .iter()
        .rev()
        .filter(|(operation, response)| tpcc.execute(operation, &mut registers) != *response);
    assert!(backwards.count() > 200);
}

/// The registers after a load, with what the tests damage.
struct Loaded {
    tpcc: Tpcc,
    registers: Registers,
}

impl Loaded {
    fn new() -> Loaded {
        let tpcc = Tpcc::new(2);
        let (_, registers) = load(&tpcc, 1500);
        Loaded { tpcc, registers }
    }

    /// Returns the first register with a value that satisfies a condition.
    fn find<T>(&self, mut select: impl FnMut(Register, &Value) -> Option<T>) -> T {
        let registers = self.registers.iter();
        let mut selected =
            registers.filter_map(|(name, value)| select(Register::decode(name).unwrap(), value));
        selected.next().unwrap()
    }

    /// Returns the conditions that are violated when registers have other values.
    fn damaged(
        &self,
        damage: impl IntoIterator<Item = (Register, Option<Value>)>,
    ) -> Vec<Condition> {
        let mut registers = self.registers.clone();
        for (register, value) in damage {
            assert_ne!(registers.read(&register.name()), value);
            registers.write(&register.name(), value);
        }
        let violations = violations(&self.tpcc, &registers);
        assert!(violations.iter().all(|it| !it.to_string().is_empty()));
        let mut conditions: Vec<Condition> = violations.iter().map(|it| it.condition).collect();
        conditions.sort();
        conditions.dedup();
        conditions
    }

    fn amount(&self, register: Register, more: i64) -> (Register, Option<Value>) {
        let Some(Value::Amount(amount)) = self.registers.read(&register.name()) else { panic!() };
        (register, Some(Value::Amount(amount + more)))
    }

    fn number(&self, register: Register, more: u32) -> (Register, Option<Value>) {
        let Some(Value::Number(number)) = self.registers.read(&register.name()) else { panic!() };
        (register, Some(Value::Number(number + more)))
    }
}

use Condition::{Clause, Index, Name};

#[test]
fn damaged_sums_of_payments_are_found() {
    let loaded = Loaded::new();
    assert_eq!(loaded.damaged([]), []);
    let district = DISTRICT;
    let ytd = loaded.amount(Register::WarehouseYtd(1), 1);
    assert_eq!(loaded.damaged([ytd.clone()]), [Clause(1), Clause(8)]);
    let district_ytd = loaded.amount(Register::DistrictYtd(district), 1);
    assert_eq!(loaded.damaged([district_ytd.clone()]), [Clause(1), Clause(9)]);
    // Sums that agree with each other do not agree with the payments.
    assert_eq!(loaded.damaged([ytd, district_ytd]), [Clause(8), Clause(9)]);
    let (row, value) = loaded.find(|row, value| match (row, value) {
        (Register::History(..), Value::History(history)) => Some((row, *history)),
        _ => None,
    });
    let more = Value::History(History { amount: value.amount + 1, ..value });
    let sums = [Clause(8), Clause(9), Clause(10)];
    assert_eq!(loaded.damaged([(row, Some(more))]), sums);
    let elsewhere = Value::History(History { district: value.district % 10 + 1, ..value });
    assert_eq!(loaded.damaged([(row, Some(elsewhere))]), [Clause(9)]);
    let missing = [Clause(8), Clause(9), Clause(10), Index];
    assert_eq!(loaded.damaged([(row, None)]), missing);
}

#[test]
fn damaged_balances_are_found() {
    let loaded = Loaded::new();
    let customer = loaded.find(|row, _| match row {
        Register::Payments(customer) => Some(customer),
        _ => None,
    });
    let balance = loaded.amount(Register::Balance(customer), 1);
    assert_eq!(loaded.damaged([balance]), [Clause(10), Clause(12)]);
    let row = Register::Payments(customer);
    let Some(Value::Payments(payments)) = loaded.registers.read(&row.name()) else { panic!() };
    let more = Payments { year_to_date: payments.year_to_date + 1, ..payments };
    assert_eq!(loaded.damaged([(row, Some(Value::Payments(more)))]), [Clause(12)]);
    let more = Payments { count: payments.count + 1, ..payments };
    assert_eq!(loaded.damaged([(row, Some(Value::Payments(more)))]), [Index]);
    // A customer that did nothing.
    let customers = (1..).map(|id| Customer { district: DISTRICT, id });
    let is_idle = |it: &Customer| {
        let rows = [Register::Balance(*it), Register::LastOrder(*it)];
        rows.iter().all(|row| loaded.registers.read(&row.name()).is_none())
    };
    let idle = customers.into_iter().find(is_idle).unwrap();
    let changed = (Register::Balance(idle), Some(Value::Amount(0)));
    assert_eq!(loaded.damaged([changed]), [Clause(10), Clause(12)]);
}

#[test]
fn damaged_orders_are_found() {
    let loaded = Loaded::new();
    let next = Register::NextOrder(DISTRICT);
    let Some(Value::Number(id)) = loaded.registers.read(&next.name()) else { panic!() };
    assert!(id > 3005, "{id}");
    let id = OrderId { district: DISTRICT, id: id - 2 };
    assert_eq!(loaded.damaged([loaded.number(next, 1)]), [Clause(2)]);

    let row = Register::Order(id);
    let Some(Value::Order(order)) = loaded.registers.read(&row.name()) else { panic!() };
    let longer = Value::Order(Order { lines: order.lines + 1, ..order });
    assert_eq!(loaded.damaged([(row, Some(longer))]), [Clause(4), Clause(6)]);
    let lost = loaded.damaged([(row, None)]);
    assert!([4, 6, 11].iter().all(|clause| lost.contains(&Clause(*clause))), "{lost:?}");

    // NEW-ORDER still has the last order, ORDER has not.
    let lost = loaded.damaged([(Register::Order(OrderId { id: id.id + 1, ..id }), None)]);
    assert!(lost.contains(&Clause(2)), "{lost:?}");

    let row = Register::Lines(id);
    let Some(Value::Lines(lines)) = loaded.registers.read(&row.name()) else { panic!() };
    let shorter = Value::Lines(Arc::from(&lines[1..]));
    assert_eq!(loaded.damaged([(row, Some(shorter))]), [Clause(4), Clause(6)]);

    // A row of NEW-ORDER in the middle, and the last one.
    let gone = |id| (Register::NewOrder(id), Some(Value::Exists(false)));
    assert_eq!(loaded.damaged([gone(id)]), [Clause(3), Clause(5), Clause(11)]);
    let last = OrderId { id: id.id + 1, ..id };
    assert_eq!(loaded.damaged([gone(last)]), [Clause(2), Clause(5), Clause(11)]);

    let carrier = (Register::Carrier(id), Some(Value::Number(1)));
    assert_eq!(loaded.damaged([carrier]), [Clause(5), Clause(7)]);
    let customer = Customer { district: DISTRICT, id: order.customer };
    let found = loaded.damaged([(Register::LastOrder(customer), Some(Value::Number(1)))]);
    assert_eq!(found, [Index]);
}

#[test]
fn damaged_deliveries_are_found() {
    let loaded = Loaded::new();
    let order = loaded.find(|row, _| match row {
        Register::DeliveryDate(order) => Some(order),
        _ => None,
    });
    let row = Register::DeliveryDate(order);
    assert_eq!(loaded.damaged([(row, None)]), [Clause(7), Clause(10), Clause(12)]);
    assert_eq!(loaded.damaged([(Register::Carrier(order), None)]), [Clause(5), Clause(7)]);
    let again = (Register::NewOrder(order), Some(Value::Exists(true)));
    let found = loaded.damaged([again]);
    assert!([5, 11].iter().all(|clause| found.contains(&Clause(*clause))), "{found:?}");
    let row = loaded.find(|row, _| matches!(row, Register::Deliveries(_)).then_some(row));
    assert_eq!(loaded.damaged([loaded.number(row, 1)]), [Clause(11)]);
    let oldest = loaded.number(Register::OldestNewOrder(order.district), 1);
    assert_eq!(loaded.damaged([oldest]), [Index]);
}

#[test]
fn rows_of_no_table_are_found() {
    let loaded = Loaded::new();
    let district = |warehouse, id| District { warehouse, id };
    let number = || Some(Value::Number(1));
    for row in [
        Register::WarehouseYtd(0),
        Register::WarehouseYtd(3),
        Register::NextOrder(district(1, 0)),
        Register::NextOrder(district(1, 11)),
        Register::LastOrder(Customer { district: DISTRICT, id: 0 }),
        Register::LastOrder(Customer { district: DISTRICT, id: 3001 }),
        Register::Carrier(OrderId { district: DISTRICT, id: 0 }),
        Register::Stock(1, 0),
        Register::Stock(1, 100_001),
    ] {
        assert_eq!(loaded.damaged([(row, number())]), [Name], "{row:?}");
    }
    let mut registers = loaded.registers.clone();
    registers.write(b"", number());
    registers.write(b"w\x00\x01", number());
    let found = violations(&loaded.tpcc, &registers);
    assert_eq!(found.iter().map(|it| it.condition).collect::<Vec<_>>(), [Name, Name]);
}
