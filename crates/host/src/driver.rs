//! A machine and what it waits for.

use std::convert::Infallible;
use std::fmt;

use solera_journal::{Error, Event, Lsn};
use solera_machine::{Address, Input, InputOf, Machine, Now, Output, OutputOf, RequestId, Turns};
use solera_time::Monotonic;

use crate::gate::Gate;
use crate::log::Log;
use crate::options::Options;

/// Runs one machine; see the [crate](crate) for what its host calls when. `C` is what the host
/// keeps of clients who call the machine directly.
pub struct Driver<M: Machine, L: Log, C = Infallible> {
    machine: M,
    inbox: Turns<InputOf<M>>,
    /// What the turn may still cost.
    left: u64,
    /// Nothing if the machine keeps no records.
    gate: Option<Gate<M, L, C>>,
}

impl<M: Machine, L: Log, C> Driver<M, L, C> {
    /// Runs a machine that keeps no records.
    pub fn in_memory(machine: M) -> Self {
        Driver { machine, inbox: Turns::default(), left: 0, gate: None }
    }

    /// Runs a machine whose records go to `log`, of which all up to `persisted` are durable.
    pub fn with_log(machine: M, log: L, persisted: Lsn, options: Options) -> Self {
        let gate = Some(Gate::new(log, persisted, options));
        Driver { machine, inbox: Turns::default(), left: 0, gate }
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// The machine, for direct calls. What it has to say leaves with the next [`poll`](Self::poll);
    /// whoever called it waits with [`hold`](Self::hold).
    pub fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }

    /// The log, if there is one.
    pub fn log(&self) -> Option<&L> {
        self.gate.as_ref().map(Gate::log)
    }

    /// The log, for a host that completes its syncs. Only the driver appends records.
    pub fn log_mut(&mut self) -> Option<&mut L> {
        self.gate.as_mut().map(Gate::log_mut)
    }

    /// Gives the machine an input.
    pub fn handle(&mut self, now: Now, input: InputOf<M>) {
        self.machine.handle(now, input);
    }

    /// Gives the machine an input, if nothing waits and the turn may still cost something.
    /// Otherwise puts it behind those of its protocol that wait for [`work`](Self::work).
    pub fn take(&mut self, now: Now, input: InputOf<M>) {
        let share = M::share(&input);
        if self.left > 0 && self.inbox.is_empty() {
            self.left = self.left.saturating_sub(share.cost.max(1));
            self.machine.handle(now, input);
        } else {
            self.inbox.push(share, input);
        }
    }

    /// Begins a turn, which may cost `quantum`, and gives the machine what waits, protocol by
    /// protocol. Where [`has_inputs`](Self::has_inputs) afterwards, the host lets others have their
    /// turn, and comes back. A protocol that is given more than a worker can do thus delays others
    /// by one quantum and not by all that waits for it.
    pub fn work(&mut self, now: Now, quantum: u64) {
        self.left = quantum;
        while self.left > 0
            && let Some((cost, input)) = self.inbox.pop()
        {
            self.left = self.left.saturating_sub(cost.max(1));
            self.machine.handle(now, input);
        }
    }

    /// Tells the machine that a client wants no more replies to a request. A command that still
    /// waits is not carried out.
    pub fn cancel(&mut self, now: Now, request: RequestId) {
        let is_it = |input: &InputOf<M>| matches!(input, Input::Client { request: of, .. } if *of == request);
        self.inbox.retain(|input| !is_it(input));
        self.machine.handle(now, Input::Cancel { request });
    }

    /// Whether inputs wait for [`work`](Self::work).
    pub fn has_inputs(&self) -> bool {
        !self.inbox.is_empty()
    }

    /// Lets the machine do what is due at `now`, if something is, and returns whether something
    /// was. `full` returns the workers to which links are full: the machine sends them as little as
    /// possible until the next deadline.
    pub fn on_deadline(&mut self, now: Now, full: impl FnOnce() -> Vec<Address>) -> bool {
        let is_due = self.next_deadline().is_some_and(|deadline| now.monotonic >= deadline);
        if is_due {
            self.machine.hold_back(full());
            self.machine.on_deadline(now);
        }
        is_due
    }

    /// Returns when the machine wants [`on_deadline`](Self::on_deadline) next.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.machine.next_deadline()
    }

    /// Returns the next output, in order: messages and replies that may leave now, events, jobs,
    /// and records. Records are appended to the log before they are returned, unless it has failed.
    pub fn poll(&mut self) -> Option<OutputOf<M>> {
        let Some(gate) = &mut self.gate else { return self.machine.poll_output() };
        if let Some(output) = gate.take_released() {
            return Some(output);
        }
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Records(records) => {
                    gate.write(&records);
                    return Some(Output::Records(records));
                }
                Output::Trace(event) => return Some(Output::Trace(event)),
                Output::Job { job, work } => return Some(Output::Job { job, work }),
                output => {
                    if let Some(output) = gate.pass(output) {
                        return Some(output);
                    }
                }
            }
        }
        None
    }

    /// Whether messages and replies wait for the log.
    pub fn waits(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::waits)
    }

    /// Whether [`submit`](Self::submit) should be called when those who are ready to write have
    /// done so. While a sync is under way what comes in is collected for the next; where nothing
    /// waits, for longer.
    pub fn wants_submit(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::wants_submit)
    }

    /// Hands what was appended to the disk.
    pub fn submit(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.submit();
        }
    }

    /// The log has something to tell.
    pub fn on_log_event(&mut self, event: Event) {
        if let Some(gate) = &mut self.gate {
            gate.on_event(event);
        }
    }

    /// Keeps a client who has called the machine directly until all that the machine has done so
    /// far is durable; then [`take_durable`](Self::take_durable) returns it. Returns the client at
    /// once if all is durable, or need not be. If the log fails, or has failed, and nobody is
    /// answered any more, the client is dropped.
    ///
    /// To be called when [`poll`](Self::poll) has returned `None`, for records that were not polled
    /// are in no log yet.
    pub fn hold(&mut self, client: C) -> Option<C> {
        match &mut self.gate {
            Some(gate) => gate.hold(client),
            None => Some(client),
        }
    }

    /// Returns the next client who has waited long enough, in the order in which they came.
    pub fn take_durable(&mut self) -> Option<C> {
        self.gate.as_mut().and_then(Gate::take_durable)
    }

    /// Whether [`hold`](Self::hold) would keep a client.
    pub fn must_wait(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::must_wait)
    }

    /// Whether records are appended that are not durable.
    pub fn has_undurable(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::has_undurable)
    }

    /// Why commands that write must be refused: the log has failed, or is about to, until it has
    /// room again.
    pub fn refuses(&self) -> Option<&Error> {
        self.gate.as_ref().and_then(Gate::refuses)
    }

    /// Whether nothing can be written any more.
    pub fn has_stopped(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::has_stopped)
    }

    /// Returns `true` once after the log has failed.
    pub fn has_just_stopped(&mut self) -> bool {
        self.gate.as_mut().is_some_and(Gate::has_just_stopped)
    }

    /// Whether clients are answered. Where replies wait for the log, they do not come any more when
    /// it has failed: what is in memory and was not written is gone when the machine is built
    /// again, and nobody may have seen it.
    pub fn answers(&self) -> bool {
        self.gate.as_ref().is_none_or(Gate::answers)
    }

    /// Whether so much was written since the last checkpoint that it is time for the next, or the
    /// log needs room.
    pub fn wants_checkpoint(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::wants_checkpoint)
    }

    /// A checkpoint is due whatever was written: the log may find room by it.
    pub fn need_checkpoint(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.need_checkpoint();
        }
    }

    /// Whether a checkpoint is being written.
    pub fn is_saving(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::is_saving)
    }

    /// How many bytes of a checkpoint wait for the disk.
    pub fn checkpoint_backlog(&self) -> usize {
        self.gate.as_ref().map_or(0, Gate::checkpoint_backlog)
    }

    /// Begins a checkpoint; one that is being written is given up. If this one cannot be begun,
    /// [`take_problem`](Self::take_problem) tells why.
    pub fn begin_checkpoint(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.begin_checkpoint();
        }
    }

    /// Writes the next part of the checkpoint that was begun, with at most so many keys, and
    /// returns it with the last record that it knows of; also where the log refuses the part and
    /// the checkpoint is given up. `None` if none is being written, it is complete, or the machine
    /// has no part now.
    ///
    /// # Panics
    /// If [`poll`](Self::poll) has more to return.
    pub fn save(&mut self, keys: usize) -> Option<(Lsn, M::Part)> {
        self.gate.as_mut()?.save(&self.machine, keys)
    }

    /// Error that ended the last checkpoint; returned once.
    pub fn take_problem(&mut self) -> Option<Error> {
        self.gate.as_mut().and_then(Gate::take_problem)
    }
}

impl<M: Machine + fmt::Debug, L: Log, C> fmt::Debug for Driver<M, L, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("machine", &self.machine).finish_non_exhaustive()
    }
}
