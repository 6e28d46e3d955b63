//! Arbitrary bytes are parsed as a module of the MixT language or rejected. A module without errors
//! is printed, and parses to the same module again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use solera_language::render::render;
use solera_language::syntax::{parse, parse_bytes, print};

fuzz_target!(|bytes: &[u8]| {
    let Ok(parsed) = parse_bytes(bytes) else { return };
    let source = std::str::from_utf8(bytes).unwrap();
    render(&parsed.diagnostics, "fuzz.mixt", source, false);
    let printed = print(&parsed.module);
    if parsed.diagnostics.is_empty() {
        let again = parse(&printed);
        assert!(again.diagnostics.is_empty(), "{printed}");
        assert_eq!(print(&again.module), printed);
    }
});
