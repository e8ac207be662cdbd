//! The search of the header: whatever number or id an operator holds, it finds what has it. A single hit
//! redirects to its page.

use askama::Template;
use axum::response::{IntoResponse as _, Redirect};
use axum::routing::get;
use domain::fields::Fields;
use domain::ids::{AppId, BizNo, OpenId, OrderNo};
use domain::rights::Apps;
use domain::text;
use store::{EntryKind, ImageFilter, ImageKey, OrderFilter, PaymentMatch, PlayerFilter, Store, StoreError};

use super::exchange::{exchange_path, parse_number, path_of};
use super::i18n::said;
use super::page::{Page, Section, render_search};
use super::player::player_path;
use super::request::{Answer, ConsoleRequest, address};
use super::route::ConsoleRoute;
use super::topups::payment_path;

pub(super) const ROUTES: &[ConsoleRoute] =
    &[ConsoleRoute::page("/console/search", || get(search)).of_own_apps()];

/// Hits of one kind that a page shows.
const HITS_MAX: u32 = 20;

/// Hits of one kind.
pub(super) struct Group {
    /// What they are.
    pub(super) kind: &'static str,
    pub(super) hits: Vec<Hit>,
}

/// What has the text that was searched.
pub(super) struct Hit {
    /// Its page.
    pub(super) path: String,
    /// Its number or id.
    pub(super) name: String,
    pub(super) app_id: String,
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage<'a> {
    page: Page<'a>,
    is_empty: bool,
    groups: Vec<Group>,
}

async fn search(request: ConsoleRequest) -> Answer {
    let mut filters = request.filters();
    let text = filters.read("q", parse_number);
    let wrong = filters.wrong;
    let groups = match &text {
        Some(text) => find(&request.state.store, request.apps(), text).await?,
        None => Vec::new(),
    };
    if let [Group { hits, .. }] = groups.as_slice()
        && let [only] = hits.as_slice()
    {
        return Ok(Redirect::to(&only.path).into_response());
    }
    let page = Page { title: said(&text!("Search")), section: None, ..request.page(Section::OVERVIEW, "") };
    render_search(&SearchPage { page: page.marking(&wrong), is_empty: text.is_none(), groups }, &wrong)
}

/// What has this number or id in these apps, in the groups that have a hit. Players whose `open_id` only begins
/// with the text count where nothing else is found.
pub(super) async fn find(store: &Store, of: &Apps, text: &str) -> Result<Vec<Group>, StoreError> {
    let apps = match AppId::parse(text) {
        Ok(app_id) if of.has(text) => store.list_apps(Some(&app_id)).await?,
        _ => Vec::new(),
    };
    let apps = apps.into_iter().map(|app| {
        let name = app.app_id.to_string();
        Hit { path: format!("/console/apps/{name}"), app_id: name.clone(), name }
    });
    let (players, alike): (Vec<Hit>, Vec<Hit>) =
        players(store, of, text).await?.into_iter().partition(|hit| hit.name == text);
    let mut payments = payments(store, of, text).await?;
    let ledger = ledger(store, of, text, &payments).await?;
    let mut refused = store.find_refused_number(of, text, HITS_MAX).await?;
    // The page of an exchange shows its refusals too.
    refused.retain(|number| ledger.iter().all(|hit| hit.app_id != number.app_id));
    let refused = refused.into_iter().map(|number| Hit {
        path: exchange_path(&number.app_id, &number.name),
        name: number.name,
        app_id: number.app_id,
    });
    let topup_orders = topup_orders(store, of, text, &payments).await?;
    // After the orders: the id of a refund names no order.
    for hit in refunded_payments(store, of, text).await? {
        if payments.iter().all(|known| known.path != hit.path) {
            payments.push(hit);
        }
    }
    let groups = [
        Group { kind: "Apps", hits: apps.collect() },
        Group { kind: "Players", hits: players },
        Group { kind: "Exchanges and credits", hits: ledger },
        Group { kind: "Refused numbers", hits: refused.collect() },
        Group { kind: "Orders of top-ups", hits: topup_orders },
        Group { kind: "Payments of top-ups", hits: payments },
        Group { kind: "Orders", hits: orders(store, of, text).await? },
        Group { kind: "Images", hits: images(store, of, text).await? },
    ];
    let mut groups: Vec<Group> = groups.into_iter().filter(|group| !group.hits.is_empty()).collect();
    if groups.is_empty() && !alike.is_empty() {
        groups.push(Group { kind: "Players that begin with it", hits: alike });
    }
    Ok(groups)
}

async fn players(store: &Store, of: &Apps, text: &str) -> Result<Vec<Hit>, StoreError> {
    let Ok(open_id) = OpenId::parse(text) else { return Ok(Vec::new()) };
    let filter = PlayerFilter { apps: of.clone(), app_id: None, open_id: Some(open_id.clone()) };
    let found = store.find_players(&filter, None, HITS_MAX).await?.items.into_iter();
    let known = found.map(|wallet| Hit {
        path: player_path(&wallet.app_id, &wallet.open_id),
        name: wallet.open_id,
        app_id: wallet.app_id,
    });
    let refused = store.find_refused_player(of, &open_id, HITS_MAX).await?.into_iter();
    let unknown = refused.map(|player| Hit {
        path: player_path(&player.app_id, &player.name),
        name: player.name,
        app_id: player.app_id,
    });
    Ok(known.chain(unknown).collect())
}

/// Ledger entries with this `biz_no` or ref. The page of a payment leads to the entries of the payment.
async fn ledger(store: &Store, of: &Apps, text: &str, payments: &[Hit]) -> Result<Vec<Hit>, StoreError> {
    let of_payment = [EntryKind::Topup.as_str(), EntryKind::Settlement.as_str()];
    let mut found = store.find_reference_among(of, None, text, HITS_MAX).await?;
    found.retain(|entry| {
        let is_of_hit = |hit: &Hit| hit.app_id == entry.app_id && hit.name == entry.reference;
        !(of_payment.contains(&entry.kind.as_str()) && payments.iter().any(is_of_hit))
    });
    let hits = found.into_iter().map(|entry| Hit {
        path: path_of(&entry),
        name: entry.reference,
        app_id: entry.app_id,
    });
    Ok(hits.collect())
}

/// Payments of top-ups with this id of the provider, and those that paid or name the order with this number.
async fn payments(store: &Store, of: &Apps, text: &str) -> Result<Vec<Hit>, StoreError> {
    let found = store.find_payments(of, text, HITS_MAX).await?.into_iter();
    Ok(found.map(payment_hit).collect())
}

/// Payments of which a refund has this id of the provider.
async fn refunded_payments(store: &Store, of: &Apps, text: &str) -> Result<Vec<Hit>, StoreError> {
    let found = store.find_refunded_payments(of, text, HITS_MAX).await?.into_iter();
    Ok(found.map(payment_hit).collect())
}

fn payment_hit(payment: PaymentMatch) -> Hit {
    Hit {
        path: payment_path(&payment.app_id, &payment.provider, &payment.provider_order_id),
        name: format!("{}/{}", payment.provider, payment.provider_order_id),
        app_id: payment.app_id,
    }
}

/// Orders of top-ups with this number. The page of a payment shows its order; the top-ups of the player show the others.
async fn topup_orders(
    store: &Store,
    of: &Apps,
    text: &str,
    payments: &[Hit],
) -> Result<Vec<Hit>, StoreError> {
    let Ok(biz_no) = BizNo::parse(text) else { return Ok(Vec::new()) };
    let mut found = store.find_topup_orders(of, &biz_no, HITS_MAX).await?;
    found.retain(|order| payments.iter().all(|hit| hit.app_id != order.app_id));
    let hits = found.into_iter().map(|order| Hit {
        path: address(
            Section::TOPUPS.path,
            &Fields::default(),
            &[("app_id", &order.app_id), ("open_id", &order.open_id)],
        ),
        name: biz_no.to_string(),
        app_id: order.app_id,
    });
    Ok(hits.collect())
}

/// Orders with this order number or payment number.
async fn orders(store: &Store, of: &Apps, text: &str) -> Result<Vec<Hit>, StoreError> {
    let Ok(number) = OrderNo::parse(text) else { return Ok(Vec::new()) };
    let filter = OrderFilter { apps: of.clone(), number: Some(number), ..OrderFilter::default() };
    let found = store.orders(&filter, HITS_MAX).await?.items.into_iter();
    let hits = found.map(|order| Hit {
        path: format!("/console/apps/{}/orders/{}", order.app_id, order.out_biz_order_no),
        name: order.out_biz_order_no.to_string(),
        app_id: order.app_id.to_string(),
    });
    Ok(hits.collect())
}

/// Images with this id or SHA-256.
async fn images(store: &Store, of: &Apps, text: &str) -> Result<Vec<Hit>, StoreError> {
    let Ok(key) = ImageKey::parse(text) else { return Ok(Vec::new()) };
    let filter = ImageFilter { apps: of.clone(), key: Some(key), ..ImageFilter::default() };
    let found = store.images(&filter, HITS_MAX).await?.items.into_iter();
    let hits = found.map(|image| Hit {
        path: format!("/console/images/{}", image.img_id),
        name: image.img_id.to_string(),
        app_id: image.app_id.to_string(),
    });
    Ok(hits.collect())
}
