//! Decodes a JPEG to a small picture, from its low frequencies.

use super::coefficients::{BLOCK_SIDE, kept};
use super::colours::ColourModel;
use super::decoder::{Decoder, Purpose};
use super::segments::AppSegments;
use crate::boxes::Boxes;
use crate::process::Decoded;
use crate::verdict::{Format, Picture, Unacceptable};

/// Decodes `bytes`, which begin with [`super::FIRST_BYTES`]. The small picture is at most `side_max`
/// pixels wide.
pub(crate) fn decode(bytes: &[u8], side_max: u32, purpose: Purpose) -> Result<Decoded, Unacceptable> {
    let mut decoder = Decoder::new(bytes, side_max.max(1), purpose);
    decoder.read_to_end()?;
    let mut frame = decoder.take_frame()?;
    // They may be most of the memory.
    frame.components.iter_mut().for_each(|component| component.nonzero = Vec::new());
    let side = frame.side;
    let small = side.min(side_max.max(1));
    let segments = AppSegments::read(bytes);
    let model = ColourModel::of(&frame, &segments);
    let planes = decoder.coefficients.samples();
    let scale = kept(side, small, 1, 1);
    let rows = (side * scale).div_ceil(BLOCK_SIDE) as usize;
    let mut boxes = Boxes::new(side, BLOCK_SIDE / scale, small);
    let (across, down) = (scale * frame.horizontal_max, scale * frame.vertical_max);
    let (across, down) = (across as usize, down as usize);
    // A component of fewer samples gives each of them to several pixels.
    let columns: Vec<Vec<usize>> = (planes.iter().zip(&frame.components))
        .map(|(plane, component)| {
            (0..rows).map(|x| x * plane.wide * component.horizontal as usize / across).collect()
        })
        .collect();
    for y in 0..rows {
        let mut samples: [_; 4] = std::array::from_fn(|_| &[][..]);
        for (index, (plane, component)) in planes.iter().zip(&frame.components).enumerate() {
            let row = y * plane.high * component.vertical as usize / down;
            samples[index] = &plane.bytes[row * plane.width..][..plane.width];
        }
        let pixels = (0..rows).map(|x| {
            let mut pixel = [0; 4];
            for ((value, samples), columns) in pixel.iter_mut().zip(samples).zip(&columns) {
                *value = samples[columns[x]];
            }
            model.to_rgba(pixel)
        });
        boxes.add_row(y, 0, 1, pixels);
    }
    Ok(Decoded {
        picture: Picture { format: Format::Jpeg, side, length: decoder.position },
        small,
        pixels: boxes.averages(),
        orientation: segments.orientation,
    })
}
