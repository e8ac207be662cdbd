//! The judge of pictures: never a panic; what it accepts keeps to the contract, and is accepted
//! again without what follows it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pictures::{PIXELS_MAX, inspect};

fuzz_target!(|data: &[u8]| {
    let Ok(picture) = inspect(data) else { return };
    assert!(picture.length <= data.len());
    let side = u64::from(picture.side);
    assert!(side > 0 && side * side <= PIXELS_MAX);
    assert_eq!(inspect(&data[..picture.length]), Ok(picture));
});
