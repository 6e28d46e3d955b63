//! Runs independent experiments in parallel.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Runs the tasks on as many threads as there are cores, started in the given order; returns the
/// results in the same order.
pub(crate) fn run_all<T: Send>(tasks: Vec<Box<dyn FnOnce() -> T + Send + '_>>) -> Vec<T> {
    let count = tasks.len();
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let waiting = Mutex::new(tasks.into_iter().enumerate());
    let done = Mutex::new(Vec::with_capacity(count));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(count) {
            scope.spawn(|| {
                while let Some((place, task)) = next() {
                    let result = task();
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((place, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Runs the tasks as [`run_all`] does. After each of them, calls `report` with its place in the
/// order and the number of tasks that are done.
pub(crate) fn run_reported<T: Send>(
    tasks: Vec<Box<dyn FnOnce() -> T + Send + '_>>,
    report: &(dyn Fn(usize, usize) + Sync),
) -> Vec<T> {
    let done = &AtomicUsize::new(0);
    let counted = tasks.into_iter().enumerate().map(|(place, task)| {
        Box::new(move || {
            let result = task();
            report(place, done.fetch_add(1, Ordering::Relaxed) + 1);
            result
        }) as Box<dyn FnOnce() -> T + Send + '_>
    });
    run_all(counted.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_tasks() {
        let task = |n: u64| -> Box<dyn FnOnce() -> u64 + Send> { Box::new(move || n * n) };
        assert_eq!(
            run_all((0..50).map(task).collect()),
            (0..50).map(|n| n * n).collect::<Vec<_>>()
        );
    }

    #[test]
    fn each_task_is_reported_with_the_number_that_is_done() {
        let reports = Mutex::new(Vec::new());
        let task = |n: u64| -> Box<dyn FnOnce() -> u64 + Send> { Box::new(move || n) };
        let report = |place, done| reports.lock().unwrap().push((place, done));
        assert_eq!(run_reported((0..20).map(task).collect(), &report).len(), 20);
        let (mut places, mut done): (Vec<usize>, Vec<usize>) =
            reports.into_inner().unwrap().into_iter().unzip();
        places.sort_unstable();
        done.sort_unstable();
        assert_eq!((places, done), ((0..20).collect(), (1..=20).collect()));
    }
}
