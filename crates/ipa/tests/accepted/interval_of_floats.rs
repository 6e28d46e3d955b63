use solera_ipa::Interval;

pub fn main() {
    let left = Interval::new(1, 5).unwrap();
    println!("{left}");
}
