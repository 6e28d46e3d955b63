use solera_ipa::Interval;

fn main() {
    let left = Interval::new(1, 5).unwrap();
    println!("{left}");
}
