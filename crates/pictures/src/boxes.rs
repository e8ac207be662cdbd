//! Box filter: makes a picture smaller by averaging, while its rows come in any order.

/// The place of a sample of the big picture in a row or column of the small one: in one box, or in
/// two neighbours.
#[derive(Clone, Copy)]
struct BoxSpan {
    first: usize,
    /// How much of it lies in the box `first`.
    in_first: u64,
    /// How much of it lies in the next box.
    in_next: u64,
}

/// Sums of the pixels in each box of the small picture.
pub(crate) struct Boxes {
    /// For each row of samples. The columns are the same, because pictures are square.
    spans: Vec<BoxSpan>,
    /// Length of a sample that is not cut at the end.
    step: u64,
    side: usize,
    /// Red, green and blue times alpha, and alpha, times the area of a sample. A sum is at most
    /// 255 * 255 * 7071 * 7071.
    sums: Vec<[u64; 4]>,
    /// Sums of the current row of samples.
    row: Vec<[u64; 4]>,
}

impl Boxes {
    /// For a picture of `source` pixels across and down, of which each sample covers `step` (fewer
    /// at the end). The small picture is `side` across and down. A box must not be smaller than a
    /// sample. Takes 32 bytes for each box.
    pub(crate) fn new(source: u32, step: u32, side: u32) -> Self {
        let (source, step, side) = (u64::from(source), u64::from(step), u64::from(side));
        debug_assert!(side * step <= source, "a sample would cover three boxes");
        let spans = (0..source.div_ceil(step)).map(|sample| {
            let (start, end) = (sample * step * side, ((sample + 1) * step).min(source) * side);
            let first = start / source;
            let in_first = end.min((first + 1) * source) - start;
            let first = usize::try_from(first).expect("a box has a number of 32 bits");
            BoxSpan { first, in_first, in_next: end - start - in_first }
        });
        let spans = spans.collect();
        let step = step * side;
        let side = usize::try_from(side).expect("it came as a number of 32 bits");
        Self { spans, step, side, sums: vec![[0; 4]; side * side], row: vec![[0; 4]; side] }
    }

    /// Adds samples of row `y`: the one at column `x` and every `step` after it, as red, green, blue
    /// and alpha.
    pub(crate) fn add_row(
        &mut self,
        y: usize,
        x: usize,
        step: usize,
        samples: impl Iterator<Item = [u8; 4]>,
    ) {
        self.row.fill([0; 4]);
        // Whole samples of one box are summed up in 32 bits: at most 7071 * 255 * 255.
        let (mut whole, mut whole_in) = ([0_u32; 4], 0);
        for (span, sample) in self.spans.iter().skip(x).step_by(step).zip(samples) {
            let [red, green, blue, alpha] = sample.map(u32::from);
            let sample = [red * alpha, green * alpha, blue * alpha, alpha];
            if span.in_first == self.step {
                if span.first != whole_in {
                    add(&mut self.row[whole_in], whole, self.step);
                    (whole, whole_in) = ([0; 4], span.first);
                }
                whole.iter_mut().zip(sample).for_each(|(sum, value)| *sum += value);
            } else {
                add(&mut self.row[span.first], sample, span.in_first);
                if span.in_next > 0 {
                    add(&mut self.row[span.first + 1], sample, span.in_next);
                }
            }
        }
        add(&mut self.row[whole_in], whole, self.step);
        let span = self.spans[y];
        for (part, weight) in [(span.first, span.in_first), (span.first + 1, span.in_next)] {
            if weight > 0 {
                let boxes = &mut self.sums[part * self.side..][..self.side];
                boxes.iter_mut().zip(&self.row).for_each(|(sum, &sample)| add(sum, sample, weight));
            }
        }
    }

    /// The small picture, row by row. Where all pixels are transparent, it is black.
    pub(crate) fn averages(self) -> Vec<[u8; 4]> {
        let area = self.spans.iter().map(|span| span.in_first + span.in_next).sum::<u64>();
        let side = u64::try_from(self.side).expect("a length fits in 64 bits");
        let area = (area / side) * (area / side);
        let averages = self.sums.into_iter().map(|[red, green, blue, alpha]| {
            let colour = |sum| rounded(sum, alpha.max(1));
            [colour(red), colour(green), colour(blue), rounded(alpha, area)]
        });
        averages.collect()
    }
}

fn add<T: Into<u64>>(sum: &mut [u64; 4], sample: [T; 4], weight: u64) {
    sum.iter_mut().zip(sample).for_each(|(sum, value)| *sum += value.into() * weight);
}

fn rounded(sum: u64, weight: u64) -> u8 {
    u8::try_from((sum + weight / 2) / weight).expect("an average of bytes is a byte")
}
