//! A single run.

use std::time::Duration;

use solera_creek::Scheme;
use solera_tpcc::Weights;

use super::our_costs;
use super::setting::Setting;
use super::world::run;
use crate::error::BenchError;

/// Runs one setting, which `arguments` describe, and returns what was measured. Each argument is a
/// name and a value: `scheme` (creek, smr, bayou or archie), `load` (operations per second), `ms`
/// (the window), `warm-up`, `warehouses`, `strong` (percent of Payment), `factor` (of execution
/// times), `costs` (paper or ours), `replicas`, `cores`, `step` (nanoseconds of the protocol thread
/// for an input) and `seed`.
///
/// # Errors
/// Fails if an argument is unknown or no number, or if the run breaks a promise of its scheme.
pub fn point(arguments: &[(String, String)]) -> Result<String, BenchError> {
    let mut setting = Setting::of(Scheme::Creek, 10_000.0);
    for (name, value) in arguments {
        let is_set = set(&mut setting, name, value);
        is_set.ok_or_else(|| BenchError::Settings(format!("unknown argument: {name} {value}")))?;
    }
    Ok(run(&setting)?.to_string())
}

fn set(setting: &mut Setting, name: &str, value: &str) -> Option<()> {
    let number = || value.parse::<u32>().ok();
    let ms = || number().map(|ms| Duration::from_millis(ms.into()));
    match (name, value) {
        ("scheme", "creek") => setting.scheme = Scheme::Creek,
        ("scheme", "smr") => setting.scheme = Scheme::Smr,
        ("scheme", "bayou") => setting.scheme = Scheme::Bayou,
        ("scheme", "archie") => setting.scheme = Scheme::Archie,
        ("costs", "paper") => {}
        ("costs", "ours") => setting.costs = our_costs(),
        ("load", _) => setting.load = number().filter(|load| *load > 0)?.into(),
        ("ms", _) => setting.window = ms()?,
        ("warm-up", _) => setting.warm_up = ms()?,
        ("warehouses", _) => setting.warehouses = value.parse().ok().filter(|it| *it > 0)?,
        ("strong", _) => setting.weights = Weights::with_payments(number()?.into()),
        ("factor", _) => setting.costs.factor = number()?,
        ("replicas", _) => setting.replicas = number().filter(|it| (1..=16).contains(it))? as usize,
        ("cores", _) => setting.cores = number().filter(|cores| *cores > 0)? as usize,
        ("step", _) => setting.step = Duration::from_nanos(number()?.into()),
        ("seed", _) => setting.seed = number()?.into(),
        _ => return None,
    }
    Some(())
}
