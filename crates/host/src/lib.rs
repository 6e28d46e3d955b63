//! The driver of machines: servers, the simulator and virtual clusters run the same one over their
//! own clocks, networks and disks.
//!
//! A [`Driver`] owns a machine and the [`Log`] that keeps its records. Its host hands over what
//! arrives and carries out what leaves:
//!
//! 1. [`Driver::work`], which begins a turn, and [`Driver::take`] for what arrives; another turn
//!    while [`Driver::has_inputs`], after what follows has been done; or a direct call of the
//!    machine through [`Driver::machine_mut`];
//! 2. [`Driver::poll`] until it returns `None`: what may leave now, in order; then [`Driver::hold`]
//!    for each client who has called directly;
//! 3. where [`Driver::wants_submit`], [`Driver::submit`], at the latest when everyone who is ready
//!    to write has done so; where replies do not wait for the log, also now and then, since small
//!    writes do not ask for it;
//! 4. for each event of the log, [`Driver::on_log_event`], and then [`Driver::poll`] and
//!    [`Driver::take_durable`] for what that lets go; [`Driver::has_just_stopped`] tells that the
//!    rest will never leave;
//! 5. when [`Driver::next_deadline`] has come, [`Driver::on_deadline`], with the links that are
//!    full, so that the machine says less there;
//! 6. where [`Driver::wants_checkpoint`], [`Driver::begin_checkpoint`], and then [`Driver::save`]
//!    until it is complete.
//!
//! **Nothing that a machine says leaves before the records that it emitted earlier are durable**
//! (`docs/decisions/0007-durability.md`), unless the host acknowledges before that, and **a
//! checkpoint is in force only once all records that it knows of are durable**.

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
