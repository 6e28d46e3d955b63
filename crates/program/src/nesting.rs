//! Limit on the nesting of values and types. They are visited recursively, so deeper ones that
//! arrive over the network are rejected before they overflow the stack.

use std::cell::Cell;

use serde::de::{Deserialize, Deserializer, Error};

/// Maximum nesting of values and types: a list of lists of numbers has depth 2.
pub const MAX_NESTING: u8 = 64;

thread_local! {
    static DEPTH: Cell<u8> = const { Cell::new(0) };
}

/// Guard of one level of nesting.
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

/// Deserializes a nested value or type, and checks the depth.
///
/// Formats such as postcard have no limit of their own, and serde cannot pass the depth along.
pub(crate) fn within<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let _level = Level::enter()
        .ok_or_else(|| D::Error::custom(format!("nested more than {MAX_NESTING} deep")))?;
    T::deserialize(deserializer)
}
