use solera_ipa::{Causal, Consistent};

fn sell(left: Consistent<i64>) -> bool {
    *left > 0
}

pub fn main() {
    let left = Causal::new(5);
    assert!(sell(left));
}
