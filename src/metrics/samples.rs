//! The last hour of this process, for the console: what was counted and read every ten seconds. The
//! samples are bounded and end with the process. To keep more, store what `/metrics` serves.

use std::sync::PoisonError;
use std::time::Duration;

use prometheus::Histogram;
use prometheus::core::Metric as _;

use super::{Gauges, Metrics, SECONDS};
use crate::http::refusal::Code;
use domain::endpoint::Endpoint;

/// How often a sample is taken.
pub const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);
/// Samples that are kept: an hour of them, and the one it begins with.
const SAMPLES_MAX: usize = 361;

/// The counts and findings of one moment.
#[derive(Debug, Clone)]
pub struct Sample {
    /// When, in Unix milliseconds.
    pub at_millis: i64,
    /// How exchanges were answered since the start.
    pub exchanges: AnswerCounts,
    /// What was read.
    pub reading: Gauges,
}

/// How the requests to one endpoint were answered since the start, or between two moments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerCounts {
    /// Successes.
    pub succeeded: u64,
    /// Refusals by the number of their code. Codes of one number are counted together.
    refused: Vec<(u32, u64)>,
    /// Requests that took at most as long as each of the histogram's ends, and then all.
    within: Vec<u64>,
}

impl AnswerCounts {
    /// The answers since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let refused = self.refused.iter().zip(&earlier.refused);
        let within = self.within.iter().zip(&earlier.within);
        Self {
            succeeded: self.succeeded.saturating_sub(earlier.succeeded),
            refused: refused.map(|(now, then)| (now.0, now.1.saturating_sub(then.1))).collect(),
            within: within.map(|(now, then)| now.saturating_sub(*then)).collect(),
        }
    }

    /// All refusals together.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.iter().map(|(_, count)| count).sum()
    }

    /// How often each number was the answer, those that never were left out.
    pub fn by_number(&self) -> impl Iterator<Item = (u32, u64)> {
        self.refused.iter().copied().filter(|(_, count)| *count > 0)
    }

    /// The time that this share of the requests took at most, in seconds, estimated within the
    /// histogram's steps; the last end when it was longer. `None` without a request.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let all = self.within.last().copied().filter(|all| *all > 0)?;
        let rank = share * exact(all);
        let index = self.within.iter().position(|within| exact(*within) >= rank)?;
        let Some(end) = SECONDS.get(index) else { return SECONDS.last().copied() };
        let (begin, before) = match index.checked_sub(1) {
            Some(before) => (SECONDS[before], self.within[before]),
            None => (0.0, 0),
        };
        let in_step = exact(self.within[index] - before);
        Some(begin + (end - begin) * ((rank - exact(before)) / in_step.max(1.0)).clamp(0.0, 1.0))
    }
}

/// Counts of an hour are far below what a float holds exactly.
fn exact(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

impl Metrics {
    /// How exchanges were answered since the start.
    #[must_use]
    pub fn exchanges(&self) -> AnswerCounts {
        let endpoint = Endpoint::Exchange as usize;
        let counted: Vec<u64> = self.requests[endpoint].iter().map(prometheus::IntCounter::get).collect();
        // Success first, then a counter for each code, which codes of one number share.
        let numbers = Code::ALL.into_iter().map(Code::number);
        let mut refused: Vec<(u32, u64)> = numbers.zip(counted.iter().skip(1).copied()).collect();
        refused.sort_unstable();
        refused.dedup_by_key(|(number, _)| *number);
        let succeeded = counted.first().copied().unwrap_or_default();
        AnswerCounts { succeeded, refused, within: within(&self.durations[endpoint]) }
    }

    /// A sample of this moment.
    #[must_use]
    pub fn sample(&self, at_millis: i64, reading: Gauges) -> Sample {
        Sample { at_millis, exchanges: self.exchanges(), reading }
    }

    /// Keeps a sample, and forgets those of more than an hour ago.
    pub fn keep(&self, sample: Sample) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// The samples of the last hour, oldest first.
    #[must_use]
    pub fn last_hour(&self) -> Vec<Sample> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.iter().cloned().collect()
    }
}

fn within(histogram: &Histogram) -> Vec<u64> {
    let metric = histogram.metric();
    let read = metric.get_histogram();
    let ends = read.get_bucket().iter().map(prometheus::proto::Bucket::cumulative_count);
    ends.chain([read.get_sample_count()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(within: [u64; 15]) -> AnswerCounts {
        AnswerCounts { succeeded: 0, refused: Vec::new(), within: within.to_vec() }
    }

    #[test]
    fn a_quantile_lies_in_its_step() {
        let none = answers([0; 15]);
        assert_eq!(none.quantile(0.5), None);
        // Ten requests between 5 and 10 ms.
        let ten = answers([0, 0, 0, 0, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10]);
        let near = |got: Option<f64>, expected: f64| (got.unwrap() - expected).abs() < 1e-9;
        assert!(near(ten.quantile(0.5), 0.0075) && near(ten.quantile(1.0), 0.01));
        // One of two took longer than the last end.
        let slow = answers([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
        assert!(near(slow.quantile(0.99), 10.0) && near(slow.quantile(0.5), 0.0005));
    }

    #[test]
    fn the_difference_of_two_samples_is_what_came_between() {
        let earlier = AnswerCounts { succeeded: 5, refused: vec![(7, 1), (8, 0)], within: vec![3, 6] };
        let now = AnswerCounts { succeeded: 9, refused: vec![(7, 1), (8, 2)], within: vec![4, 12] };
        let between = AnswerCounts { succeeded: 4, refused: vec![(7, 0), (8, 2)], within: vec![1, 6] };
        assert_eq!(now.since(&earlier), between);
        assert_eq!(between.by_number().collect::<Vec<_>>(), [(8, 2)]);
    }
}
