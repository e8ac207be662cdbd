//! Requests by app. Strangers cannot make a series, and the number of series is bounded. An app has its own label if it
//! is one of the first [`APPS_MAX`] that were named here. It keeps the label until the process ends. All others share
//! the label `other`. So no counter ever goes backwards. The server names the busiest apps of the last day when it
//! starts, and then each app at its first request.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use domain::endpoint::Endpoint;
use domain::ids::AppId;
use prometheus::{IntCounter, IntCounterVec, Registry};
use telemetry::metrics::{Named, counters};

use crate::http::refusal::Code;

/// How many apps have a label of their own.
pub const APPS_MAX: usize = 100;
/// The label of all others. An app of this name shares it.
const OTHER: &str = "other";

/// The one metric that tells of single apps.
pub(super) const NAME: &str = "minitill_app_requests_total";

const REQUESTS: Named = (
    NAME,
    "Requests whose token or secret was right, by app, endpoint and code of the answer; 1 is success.",
);

/// The counters of one label: by endpoint, then success and every row of the code table. Each is made when it
/// is first needed.
type Series = Vec<Vec<OnceLock<IntCounter>>>;

/// Requests by app.
#[derive(Debug)]
pub(super) struct AppRequests {
    counters: IntCounterVec,
    named: RwLock<HashMap<AppId, Arc<Series>>>,
    others: Arc<Series>,
}

impl AppRequests {
    pub(super) fn new(registry: &Registry) -> Self {
        let counters = counters(registry, REQUESTS, &["app", "endpoint", "code"]);
        Self { counters, named: RwLock::default(), others: series() }
    }

    /// The series of an app, which gets a label if there is one left.
    pub(super) fn name(&self, app_id: &AppId) -> Arc<Series> {
        {
            let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(series) = named.get(app_id) {
                return Arc::clone(series);
            }
            if named.len() >= APPS_MAX {
                return Arc::clone(&self.others);
            }
        }
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        // Others may have come in between.
        if named.len() >= APPS_MAX && !named.contains_key(app_id) {
            return Arc::clone(&self.others);
        }
        Arc::clone(named.entry(app_id.clone()).or_insert_with(series))
    }

    /// Counts an answer: a success where there is no code.
    pub(super) fn answered(&self, app_id: &AppId, endpoint: Endpoint, code: Option<Code>) {
        let series = self.name(app_id);
        let counter = series[endpoint as usize][code.map_or(0, |code| code as usize + 1)].get_or_init(|| {
            let app = if Arc::ptr_eq(&series, &self.others) { OTHER } else { app_id.as_str() };
            let number = code.map_or(1, Code::number).to_string();
            self.counters.with_label_values(&[app, endpoint.as_str(), &number])
        });
        counter.inc();
    }
}

fn series() -> Arc<Series> {
    let codes = || (0..=Code::ALL.len()).map(|_| OnceLock::new()).collect();
    Arc::new(Endpoint::ALL.iter().map(|_| codes()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule: 100 apps have a label for ever, in the order in which they came; the rest are counted together.
    #[test]
    fn the_number_of_labels_is_bounded_and_no_counter_goes_backwards() {
        let requests = AppRequests::new(&Registry::new());
        let app = |number: usize| AppId::parse(&format!("a{number}")).unwrap();
        for round in 0..3 {
            // In another order each time.
            for number in 0..150 {
                requests.answered(
                    &app(if round == 0 { number } else { 149 - number }),
                    Endpoint::Exchange,
                    None,
                );
            }
        }
        let counted = |app: &str| requests.counters.with_label_values(&[app, "exchange", "1"]).get();
        assert_eq!((counted("a0"), counted("a99"), counted(OTHER)), (3, 3, 150));
        assert_eq!(requests.named.read().unwrap().len(), APPS_MAX);
        let refused = Some(Code::BadSignature);
        requests.answered(&app(149), Endpoint::OrderReport, refused);
        requests.answered(&app(1), Endpoint::OrderReport, refused);
        let counted =
            |app: &str| requests.counters.with_label_values(&[app, "order_report", "100200114"]).get();
        assert_eq!((counted("a1"), counted(OTHER)), (1, 1));
    }
}
