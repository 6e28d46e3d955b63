//! Measures the transactions: `cargo test --profile release -p solera-tpcc --test measure --
//! --ignored --nocapture`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use solera_creek::Procedures;
use solera_random::Random;
use solera_tpcc::{Mix, Tpcc, Transaction};

#[test]
#[ignore = "prints times"]
fn time_of_each_transaction() {
    for warehouses in [1, 5, 20] {
        let (tpcc, mix) = (Tpcc::new(warehouses), Mix::new(warehouses));
        let mut random = Random::new(1);
        let mut registers = BTreeMap::new();
        let mut times: BTreeMap<&str, (u32, Duration)> = BTreeMap::new();
        for date in 1..=200_000 {
            let operation = mix.draw(date, &mut random);
            let name = match operation.transaction {
                Transaction::NewOrder(_) => "New-Order",
                Transaction::Payment(_) => "Payment",
                Transaction::OrderStatus(_) => "Order-Status",
                Transaction::Delivery(_) => "Delivery",
                Transaction::StockLevel(_) => "Stock-Level",
            };
            let start = Instant::now();
            let response = tpcc.execute(&operation, &mut registers);
            let took = start.elapsed();
            drop(response);
            let (count, sum) = times.entry(name).or_default();
            *count += 1;
            *sum += took;
        }
        println!("{warehouses} warehouses, {} registers", registers.len());
        for (name, (count, sum)) in times {
            let mean = sum.as_secs_f64() * 1e6 / f64::from(count);
            println!("  {name:12} {count:6} × {mean:5.1} µs");
        }
    }
}
