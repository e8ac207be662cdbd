//! The rules of JPEG, on pictures that other programs made and on such made bit by bit.

use super::bits::{BitReader, JpegFault};
use super::huffman::HuffmanTable;
use super::segments::END;
use crate::{BYTES_MAX, Format, Picture, Unacceptable, inspect};

const BASELINE: &[u8] = include_bytes!("../../../../tests/pictures/baseline.jpg");
const PROGRESSIVE: &[u8] = include_bytes!("../../../../tests/pictures/progressive.jpg");
const RESTARTS: &[u8] = include_bytes!("../../../../tests/pictures/restarts_420.jpg");
const SEPARATE_SCANS: &[u8] = include_bytes!("../../../../tests/pictures/separate_scans.jpg");
const REAL: [&[u8]; 4] = [BASELINE, PROGRESSIVE, RESTARTS, SEPARATE_SCANS];

/// Codes `0` and `10`.
const TWO_CODES: [u8; 16] = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// Means: no bits (`0`) or one bit (`10`).
const MEANS: (u8, [u8; 2]) = (0x00, [0, 1]);
/// Details: end of block (`0`) or the next coefficient with one bit (`10`).
const DETAILS: (u8, [u8; 2]) = (0x10, [0x00, 0x01]);

fn segment(marker: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len() + 2).unwrap().to_be_bytes();
    [&[0xff, marker], &length[..], body].concat()
}

/// The start marker, one quantization table and a frame of components with these samplings.
fn head(frame: u8, side: u16, samplings: &[u8]) -> Vec<u8> {
    let [high, low] = side.to_be_bytes();
    let mut body = vec![8, high, low, high, low, u8::try_from(samplings.len()).unwrap()];
    for (id, &sampling) in (1..).zip(samplings) {
        body.extend([id, sampling, 0]);
    }
    [vec![0xff, 0xd8], segment(0xdb, &[&[0], &[1; 64][..]].concat()), segment(frame, &body)].concat()
}

fn table((place, symbols): (u8, [u8; 2])) -> Vec<u8> {
    segment(0xc4, &[&[place], &TWO_CODES[..], &symbols].concat())
}

/// A scan of the components `ids`, its coefficients, its bits (high and low), and its data in text.
fn scan(ids: &[u8], first: u8, last: u8, bits: u8, data: &str) -> Vec<u8> {
    let mut body = vec![u8::try_from(ids.len()).unwrap()];
    for &id in ids {
        body.extend([id, 0]);
    }
    body.extend([first, last, bits]);
    [segment(0xda, &body), packed(data)].concat()
}

/// Bits in text as entropy-coded data: padded with ones, a zero stuffed after each 0xff.
fn packed(bits: &str) -> Vec<u8> {
    let bits: Vec<u8> = bits.bytes().filter(|&bit| bit != b' ').collect();
    let bytes = bits.chunks(8).map(|chunk| {
        (0..8).fold(0, |byte, index| byte << 1 | u8::from(chunk.get(index).is_none_or(|&bit| bit == b'1')))
    });
    bytes.flat_map(|byte| if byte == 0xff { vec![0xff, 0] } else { vec![byte] }).collect()
}

fn file(parts: &[Vec<u8>]) -> Vec<u8> {
    [parts.concat(), vec![0xff, END]].concat()
}

/// An 8x8 greyscale picture of one block, whose data is `data`.
fn one_block(data: &str) -> Vec<u8> {
    file(&[head(0xc0, 8, &[0x11]), table(MEANS), table(DETAILS), scan(&[1], 0, 63, 0, data)])
}

/// The start of an 8x8 progressive greyscale picture, and then `scans`.
fn progressive(scans: &[Vec<u8>]) -> Vec<u8> {
    file(&[head(0xc2, 8, &[0x11]), table(MEANS), table(DETAILS), scans.concat()])
}

fn is_corrupt(bytes: &[u8], words: &str) -> bool {
    matches!(inspect(bytes), Err(Unacceptable::Corrupt { detail, .. }) if detail.contains(words))
}

fn is_truncated(bytes: &[u8], words: &str) -> bool {
    matches!(inspect(bytes), Err(Unacceptable::Truncated { detail, .. }) if detail.contains(words))
}

fn find(bytes: &[u8], marker: u8) -> usize {
    bytes.windows(2).position(|window| window == [0xff, marker]).unwrap()
}

/// Without the segment that begins at `place`.
fn without_segment(bytes: &[u8], place: usize) -> Vec<u8> {
    let length = usize::from(u16::from_be_bytes([bytes[place + 2], bytes[place + 3]]));
    [&bytes[..place], &bytes[place + 2 + length..]].concat()
}

#[test]
fn an_end_marker_put_after_a_cut_does_not_make_a_picture_whole() {
    for bytes in REAL {
        for length in 2..bytes.len() - 2 {
            let cut = [&bytes[..length], &[0xff, END]].concat();
            assert!(inspect(&cut).is_err(), "cut at {length} of {}", bytes.len());
        }
    }
    let half = find(RESTARTS, 0xd4);
    let cut = [&RESTARTS[..half], &[0xff, END]].concat();
    assert_eq!(inspect(&cut).unwrap_err().to_string(), "the JPEG is cut: its data ends at row 16 of 48");
}

#[test]
fn a_picture_cut_between_two_scans_is_truncated() {
    for bytes in [PROGRESSIVE, SEPARATE_SCANS] {
        let scans = bytes.windows(2).enumerate().filter(|(_, window)| *window == [0xff, 0xda]);
        for (place, _) in scans.skip(1) {
            assert!(is_truncated(&[&bytes[..place], &[0xff, END]].concat(), "colour"));
        }
    }
    assert!(is_truncated(&file(&[head(0xc0, 8, &[0x11])]), "no scan brings colour 1 of 1"));
    assert!(is_truncated(&[0xff, 0xd8, 0xff, END], "before any picture"));
}

#[test]
fn the_limits_are_judged_from_the_header_alone() {
    let sized = |width: u16, height: u16| {
        let mut bytes = head(0xc0, 1, &[0x11]);
        let place = find(&bytes, 0xc0);
        bytes[place + 5..place + 7].copy_from_slice(&height.to_be_bytes());
        bytes[place + 7..place + 9].copy_from_slice(&width.to_be_bytes());
        inspect(&file(&[bytes])).unwrap_err()
    };
    assert_eq!(sized(5, 0), Unacceptable::NoPixels { width: 5, height: 0 });
    assert_eq!(sized(640, 480), Unacceptable::NotSquare { width: 640, height: 480 });
    assert_eq!(sized(480, 640), Unacceptable::NotSquare { width: 480, height: 640 });
    assert_eq!(sized(7072, 7072), Unacceptable::TooManyPixels { side: 7072 });
    assert!(matches!(sized(7071, 7071), Unacceptable::Truncated { .. }));
}

/// 884 blocks across and down, each two bits of data.
#[test]
fn fifty_megapixels_are_read_to_the_end() {
    let of = |bits: usize| {
        let data = "0".repeat(bits);
        file(&[head(0xc0, 7071, &[0x11]), table(MEANS), table(DETAILS), scan(&[1], 0, 63, 0, &data)])
    };
    let whole = of(884 * 884 * 2);
    assert_eq!(inspect(&whole), Ok(Picture { format: Format::Jpeg, side: 7071, length: whole.len() }));
    assert!(is_truncated(&of(884 * 884 * 2 - 8), "its data ends at row 7063 of 7071"));
}

#[test]
fn other_kinds_of_jpeg_are_refused_by_name() {
    let kinds = [
        (0xc3, "lossless"),
        (0xc5, "hierarchical"),
        (0xc6, "hierarchical"),
        (0xc7, "hierarchical"),
        (0xc9, "arithmetic-coded"),
        (0xca, "arithmetic-coded"),
        (0xcb, "arithmetic-coded"),
        (0xcd, "hierarchical"),
        (0xde, "hierarchical"),
        (0xf7, "lossless"),
    ];
    let place = find(BASELINE, 0xc0);
    for (marker, kind) in kinds {
        let mut bytes = BASELINE.to_vec();
        bytes[place + 1] = marker;
        assert_eq!(inspect(&bytes), Err(Unacceptable::UnsupportedJpeg { kind }), "{marker:02x}");
    }
    let mut bytes = BASELINE.to_vec();
    bytes[place + 1] = 0xc1;
    assert!(inspect(&bytes).is_ok(), "extended sequential with 8-bit samples");
    bytes[place + 4] = 12;
    assert_eq!(inspect(&bytes), Err(Unacceptable::UnsupportedJpeg { kind: "of 12-bit samples" }));
    let two = file(&[head(0xc0, 8, &[0x11, 0x11])]);
    assert_eq!(inspect(&two), Err(Unacceptable::UnsupportedJpeg { kind: "of two colours" }));
}

#[test]
fn what_cameras_and_phones_write_is_accepted() {
    let (start, rest) = BASELINE.split_at(2);
    let with = |segments: &[u8]| inspect(&[start, segments, rest].concat());
    assert!(with(&segment(0xe1, b"Exif\0\0\xff\xd8thumbnail\xff\xd9")).is_ok());
    assert!(with(&segment(0xe2, &vec![0x5a; 60_000])).is_ok());
    assert!(with(&segment(0xfe, b"a comment")).is_ok());
    assert!(with(&[0xff, 0xfe, 0, 1]).is_ok(), "a comment that does not count its own length");
    assert!(with(&[0xff; 9]).is_ok(), "fill bytes before a marker");
    let end = BASELINE.len() - 2;
    for before_end in [&[0xff, 0xff][..], &[0xff, 0xd0], &[0; 7]] {
        let bytes = [&BASELINE[..end], before_end, &BASELINE[end..]].concat();
        assert_eq!(inspect(&bytes).map(|picture| picture.length), Ok(bytes.len()), "{before_end:?}");
    }
}

#[test]
fn bytes_that_belong_to_nothing_are_corrupt() {
    let (start, rest) = BASELINE.split_at(2);
    assert!(is_corrupt(&[start, &segment(0xfe, b""), b"junk", rest].concat(), "no marker stands at byte 6"));
    assert!(is_corrupt(&[start, &[0xff, 0], rest].concat(), "no marker stands at byte 2"));
    assert!(is_corrupt(&[start, &[0xff, 0xd8], rest].concat(), "second start marker"));
    assert!(is_corrupt(&[start, &[0xff, 0xdb, 0, 1], rest].concat(), "has no length"));
    assert!(is_corrupt(&[start, &[0xff, 0xf0], rest].concat(), "marker f0"));
    let end = BASELINE.len() - 2;
    assert!(is_corrupt(
        &[&BASELINE[..end], &[0; 8], &BASELINE[end..]].concat(),
        "8 bytes follow the last row"
    ));
}

#[test]
fn tables_must_be_there_and_make_sense() {
    for marker in [0xc4, 0xdb] {
        let bytes = without_segment(BASELINE, find(BASELINE, marker));
        assert!(is_corrupt(&bytes, "which is not defined"), "{marker:02x}");
    }
    assert!(is_corrupt(&without_segment(BASELINE, find(BASELINE, 0xc0)), "before the frame header"));
    assert!(is_corrupt(&file(&[head(0xc0, 8, &[0x11]), segment(0xc0, b"")]), "second frame header"));
    let with = |marker, body: &[u8]| file(&[vec![0xff, 0xd8], segment(marker, body)]);
    let counts = |first: u8, second: u8| [&[first, second], &[0; 14][..]].concat();
    assert!(is_corrupt(&with(0xc4, &[&[0], &counts(2, 0)[..], &[0, 1]].concat()), "more codes than"));
    assert!(is_corrupt(&with(0xc4, &[&[0], &counts(1, 2)[..], &[0, 1, 2]].concat()), "more codes than"));
    assert!(is_corrupt(&with(0xc4, &[&[0], &counts(1, 0)[..], &[16]].concat()), "symbol above 15"));
    assert!(is_corrupt(&with(0xc4, &[&[4], &counts(1, 0)[..], &[0]].concat()), "no Huffman table 04"));
    assert!(is_corrupt(&with(0xc4, &[&[0], &counts(1, 0)[..]].concat()), "longer than its segment"));
    let crowded = [&[0x10], &[0; 14][..], &[100, 200], &[0; 300]].concat();
    assert!(is_corrupt(&with(0xc4, &crowded), "300 codes; 256 are the most"));
    assert!(is_corrupt(&with(0xdb, &[0; 64]), "longer than its segment"));
    assert!(is_corrupt(&with(0xdb, &[4; 65]), "no quantization table"));
    assert!(is_corrupt(&with(0xdd, &[0; 3]), "restart interval is 3 bytes"));
}

#[test]
fn a_block_holds_64_coefficients_and_no_more() {
    assert!(inspect(&one_block("0 0")).is_ok(), "nothing but the mean");
    assert!(inspect(&one_block(&["0", &"100".repeat(63)].concat())).is_ok(), "all coefficients");
    assert!(is_truncated(&one_block(&["0", &"100".repeat(60)].concat()), "its data ends at row 0 of 8"));
    assert!(is_corrupt(&one_block(&["0", &"1".repeat(23)].concat()), "undefined code"));
    let sixteen_zeros = (0x10, [0xf0, 0xf1]);
    let block = |data| {
        file(&[head(0xc0, 8, &[0x11]), table(MEANS), table(sixteen_zeros), scan(&[1], 0, 63, 0, data)])
    };
    assert!(inspect(&block("0 0000")).is_ok(), "zeros may run past the end of the block");
    assert!(is_corrupt(&block("0 000 10"), "overflows a block"));
}

#[test]
fn restart_markers_come_where_they_are_due_and_in_order() {
    let place = find(RESTARTS, 0xd1);
    let with = |marker: &[u8]| [&RESTARTS[..place], marker, &RESTARTS[place + 2..]].concat();
    assert!(inspect(&with(&[0xff, 0xff, 0xd1])).is_ok(), "fill bytes before it");
    assert!(is_corrupt(&with(&[0xff, 0xd2]), "marker d2 stands where restart marker 1 is due at row"));
    assert!(is_corrupt(&with(&[0, 0xff, 0xd1]), "left over before a restart marker"));
    assert!(is_truncated(&with(&[0xff, END]), "its data ends at row"));
    assert!(inspect(&with(&[])).is_err());
    let unannounced = without_segment(RESTARTS, find(RESTARTS, 0xdd));
    assert!(is_corrupt(&unannounced, "marker d0 interrupts its data"));
}

#[test]
fn sequential_scans_bring_each_colour_once() {
    let whole = |ids: &[u8], data| scan(ids, 0, 63, 0, data);
    let of =
        |scans: &[Vec<u8>]| file(&[head(0xc0, 8, &[0x11; 3]), table(MEANS), table(DETAILS), scans.concat()]);
    assert!(inspect(&of(&[whole(&[1, 2, 3], "00 00 00")])).is_ok());
    assert!(inspect(&of(&[whole(&[3], "00"), whole(&[1, 2], "00 00")])).is_ok());
    assert!(is_truncated(&of(&[whole(&[1, 2], "00 00")]), "no scan brings colour 3 of 3"));
    assert!(is_corrupt(&of(&[whole(&[1], "00"), whole(&[1], "00")]), "colour 1 is sent twice"));
    assert!(is_corrupt(&of(&[whole(&[1, 1], "00 00")]), "names colour number 1"));
    assert!(is_corrupt(&of(&[whole(&[4], "00")]), "names colour number 4"));
    assert!(inspect(&of(&[scan(&[1, 2, 3], 0, 0, 0, "000000")])).is_ok(), "what old encoders write");
    assert!(is_corrupt(&of(&[scan(&[1, 2, 3], 0, 5, 0, "000000")]), "parameters of a progressive"));
    let too_many = file(&[head(0xc0, 8, &[0x33, 0x11, 0x11]), whole(&[1, 2, 3], "")]);
    assert!(is_corrupt(&too_many, "11 blocks in a unit"));
}

#[test]
fn progressive_scans_go_on_where_the_last_one_stopped() {
    let mean = || scan(&[1], 0, 0, 0x00, "0");
    let details = || scan(&[1], 1, 63, 0x00, "0");
    assert!(inspect(&progressive(&[mean(), details()])).is_ok());
    let refined = [
        scan(&[1], 0, 0, 0x01, "0"),
        scan(&[1], 0, 0, 0x10, "1"),
        scan(&[1], 1, 5, 0x00, "0"),
        scan(&[1], 6, 63, 0x01, "0"),
        scan(&[1], 6, 63, 0x10, "0"),
    ];
    assert!(inspect(&progressive(&refined)).is_ok());
    assert!(is_truncated(&progressive(&refined[..4]), "that complete colour 1 are missing (coefficient 6)"));
    assert!(is_truncated(&progressive(&[mean()]), "(coefficient 1)"));
    assert!(is_corrupt(&progressive(&[details(), mean()]), "details of colour 1 come before its means"));
    assert!(is_corrupt(&progressive(&[mean(), scan(&[1], 1, 63, 0x10, "0")]), "out of order"));
    let skipped = [mean(), scan(&[1], 1, 63, 0x02, "0"), scan(&[1], 1, 63, 0x10, "0")];
    assert!(is_corrupt(&progressive(&skipped), "coefficient 1 of colour 1 is refined out of order (bit 0)"));
    let run_of_five = table((0x10, [0x00, 0x51]));
    let past_the_band = [mean(), run_of_five, scan(&[1], 1, 5, 0x00, "10 1")];
    assert!(is_corrupt(&progressive(&past_the_band), "overflows a block"));
    for (first, last, bits) in [(0, 5, 0), (5, 4, 0), (1, 64, 0), (1, 63, 0x20), (1, 63, 0x0e)] {
        assert!(is_corrupt(
            &progressive(&[mean(), scan(&[1], first, last, bits, "0")]),
            "brings coefficients"
        ));
    }
}

/// A refinement has a correction bit for each coefficient that is not zero already. Only the scans
/// before tell how many of those there are.
#[test]
fn refinement_scans_are_read_with_the_coefficients_so_far() {
    // Coefficients 1 and 2 get a value, then the block ends.
    let before = [scan(&[1], 0, 0, 0, "0"), scan(&[1], 1, 63, 0x01, "101 101 0")];
    let of = |data: &str| progressive(&[before.concat(), scan(&[1], 1, 63, 0x10, data)]);
    assert!(inspect(&of("0 11")).is_ok(), "two corrections");
    // A new coefficient and its sign; the first has the two old ones on its way.
    let all_new = ["10 1 11", &"10 1".repeat(60)].concat();
    assert!(inspect(&of(&all_new)).is_ok(), "61 new coefficients after the two old ones");
    assert!(is_truncated(&of(&all_new[..all_new.len() - 9]), "its data ends at row 0 of 8"));
    let two_bits = table((0x10, [0x00, 0x02]));
    let wide = [before.concat(), two_bits, scan(&[1], 1, 63, 0x10, "10 1 11 0")];
    assert!(is_corrupt(&progressive(&wide), "refinement of several bits"));
    let far = table((0x10, [0xf0, 0xe1]));
    let over = [before.concat(), far, scan(&[1], 1, 63, 0x10, "0 11 0 0 10 1 1111")];
    assert!(is_corrupt(&progressive(&over), "overflows a block"));
}

/// 16x16 pixels are four blocks; a run of empty ones reaches over all of them, but not over a
/// restart marker.
#[test]
fn runs_of_empty_blocks_end_at_a_restart() {
    let runs = table((0x10, [0x20, 0x00]));
    let of = |restart: &[u8], data: &[u8]| {
        let header = segment(0xda, &[1, 1, 0, 1, 63, 0]);
        file(&[
            head(0xc2, 16, &[0x11]),
            table(MEANS),
            runs.clone(),
            scan(&[1], 0, 0, 0, "0000"),
            restart.to_vec(),
            header,
            data.to_vec(),
        ])
    };
    assert!(inspect(&of(&[], &packed("0 00"))).is_ok(), "a run of four");
    let every_two = segment(0xdd, &[0, 2]);
    let restarted = [&packed("0 00")[..], &[0xff, 0xd0], &packed("10 10")].concat();
    assert!(inspect(&of(&every_two, &restarted)).is_ok());
    let nothing_after = [&packed("0 00")[..], &[0xff, 0xd0]].concat();
    assert!(is_truncated(&of(&every_two, &nothing_after), "its data ends at row 8 of 16"));
}

#[test]
fn a_flood_of_scans_is_refused() {
    let mean = || scan(&[1], 0, 0, 0, "0");
    let of = |details: usize| progressive(&[mean(), vec![scan(&[1], 1, 63, 0, "0"); details].concat()]);
    assert!(inspect(&of(99)).is_ok());
    assert_eq!(inspect(&of(100)), Err(Unacceptable::TooManyScans { scans_max: 100 }));
    assert!(of(100).len() < BYTES_MAX);
}

#[test]
fn the_bits_of_a_scan_are_counted_exactly() {
    let mut reader = BitReader::new(&[0xff, 0xff, 0x00, 0xa5, 0xff, 0xff, 0xd9], 0);
    assert_eq!(reader.number(12), Ok(0xffa), "0xff may be repeated before its stuffed zero");
    assert_eq!(reader.number(4), Ok(5));
    assert_eq!(reader.number(0), Ok(0));
    assert_eq!(reader.number(1), Err(JpegFault::OutOfBits));
    assert_eq!((reader.bytes_left(), reader.next_marker()), (0, Some(0xd9)));
    let long: Vec<u8> = (0..32).collect();
    for first in 0..16 {
        let mut reader = BitReader::new(&long, 0);
        assert_eq!(reader.number(first).map(|_| ()), Ok(()));
        assert_eq!(reader.skip(63), Ok(()));
        assert_eq!(reader.skip(63), Ok(()));
        assert_eq!(reader.bytes_left(), (256 - 126 - first as usize) / 8, "after {first} bits");
    }
}

/// Every 16-bit number is compared with the plain way of the standard. That takes a bit, looks
/// whether there is such a code of that length, and takes the next.
#[test]
fn codes_of_every_length_are_found() {
    let counts = [0, 1, 2, 1, 1, 1, 2, 1, 1, 2, 1, 3, 1, 1, 5, 9];
    let total: u8 = counts.iter().sum();
    let symbols: Vec<u8> = (100..100 + total).collect();
    let table = HuffmanTable::new(&counts, &symbols).unwrap();
    for next in 0..=u16::MAX {
        let (mut first, mut place, mut expected) = (0_u32, 0_u32, None);
        for (length, &count) in (1_u32..).zip(&counts) {
            let code = u32::from(next) >> (16 - length);
            let count = u32::from(count);
            if expected.is_none() && code >= first && code < first + count {
                expected = Some((symbols[(place + code - first) as usize], length));
            }
            place += count;
            first = (first + count) << 1;
        }
        assert_eq!(table.find(next), expected, "{next:016b}");
    }
}
