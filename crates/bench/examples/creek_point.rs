//! Runs Creek or a baseline in virtual time at one load, or at several, and prints what clients and
//! replicas observe.
//!
//! `cargo run --release -p solera-bench --example creek_point -- --scheme creek --load
//! 10000,20000`; [`point`] lists the arguments.

use std::error::Error;

use solera_bench::papers::creek::point;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let pair = |pair: &[String]| match pair {
        [name, value] => Ok((name.trim_start_matches("--").to_owned(), value.clone())),
        _ => Err(format!("{} has no value", pair.join(" "))),
    };
    let mut arguments = words.chunks(2).map(pair).collect::<Result<Vec<_>, _>>()?;
    let load = arguments.iter().position(|(name, _)| name == "load");
    let loads = load.map_or_else(|| "10000".to_owned(), |place| arguments.remove(place).1);
    for load in loads.split(',') {
        let load = ("load".to_owned(), load.to_owned());
        println!("{}", point(&[arguments.clone(), vec![load]].concat())?);
    }
    Ok(())
}
