use solera_ipa::Interval;

pub fn main() {
    let left = Interval::new(1.0, 5.0).unwrap();
    println!("{left}");
}
