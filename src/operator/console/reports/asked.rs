//! The question of a report: times, apps, and what of them is counted.

use domain::fields::Fields;
use domain::ids::{AppId, Os, ProductText};
use domain::moment::{GivenMoment, rfc3339};
use domain::period::Preset;
use domain::rights::Apps;
use domain::text;
use store::{ItemFilter, OperationError, RevenueFilter, RevenueGroup, RevenueQuery, RevenueReport, Zone};
use time::{Duration, OffsetDateTime};

use super::super::error::ConsoleError;
use super::super::i18n::{said, zone};
use super::super::request::{ConsoleRequest, Filters, address};
use super::super::times::Times;

/// Above this length a chart has days instead of hours.
const HOURS_UP_TO: Duration = Duration::days(2);
/// Above this length it has weeks.
const DAYS_UP_TO: Duration = Duration::days(90);

/// What is asked for.
pub(super) struct ReportQuery {
    pub(super) times: Times,
    pub(super) apps: Apps,
    filter: RevenueFilter,
    /// Whether some of the user's apps are chosen, and not all.
    is_of_some: bool,
}

/// The items that a page is asked for: `product_name` is one by its name, and `item` all that have a part of it.
pub(in super::super) fn read_item(filters: &mut Filters<'_>) -> Option<ItemFilter> {
    let exact = filters.read("product_name", ProductText::parse);
    let part = filters.read("item", ProductText::parse);
    let exact = exact.map(|text| ItemFilter { text, is_part: false });
    exact.or_else(|| part.map(|text| ItemFilter { text, is_part: true }))
}

impl ReportQuery {
    /// Reads `app_id` or `apps`, `zone`, `product_name` or `item`, `os`, and times.
    ///
    /// # Errors
    /// An app that is not the user's.
    pub(super) fn read(
        request: &ConsoleRequest,
        filters: &mut Filters<'_>,
        period: Preset,
    ) -> Result<Self, ConsoleError> {
        let times = Times::read(request, filters, Some(period));
        let one = filters.read("app_id", AppId::parse);
        let some = filters.read("apps", Apps::parse).filter(|apps| !apps.is_all());
        let typed = one.and_then(|app_id| Apps::of([app_id]).ok()).or(some);
        let own = request.apps();
        if let Some(other) = typed.iter().flat_map(Apps::listed).find(|app_id| !own.has(app_id)) {
            return Err(ConsoleError::no_such_app(other));
        }
        let is_of_some = typed.is_some();
        let filter = RevenueFilter {
            zone: filters.read("zone", Zone::parse),
            item: read_item(filters),
            os: filters.read("os", Os::parse),
        };
        Ok(Self { times, apps: typed.unwrap_or_else(|| own.clone()), filter, is_of_some })
    }

    /// The only app.
    pub(super) fn app_id(&self) -> Option<&str> {
        match self.apps.listed() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The app of a list that shows the same, or an empty text for all of the user's apps. A list has one app or all.
    pub(super) fn list_app(&self) -> Option<&str> {
        self.app_id().or_else(|| (!self.is_of_some).then_some(""))
    }

    /// Whether a zone, an item or a platform is chosen.
    pub(super) fn has_filter(&self) -> bool {
        self.filter != RevenueFilter::default()
    }

    /// What is counted, in words.
    pub(super) fn about(&self) -> String {
        let mut words = vec![match self.apps.listed() {
            _ if !self.is_of_some => said(&text!("All apps")),
            [only] => said(&text!("App {app_id}", app_id = only)),
            some => said(&text!("Apps {apps}", apps = some.join(", "))),
        }];
        if let Some(zone) = &self.filter.zone {
            words.push(said(&text!("zone {zone}", zone = zone.without_role())));
        }
        match &self.filter.item {
            Some(ItemFilter { text, is_part: true }) => {
                words.push(said(&text!("items with {text} in their names", text)));
            }
            Some(ItemFilter { text, is_part: false }) => words.push(said(&text!("item {text}", text))),
            None => {}
        }
        if let Some(os) = &self.filter.os {
            words.push(said(&text!("platform {os}", os)));
        }
        words.join(", ")
    }

    /// How long each bar over time is.
    pub(super) fn step(&self, first: Option<OffsetDateTime>) -> RevenueGroup {
        let until = self.until();
        let length = self.times.since.or(first).map(|since| self.times.until.unwrap_or(until) - since);
        match length {
            Some(length) if length <= HOURS_UP_TO => RevenueGroup::Hour,
            Some(length) if length <= DAYS_UP_TO => RevenueGroup::Day,
            _ => RevenueGroup::Week,
        }
    }

    /// The end of what there can be.
    pub(super) fn until(&self) -> OffsetDateTime {
        self.times.until.map_or(self.times.now, |until| until.min(self.times.now))
    }

    /// The query of this span, by these groups.
    pub(super) fn query(
        &self,
        since: Option<OffsetDateTime>,
        until: Option<OffsetDateTime>,
        group: Vec<RevenueGroup>,
    ) -> RevenueQuery {
        RevenueQuery {
            apps: self.apps.clone(),
            filter: self.filter.clone(),
            since: since.map(GivenMoment::Fixed),
            until: until.map(GivenMoment::Fixed),
            group,
            time_zone: zone(),
        }
    }

    pub(super) async fn revenue(
        &self,
        request: &ConsoleRequest,
        group: Vec<RevenueGroup>,
    ) -> Result<RevenueReport, OperationError> {
        let query = self.query(self.times.since, self.times.until, group);
        request.state.store.revenue(query).await
    }

    /// The list of the exchanges of a bar: those that are counted, with these fields besides.
    pub(super) fn exchanges(&self, fields: &[(&str, &str)]) -> Option<String> {
        let app_id = match fields.iter().find(|(name, _)| *name == "app_id") {
            Some((_, app_id)) => app_id,
            None => self.list_app()?,
        };
        let time = |at: Option<OffsetDateTime>| at.map(rfc3339).unwrap_or_default();
        let (from, to) = (time(self.times.since), time(self.times.until));
        let zone = self.filter.zone.as_ref().map_or("", Zone::without_role);
        let item = |is_part| {
            self.filter
                .item
                .as_ref()
                .filter(|item| item.is_part == is_part)
                .map_or("", |item| item.text.as_str())
        };
        let all = [
            ("app_id", app_id),
            ("kind", "exchange"),
            ("from", &from),
            ("to", &to),
            ("zone", zone),
            ("product_name", item(false)),
            ("item", item(true)),
            ("os", self.filter.os.as_ref().map_or("", Os::as_str)),
        ];
        let kept = all.into_iter().filter(|(name, _)| fields.iter().all(|(other, _)| other != name));
        // An item by its name says more than a part of it.
        let has_name = fields.iter().any(|(name, _)| *name == "product_name");
        let kept = kept.filter(|(name, _)| !(has_name && *name == "item"));
        let other = fields.iter().copied();
        Some(address("/console/exchanges", &Fields::default(), &kept.chain(other).collect::<Vec<_>>()))
    }

    /// The name of a file: what it has, the app, and the day with which it begins.
    pub(super) fn file_name(&self, what: &str) -> String {
        let day = self.times.since.map(|since| format!("-{}", zone().day_of(since))).unwrap_or_default();
        format!("{what}-{}{day}", self.app_id().unwrap_or("apps"))
    }
}

/// The ids in the form.
pub(super) fn typed_apps(request: &ConsoleRequest) -> String {
    let typed = request.text("apps");
    if typed.is_empty() { request.text("app_id").to_owned() } else { typed.to_owned() }
}

/// The address of another page for the same.
pub(super) fn visit_address(request: &ConsoleRequest, path: &str, changed: &[(&str, &str)]) -> String {
    address(path, &request.fields, changed)
}

/// The file with these groups.
pub(super) fn csv(request: &ConsoleRequest, group: &str) -> String {
    visit_address(request, "/console/reports/revenue.csv", &[("group", group)])
}
