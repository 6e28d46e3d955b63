//! The machine alone, with every input under the test's control. Each test also takes the rule out
//! that it is about, and sees the difference: some of these rules need a rare sequence of steps,
//! which few simulated seeds contain.

mod counts;
mod guard;
mod hard;
mod host;
mod members;
mod record;
mod rights;
mod waits;
