//! The distribution of the load.

use std::collections::BTreeMap;

use solera_random::Random;

use crate::mix::{Mix, Weights, is_strong};
use crate::operation::{NewOrder, Operation, Ordered, Transaction, Who};
use crate::population::ITEMS;

/// Asserts that a share is what is expected, with a tolerance.
fn assert_share(what: &str, count: usize, all: usize, expected: f64) {
    let share = count as f64 / all as f64;
    let tolerance = 5.0 * (expected * (1.0 - expected) / all as f64).sqrt();
    assert!((share - expected).abs() < tolerance, "{what}: {share} instead of {expected}");
}

fn draw(mix: &Mix, count: u64) -> Vec<Operation> {
    let mut random = Random::new(5);
    (0..count).map(|date| mix.draw(date, &mut random)).collect()
}

fn who(operation: &Operation) -> Option<Who> {
    match &operation.transaction {
        Transaction::Payment(it) => Some(it.customer),
        Transaction::OrderStatus(it) => Some(it.customer),
        _ => None,
    }
}

#[test]
fn inputs_are_distributed_as_the_specification_demands() {
    let operations = draw(&Mix::new(5), 100_000);
    let all = operations.len();
    let mut homes = BTreeMap::<u16, usize>::new();
    let (mut orders, mut payments) = (Vec::new(), Vec::new());
    let (mut deliveries, mut levels, mut status) = (0, 0, 0);
    for operation in &operations {
        assert!(operation.is_valid(5), "{operation:?}");
        let home = match &operation.transaction {
            Transaction::NewOrder(it) => {
                orders.push(it);
                it.district.warehouse
            }
            Transaction::Payment(it) => {
                payments.push(it);
                it.district.warehouse
            }
            Transaction::OrderStatus(it) => {
                status += 1;
                it.district.warehouse
            }
            Transaction::Delivery(it) => {
                deliveries += 1;
                it.warehouse
            }
            Transaction::StockLevel(it) => {
                levels += 1;
                it.district.warehouse
            }
        };
        *homes.entry(home).or_default() += 1;
    }
    assert_share("New-Order", orders.len(), all, 0.45);
    assert_share("Payment", payments.len(), all, 0.43);
    assert_share("strong", operations.iter().filter(|it| is_strong(it)).count(), all, 0.43);
    for (what, count) in
        [("Delivery", deliveries), ("Stock-Level", levels), ("Order-Status", status)]
    {
        assert_share(what, count, all, 0.04);
    }
    (1..=5).for_each(|home| assert_share("home", homes[&home], all, 0.2));
    let customers: Vec<Who> = operations.iter().filter_map(who).collect();
    let named = customers.iter().filter(|it| matches!(it, Who::LastName(_))).count();
    assert_share("last names", named, customers.len(), 0.6);

    let remote =
        payments.iter().filter(|it| it.district.warehouse != it.customer_district.warehouse);
    assert_share("remote customers", remote.count(), payments.len(), 0.15);
    let moved = payments.iter().filter(|it| it.district.id != it.customer_district.id).count();
    assert_share("other districts", moved, payments.len(), 0.15 * 0.9);

    let unused = |it: &&&NewOrder| it.lines.last().is_some_and(|line| line.item > ITEMS);
    assert_share("rolled back", orders.iter().filter(unused).count(), orders.len(), 0.01);
    let lines: Vec<(u16, &Ordered)> = orders
        .iter()
        .flat_map(|it| it.lines.iter().map(|line| (it.district.warehouse, line)))
        .collect();
    let mean = lines.len() as f64 / orders.len() as f64;
    assert!((9.9..10.1).contains(&mean), "{mean}");
    assert!(orders.iter().all(|it| (5..=15).contains(&it.lines.len())));
    let remote = lines.iter().filter(|(home, line)| line.supply != *home).count();
    assert_share("remote items", remote, lines.len(), 0.01);
}

#[test]
fn one_warehouse_has_no_remote_customers_and_items() {
    for operation in draw(&Mix::new(1), 20_000) {
        assert!(operation.is_valid(1), "{operation:?}");
        if let Transaction::Payment(payment) = operation.transaction {
            assert_eq!(payment.district, payment.customer_district);
        }
    }
}

#[test]
fn the_share_of_payments_can_be_chosen() {
    for percent in [0, 10, 25, 43, 50, 100] {
        let mix = Mix { weights: Weights::with_payments(percent), ..Mix::new(5) };
        let operations = draw(&mix, 40_000);
        let strong = operations.iter().filter(|it| is_strong(it)).count();
        let expected = percent as f64 / 100.0;
        if percent % 100 == 0 {
            assert_eq!(strong, operations.len() * percent as usize / 100);
        } else {
            assert_share("strong", strong, operations.len(), expected);
        }
        let orders =
            operations.iter().filter(|it| matches!(it.transaction, Transaction::NewOrder(_)));
        let others = operations.len() - strong;
        if others > 0 {
            assert_share("New-Order", orders.count(), others, 45.0 / 57.0);
        }
    }
}
