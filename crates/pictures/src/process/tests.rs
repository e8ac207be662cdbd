//! Tests of the removal of metadata: what leaves a picture, and what stays.

use super::*;
use crate::Format;
use crate::exif::Orientation;
use crate::tests::GOOD;

const BASELINE: &[u8] = include_bytes!("../../../../tests/pictures/baseline.jpg");
const PROGRESSIVE: &[u8] = include_bytes!("../../../../tests/pictures/progressive.jpg");
const TRUECOLOUR: &[u8] = include_bytes!("../../../../tests/pictures/truecolour.png");
const PALETTE: &[u8] = include_bytes!("../../../../tests/pictures/palette.png");
/// Stands in everything that must be gone.
const SECRET: &[u8] = b"48.2082 N";

fn stripped(bytes: &[u8]) -> Vec<u8> {
    process(bytes, 1).unwrap().contents
}

fn holds(bytes: &[u8], words: &[u8]) -> bool {
    bytes.windows(words.len()).any(|window| window == words)
}

fn segment(marker: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let length = u16::try_from(body.len() + 2).unwrap().to_be_bytes();
    [&[0xff, marker], &length[..], &body].concat()
}

/// A camera's EXIF: an orientation among other things.
fn exif(orientation: u16) -> Vec<u8> {
    let head = b"II*\0\x08\0\0\0\x02\0\x0f\x01\x02\0\x09\0\0\0\x26\0\0\0\x12\x01\x03\0\x01\0\0\0";
    [&head[..], &orientation.to_le_bytes(), &[0; 6], SECRET].concat()
}

/// What a camera and a few programs leave in a JPEG, in an order of their own.
fn metadata() -> Vec<u8> {
    [
        segment(0xe1, &[b"Exif\0\0", &exif(6)]),
        segment(0xe0, &[b"JFIF\0\x01\x02\x01\0\x48\0\x48\x01\x03", SECRET]),
        segment(0xe0, &[b"JFXX\0\x10", SECRET]),
        segment(0xee, &[b"Adobe\0\x64\0\0\0\0\x01", SECRET]),
        segment(0xe1, &[b"http://ns.adobe.com/xap/1.0/\0", SECRET]),
        segment(0xe2, &[b"MPF\0", SECRET]),
        segment(0xe2, &[b"ICC_PROFILE\0\x01\x02one"]),
        segment(0xe2, &[b"ICC_PROFILE\0\x02\x02two"]),
        segment(0xed, &[b"Photoshop 3.0\0", SECRET]),
        segment(0xfe, &[SECRET]),
        segment(0xdc, &[SECRET]),
        vec![0xff, 0x01, 0xff, 0xff],
    ]
    .concat()
}

#[test]
fn a_stripped_picture_is_accepted_shows_the_same_and_stays_as_it_is() {
    for (bytes, side, format) in GOOD {
        let once = stripped(bytes);
        let picture = inspect(&once).unwrap();
        assert_eq!(picture, Picture { format, side, length: once.len() });
        assert!(once.len() <= bytes.len());
        assert_eq!(stripped(&once), once);
        assert_eq!(process(&once, side).unwrap().reduced, process(bytes, side).unwrap().reduced);
    }
}

#[test]
fn what_follows_the_picture_is_gone() {
    for (bytes, _, _) in GOOD {
        assert_eq!(stripped(&[bytes, SECRET].concat()), stripped(bytes));
    }
}

#[test]
fn a_jpeg_keeps_its_density_orientation_profile_and_adobe_marker_alone() {
    let bytes = [&BASELINE[..2], &metadata(), &BASELINE[2..]].concat();
    let kept = [
        vec![0xff, 0xd8],
        segment(0xe0, &[b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"]),
        segment(0xe1, &[b"Exif\0\0", &Orientation::parse(&exif(6)).unwrap().to_tiff()]),
        segment(0xe2, &[b"ICC_PROFILE\0\x01\x02one"]),
        segment(0xe2, &[b"ICC_PROFILE\0\x02\x02two"]),
        segment(0xee, &[b"Adobe\0\x64\0\0\0\0\x01"]),
    ]
    .concat();
    let plain = stripped(BASELINE);
    let data = plain.windows(2).position(|window| window == [0xff, 0xdb]).unwrap();
    // The picture's own JFIF comes last, so it holds.
    assert_eq!(stripped(&bytes), [&kept, &plain[data..]].concat());
    assert!(!holds(&stripped(&bytes), SECRET));
    assert_eq!(stripped(&stripped(&bytes)), stripped(&bytes));
}

#[test]
fn segments_between_and_behind_scans_go_too() {
    let scans = PROGRESSIVE.windows(2).enumerate().filter(|(_, window)| *window == [0xff, 0xda]);
    let places: Vec<usize> = scans.map(|(place, _)| place).collect();
    assert!(places.len() > 2);
    for place in places.into_iter().skip(1).chain([PROGRESSIVE.len() - 2]) {
        let bytes = [&PROGRESSIVE[..place], &metadata(), &PROGRESSIVE[place..]].concat();
        assert_eq!(stripped(&bytes), stripped(PROGRESSIVE), "{place}");
    }
}

#[test]
fn the_entropy_coded_data_of_a_jpeg_stays_byte_for_byte() {
    for (bytes, _, format) in GOOD {
        if format == Format::Jpeg {
            let scan = |bytes: &[u8]| bytes.windows(2).position(|window| window == [0xff, 0xda]).unwrap();
            let plain = stripped(bytes);
            assert_eq!(plain[scan(&plain)..], bytes[scan(bytes)..]);
        }
    }
}

#[test]
fn exif_that_is_upright_or_damaged_leaves_nothing() {
    let with = |segment: &[u8]| stripped(&[&BASELINE[..2], segment, &BASELINE[2..]].concat());
    for exif in [exif(1), exif(0), exif(9), exif(6)[..25].to_vec(), b"II+\0".to_vec()] {
        assert_eq!(with(&segment(0xe1, &[b"Exif\0\0", &exif])), stripped(BASELINE));
    }
    for orientation in 2..=8 {
        assert!(holds(&with(&segment(0xe1, &[b"Exif\0\0", &exif(orientation)])), b"Exif\0\0MM"));
    }
}

#[test]
fn a_profile_of_which_parts_are_missing_is_gone() {
    let parts = |numbers: &[(u8, u8)]| {
        let parts =
            numbers.iter().map(|&(number, count)| segment(0xe2, &[b"ICC_PROFILE\0", &[number, count]]));
        let bytes = [&BASELINE[..2], &parts.collect::<Vec<_>>().concat(), &BASELINE[2..]].concat();
        holds(&stripped(&bytes), b"ICC_PROFILE")
    };
    assert!(parts(&[(1, 1)]));
    assert!(parts(&[(2, 2), (1, 2)]), "any order");
    for damaged in [&[(1, 2)][..], &[(1, 2), (1, 2)], &[(0, 1)], &[(1, 1), (2, 2)], &[(2, 1)], &[(1, 0)]] {
        assert!(!parts(damaged), "{damaged:?}");
    }
}

fn chunk(kind: &[u8], data: &[u8]) -> Vec<u8> {
    let body = [kind, data].concat();
    let length = u32::try_from(data.len()).unwrap().to_be_bytes();
    [&length[..], &body, &crc32fast::hash(&body).to_be_bytes()].concat()
}

/// Puts chunks behind the header (which is 33 bytes long with the signature) and before the end
/// (12 bytes).
fn with_chunks(bytes: &[u8], early: &[u8], late: &[u8]) -> Vec<u8> {
    let end = bytes.len() - 12;
    [&bytes[..33], early, &bytes[33..end], late, &bytes[end..]].concat()
}

/// The kinds of a PNG's chunks.
fn kinds(bytes: &[u8]) -> Vec<String> {
    let (mut kinds, mut position) = (Vec::new(), 8);
    while let Some(length) = bytes.get(position..).and_then(<[u8]>::first_chunk::<4>) {
        kinds.push(String::from_utf8(bytes[position + 4..position + 8].to_vec()).unwrap());
        position += 12 + u32::from_be_bytes(*length) as usize;
    }
    kinds
}

#[test]
fn a_png_keeps_what_says_how_its_colours_are_meant() {
    let profile = iccp(&icc_profile(200));
    let colour: [(&[u8], &[u8]); 9] = [
        (b"cHRM", &[1; 32]),
        (b"cICP", &[1, 13, 0, 1]),
        (b"gAMA", &[0, 0, 0xb1, 0x8f]),
        (b"iCCP", &profile),
        (b"sBIT", &[8, 8, 8]),
        (b"sRGB", &[0]),
        (b"bKGD", &[0, 1, 0, 2, 0, 3]),
        (b"pHYs", &[0, 0, 0, 1, 0, 0, 0, 2, 1]),
        (b"tRNS", &[0, 1, 0, 2, 0, 3]),
    ];
    let chunks = colour.iter().map(|(kind, data)| chunk(kind, data)).collect::<Vec<_>>().concat();
    let bytes = with_chunks(&stripped(TRUECOLOUR), &chunks, &[]);
    assert_eq!(stripped(&bytes), bytes);
    assert_eq!(stripped(&with_chunks(TRUECOLOUR, &[chunks.as_slice(), &chunks].concat(), &chunks)), bytes);
    assert_eq!(stripped(&with_chunks(TRUECOLOUR, &[], &chunks)), stripped(TRUECOLOUR), "too late to count");
    for (kind, data) in colour.iter().filter(|(kind, _)| *kind != b"iCCP") {
        let overlong = chunk(kind, &[data, &[0; 300][..]].concat());
        assert_eq!(stripped(&with_chunks(TRUECOLOUR, &overlong, &[])), stripped(TRUECOLOUR));
    }
}

/// An ICC profile of this length: its header, and zeros.
fn icc_profile(length: u32) -> Vec<u8> {
    let mut profile = vec![0; length as usize];
    profile[..4].copy_from_slice(&length.to_be_bytes());
    profile[36..40].copy_from_slice(b"acsp");
    profile
}

/// The data of an `iCCP` chunk with this profile.
fn iccp(profile: &[u8]) -> Vec<u8> {
    [&b"a\0\0"[..], &fdeflate::compress_to_vec(profile)].concat()
}

/// An `iCCP` chunk can hold anything: it is kept where it inflates to a profile of at most 4 MiB.
#[test]
fn a_png_keeps_a_colour_profile_that_is_one() {
    const LONGEST: u32 = 4 << 20;
    let whole = icc_profile(200);
    let mut no_signature = whole.clone();
    no_signature[36] = b'b';
    let (long, longest) = (icc_profile(LONGEST + 1), icc_profile(LONGEST));
    for (data, is_kept) in [
        (iccp(&whole), true),
        (iccp(&longest), true),
        (iccp(&long), false),
        (iccp(&no_signature), false),
        (iccp(&[&whole[..], SECRET].concat()), false),
        (iccp(&whole[..127]), false),
        (b"a\0\0not even deflate".to_vec(), false),
        (iccp(&whole)[1..].to_vec(), false),
        ([&[b'n'; 80][..], &iccp(&whole)[1..]].concat(), false),
        (b"a".to_vec(), false),
        (b"a\0".to_vec(), false),
    ] {
        let bytes = with_chunks(TRUECOLOUR, &chunk(b"iCCP", &data), &[]);
        assert_eq!(kinds(&stripped(&bytes)).contains(&"iCCP".to_owned()), is_kept, "{} bytes", data.len());
    }
    // The first one counts. Many bombs cost no more than one.
    let many = [chunk(b"iCCP", &iccp(&long)), chunk(b"iCCP", &iccp(&whole))].concat();
    assert_eq!(stripped(&with_chunks(TRUECOLOUR, &many, &[])), stripped(TRUECOLOUR));
}

#[test]
fn a_png_loses_all_else() {
    let mut gone = Vec::new();
    for kind in
        [b"tEXt", b"zTXt", b"iTXt", b"tIME", b"acTL", b"fcTL", b"fdAT", b"sPLT", b"hIST", b"prVt", b"dSIG"]
    {
        gone.extend(chunk(kind, SECRET));
    }
    let mut damaged = chunk(b"gAMA", &[0, 0, 0xb1, 0x8f]);
    damaged[10] ^= 1;
    gone.extend(damaged);
    for bytes in [TRUECOLOUR, PALETTE] {
        assert_eq!(stripped(&with_chunks(bytes, &gone, &gone)), stripped(bytes));
    }
    let suggested = with_chunks(TRUECOLOUR, &chunk(b"PLTE", SECRET), &[]);
    assert_eq!(stripped(&suggested), stripped(TRUECOLOUR));
    let end = TRUECOLOUR.len() - 12;
    assert_eq!(stripped(&[&TRUECOLOUR[..end], &chunk(b"IEND", SECRET)].concat()), stripped(TRUECOLOUR));
    assert_eq!(kinds(&stripped(PALETTE)), ["IHDR", "PLTE", "IDAT", "IEND"]);
}

#[test]
fn the_orientation_of_a_png_survives_alone() {
    let turned = chunk(b"eXIf", &exif(6));
    let upright = chunk(b"eXIf", &exif(1));
    for bytes in [
        with_chunks(TRUECOLOUR, &turned, &[]),
        // The first one counts.
        with_chunks(TRUECOLOUR, &[turned.clone(), upright.clone()].concat(), &[]),
        with_chunks(TRUECOLOUR, &turned, &upright),
    ] {
        let kept = stripped(&bytes);
        assert_eq!(kinds(&kept), ["IHDR", "eXIf", "IDAT", "IEND"]);
        assert!(!holds(&kept, SECRET));
        assert_eq!(stripped(&kept), kept);
    }
    let mut damaged = turned.clone();
    damaged[12] ^= 1;
    for none in [damaged, upright, chunk(b"eXIf", b"MM")] {
        assert_eq!(kinds(&stripped(&with_chunks(TRUECOLOUR, &none, &[]))), ["IHDR", "IDAT", "IEND"]);
    }
}

/// Rule (contract 5.4.14): what browsers ignore where it stands is not made effective by the copy.
#[test]
fn a_chunk_that_stands_too_late_is_gone_and_turns_nothing() {
    let bytes = with_chunks(TRUECOLOUR, &[], &chunk(b"eXIf", &exif(6)));
    assert_eq!(stripped(&bytes), stripped(TRUECOLOUR));
    assert_eq!(process(&bytes, 8).unwrap().reduced, process(TRUECOLOUR, 8).unwrap().reduced);
    let gamma = chunk(b"gAMA", &[0, 0, 0xb1, 0x8f]);
    let (chromaticity, bits) = (chunk(b"cHRM", &[0; 32]), chunk(b"sBIT", &[1, 1, 1]));
    let colours =
        [&gamma[..], &chromaticity, &chunk(b"sRGB", &[0]), &chunk(b"cICP", &[1; 4]), &bits].concat();
    let density = chunk(b"pHYs", &[1; 9]);
    assert_eq!(
        stripped(&with_chunks(TRUECOLOUR, &[], &[&colours[..], &density].concat())),
        stripped(TRUECOLOUR)
    );
    // Behind a palette that is not kept, colours would begin to count.
    let suggested = chunk(b"PLTE", &[0; 3]);
    let behind = with_chunks(TRUECOLOUR, &[&suggested[..], &colours].concat(), &[]);
    assert_eq!(stripped(&behind), stripped(TRUECOLOUR));
    let before = with_chunks(TRUECOLOUR, &[&colours[..], &suggested].concat(), &[]);
    assert_eq!(kinds(&stripped(&before)), ["IHDR", "gAMA", "cHRM", "sRGB", "cICP", "sBIT", "IDAT", "IEND"]);
    // What may stand behind a palette stays.
    let density = with_chunks(TRUECOLOUR, &[suggested, density].concat(), &[]);
    assert_eq!(kinds(&stripped(&density)), ["IHDR", "pHYs", "IDAT", "IEND"]);
}
