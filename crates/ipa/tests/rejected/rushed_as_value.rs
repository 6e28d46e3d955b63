use solera_ipa::{Causal, Por, Rushed, level};

pub fn main() {
    let count = Rushed::from(Por::new(5));
    let weakest: Result<Causal<i64>, _> = count.at_least::<level::Eventual>();
    assert_eq!(*weakest.unwrap().endorse(), 5);
}
