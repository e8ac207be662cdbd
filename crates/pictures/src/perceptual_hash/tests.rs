//! The hash, on pictures of a few waves and blots that are made here.

use super::*;

/// A picture of this side whose brightness at a place (0 to 1 across and down) is given.
fn picture(side: u32, brightness: impl Fn(f64, f64) -> f64) -> Reduced {
    let at = |pixel: u32| (f64::from(pixel) + 0.5) / f64::from(side);
    let pixels = (0..side * side).map(|place| {
        let grey = to_byte(brightness(at(place % side), at(place / side)));
        [grey, grey, grey, 255]
    });
    Reduced::new(side, pixels.collect())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded and held to a byte's range"
)]
fn to_byte(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

/// Twelve blots whose places come from `seed`.
fn blots(seed: u32) -> impl Fn(f64, f64) -> f64 {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut random = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state >> 16) / 65_536.0
    };
    let blots = [(); 12].map(|()| (random(), random(), 0.05 + 0.1 * random(), 160.0 * random() - 80.0));
    move |x, y| {
        let heights = blots.iter().map(|(left, top, size, height)| {
            let distance = (x - left) * (x - left) + (y - top) * (y - top);
            height * (-distance / (size * size)).exp()
        });
        127.0 + heights.sum::<f64>()
    }
}

fn hash_of(picture: &Reduced) -> PerceptualHash {
    PerceptualHash::of(picture).unwrap()
}

/// How many of the 64 bits differ.
fn distance(one: PerceptualHash, other: PerceptualHash) -> u32 {
    (one.0 ^ other.0).count_ones()
}

fn is_near(copy: PerceptualHash, blocked: &[PerceptualHash]) -> bool {
    blocked.iter().any(|&hash| distance(hash, copy) <= NEAR_COPY_DISTANCE_MAX)
}

#[test]
fn size_brightness_and_contrast_do_not_change_what_a_picture_is() {
    for seed in 0..4 {
        let blocked = hashes_of_near_copies(&picture(HASH_SIDE, blots(seed)));
        for side in [20, 32, 61, 100] {
            assert!(is_near(hash_of(&picture(side, blots(seed))), &blocked), "{seed}, {side}");
        }
        for (factor, plus) in [(0.8, 0.0), (1.2, -30.0), (0.8, 25.0), (1.0, 20.0)] {
            let whole = blots(seed);
            let changed = picture(HASH_SIDE, |x, y| whole(x, y) * factor + plus);
            assert!(is_near(hash_of(&changed), &blocked), "{seed}, {factor}, {plus}");
        }
    }
}

#[test]
fn a_crop_of_up_to_five_percent_a_side_is_found() {
    let crops =
        [(0.05, 0.05, 0.9, 0.9), (0.0, 0.05, 0.95, 0.95), (0.03, 0.01, 0.95, 0.97), (0.02, 0.04, 0.93, 0.93)];
    for seed in 0..4 {
        let blocked = hashes_of_near_copies(&picture(HASH_SIDE, blots(seed)));
        assert!(blocked.len() <= 36);
        for (left, top, width, height) in crops {
            let whole = blots(seed);
            let cropped = picture(HASH_SIDE, |x, y| whole(left + x * width, top + y * height));
            assert!(is_near(hash_of(&cropped), &blocked), "{seed}, {left}, {top}");
        }
    }
}

#[test]
fn different_pictures_are_no_near_copies() {
    let hashes: Vec<_> = (0..60).map(|seed| hash_of(&picture(64, blots(seed)))).collect();
    for seed in 0..4 {
        let blocked = hashes_of_near_copies(&picture(HASH_SIDE, blots(seed)));
        for (other, &hash) in (0..).zip(&hashes) {
            assert_eq!(is_near(hash, &blocked), other == seed, "{seed}, {other}");
        }
    }
}

#[test]
fn a_picture_without_structure_has_no_hash() {
    let no_hash = |picture: &Reduced| {
        assert_eq!(PerceptualHash::of(picture), None);
        assert_eq!(hashes_of_near_copies(picture), []);
    };
    for grey in [0.0, 93.0, 255.0] {
        no_hash(&picture(HASH_SIDE, |_, _| grey));
        no_hash(&picture(1, |_, _| grey));
    }
    no_hash(&picture(HASH_SIDE, |x, _| 100.0 + 10.0 * x));
    no_hash(&picture(HASH_SIDE, |x, _| if x < 0.5 { 0.0 } else { 255.0 }));
    no_hash(&picture(HASH_SIDE, |x, y| 128.0 + 3.0 * f64::sin(x * 40.0 + y * 70.0)));
}

#[test]
fn transparent_pixels_count_as_white() {
    let shown = picture(64, blots(1));
    let pixels = shown.pixels().iter().map(|&[grey, _, _, _]| [0, 0, 0, 255 - grey]).collect();
    let veiled = Reduced::new(64, pixels);
    assert!(distance(hash_of(&veiled), hash_of(&shown)) <= 2);
}

#[test]
fn the_number_for_a_database_has_the_same_bits() {
    for bits in [0, 1, u64::MAX, 1 << 63, 0x0123_4567_89ab_cdef] {
        assert_eq!(PerceptualHash(bits).to_i64().cast_unsigned(), bits);
    }
    assert_eq!(PerceptualHash(u64::MAX).to_i64(), -1);
}
