#![deny(unused_must_use)]

use solera_ipa::{Answer, Causal, Consistent, Interval, Rushed};

pub fn main() {
    Consistent::new(1);
    Causal::new(1).map(|count| count + 1);
    Rushed::from(Causal::new(1));
    Interval::exact(1);
    Interval::exact(1).at_least(0);
    Interval::exact(1).checked_add(1);
    !Answer::Yes;
}
