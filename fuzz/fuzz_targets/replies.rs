//! Any bytes are a reply, part of one, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((_, length))) = solera_resp::parse_value(bytes) {
        assert!(length <= bytes.len());
    }
});
