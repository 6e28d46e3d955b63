#![deny(unused_must_use)]

use solera_ipa::{Answer, Causal, Consistent, Interval, Rushed};

pub fn main() {
    let _ = Consistent::new(1);
    let _ = Causal::new(1).map(|count| count + 1);
    let _ = Rushed::from(Causal::new(1));
    let _ = Interval::exact(1);
    let _ = Interval::exact(1).at_least(0);
    let _ = Interval::exact(1).checked_add(1);
    let _ = !Answer::Yes;
}
