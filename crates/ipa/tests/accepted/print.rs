use solera_ipa::Quorum;

pub fn main() {
    let count = Quorum::new(5);
    println!("{}", count.endorse());
}
