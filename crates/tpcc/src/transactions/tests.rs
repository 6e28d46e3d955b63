//! Each transaction against the rules of the specification.

use std::array;
use std::collections::BTreeSet;

use crate::operation::{
    Delivery, NewOrder, OrderStatus, Ordered, Payment, StockLevel, Transaction, Who,
};
use crate::population::{ITEMS, first_name, first_order, item, terms};
use crate::register::{Customer, District, OrderId, Register};
use crate::response::{Response, Status};
use crate::rows::Tables;
use crate::tests::{CUSTOMER, DISTRICT, Database, Registers};
use crate::value::{Line, Order, Stock, Value};

const ELSEWHERE: District = District { warehouse: 2, id: 9 };

impl Database {
    fn status(&mut self, district: District, customer: Who) -> Status {
        let status = OrderStatus { district, customer };
        match self.run(Transaction::OrderStatus(status)) {
            Response::OrderStatus(status) => *status,
            other => panic!("{other:?}"),
        }
    }

    fn deliver(&mut self, carrier: u8) -> [Option<u32>; 10] {
        match self.run(Transaction::Delivery(Delivery { warehouse: 1, carrier })) {
            Response::Delivery(orders) => orders,
            other => panic!("{other:?}"),
        }
    }

    fn low_stock(&mut self, threshold: u8) -> u32 {
        let input = StockLevel { district: DISTRICT, threshold };
        match self.run(Transaction::StockLevel(input)) {
            Response::StockLevel(count) => count,
            other => panic!("{other:?}"),
        }
    }
}

/// Returns a customer with good or bad credit.
fn with_credit(good: bool) -> Customer {
    let customers = (1..).map(|id| Customer { district: DISTRICT, id });
    customers.into_iter().find(|it| terms(*it).good_credit == good).unwrap()
}

#[test]
fn new_order_adds_91_where_fewer_than_10_would_remain() {
    let mut database = Database::new();
    for (before, quantity, after) in
        [(20, 10, 10), (19, 10, 100), (10, 1, 100), (100, 10, 90), (15, 5, 10), (15, 6, 100)]
    {
        let stock = Stock { quantity: before, year_to_date: 7, orders: 3, remote: 1 };
        database.set(Register::Stock(1, 5), Value::Stock(stock));
        database.set(Register::Stock(2, 5), Value::Stock(stock));
        let placed = database.placed(CUSTOMER, &[(5, 1, quantity), (5, 2, quantity)]);
        assert_eq!([0, 1].map(|at| placed.lines[at].stock), [after, after]);
        let after =
            Stock { quantity: after, year_to_date: 7 + u32::from(quantity), orders: 4, remote: 1 };
        assert_eq!(database.stock(1, 5), after);
        assert_eq!(database.stock(2, 5), Stock { remote: 2, ..after });
    }
}

#[test]
fn new_order_reads_its_own_writes() {
    let mut database = Database::new();
    database.set(Register::Stock(1, 5), Value::Stock(Stock { quantity: 25, ..Stock::default() }));
    let placed = database.placed(CUSTOMER, &[(5, 1, 8), (5, 1, 7), (5, 1, 1)]);
    assert_eq!(placed.lines.iter().map(|line| line.stock).collect::<Vec<_>>(), [17, 10, 100]);
    assert_eq!(database.stock(1, 5).orders, 3);
    assert_eq!(database.stock(1, 5).year_to_date, 16);
}

#[test]
fn new_order_inserts_an_order_with_lines() {
    let mut database = Database::new();
    let first = database.placed(CUSTOMER, &[(5, 1, 8), (6, 1, 10)]);
    let second = database.placed(CUSTOMER, &[(7, 2, 1)]);
    assert_eq!((first.order, second.order), (3001, 3002));
    assert_eq!(database.number(Register::NextOrder(DISTRICT)), Some(3003));
    let other = Customer { district: ELSEWHERE, id: 1 };
    assert_eq!(database.placed(other, &[(7, 2, 1)]).order, 3001, "districts count on their own");
    let id = OrderId { district: DISTRICT, id: 3001 };
    let order = Order { customer: 77, entry: 1, lines: 2, all_local: true };
    assert_eq!(database.read(Register::Order(id)), Some(Value::Order(order)));
    assert!(database.exists(Register::NewOrder(id)));
    assert_eq!(database.number(Register::Carrier(id)), None);
    assert_eq!(database.date(Register::DeliveryDate(id)), None);
    let price = |id| item(id).unwrap().price;
    let line = |item, quantity| Line {
        item,
        supply: 1,
        quantity,
        amount: u32::from(quantity) * price(item),
    };
    assert_eq!(database.lines(id)[..], [line(5, 8), line(6, 10)]);
    let id = OrderId { id: 3002, ..id };
    let order = Order { customer: 77, entry: 2, lines: 1, all_local: false };
    assert_eq!(database.read(Register::Order(id)), Some(Value::Order(order)));
}

#[test]
fn new_order_displays_prices_and_the_total() {
    let mut database = Database::new();
    let placed = database.placed(CUSTOMER, &[(5, 1, 8), (ITEMS, 2, 10)]);
    let items = [item(5), item(ITEMS)].map(Option::unwrap);
    for (line, (item, quantity)) in placed.lines.iter().zip(items.iter().zip([8, 10])) {
        assert_eq!((&line.name, line.price), (&item.name, item.price));
        assert_eq!(line.amount, quantity * item.price);
    }
    let sum: u32 = placed.lines.iter().map(|line| line.amount).sum();
    let share = |part: u16| f64::from(part) / 10_000.0;
    let total = f64::from(sum)
        * (1.0 - share(placed.discount))
        * (1.0 + share(placed.warehouse_tax) + share(placed.district_tax));
    assert!((total - placed.total as f64).abs() < 0.51, "{total} {placed:?}");
    assert_eq!(placed.entry, 1);
    // The goods of both texts are rare: one of a hundred items.
    let brands =
        (1..=3000).filter(|item| database.placed(CUSTOMER, &[(*item, 1, 1)]).lines[0].brand);
    let brands = brands.count();
    assert!((10..=60).contains(&brands), "{brands}");
}

#[test]
fn a_new_order_with_an_unused_item_leaves_nothing() {
    let mut database = Database::new();
    database.placed(CUSTOMER, &[(5, 1, 8)]);
    let before = database.registers.clone();
    let Response::RolledBack(rolled_back) =
        database.submit(CUSTOMER, &[(5, 1, 8), (6, 2, 1), (ITEMS + 1, 1, 1)])
    else {
        panic!("an unused item was sold")
    };
    assert_eq!(database.registers, before);
    assert_eq!(rolled_back.order, 3002);
    assert_eq!(rolled_back.good_credit, terms(CUSTOMER).good_credit);
    assert!(matches!(database.submit(CUSTOMER, &[(0, 1, 1)]), Response::RolledBack(_)));
    let placed = database.placed(CUSTOMER, &[(5, 1, 8)]);
    assert_eq!((placed.order, placed.last), (3002, rolled_back.last));
}

#[test]
fn payment_adds_to_all_sums() {
    let mut database = Database::new();
    let customer = with_credit(true);
    let paid = database.pay(ELSEWHERE, customer, 12_345);
    assert_eq!(paid.balance, -1000 - 12_345);
    assert_eq!(database.pay(DISTRICT, customer, 100).balance, -1000 - 12_445);
    assert_eq!(paid.data, None);
    assert_eq!((paid.customer, paid.date), (customer.id, 1));
    assert_eq!(database.amount(Register::WarehouseYtd(2)), 30_000_000 + 12_345);
    assert_eq!(database.amount(Register::WarehouseYtd(1)), 30_000_000 + 100);
    assert_eq!(database.amount(Register::DistrictYtd(ELSEWHERE)), 3_000_000 + 12_345);
    assert_eq!(database.amount(Register::DistrictYtd(DISTRICT)), 3_000_000 + 100);
    assert_eq!(database.amount(Register::Balance(customer)), -1000 - 12_445);
    let payments = database.payments(customer);
    assert_eq!((payments.year_to_date, payments.count), (1000 + 12_445, 3));
    let history = |payment| database.history(customer, payment).unwrap();
    let row = |payment| {
        let row = history(payment);
        (row.warehouse, row.district, row.amount, row.date)
    };
    assert_eq!(row(1), (1, 3, 1000, 0));
    assert_eq!(row(2), (2, 9, 12_345, 1));
    assert_eq!(row(3), (1, 3, 100, 2));
}

#[test]
fn payment_of_a_customer_with_bad_credit_extends_its_data() {
    let mut database = Database::new();
    let customer = with_credit(false);
    let before = database.data(customer);
    assert!((300..=500).contains(&before.len()));
    let paid = database.pay(ELSEWHERE, customer, 12_305);
    let first = format!("{} 3 1 9 2 123.05 ", customer.id);
    let expected: String = (first.clone() + &before).chars().take(500).collect();
    assert_eq!(&*database.data(customer), expected);
    assert_eq!(paid.data.as_deref(), Some(&expected[..200]));
    for _ in 0..40 {
        database.pay(DISTRICT, customer, 500_000);
    }
    let data = database.data(customer);
    let last = format!("{} 3 1 3 1 5000.00 ", customer.id);
    assert_eq!(*data, last.repeat(500 / last.len() + 1)[..500]);
}

#[test]
fn a_last_name_means_the_customer_in_the_middle() {
    let mut database = Database::new();
    let mut counts = BTreeSet::new();
    for last in 0..40 {
        let customers = (1..=3000).map(|id| Customer { district: DISTRICT, id });
        let mut named: Vec<_> = customers
            .filter(|it| terms(*it).last == last)
            .map(|it| (first_name(it), it.id))
            .collect();
        named.sort();
        let middle = match named.len() % 2 {
            0 => named.len() / 2,
            _ => named.len() / 2 + 1,
        };
        let status = database.status(DISTRICT, Who::LastName(last));
        assert_eq!((status.first, status.customer), named[middle - 1]);
        counts.insert(named.len());
        let payment = Payment {
            district: DISTRICT,
            customer_district: DISTRICT,
            customer: Who::LastName(last),
            amount: 100,
        };
        let Response::Payment(paid) = database.run(Transaction::Payment(payment)) else { panic!() };
        assert_eq!(paid.customer, status.customer);
        assert_eq!(paid.details.last, status.last);
    }
    assert!(counts.iter().any(|it| it % 2 == 0) && counts.iter().any(|it| it % 2 == 1));
}

#[test]
fn order_status_shows_the_last_order() {
    let mut database = Database::new();
    let status = database.status(DISTRICT, Who::Id(CUSTOMER.id));
    let id = OrderId { district: DISTRICT, id: first_order(CUSTOMER) };
    assert_eq!(status.order, id.id);
    assert_eq!(database.order(id).unwrap().customer, CUSTOMER.id);
    assert_eq!((status.balance, status.entry), (-1000, 0));
    assert_eq!(status.lines, database.lines(id));
    assert_eq!(status.carrier.is_some(), id.id < 2101);
    assert_eq!(status.delivered.is_some(), id.id < 2101);
    database.placed(CUSTOMER, &[(8, 1, 1)]);
    database.pay(ELSEWHERE, CUSTOMER, 500);
    let placed = database.placed(CUSTOMER, &[(5, 1, 8), (6, 2, 10)]);
    database.placed(Customer { id: 78, ..CUSTOMER }, &[(5, 1, 8)]);
    let status = database.status(DISTRICT, Who::Id(CUSTOMER.id));
    assert_eq!((status.order, status.entry, status.balance), (placed.order, 4, -1500));
    assert_eq!((status.carrier, status.delivered), (None, None));
    let lines = status.lines.iter().map(|it| (it.item, it.supply, it.quantity, it.amount));
    let [first, second] = [0, 1].map(|at| placed.lines[at].amount);
    assert!(lines.eq([(5, 1, 8, first), (6, 2, 10, second)]));
}

#[test]
fn delivery_takes_the_oldest_new_order_of_each_district() {
    let mut database = Database::new();
    let placed = database.placed(CUSTOMER, &[(5, 1, 8), (6, 2, 10)]);
    for id in 2101..=3000 {
        let order = OrderId { district: DISTRICT, id };
        let customer = Customer { id: database.order(order).unwrap().customer, ..CUSTOMER };
        let balance = database.amount(Register::Balance(customer));
        assert_eq!(database.deliver(7), [Some(id); 10]);
        assert!(!database.exists(Register::NewOrder(order)));
        assert_eq!(database.number(Register::Carrier(order)), Some(7));
        assert_eq!(database.date(Register::DeliveryDate(order)), Some(database.date));
        let sum: u32 = database.lines(order).iter().map(|line| line.amount).sum();
        assert!(sum > 0);
        let after = database.amount(Register::Balance(customer));
        assert_eq!(after, balance + i64::from(sum));
        assert_eq!(database.number(Register::Deliveries(customer)), Some(1));
    }
    let before = database.amount(Register::Balance(CUSTOMER));
    let only: [Option<u32>; 10] = array::from_fn(|index| (index == 2).then_some(3001));
    assert_eq!(database.deliver(2), only);
    let sum: u32 = placed.lines.iter().map(|line| line.amount).sum();
    assert_eq!(database.amount(Register::Balance(CUSTOMER)), before + i64::from(sum));
    let status = database.status(DISTRICT, Who::Id(CUSTOMER.id));
    assert_eq!((status.carrier, status.delivered), (Some(2), Some(database.date - 1)));
    let registers = database.registers.clone();
    assert_eq!(database.deliver(2), [None; 10]);
    assert_eq!(database.registers, registers);
    database.placed(CUSTOMER, &[(5, 1, 8)]);
    assert_eq!(database.deliver(2)[2], Some(3002));
}

#[test]
fn stock_level_counts_items_of_the_last_20_orders() {
    let mut database = Database::new();
    let count = |database: &Database, threshold| {
        let orders = (2981..=3000).map(|id| OrderId { district: DISTRICT, id });
        let items: BTreeSet<u32> = orders
            .flat_map(|order| database.lines(order).iter().map(|it| it.item).collect::<Vec<_>>())
            .collect();
        let low = items.iter().filter(|item| database.stock(1, **item).quantity < threshold);
        low.count() as u32
    };
    let counts: Vec<u32> = (10..=20).map(|threshold| count(&database, threshold)).collect();
    assert_eq!((10..=20).map(|it| database.low_stock(it)).collect::<Vec<_>>(), counts);
    assert!(counts[0] == 0 && counts[10] > 0, "{counts:?}");

    // After 20 orders of the same items, only these count, and each once.
    let stock = |quantity| Value::Stock(Stock { quantity, ..Stock::default() });
    (0..20).for_each(|_| drop(database.placed(CUSTOMER, &[(1, 1, 1), (2, 1, 1), (3, 2, 1)])));
    for (item, quantity) in [(1, 14), (2, 15), (3, 11)] {
        database.set(Register::Stock(1, item), stock(quantity));
    }
    assert_eq!([11, 12, 14, 15, 16].map(|it| database.low_stock(it)), [0, 1, 1, 2, 3]);
    database.placed(CUSTOMER, &[(4, 1, 1)]);
    database.set(Register::Stock(1, 4), stock(9));
    assert_eq!(database.low_stock(10), 1);
    (0..19).for_each(|_| drop(database.placed(CUSTOMER, &[(5, 1, 1)])));
    database.set(Register::Stock(1, 5), stock(90));
    assert_eq!(database.low_stock(20), 1, "the orders of items 1 to 3 are too old");
    database.placed(CUSTOMER, &[(5, 1, 1)]);
    assert_eq!(database.low_stock(20), 0);
}

#[test]
fn inputs_out_of_range_have_no_effect() {
    let mut database = Database::new();
    let district = |warehouse, id| District { warehouse, id };
    let districts = [(0, 1), (3, 1), (u16::MAX, 1), (1, 0), (1, 11)];
    let mut invalid = Vec::new();
    let payment = |district, customer_district, customer, amount| {
        Transaction::Payment(Payment { district, customer_district, customer, amount })
    };
    let order = |district, customer, lines: &[Ordered]| {
        Transaction::NewOrder(NewOrder { district, customer, lines: lines.into() })
    };
    let line = Ordered { item: 1, supply: 1, quantity: 1 };
    for (warehouse, id) in districts {
        let wrong = district(warehouse, id);
        invalid.push(order(wrong, 1, &[line]));
        invalid.push(payment(wrong, DISTRICT, Who::Id(1), 100));
        invalid.push(payment(DISTRICT, wrong, Who::LastName(1), 100));
        let customer = Who::LastName(1);
        invalid.push(Transaction::OrderStatus(OrderStatus { district: wrong, customer }));
        invalid.push(Transaction::StockLevel(StockLevel { district: wrong, threshold: 10 }));
    }
    for customer in [Who::Id(0), Who::Id(3001), Who::LastName(1000), Who::LastName(u16::MAX)] {
        invalid.push(payment(DISTRICT, DISTRICT, customer, 100));
        invalid.push(Transaction::OrderStatus(OrderStatus { district: DISTRICT, customer }));
    }
    for (warehouse, carrier) in [(0, 1), (3, 1), (1, 0), (1, 11)] {
        invalid.push(Transaction::Delivery(Delivery { warehouse, carrier }));
    }
    for threshold in [9, 21] {
        invalid.push(Transaction::StockLevel(StockLevel { district: DISTRICT, threshold }));
    }
    invalid.extend([99, 500_001].map(|it| payment(DISTRICT, DISTRICT, Who::Id(1), it)));
    invalid.extend([0, 3001].map(|it| order(DISTRICT, it, &[line])));
    invalid.extend([0, 16].map(|count| order(DISTRICT, 1, &vec![line; count])));
    let lines = [(0, 1), (3, 1), (1, 0), (1, 11)];
    invalid
        .extend(lines.map(|(supply, quantity)| {
            order(DISTRICT, 1, &[Ordered { item: 1, supply, quantity }])
        }));
    for transaction in invalid {
        let response = database.run(transaction.clone());
        assert_eq!(response, Response::Invalid, "{transaction:?}");
    }
    assert_eq!(database.registers, Registers::default());
}
