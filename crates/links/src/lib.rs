//! Links between the nodes of a cluster, as state machines without I/O.
//!
//! Each of two nodes calls the other, and sends over the connection that it opened. A [`Link`] is
//! one node's state of both connections: the frames to send, and the frames that have arrived.
//! Hosts open the connections, carry frames and read the clock. A connection begins with a
//! [`Greeting`] of each side, whose [`Card`] contains the node's identity and configuration.
//! [`Admission`] decides which nodes are admitted, by the statuses of the sites and the data that
//! the nodes had before.
//!
//! **Within a site every frame that was queued for a process arrives there exactly once, and in
//! order with those of its protocol and lane**, even if connections break, as long as both
//! processes live. **Between sites a frame arrives at most once, and never after a later one of its
//! protocol and lane**; the protocols request lost data again. `tests/world.rs` checks both.

mod acceptance;
mod admission;
mod batch;
mod card;
mod frame;
mod greeting;
mod identity;
mod link;
mod queue;
mod refusal;

pub use admission::{Admission, NodeRole, Origin, Run, Unwelcome};
pub use batch::{Body, Delivery, Sizes, decode_batch, encode_batch};
pub use card::Card;
pub use frame::{Frame, Kind, WireError, read_frame, write_frame};
pub use greeting::{Greeting, HEAD};
pub use identity::{Identity, Speaks, WITH_THE_SITES};
pub use link::{Handshake, Link, Ticket};
pub use refusal::Refusal;
