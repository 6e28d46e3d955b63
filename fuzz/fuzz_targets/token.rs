//! Any text is a token of this cluster or causes an error; a token survives encoding and decoding.
#![no_main]

use libfuzzer_sys::fuzz_target;
use solera_node::Token;

fuzz_target!(|input: (u64, u8, u16, Vec<u8>)| {
    let (cluster, sites, partitions, text) = input;
    if let Ok(token) = Token::decode(&text, cluster, (usize::from(sites % 8), partitions)) {
        let shape = (token.pasts.causal.entries().len(), partitions);
        let again = token.encode().expect("its pasts were short");
        assert_eq!(Token::decode(again.as_bytes(), cluster, shape), Ok(token));
    }
});
