//! Names of registers, and the initial rows.

use std::collections::BTreeSet;

use solera_random::Random;

use crate::population::{DISTRICTS, first_order, initial, item, terms};
use crate::procedures::Tpcc;
use crate::register::{Customer, District, OrderId, Register};
use crate::rows::Tables;
use crate::tests::{DISTRICT, Database};
use crate::value::Value;

/// Returns the names of the initial rows of a warehouse that have registers.
fn all_rows(warehouse: u16) -> Vec<Register> {
    let mut rows = vec![Register::WarehouseYtd(warehouse)];
    rows.extend((1..=100_000).map(|item| Register::Stock(warehouse, item)));
    for id in 1..=DISTRICTS {
        let district = District { warehouse, id };
        rows.push(Register::DistrictYtd(district));
        rows.push(Register::NextOrder(district));
        rows.push(Register::OldestNewOrder(district));
        for id in 1..=3000 {
            let customer = Customer { district, id };
            rows.push(Register::Balance(customer));
            rows.push(Register::Payments(customer));
            rows.push(Register::Deliveries(customer));
            rows.push(Register::Data(customer));
            rows.push(Register::LastOrder(customer));
            rows.push(Register::History(customer, 1));
            let order = OrderId { district, id: id.into() };
            rows.push(Register::NewOrder(order));
            rows.push(Register::Order(order));
            rows.push(Register::Carrier(order));
            rows.push(Register::Lines(order));
            rows.push(Register::DeliveryDate(order));
        }
    }
    rows
}

#[test]
fn the_initial_database_is_consistent() {
    let values = all_rows(1).into_iter().filter_map(|row| Some((row.name(), initial(row)?)));
    let registers: Vec<(Vec<u8>, Value)> = values.collect();
    // 900 orders of each district have no carrier and no date.
    assert_eq!(registers.len(), 1 + 100_000 + 10 * (3 + 3000 * 11 - 900 * 2));
    let registers = registers.iter().map(|(name, value)| (&name[..], value));
    assert_eq!(Tpcc::new(1).violations(registers), []);
}

#[test]
fn each_register_has_its_own_name() {
    let mut names = BTreeSet::new();
    for row in all_rows(258) {
        let name = row.name();
        assert_eq!(Register::decode(&name), Some(row));
        assert!(names.insert(name), "{row:?}");
    }
    let mut random = Random::new(9);
    for name in names.iter().step_by(1000) {
        assert_eq!(Register::decode(&name[1..]), None);
        assert_eq!(Register::decode(&[&name[..], &[0]].concat()), None);
        let mut other = name.clone();
        let at = random.index(other.len());
        other[at] ^= 1 + random.below(255) as u8;
        // A name that is no register's, or another one's.
        assert!(Register::decode(&other).is_none_or(|row| row.name() == other));
    }
    assert_eq!(Register::decode(b"w\x00\x01\x01"), None, "a warehouse has no district");
    assert_eq!(Register::decode(b"b\x00\x01\x01\x00\x01\x00\x01"), None, "too large a customer");
}

#[test]
fn initial_columns_are_distributed_as_the_specification_demands() {
    let share = |count: usize, all: usize| count as f64 / all as f64;
    let districts = (1..=10).map(|id| District { warehouse: 2, id });
    let customers: Vec<Customer> = districts
        .flat_map(|district| (1..=3000).map(move |id| Customer { district, id }))
        .collect();
    let bad = customers.iter().filter(|it| !terms(**it).good_credit).count();
    assert!((0.09..0.11).contains(&share(bad, customers.len())), "{bad}");
    assert!(customers.iter().all(|it| terms(*it).discount <= 5000));
    let first = customers.iter().filter(|it| it.id <= 1000);
    assert!(first.into_iter().all(|it| terms(*it).last == it.id - 1));

    let items: Vec<_> = (1..=100_000).map(|id| item(id).unwrap()).collect();
    assert_eq!((item(0), item(100_001)), (None, None));
    let original = items.iter().filter(|it| it.original).count();
    assert!((0.09..0.11).contains(&share(original, items.len())), "{original}");
    assert_eq!(items.iter().map(|it| it.price).min(), Some(100));
    assert_eq!(items.iter().map(|it| it.price).max(), Some(10_000));
    let lengths: BTreeSet<usize> = items.iter().map(|it| it.name.len()).collect();
    assert!(lengths.into_iter().eq(14..=24));

    let database = Database::new();
    let quantities: BTreeSet<u8> =
        (1..=100_000).map(|item| database.stock(2, item).quantity).collect();
    assert!(quantities.into_iter().eq(10..=100));
    let orders: Vec<OrderId> = (1..=3000).map(|id| OrderId { district: DISTRICT, id }).collect();
    let lengths: BTreeSet<usize> = orders.iter().map(|it| database.lines(*it).len()).collect();
    assert!(lengths.into_iter().eq(5..=15));
    for order in orders {
        let is_delivered = order.id < 2101;
        for line in database.lines(order).iter() {
            assert_eq!(line.amount == 0, is_delivered);
            assert!(line.amount <= 999_999 && (1..=100_000).contains(&line.item));
        }
        let id = database.order(order).unwrap().customer;
        assert_eq!(first_order(Customer { district: DISTRICT, id }), order.id);
    }
}
