//! Arbitrary bytes from a peer cause no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| solera_node::read_as_peer(bytes));
