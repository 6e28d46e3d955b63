//! Arbitrary bytes in place of data that transactions store or send to workers cause no panic:
//! records, tickets, marks, leases, witnesses, remote groups and their answers are rejected, or
//! decoded and processed.
#![no_main]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use solera_language::compile::compile;
use solera_mixt::any_bytes::read_any;
use solera_mixt::binding::{Module, Modules};

/// The module `m`, to which records may refer.
static MODULES: LazyLock<Arc<Modules>> = LazyLock::new(|| {
    let source = "store s : linearizable; store w : causal; \
         transaction t(a: handle<counter> in s, b: handle<set<string>> in w) -> int { \
             b.add(string(a.value())); a.add(1); return b.size(); \
         }";
    let program = compile(source).program.expect("it has no errors");
    let module = Module::new("m", Arc::new(program)).expect("what is compiled is well formed");
    Arc::new(BTreeMap::from([(module.name().clone(), module)]))
});

fuzz_target!(|bytes: &[u8]| read_any(bytes, &MODULES));
