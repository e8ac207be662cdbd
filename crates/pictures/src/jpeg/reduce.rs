//! A small picture of a JPEG, from its low frequencies.

use super::super::Unacceptable;
use super::super::boxes::Boxes;
use super::super::exif::Orientation;
use super::Decoder;
use super::coefficients::{BLOCK_SIDE, Coefficients, kept};
use super::colours::ColourModel;
use super::segments::Looks;

/// Reads `bytes` as a picture of `side` pixels, `small` (at most `side`) across and down. Gives
/// its pixels and how they are to be turned.
pub(in super::super) fn reduce(
    bytes: &[u8],
    side: u32,
    small: u32,
) -> Result<(Vec<[u8; 4]>, Orientation), Unacceptable> {
    let scale = kept(side, small, 1, 1);
    let looks = Looks::read(bytes);
    let mut decoder = Decoder::new(bytes, Coefficients::new(small));
    decoder.read_to_end()?;
    let frame = decoder.whole_frame()?;
    let model = ColourModel::of(frame, &looks);
    let planes = decoder.sink.samples();
    let rows = (side * scale).div_ceil(BLOCK_SIDE) as usize;
    let mut boxes = Boxes::new(side, BLOCK_SIDE / scale, small);
    let (across, down) = (scale * frame.horizontal_max, scale * frame.vertical_max);
    let (across, down) = (across as usize, down as usize);
    for y in 0..rows {
        let mut samples: [_; 4] = std::array::from_fn(|_| &[][..]);
        let mut steps = [0; 4];
        for (index, (plane, component)) in planes.iter().zip(&frame.components).enumerate() {
            let row = y * plane.high * component.vertical as usize / down;
            samples[index] = &plane.bytes[row * plane.width..][..plane.width];
            steps[index] = plane.wide * component.horizontal as usize;
        }
        let pixels = (0..rows).map(|x| {
            // A component of fewer samples gives each of them to several pixels.
            let at = |index: usize| samples[index].get(x * steps[index] / across).copied().unwrap_or(0);
            model.to_rgba([at(0), at(1), at(2), at(3)])
        });
        boxes.add_row(y, 0, 1, pixels);
    }
    Ok((boxes.averages(), looks.orientation))
}
