//! The driver of machines. Servers, the simulator and virtual clusters run the same driver over
//! their own clocks, networks and disks.
//!
//! A [`Driver`] owns a machine and the [`Log`] that keeps its records. Its host passes inputs to it
//! and carries out its outputs:
//!
//! 1. [`Driver::work`] begins a turn; [`Driver::take`] passes on an input that has arrived. As long
//!    as [`Driver::has_inputs`] returns true, the host begins another turn after the following
//!    steps. A direct call through [`Driver::machine_mut`] replaces this step.
//! 2. [`Driver::poll`], until it returns `None`, returns the outputs that may leave now, in order.
//!    Then the host calls [`Driver::hold`] for each client that has called the machine directly.
//! 3. If [`Driver::wants_submit`], the host calls [`Driver::submit`], at the latest when all
//!    clients that are ready to write have done so. Where replies do not wait for the log, it also
//!    calls it from time to time, since few small writes do not make `wants_submit` true.
//! 4. For each event of the log, the host calls [`Driver::on_log_event`], then [`Driver::poll`] and
//!    [`Driver::take_durable`] for the outputs and clients that it releases.
//!    [`Driver::has_just_stopped`] returns true when the remaining ones will never be released.
//! 5. When [`Driver::next_deadline`] has come, the host calls [`Driver::on_deadline`] with the
//!    workers whose links are full, so that the machine sends less to them.
//! 6. If [`Driver::wants_checkpoint`], the host calls [`Driver::begin_checkpoint`], and then
//!    [`Driver::save`] until the checkpoint is complete.
//!
//! **No message or reply leaves before the records that the machine emitted earlier are durable**
//! (`docs/decisions/0007-durability.md`), unless the options say that replies do not wait, and **a
//! checkpoint is published only once all records whose effects it contains are durable**.

mod checkpoint;
mod driver;
mod gate;
mod log;
mod open;
mod options;
mod virtual_log;

pub use driver::Driver;
pub use log::{Log, NoLog, Snapshot};
pub use open::open;
pub use options::{Options, Rule};
pub use virtual_log::VirtualLog;
