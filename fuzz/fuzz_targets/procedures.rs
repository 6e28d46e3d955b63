//! Arbitrary bytes in place of operations of a speculative space, and of modules in its registers,
//! are rejected, or executed without a panic.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use solera_creek::{Procedures, RegisterKey};
use solera_procedures::{KeyValue, Module, Procedure, SpaceProcedures};

/// Fuel of a call, so that each input takes a short time.
const FUEL: u64 = 10_000;

fuzz_target!(|bytes: &[u8]| {
    let _ = Module::decode(bytes);
    let space = SpaceProcedures::default();
    let mut registers: BTreeMap<RegisterKey, KeyValue> = BTreeMap::new();
    let mut rest = bytes;
    while let Ok((mut procedure, after)) = postcard::take_from_bytes::<Procedure>(rest)
        && after.len() < rest.len()
    {
        rest = after;
        if let Procedure::Call(call) = &mut procedure {
            call.limits.fuel = call.limits.fuel.min(FUEL);
        }
        space.execute(&procedure, &mut registers);
        let _ = (procedure.keys().count(), procedure.is_read_only(), space.cost(&procedure));
    }
    registers.values().for_each(|value| drop(value.content()));
});
