//! Sessions of clients.

mod introspection;

pub use introspection::{answer, describe};
