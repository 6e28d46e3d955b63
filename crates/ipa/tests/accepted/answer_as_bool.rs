use solera_ipa::{Answer, Interval};

pub fn main() {
    let left = Interval::new(1, 5).unwrap();
    let answer: Answer = left.at_least(1);
    if matches!(answer, Answer::Yes) {
        println!("sold");
    }
}
