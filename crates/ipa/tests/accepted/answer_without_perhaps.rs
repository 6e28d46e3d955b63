use solera_ipa::{Answer, Interval};

pub fn main() {
    match Interval::new(1, 5).unwrap().at_least(1) {
        Answer::Yes => println!("sold"),
        Answer::No | Answer::Perhaps => println!("sold out"),
    }
}
