//! Seeds of simulated worlds.

/// Returns the seeds of a test: those of `SEEDS=FROM..TO` in the environment, or the usual ones.
pub(crate) fn seeds(usual: impl IntoIterator<Item = u64>) -> Vec<u64> {
    let Ok(given) = std::env::var("SEEDS") else { return usual.into_iter().collect() };
    let (from, to) = given.split_once("..").expect("SEEDS=FROM..TO");
    (from.parse().unwrap()..to.parse().unwrap()).collect()
}
