//! Links between the nodes of a cluster, as machines without I/O.
//!
//! Each of two nodes calls the other and sends over the connection that it made. A [`Link`] is what
//! one of them knows of both connections, what waits to be sent, and what has arrived. Hosts make
//! the connections, carry frames and read the clock. A connection begins with a [`Greeting`] from
//! each side, whose [`Card`] tells who it is and what it was configured with. [`Admission`] decides
//! who is let in, by what is known of the sites and of the data that nodes had before.
//!
//! **Within a site every frame that was queued for a process arrives there once, and in order with
//! those of its protocol and lane**, whatever becomes of connections, as long as both processes
//! live. **Between sites a frame arrives at most once, and never after a later one of its protocol
//! and lane**; the protocols ask again for what is lost. `tests/world.rs` judges both.

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

pub use admission::{Admission, Origin, Place, Run, Unwelcome};
pub use batch::{Body, Delivery, Sizes, decode_batch, encode_batch};
pub use card::Card;
pub use frame::{Frame, Kind, WireError, read_frame, write_frame};
pub use greeting::{Greeting, HEAD};
pub use identity::{Identity, Speaks, WITH_THE_SITES};
pub use link::{Handshake, Link, Ticket};
pub use refusal::Refusal;
