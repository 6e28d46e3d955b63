use solera_ipa::level::{LevelMarker, Linearizable};
use solera_levels::Level;

#[derive(Clone, Copy)]
enum Mine {}

impl Mine {
    const LEVEL: Level = Level::Linearizable;
}

pub fn main() {
    assert_eq!(Mine::LEVEL, Level::Linearizable);
    assert_eq!(Linearizable::LEVEL, Level::Linearizable);
}
