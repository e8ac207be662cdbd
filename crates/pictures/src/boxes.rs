//! Makes a picture smaller by averaging, while its pixels go by in any order.

/// The part of a row or column that one sample of the big picture covers: it lies in one box of
/// the small one, or in two that are neighbours.
#[derive(Clone, Copy)]
struct Span {
    first: usize,
    /// How much of it lies in the box `first`.
    in_first: u64,
    /// How much lies in the box after that.
    in_next: u64,
}

/// Sums of the pixels in each box of the small picture.
pub(super) struct Boxes {
    /// For each row and, because pictures are square, for each column of samples.
    spans: Vec<Span>,
    side: usize,
    /// Red, green and blue times alpha, and alpha, times the area that a sample covers. A sum is at
    /// most 255 * 255 * 7071 * 7071.
    sums: Vec<[u64; 4]>,
    /// The row of samples that is being added.
    row: Vec<[u64; 4]>,
}

impl Boxes {
    /// For a picture of `source` pixels across and down, of which each sample covers `step` (fewer
    /// at the end), to be made `side` across and down; a box must not be smaller than a sample.
    /// Takes 32 bytes for each box.
    pub(super) fn new(source: u32, step: u32, side: u32) -> Self {
        let (source, step, side) = (u64::from(source), u64::from(step), u64::from(side));
        debug_assert!(side * step <= source, "a sample would cover three boxes");
        let spans = (0..source.div_ceil(step)).map(|sample| {
            let (start, end) = (sample * step * side, ((sample + 1) * step).min(source) * side);
            let first = start / source;
            let in_first = end.min((first + 1) * source) - start;
            let first = usize::try_from(first).expect("a box has a number of 32 bits");
            Span { first, in_first, in_next: end - start - in_first }
        });
        let spans = spans.collect();
        let side = usize::try_from(side).expect("it came as a number of 32 bits");
        Self { spans, side, sums: vec![[0; 4]; side * side], row: vec![[0; 4]; side] }
    }

    /// Adds the samples of row `y` that stand at column `x` and every `step` after it, as red,
    /// green, blue and alpha.
    pub(super) fn add_row(
        &mut self,
        y: usize,
        x: usize,
        step: usize,
        samples: impl Iterator<Item = [u8; 4]>,
    ) {
        self.row.fill([0; 4]);
        for (span, [red, green, blue, alpha]) in self.spans.iter().skip(x).step_by(step).zip(samples) {
            let alpha = u64::from(alpha);
            let sample = [u64::from(red) * alpha, u64::from(green) * alpha, u64::from(blue) * alpha, alpha];
            add(&mut self.row[span.first], sample, span.in_first);
            if span.in_next > 0 {
                add(&mut self.row[span.first + 1], sample, span.in_next);
            }
        }
        let span = self.spans[y];
        for (part, weight) in [(span.first, span.in_first), (span.first + 1, span.in_next)] {
            if weight > 0 {
                let boxes = &mut self.sums[part * self.side..][..self.side];
                boxes.iter_mut().zip(&self.row).for_each(|(sum, &sample)| add(sum, sample, weight));
            }
        }
    }

    /// The small picture, row by row. Where nothing but transparent pixels came, it is black.
    pub(super) fn averages(self) -> Vec<[u8; 4]> {
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

fn add(sum: &mut [u64; 4], sample: [u64; 4], weight: u64) {
    sum.iter_mut().zip(sample).for_each(|(sum, value)| *sum += value * weight);
}

fn rounded(sum: u64, weight: u64) -> u8 {
    u8::try_from((sum + weight / 2) / weight).expect("an average of bytes is a byte")
}
