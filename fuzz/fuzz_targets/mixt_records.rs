//! What transactions keep in stores or send to workers never panics, whatever it is: records,
//! tickets, marks, turns, witnesses, shipments and their answers are refused, or read and gone on
//! with.
#![no_main]

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use solera_language::compile::compile;
use solera_mixt::any_bytes::read_any;
use solera_mixt::binding::{Module, Modules};

/// The module `m`, which records may name.
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
