//! Modules with damaged bytes are refused, or fail without effect.

use std::sync::Arc;

use solera_data::Value as Bytes;
use solera_procedures::{Call, CallError, Module, Procedure, Returned};
use solera_random::Random;

use crate::space::{Space, call, module};

const ORDERS: &str = include_str!("../../../../examples/orders.mixt");
const GROUPS: &str = include_str!("../../../../examples/message_groups.mixt");

/// Calls a transaction with texts as arguments, within limits that make it quick.
fn try_call(space: &mut Space, digest: &Arc<str>, transaction: &Arc<str>, arguments: usize) {
    for argument in ["x", "3"] {
        let arguments = vec![Bytes::from(argument); arguments];
        let (digest, transaction) = (Arc::clone(digest), Arc::clone(transaction));
        let mut call = Call { digest, transaction, arguments, ..call("", "", &[]) };
        (call.limits.fuel, call.limits.value_bytes) = (20_000, 10_000);
        if let Err(CallError::UnknownModule { .. }) = space.call(call) {
            panic!("it was installed");
        }
    }
}

#[test]
fn damaged_modules_do_no_harm() {
    let (mut refused, mut installed) = (0, 0);
    for (source, seeds) in [(ORDERS, 0..400), (GROUPS, 400..800)] {
        let whole = module(source).encode();
        // The source is at the beginning, and does not affect the program.
        let program = whole.len() - source.len();
        for seed in seeds {
            let mut random = Random::new(seed);
            let mut bytes = whole.clone();
            for _ in 0..=random.below(3) {
                let at = whole.len() - 1 - random.index(program);
                bytes[at] = match random.below(3) {
                    0 => random.draw() as u8,
                    1 => bytes[at].wrapping_add(1),
                    _ => bytes[at] ^ (1 << random.below(8)),
                };
            }
            if random.one_in(20) {
                bytes.truncate(random.index(bytes.len()));
            }
            let digest: Arc<str> = seed.to_string().into();
            let install =
                Procedure::Install { digest: Arc::clone(&digest), module: Bytes::from(&bytes[..]) };
            let mut space = Space::default();
            match space.execute(&install) {
                Returned::Failed(CallError::Damaged { .. }) => {
                    refused += 1;
                    assert!(space.registers.is_empty());
                }
                Returned::Installed => {
                    installed += 1;
                    let module = Module::decode(&bytes).unwrap();
                    for transaction in &module.program().transactions {
                        let arguments = transaction.params.len();
                        try_call(&mut space, &digest, &transaction.name, arguments);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(refused > 100 && installed > 100, "{refused} {installed}");
}
