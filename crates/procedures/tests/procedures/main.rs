//! Procedures on registers.

mod damage;
mod encoding;
mod keys;
mod lists;
mod modules;
mod order;
mod registers;
mod space;
