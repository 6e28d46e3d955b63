//! How deep values and types may be nested. What walks through them does so by recursion, and what
//! comes over the network is refused before it overflows the stack.

use std::cell::Cell;

use serde::de::{Deserialize, Deserializer, Error};

/// The deepest nesting of values and types: a list of lists of numbers is nested 2 deep.
pub const MAX_NESTING: u8 = 64;

thread_local! {
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

/// One level of nesting, until it is dropped.
struct Level;

impl Level {
    fn enter() -> Option<Level> {
        DEPTH.with(|depth| {
            let deeper = depth.get() + 1;
            (deeper <= MAX_NESTING).then(|| {
                depth.set(deeper);
                Level
            })
        })
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Reads what is nested within a value or type.
///
/// Formats such as postcard have no limit of their own, and serde has no place to carry the depth
/// along.
pub(crate) fn within<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let _level = Level::enter()
        .ok_or_else(|| D::Error::custom(format!("nested more than {MAX_NESTING} deep")))?;
    T::deserialize(deserializer)
}
