//! Any text is a token of this cluster or an error; a token encodes to itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use solera_node::Token;

fuzz_target!(|input: (u64, u8, Vec<u8>)| {
    let (cluster, sites, text) = input;
    if let Ok(token) = Token::decode(&text, cluster, usize::from(sites % 8)) {
        let listed = token.pasts.causal.entries().len();
        assert_eq!(Token::decode(token.encode().as_bytes(), cluster, listed), Ok(token));
    }
});
